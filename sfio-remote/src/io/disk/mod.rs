//! Subfiles on disks, beneath an export root.
//!
//! [`DiskStore::perform`] carries out one operation and may be called from several threads at once. It blocks, so it
//! belongs on threads that may.
//!
//! A write that would exceed the process's limit on file sizes raises SIGXFSZ, which ends the process; a program that
//! serves subfiles should ignore that signal. Then the write fails with `EFBIG`, which is reported and counted like any
//! other failure.

mod errors;
mod extents;
mod handles;
mod quota;
mod root;

pub use quota::Quotas;
pub use root::ExportError;

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::name::SubfilePath;
use crate::remote_error::ErrorKind;
use crate::store::{
    DiskAction, DiskError, DiskOperation, DiskReply, DiskResult, Incident, Store, SystemCall,
};
use errors::at;
use handles::{Handle, Handles};
use quota::Accounts;
use root::{Access, ExportRoot};

/// Subfiles beneath an export root. Clones share everything.
#[derive(Debug, Clone)]
pub struct DiskStore {
    root: Arc<ExportRoot>,
    accounts: Arc<Accounts>,
    handles: Arc<Mutex<Handles>>,
    /// Held by a rename that takes sums along, so that nothing changes the subfile between its two steps; shared by
    /// changes.
    renames: Arc<RwLock<()>>,
}

impl DiskStore {
    /// The subfiles beneath the directory `export_root`.
    ///
    /// # Errors
    /// If it is not a directory in which files can be created, or the operating system cannot confine paths to it.
    pub fn open(export_root: &Path) -> Result<DiskStore, ExportError> {
        DiskStore::with_quotas(export_root, Quotas::default())
    }

    /// The same with a limit on what each member may fill. All that is there is counted first.
    ///
    /// # Errors
    /// As [`open`](Self::open); also if there is a quota, and files have no extended attributes there, or not all can be
    /// looked at.
    pub fn with_quotas(export_root: &Path, quotas: Quotas) -> Result<DiskStore, ExportError> {
        let root = Arc::new(ExportRoot::open(export_root)?);
        let accounts = Accounts::open(quotas, export_root)
            .map_err(|error| ExportError::NotCounted { path: export_root.to_owned(), error })?;
        Ok(DiskStore { root, accounts: Arc::new(accounts), handles: Arc::default(), renames: Arc::default() })
    }

    /// Carries out one operation.
    pub fn perform(&self, operation: &DiskOperation) -> DiskResult {
        let mut incidents = Vec::new();
        let outcome = self.carry_out(&operation.path, &operation.action, &mut incidents);
        DiskResult { ticket: operation.ticket, outcome, incidents }
    }

    fn carry_out(
        &self,
        path: &SubfilePath,
        action: &DiskAction,
        incidents: &mut Vec<Incident>,
    ) -> Result<DiskReply, DiskError> {
        // Nothing lies behind the lock that a panic could leave half changed.
        let takes_sums_along = self.takes_sums_along(path, action);
        let _alone = takes_sums_along.then(|| self.renames.write().unwrap_or_else(PoisonError::into_inner));
        let _shared =
            (!takes_sums_along).then(|| self.renames.read().unwrap_or_else(PoisonError::into_inner));
        self.forget_sums(path, action, incidents)?;
        let mut data = bytes::Bytes::new();
        let size_before = match action {
            DiskAction::Size => self.handle(path, Access::Read, incidents)?.size(path)?,
            DiskAction::Read { extents } => {
                let handle = self.handle(path, Access::Read, incidents)?;
                data = extents::read(handle.file(), extents).map_err(at(SystemCall::Read, path))?;
                handle.size(path)?
            }
            DiskAction::Write { extents, data } => {
                self.handle(path, Access::Write, incidents)?.write(path, extents, data)?
            }
            DiskAction::Create { truncate, durable, owner } => {
                self.create(path, (*truncate, *durable), owner.as_deref(), incidents)?
            }
            DiskAction::SetLength { length } => {
                self.handle(path, Access::Write, incidents)?.resize(path, |_| *length)?
            }
            DiskAction::Grow { length } => {
                self.handle(path, Access::Write, incidents)?.resize(path, |size| size.max(*length))?
            }
            DiskAction::Sync => self.sync(path, incidents)?,
            DiskAction::Remove { durable } => {
                self.remove(path, *durable, incidents)?;
                0
            }
            DiskAction::Rename { target, replace, durable } => {
                self.rename(path, target, (*replace, *durable), incidents)?;
                if let (Some(sums), Some(new)) = (crate::sums::beside(path), crate::sums::beside(target)) {
                    unless_missing(self.rename(&sums, &new, (true, *durable), incidents))?;
                }
                0
            }
        };
        Ok(DiskReply { size_before, data })
    }

    fn takes_sums_along(&self, path: &SubfilePath, action: &DiskAction) -> bool {
        let sums = || crate::sums::beside(path).is_some_and(|sums| self.root.holds(&sums));
        matches!(action, DiskAction::Rename { .. }) && sums()
    }

