//! A tree on a disk as a series of entries.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::vec;

use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fgetxattr, flistxattr, fstat, openat, readlinkat, statat,
};

use super::planting::is_part;
use super::selection::Selection;
use super::survey::Summary;
use super::tree::{Tree, open_directory};
use crate::replication::{Entry, EntryKind, Metadata, Owner, Timestamp, TreePath};

/// The largest value of an extended attribute on Linux, and the longest list of names.
const MAX_ATTRIBUTE: usize = 64 << 10;

/// Something about one path that did not work. Everything else goes on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where.
    pub path: TreePath,
    /// What.
    pub what: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.what)
    }
}

/// Why an entry has no place in a walk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LeftOut {
    /// It is a socket, a pipe or a device, which never takes part.
    Special(Problem),
    /// It is what an interrupted fetch has left, and whoever walks has no use for that.
    Part(Problem),
    /// It cannot be looked at.
    Failed(Problem),
}

/// Whether extended attributes take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Attributes {
    /// They do not.
    #[default]
    Ignored,
    /// The extended attributes of files and directories do.
    Kept,
}

/// Walks a tree in the order of manifests. Files have no pieces yet.
#[derive(Debug)]
pub struct Walk<'a> {
    top: Metadata,
    levels: Vec<Level>,
    selection: Selection<'a>,
    attributes: Attributes,
    /// The first names of files that have several, by device and number.
    first_names: BTreeMap<(u64, u64), TreePath>,
    /// The file system of the top, if the walk does not leave it.
    device: Option<u64>,
    /// Whether what interrupted fetches have left stays out.
    passes_parts_over: bool,
    /// Whether an entry was found that takes part, and one that does not.
    has_admitted: bool,
    has_passed_over: bool,
}

#[derive(Debug)]
struct Level {
    directory: OwnedFd,
    path: Option<TreePath>,
    names: vec::IntoIter<Vec<u8>>,
}

impl<'a> Walk<'a> {
    /// Begins at the top of the tree below `path`.
    ///
    /// # Errors
    /// If it is no directory that can be read.
    pub(super) fn new(
        path: &Path,
        selection: impl Into<Selection<'a>>,
        attributes: Attributes,
    ) -> io::Result<Walk<'a>> {
        let directory = Tree::open(path)?.directory(None)?.try_clone_to_owned()?;
        let top = metadata(&fstat(&directory)?, attributes.of(&directory)?);
        let levels = vec![Level::new(directory, None)?];
        let selection = selection.into();
        Ok(Walk {
            top,
            levels,
            selection,
            attributes,
            first_names: BTreeMap::new(),
            device: None,
            passes_parts_over: false,
            has_admitted: false,
            has_passed_over: false,
        })
    }

    /// The same walk without what is in other file systems: a directory in which one is mounted is empty.
    ///
    /// # Errors
    /// If the top cannot be looked at.
    pub fn on_one_file_system(mut self) -> io::Result<Walk<'a>> {
        let top = self.levels.first().map(|level| fstat(&level.directory)).transpose()?;
        self.device = top.map(|top| top.st_dev);
        Ok(self)
    }

    /// The same walk without what interrupted fetches have left in the tree: the next fetch uses that, and to everybody
    /// else it is nothing.
    #[must_use]
    pub fn without_parts(mut self) -> Walk<'a> {
        self.passes_parts_over = true;
        self
    }

    /// The metadata of the top itself.
    pub fn top(&self) -> &Metadata {
        &self.top
    }

    /// Whether something was found so far, of which nothing takes part.
    pub fn has_found_nothing_that_takes_part(&self) -> bool {
        self.has_passed_over && !self.has_admitted
    }

    fn look(&mut self, path: TreePath, name: &[u8]) -> io::Result<Look> {
        let Some(level) = self.levels.last() else { return Ok(Look::Nothing) };
        // A list may name a few of a million: the others are not even looked at.
        if !self.selection.lists(&path) {
            self.has_passed_over = true;
            return Ok(Look::Nothing);
        }
        let stat = match statat(&level.directory, name, AtFlags::SYMLINK_NOFOLLOW) {
            // It vanished since its name was read: as if it had never been.
            Err(rustix::io::Errno::NOENT) => return Ok(Look::Nothing),
            stat => stat?,
        };
        let file_type = FileType::from_raw_mode(stat.st_mode);
        if !self.selection.admits(&path, file_type == FileType::Directory)? {
            self.has_passed_over = true;
            return Ok(Look::Nothing);
        }
        self.has_admitted = true;
        // A part may be a name of a file that others are names of, too, so it must not become the first one.
        if self.passes_parts_over && file_type != FileType::Directory && is_part(&path) {
            return Ok(Look::Part);
        }
        let kind = match file_type {
            FileType::Directory => EntryKind::Directory,
            FileType::Symlink => {
                let target = readlinkat(&level.directory, name, Vec::new())?.into_bytes();
                EntryKind::Symlink { target }
            }
            FileType::RegularFile => file(&self.first_names, &stat),
            other => return Ok(Look::Special(name_of(other))),
        };
        let attributes = match (self.attributes, &kind) {
            (Attributes::Kept, EntryKind::File { .. } | EntryKind::Directory) => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
                self.attributes.of(&openat(&level.directory, name, flags, Mode::empty())?)?
            }
            _ => Vec::new(),
        };
        // A file that could not be looked at up to here is no first name: it gets no entry for others to lead to.
        if matches!(kind, EntryKind::File { .. }) && stat.st_nlink > 1 {
            self.first_names.insert(identity(&stat), path.clone());
        }
        let is_elsewhere = self.device.is_some_and(|device| device != stat.st_dev);
        if file_type == FileType::Directory && !is_elsewhere {
            let directory = open_directory(level.directory.as_fd(), name)?;
            self.selection.enter(&path)?;
            self.levels.push(Level::new(directory, Some(path.clone()))?);
        }
        Ok(Look::Entry(entry(path, kind, &stat, attributes)))
    }
}

