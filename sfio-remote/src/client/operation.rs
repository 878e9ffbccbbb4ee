//! One operation: what it transfers to and from each I/O node, in stages, and its answer.

use std::sync::Arc;

use fec_transport::overlay::MemberId;

use super::action::{Answer, Durability, FileId};
use super::file::{FileStat, Layout};
use super::growth::{self, Written};
use super::{OperationError, reading};
use crate::distribution::SubfileIndex;
use crate::name::SubfilePath;
use crate::remote_error::{ErrorKind, RemoteError};
use crate::request::{Batch, Cursor, ReadBuffer, SubfileAccess, WriteList};
use crate::wire::RequestKind;

/// An operation under way.
#[derive(Debug)]
pub(super) struct Operation {
    pub(super) goal: Goal,
    pub(super) durable: bool,
    pub(super) parts: Vec<Part>,
    /// How many parts are not finished.
    pub(super) unfinished: usize,
    /// Numbers the transfers.
    pub(super) next_transfer: u32,
}

/// What the parts of an operation add up to.
#[derive(Debug)]
pub(super) enum Goal {
    /// Each part did something, and that is all.
    Done,
    /// The file can be opened if its subfiles are there.
    Open { layout: Arc<Layout>, durability: Durability, truncated: bool },
    /// The sizes of all subfiles.
    Stat(Arc<Layout>),
    /// Bytes for the caller.
    Read { layout: Arc<Layout>, buffer: ReadBuffer },
    /// Bytes of the caller; a part without payload asks for the size of the witness (see [`growth`]).
    Write(WriteGoal),
    /// The write's data is there; subfiles that it did not touch grow.
    Grow { file: FileId, end: u64 },
    /// The file has a new length.
    SetLength { file: FileId, length: u64 },
    /// Those subfiles that there are, are gone.
    Remove { name: String },
    /// Counters of one I/O node.
    ErrorCounters,
}

/// What a write must know when its data has arrived.
#[derive(Debug)]
pub(super) struct WriteGoal {
    pub(super) file: FileId,
    pub(super) layout: Arc<Layout>,
    pub(super) known_length: u64,
    /// Where it ends in the logical file.
    pub(super) end: u64,
    pub(super) witness: Option<SubfileIndex>,
    pub(super) list: WriteList,
}

/// What an operation does at one subfile.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) member: MemberId,
    pub(super) work: Work,
    /// Transfers under way.
    pub(super) running: usize,
    /// If each stripe is a transfer of its own: how many may be under way at once.
    pub(super) stripes_at_once: Option<usize>,
    /// Whether it waits for one of its own transfers to end, and for nothing else.
    pub(super) held_back: bool,
    /// The smallest size that a reply told; none before the first reply, or if the subfile does not exist.
    pub(super) size: Option<u64>,
    /// The offset in the subfile of the first byte that a read did not get.
    pub(super) end_of_subfile: Option<u64>,
    /// The payload of a reply that is no file's.
    pub(super) payload: Vec<u8>,
}

/// How a part becomes transfers.
#[derive(Debug)]
pub(super) enum Work {
    /// One request without a payload.
    Single { kind: RequestKind, sent: bool },
    /// As many as it takes.
    Access { path: SubfilePath, access: SubfileAccess, next: Cursor },
}

/// What follows when all parts are finished.
pub(super) enum Outcome {
    /// The operation has an answer.
    Answered(Result<Answer, OperationError>),
    /// The file is open from now on.
    Opened { layout: Arc<Layout>, durability: Durability, stat: FileStat },
    /// There is a further stage.
    Continue(Operation),
}

impl Part {
    pub(super) fn single(member: MemberId, kind: RequestKind) -> Part {
        Part::new(member, Work::Single { kind, sent: false })
    }

    pub(super) fn access(access: SubfileAccess, path: SubfilePath, stripes_at_once: Option<usize>) -> Part {
        let part = Part::new(access.member(), Work::Access { path, access, next: Cursor::default() });
        Part { stripes_at_once, ..part }
    }

    fn new(member: MemberId, work: Work) -> Part {
        Part {
            member,
            work,
            running: 0,
            stripes_at_once: None,
            held_back: false,
            size: None,
            end_of_subfile: None,
            payload: Vec::new(),
        }
    }

    /// The request of the next transfer, of at most `limit` bytes of payload; none if all have begun.
    pub(super) fn next_request(&mut self, writes: bool, limit: u64) -> Option<(RequestKind, Option<Batch>)> {
        let request = match &mut self.work {
            Work::Single { sent: true, .. } => return None,
            Work::Single { kind, sent } => {
                *sent = true;
                (kind.clone(), None)
            }
            Work::Access { path, access, next } => {
                let limit = match self.stripes_at_once {
                    Some(_) => access.stripe_rest(*next).min(limit),
                    None => limit,
                };
                let batch = access.next_batch(next, limit)?;
                let (path, runs) = (path.clone(), batch.runs.clone());
                let kind =
                    if writes { RequestKind::Write { path, runs } } else { RequestKind::Read { path, runs } };
                (kind, Some(batch))
            }
        };
        self.running += 1;
        Some(request)
    }

