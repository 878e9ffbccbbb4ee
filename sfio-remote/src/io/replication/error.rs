//! Why a command on a data set failed, and what kind of failure that is.

use std::io;

use super::walk::words;
use crate::client::OperationError;
use crate::io::FileError;
use crate::name::SubfilePath;
use crate::remote_error::ErrorKind;
use crate::replication::{BadManifest, BadRecord, ChunkError, Hash, TreePath};

/// Why a command on a data set failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReplicationError {
    /// The site failed.
    #[error(transparent)]
    Site(#[from] FileError),
    /// The tree as a whole, or a temporary file, cannot be read or written.
    #[error("{place}: {what}")]
    Local {
        /// The path.
        place: String,
        /// What went wrong.
        what: String,
        /// The kind of error.
        kind: io::ErrorKind,
    },
    /// A record cannot be used.
    #[error("record {number} on {io_node}: {error}")]
    Record {
        /// Its number.
        number: u64,
        /// The I/O node that keeps it.
        io_node: String,
        /// What is wrong with it.
        error: BadRecord,
    },
    /// The next record cannot be signed.
    #[error("the next record: {0}")]
    Unsigned(BadRecord),
    /// A record is one of another data set.
    #[error("record {number} on {io_node} is one of {found}")]
    OtherDataSet {
        /// Its number.
        number: u64,
        /// The I/O node that keeps it.
        io_node: String,
        /// The data set that it names.
        found: String,
    },
    /// Nobody who may publish has signed the newest record.
    #[error(
        "record {number} was signed by \"{member}\" with a key that the overlay file does not have for it"
    )]
    Signer {
        /// Its number.
        number: u64,
        /// The member that claims to have signed it.
        member: String,
    },
    /// The data set was further, or another one, when this machine last saw it.
    #[error(
        "the data set has gone back: this machine has seen record {seen} ({hash}), and there is {found} now; \
         `sfio repair` looks for it on all I/O nodes, --accept-older goes on with what there is"
    )]
    WentBack {
        /// The number that was seen.
        seen: u64,
        /// The hash that was seen.
        hash: Hash,
        /// The record that is there now, in words.
        found: String,
    },
    /// I/O nodes know different things, so some of them have lost something.
    #[error(
        "I/O nodes disagree: {0}; `sfio repair` puts back what is missing, or says what else can be done"
    )]
    Disagreement(String),
    /// No I/O node has the newest record whole.
    #[error("{0}: nothing can be put back; `sfio forget --all` gives the data set up, and its name is free")]
    NothingWhole(String),
    /// A manifest is damaged.
    #[error("the manifest of generation {generation} cannot be read: {error}")]
    Manifest {
        /// The generation that it is of.
        generation: u64,
        /// What is wrong with it.
        error: DamagedManifest,
    },
    /// A chunk that is needed is damaged.
    #[error("object {object} at {offset}: {error}")]
    Chunk {
        /// The object that it is in.
        object: u32,
        /// Its offset there.
        offset: u64,
        /// What is wrong with it.
        error: ChunkError,
    },
    /// There is nothing to read.
    #[error("there is no data set of that name on the site")]
    NoDataSet,
    /// Data sets were to be listed where this member may not look.
    #[error("this member may not list {}; name a folder that it may read, as SITE:FOLDER", match .0.is_root() {
        true => "the top of the export root".to_owned(),
        false => format!("\"{}\"", .0),
    })]
    Closed(SubfilePath),
    /// There is no such generation.
    #[error("there is no generation {number}; kept are {kept}")]
    NoGeneration {
        /// Its number.
        number: u64,
        /// The numbers of those that are kept.
        kept: String,
    },
    /// The current generation was to be forgotten.
    #[error("generation {0} is the current one; `sfio rollback` makes another one current")]
    IsCurrent(u64),
    /// A tree was to be sent into a directory that is not there.
    #[error("there is no directory {0} in it, and none that it could be made in")]
    NoDirectory(TreePath),
    /// A tree was to be sent into a generation that cannot be read.
    #[error(
        "generation {0} is damaged and cannot be read, so nothing can be sent into it; send the whole tree"
    )]
    Unreadable(u64),
    /// There is something to send at this place, and nothing of it takes part.
    #[error("{0}: the patterns and lists leave nothing of it")]
    NothingTakesPart(String),
    /// What was being read has been removed meanwhile.
    #[error("generation {0} has been removed meanwhile")]
    Removed(u64),
    /// More would be deleted than is allowed.
    #[error("{} gone and would be deleted; --max-delete allows {allowed}", match .found {
        1 => "1 entry is".to_owned(),
        several => format!("{several} entries are"),
    })]
    TooManyDeletions {
        /// How many would be deleted.
        found: u64,
        /// How many may be deleted.
        allowed: u64,
    },
    /// Another run restores to the same directory of this machine.
    #[error("{0}: another run is fetching into this directory")]
    TargetLocked(String),
    /// Another sync run writes to the data set; the I/O node says which.
    #[error("another run is at work ({0})")]
    Locked(FileError),
    /// Another sync run has published, and this one was not to go on then.
    #[error("another run has published record {0} meanwhile")]
    Overtaken(u64),
    /// Whether a record was published cannot be learnt.
    #[error("it is unknown whether record {number} was published; the next run finds out: {error}")]
    Unknown {
        /// Its number.
        number: u64,
        /// The failure that hides it.
        error: FileError,
    },
    /// A record was published and is not yet on all I/O nodes.
    #[error(
        "generation {generation} was published, but {error}; the next run brings the other I/O nodes up to date"
    )]
    Halfway {
        /// The current generation now.
        generation: u64,
        /// What went wrong behind that.
        error: FileError,
    },
}

