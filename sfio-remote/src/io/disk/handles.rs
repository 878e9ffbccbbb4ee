//! Open subfiles.
//!
//! A subfile stays open for more than speed: the operating system reports a failed write-back to whoever syncs a file
//! that was open at the time, and may forget it otherwise. So a subfile with writes that were not synced is closed only
//! after a sync.
//!
//! A sync that failed is remembered on the subfile itself, as an extended attribute, so that it goes where the subfile
//! goes and ends with it: an I/O node that was restarted would otherwise find that all has been synced. Where a file
//! system has no extended attributes, only the process remembers, as long as the subfile is open.

use std::collections::BTreeMap;
use std::fs::File;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use bytes::Bytes;
use rustix::fs::{XattrFlags, fgetxattr, fremovexattr, fsetxattr, fstat, fsync, ftruncate};
use rustix::io::{Errno, retry_on_intr};

use super::errors::at;
use super::extents;
use super::quota::{Account, Accounts};
use super::reserve::Kind;
use super::root::Access;
use crate::distribution::Extent;
use crate::name::SubfilePath;
use crate::remote_error::ErrorKind;
use crate::store::{DiskError, SystemCall, too_large};

/// The most subfiles that are kept open; half of the usual limit of a process.
const MAX_OPEN: usize = 512;

/// The attribute of a subfile of which a sync has failed since it was made, or made anew.
const LOST: &str = "user.sfio.lost";

/// An open subfile.
#[derive(Debug)]
pub(super) struct Handle {
    file: File,
    access: Access,
    kind: Kind,
    /// Held for reading while data is written, for writing while the size is changed: between looking at a size and
    /// growing to another one, a write could have made the file longer still.
    size_lock: RwLock<()>,
    unsynced: AtomicBool,
    /// Whether a sync has failed. Held while it is synced: the system tells a failure to one of those that sync at
    /// once, and to all others that their sync has succeeded.
    lost: Mutex<bool>,
    /// The account of the member that pays for it.
    account: Option<Account>,
}

impl Handle {
    pub(super) fn new(path: &SubfilePath, file: File, access: Access, accounts: &Arc<Accounts>) -> Handle {
        // A size that cannot be told now fails the first operation that needs it.
        let size = fstat(&file).map_or(0, |stat| u64::try_from(stat.st_size).unwrap_or(0));
        let kind = Kind::of(path);
        let account = accounts.of(&file, kind, size);
        let unsynced = AtomicBool::new(false);
        Handle { file, access, kind, size_lock: RwLock::new(()), unsynced, lost: Mutex::new(false), account }
    }

    /// Its file was removed, so nobody has to pay for it any more.
    pub(super) fn is_gone(&self) {
        self.account.iter().for_each(Account::close);
    }

    /// The member that pays for it.
    pub(super) fn owner(&self) -> Option<&str> {
        self.account.as_ref().map(Account::owner)
    }

    pub(super) fn file(&self) -> &File {
        &self.file
    }

    pub(super) fn size(&self, path: &SubfilePath) -> Result<u64, DiskError> {
        let stat = fstat(&self.file).map_err(at(SystemCall::Open, path))?;
        Ok(u64::try_from(stat.st_size).unwrap_or(0))
    }

    /// All of its bytes, of which there may be `limit` at most.
    pub(super) fn read_whole(&self, path: &SubfilePath, limit: u64) -> Result<Bytes, DiskError> {
        match self.size(path)? {
            0 => Ok(Bytes::new()),
            size if size > limit => Err(too_large(path, size, limit)),
            size => {
                extents::read(&self.file, &[Extent::between(0, size)]).map_err(at(SystemCall::Read, path))
            }
        }
    }

    /// Writes, and gives the size before.
    pub(super) fn write(
        &self,
        path: &SubfilePath,
        extents: &[Extent],
        data: &[Bytes],
    ) -> Result<u64, DiskError> {
        self.kind.check(&self.file, path, extents.iter().map(|extent| extent.length()).sum())?;
        let written = self.write_beside_others(path, extents, data);
        if written.is_err() {
            self.settle(path);
        }
        written
    }

