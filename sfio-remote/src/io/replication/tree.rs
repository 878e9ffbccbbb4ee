//! Directories of a tree, reached from its top and never through a symbolic link.

use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{CWD, FlockOperation, Mode, OFlags, flock, openat};

use crate::replication::TreePath;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Opens what is below a directory. The directories on the way to the last path stay open, so that a walk opens each
/// once, paths may be longer than the system's longest, and nobody can lead us elsewhere by swapping in a link.
#[derive(Debug)]
pub struct Tree {
    top: OwnedFd,
    open: Vec<(Vec<u8>, OwnedFd)>,
}

impl Tree {
    /// The tree below `path`, which may itself be a link to a directory.
    ///
    /// # Errors
    /// If it is no directory, or cannot be opened.
    pub fn open(path: &Path) -> io::Result<Tree> {
        let flags = DIRECTORY.difference(OFlags::NOFOLLOW);
        Ok(Tree { top: openat(CWD, path, flags, Mode::empty())?, open: Vec::new() })
    }

    /// Keeps other processes from restoring to the same directory as long as this lives; false if one does so already.
    /// A file system that has no locks of directories keeps nobody away.
    pub(super) fn lock(&self) -> bool {
        flock(&self.top, FlockOperation::NonBlockingLockExclusive) != Err(rustix::io::Errno::WOULDBLOCK)
    }

    /// The directory at `path`; the top for none.
    ///
    /// # Errors
    /// If there is no such directory.
    pub fn directory(&mut self, path: Option<&TreePath>) -> io::Result<BorrowedFd<'_>> {
        let names: Vec<&[u8]> = path.map_or_else(Vec::new, |path| path.components().collect());
        let common = self.open.iter().zip(&names).take_while(|((open, _), name)| open == *name).count();
        self.open.truncate(common);
        for name in &names[common..] {
            let directory = open_directory(self.deepest(), name)?;
            self.open.push((name.to_vec(), directory));
        }
        Ok(self.deepest())
    }

    /// The directory that `path` is in, and its name there.
    ///
    /// # Errors
    /// If there is no such directory.
    pub fn place<'a>(&mut self, path: &'a TreePath) -> io::Result<(BorrowedFd<'_>, &'a [u8])> {
        let name = path.components().next_back().unwrap_or_default();
        Ok((self.directory(path.parent().as_ref())?, name))
    }

    /// Closes the directories at and below `path`: something else is going to be there.
    pub fn forget(&mut self, path: &TreePath) {
        let depth = path.components().count();
        let names = path.components().zip(&self.open);
        if names.filter(|(name, (open, _))| *name == open.as_slice()).count() == depth {
            self.open.truncate(depth - 1);
        }
    }

    fn deepest(&self) -> BorrowedFd<'_> {
        self.open.last().map_or(self.top.as_fd(), |(_, directory)| directory.as_fd())
    }
}

/// Opens a directory by its name in another one.
pub(super) fn open_directory(within: BorrowedFd<'_>, name: &[u8]) -> io::Result<OwnedFd> {
    Ok(openat(within, name, DIRECTORY, Mode::empty())?)
}