/// What kind of failure it is; programs end with the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum FailureKind {
    /// Something failed that has no kind of its own.
    Failed = 1,
    /// An input is wrong, or is not there.
    Input = 3,
    /// The network failed, or an I/O node is away; a retry may help.
    Network = 4,
    /// Data is lost or damaged.
    Integrity = 5,
    /// No space is left.
    NoSpace = 6,
    /// Another run is at it.
    Locked = 9,
}

/// What is wrong with a manifest that was read.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{0}")]
pub struct DamagedManifest(String);

impl From<BadManifest> for DamagedManifest {
    fn from(error: BadManifest) -> DamagedManifest {
        DamagedManifest(error.to_string())
    }
}

impl From<String> for DamagedManifest {
    fn from(what: String) -> DamagedManifest {
        DamagedManifest(what)
    }
}

pub(super) type Outcome<T> = Result<T, ReplicationError>;

impl ReplicationError {
    /// What kind of failure it is.
    pub fn kind(&self) -> FailureKind {
        match self {
            ReplicationError::Site(error) => kind_of(error),
            ReplicationError::Local { kind: io::ErrorKind::StorageFull, .. } => FailureKind::NoSpace,
            ReplicationError::Record { error: BadRecord::Version1, .. }
            | ReplicationError::Local { .. }
            | ReplicationError::NoDataSet
            | ReplicationError::NoDirectory(_)
            | ReplicationError::NothingTakesPart(_)
            | ReplicationError::Closed(_)
            | ReplicationError::IsCurrent(_)
            | ReplicationError::NoGeneration { .. } => FailureKind::Input,
            ReplicationError::Record { .. }
            | ReplicationError::OtherDataSet { .. }
            | ReplicationError::Signer { .. }
            | ReplicationError::WentBack { .. }
            | ReplicationError::Disagreement(_)
            | ReplicationError::NothingWhole(_)
            | ReplicationError::Manifest { .. }
            | ReplicationError::Chunk { .. }
            | ReplicationError::Unreadable(_)
            | ReplicationError::Removed(_) => FailureKind::Integrity,
            ReplicationError::TooManyDeletions { .. } | ReplicationError::Unsigned(_) => FailureKind::Failed,
            ReplicationError::TargetLocked(_)
            | ReplicationError::Locked(_)
            | ReplicationError::Overtaken(_) => FailureKind::Locked,
            ReplicationError::Unknown { .. } | ReplicationError::Halfway { .. } => FailureKind::Network,
        }
    }

    /// The failure of the network beneath, if it is one that may pass.
    pub(super) fn outage(&self) -> Option<&FileError> {
        match self {
            ReplicationError::Site(error) if is_outage(error) => Some(error),
            _ => None,
        }
    }
}

