//! Operations: what is posted, and what becomes of it.

use std::time::Duration;

use bytes::Bytes;

use super::room::Room;
use crate::time::Time;

/// An operation that was posted. No two operations of a process have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(pub u64);

/// One of the callers that share a messenger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ContextId(pub u32);

/// A peer, as this process calls it. It stays the same while connections come and go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AddressId(pub u64);

/// What tells the messages of one pair of processes apart: a receive takes the next message of its sender and tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Tag(pub u32);

/// How urgent a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Urgency {
    /// Throughput. Short messages go before all bulk nevertheless.
    #[default]
    Bulk,
    /// Somebody waits for it: over a session a long message is protected as an
    /// [interactive](crate::Class::Interactive) stream is, so that neither loss nor a link that dies delays it. Over
    /// QUIC it goes before other long ones.
    Interactive,
}

/// What a caller knows of a message that the network may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hints {
    /// Default [`Urgency::Bulk`].
    pub urgency: Urgency,
    /// How long after its post the operation must be complete; if it is not, it fails with
    /// [`OperationError::TimedOut`]. Default none: it waits until the peer is lost.
    pub timeout: Option<Duration>,
    /// The pieces are used for something else once the operation is complete. So the message waits for its receive,
    /// however short it is, and an unexpected one is copied. A network may still look at them a moment later: whoever
    /// writes to them waits until they were dropped, too. Default no: a short message is complete before its pieces are
    /// read.
    pub lent: bool,
}

/// What a post gives.
#[derive(Debug)]
#[must_use = "an operation that is pending is asked for by its id"]
pub enum Posted {
    /// It is complete; there is nothing to test.
    Done(Completion),
    /// It is under way, and will complete in its context.
    Pending(OperationId),
}

impl Posted {
    /// The operation's id.
    pub fn operation(&self) -> OperationId {
        match self {
            Posted::Done(completion) => completion.operation,
            Posted::Pending(operation) => *operation,
        }
    }
}

/// How an operation has ended.
#[derive(Debug)]
pub struct Completion {
    /// Which one.
    pub operation: OperationId,
    /// What its caller gave along when it was posted.
    pub user: u64,
    /// How many bytes the message has, or why it did not come about.
    pub result: Result<u64, OperationError>,
    /// Of a receive: the memory that it was given, with the message in its first bytes. After a failure anything may
    /// stand there.
    pub room: Option<Room>,
}

/// A message that came without a receive.
#[derive(Debug, Clone)]
pub struct Unexpected {
    /// Who sent it, and where a reply goes.
    pub from: AddressId,
    /// Its tag.
    pub tag: Tag,
    /// The message.
    pub bytes: Bytes,
}

/// Why an operation has failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// It was cancelled by its caller, or its context was closed.
    #[error("the operation was cancelled")]
    Cancelled,
    /// It was not complete in time.
    #[error("the operation was not complete within {0:?}")]
    TimedOut(Duration),
    /// The peer's process, or every way to it, is gone. Nothing is sent again; a later operation connects anew.
    #[error("the peer {address} was lost: {reason}")]
    PeerLost {
        /// The peer.
        address: String,
        /// In the words of the network module.
        reason: String,
    },
    /// The message is longer than the room of the receive that it was paired with. The send fails, too, unless it was
    /// complete before.
    #[error("a message of {length} bytes came for a receive of {room}")]
    TooLong {
        /// Bytes of the message.
        length: u64,
        /// Bytes of the receive's room.
        room: u64,
    },
    /// The peer's receive has less room than the message is long.
    #[error("a message of {length} bytes does not fit the receive that the peer has posted for it")]
    DoesNotFit {
        /// Bytes of the message.
        length: u64,
    },
    /// The peer gave up its half: it cancelled it, or its time had passed.
    #[error("the peer gave the message up")]
    GivenUp,
}

/// Why an operation cannot even be posted.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PostError {
    /// The context was closed, or never opened.
    #[error("there is no context {}", .0.0)]
    NoContext(ContextId),
    /// The address was dropped, or never looked up.
    #[error("there is no address {}", .0.0)]
    NoAddress(AddressId),
    /// The message is longer than its network lets it be.
    #[error("a message of {length} bytes; at most {largest} are allowed here")]
    TooLong {
        /// Bytes of the message.
        length: u64,
        /// Bytes that are allowed.
        largest: u64,
    },
    /// The peer was lost after messages to it had completed here, and nothing told since. This is told once; the next
    /// post connects anew.
    #[error(
        "the peer {address} was lost; up to {messages} messages that were sent to it may not have arrived"
    )]
    Lost {
        /// The peer.
        address: String,
        /// How many messages.
        messages: u64,
    },
}

/// Why an operation cannot be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no operation {}: its completion was taken, or it never was", .0.0)]
pub struct NoOperation(pub OperationId);

/// When an operation must be complete.
#[derive(Debug, Clone, Copy)]
pub(super) struct Deadline {
    pub(super) at: Time,
    pub(super) timeout: Duration,
}

impl Deadline {
    pub(super) fn of(now: Time, hints: Hints) -> Option<Deadline> {
        hints.timeout.map(|timeout| Deadline { at: now + timeout, timeout })
    }
}
