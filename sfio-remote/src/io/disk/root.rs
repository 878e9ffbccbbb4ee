//! The export root, and everything that takes a path: nothing outside of the root can be reached, whatever the path
//! says and whatever somebody changes meanwhile, because the kernel resolves it beneath the root (`openat2` with
//! `RESOLVE_BENEATH`).

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{
    self as sys, AtFlags, FileType, Mode, OFlags, RenameFlags, ResolveFlags, fstat, fsync, linkat, mkdirat,
    openat2, renameat_with, statat, unlinkat,
};
use rustix::io::{Errno, retry_on_intr};

use super::errors::at;
use super::folders::{Folders, NotSynced, split};
use super::identity::IdentityError;
use crate::name::{EntryName, SubfilePath};
use crate::remote_error::ErrorKind;
use crate::store::{DiskError, Entry, EntryKind, FirstNames, Listing, SystemCall};

/// How often a path is resolved anew when something on it is renamed meanwhile (`openat2` says `EAGAIN`).
const MAX_RESOLUTIONS: usize = 64;

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
    /// It is not the directory that was served before.
    #[error("export root {}: {error}", path.display())]
    Identity {
        /// The directory.
        path: PathBuf,
        /// What is wrong with its identity.
        error: IdentityError,
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
    /// In which of its folders all names are synced.
    folders: Folders,
}

