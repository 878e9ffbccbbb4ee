//! Entries appear in a tree.

use std::collections::{BTreeMap, VecDeque};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use rustix::fs::{
    AtFlags, Dir, Gid, Mode, OFlags, SeekFrom, Stat, Timespec, Timestamps, Uid, XattrFlags, chownat, fchmod,
    fchown, fremovexattr, fsetxattr, fstat, openat, seek, utimensat,
};
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::arrivals::{Arrival, Fault};
use super::changes::{
    link, make_directory, make_link, open_to_write, remove_name, rename, set_length, set_times, sync,
    write_at,
};
use super::restore::{RestoreOptions, is_privileged};
use super::survey::Change;
use super::tree::{Tree, open_directory};
use super::walk::{Attributes, attributes};
use crate::io::threads;
use crate::replication::{ChunkRef, Entry, EntryKind, Hash, Metadata, Owner, Piece, Timestamp, TreePath};

/// Under such a name a file is written until all of it is there; the rest is a hash of its own name.
const PART: &str = ".sfio-part-";
/// How many digits of the hash that is.
const HASH_DIGITS: usize = 16;

/// Something to do in a tree, in the order of a walk.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Step {
    /// Remove what is there, with all that is in it.
    Remove {
        /// Where.
        path: TreePath,
        /// Whether it is a directory.
        is_directory: bool,
    },
    /// See to it that the directory is there; its metadata are set when it is left.
    Enter(Entry),
    /// Make a link, in the place of what is there.
    Link(Entry),
    /// Set the metadata of a file.
    Touch(Entry),
    /// Make a file.
    File {
        /// What it is to be.
        entry: Entry,
        /// Where each of its chunks is.
        sources: Vec<Source>,
    },
}

/// Where a chunk comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Source {
    /// From the site.
    Site,
    /// It is in the part that an interrupted run has left.
    Part,
    /// It is in the file that has the name now, at the same place.
    Old,
}

/// A step, and what has happened to the entry once it is taken; none if nothing has that is told.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Task {
    pub(super) step: Step,
    pub(super) change: Option<Change>,
}

impl Step {
    pub(super) fn path(&self) -> &TreePath {
        match self {
            Step::Remove { path, .. } => path,
            Step::Enter(entry) | Step::Link(entry) | Step::Touch(entry) | Step::File { entry, .. } => {
                &entry.path
            }
        }
    }

    /// What is to be there; none if something is removed.
    pub(super) fn entry(&self) -> Option<&Entry> {
        match self {
            Step::Remove { .. } => None,
            Step::Enter(entry) | Step::Link(entry) | Step::Touch(entry) | Step::File { entry, .. } => {
                Some(entry)
            }
        }
    }

    /// The chunks that come from the site.
    pub(super) fn missing(&self) -> Box<dyn Iterator<Item = &ChunkRef> + '_> {
        match self {
            Step::File { entry, sources } => {
                let sources = sources.iter().copied().chain(std::iter::repeat(Source::Site));
                let missing = entry.chunks().zip(sources).filter(|(_, source)| *source == Source::Site);
                Box::new(missing.map(|(chunk, _)| chunk))
            }
            _ => Box::new(std::iter::empty()),
        }
    }
}

/// Whether a path is that of a part. What somebody else calls nearly so is a file like any other.
pub(crate) fn is_part(path: &TreePath) -> bool {
    let hash = path.components().next_back().and_then(|name| name.strip_prefix(PART.as_bytes()));
    let is_digit = |byte: &u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(byte);
    hash.is_some_and(|hash| hash.len() == HASH_DIGITS && hash.iter().all(is_digit))
}

/// Where the part of a file is.
pub(crate) fn part_of(path: &TreePath) -> TreePath {
    let name = path.components().next_back().unwrap_or_default();
    TreePath::within(path.parent().as_ref(), &part_name(name)).expect("a hash makes a name")
}

fn part_name(name: &[u8]) -> Vec<u8> {
    format!("{PART}{}", Hash::of(name)).into_bytes()
}

