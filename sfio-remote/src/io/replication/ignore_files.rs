//! Files in a tree that say what is left out of their directories.

use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::Path;

use rustix::fs::{Mode, OFlags, openat};
use rustix::io::Errno;

use super::patterns::Patterns;
use super::tree::{Tree, open_directory};
use crate::replication::TreePath;

/// How such a file is called.
pub const IGNORE_FILE: &str = ".sfioignore";

/// A file of patterns that people write is never as long.
const MAX_BYTES: u64 = 1 << 20;

/// The `.sfioignore` files of a tree. Each has patterns for its directory and all that is in it, as git reads
/// `.gitignore`: of several files that have a word on a path, the deepest one counts.
///
/// The files of the directories that lead to the last path stay in memory, so that a walk reads each once.
#[derive(Debug)]
pub(super) struct IgnoreFiles {
    top: Level,
    below: Vec<(Vec<u8>, Level)>,
}

#[derive(Debug)]
struct Level {
    directory: OwnedFd,
    patterns: Option<Patterns>,
}

impl IgnoreFiles {
    /// Those of the tree below `path`.
    ///
    /// # Errors
    /// If it is no directory, or its own file cannot be read.
    pub(super) fn of(path: &Path) -> io::Result<IgnoreFiles> {
        let top = Tree::open(path)?.directory(None)?.try_clone_to_owned()?;
        Ok(IgnoreFiles { top: Level::new(top)?, below: Vec::new() })
    }

    /// Whether the files leave an entry out; none if they have no word on it.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub(super) fn exclude(&mut self, path: &TreePath, is_directory: bool) -> io::Result<Option<bool>> {
        self.enter(path.parent().as_ref())?;
        let names: Vec<&[u8]> = path.components().collect();
        let levels = std::iter::once(&self.top).chain(self.below.iter().map(|(_, level)| level));
        let words = levels.enumerate().filter_map(|(depth, level)| {
            level.patterns.as_ref()?.exclude(&names[depth..].join(&b'/'), is_directory)
        });
        Ok(words.last())
    }

    /// Reads the files on the way to a directory, as far as there is one.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub(super) fn enter(&mut self, directory: Option<&TreePath>) -> io::Result<()> {
        let names: Vec<&[u8]> = directory.map_or_else(Vec::new, |path| path.components().collect());
        let common = self.below.iter().zip(&names).take_while(|((open, _), name)| open == *name).count();
        self.below.truncate(common);
        for name in &names[common..] {
            let directory = match open_directory(self.deepest(), name) {
                Err(error) if is_missing(&error) => return Ok(()),
                directory => directory?,
            };
            self.below.push((name.to_vec(), Level::new(directory)?));
        }
        Ok(())
    }

    fn deepest(&self) -> BorrowedFd<'_> {
        self.below.last().map_or(&self.top, |(_, level)| level).directory.as_fd()
    }
}

impl Level {
    fn new(directory: OwnedFd) -> io::Result<Level> {
        let named = |error: io::Error| io::Error::new(error.kind(), format!("{IGNORE_FILE}: {error}"));
        let patterns = read(directory.as_fd()).map_err(named)?;
        Ok(Level { directory, patterns })
    }
}

fn read(directory: BorrowedFd<'_>) -> io::Result<Option<Patterns>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match openat(directory, IGNORE_FILE, flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        file => std::fs::File::from(file?),
    };
    let mut text = String::new();
    if file.take(MAX_BYTES + 1).read_to_string(&mut text)? as u64 > MAX_BYTES {
        return Err(io::Error::other(format!("it is longer than {} KiB", MAX_BYTES >> 10)));
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Patterns::new(text.lines().map(str::to_owned)).map(Some).map_err(io::Error::other)
}

/// Whether there is no such directory, or something else in its place.
fn is_missing(error: &io::Error) -> bool {
    [Errno::NOENT, Errno::NOTDIR, Errno::LOOP]
        .iter()
        .any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}