/// Notes who has made a subfile or a folder, or refuses it.
pub(super) type Mark<'a> = dyn Fn(&OwnedFd) -> Result<(), Errno> + 'a;

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
        let root = ExportRoot { directory, folders: Folders::default() };
        root.resolve(".", OFlags::PATH | OFlags::DIRECTORY)
            .map_err(|errno| ExportError::NotConfined { path: owned(), error: because(errno) })?;
        Ok(root)
    }

    /// Opens a subfile, for writing if possible even where reading is all that is asked, so that one handle serves
    /// both.
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
        // The file is looked at again, because it could have been swapped for something else since.
        let stat = fstat(&file).map_err(at(SystemCall::Open, path))?;
        refuse_type(FileType::from_raw_mode(stat.st_mode), path, SystemCall::Open)?;
        Ok((file, access))
    }

    /// Opens a subfile for writing, and creates it and the directories above it where they do not exist.
    ///
    /// What is new is handed to `mark`.
    pub(super) fn create(&self, path: &SubfilePath, mark: &Mark<'_>) -> Result<File, DiskError> {
        match self.open_file(path, Access::Write) {
            Err(error) if error.error.kind == ErrorKind::NotFound => {}
            opened => return opened.map(|(file, _)| file),
        }
        match self.create_new(path, mark) {
            // Somebody else was faster.
            Err(error) if error.error.kind == ErrorKind::AlreadyExists => {
                self.open_file(path, Access::Write).map(|(file, _)| file)
            }
            created => created,
        }
    }

    /// Creates a subfile that must not exist, and opens it for writing.
    pub(super) fn create_new(&self, path: &SubfilePath, mark: &Mark<'_>) -> Result<File, DiskError> {
        let (parent, name) = split(path.as_str());
        self.create_directories(parent, mark).map_err(at(SystemCall::Create, path))?;
        let flags = OFlags::RDWR
            | OFlags::CREATE
            | OFlags::EXCL
            | OFlags::NONBLOCK
            | OFlags::CLOEXEC
            | OFlags::NOFOLLOW;
        let mode = Mode::RUSR | Mode::WUSR;
        let created = self.directory_at(parent).and_then(|directory| {
            self.change_names(&[parent], || {
                let beneath = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
                let file = openat2(&directory, name, flags, mode, beneath)?;
                // One that cannot be marked must not stay behind unmarked.
                mark(&file).inspect_err(|_| {
                    let _ = unlinkat(&directory, name, AtFlags::empty());
                })?;
                Ok(File::from(file))
            })
        });
        created.map_err(at(SystemCall::Create, path))
    }

    /// Whether there is something at that path.
    pub(super) fn holds(&self, path: &SubfilePath) -> bool {
        self.resolve(path.as_str(), OFlags::PATH).is_ok()
    }

    /// Removes a subfile; gives what `hold` has taken just before.
    pub(super) fn remove<H>(&self, path: &SubfilePath, hold: impl FnOnce() -> H) -> Result<H, DiskError> {
        self.refuse_other_than_file(path, SystemCall::Unlink)?;
        let (parent, name) = split(path.as_str());
        let removed = self.directory_at(parent).and_then(|directory| {
            self.change_names(&[parent], || {
                let held = hold();
                unlinkat(&directory, name, AtFlags::empty()).map(|()| held)
            })
        });
        removed.map_err(at(SystemCall::Unlink, path))
    }

    /// Gives a subfile another path; gives what `hold` has taken just before.
    pub(super) fn rename<H>(
        &self,
        path: &SubfilePath,
        target: &SubfilePath,
        replace: bool,
        mark: &Mark<'_>,
        hold: impl FnOnce() -> H,
    ) -> Result<H, DiskError> {
        self.refuse_other_than_file(path, SystemCall::Create)?;
        let ((from, name), (to, new_name)) = (split(path.as_str()), split(target.as_str()));
        self.create_directories(to, mark).map_err(at(SystemCall::Create, target))?;
        let renamed = self.directory_at(from).and_then(|old| {
            let new = self.directory_at(to)?;
            self.change_names(&[to, from], || {
                let held = hold();
                rename((&old, name), (&new, new_name), replace).map(|()| held)
            })
        });
        renamed.map_err(at(SystemCall::Create, target))
    }

    /// Makes a rename survive a power loss.
    pub(super) fn sync_rename(&self, path: &SubfilePath, target: &SubfilePath) -> Result<(), DiskError> {
        // The new name first: a power loss in between leaves two names rather than none.
        self.sync_directories(target)?;
        self.sync_directories(path)
    }

    /// What the folder holds behind the name `after`; names that no path can have are left out.
    pub(super) fn list(&self, folder: &SubfilePath, after: Option<&EntryName>) -> Result<Listing, DiskError> {
        let failed = |errno| at(SystemCall::Open, folder)(errno);
        let path = if folder.is_root() { "." } else { folder.as_str() };
        let directory = self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY).map_err(failed)?;
        if kernel_file_system(&directory).is_some() {
            return Err(DiskError::new(SystemCall::Open, ErrorKind::NotAFile, folder.to_string()));
        }
        let mut first = FirstNames::new(after);
        for entry in sys::Dir::read_from(&directory).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let name = entry.file_name().to_str().ok().and_then(|name| EntryName::new(name).ok());
            name.into_iter().for_each(|name| first.push(name));
        }
        let (names, more) = first.finish();
        // What vanishes meanwhile is not there any more.
        let entries = names.into_iter().filter_map(|name| entry(&directory, name)).collect();
        Ok(Listing { entries, more })
    }

    /// Makes the names on the way to a subfile survive a power loss.
    pub(super) fn sync_directories(&self, path: &SubfilePath) -> Result<(), DiskError> {
        self.sync_from(split(path.as_str()).0, path)
    }

    /// Makes the names in a folder and on the way to it survive a power loss.
    pub(super) fn sync_folder(&self, folder: &SubfilePath) -> Result<(), DiskError> {
        self.sync_from(folder.as_str(), folder)
    }

    /// Syncs a folder and those above it; `path` is what that is for.
    fn sync_from(&self, folder: &str, path: &SubfilePath) -> Result<(), DiskError> {
        self.folders.sync_up_from(folder, |folder| self.sync_one(folder)).map_err(|error| match error {
            NotSynced::Lost => DiskError::new(SystemCall::Write, ErrorKind::SyncLost, path.to_string()),
            NotSynced::Failed(errno) => at(SystemCall::Write, path)(errno),
        })
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
    fn create_directories(&self, directory: &str, mark: &Mark<'_>) -> Result<(), Errno> {
        match self.directory_at(directory) {
            Err(Errno::NOENT) => {}
            other => return other.map(drop),
        }
        let (parent, name) = split(directory);
        self.create_directories(parent, mark)?;
        let above = self.directory_at(parent)?;
        let made = self.change_names(&[parent], || {
            mkdirat(&above, name, Mode::RWXU)?;
            let made = self.resolve(directory, OFlags::RDONLY | OFlags::DIRECTORY)?;
            mark(&made).inspect_err(|_| {
                let _ = unlinkat(&above, name, AtFlags::REMOVEDIR);
            })
        });
        match made {
            Err(Errno::EXIST) => Ok(()),
            made => made,
        }
    }

    /// Changes names in some folders, so that a later sync knows of it.
    fn change_names<T>(
        &self,
        folders: &[&str],
        change: impl FnOnce() -> Result<T, Errno>,
    ) -> Result<T, Errno> {
        self.folders.change(folders, change, |folder| self.sync_one(folder))
    }

    fn sync_one(&self, folder: &str) -> Result<(), Errno> {
        let path = if folder.is_empty() { "." } else { folder };
        let folder = self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        retry_on_intr(|| fsync(&folder))
    }

    #[cfg(test)]
    pub(super) fn folders(&self) -> &Folders {
        &self.folders
    }
}

