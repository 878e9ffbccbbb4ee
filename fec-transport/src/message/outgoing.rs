//! The sending half of a link: messages that wait for the peer's window, and those that it has been offered.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::budget::{FIRST_WINDOW, charge, kept};
use super::operation::{Hints, OperationId, Tag, Urgency};
use crate::wire::message::{Frame, Kind};

/// A message that is to be sent.
#[derive(Debug)]
pub(super) struct Message {
    pieces: Vec<Bytes>,
    length: u64,
    tag: Tag,
    hints: Hints,
}

impl Message {
    pub(super) fn new(pieces: Vec<Bytes>, tag: Tag, hints: Hints) -> Message {
        let length = pieces.iter().map(|piece| piece.len() as u64).sum();
        Message { pieces, length, tag, hints }
    }

    /// In bytes.
    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// The same in memory of its own.
    pub(super) fn unlent(self) -> Message {
        match self.hints.lent {
            true => Message { pieces: vec![kept(&self.pieces)], ..self },
            false => self,
        }
    }
}

/// A message on its way to the peer.
#[derive(Debug)]
pub(super) enum Departure {
    /// All of it; the operation is complete.
    Whole(OperationId, u64, Frame),
    /// Its envelope.
    Offer(Frame),
}

/// What a message that is given up has already caused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    /// Nothing: the peer knows nothing of it.
    Waiting,
    /// The peer has been offered it.
    Offered,
    /// Its bytes are on their way.
    Granted,
}

/// Messages that are to be sent over one link.
///
/// The number of an offered message, which the peer grants or refuses, is that of its operation.
#[derive(Debug)]
pub(super) struct Outgoing {
    unexpected: Lane,
    expected: Lane,
    /// Offered, and then granted.
    offered: BTreeMap<OperationId, (Message, Progress)>,
    /// How many messages have gone, and how many of them the peer says that it has taken.
    sent: u64,
    confirmed: u64,
}

/// Messages of one kind that wait, and how much of the peer's window they have had.
#[derive(Debug)]
struct Lane {
    waiting: BTreeMap<OperationId, Message>,
    charged: u64,
    limit: u64,
}

impl Lane {
    fn has_room(&self, charge: u64) -> bool {
        self.charged + charge <= self.limit
    }

    fn pop(&mut self, charge: u64) -> Option<(OperationId, Message)> {
        self.charged += charge;
        self.waiting.pop_first()
    }
}

impl Default for Lane {
    fn default() -> Lane {
        Lane { waiting: BTreeMap::new(), charged: 0, limit: FIRST_WINDOW }
    }
}

impl Outgoing {
    /// What waits for a link, where an earlier one did not come about.
    pub(super) fn new() -> Outgoing {
        Outgoing {
            unexpected: Lane::default(),
            expected: Lane::default(),
            offered: BTreeMap::new(),
            sent: 0,
            confirmed: 0,
        }
    }

    pub(super) fn push(&mut self, kind: Kind, operation: OperationId, message: Message) {
        self.lane(kind).waiting.insert(operation, message);
    }

    fn lane(&mut self, kind: Kind) -> &mut Lane {
        match kind {
            Kind::Unexpected => &mut self.unexpected,
            Kind::Expected => &mut self.expected,
        }
    }

    /// The next message that the peer's window lets go. Those of up to `eager` bytes go whole, unless they are lent, if
    /// the window has room.
    pub(super) fn next(&mut self, eager: usize) -> Option<Departure> {
        self.next_unexpected().or_else(|| self.next_expected(eager))
    }

    fn next_unexpected(&mut self) -> Option<Departure> {
        let (_, message) = self.unexpected.waiting.first_key_value()?;
        let charge = charge(message.length as usize);
        if !self.unexpected.has_room(charge) {
            return None;
        }
        let (operation, message) = self.unexpected.pop(charge)?;
        Some(self.whole(Kind::Unexpected, operation, message))
    }

    fn next_expected(&mut self, eager: usize) -> Option<Departure> {
        let (_, message) = self.expected.waiting.first_key_value()?;
        let length = message.length;
        let is_short = length <= eager as u64 && (length == 0 || !message.hints.lent);
        if is_short && self.expected.has_room(charge(length as usize)) {
            let (operation, message) = self.expected.pop(charge(length as usize))?;
            return Some(self.whole(Kind::Expected, operation, message));
        }
        if !self.expected.has_room(charge(0)) {
            return None;
        }
        let (operation, message) = self.expected.pop(charge(0))?;
        let frame = Frame::Offer { message: operation.0, tag: message.tag.0, length };
        self.offered.insert(operation, (message, Progress::Offered));
        self.sent += 1;
        Some(Departure::Offer(frame))
    }

    fn whole(&mut self, kind: Kind, operation: OperationId, message: Message) -> Departure {
        self.sent += 1;
        let (tag, length) = (message.tag.0, message.length);
        Departure::Whole(operation, length, Frame::Eager { kind, tag, pieces: message.pieces })
    }

    /// The peer lets us send up to here.
    pub(super) fn allow(&mut self, unexpected: u64, expected: u64) {
        self.unexpected.limit = self.unexpected.limit.max(unexpected);
        self.expected.limit = self.expected.limit.max(expected);
    }

    /// The peer says how many messages it has taken, in the low 32 bits.
    pub(super) fn confirm(&mut self, taken: u32) {
        let ahead = taken.wrapping_sub(self.confirmed as u32);
        if u64::from(ahead) <= self.sent - self.confirmed {
            self.confirmed += u64::from(ahead);
        }
    }

    /// Messages that have gone, and that the peer has not said to have taken.
    pub(super) fn unconfirmed(&self) -> u64 {
        self.sent - self.confirmed
    }

    /// The peer wants the bytes of a message; gives them unless it was given up, or granted before.
    pub(super) fn grant(&mut self, operation: OperationId) -> Option<(Vec<Bytes>, Urgency)> {
        let (message, progress) = self.offered.get_mut(&operation)?;
        if *progress != Progress::Offered {
            return None;
        }
        *progress = Progress::Granted;
        Some((std::mem::take(&mut message.pieces), message.hints.urgency))
    }

    /// A message is not to be sent any more, or has been; gives its length and how far it had come.
    pub(super) fn remove(&mut self, operation: OperationId) -> Option<(u64, Progress)> {
        let lanes = [&mut self.unexpected, &mut self.expected];
        if let Some(message) = lanes.into_iter().find_map(|lane| lane.waiting.remove(&operation)) {
            return Some((message.length, Progress::Waiting));
        }
        let (message, progress) = self.offered.remove(&operation)?;
        Some((message.length, progress))
    }

    /// All operations that are not complete.
    pub(super) fn operations(&self) -> Vec<OperationId> {
        let lanes = [&self.unexpected, &self.expected];
        let waiting = lanes.into_iter().flat_map(|lane| lane.waiting.keys());
        waiting.chain(self.offered.keys()).copied().collect()
    }
}