impl Tree {
    /// Whether an interrupted run has left a part of a file.
    pub(super) fn has_part(&mut self, path: &TreePath) -> bool {
        self.place(path).is_ok_and(|(directory, name)| open_file(directory, &part_name(name)).is_ok())
    }

    /// Where each chunk of a file can be had: in a part, in the file of that name, else from the site.
    pub(super) fn chunks_here(&mut self, entry: &Entry, has_old: bool) -> Vec<Source> {
        let Ok((directory, name)) = self.place(&entry.path) else { return Vec::new() };
        let part = open_file(directory, &part_name(name)).ok().filter(is_ours);
        let old = if has_old { open_file(directory, name).ok() } else { None };
        if part.is_none() && old.is_none() {
            return Vec::new();
        }
        let source = |(offset, chunk): (u64, &ChunkRef)| {
            let is_in = |file: &Option<File>| file.as_ref().is_some_and(|file| holds(file, offset, chunk));
            match () {
                () if is_in(&part) => Source::Part,
                () if is_in(&old) => Source::Old,
                () => Source::Site,
            }
        };
        placed_chunks(entry).map(source).collect()
    }

    /// Whether the file of that name has holes wherever the entry has.
    pub(super) fn has_holes_of(&mut self, entry: &Entry) -> bool {
        let Ok((directory, name)) = self.place(&entry.path) else { return false };
        let Ok(file) = open_file(directory, name) else { return false };
        holes(entry).all(|(from, to)| is_hole(&file, from, to))
    }
}

/// The holes of a file: where each begins and ends.
fn holes(entry: &Entry) -> impl Iterator<Item = (u64, u64)> + '_ {
    let pieces = if let EntryKind::File { pieces, .. } = &entry.kind { pieces.as_slice() } else { &[] };
    let mut offset = 0;
    pieces.iter().filter_map(move |piece| {
        let from = offset;
        let (length, is_hole) = match piece {
            Piece::Hole(length) => (*length, true),
            Piece::Chunk(chunk) => (u64::from(chunk.length), false),
        };
        offset += length;
        is_hole.then_some((from, offset))
    })
}

/// Whether the file system has nothing of a file there. One that cannot tell has all of it.
fn is_hole(file: &File, from: u64, to: u64) -> bool {
    match seek(file, SeekFrom::Data(from)) {
        Ok(data) => data >= to,
        Err(error) => error == rustix::io::Errno::NXIO,
    }
}

/// The chunks of a file and where they begin in it.
fn placed_chunks(entry: &Entry) -> impl Iterator<Item = (u64, &ChunkRef)> {
    let pieces = if let EntryKind::File { pieces, .. } = &entry.kind { pieces.as_slice() } else { &[] };
    let mut offset = 0;
    pieces.iter().filter_map(move |piece| {
        let from = offset;
        match piece {
            Piece::Hole(length) => {
                offset += length;
                None
            }
            Piece::Chunk(chunk) => {
                offset += u64::from(chunk.length);
                Some((from, chunk))
            }
        }
    })
}

/// Opens a file by its name in a directory, without waiting for whoever holds the other end of a pipe.
pub(super) fn open_file(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(directory, name, flags, Mode::empty())?);
    if file.metadata()?.is_file() { Ok(file) } else { Err(io::Error::other("no file")) }
}

fn holds(file: &File, offset: u64, chunk: &ChunkRef) -> bool {
    let mut bytes = vec![0; chunk.length as usize];
    file.read_exact_at(&mut bytes, offset).is_ok() && Hash::of(&bytes) == chunk.hash
}