/// Whether waiting may help: nothing that was asked for was refused.
pub(super) fn is_outage(error: &FileError) -> bool {
    match error {
        error if error.is_for_the_key() => false,
        FileError::Operation(operation) => match operation {
            OperationError::Connect { .. }
            | OperationError::SessionClosed { .. }
            | OperationError::Restarted { .. }
            | OperationError::TimedOut { .. } => true,
            // What only the session that created it may write was asked of a later session: that is an outage, too.
            OperationError::IoNode { error, .. } => {
                matches!(error.kind, ErrorKind::Overloaded | ErrorKind::Idle | ErrorKind::WriteOnce)
            }
            _ => false,
        },
        _ => false,
    }
}

/// Whether this member may not do what it asked for.
pub(super) fn is_refusal(error: &FileError) -> bool {
    matches!(
        answer_of(error),
        Some(ErrorKind::PermissionDenied | ErrorKind::ReadOnly | ErrorKind::AppendOnly)
    )
}

/// Whether a file, or a part of it, does not exist: a crash while it was made leaves subfiles missing.
pub(super) fn is_missing(error: &FileError) -> bool {
    match error {
        FileError::Operation(OperationError::IoNode { error, .. }) => error.kind == ErrorKind::NotFound,
        FileError::Operation(OperationError::NotFound { .. } | OperationError::Incomplete { .. }) => true,
        _ => false,
    }
}

/// Whether the bytes that were asked for are lost or others, and not merely away.
pub(super) fn is_loss(error: &FileError) -> bool {
    let of_disk =
        |kind: ErrorKind| matches!(kind, ErrorKind::Disk | ErrorKind::Changed | ErrorKind::SyncLost);
    match error {
        FileError::EndOfFile { .. } => true,
        FileError::Operation(OperationError::IoNode { error, .. }) if of_disk(error.kind) => true,
        error => is_missing(error),
    }
}

/// The kind of error that an I/O node answered with, if it did.
pub(super) fn answer_of(error: &FileError) -> Option<ErrorKind> {
    match error {
        FileError::Operation(OperationError::IoNode { error, .. }) => Some(error.kind),
        _ => None,
    }
}

/// What kind of failure an operation on a file that belongs to a data set is.
fn kind_of(error: &FileError) -> FailureKind {
    match error {
        error if is_loss(error) => FailureKind::Integrity,
        error if is_outage(error) => FailureKind::Network,
        error if error.is_for_the_key() => FailureKind::Input,
        FileError::Operation(OperationError::Protocol { .. }) => FailureKind::Network,
        FileError::Operation(OperationError::UnknownMember { .. }) => FailureKind::Input,
        FileError::OutOfPatience { error, .. } => kind_of(error),
        error => match answer_of(error) {
            Some(ErrorKind::NoSpace | ErrorKind::FileTooLarge) => FailureKind::NoSpace,
            Some(ErrorKind::Claimed) => FailureKind::Locked,
            Some(
                ErrorKind::NotServing
                | ErrorKind::IsADirectory
                | ErrorKind::NotADirectory
                | ErrorKind::NotAFile
                | ErrorKind::OutsideRoot,
            ) => FailureKind::Input,
            _ => FailureKind::Failed,
        },
    }
}

/// A temporary file cannot be made, read or written.
pub(super) fn temporary(error: io::Error) -> ReplicationError {
    local(
        format_args!("a temporary file in {} (TMPDIR names the folder)", std::env::temp_dir().display()),
        error,
    )
}

pub(super) fn local(place: impl ToString, error: io::Error) -> ReplicationError {
    ReplicationError::Local { place: place.to_string(), what: words(&error), kind: error.kind() }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use fec_transport::CloseReason;

    use super::*;

    /// `sfio datasets` ended with 1 where an I/O node was away.
    #[test]
    fn an_outage_that_outlasts_the_patience_is_one_of_the_network() {
        let reason = CloseReason::Silent { time: Duration::from_secs(4), probes: 0, paths: 1 };
        let lost = FileError::from(OperationError::SessionClosed { member: "io1".into(), reason });
        let waited =
            FileError::OutOfPatience { error: Box::new(lost), waited: Duration::from_secs(60), attempts: 9 };
        assert_eq!(ReplicationError::from(waited).kind(), FailureKind::Network);
    }
}