/// What is found under a name.
enum Look {
    /// Nothing that takes part.
    Nothing,
    /// What no data set holds, in words.
    Special(&'static str),
    /// What an interrupted fetch has left.
    Part,
    Entry(Entry),
}

/// A file, or one more name of a file that has been seen.
fn file(first_names: &BTreeMap<(u64, u64), TreePath>, stat: &Stat) -> EntryKind {
    match first_names.get(&identity(stat)) {
        Some(first) => EntryKind::HardLink { to: first.clone() },
        None => EntryKind::File { size: stat.st_size as u64, pieces: Vec::new() },
    }
}

/// What all names of a file have in common: its device and number.
fn identity(stat: &Stat) -> (u64, u64) {
    (stat.st_dev, stat.st_ino)
}

impl Iterator for Walk<'_> {
    type Item = Result<Entry, LeftOut>;

    fn next(&mut self) -> Option<Result<Entry, LeftOut>> {
        loop {
            let level = self.levels.last_mut()?;
            let Some(name) = level.names.next() else {
                self.levels.pop();
                continue;
            };
            let path = TreePath::within(level.path.as_ref(), &name).expect("a directory's names are names");
            match self.look(path.clone(), &name) {
                Ok(Look::Nothing) => {}
                Ok(Look::Entry(entry)) => return Some(Ok(entry)),
                Ok(Look::Special(what)) => {
                    return Some(Err(LeftOut::Special(Problem { path, what: what.to_owned() })));
                }
                Ok(Look::Part) => {
                    let what = "an interrupted fetch has left it".to_owned();
                    return Some(Err(LeftOut::Part(Problem { path, what })));
                }
                Err(error) => return Some(Err(LeftOut::Failed(Problem { path, what: words(&error) }))),
            }
        }
    }
}

impl Level {
    fn new(directory: OwnedFd, path: Option<TreePath>) -> io::Result<Level> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&directory)? {
            let name = entry?.file_name().to_bytes().to_vec();
            if name != b"." && name != b".." {
                names.push(name);
            }
        }
        names.sort_unstable();
        Ok(Level { directory, path, names: names.into_iter() })
    }
}

