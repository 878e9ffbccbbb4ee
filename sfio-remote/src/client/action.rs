//! What a caller asks of a client, and what it is told.

use std::sync::Arc;

use super::file::{FileStat, Layout};
use super::{OperationError, OperationId};
use crate::distribution::StripeUnit;
use crate::io_node::ErrorCounters;
use crate::name::FileName;
use crate::request::{ReadList, RegionsRead, WriteList};

/// A striped file that the client has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(pub(super) u64);

/// Something to do. Operations run at once and in no order: whoever wants one after the other waits for the first.
#[derive(Debug)]
pub enum Action {
    /// Open a striped file. Answer: [`Answer::Opened`].
    Open {
        /// Its subfiles.
        name: FileName,
        /// The stripe unit that it was, or is going to be, written with.
        stripe_unit: StripeUnit,
        /// What must be there, and what happens to it.
        mode: OpenMode,
        /// When its writes survive a power loss.
        durability: Durability,
    },
    /// Forget an open file. Operations on it that are under way go on. Answer: [`Answer::Done`].
    Close {
        /// The file.
        file: FileId,
    },
    /// Read regions. Answer: [`Answer::Data`].
    Read {
        /// The file.
        file: FileId,
        /// What to read.
        list: ReadList,
    },
    /// Read regions of a file that need not be open. Answer: [`Answer::Data`].
    ReadUnopened {
        /// Its subfiles.
        name: FileName,
        /// The stripe unit that it was written with.
        stripe_unit: StripeUnit,
        /// What to read.
        list: ReadList,
    },
    /// Write regions. Answer: [`Answer::Done`].
    Write {
        /// The file.
        file: FileId,
        /// What to write.
        list: WriteList,
    },
    /// Cut the logical file, or extend it with zeros. Answer: [`Answer::Done`].
    SetLength {
        /// The file.
        file: FileId,
        /// Its new length in bytes.
        length: u64,
    },
    /// Ask for the sizes of all subfiles. Answer: [`Answer::Stat`].
    Stat {
        /// The file.
        file: FileId,
    },
    /// Make everything that was written before survive a power loss. Answer: [`Answer::Done`].
    Sync {
        /// The file.
        file: FileId,
    },
    /// Remove all subfiles of a file that there are. Answer: [`Answer::Done`].
    Remove {
        /// The file.
        name: FileName,
        /// When that survives a power loss.
        durability: Durability,
    },
    /// Give each subfile of a file the path that the other name has for it. Not atomic over several I/O nodes: one that
    /// fails on the way leaves subfiles missing under both names. Answer: [`Answer::Done`].
    Rename {
        /// The file.
        name: FileName,
        /// Its new name; the same members in the same order.
        target: FileName,
        /// Whether subfiles that have these paths already are replaced; else that is an error.
        replace: bool,
        /// When that survives a power loss.
        durability: Durability,
    },
    /// Ask for SFIO's error counters of one I/O node. Answer: [`Answer::ErrorCounters`].
    ErrorCounters {
        /// Its name.
        member: String,
        /// Whether they start again from zero.
        reset: bool,
    },
}

/// What must be there when a file is opened, and what happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OpenMode {
    /// All subfiles must exist.
    Existing,
    /// Subfiles that do not exist are created, so that even an empty file has all of them.
    Create,
    /// The same, and what there is becomes empty.
    Truncate,
    /// The same, and nobody else may change the subfiles until this process gives them another name, removes them, or
    /// ends: of several that want to write one file, one does.
    Claim,
}

/// When changes survive a power loss of an I/O node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Whenever the operating system gets round to it; a sync only waits its turn.
    None,
    /// After a sync.
    #[default]
    OnFlush,
    /// When the call returns.
    OnEveryCall,
}

/// What came of an operation.
#[derive(Debug)]
pub struct Completion {
    /// The operation.
    pub operation: OperationId,
    /// Its answer.
    pub result: Result<Answer, OperationError>,
}

/// The answer of an operation that succeeded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// It is done, and there is nothing more to say.
    Done,
    /// The file is open.
    Opened {
        /// The file.
        file: FileId,
        /// What there was when it was opened; after [`OpenMode::Truncate`] nothing.
        stat: FileStat,
        /// Where its bytes are.
        layout: Arc<Layout>,
    },
    /// The bytes of each region, in the order of the list. A region that reaches beyond the first byte that the file
    /// lacks is cut there.
    Data(RegionsRead),
    /// The sizes of all subfiles.
    Stat(FileStat),
    /// The counters.
    ErrorCounters(ErrorCounters),
}
