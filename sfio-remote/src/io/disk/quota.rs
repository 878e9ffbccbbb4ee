//! How much of the disk each member may fill.
//!
//! A subfile belongs to the member that created it, and that member pays for its length, whoever lets it grow. The
//! owner is an extended attribute of the file, so that it survives restarts and goes with the file when it gets another
//! name. What is on the disk when an I/O node starts is counted then. Subfiles without an owner, from before there were
//! quotas, cost nobody anything. A hole counts like data, since it may be filled at any time without asking.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::fs::{XattrFlags, fgetxattr, fsetxattr, lgetxattr};
use rustix::io::Errno;

use super::reserve::Kind;
use crate::remote_error::ErrorKind;
use crate::store::{DiskError, SystemCall};

/// The attribute that names the owner.
const OWNER: &str = "user.sfio.owner";

/// A quota lets a member create one subfile or folder for so many bytes of it, and [`LEAST_ENTRIES`] in any case: what
/// is empty takes room on the disk as well.
const BYTES_PER_ENTRY: u64 = 4 << 10;
const LEAST_ENTRIES: u64 = 1_024;

/// The longest owner's name that is read; a longer one is no member's.
const MAX_NAME_BYTES: usize = 256;

/// How many bytes the subfiles that a member has created may have in all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Quotas {
    /// The quotas of members by their names.
    pub members: BTreeMap<String, u64>,
    /// The quota of each other member; none: as many bytes as the disk has.
    pub others: Option<u64>,
}

impl Quotas {
    /// Whether anybody has one.
    fn are_set(&self) -> bool {
        self.others.is_some() || !self.members.is_empty()
    }

    fn of(&self, member: &str) -> Option<u64> {
        self.members.get(member).copied().or(self.others)
    }
}

/// What the members have used of their quotas.
#[derive(Debug, Default)]
pub(super) struct Accounts {
    quotas: Quotas,
    used: Mutex<BTreeMap<Arc<str>, Used>>,
    /// Held while a subfile is opened or created. A thread that opened one between its creation and the note of its
    /// owner would take it for one that nobody pays for.
    opening: Mutex<()>,
}

/// What a member has used.
#[derive(Debug, Clone, Copy, Default)]
struct Used {
    bytes: u64,
    /// Subfiles and folders. A folder counts until it is removed on the disk and the I/O node is started anew: no
    /// request removes any.
    entries: u64,
}

/// What one subfile costs its owner.
#[derive(Debug)]
pub(super) struct Account {
    accounts: Arc<Accounts>,
    owner: Arc<str>,
    kind: Kind,
    /// The length that is paid for; none once the subfile is gone.
    paid: Mutex<Option<u64>>,
}

impl Accounts {
    /// Counts what lies beneath `root`.
    pub(super) fn open(quotas: Quotas, root: &Path) -> io::Result<Accounts> {
        let mut used = BTreeMap::new();
        if quotas.are_set() {
            // Where there are no attributes it is better to know at once.
            fsetxattr(fs::File::open(root)?, "user.sfio.quotas", b"1", XattrFlags::empty())?;
            count(root, &mut used)?;
        }
        Ok(Accounts { quotas, used: Mutex::new(used), opening: Mutex::default() })
    }

    /// Notes that `owner` has just created `file`, or a folder, for a subfile of that kind.
    ///
    /// # Errors
    /// `EDQUOT` if its quota does not allow one more.
    pub(super) fn note_owner(&self, file: impl AsFd, owner: Option<&str>, kind: Kind) -> Result<(), Errno> {
        let Some(owner) = owner.filter(|_| self.quotas.are_set()) else { return Ok(()) };
        let mut used = lock(&self.used);
        let entries = &mut used.entry(owner.into()).or_default().entries;
        let most =
            self.quotas.of(owner).map(|quota| kind.may_have((quota / BYTES_PER_ENTRY).max(LEAST_ENTRIES)));
        if most.is_some_and(|most| *entries >= most) {
            return Err(Errno::DQUOT);
        }
        fsetxattr(file, OWNER, owner.as_bytes(), XattrFlags::empty())?;
        *entries += 1;
        Ok(())
    }

    /// The account of an open file of that kind and of `size` bytes; none if nobody pays for it.
    pub(super) fn of(self: &Arc<Accounts>, file: impl AsFd, kind: Kind, size: u64) -> Option<Account> {
        if !self.quotas.are_set() {
            return None;
        }
        let mut name = [0; MAX_NAME_BYTES];
        let length = fgetxattr(file, OWNER, &mut name[..]).ok()?;
        let owner = std::str::from_utf8(&name[..length]).ok()?.into();
        Some(Account { accounts: Arc::clone(self), owner, kind, paid: Mutex::new(Some(size)) })
    }

