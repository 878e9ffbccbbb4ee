//! Why an operation failed.

use std::time::Duration;

use fec_transport::{CloseReason, ConnectError};

use crate::compression::{FrameError, UnpackError};
use crate::distribution::{DistributionError, RangeError};
use crate::name::SubfileName;
use crate::remote_error::RemoteError;
use crate::request::ListError;
use crate::wire::WireError;

/// Why an operation failed. Whatever concerns one I/O node names it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OperationError {
    /// The overlay has no member of that name.
    #[error("the overlay has no member \"{member}\"")]
    UnknownMember {
        /// The name.
        member: String,
    },
    /// No session to the I/O node is possible.
    #[error("{member} cannot be reached: {error}")]
    Connect {
        /// The I/O node.
        member: String,
        /// Why.
        error: ConnectError,
    },
    /// The session to the I/O node ended, or could not be opened.
    #[error("the session with {member} ended: {reason}")]
    SessionClosed {
        /// The I/O node.
        member: String,
        /// Why.
        reason: CloseReason,
    },
    /// The I/O node did not go on.
    #[error("{member} did not answer within {after:?}")]
    TimedOut {
        /// The I/O node.
        member: String,
        /// How long nothing happened.
        after: Duration,
    },
    /// An I/O node's process has taken writes that were not synced, and another one runs in its place: if the machine
    /// lost its power, they are lost. Whatever is written from now on can be synced again once the file is opened anew.
    #[error("{subfile}: the I/O node was restarted before what it had taken was synced, which may be lost")]
    Restarted {
        /// The subfile.
        subfile: String,
    },
    /// The I/O node could not do it.
    #[error("{subfile}: {error}")]
    IoNode {
        /// The subfile; for the error counters of an I/O node its name alone.
        subfile: String,
        /// What it says.
        error: RemoteError,
    },
    /// The I/O node answered what it must not.
    #[error("{member} broke the protocol: {error}")]
    Protocol {
        /// The I/O node.
        member: String,
        /// How.
        error: ProtocolError,
    },
    /// No subfile of the file exists.
    #[error("{name}: no such file")]
    NotFound {
        /// The name of the file.
        name: String,
    },
    /// Some subfiles of the file do not exist.
    #[error("the file is incomplete; missing: {}", names(missing))]
    Incomplete {
        /// These.
        missing: Vec<SubfileName>,
    },
    /// The name has subfiles that no distribution has.
    #[error(transparent)]
    Distribution(#[from] DistributionError),
    /// The list of regions is not possible.
    #[error(transparent)]
    List(#[from] ListError),
    /// The length is not possible.
    #[error(transparent)]
    Range(#[from] RangeError),
    /// The file is not open, or not any more.
    #[error("the file is not open")]
    NotOpen,
    /// Two names do not have the same members in the same order.
    #[error("\"{name}\" cannot become \"{target}\": a subfile stays on its member")]
    OtherMembers {
        /// The one name.
        name: String,
        /// The other name.
        target: String,
    },
    /// An operation with this number is under way.
    #[error("an operation with this number is under way")]
    NumberInUse,
    /// The caller gave it up.
    #[error("cancelled")]
    Cancelled,
}

/// How an I/O node broke the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// Its reply is not well-formed.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A frame of its payload is not well-formed.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A frame of its payload is damaged.
    #[error(transparent)]
    Unpack(#[from] UnpackError),
    /// Something follows the last frame of its payload.
    #[error("bytes follow the last frame of the payload")]
    Trailing,
    /// It sends more, or less, than it should.
    #[error("a payload of {found} bytes where {expected} were expected")]
    Payload {
        /// How many bytes it sent or promised.
        found: u64,
        /// How many it should have, at most.
        expected: u64,
    },
    /// A listing goes on and on with the same names.
    #[error("a page of a listing that does not go on behind {0:?}")]
    Page(String),
    /// It reported success before it had everything.
    #[error("success after {sent} of {payload} bytes")]
    TooEarly {
        /// How many bytes were sent.
        sent: u64,
        /// How many there are.
        payload: u64,
    },
}

fn names(subfiles: &[SubfileName]) -> String {
    subfiles.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}