impl AsFd for ExportRoot {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.directory.as_fd()
    }
}

/// Gives a file another name, which must be free unless a file that has it is to be replaced.
fn rename(
    (old, name): (&OwnedFd, &str),
    (new, new_name): (&OwnedFd, &str),
    replace: bool,
) -> Result<(), Errno> {
    if replace {
        return renameat_with(old, name, new, new_name, RenameFlags::empty());
    }
    match renameat_with(old, name, new, new_name, RenameFlags::NOREPLACE) {
        // Not every file system has this call. All that matter have links, and making a link replaces nothing either.
        Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => move_by_link((old, name), (new, new_name)),
        other => other,
    }
}

/// Gives a file another name that must be free, by way of having both. A power loss may leave both.
fn move_by_link((old, name): (&OwnedFd, &str), (new, new_name): (&OwnedFd, &str)) -> Result<(), Errno> {
    linkat(old, name, new, new_name, AtFlags::empty())?;
    unlinkat(old, name, AtFlags::empty())
}

/// An entry of a directory, if it is still there.
fn entry(directory: &OwnedFd, name: EntryName) -> Option<Entry> {
    let stat = statat(directory, name.as_str(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let (kind, size) = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => (EntryKind::File, u64::try_from(stat.st_size).unwrap_or(0)),
        FileType::Directory => (EntryKind::Folder, 0),
        _ => (EntryKind::Other, 0),
    };
    Some(Entry { name, kind, size, is_being_written: false })
}

/// File systems that the kernel makes up (`linux/magic.h`): proc, sysfs, debugfs, tracefs, securityfs, configfs,
/// devpts, cgroup, cgroup2, bpf, pstore, efivarfs, selinuxfs, mqueue, binfmt_misc, nsfs.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_moved_by_links_only_to_where_nothing_is() {
        let folder = tempfile::tempdir().expect("a temporary directory");
        let open = || {
            sys::open(folder.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).expect("it is there")
        };
        let content = |name: &str| std::fs::read_to_string(folder.path().join(name)).ok();
        for name in ["a", "b"] {
            std::fs::write(folder.path().join(name), name).expect("possible");
        }
        assert_eq!(move_by_link((&open(), "a"), (&open(), "b")), Err(Errno::EXIST));
        assert_eq!((content("a").as_deref(), content("b").as_deref()), (Some("a"), Some("b")));
        assert_eq!(move_by_link((&open(), "a"), (&open(), "c")), Ok(()));
        assert_eq!((content("a"), content("c").as_deref()), (None, Some("a")));
    }
}