/// Takes steps in a tree.
///
/// A file gets its name only after its content is on the disk. As one sync of a file system takes little longer for
/// many files than for one, files are completed in batches: while one batch is synced the next one is written.
#[derive(Debug)]
pub(super) struct Planter<'a> {
    tree: Tree,
    options: &'a RestoreOptions,
    /// The directories that were entered and not yet left, from the top; and what has happened to each once it is left.
    entered: Vec<(Entry, Option<Change>)>,
    file: Option<FileUnderWay>,
    /// What is written, and waits for a sync.
    written: Batch,
    /// The file systems that the tree is on, by their device numbers: one may be mounted below the top.
    file_systems: BTreeMap<u64, OwnedFd>,
    /// What is being synced.
    syncing: Option<(Batch, JoinHandle<io::Result<()>>)>,
    arrivals: Vec<Arrival>,
    faults: Vec<(TreePath, Fault)>,
    /// What was left out, by path: further names of such a file are left out, too.
    missed: BTreeMap<TreePath, Fault>,
}

#[derive(Debug)]
struct FileUnderWay {
    entry: Entry,
    change: Option<Change>,
    part: File,
    /// Bytes that have come from the site.
    fetched: u64,
    /// Where the chunks go that come from the site, in order.
    places: VecDeque<u64>,
}

/// What gets its name, or its metadata, after the same sync.
#[derive(Debug, Default)]
struct Batch {
    /// Files whose parts are complete.
    files: Vec<(Arrival, Metadata)>,
    /// Further names of files.
    links: Vec<(Entry, Option<Change>)>,
    /// Directories that were left: what gets its name in them changes their times.
    directories: Vec<(Arrival, Metadata)>,
    /// Bytes of the files.
    bytes: u64,
    /// When it was begun.
    began: Option<Instant>,
}

/// A batch is synced after so many entries, so many bytes, or so long.
const BATCH: (usize, u64, Duration) = (16_384, 512 << 20, Duration::from_secs(5));

impl Batch {
    fn is_empty(&self) -> bool {
        self.files.is_empty() && self.links.is_empty() && self.directories.is_empty()
    }

    fn is_due(&self) -> bool {
        let entries = self.files.len() + self.links.len() + self.directories.len();
        let is_old = self.began.is_some_and(|began| began.elapsed() >= BATCH.2);
        entries >= BATCH.0 || self.bytes >= BATCH.1 || is_old
    }
}

impl<'a> Planter<'a> {
    pub(super) fn new(mut tree: Tree, options: &'a RestoreOptions) -> io::Result<Planter<'a>> {
        let top = tree.directory(None)?.try_clone_to_owned()?;
        let file_systems = BTreeMap::from([(fstat(&top)?.st_dev, top)]);
        Ok(Planter {
            tree,
            file_systems,
            options,
            entered: Vec::new(),
            file: None,
            written: Batch::default(),
            syncing: None,
            arrivals: Vec::new(),
            faults: Vec::new(),
            missed: BTreeMap::new(),
        })
    }

    /// Begins a task; of a file, the chunks that are missing come next, and then [`finish`](Self::finish).
    pub(super) fn begin(&mut self, Task { step, change }: Task) -> io::Result<()> {
        self.leave_others(step.path());
        match step {
            Step::Remove { path, is_directory } => self.remove(path, is_directory, change),
            Step::Enter(entry) => self.enter(entry, change),
            // What it is another name of may wait for its own name.
            Step::Link(entry) if matches!(entry.kind, EntryKind::HardLink { .. }) => {
                self.written().links.push((entry, change));
                Ok(())
            }
            Step::Link(entry) => {
                self.link(&entry)?;
                self.arrivals.push(Arrival::of(entry.path, change));
                Ok(())
            }
            Step::Touch(entry) => self.touch(entry, change),
            Step::File { entry, sources } => self.begin_file(entry, &sources, change),
        }
    }

    fn touch(&mut self, entry: Entry, change: Option<Change>) -> io::Result<()> {
        let (directory, name) = self.tree.place(&entry.path)?;
        let file = open_file(directory, name)?;
        set_metadata(file.as_fd(), &entry.metadata, self.options)?;
        set_times(&file, &times(entry.metadata.modified))?;
        self.arrivals.push(Arrival::of(entry.path, change));
        Ok(())
    }

    /// What has arrived since this was asked last.
    pub(super) fn arrived(&mut self) -> Vec<Arrival> {
        std::mem::take(&mut self.arrivals)
    }

    /// The next chunk of the file that was begun.
    pub(super) fn write(&mut self, chunk: &ChunkRef, bytes: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let Some(place) = file.places.pop_front() else { return Ok(()) };
        debug_assert_eq!(chunk.length as usize, bytes.len());
        file.fetched += bytes.len() as u64;
        write_at(&file.part, bytes, place)
    }

    /// The file has all its chunks: it gets its name when they are safe.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        let Some(FileUnderWay { entry, change, part, fetched, .. }) = self.file.take() else { return Ok(()) };
        // Only now it becomes as long as it is to be: a part that is whole has been written.
        set_length(&part, entry.size())?;
        let written = self.written();
        written.bytes += entry.size();
        let arrival = Arrival { fetched: Some(fetched), ..Arrival::of(entry.path, change) };
        written.files.push((arrival, entry.metadata));
        Ok(())
    }

