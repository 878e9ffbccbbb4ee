//! Changes that a survey expects, and what reading the files has made of them.

use std::io;

use serde::{Deserialize, Serialize};

use super::spool::Spool;
use super::survey::{Change, Summary};
use crate::replication::TreePath;

/// What is to happen to a path, if its file can be read and has other content.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Expected {
    pub(super) change: Change,
    pub(super) path: TreePath,
}

/// What happens to a path instead of what was expected.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Correction {
    pub(super) path: TreePath,
    /// What was expected.
    pub(super) change: Change,
    /// Bytes that were to be read of it.
    pub(super) bytes: u64,
    pub(super) proved: Proved,
}

/// What reading has shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Proved {
    /// It cannot be read: what was there stays.
    Unread,
    /// Its content is the same, its metadata are not.
    Touched,
    /// All of it is the same.
    Unchanged,
}

impl Correction {
    fn apply(&self, summary: &mut Summary) {
        *summary.count_of(self.change) -= 1;
        match self.proved {
            Proved::Unread => {
                summary.files -= u64::from(self.bytes > 0);
                summary.bytes -= self.bytes;
            }
            Proved::Touched => summary.touched += 1,
            Proved::Unchanged => summary.unchanged += 1,
        }
    }
}

/// Puts the numbers right that a survey expected.
pub(super) fn correct(summary: &mut Summary, corrections: &Spool<Correction>) -> io::Result<()> {
    for correction in corrections.read()? {
        correction?.apply(summary);
    }
    Ok(())
}

/// Tells of each change as it came to be; corrections are in the order of what was expected.
pub(super) fn tell_all(
    expected: &Spool<Expected>,
    corrections: Option<&Spool<Correction>>,
    tell: &mut dyn FnMut(Change, &TreePath),
) -> io::Result<()> {
    let corrections = corrections.map(Spool::read).transpose()?;
    let mut corrections = corrections.into_iter().flatten().peekable();
    for expected in expected.read()? {
        let Expected { change, path } = expected?;
        let is_of_it = |next: &io::Result<Correction>| next.as_ref().map_or(true, |next| next.path == path);
        match corrections.next_if(is_of_it).transpose()?.map(|correction| correction.proved) {
            None => tell(change, &path),
            Some(Proved::Touched) => tell(Change::Touched, &path),
            Some(Proved::Unread | Proved::Unchanged) => {}
        }
    }
    Ok(())
}