    fn write_beside_others(
        &self,
        path: &SubfilePath,
        extents: &[Extent],
        data: &[Bytes],
    ) -> Result<u64, DiskError> {
        let _shared = self.size_lock.read().unwrap_or_else(PoisonError::into_inner);
        let size_before = self.size(path)?;
        let end = extents.last().map_or(0, |extent| extent.end());
        self.account.iter().try_for_each(|account| account.grow(end, SystemCall::Write))?;
        self.unsynced.store(true, Ordering::Relaxed);
        extents::write(&self.file, extents, data).map_err(at(SystemCall::Write, path))?;
        Ok(size_before)
    }

    /// Changes the size to what `new_size` makes of it, and gives the size before.
    pub(super) fn resize(
        &self,
        path: &SubfilePath,
        new_size: impl FnOnce(u64) -> u64,
    ) -> Result<u64, DiskError> {
        let _alone = self.size_lock.write().unwrap_or_else(PoisonError::into_inner);
        let size_before = self.size(path)?;
        let size = new_size(size_before);
        if size != size_before {
            self.account.iter().try_for_each(|account| account.grow(size, SystemCall::Truncate))?;
            self.unsynced.store(true, Ordering::Relaxed);
            let resized = retry_on_intr(|| ftruncate(&self.file, size));
            let size_after = if resized.is_ok() { size } else { size_before };
            self.account.iter().for_each(|account| account.settle(size_after));
            resized.map_err(at(SystemCall::Truncate, path))?;
        }
        if size == 0 {
            // What was written before is gone by the caller's will. Mostly there is no such attribute.
            *self.lost() = false;
            let _ = fremovexattr(&self.file, LOST);
        }
        Ok(size_before)
    }

    /// A write failed: its owner pays for what there is, not for what there should be.
    fn settle(&self, path: &SubfilePath) {
        let _alone = self.size_lock.write().unwrap_or_else(PoisonError::into_inner);
        if let (Some(account), Ok(size)) = (&self.account, self.size(path)) {
            account.settle(size);
        }
    }

    /// Makes all that was written survive a power loss.
    ///
    /// # Errors
    /// What the system says; `SyncLost` if a sync has failed before, in this process or one before it.
    pub(super) fn sync(&self, path: &SubfilePath) -> Result<(), DiskError> {
        self.sync_by(path, |file| retry_on_intr(|| fsync(file)))
    }

    /// Syncs by `fsync`, a call of the operating system or of a test.
    fn sync_by(
        &self,
        path: &SubfilePath,
        fsync: impl Fn(&File) -> Result<(), Errno>,
    ) -> Result<(), DiskError> {
        let mut lost = self.lost();
        if *lost || self.is_marked_lost() {
            return Err(DiskError::new(SystemCall::Write, ErrorKind::SyncLost, path.to_string()));
        }
        // Cleared before: a write that comes meanwhile must set it again.
        self.unsynced.store(false, Ordering::Relaxed);
        fsync(&self.file).map_err(|error| {
            *lost = true;
            // A disk that fails may take neither the attribute nor the sync that makes it last; then a process that is
            // killed now is forgotten, too, and the caller has its error all the same.
            let _ = fsetxattr(&self.file, LOST, b"1", XattrFlags::empty());
            let _ = fsync(&self.file);
            at(SystemCall::Write, path)(error)
        })
    }

    fn is_marked_lost(&self) -> bool {
        fgetxattr(&self.file, LOST, &mut [0_u8; 8][..]).is_ok()
    }

    fn lost(&self) -> MutexGuard<'_, bool> {
        self.lost.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether it serves for `access`, and its file still has a name: somebody may have removed it on the disk itself.
    fn serves(&self, access: Access) -> bool {
        let has_name = fstat(&self.file).is_ok_and(|stat| stat.st_nlink > 0);
        has_name && (self.access == Access::Write || access == Access::Read)
    }

