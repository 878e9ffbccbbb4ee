//! What holds the subfiles of an I/O node: the operations that an [`IoNode`](crate::io_node::IoNode) asks for, and
//! stores that carry them out in memory. The store on disks is in `io::disk`, because it does I/O.

mod elevator;
mod faulty;
mod identity;
mod listing;
mod memory;

pub use elevator::{Elevator, Errand, UnderWay};
pub use faulty::{Fault, FaultyStore};
pub use identity::{NotARootId, RootId, Verdict, WrongRoot, judge};
pub(crate) use listing::{ENTRY_BYTES, FirstNames};
pub use listing::{Entry, EntryKind, Listing};
pub use memory::MemoryStore;

use std::sync::Arc;

use bytes::Bytes;

use crate::distribution::Extent;
use crate::name::{EntryName, SubfilePath};
use crate::remote_error::{ErrorKind, RemoteError};

/// Tells the disk operations of an I/O node apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket(pub u64);

/// Something to do on the disk. Operations that were given out may be carried out in any order, and at once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskOperation {
    /// Comes back with the result.
    pub ticket: Ticket,
    /// The subfile, or the folder to list.
    pub path: SubfilePath,
    /// What to do with it.
    pub action: DiskAction,
}

/// What to do with a subfile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DiskAction {
    /// Tell its size.
    Size,
    /// Give the bytes of these ascending extents, one behind the other, up to the end of the subfile.
    Read {
        /// The extents; disjoint.
        extents: Vec<Extent>,
    },
    /// Let go of what memory holds of these bytes, as far as it is on the disk, so that a read after this one tells
    /// what is there; and tell the size.
    Uncache {
        /// The bytes.
        extent: Extent,
    },
    /// Give all of its bytes.
    ReadWhole {
        /// How many it may have at most; of more it is an error.
        limit: u64,
    },
    /// Tell what the folder holds, as much as fits into a reply.
    List {
        /// Only what comes behind this name.
        after: Option<EntryName>,
        /// Whether the names that it tells must survive a power loss.
        durable: bool,
    },
    /// Put bytes into these ascending extents.
    Write {
        /// The extents; disjoint.
        extents: Vec<Extent>,
        /// Together as long as the extents, but cut elsewhere.
        data: Vec<Bytes>,
    },
    /// See to it that it exists, and the directories above it.
    Create {
        /// Whether one that exists becomes empty.
        truncate: bool,
        /// Whether one that exists is an error.
        exclusive: bool,
        /// Whether its name must survive a power loss.
        durable: bool,
        /// The member that pays for it if it is new; none: nobody.
        owner: Option<Arc<str>>,
    },
    /// Cut it, or extend it with zeros.
    SetLength {
        /// The new size in bytes.
        length: u64,
    },
    /// Extend it with zeros, never cut it, whatever is written at the same time.
    Grow {
        /// The size in bytes that it has at least.
        length: u64,
    },
    /// Make everything that was written survive a power loss.
    Sync,
    /// Remove it.
    Remove {
        /// Whether that must survive a power loss.
        durable: bool,
    },
    /// Give it another path.
    Rename {
        /// The new path.
        target: SubfilePath,
        /// Whether a subfile that has this path already is replaced; else that is an error.
        replace: bool,
        /// Whether that must survive a power loss.
        durable: bool,
    },
}

/// What came of a disk operation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiskResult {
    /// The ticket of the operation.
    pub ticket: Ticket,
    /// What came of it.
    pub outcome: Result<DiskReply, DiskError>,
    /// Failures that came to light on the way and concern other subfiles: written data that could not be synced when
    /// its file was closed.
    pub incidents: Vec<Incident>,
}

/// The answer of a disk operation that succeeded.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DiskReply {
    /// The size that the subfile had before, in bytes.
    pub size_before: u64,
    /// What a [`DiskAction::Read`] or [`DiskAction::ReadWhole`] read.
    pub data: Bytes,
    /// What a [`DiskAction::List`] found.
    pub listing: Listing,
}

/// A failure that concerns another subfile than the operation's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Incident {
    /// The subfile.
    pub path: SubfilePath,
    /// What failed.
    pub error: DiskError,
}

/// Why a disk operation failed, and at which kind of call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{error}")]
pub struct DiskError {
    /// Which of SFIO's eight counters it belongs to.
    pub call: SystemCall,
    /// What the caller is told.
    pub error: RemoteError,
}

/// The calls of the operating system whose failures SFIO counts. `[sfio §3]`
///
/// Calls that the paper does not know are counted with their next of kin: a failed fsync is a failed write, a failed
/// mkdir or rename is a failed creat, a failed fstat is a failed open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SystemCall {
    /// Opening a subfile, and asking for its size.
    Open,
    /// Closing one.
    Close,
    /// Creating one, and the directories above it; renaming.
    Create,
    /// Removing one.
    Unlink,
    /// Changing a size.
    Truncate,
    /// Moving a file position. Positioned reads and writes never do, so that this stays at zero.
    Seek,
    /// Writing, and syncing.
    Write,
    /// Reading.
    Read,
}

impl SystemCall {
    /// All eight, in the paper's order.
    pub const ALL: [SystemCall; 8] = [
        SystemCall::Open,
        SystemCall::Close,
        SystemCall::Create,
        SystemCall::Unlink,
        SystemCall::Truncate,
        SystemCall::Seek,
        SystemCall::Write,
        SystemCall::Read,
    ];
}

impl DiskError {
    /// A failure that no system call reported.
    pub fn new(call: SystemCall, kind: ErrorKind, text: impl Into<String>) -> DiskError {
        DiskError { call, error: RemoteError::new(kind, text) }
    }
}

/// The error of a file that is larger than what it is for can be.
pub(crate) fn too_large(path: &SubfilePath, size: u64, limit: u64) -> DiskError {
    let text = format!("{path} has {size} bytes, and at most {limit} are possible");
    DiskError::new(SystemCall::Read, ErrorKind::FileTooLarge, text)
}

/// A place for subfiles.
pub trait Store {
    /// Carries out one operation.
    ///
    /// # Errors
    /// What the disk says, with the call that failed.
    fn perform(&mut self, path: &SubfilePath, action: &DiskAction) -> Result<DiskReply, DiskError>;
}

impl DiskOperation {
    /// Whether it ends only when the disk itself has done something.
    pub(crate) fn waits_for_disk(&self) -> bool {
        matches!(
            self.action,
            DiskAction::Sync
                | DiskAction::List { durable: true, .. }
                | DiskAction::Create { durable: true, .. }
                | DiskAction::Remove { durable: true }
                | DiskAction::Rename { durable: true, .. }
        )
    }

    /// The same without waiting for the disk itself: what has been done of it when a process is killed that waits.
    #[cfg(feature = "sim-io")]
    pub(crate) fn unsynced(&self) -> DiskOperation {
        let mut operation = self.clone();
        match &mut operation.action {
            DiskAction::List { durable, .. }
            | DiskAction::Create { durable, .. }
            | DiskAction::Remove { durable }
            | DiskAction::Rename { durable, .. } => *durable = false,
            action @ DiskAction::Sync => *action = DiskAction::Size,
            _ => {}
        }
        operation
    }

    /// Carries this operation out on `store`.
    pub fn perform_on(&self, store: &mut impl Store) -> DiskResult {
        DiskResult {
            ticket: self.ticket,
            outcome: store.perform(&self.path, &self.action),
            incidents: Vec::new(),
        }
    }
}
