//! Stages 6 and 7: data between ranks and aggregators, round by round, and between aggregators and the file.

mod read;
mod rounds;
mod write;

pub(super) use read::{ReadExchange, Receiver};
pub(super) use write::{Sender, WriteExchange};

use std::sync::Arc;

use fec_transport::overlay::MemberId;

use super::board::Board;
use super::group::{Group, Rank};
use super::message::{self, Body};
use super::payload::{Codecs, Packed};
use super::pieces::{Pieces, Walk};
use super::report::Tally;
use super::work::{FileWork, WorkId};
use crate::distribution::{Distribution, StripeUnit};

/// What an exchange did in a turn.
#[derive(Debug)]
pub(super) enum Turn {
    /// Something; it may do more.
    Worked,
    /// It wants this done at the file.
    Work(WorkId, FileWork),
    /// Nothing: it waits for others.
    Waits,
}

/// A rank that sent what it must not, and what that is.
pub(super) type Fault = (Rank, String);

/// How many rounds an aggregator has under way: one is exchanged while the other is written, or read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Buffers {
    pub(super) bytes: u64,
    pub(super) count: usize,
}

/// The way out to the other ranks; what goes through is counted.
pub(super) struct Outgoing<'a> {
    pub(super) group: &'a mut dyn Group,
    pub(super) call: u64,
    pub(super) tally: &'a mut Tally,
}

impl Outgoing<'_> {
    pub(super) fn send(&mut self, to: Rank, body: &Body, payload: &[u8]) {
        let message = message::emit(self.call, body, payload);
        self.tally.wire += message.len() as u64;
        self.group.send(to, message);
    }

    /// The same to all other ranks.
    pub(super) fn send_to_all(&mut self, body: &Body, payload: &[u8]) {
        let message = message::emit(self.call, body, payload);
        let me = self.group.rank();
        for to in Rank::all(self.group.size()).filter(|rank| *rank != me) {
            self.tally.wire += message.len() as u64;
            self.group.send(to, message.clone());
        }
    }

    pub(super) fn me(&self) -> Rank {
        self.group.rank()
    }
}

/// What one rank has of each domain, and how far it has come there.
#[derive(Debug, Default)]
struct Shares(Vec<Option<Walk>>);

impl Shares {
    /// What a rank has of each domain is `parts`, and it has come nowhere yet.
    fn of(parts: &[Pieces]) -> Shares {
        Shares(parts.iter().map(|part| (part.bytes() > 0).then(|| part.walk())).collect())
    }

    /// Everything that lies before `until` in the domain of that aggregator; it counts as done.
    fn walk(&mut self, aggregator: Rank) -> Option<&mut Walk> {
        self.0.get_mut(aggregator.index())?.as_mut()
    }

    fn is_finished(&self) -> bool {
        self.0.iter().flatten().all(|walk| walk.peek().is_none())
    }
}

/// The file as if it were its own only subfile: so a list for it is sorted, merged, gathered and scattered by the code
/// that does this for subfiles.
pub(super) fn whole_file() -> (Distribution, Arc<[MemberId]>) {
    let one = Distribution::new(StripeUnit::DEFAULT, 1).expect("a file may have one subfile");
    (one, Arc::new([MemberId(0)]))
}

/// Both kinds of exchange.
#[derive(Debug)]
pub(super) enum Exchange {
    Write(WriteExchange),
    Read(ReadExchange),
}

impl Exchange {
    /// Does one thing, if there is something to do.
    pub(super) fn turn(
        &mut self,
        board: &mut Board,
        out: &mut Outgoing<'_>,
        codecs: &mut Codecs<'_>,
    ) -> Result<Turn, Fault> {
        match self {
            Exchange::Write(write) => write.turn(board, out, codecs),
            Exchange::Read(read) => read.turn(board, out, codecs),
        }
    }

    /// Whether this rank has sent and received all that it has to, and the file has it.
    pub(super) fn is_finished(&self) -> bool {
        match self {
            Exchange::Write(write) => write.is_finished(),
            Exchange::Read(read) => read.is_finished(),
        }
    }

    /// Whether nothing but the file keeps it from going on.
    pub(super) fn waits_for_the_file(&self) -> bool {
        match self {
            Exchange::Write(write) => write.waits_for_the_file(),
            Exchange::Read(read) => read.waits_for_the_file(),
        }
    }

    pub(super) fn rounds(&self) -> u64 {
        match self {
            Exchange::Write(write) => write.rounds(),
            Exchange::Read(read) => read.rounds(),
        }
    }
}

/// Data on its way to another rank, or to this one.
fn is_counted(out: &Outgoing<'_>, to: Rank) -> bool {
    to != out.me()
}

/// A piece of stage 6 that has come.
#[derive(Debug)]
pub(super) struct Data {
    pub(super) until: u64,
    pub(super) missing: Vec<(u64, u64)>,
    pub(super) packed: Packed,
}