    fn is_unsynced(&self) -> bool {
        self.unsynced.load(Ordering::Relaxed)
    }
}

/// The open subfiles by path, at most [`MAX_OPEN`] beyond those in use.
#[derive(Debug, Default)]
pub(super) struct Handles {
    open: BTreeMap<SubfilePath, Entry>,
    /// Counts the uses, to know which was the last.
    uses: u64,
    /// Counts what was removed or got another path: what was opened before may not be what its path leads to.
    moves: u64,
}

/// The handle that counts, and those that must be synced before they are closed.
type Kept = (Arc<Handle>, Vec<(SubfilePath, Arc<Handle>)>);

#[derive(Debug)]
struct Entry {
    handle: Arc<Handle>,
    last_use: u64,
}

impl Handles {
    pub(super) fn get(&mut self, path: &SubfilePath, access: Access) -> Option<Arc<Handle>> {
        self.uses += 1;
        let entry = self.open.get_mut(path).filter(|entry| entry.handle.serves(access))?;
        entry.last_use = self.uses;
        Some(Arc::clone(&entry.handle))
    }

    /// How much was removed or moved so far.
    pub(super) fn moves(&self) -> u64 {
        self.moves
    }

    /// Keeps `handle`, which was opened after so many `moves`, unless another thread was faster; gives the one that
    /// counts, and those that must be synced before they are closed. None if there were more moves since.
    pub(super) fn insert(&mut self, path: &SubfilePath, handle: Handle, moves: u64) -> Option<Kept> {
        if self.moves != moves {
            return None;
        }
        self.uses += 1;
        if let Some(entry) = self.open.get(path).filter(|entry| entry.handle.serves(handle.access)) {
            return Some((Arc::clone(&entry.handle), Vec::new()));
        }
        let handle = Arc::new(handle);
        let entry = Entry { handle: Arc::clone(&handle), last_use: self.uses };
        self.open.insert(path.clone(), entry);
        Some((handle, self.evict()))
    }

    pub(super) fn remove(&mut self, path: &SubfilePath) {
        self.moves += 1;
        self.open.remove(path);
    }

    pub(super) fn rename(&mut self, path: &SubfilePath, target: &SubfilePath) {
        if path == target {
            return;
        }
        self.moves += 1;
        self.open.remove(target);
        if let Some(entry) = self.open.remove(path) {
            self.open.insert(target.clone(), entry);
        }
    }

