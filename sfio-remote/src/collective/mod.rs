//! Collective calls: what all ranks of a parallel program read or write of a file at the same step, done together.
//!
//! Many ranks with many small pieces each would ask each I/O node for each of them, over sessions of their own. In two
//! phases a few of them, the **aggregators**, collect the pieces by the network between the ranks, and ask the I/O
//! nodes for large ones. `[tpc §3]`, docs/collective.md
//!
//! ```text
//!  each rank                                                       each aggregator, too
//!    │ st1  its list to run tables
//!    │ st2  announcement to all: which call, from where to where      (another call: an error on all ranks)
//!    │ st3  file domains: which byte belongs to which aggregator
//!    │ st4  its run tables, split by domain
//!    │ st5  run tables ────────────────────────────────────────────▶  rounds of `buffer_bytes`
//!    │ st6                       ◀──────────── grant up to an offset ─┤ at most two are under way
//!    │      data up to there ──────────────────────────────────────▶  union of what came
//!    │ st7                                                            └▶ one list write for each round
//!    ▼      all tell all how it ended
//! ```
//!
//! Holes between pieces are never filled, and nothing is read back: lists carry them as they are. A read is the same
//! with the data on its way back, and without grants.
//!
//! [`Participant`] is one rank of a [`Group`] and does no I/O: messages go through the group, and work at the file is
//! given out as [`FileWork`] and comes back as [`WorkDone`]. The module `io::collective` has groups of threads and
//! drives all of it.

mod assignment;
mod board;
mod call;
mod domains;
mod error;
mod exchange;
mod group;
mod job;
mod message;
mod payload;
mod pieces;
mod report;
mod shape;
mod work;

pub use domains::Domains;
pub use error::CollectiveError;
pub use group::{Arrival, Group, Rank};
pub use job::{Answer, CollectiveConfig, Job, When};
pub use report::{Report, Stage};
pub use shape::FileShape;
pub use work::{FileWork, WorkDone, WorkId};

use std::collections::{BTreeSet, VecDeque};

use bytes::Bytes;
use fec_transport::Time;

use crate::compression::{Compression, Processor};
use call::{Call, Next};
use message::Body;
use payload::{Codecs, Packer};

/// What a participant does next.
#[derive(Debug)]
pub enum Step {
    /// It has done something; it is to be asked again at once, with the time that it is then.
    Again,
    /// It waits for the group, or for work at the file.
    Wait,
    /// This is to be done at the file; meanwhile it goes on.
    Work(WorkId, FileWork),
    /// The call has ended.
    Done(Result<(Answer, Report), CollectiveError>),
}

/// One rank of a group, which makes collective calls one after the other.
#[derive(Debug)]
pub struct Participant {
    size: usize,
    /// The number of the last call that this rank has begun.
    calls: u64,
    call: Option<Box<Call>>,
    /// Messages of calls that this rank has not begun.
    early: VecDeque<(Rank, u64, Body, Bytes)>,
    lost: BTreeSet<Rank>,
    /// Why the group is of no further use.
    broken: Option<CollectiveError>,
    /// How payloads are packed in the call that this rank is in.
    compression: Compression,
    packer: Packer,
}

impl Participant {
    /// A rank of a group of `size` ranks that has made no call.
    pub fn new(size: usize) -> Participant {
        Participant {
            size,
            calls: 0,
            call: None,
            early: VecDeque::new(),
            lost: BTreeSet::new(),
            broken: None,
            compression: Compression::default(),
            packer: Packer::default(),
        }
    }

    /// Begins a call, which [`step`](Self::step) takes to its end. A call before it that has not ended is given up.
    ///
    /// # Errors
    /// If the group is of no further use, because a rank was lost or broke the rules.
    pub fn begin(&mut self, now: Time, config: &CollectiveConfig, job: Job) -> Result<(), CollectiveError> {
        if let Some(broken) = &self.broken {
            return Err(broken.clone());
        }
        self.calls += 1;
        self.compression = config.compression;
        let mut call = Call::new(now, self.calls, self.size, config.clone(), job);
        for rank in &self.lost {
            call.leave(*rank, CollectiveError::RankLost { rank: *rank });
        }
        let (of_this, later) =
            std::mem::take(&mut self.early).into_iter().partition(|(_, number, ..)| *number == self.calls);
        self.early = later;
        let of_this: VecDeque<(Rank, u64, Body, Bytes)> = of_this;
        of_this.into_iter().for_each(|(from, _, body, payload)| call.note(from, body, payload));
        self.call = Some(Box::new(call));
        Ok(())
    }

    /// Hears what has come, and does one thing. `processor` packs and unpacks what travels between ranks meanwhile.
    pub fn step(&mut self, now: Time, group: &mut dyn Group, processor: &mut dyn Processor) -> Step {
        self.hear(group);
        let Some(call) = &mut self.call else { return Step::Wait };
        self.packer.set(self.compression, group.rate_bps());
        let mut codecs = Codecs { packer: &mut self.packer, processor };
        match call.advance(now, group, &mut codecs) {
            Ok(Next::Again) => Step::Again,
            Ok(Next::Wait) => Step::Wait,
            Ok(Next::Work(id, work)) => Step::Work(id, work),
            Ok(Next::Done(answer, report)) => {
                self.call = None;
                Step::Done(Ok((answer, report)))
            }
            Err(error) => {
                self.give_up(&error, group);
                Step::Done(Err(error))
            }
        }
    }

    /// Work at the file is done, or has failed with these words.
    pub fn finish(&mut self, work: WorkId, outcome: Result<WorkDone, String>) {
        if let Some(call) = &mut self.call {
            call.finish(work, outcome);
        }
    }

    fn hear(&mut self, group: &mut dyn Group) {
        while let Some(arrival) = group.poll() {
            match arrival {
                Arrival::Lost(rank) => {
                    self.lost.insert(rank);
                    self.leave(rank, CollectiveError::RankLost { rank });
                }
                Arrival::From(rank, message) => self.hear_from(rank, &message),
            }
        }
    }

    fn hear_from(&mut self, rank: Rank, message: &Bytes) {
        match message::parse(message) {
            Ok((number, body, payload)) => match &mut self.call {
                Some(call) if number == self.calls => call.note(rank, body, payload),
                // What was said in a call that has ended here is of no use.
                _ if number > self.calls => self.early.push_back((rank, number, body, payload)),
                _ => {}
            },
            Err(fault) => self.leave(rank, CollectiveError::Broken { rank, fault: fault.to_string() }),
        }
    }

    fn leave(&mut self, rank: Rank, because: CollectiveError) {
        match &mut self.call {
            Some(call) => call.leave(rank, because),
            None if !self.lost.contains(&rank) => self.broken = Some(because),
            None => {}
        }
    }

    /// Ends the call with an error. The others must not wait for this rank, if they do not see the same themselves.
    fn give_up(&mut self, error: &CollectiveError, group: &mut dyn Group) {
        self.call = None;
        let (because_of, fault) = match error {
            CollectiveError::RankLost { rank } => (rank.0, None),
            CollectiveError::Broken { rank, fault } => (rank.0, Some(fault.clone())),
            CollectiveError::OtherCall { .. }
            | CollectiveError::RankFailed { .. }
            | CollectiveError::Left => return,
        };
        self.broken = Some(error.clone());
        let message = message::emit(self.calls, &Body::GivenUp { because_of, fault }, &[]);
        let me = group.rank();
        Rank::all(group.size()).filter(|rank| *rank != me).for_each(|to| group.send(to, message.clone()));
    }
}

#[cfg(test)]
mod tests;