    pub(super) fn are_kept(&self) -> bool {
        self.quotas.are_set()
    }

    /// Keeps others from opening a subfile, if that matters.
    pub(super) fn opening(&self) -> Option<MutexGuard<'_, ()>> {
        self.are_kept().then(|| lock(&self.opening))
    }

    /// Has `owner` pay for `bytes` more of a subfile of that kind; if that is too much, gives what is used and what
    /// such subfiles may use.
    fn charge(&self, owner: &Arc<str>, kind: Kind, bytes: u64) -> Result<(), (u64, u64)> {
        let mut used = lock(&self.used);
        let used = &mut used.entry(Arc::clone(owner)).or_default().bytes;
        let quota = self.quotas.of(owner).map_or(u64::MAX, |quota| kind.may_have(quota));
        match used.checked_add(bytes).filter(|sum| *sum <= quota) {
            Some(sum) => *used = sum,
            None => return Err((*used, quota)),
        }
        Ok(())
    }

    fn refund(&self, owner: &Arc<str>, bytes: u64) {
        if let Some(used) = lock(&self.used).get_mut(owner) {
            used.bytes = used.bytes.saturating_sub(bytes);
        }
    }

    fn entry_is_gone(&self, owner: &Arc<str>) {
        if let Some(used) = lock(&self.used).get_mut(owner) {
            used.entries = used.entries.saturating_sub(1);
        }
    }
}

impl Account {
    /// Pays for a subfile that will have at least `size` bytes.
    ///
    /// # Errors
    /// If the owner's quota does not allow it.
    pub(super) fn grow(&self, size: u64, call: SystemCall) -> Result<(), DiskError> {
        let mut paid = lock(&self.paid);
        let Some(before) = *paid else { return Ok(()) };
        if size > before {
            let more = size - before;
            self.accounts.charge(&self.owner, self.kind, more).map_err(|(used, quota)| {
                let (owner, kind) = (&self.owner, self.kind);
                let text =
                    format!("{more} bytes more for member {owner}, which uses {used} of its {quota}{kind}");
                DiskError::new(call, ErrorKind::NoSpace, text)
            })?;
            *paid = Some(size);
        }
        Ok(())
    }

    /// The subfile has `size` bytes now: what was paid for more of them is given back.
    pub(super) fn settle(&self, size: u64) {
        let mut paid = lock(&self.paid);
        if let Some(before) = paid.filter(|before| size < *before) {
            self.accounts.refund(&self.owner, before - size);
            *paid = Some(size);
        }
    }

    /// The subfile is gone.
    pub(super) fn close(&self) {
        if let Some(before) = lock(&self.paid).take() {
            self.accounts.refund(&self.owner, before);
            self.accounts.entry_is_gone(&self.owner);
        }
    }

    /// The member that pays.
    pub(super) fn owner(&self) -> &str {
        &self.owner
    }
}

/// Adds up the files beneath `root` by owner; links are not followed. A folder that may not be looked into, such as a
/// file system's lost+found, is none of ours.
fn count(root: &Path, used: &mut BTreeMap<Arc<str>, Used>) -> io::Result<()> {
    let mut directories = vec![root.to_owned()];
    while let Some(directory) = directories.pop() {
        let entries = match fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                tracing::warn!(directory = %directory.display(), "not counted: {error}");
                continue;
            }
            other => other.map_err(|error| at(&directory, error))?,
        };
        for entry in entries {
            let entry = entry.map_err(|error| at(&directory, error))?;
            let metadata = entry.metadata().map_err(|error| at(&entry.path(), error))?;
            if let Some(owner) = owner(&entry.path(), &metadata) {
                let used = used.entry(owner).or_default();
                used.entries += 1;
                used.bytes += if metadata.is_file() { metadata.len() } else { 0 };
            }
            if metadata.is_dir() {
                directories.push(entry.path());
            }
        }
    }
    Ok(())
}

fn at(path: &Path, error: io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

fn owner(path: &Path, metadata: &fs::Metadata) -> Option<Arc<str>> {
    let mut name = [0; MAX_NAME_BYTES];
    let length =
        (metadata.is_file() || metadata.is_dir()).then(|| lgetxattr(path, OWNER, &mut name[..]).ok())??;
    std::str::from_utf8(&name[..length]).ok().map(Arc::from)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing between two statements leaves a number half changed.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