    /// Removes the [sums](crate::sums) of what `action` is about to change, durably: sums that outlived a change by a power
    /// loss would call good bytes damaged.
    fn forget_sums(
        &self,
        path: &SubfilePath,
        action: &DiskAction,
        incidents: &mut Vec<Incident>,
    ) -> Result<(), DiskError> {
        let changed = match action {
            DiskAction::Write { .. }
            | DiskAction::Create { truncate: true, .. }
            | DiskAction::SetLength { .. }
            | DiskAction::Grow { .. }
            | DiskAction::Remove { .. } => path,
            // One that is new has no sums yet; there may be some of one that was removed behind our back.
            DiskAction::Create { truncate: false, .. } if !self.root.holds(path) => path,
            DiskAction::Rename { target, replace, .. } if *replace || !self.root.holds(target) => target,
            _ => return Ok(()),
        };
        match crate::sums::beside(changed) {
            Some(sums) => unless_missing(self.remove(&sums, true, incidents)),
            None => Ok(()),
        }
    }

    fn create(
        &self,
        path: &SubfilePath,
        (truncate, durable): (bool, bool),
        owner: Option<&str>,
        incidents: &mut Vec<Incident>,
    ) -> Result<u64, DiskError> {
        let handle = match self.cached(path, Access::Write) {
            Some(handle) => handle,
            None => {
                let created = {
                    let _opening = self.accounts.opening();
                    let file = self.root.create(path, |file| self.accounts.note_owner(file, owner))?;
                    Handle::new(file, Access::Write, &self.accounts)
                };
                self.keep(path, created, incidents)
            }
        };
        let size_before = if truncate { handle.resize(path, |_| 0)? } else { handle.size(path)? };
        if durable {
            self.sync(path, incidents)?;
        }
        Ok(size_before)
    }

    fn remove(
        &self,
        path: &SubfilePath,
        durable: bool,
        incidents: &mut Vec<Incident>,
    ) -> Result<(), DiskError> {
        let paid = self.paid(path, incidents);
        self.root.remove(path, durable)?;
        paid.iter().for_each(|handle| handle.is_gone());
        self.lock().remove(path);
        Ok(())
    }

    fn rename(
        &self,
        path: &SubfilePath,
        target: &SubfilePath,
        (replace, durable): (bool, bool),
        incidents: &mut Vec<Incident>,
    ) -> Result<(), DiskError> {
        let replaced = self.paid(target, incidents).filter(|_| path != target);
        self.root.rename(path, target, replace, durable)?;
        replaced.iter().for_each(|handle| handle.is_gone());
        self.lock().rename(path, target);
        Ok(())
    }

    fn sync(&self, path: &SubfilePath, incidents: &mut Vec<Incident>) -> Result<u64, DiskError> {
        let handle = self.handle(path, Access::Read, incidents)?;
        handle.sync(path)?;
        self.root.sync_directories(path)?;
        handle.size(path)
    }

    /// The open subfile, from the cache or from the disk.
    fn handle(
        &self,
        path: &SubfilePath,
        access: Access,
        incidents: &mut Vec<Incident>,
    ) -> Result<Arc<Handle>, DiskError> {
        if let Some(handle) = self.cached(path, access) {
            return Ok(handle);
        }
        let opened = {
            let _opening = self.accounts.opening();
            let (file, access) = self.root.open_file(path, access)?;
            Handle::new(file, access, &self.accounts)
        };
        Ok(self.keep(path, opened, incidents))
    }

    /// The open subfile, if somebody may pay for it.
    fn paid(&self, path: &SubfilePath, incidents: &mut Vec<Incident>) -> Option<Arc<Handle>> {
        // A subfile that cannot be opened cannot be removed either, or is none.
        self.accounts.are_kept().then(|| self.handle(path, Access::Read, incidents).ok()).flatten()
    }

    fn cached(&self, path: &SubfilePath, access: Access) -> Option<Arc<Handle>> {
        self.lock().get(path, access)
    }

    fn keep(&self, path: &SubfilePath, handle: Handle, incidents: &mut Vec<Incident>) -> Arc<Handle> {
        let (handle, evicted) = self.lock().insert(path, handle);
        // Outside of the lock: a sync can take long.
        for (path, evicted) in evicted {
            if let Err(error) = evicted.sync(&path) {
                let error = DiskError { call: SystemCall::Close, ..error };
                incidents.push(Incident { path, error });
            }
        }
        handle
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Handles> {
        // The cache is consistent between any two of its statements, so a panic elsewhere does not spoil it.
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
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

impl Store for DiskStore {
    fn perform(&mut self, path: &SubfilePath, action: &DiskAction) -> Result<DiskReply, DiskError> {
        self.carry_out(path, action, &mut Vec::new())
    }
}

#[cfg(test)]
mod tests;