/// The next entry of a walk; what is left out on the way goes to the summary.
pub(super) fn next_entry(
    walk: &mut impl Iterator<Item = Result<Entry, LeftOut>>,
    summary: &mut Summary,
) -> Option<Entry> {
    loop {
        match walk.next()? {
            Ok(entry) => return Some(entry),
            Err(LeftOut::Special(special)) => summary.specials.push(special),
            Err(LeftOut::Part(part)) => summary.parts.push(part),
            Err(LeftOut::Failed(problem)) => summary.problems.push(problem),
        }
    }
}

/// The entry of something that was looked at.
pub(super) fn entry(
    path: TreePath,
    kind: EntryKind,
    stat: &Stat,
    attributes: Vec<(Vec<u8>, Vec<u8>)>,
) -> Entry {
    Entry { path, kind, metadata: metadata(stat, attributes) }
}

fn metadata(stat: &Stat, attributes: Vec<(Vec<u8>, Vec<u8>)>) -> Metadata {
    Metadata {
        mode: (stat.st_mode & 0o7777) as u16,
        modified: modified(stat),
        owner: Owner { user: stat.st_uid, group: stat.st_gid },
        attributes,
    }
}

pub(super) fn modified(stat: &Stat) -> Timestamp {
    Timestamp { seconds: stat.st_mtime, nanoseconds: stat.st_mtime_nsec as u32 }
}

/// What the operating system says, without its number.
pub(super) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or(&text).to_owned()
}

fn name_of(file_type: FileType) -> &'static str {
    match file_type {
        FileType::Fifo => "a pipe",
        FileType::Socket => "a socket",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "what is neither file, directory nor link",
    }
}

impl Attributes {
    /// The extended attributes of an open file, if they take part.
    fn of(self, file: &OwnedFd) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
        match self {
            Attributes::Ignored => Ok(Vec::new()),
            Attributes::Kept => attributes(file),
        }
    }
}

/// The extended attributes of an open file, by ascending name; none where there cannot be any.
pub(super) fn attributes(file: impl AsFd) -> io::Result<Vec<(Vec<u8>, Vec<u8>)>> {
    let file = file.as_fd();
    let mut list = Vec::with_capacity(MAX_ATTRIBUTE);
    match flistxattr(file, rustix::buffer::spare_capacity(&mut list)) {
        Err(rustix::io::Errno::NOTSUP) => return Ok(Vec::new()),
        length => length?,
    };
    let mut attributes = Vec::new();
    for name in list.split(|byte| *byte == 0).filter(|name| !name.is_empty()) {
        let mut value = Vec::with_capacity(MAX_ATTRIBUTE);
        fgetxattr(file, name, rustix::buffer::spare_capacity(&mut value))?;
        value.shrink_to_fit();
        attributes.push((name.to_vec(), value));
    }
    attributes.sort_unstable();
    Ok(attributes)
}

#[cfg(test)]
mod tests {
    use super::super::filter::Filter;
    use super::*;
    use std::fs;
    use std::os::unix::fs::MetadataExt as _;

    /// The only other file systems that every Linux machine has mounted are those in /dev.
    #[test]
    fn a_walk_on_one_file_system_finds_what_is_mounted_in_it_empty() {
        let device = |path: &Path| fs::metadata(path).map(|metadata| metadata.dev()).ok();
        let own = device(Path::new("/dev"));
        let mut mounted = fs::read_dir("/dev").into_iter().flatten().flatten().map(|entry| entry.path());
        let mounted = mounted.find(|path| path.is_dir() && !path.is_symlink() && device(path) != own);
        let Some(name) = mounted.as_ref().and_then(|path| path.file_name()) else {
            eprintln!("skipped: nothing is mounted in /dev");
            return;
        };
        let filter = Filter::default();
        let walk = Walk::new(Path::new("/dev"), &filter, Attributes::Ignored).expect("it can be read");
        let found: Vec<Entry> =
            walk.on_one_file_system().expect("it is there").filter_map(Result::ok).collect();
        let beneath = |entry: &&Entry| entry.path.to_string().starts_with(&*name.to_string_lossy());
        let found: Vec<String> = found.iter().filter(beneath).map(|entry| entry.path.to_string()).collect();
        assert_eq!(found, [name.to_string_lossy()], "the directory, and nothing of what is in it");
    }
}