    /// The entry will not be whole. The part of a file stays, for the next run.
    pub(super) fn give_up(&mut self, path: &TreePath, fault: &Fault) {
        self.file = None;
        self.missed.insert(path.clone(), fault.clone());
    }

    /// Gives names to what is safe, and begins to sync what is written if that is enough by now.
    pub(super) async fn settle_if_due(&mut self) -> io::Result<()> {
        if self.syncing.as_ref().is_some_and(|(_, syncing)| syncing.is_finished()) {
            self.settle().await?;
        }
        if self.written.is_due() && self.syncing.is_none() {
            self.begin_to_sync()?;
        }
        Ok(())
    }

    /// Leaves all directories, the top last, to which `change` has then happened, and makes all that durable; gives
    /// what has arrived since it was asked last, and what could not.
    pub(super) async fn leave_all(
        mut self,
        top: &Metadata,
        change: Option<Change>,
    ) -> io::Result<(Vec<Arrival>, Vec<(TreePath, Fault)>)> {
        while let Some((entry, change)) = self.entered.pop() {
            self.leave(entry, change);
        }
        self.settle().await?;
        self.begin_to_sync()?;
        self.settle().await?;
        let set = self.tree.directory(None).and_then(|directory| {
            set_metadata(directory, top, self.options)?;
            Ok(set_times(directory, &times(top.modified))?)
        });
        self.note(Arrival::of(TreePath::top(), change), set);
        sync_all(self.file_systems.into_values().collect())?;
        Ok((self.arrivals, self.faults))
    }

    fn written(&mut self) -> &mut Batch {
        self.written.began.get_or_insert_with(Instant::now);
        &mut self.written
    }

    fn begin_to_sync(&mut self) -> io::Result<()> {
        let batch = std::mem::take(&mut self.written);
        if batch.is_empty() {
            return Ok(());
        }
        let needs_sync = !batch.files.is_empty();
        let file_systems: io::Result<Vec<OwnedFd>> =
            self.file_systems.values().filter(|_| needs_sync).map(OwnedFd::try_clone).collect();
        let file_systems = file_systems?;
        let work = move || sync_all(file_systems);
        self.syncing = Some((batch, tokio::spawn(threads::run(work))));
        Ok(())
    }

    /// Waits for the sync, and then gives names.
    async fn settle(&mut self) -> io::Result<()> {
        let Some((batch, syncing)) = self.syncing.take() else { return Ok(()) };
        if let Err(error) = syncing.await.expect("a sync does not panic, and nobody aborts it") {
            self.remove_parts(&batch);
            return Err(error);
        }
        for (arrival, metadata) in batch.files {
            let named = self.name(&arrival.path, &metadata);
            self.note(arrival, named);
        }
        for (entry, change) in batch.links {
            if let Some(fault) = self.fault_of_first_name(&entry) {
                self.faults.push((entry.path, fault));
                continue;
            }
            let linked = self.link(&entry);
            self.note(Arrival::of(entry.path, change), linked);
        }
        for (arrival, metadata) in batch.directories {
            let set = self.tree.directory(Some(&arrival.path)).and_then(|directory| {
                set_metadata(directory, &metadata, self.options)?;
                Ok(set_times(directory, &times(metadata.modified))?)
            });
            self.note(arrival, set);
        }
        Ok(())
    }

