//! What changes a tree, a system call each. A simulation hears of each one, and can tell what a power failure would
//! have left.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::FileExt as _;

use rustix::fs::{
    AtFlags, Mode, OFlags, Timestamps, ftruncate, futimens, linkat, mkdirat, openat, renameat, symlinkat,
    syncfs, unlinkat,
};

#[cfg(feature = "sim-io")]
pub use told::{TreeChange, changes_heard, hear_changes};

/// Makes a directory.
pub(super) fn make_directory(within: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<()> {
    mkdirat(within, name, Mode::RWXU)?;
    #[cfg(feature = "sim-io")]
    told::tell(|| {
        Some(TreeChange::Directory {
            within: told::node(within)?,
            name: name.to_vec(),
            node: told::node_at(within, name)?,
        })
    });
    Ok(())
}

/// Opens a file for reading and writing, one that is there, or a new one that must not be there.
pub(super) fn open_to_write(within: BorrowedFd<'_>, name: &[u8], is_new: bool) -> rustix::io::Result<File> {
    let creation = if is_new { OFlags::CREATE | OFlags::EXCL } else { OFlags::empty() };
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | creation;
    let file = File::from(openat(within, name, flags, Mode::RUSR | Mode::WUSR)?);
    #[cfg(feature = "sim-io")]
    told::tell(|| {
        Some(TreeChange::File { within: told::node(within)?, name: name.to_vec(), node: told::node(&file)? })
    });
    Ok(file)
}

/// Writes all of `bytes` at an offset.
pub(super) fn write_at(file: &File, bytes: &[u8], offset: u64) -> io::Result<()> {
    file.write_all_at(bytes, offset)?;
    #[cfg(feature = "sim-io")]
    told::tell(|| Some(TreeChange::Write { node: told::node(file)?, offset, bytes: bytes.to_vec() }));
    Ok(())
}

/// Cuts a file off, or makes it longer.
pub(super) fn set_length(file: &File, length: u64) -> rustix::io::Result<()> {
    ftruncate(file, length)?;
    #[cfg(feature = "sim-io")]
    told::tell(|| Some(TreeChange::Length { node: told::node(file)?, length }));
    Ok(())
}

/// Sets the times of a file or directory.
pub(super) fn set_times(of: impl AsFd, times: &Timestamps) -> rustix::io::Result<()> {
    futimens(of.as_fd(), times)?;
    #[cfg(feature = "sim-io")]
    told::tell(|| {
        let modified = times.last_modification;
        Some(TreeChange::Times {
            node: told::node(of)?,
            seconds: modified.tv_sec,
            nanoseconds: modified.tv_nsec as u32,
        })
    });
    Ok(())
}

/// Gives what has a name in a directory another one, which somebody else may have had.
pub(super) fn rename(within: BorrowedFd<'_>, from: &[u8], to: &[u8]) -> rustix::io::Result<()> {
    renameat(within, from, within, to)?;
    #[cfg(feature = "sim-io")]
    told::tell(|| {
        Some(TreeChange::Rename { within: told::node(within)?, from: from.to_vec(), to: to.to_vec() })
    });
    Ok(())
}

/// Takes a name away.
pub(super) fn remove_name(within: BorrowedFd<'_>, name: &[u8], flags: AtFlags) -> rustix::io::Result<()> {
    unlinkat(within, name, flags)?;
    #[cfg(feature = "sim-io")]
    told::tell(|| Some(TreeChange::Remove { within: told::node(within)?, name: name.to_vec() }));
    Ok(())
}

/// Gives a file one more name.
pub(super) fn link(
    from: BorrowedFd<'_>,
    first: &[u8],
    within: BorrowedFd<'_>,
    name: &[u8],
) -> rustix::io::Result<()> {
    linkat(from, first, within, name, AtFlags::empty())?;
    #[cfg(feature = "sim-io")]
    told::tell(|| {
        Some(TreeChange::Link {
            within: told::node(within)?,
            name: name.to_vec(),
            node: told::node_at(within, name)?,
        })
    });
    Ok(())
}

/// Makes a symbolic link.
pub(super) fn make_link(target: &[u8], within: BorrowedFd<'_>, name: &[u8]) -> rustix::io::Result<()> {
    symlinkat(target, within, name)?;
    #[cfg(feature = "sim-io")]
    told::tell(|| {
        let (name, target) = (name.to_vec(), target.to_vec());
        Some(TreeChange::SymbolicLink { within: told::node(within)?, name, target })
    });
    Ok(())
}

/// Makes everything durable that was written to the file system.
pub(super) fn sync(top: impl AsFd) -> rustix::io::Result<()> {
    syncfs(top)?;
    #[cfg(feature = "sim-io")]
    told::tell(|| Some(TreeChange::Sync));
    Ok(())
}

#[cfg(feature = "sim-io")]
mod told {
    use std::cell::RefCell;
    use std::os::fd::{AsFd, BorrowedFd};

    use rustix::fs::{AtFlags, fstat, statat};

    thread_local! {
        static HEARD: RefCell<Option<Vec<TreeChange>>> = const { RefCell::new(None) };
    }

    /// A change of a tree. Files and directories are told apart by their inode numbers.
    #[derive(Debug, Clone, PartialEq, Eq)]
    pub enum TreeChange {
        /// A directory was made.
        Directory {
            /// In which directory.
            within: u64,
            /// Its name.
            name: Vec<u8>,
            /// Its inode.
            node: u64,
        },
        /// A file was opened for writing, and is new and empty if there was none.
        File {
            /// In which directory.
            within: u64,
            /// Its name.
            name: Vec<u8>,
            /// Its inode.
            node: u64,
        },
        /// Bytes were written.
        Write {
            /// To which file.
            node: u64,
            /// Where.
            offset: u64,
            /// What.
            bytes: Vec<u8>,
        },
        /// A file became so long.
        Length {
            /// Which.
            node: u64,
            /// Its length in bytes.
            length: u64,
        },
        /// The time of the last modification was set.
        Times {
            /// Of which file or directory.
            node: u64,
            /// Since 1970.
            seconds: i64,
            /// Behind the second.
            nanoseconds: u32,
        },
        /// What had one name has another one now.
        Rename {
            /// In which directory.
            within: u64,
            /// The old name.
            from: Vec<u8>,
            /// The new one.
            to: Vec<u8>,
        },
        /// A name was taken away.
        Remove {
            /// In which directory.
            within: u64,
            /// The name.
            name: Vec<u8>,
        },
        /// A file has one more name.
        Link {
            /// In which directory.
            within: u64,
            /// The name.
            name: Vec<u8>,
            /// The file's inode.
            node: u64,
        },
        /// A symbolic link was made.
        SymbolicLink {
            /// In which directory.
            within: u64,
            /// Its name.
            name: Vec<u8>,
            /// Where it points.
            target: Vec<u8>,
        },
        /// Everything before this is durable.
        Sync,
    }

    /// From now on, how this thread changes trees is kept.
    pub fn hear_changes() {
        HEARD.set(Some(Vec::new()));
    }

    /// How this thread has changed trees since then, in order; nothing is kept any more.
    pub fn changes_heard() -> Vec<TreeChange> {
        HEARD.take().unwrap_or_default()
    }

    pub(super) fn tell(change: impl FnOnce() -> Option<TreeChange>) {
        HEARD.with_borrow_mut(|heard| {
            if let Some(heard) = heard {
                heard.extend(change());
            }
        });
    }

    pub(super) fn node(of: impl AsFd) -> Option<u64> {
        fstat(of).ok().map(|stat| stat.st_ino)
    }

    pub(super) fn node_at(within: BorrowedFd<'_>, name: &[u8]) -> Option<u64> {
        statat(within, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| stat.st_ino)
    }
}
