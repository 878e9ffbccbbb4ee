//! Codec jobs: what somebody with time and processors does for a state machine that has neither.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;

use super::{Codec, Coder, Format, UnpackError};

/// Which of the two state machines of a process asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Client,
    IoNode,
}

/// Names a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct JobTicket {
    side: Side,
    number: u64,
}

/// Something to pack, to unpack, or to try codecs on.
#[derive(Debug)]
pub struct CodecJob {
    ticket: JobTicket,
    work: CodecWork,
}

/// What is to be done.
#[derive(Debug, Clone)]
pub(crate) enum CodecWork {
    /// Pack these pieces, one behind the other.
    Pack { codec: Codec, pieces: Vec<Bytes> },
    /// Have them back.
    Unpack { format: Format, packed: Bytes, plain: usize },
    /// Find out what codecs make of these pieces.
    Try { codecs: Vec<Codec>, pieces: Vec<Bytes> },
}

/// What came of a job.
#[derive(Debug)]
pub struct CodecResult {
    pub(crate) ticket: JobTicket,
    pub(crate) outcome: CodecOutcome,
    /// How many processors had nothing else to do lately.
    pub(crate) idle_processors: f64,
}

#[derive(Debug)]
pub(crate) enum CodecOutcome {
    /// None if they do not become shorter.
    Packed {
        packed: Option<Bytes>,
        trial: Trial,
    },
    Unpacked(Result<Bytes, UnpackError>),
    Tried(Vec<Trial>),
}

/// What a codec did with a piece of data.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Trial {
    /// The codec.
    pub codec: Codec,
    /// How many bytes there were.
    pub plain: usize,
    /// How many it left; as many if it would have been more.
    pub packed: usize,
    /// How long one processor packed.
    pub packing: Duration,
    /// How long one processor unpacked; none if that was not tried.
    pub unpacking: Option<Duration>,
}

impl Trial {
    /// What a codec makes of some bytes, and what that was like.
    pub(crate) fn packing(
        processor: &mut dyn Processor,
        codec: Codec,
        plain: &[u8],
    ) -> (Option<Vec<u8>>, Trial) {
        let (packed, packing) = processor.pack(codec, plain);
        let length = packed.as_ref().map_or(plain.len(), Vec::len);
        (packed, Trial { codec, plain: plain.len(), packed: length, packing, unpacking: None })
    }

    /// Whether no other codec is worth a trial on the same bytes, which are zeros or the like: two levels of Zstandard
    /// left nothing, and the higher ones take longer. LZ4 leaves more of zeros than there need be.
    pub fn are_enough(trials: &[Trial]) -> bool {
        let is_nothing = |trial: &&Trial| (trial.packed as f64) < NOTHING * trial.plain as f64;
        let of_zstandard = trials.iter().filter(|trial| matches!(trial.codec, Codec::Zstd(_)));
        of_zstandard.filter(is_nothing).count() >= 2
    }
}

/// What is less than such a share of the bytes is nothing.
const NOTHING: f64 = 0.01;

/// Who carries jobs out, and how long that takes: a real processor with a clock, or the model of one.
pub trait Processor {
    /// As [`Coder::pack`], and how long it took.
    fn pack(&mut self, codec: Codec, plain: &[u8]) -> (Option<Vec<u8>>, Duration);

    /// As [`Coder::unpack`], and how long it took.
    fn unpack(
        &mut self,
        format: Format,
        packed: &[u8],
        plain: usize,
    ) -> (Result<Vec<u8>, UnpackError>, Duration);

    /// How many processors have nothing else to do than jobs.
    fn idle(&mut self) -> f64;
}

impl CodecJob {
    /// Carries it out.
    pub fn perform(self, processor: &mut dyn Processor) -> CodecResult {
        let outcome = match self.work {
            CodecWork::Pack { codec, pieces } => {
                let plain = joined(pieces);
                let (packed, trial) = Trial::packing(processor, codec, &plain);
                CodecOutcome::Packed { packed: packed.map(Bytes::from), trial }
            }
            CodecWork::Unpack { format, packed, plain } => {
                CodecOutcome::Unpacked(processor.unpack(format, &packed, plain).0.map(Bytes::from))
            }
            CodecWork::Try { codecs, pieces } => {
                CodecOutcome::Tried(try_codecs(processor, &codecs, &joined(pieces)))
            }
        };
        CodecResult { ticket: self.ticket, outcome, idle_processors: processor.idle() }
    }
}

/// What codecs do with some bytes, there and back, one after the other, up to one with which nothing is left to gain.
pub(crate) fn try_codecs(processor: &mut dyn Processor, codecs: &[Codec], plain: &[u8]) -> Vec<Trial> {
    let mut trials = Vec::new();
    for codec in codecs {
        let (packed, trial) = Trial::packing(processor, *codec, plain);
        let unpacking = packed.map(|packed| processor.unpack(codec.format(), &packed, plain.len()).1);
        trials.push(Trial { unpacking, ..trial });
        if Trial::are_enough(&trials) {
            break;
        }
    }
    trials
}

/// The pieces as one; a single one is not copied.
fn joined(mut pieces: Vec<Bytes>) -> Bytes {
    match pieces.len() {
        1 => pieces.swap_remove(0),
        _ => pieces.concat().into(),
    }
}