    /// Lets go of the longest unused subfiles, synced ones first.
    fn evict(&mut self) -> Vec<(SubfilePath, Arc<Handle>)> {
        let mut evicted = Vec::new();
        while self.open.len() > MAX_OPEN {
            // One that is in use stays: a second handle beside it would have another size lock.
            let idle = self.open.iter().filter(|(_, entry)| Arc::strong_count(&entry.handle) == 1);
            let oldest = idle.min_by_key(|(_, entry)| (entry.handle.is_unsynced(), entry.last_use));
            let Some(path) = oldest.map(|(path, _)| path.clone()) else { break };
            let entry = self.open.remove(&path);
            evicted.extend(entry.filter(|e| e.handle.is_unsynced()).map(|entry| (path, entry.handle)));
        }
        evicted
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::io::disk::DiskStore;
    use crate::store::{DiskAction, DiskOperation, DiskReply, Ticket};

    fn path(text: &str) -> SubfilePath {
        SubfilePath::new(text).expect("a right path")
    }

    fn perform(store: &DiskStore, text: &str, action: DiskAction) -> Result<DiskReply, ErrorKind> {
        let operation = DiskOperation { ticket: Ticket(1), path: path(text), action };
        store.perform(&operation).outcome.map_err(|error| error.error.kind)
    }

    fn create(truncate: bool) -> DiskAction {
        DiskAction::Create { truncate, exclusive: false, durable: false, owner: None }
    }

    /// The store of a process that comes after the one that had `root`; none on a file system without attributes.
    fn restarted(root: &Path) -> DiskStore {
        DiskStore::open(root).expect("a right export root")
    }

    /// A store with a subfile of which a sync failed, as a process has left it that was killed after `steps` of the
    /// three that follow the failure: nothing, the attribute, the sync of it.
    fn killed_after(steps: usize, root: &Path) {
        let file = File::create(root.join("a")).expect("possible");
        let handle = Handle::new(&path("a"), file, Access::Write, &Arc::default());
        let calls = std::cell::Cell::new(0);
        match steps {
            0 => {}
            _ => drop(handle.sync_by(&path("a"), |file| {
                calls.set(calls.get() + 1);
                match calls.get() {
                    1 => Err(Errno::IO),
                    _ if steps == 1 => Err(Errno::IO),
                    _ => fsync(file),
                }
            })),
        }
    }

    /// An I/O node that was restarted once said that a subfile was synced of which a sync had failed before.
    #[test]
    fn a_failed_sync_is_remembered_by_the_process_that_comes_next_wherever_this_one_was_killed() {
        for (steps, expected) in [(0, None), (1, Some(ErrorKind::SyncLost)), (2, Some(ErrorKind::SyncLost))] {
            let root = tempfile::tempdir().expect("a temporary directory");
            killed_after(steps, root.path());
            for _ in 0..2 {
                let store = restarted(root.path());
                assert_eq!(perform(&store, "a", DiskAction::Sync).err(), expected, "{steps} steps");
            }
        }
    }

    /// The system tells a failure once. Another sync at the same time was told that all is well.
    #[test]
    fn a_sync_that_waits_for_one_that_fails_fails_too() {
        let root = tempfile::tempdir().expect("a temporary directory");
        let file = File::create(root.path().join("a")).expect("possible");
        let handle = Handle::new(&path("a"), file, Access::Write, &Arc::default());
        let (begun, has_begun) = std::sync::mpsc::channel();
        let [first, second] = std::thread::scope(|scope| {
            let first = scope.spawn(|| {
                handle.sync_by(&path("a"), |_| {
                    // It may be called again, for the mark.
                    let _ = begun.send(());
                    std::thread::sleep(std::time::Duration::from_millis(20));
                    Err(Errno::IO)
                })
            });
            has_begun.recv().expect("it has begun");
            let second = handle.sync_by(&path("a"), |_| Ok(()));
            [first.join().expect("no panic"), second]
        });
        assert_eq!(first.map_err(|error| error.error.kind), Err(ErrorKind::Disk));
        assert_eq!(second.map_err(|error| error.error.kind), Err(ErrorKind::SyncLost));
    }

    #[test]
    fn a_failed_sync_is_forgotten_when_the_subfile_is_made_anew_and_follows_its_name_till_then() {
        let anew: [fn(&DiskStore); 3] = [
            |store| drop(perform(store, "b", create(true)).expect("possible")),
            |store| drop(perform(store, "b", DiskAction::SetLength { length: 0 }).expect("possible")),
            |store| {
                perform(store, "b", DiskAction::Remove { durable: false }).expect("possible");
                perform(store, "b", create(false)).expect("possible");
            },
        ];
        for anew in anew {
            let root = tempfile::tempdir().expect("a temporary directory");
            killed_after(2, root.path());
            let store = restarted(root.path());
            perform(&store, "a", DiskAction::SetLength { length: 7 }).expect("possible");
            let rename = DiskAction::Rename { target: path("b"), replace: true, durable: false };
            perform(&store, "a", rename).expect("possible");
            assert_eq!(perform(&store, "b", DiskAction::Sync).err(), Some(ErrorKind::SyncLost));
            anew(&store);
            assert_eq!(perform(&restarted(root.path()), "b", DiskAction::Sync).err(), None);
        }
    }
}
