//! What client and I/O node say to each other (docs/protocol/sfio-remote.md).
//!
//! One transfer is one bidirectional stream: a [`Request`], its payload, the end; back come a [`Reply`], its payload,
//! the end. Both payloads are raw, so that a byte's place in the subfile follows from its offset in the stream,
//! whatever the order of arrival; or, if the request says so, in frames that may be packed
//! ([`compression::frame`](crate::compression::frame)). A failure behind a reply's header resets the stream with the
//! error's code.
//!
//! As in smoltcp, each format is a checked view of the bytes ([`RequestView`], [`ReplyView`]) and a plain struct of the
//! meaning. Nothing is allocated before its length was checked against a limit.

mod assembler;
mod field;
mod listing;
mod reply;
mod request;
mod run;
mod run_table;
mod varint;

pub use assembler::Assembler;
pub use listing::{MAX_LISTING_BYTES, emit_listing, parse_listing};
pub use reply::{MAX_REPLY_BYTES, Reply, ReplyView};
pub use request::{MAX_REQUEST_BYTES, Request, RequestId, RequestKind, RequestView};
pub use run::Run;
pub use run_table::{MAX_RUN_BYTES, MAX_RUN_TABLE_BYTES, RunTable, RunTableBuilder, Runs};

use crate::name::ElementError;

/// The version of the protocol.
///
/// - 1: the first.
/// - 2: subfiles that are written once, listings, reads from the disk; publication, marks and reclaiming of data sets.
/// - 3: payloads in frames that may be packed ([`Packing`](crate::compression::Packing)).
pub const VERSION: u8 = 3;

/// What is wrong with bytes off the wire.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// The bytes are no message of this protocol.
    #[error("the message begins with {found:#06x}; expected {expected:#06x}")]
    Magic {
        /// What the first two bytes say.
        found: u16,
        /// What they should say.
        expected: u16,
    },
    /// The peer speaks another version.
    #[error(
        "the peer speaks version {0} of the protocol, this side {VERSION}: the older one needs an update"
    )]
    Version(u8),
    /// A number without a meaning.
    #[error("{value} is no {what}")]
    Unknown {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// A field that is too large.
    #[error("{what} is {value}; at most {limit} is possible")]
    TooLarge {
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
        /// The largest possible value.
        limit: u64,
    },
    /// A field that this kind of message does not have.
    #[error("a request to {kind} has no {what}, but it is {value}")]
    Superfluous {
        /// The kind of request.
        kind: &'static str,
        /// The field.
        what: &'static str,
        /// Its value.
        value: u64,
    },
    /// The bytes end inside the message.
    #[error("the message ends after {found} of {expected} bytes")]
    Truncated {
        /// How many bytes there are.
        found: u64,
        /// How many there should be, as far as they tell.
        expected: u64,
    },
    /// More bytes than the message has.
    #[error("{0} bytes follow the end of the message")]
    Trailing(u64),
    /// A path, a name or an explanation that is no text.
    #[error("the {0} is not UTF-8")]
    NotText(&'static str),
    /// A path that no subfile can have.
    #[error("{0}")]
    Path(#[from] ElementError),
    /// A path that is not in its one spelling.
    #[error("the path \"{0}\" is not in its one spelling (no \"//\", no \"/./\", no slash at an end)")]
    Spelling(String),
    /// A name that is not behind the one before it.
    #[error("the name \"{0}\" is not behind the one before it")]
    Order(String),
    /// A run that is none.
    #[error("the run is not 32 hexadecimal digits in lower case")]
    Run,
    /// A run table that describes no ascending extents.
    #[error("run {index} of the run table: {fault}")]
    RunTable {
        /// The run's position, counted from 0.
        index: usize,
        /// What is wrong with it.
        fault: &'static str,
    },
}
