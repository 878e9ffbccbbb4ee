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
mod folders;
mod handles;
mod identity;
mod quota;
mod reserve;
mod root;
mod sums;

pub use identity::IdentityError;
pub(super) use identity::verify_root;
pub use quota::Quotas;
pub use root::ExportError;

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use crate::name::SubfilePath;
use crate::store::{
    DiskAction, DiskError, DiskOperation, DiskReply, DiskResult, Incident, Store, SystemCall,
};
use errors::at;
use handles::{Handle, Handles};
use quota::Accounts;
use reserve::Kind;
use root::{Access, ExportRoot};
use sums::Turn;

/// Subfiles beneath an export root. Clones share everything.
#[derive(Debug, Clone)]
pub struct DiskStore {
    root: Arc<ExportRoot>,
    accounts: Arc<Accounts>,
    handles: Arc<Mutex<Handles>>,
    /// Shared by changes of subfiles that can have sums; a rename that takes sums along has it alone.
    turns: Arc<RwLock<()>>,
}

/// What creating a subfile means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Made {
    /// One that exists is kept.
    IfMissing,
    /// One that exists is an error.
    New,
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
    /// As [`open`](Self::open); also if there is a quota, and files have no extended attributes there, or not all can
    /// be looked at.
    pub fn with_quotas(export_root: &Path, quotas: Quotas) -> Result<DiskStore, ExportError> {
        let root = Arc::new(ExportRoot::open(export_root)?);
        let accounts = Accounts::open(quotas, export_root)
            .map_err(|error| ExportError::NotCounted { path: export_root.to_owned(), error })?;
        Ok(DiskStore { root, accounts: Arc::new(accounts), handles: Arc::default(), turns: Arc::default() })
    }

    /// Checks that the directory could be served by a member that remembers in the file `remembered` which one it
    /// serves; changes nothing, and does not count what the members use.
    ///
    /// # Errors
    /// As [`open`](Self::open); also if it is not the directory that was served before.
    pub fn check(export_root: &Path, remembered: &Path) -> Result<(), ExportError> {
        ExportRoot::open(export_root)?;
        let looked = identity::look(export_root, remembered);
        looked.map(drop).map_err(|error| ExportError::Identity { path: export_root.to_owned(), error })
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
        let turn = self.turn(path, action);
        self.forget_sums(path, action, incidents)?;
        let mut reply = DiskReply::default();
        reply.size_before = match action {
            DiskAction::Size => self.handle(path, Access::Read, incidents)?.size(path)?,
            DiskAction::Read { extents } => {
                let handle = self.handle(path, Access::Read, incidents)?;
                reply.data = extents::read(handle.file(), extents).map_err(at(SystemCall::Read, path))?;
                handle.size(path)?
            }
            DiskAction::Uncache { extent } => {
                let handle = self.handle(path, Access::Read, incidents)?;
                extents::uncache(handle.file(), *extent).map_err(at(SystemCall::Read, path))?;
                handle.size(path)?
            }
            DiskAction::ReadWhole { limit } => {
                let handle = self.handle(path, Access::Read, incidents)?;
                reply.data = handle.read_whole(path, *limit)?;
                reply.data.len() as u64
            }
            DiskAction::List { after, durable } => {
                reply.listing = self.root.list(path, after.as_ref())?;
                if *durable {
                    self.root.sync_folder(path)?;
                }
                0
            }
            DiskAction::Write { extents, data } => {
                self.handle(path, Access::Write, incidents)?.write(path, extents, data)?
            }
            DiskAction::Create { truncate, exclusive, durable, owner } => {
                let made = if *exclusive { Made::New } else { Made::IfMissing };
                let size_before = self.create(path, made, *truncate, owner.as_deref(), incidents)?;
                if *durable {
                    self.sync(path, incidents)?;
                }
                size_before
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
                if matches!(turn, Turn::Alone(_)) {
                    self.move_sums(path, target, *durable, incidents)?;
                }
                0
            }
        };
        Ok(reply)
    }

    fn create(
        &self,
        path: &SubfilePath,
        made: Made,
        truncate: bool,
        owner: Option<&str>,
        incidents: &mut Vec<Incident>,
    ) -> Result<u64, DiskError> {
        let create = || {
            let _opening = self.accounts.opening();
            let mark = |file: &OwnedFd| self.accounts.note_owner(file, owner, Kind::of(path));
            let file = match made {
                Made::New => self.root.create_new(path, &mark)?,
                Made::IfMissing => self.root.create(path, &mark)?,
            };
            Ok(Handle::new(path, file, Access::Write, &self.accounts))
        };
        if made == Made::New {
            let moves = self.lock().moves();
            // If it was moved meanwhile, whoever needs it opens it where it is.
            drop(self.keep(path, create()?, moves, incidents));
            return Ok(0);
        }
        let handle = self.cached_or(path, Access::Write, create, incidents)?;
        if truncate { handle.resize(path, |_| 0) } else { handle.size(path) }
    }

    fn remove(
        &self,
        path: &SubfilePath,
        durable: bool,
        incidents: &mut Vec<Incident>,
    ) -> Result<(), DiskError> {
        let paid = self.paid(path, incidents);
        self.root.remove(path, || self.lock())?.remove(path);
        paid.iter().for_each(|handle| handle.is_gone());
        if durable { self.root.sync_directories(path) } else { Ok(()) }
    }

    fn rename(
        &self,
        path: &SubfilePath,
        target: &SubfilePath,
        (replace, durable): (bool, bool),
        incidents: &mut Vec<Incident>,
    ) -> Result<(), DiskError> {
        let replaced = self.paid(target, incidents).filter(|_| path != target);
        // The folders that its new name needs are its owner's.
        let moved = self.paid(path, incidents);
        let owner = moved.as_ref().and_then(|handle| handle.owner());
        let mark = |folder: &OwnedFd| self.accounts.note_owner(folder, owner, Kind::of(target));
        // Nobody finds the open subfile under its old path when the new one counts, whatever becomes of the sync.
        self.root.rename(path, target, replace, &mark, || self.lock())?.rename(path, target);
        replaced.iter().for_each(|handle| handle.is_gone());
        if durable { self.root.sync_rename(path, target) } else { Ok(()) }
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
        let open = || {
            let _opening = self.accounts.opening();
            let (file, access) = self.root.open_file(path, access)?;
            Ok(Handle::new(path, file, access, &self.accounts))
        };
        self.cached_or(path, access, open, incidents)
    }

    /// The open subfile from the cache, or what `open` opens.
    fn cached_or(
        &self,
        path: &SubfilePath,
        access: Access,
        open: impl Fn() -> Result<Handle, DiskError>,
        incidents: &mut Vec<Incident>,
    ) -> Result<Arc<Handle>, DiskError> {
        loop {
            let moves = {
                let mut handles = self.lock();
                match handles.get(path, access) {
                    Some(handle) => return Ok(handle),
                    None => handles.moves(),
                }
            };
            // If something was moved meanwhile, the path may lead elsewhere now.
            if let Some(handle) = self.keep(path, open()?, moves, incidents) {
                return Ok(handle);
            }
        }
    }

    /// The open subfile, if somebody may pay for it.
    fn paid(&self, path: &SubfilePath, incidents: &mut Vec<Incident>) -> Option<Arc<Handle>> {
        // A subfile that cannot be opened cannot be removed either, or is none.
        self.accounts.are_kept().then(|| self.handle(path, Access::Read, incidents).ok()).flatten()
    }

    /// Keeps a subfile open that was opened after so many moves; none if there were more since.
    fn keep(
        &self,
        path: &SubfilePath,
        handle: Handle,
        moves: u64,
        incidents: &mut Vec<Incident>,
    ) -> Option<Arc<Handle>> {
        let (handle, evicted) = self.lock().insert(path, handle, moves)?;
        // Outside of the lock: a sync can take long.
        for (path, evicted) in evicted {
            if let Err(error) = evicted.sync(&path) {
                let error = DiskError { call: SystemCall::Close, ..error };
                incidents.push(Incident { path, error });
            }
        }
        Some(handle)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Handles> {
        // The cache is consistent between any two of its statements, so a panic elsewhere does not spoil it.
        self.handles.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store for DiskStore {
    fn perform(&mut self, path: &SubfilePath, action: &DiskAction) -> Result<DiskReply, DiskError> {
        self.carry_out(path, action, &mut Vec::new())
    }
}

#[cfg(test)]
mod tests;