    /// Whether there are transfers that have not begun.
    pub(super) fn has_more(&self) -> bool {
        match &self.work {
            Work::Single { sent, .. } => !sent,
            Work::Access { access, next, .. } => !access.is_finished(*next),
        }
    }

    /// Whether it may begin another transfer while those are under way that are.
    pub(super) fn may_begin(&self) -> bool {
        self.stripes_at_once.is_none_or(|most| self.running < most)
    }

    /// The path of the subfile; none for requests to the I/O node itself.
    pub(super) fn path(&self) -> Option<&SubfilePath> {
        match &self.work {
            Work::Single { kind, .. } => kind.path(),
            Work::Access { path, .. } => Some(path),
        }
    }

    pub(super) fn subfile_access(&self) -> Option<&SubfileAccess> {
        match &self.work {
            Work::Access { access, .. } => Some(access),
            Work::Single { .. } => None,
        }
    }

    /// A reply told the size of the subfile.
    pub(super) fn note_size(&mut self, size: u64) {
        self.size = Some(self.size.map_or(size, |known| known.min(size)));
    }

    /// Of what one transfer of a read asked for, this many bytes came.
    pub(super) fn note_payload(&mut self, batch: &Batch, payload: u64) {
        if let Work::Access { access, .. } = &self.work
            && payload < batch.runs.payload()
        {
            let end = access.offset_at(batch.start, payload);
            self.end_of_subfile = Some(self.end_of_subfile.map_or(end, |known| known.min(end)));
        }
    }
}

impl Operation {
    pub(super) fn new(goal: Goal, durable: bool, parts: Vec<Part>) -> Operation {
        // A file has far fewer subfiles than there are numbers.
        let next_transfer = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        Operation { goal, durable, unfinished: parts.len(), parts, next_transfer }
    }

    /// Whether the operation can live with that failure of one part.
    pub(super) fn tolerates(&self, error: &RemoteError) -> bool {
        let may_be_missing = matches!(self.goal, Goal::Open { .. } | Goal::Stat(_) | Goal::Remove { .. });
        may_be_missing && error.kind == ErrorKind::NotFound
    }

    /// What follows now that all parts are finished.
    pub(super) fn finish(self) -> Outcome {
        let Operation { goal, durable, parts, .. } = self;
        let sizes = || parts.iter().map(|part| part.size).collect::<Vec<_>>();
        let answer = match goal {
            Goal::Done | Goal::Grow { .. } | Goal::SetLength { .. } => Ok(Answer::Done),
            Goal::Open { layout, durability, truncated } => {
                let sizes = if truncated { vec![Some(0); parts.len()] } else { sizes() };
                return opened(layout, durability, sizes);
            }
            Goal::Stat(layout) => found(&layout, sizes()).map(Answer::Stat),
            Goal::Read { layout, buffer } => Ok(Answer::Data(reading::finish(&layout, buffer, &parts))),
            Goal::Write(write) => {
                let grow = Goal::Grow { file: write.file, end: write.end };
                return Outcome::Continue(Operation::new(grow, durable, parts_to_grow(&write, &parts)));
            }
            Goal::Remove { name } if sizes().iter().all(Option::is_none) => {
                Err(OperationError::NotFound { name })
            }
            Goal::Remove { .. } => Ok(Answer::Done),
            Goal::ErrorCounters => Ok(reading::error_counters(&parts)),
        };
        Outcome::Answered(answer)
    }
}

fn found(layout: &Layout, sizes: Vec<Option<u64>>) -> Result<FileStat, OperationError> {
    if sizes.iter().all(Option::is_none) {
        return Err(OperationError::NotFound { name: layout.name.to_string() });
    }
    Ok(FileStat::new(layout, sizes))
}

fn opened(layout: Arc<Layout>, durability: Durability, sizes: Vec<Option<u64>>) -> Outcome {
    let stat = match found(&layout, sizes) {
        Ok(stat) => stat,
        Err(error) => return Outcome::Answered(Err(error)),
    };
    match stat.missing() {
        missing if missing.is_empty() => Outcome::Opened { layout, durability, stat },
        missing => Outcome::Answered(Err(OperationError::Incomplete { missing })),
    }
}

/// The parts that extend the subfiles that a write left short.
fn parts_to_grow(write: &WriteGoal, parts: &[Part]) -> Vec<Part> {
    let WriteGoal { layout, known_length, end, witness, .. } = write;
    let written = |part: &Part| {
        let size_before = part.size.unwrap_or(0);
        match part.subfile_access() {
            Some(access) => Some(Written { subfile: access.subfile(), end: access.end(), size_before }),
            None => witness.map(|subfile| Written { subfile, end: 0, size_before }),
        }
    };
    let written: Vec<Written> = parts.iter().filter_map(written).collect();
    let part = |(subfile, length): (SubfileIndex, u64)| {
        let kind = RequestKind::Grow { path: layout.path(subfile).clone(), length };
        Part::single(layout.holders[subfile.index()], kind)
    };
    growth::needed(&layout.distribution, *known_length, *end, &written).into_iter().map(part).collect()
}