    /// Removes the parts of this run, because what the system could not write it forgets, and it tells nobody a second
    /// time: the next run would read from its memory what is not on the disk, and take that for written.
    fn remove_parts(&mut self, batch: &Batch) {
        let under_way = self.file.take().map(|file| file.entry.path);
        let written = batch.files.iter().chain(&self.written.files).map(|(arrival, _)| &arrival.path);
        for path in written.chain(self.missed.keys()).chain(&under_way) {
            if let Ok((directory, name)) = self.tree.place(path) {
                // What is not there, or cannot go, is no worse than before.
                let _ = remove_name(directory, &part_name(name), AtFlags::empty());
            }
        }
    }

    /// A file whose content is safe gets its name, and its time last of all: with another time the next run looks at
    /// it.
    fn name(&mut self, path: &TreePath, metadata: &Metadata) -> io::Result<()> {
        let (directory, name) = self.tree.place(path)?;
        let part_name = part_name(name);
        let part = open_file(directory, &part_name)?;
        if !is_ours(&part) {
            return Err(io::Error::other("somebody else has put another file in the place of its part"));
        }
        set_metadata(part.as_fd(), metadata, self.options)?;
        rename(directory, &part_name, name)?;
        Ok(set_times(&part, &times(metadata.modified))?)
    }

    fn note(&mut self, arrival: Arrival, done: io::Result<()>) {
        match done {
            Ok(()) => self.arrivals.push(arrival),
            Err(error) => {
                let fault = Fault::from(error);
                self.missed.insert(arrival.path.clone(), fault.clone());
                self.faults.push((arrival.path, fault));
            }
        }
    }

    /// Why a further name of a file is left out, if the file is: what has the first name now is another one.
    fn fault_of_first_name(&self, entry: &Entry) -> Option<Fault> {
        let EntryKind::HardLink { to } = &entry.kind else { return None };
        Some(self.missed.get(to)?.of_further_name(to))
    }

    fn leave_others(&mut self, path: &TreePath) {
        while let Some((entry, change)) = self.entered.pop_if(|(entry, _)| !path.is_within(&entry.path)) {
            self.leave(entry, change);
        }
    }

    fn leave(&mut self, entry: Entry, change: Option<Change>) {
        self.written().directories.push((Arrival::of(entry.path, change), entry.metadata));
    }

    /// A directory that is made is there at once; the metadata of one that was there are set when it is left.
    fn enter(&mut self, entry: Entry, change: Option<Change>) -> io::Result<()> {
        let (directory, name) = self.tree.place(&entry.path)?;
        match make_directory(directory, name) {
            Err(rustix::io::Errno::EXIST) => {
                let directory = open_directory(directory, name)?;
                let stat = fstat(&directory)?;
                let mode = Mode::from_raw_mode(stat.st_mode & 0o7777);
                if !mode.contains(Mode::RWXU) {
                    fchmod(&directory, mode | Mode::RWXU)?;
                }
                self.file_systems.entry(stat.st_dev).or_insert(directory);
            }
            made => made?,
        }
        let (now, then) = if change == Some(Change::Touched) { (None, change) } else { (change, None) };
        self.arrivals.extend(now.map(|change| Arrival::of(entry.path.clone(), Some(change))));
        self.entered.push((entry, then));
        Ok(())
    }

