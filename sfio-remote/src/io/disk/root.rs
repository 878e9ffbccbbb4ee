//! The export root, and everything that takes a path: nothing outside of the root can be reached, whatever the path
//! says and whatever somebody changes meanwhile, because the kernel resolves it beneath the root (`openat2` with
//! `RESOLVE_BENEATH`).

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::{
    self as sys, AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags, fstat, fsync, mkdirat, openat2,
    renameat_with, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use super::errors::at;
use crate::name::SubfilePath;
use crate::remote_error::ErrorKind;
use crate::store::{DiskError, SystemCall};

/// How often a path is resolved anew when something on it is renamed meanwhile (`openat2` says `EAGAIN`).
const MAX_RESOLUTIONS: usize = 64;

/// The most directories with unsynced names that are remembered; beyond that names are synced as they are made.
const MAX_UNSYNCED_DIRECTORIES: usize = 4_096;

/// What a subfile is opened for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// Reading only.
    Read,
    /// Writing, too.
    Write,
}

/// Why a directory cannot be an export root.
#[derive(Debug, thiserror::Error)]
pub enum ExportError {
    /// It cannot be opened as a directory.
    #[error("export root {}: {error}", path.display())]
    Open {
        /// The directory.
        path: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
    /// No files can be created in it.
    #[error("export root {} is not writable: {error}", path.display())]
    NotWritable {
        /// The directory.
        path: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
    /// It lies on a file system of the kernel, such as /proc, where files are not bytes at offsets.
    #[error("export root {}: a file system of the kernel, not of a disk (type {kind:#x})", path.display())]
    NotADisk {
        /// The directory.
        path: PathBuf,
        /// The type of the file system, as `statfs` tells it.
        kind: u64,
    },
    /// What the members have used of their quotas cannot be told.
    #[error("export root {}: cannot count what its members use: {error}", path.display())]
    NotCounted {
        /// The directory.
        path: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
    /// The kernel has no openat2 (Linux has it since 5.6), or a sandbox forbids it.
    #[error("export root {}: the system cannot confine paths to it: openat2: {error}", path.display())]
    NotConfined {
        /// The directory.
        path: PathBuf,
        /// What the operating system says.
        error: io::Error,
    },
}

/// A directory beneath which everything happens.
#[derive(Debug)]
pub(super) struct ExportRoot {
    directory: OwnedFd,
    unsynced: Mutex<BTreeMap<String, Unsynced>>,
}

type Directories<'a> = MutexGuard<'a, BTreeMap<String, Unsynced>>;

/// The names in a directory would not all survive a power loss.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unsynced {
    /// A sync will do.
    Pending,
    /// A sync failed; no later one can be trusted.
    Lost,
}

impl ExportRoot {
    pub(super) fn open(path: &Path) -> Result<ExportRoot, ExportError> {
        let (owned, because) = (|| path.to_owned(), |errno: Errno| io::Error::from(errno));
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = sys::open(path, flags, Mode::empty())
            .map_err(|errno| ExportError::Open { path: owned(), error: because(errno) })?;
        if let Some(kind) = kernel_file_system(&directory) {
            return Err(ExportError::NotADisk { path: owned(), kind });
        }
        sys::accessat(&directory, ".", sys::Access::WRITE_OK | sys::Access::EXEC_OK, AtFlags::EACCESS)
            .map_err(|errno| ExportError::NotWritable { path: owned(), error: because(errno) })?;
        let root = ExportRoot { directory, unsynced: Mutex::default() };
        root.resolve(".", OFlags::PATH | OFlags::DIRECTORY)
            .map_err(|errno| ExportError::NotConfined { path: owned(), error: because(errno) })?;
        Ok(root)
    }

    /// Opens a subfile, for writing if possible even where reading is all that is asked, so that one handle serves both.
    pub(super) fn open_file(&self, path: &SubfilePath, access: Access) -> Result<(File, Access), DiskError> {
        self.refuse_other_than_file(path, SystemCall::Open)?;
        let open = |flags| self.resolve(path.as_str(), flags | OFlags::NONBLOCK | OFlags::NOCTTY);
        let (opened, access) = match open(OFlags::RDWR) {
            Err(Errno::ACCESS | Errno::PERM | Errno::ROFS | Errno::TXTBSY) if access == Access::Read => {
                (open(OFlags::RDONLY), Access::Read)
            }
            other => (other, Access::Write),
        };
        let file = File::from(opened.map_err(at(SystemCall::Open, path))?);
        // Looked at again: it could have been swapped for something else since.
        let stat = fstat(&file).map_err(at(SystemCall::Open, path))?;
        refuse_type(FileType::from_raw_mode(stat.st_mode), path, SystemCall::Open)?;
        Ok((file, access))
    }

    /// Opens a subfile for writing, and creates it and the directories above it where they do not exist.
    ///
    /// One that is new is handed to `mark`.
    pub(super) fn create(
        &self,
        path: &SubfilePath,
        mark: impl FnOnce(&OwnedFd) -> Result<(), Errno>,
    ) -> Result<File, DiskError> {
        match self.open_file(path, Access::Write) {
            Err(error) if error.error.kind == ErrorKind::NotFound => {}
            opened => return opened.map(|(file, _)| file),
        }
        let (parent, name) = split(path.as_str());
        self.create_directories(parent).map_err(at(SystemCall::Create, path))?;
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC
            | OFlags::NOFOLLOW;
        let mode = Mode::from_raw_mode(0o666);
        let created = self.directory_at(parent).and_then(|directory| {
            let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
            let file = openat2(&directory, name, flags, mode, beneath)?;
            // One that cannot be marked must not stay behind unmarked.
            mark(&file).inspect_err(|_| {
                let _ = unlinkat(&directory, name, AtFlags::empty());
            })?;
            Ok(file)
        });
        match created {
            Ok(file) => {
                self.name_changed(parent, false).map_err(at(SystemCall::Create, path))?;
                Ok(File::from(file))
            }
            // Somebody else was faster.
            Err(Errno::EXIST) => self.open_file(path, Access::Write).map(|(file, _)| file),
            Err(errno) => Err(at(SystemCall::Create, path)(errno)),
        }
    }

    /// Whether there is something at that path.
    pub(super) fn holds(&self, path: &SubfilePath) -> bool {
        self.resolve(path.as_str(), OFlags::PATH).is_ok()
    }

    pub(super) fn remove(&self, path: &SubfilePath, durable: bool) -> Result<(), DiskError> {
        self.refuse_other_than_file(path, SystemCall::Unlink)?;
        let (parent, name) = split(path.as_str());
        let removed = self.directory_at(parent).and_then(|d| unlinkat(&d, name, AtFlags::empty()));
        removed.map_err(at(SystemCall::Unlink, path))?;
        self.name_changed(parent, durable).map_err(at(SystemCall::Write, path))
    }

    pub(super) fn rename(
        &self,
        path: &SubfilePath,
        target: &SubfilePath,
        replace: bool,
        durable: bool,
    ) -> Result<(), DiskError> {
        self.refuse_other_than_file(path, SystemCall::Create)?;
        let ((from, name), (to, new_name)) = (split(path.as_str()), split(target.as_str()));
        self.create_directories(to).map_err(at(SystemCall::Create, target))?;
        let flags = if replace { RenameFlags::empty() } else { RenameFlags::NOREPLACE };
        let renamed = self.directory_at(from).and_then(|old| {
            let new = self.directory_at(to)?;
            renameat_with(&old, name, &new, new_name, flags)
        });
        renamed.map_err(at(SystemCall::Create, target))?;
        // The new name first: a power loss in between leaves two names rather than none.
        let noted = self.name_changed(to, durable).and_then(|()| self.name_changed(from, durable));
        noted.map_err(at(SystemCall::Write, target))
    }

    /// Makes the names on the way to a subfile survive a power loss, as far as they were made here.
    pub(super) fn sync_directories(&self, path: &SubfilePath) -> Result<(), DiskError> {
        let mut unsynced = self.unsynced();
        let mut directory = split(path.as_str()).0;
        loop {
            match unsynced.get(directory) {
                Some(Unsynced::Pending) => {
                    self.sync_directory(&mut unsynced, directory).map_err(at(SystemCall::Write, path))?;
                }
                Some(Unsynced::Lost) => {
                    return Err(DiskError::new(SystemCall::Write, ErrorKind::SyncLost, path.to_string()));
                }
                None => {}
            }
            if directory.is_empty() {
                return Ok(());
            }
            directory = split(directory).0;
        }
    }

    fn refuse_other_than_file(&self, path: &SubfilePath, call: SystemCall) -> Result<(), DiskError> {
        // Opening a device can have effects; a path does not open it.
        let file = self.resolve(path.as_str(), OFlags::PATH).map_err(at(call, path))?;
        let stat = fstat(&file).map_err(at(call, path))?;
        refuse_type(FileType::from_raw_mode(stat.st_mode), path, call)?;
        // One may be mounted somewhere beneath the root.
        match kernel_file_system(&file) {
            Some(_) => Err(DiskError::new(call, ErrorKind::NotAFile, path.to_string())),
            None => Ok(()),
        }
    }

    fn resolve(&self, path: &str, flags: OFlags) -> Result<OwnedFd, Errno> {
        let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..MAX_RESOLUTIONS {
            match openat2(&self.directory, path, flags | OFlags::CLOEXEC, Mode::empty(), beneath) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                other => return other,
            }
        }
        // Somebody goes on renaming what is on the way: nobody can tell that it stays beneath the root.
        Err(Errno::XDEV)
    }

    fn directory_at(&self, directory: &str) -> Result<OwnedFd, Errno> {
        let path = if directory.is_empty() { "." } else { directory };
        self.resolve(path, OFlags::PATH | OFlags::DIRECTORY)
    }

    /// Creates `directory` and all above it that do not exist, each from the one above.
    fn create_directories(&self, directory: &str) -> Result<(), Errno> {
        match self.directory_at(directory) {
            Err(Errno::NOENT) => {}
            other => return other.map(drop),
        }
        let (parent, name) = split(directory);
        self.create_directories(parent)?;
        match mkdirat(self.directory_at(parent)?, name, Mode::from_raw_mode(0o777)) {
            Ok(()) => self.name_changed(parent, false),
            Err(Errno::EXIST) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    /// A name in `directory` was made or removed; `durable` if that must survive a power loss now.
    fn name_changed(&self, directory: &str, durable: bool) -> Result<(), Errno> {
        let mut unsynced = self.unsynced();
        if durable || unsynced.len() >= MAX_UNSYNCED_DIRECTORIES {
            return self.sync_directory(&mut unsynced, directory);
        }
        unsynced.entry(directory.to_owned()).or_insert(Unsynced::Pending);
        Ok(())
    }

    /// Syncs a directory. The lock is held meanwhile, so that nobody takes a running sync for one that has ended.
    fn sync_directory(&self, unsynced: &mut Directories<'_>, directory: &str) -> Result<(), Errno> {
        let path = if directory.is_empty() { "." } else { directory };
        let synced = self
            .resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)
            .and_then(|directory| retry_on_intr(|| fsync(&directory)));
        match (synced, unsynced.get(directory)) {
            (Ok(()), Some(Unsynced::Pending)) => drop(unsynced.remove(directory)),
            (Ok(()), _) => {}
            (Err(_), _) => drop(unsynced.insert(directory.to_owned(), Unsynced::Lost)),
        }
        synced
    }

    fn unsynced(&self) -> Directories<'_> {
        // Each change is a single statement.
        self.unsynced.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The directory of a path, empty for the root itself, and the name in it.
fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

/// File systems that the kernel makes up (`linux/magic.h`): proc, sysfs, debugfs, tracefs, securityfs, configfs, devpts,
/// cgroup, cgroup2, bpf, pstore, efivarfs, selinuxfs, mqueue, binfmt_misc, nsfs.
const KERNEL_FILE_SYSTEMS: [u64; 16] = [
    0x9fa0,
    0x6265_6572,
    0x6462_6720,
    0x7472_6163,
    0x7363_6673,
    0x6265_6570,
    0x1cd1,
    0x0027_e0eb,
    0x6367_7270,
    0xcafe_4a11,
    0x6165_676c,
    0xde5e_81e4,
    0xf97c_ff8c,
    0x1980_0202,
    0x4249_4e4d,
    0x6e73_6673,
];

/// The type of the file system that `file` is on, if the kernel makes it up.
fn kernel_file_system(file: &OwnedFd) -> Option<u64> {
    // The type is a number of 32 bits, in a field whose sign and width depend on the machine.
    #[allow(clippy::unnecessary_cast, reason = "the field's type depends on the machine")]
    let kind = u64::from(sys::fstatfs(file).ok()?.f_type as u32);
    KERNEL_FILE_SYSTEMS.contains(&kind).then_some(kind)
}

fn refuse_type(file_type: FileType, path: &SubfilePath, call: SystemCall) -> Result<(), DiskError> {
    let kind = match file_type {
        FileType::RegularFile => return Ok(()),
        FileType::Directory => ErrorKind::IsADirectory,
        _ => ErrorKind::NotAFile,
    };
    Err(DiskError::new(call, kind, path.to_string()))
}
