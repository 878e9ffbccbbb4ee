//! What the store does for the [checksums](crate::sums) beside subfiles: it removes them before anything changes their
//! subfile, and moves them with it.

use std::sync::{PoisonError, RwLockReadGuard, RwLockWriteGuard};

use super::DiskStore;
use crate::name::SubfilePath;
use crate::remote_error::ErrorKind;
use crate::store::{DiskAction, DiskError, Incident};
use crate::sums::beside;

/// Held while an action runs.
pub(super) enum Turn<'a> {
    /// It changes nothing that could have sums.
    Needless,
    /// It changes something that may have sums, beside other such actions.
    Shared(#[allow(dead_code, reason = "it is held, not looked at")] RwLockReadGuard<'a, ()>),
    /// It moves a subfile and its sums in two steps, between which nobody may change the subfile.
    Alone(#[allow(dead_code, reason = "it is held, not looked at")] RwLockWriteGuard<'a, ()>),
}

impl DiskStore {
    /// Waits until `action` may run.
    pub(super) fn turn(&self, path: &SubfilePath, action: &DiskAction) -> Turn<'_> {
        let changes = match action {
            DiskAction::Rename { target, .. } => {
                if beside(path).is_some_and(|sums| self.root.holds(&sums)) {
                    // No panic can leave anything half changed behind this lock: nothing lies there.
                    return Turn::Alone(self.turns.write().unwrap_or_else(PoisonError::into_inner));
                }
                beside(target).is_some()
            }
            other => changes_bytes(other) && beside(path).is_some(),
        };
        match changes {
            true => Turn::Shared(self.turns.read().unwrap_or_else(PoisonError::into_inner)),
            false => Turn::Needless,
        }
    }

    /// Removes the sums of what `action` is about to change, durably: sums that outlived a change by a power loss would
    /// call good bytes damaged.
    pub(super) fn forget_sums(
        &self,
        path: &SubfilePath,
        action: &DiskAction,
        incidents: &mut Vec<Incident>,
    ) -> Result<(), DiskError> {
        let changed = match action {
            DiskAction::Rename { target, replace, .. } => {
                (*replace || !self.root.holds(target)).then_some(target)
            }
            other => changes_bytes(other).then_some(path),
        };
        let Some(sums) = changed.and_then(beside) else { return Ok(()) };
        match action {
            // A subfile that is there stays as it is.
            DiskAction::Create { truncate: false, .. } if self.root.holds(path) => Ok(()),
            _ => unless_missing(self.remove(&sums, true, incidents)),
        }
    }

    /// Moves the sums of `path` to their place beside `target`, if it can have some.
    pub(super) fn move_sums(
        &self,
        path: &SubfilePath,
        target: &SubfilePath,
        durable: bool,
        incidents: &mut Vec<Incident>,
    ) -> Result<(), DiskError> {
        let Some(sums) = beside(path) else { return Ok(()) };
        unless_missing(match beside(target) {
            Some(new) => self.rename(&sums, &new, (true, durable), incidents),
            None => self.remove(&sums, durable, incidents),
        })
    }
}

/// Whether an action changes the bytes of the subfile at its path, or makes one there: beside one that is new there may
/// be the sums of one that was removed behind the back of the I/O node.
fn changes_bytes(action: &DiskAction) -> bool {
    matches!(
        action,
        DiskAction::Write { .. }
            | DiskAction::Create { .. }
            | DiskAction::SetLength { .. }
            | DiskAction::Grow { .. }
            | DiskAction::Remove { .. }
    )
}

/// Sums were to be moved or removed, and need not be there.
fn unless_missing(result: Result<(), DiskError>) -> Result<(), DiskError> {
    match result {
        Err(error) if is_no_file(error.error.kind) => Ok(()),
        other => other,
    }
}

/// Whether that says that a path leads to no file, so that there can be no sums.
fn is_no_file(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::NotAFile
            | ErrorKind::OutsideRoot
    )
}