/// Jobs that wait or are under way, and to whom their results belong.
#[derive(Debug)]
pub(crate) struct JobQueue<O> {
    side: Side,
    /// How many are under way at most.
    at_most: usize,
    last: u64,
    waiting: VecDeque<CodecJob>,
    owners: BTreeMap<JobTicket, O>,
    under_way: usize,
    idle_processors: f64,
}

impl<O> JobQueue<O> {
    pub(crate) fn new(side: Side, at_most: usize) -> JobQueue<O> {
        JobQueue {
            side,
            at_most: at_most.max(1),
            last: 0,
            waiting: VecDeque::new(),
            owners: BTreeMap::new(),
            under_way: 0,
            // Until a job has told: one, which is what somebody with nothing else to do has at least.
            idle_processors: 1.0,
        }
    }

    pub(crate) fn submit(&mut self, owner: O, work: CodecWork) -> JobTicket {
        self.last += 1;
        let ticket = JobTicket { side: self.side, number: self.last };
        self.owners.insert(ticket, owner);
        self.waiting.push_back(CodecJob { ticket, work });
        ticket
    }

    /// The next job, if another one may be under way.
    pub(crate) fn poll(&mut self) -> Option<CodecJob> {
        let job = if self.under_way < self.at_most { self.waiting.pop_front() } else { None };
        self.under_way += usize::from(job.is_some());
        job
    }

    /// Whether so many jobs wait that another one would only be decided on too early.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.len() >= self.at_most
    }

    /// A job has ended; gives to whom its result belongs, unless that is gone.
    pub(crate) fn ended(&mut self, result: &CodecResult) -> Option<O> {
        self.under_way = self.under_way.saturating_sub(1);
        self.idle_processors = result.idle_processors;
        self.owners.remove(&result.ticket)
    }

    /// Nobody wants these results any more.
    pub(crate) fn cancel(&mut self, is_gone: impl Fn(&O) -> bool) {
        self.owners.retain(|_, owner| !is_gone(owner));
        self.waiting.retain(|job| self.owners.contains_key(&job.ticket));
    }

    /// How many processors had nothing else to do when the last job ended.
    pub(crate) fn idle_processors(&self) -> f64 {
        self.idle_processors
    }
}

impl CodecResult {
    pub(crate) fn side(&self) -> Side {
        self.ticket.side
    }
}

/// A processor of which nobody asks how long it takes.
impl Processor for Coder {
    fn pack(&mut self, codec: Codec, plain: &[u8]) -> (Option<Vec<u8>>, Duration) {
        (Coder::pack(self, codec, plain), Duration::ZERO)
    }

    fn unpack(
        &mut self,
        format: Format,
        packed: &[u8],
        plain: usize,
    ) -> (Result<Vec<u8>, UnpackError>, Duration) {
        (Coder::unpack(self, format, packed, plain), Duration::ZERO)
    }

    fn idle(&mut self) -> f64 {
        1.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::Level;
    use super::*;

    fn work() -> CodecWork {
        CodecWork::Pack {
            codec: Codec::Lz4,
            pieces: vec![Bytes::from(vec![7; 500]), Bytes::from(vec![7; 500])],
        }
    }

    #[test]
    fn so_many_jobs_are_under_way_and_those_of_whoever_is_gone_never_begin() {
        let mut queue = JobQueue::new(Side::Client, 2);
        for owner in [1, 2, 3, 3, 4] {
            queue.submit(owner, work());
        }
        let first = queue.poll().expect("a job");
        let second = queue.poll().expect("a job");
        assert!(queue.poll().is_none(), "two are under way");
        queue.cancel(|owner| [2, 3].contains(owner));
        let result = |job: CodecJob| job.perform(&mut Coder::default());
        assert_eq!(queue.ended(&result(second)), None, "its owner is gone");
        assert_eq!(queue.ended(&result(first)), Some(1));
        let last = queue.poll().expect("a job");
        assert_eq!(queue.ended(&result(last)), Some(4));
        assert!(queue.poll().is_none());
    }

    #[test]
    fn pieces_are_packed_as_one() {
        let mut queue = JobQueue::new(Side::IoNode, 1);
        let ticket = queue.submit((), work());
        let result = queue.poll().expect("a job").perform(&mut Coder::default());
        assert_eq!(result.ticket, ticket);
        let CodecOutcome::Packed { packed: Some(packed), trial } = result.outcome else { panic!("packed") };
        assert_eq!((trial.plain, trial.packed), (1_000, packed.len()));
        assert_eq!(Coder::default().unpack(Format::Lz4, &packed, 1_000), Ok(vec![7; 1_000]));
    }

    #[test]
    fn of_zeros_two_levels_of_zstandard_are_tried_and_of_other_bytes_all_codecs() {
        let codecs =
            [Codec::Lz4, Codec::Zstd(Level::of(-5)), Codec::Zstd(Level::of(1)), Codec::Zstd(Level::of(3))];
        let tried = |plain: &[u8]| {
            let trials = try_codecs(&mut Coder::default(), &codecs, plain);
            trials.iter().map(|trial| trial.codec).collect::<Vec<_>>()
        };
        assert_eq!(tried(&[0; 100_000]), codecs[..3]);
        let text: Vec<u8> = (0..20_000_u32).flat_map(|number| (number * number).to_le_bytes()).collect();
        assert_eq!(tried(&text), codecs);
    }
}