    fn link(&mut self, entry: &Entry) -> io::Result<()> {
        let part;
        {
            let (directory, name) = self.tree.place(&entry.path)?;
            part = part_name(name);
            // What an interrupted run has left.
            let _ = remove_name(directory, &part, AtFlags::empty());
        }
        if let EntryKind::HardLink { to } = &entry.kind {
            let (from, first) = self.tree.place(to)?;
            let from: OwnedFd = from.try_clone_to_owned()?;
            let (directory, _) = self.tree.place(&entry.path)?;
            link(from.as_fd(), first, directory, &part)?;
        }
        let (directory, name) = self.tree.place(&entry.path)?;
        if let EntryKind::Symlink { target } = &entry.kind {
            make_link(target, directory, &part)?;
            utimensat(
                directory,
                part.as_slice(),
                &times(entry.metadata.modified),
                AtFlags::SYMLINK_NOFOLLOW,
            )?;
            if self.options.owners {
                let (user, group) = ids(entry.metadata.owner);
                chownat(directory, part.as_slice(), Some(user), Some(group), AtFlags::SYMLINK_NOFOLLOW)?;
            }
        }
        rename(directory, &part, name)?;
        // Of two names of one file, renaming one to the other does nothing, and the part is still there.
        let _ = remove_name(directory, &part, AtFlags::empty());
        Ok(())
    }

    /// What was beneath a directory is counted, and only the directory is told of.
    fn remove(&mut self, path: TreePath, is_directory: bool, change: Option<Change>) -> io::Result<()> {
        self.tree.forget(&path);
        let (directory, name) = self.tree.place(&path)?;
        let removed = remove(directory, name, is_directory)? - 1;
        self.arrivals.push(Arrival { removed, ..Arrival::of(path, change) });
        Ok(())
    }

    fn begin_file(&mut self, entry: Entry, sources: &[Source], change: Option<Change>) -> io::Result<()> {
        let (directory, name) = self.tree.place(&entry.path)?;
        let uses_part = sources.contains(&Source::Part);
        let part = match uses_part {
            true => open_to_write(directory, &part_name(name), false)?,
            false => new_part(directory, &part_name(name))?,
        };
        if !is_ours(&part) {
            return Err(io::Error::other("its part is somebody else's"));
        }
        let mut places = VecDeque::new();
        let mut old = None;
        let all_sources = sources.iter().copied().chain(std::iter::repeat(Source::Site));
        for ((offset, chunk), source) in placed_chunks(&entry).zip(all_sources) {
            match source {
                // Between the comparison and now somebody may have changed it, and a wrong byte must not get the name.
                Source::Part if holds(&part, offset, chunk) => {}
                Source::Part => return Err(io::Error::other("its part changes while it is restored")),
                Source::Site => places.push_back(offset),
                Source::Old => {
                    let old = match &old {
                        Some(old) => old,
                        None => old.insert(open_file(directory, name)?),
                    };
                    let mut bytes = vec![0; chunk.length as usize];
                    old.read_exact_at(&mut bytes, offset)?;
                    if Hash::of(&bytes) != chunk.hash {
                        return Err(io::Error::other("it changes while it is restored"));
                    }
                    write_at(&part, &bytes, offset)?;
                }
            }
        }
        if uses_part {
            let length = part.metadata()?.len();
            if length > entry.size() {
                set_length(&part, entry.size())?;
            }
            punch_holes(&part, &entry)?;
        }
        self.file = Some(FileUnderWay { entry, change, part, fetched: 0, places });
        Ok(())
    }
}

/// Makes everything durable that was written to the file systems.
fn sync_all(file_systems: Vec<OwnedFd>) -> io::Result<()> {
    file_systems.into_iter().try_for_each(|file_system| Ok(sync(file_system)?))
}

/// Whether nobody else can have written to a file, or will: in a directory where others may make files, one of them may
/// have made a part, or a further name of another file of ours, before we do.
fn is_ours(file: &File) -> bool {
    fstat(file).is_ok_and(|stat| {
        let is_for_others = Mode::from_raw_mode(stat.st_mode).intersects(Mode::WGRP | Mode::WOTH);
        stat.st_uid == geteuid().as_raw() && stat.st_nlink == 1 && !is_for_others
    })
}

