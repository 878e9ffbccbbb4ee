//! What of a generation has arrived in a tree, and what has not.

use std::io;

use super::error::{FailureKind, ReplicationError};
use super::survey::{Change, Summary};
use super::walk::{Problem, words};
use crate::replication::TreePath;

/// Something that is now as it is to be.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) path: TreePath,
    /// What has happened to the entry; none if nothing has that is told.
    pub(super) change: Option<Change>,
    /// Of a file that was made, the bytes that came from the site.
    pub(super) fetched: Option<u64>,
    /// Entries that had to go for it.
    pub(super) removed: u64,
}

/// Why an entry is not restored.
#[derive(Debug, Clone)]
pub(super) struct Fault {
    what: String,
    /// Whether the site has lost or damaged what it consists of.
    is_damage: bool,
    /// Whether no space is left for it.
    is_for_space: bool,
}

/// What has arrived so far, in numbers; `tell` hears of each change.
pub(super) struct Arrivals<F> {
    pub(super) summary: Summary,
    pub(super) tell: F,
}

impl Arrival {
    pub(super) fn of(path: TreePath, change: Option<Change>) -> Arrival {
        Arrival { path, change, fetched: None, removed: 0 }
    }
}

impl<F: FnMut(Change, &TreePath)> Arrivals<F> {
    pub(super) fn take(&mut self, arrivals: Vec<Arrival>) {
        for Arrival { path, change, fetched, removed } in arrivals {
            self.summary.deleted += removed;
            self.summary.files += u64::from(fetched.is_some());
            self.summary.bytes += fetched.unwrap_or(0);
            if let Some(change) = change {
                *self.summary.count_of(change) += 1;
                (self.tell)(change, &path);
            }
        }
    }

    pub(super) fn miss(&mut self, path: TreePath, fault: Fault) {
        self.summary.damaged += u64::from(fault.is_damage);
        self.summary.without_space += u64::from(fault.is_for_space);
        self.summary.problems.push(Problem { path, what: fault.what });
    }
}

impl Fault {
    /// That of a further name of the file that was to be called `first`, which has this fault.
    pub(super) fn of_further_name(&self, first: &TreePath) -> Fault {
        Fault { what: format!("another name of {first}, which is left out: {}", self.what), ..self.clone() }
    }

    /// Whether no space is left for the entry, and so for none that comes behind it.
    pub(super) fn is_for_space(&self) -> bool {
        self.is_for_space
    }
}

impl From<io::Error> for Fault {
    fn from(error: io::Error) -> Fault {
        let is_for_space = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
        Fault { what: words(&error), is_damage: false, is_for_space }
    }
}

impl From<ReplicationError> for Fault {
    fn from(error: ReplicationError) -> Fault {
        let is_damage = error.kind() == FailureKind::Integrity;
        Fault { what: error.to_string(), is_damage, is_for_space: false }
    }
}