/// A part in which nothing was ever written, in the place of what is there.
fn new_part(directory: BorrowedFd<'_>, name: &[u8]) -> io::Result<File> {
    match open_to_write(directory, name, true) {
        Err(rustix::io::Errno::EXIST) => {
            remove_name(directory, name, AtFlags::empty())?;
            Ok(open_to_write(directory, name, true)?)
        }
        created => Ok(created?),
    }
}

/// A part of an earlier run may have had data where holes are now.
fn punch_holes(part: &File, entry: &Entry) -> io::Result<()> {
    let mut offset = 0;
    let EntryKind::File { pieces, .. } = &entry.kind else { return Ok(()) };
    for piece in pieces {
        match piece {
            Piece::Chunk(chunk) => offset += u64::from(chunk.length),
            Piece::Hole(length) => {
                let zeros = [0; 64 << 10];
                let mut found = [0; 64 << 10];
                for from in (offset..offset + length).step_by(zeros.len()) {
                    let size = ((offset + length - from) as usize).min(zeros.len());
                    // Behind its end there is nothing yet.
                    let size = part.read_at(&mut found[..size], from)?;
                    if found[..size] != zeros[..size] {
                        write_at(part, &zeros[..size], from)?;
                    }
                }
                offset += length;
            }
        }
    }
    Ok(())
}

/// Removes it with all that is in it, and gives how many entries these were.
fn remove(within: BorrowedFd<'_>, name: &[u8], is_directory: bool) -> io::Result<u64> {
    if !is_directory {
        remove_name(within, name, AtFlags::empty())?;
        return Ok(1);
    }
    let mut removed = 1;
    let directory = open_directory(within, name)?;
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            let is_directory = match entry.file_type() {
                rustix::fs::FileType::Unknown => open_directory(directory.as_fd(), name).is_ok(),
                known => known.is_dir(),
            };
            removed += remove(directory.as_fd(), name, is_directory)?;
        }
    }
    remove_name(within, name, AtFlags::REMOVEDIR)?;
    Ok(removed)
}

/// All but the time. Owner first: changing it clears the bits that `mode` may set.
fn set_metadata(file: BorrowedFd<'_>, metadata: &Metadata, options: &RestoreOptions) -> io::Result<()> {
    let stat: Stat = fstat(file)?;
    if options.owners && (stat.st_uid, stat.st_gid) != (metadata.owner.user, metadata.owner.group) {
        let (user, group) = ids(metadata.owner);
        fchown(file, Some(user), Some(group))?;
    }
    if options.attributes == Attributes::Kept {
        set_attributes(file, &metadata.attributes, options.owners)?;
    }
    Ok(fchmod(file, Mode::from_raw_mode(metadata.mode.into()))?)
}

fn set_attributes(file: BorrowedFd<'_>, wanted: &[(Vec<u8>, Vec<u8>)], privileged: bool) -> io::Result<()> {
    let is_ours = |name: &[u8]| privileged || !is_privileged(name);
    let is_surplus = |name: &[u8]| is_ours(name) && wanted.iter().all(|(other, _)| other != name);
    for (name, _) in attributes(file)?.iter().filter(|(name, _)| is_surplus(name)) {
        // What the system sets by itself may refuse to go.
        let _ = fremovexattr(file, name.as_slice());
    }
    for (name, value) in wanted {
        fsetxattr(file, name.as_slice(), value, XattrFlags::empty())?;
    }
    Ok(())
}

fn ids(owner: Owner) -> (Uid, Gid) {
    (Uid::from_raw(owner.user), Gid::from_raw(owner.group))
}

fn times(modified: Timestamp) -> Timestamps {
    let time = Timespec { tv_sec: modified.seconds, tv_nsec: modified.nanoseconds.into() };
    Timestamps { last_access: time, last_modification: time }
}

#[cfg(test)]
mod tests;
