//! Files become chunks, and chunks that nobody has yet become bytes to send. Runs on a thread of its own.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use fastcdc::v2020::StreamCDC;
use rustix::fs::{Mode, OFlags, SeekFrom, Stat, fstat, openat, seek};

use super::expected::{Correction, Proved};
use super::meter::Meter;
use super::placer::{Entries, Placer, Writer};
use super::prefetch::Prefetch;
use super::send::{Graft, Wounds};
use super::spool::{ManifestFile, Spool, SpoolWriter};
use super::survey::{Change, Planned};
use super::tree::Tree;
use super::walk::{Problem, modified, words};
use crate::compression::{Codec, Level};
use crate::replication::{
    ChunkRef, Entry, EntryKind, FILE_CHUNKS, Hash, Inserted, MANIFEST_CHUNKS, Piece, SignedRecord, Timestamp,
    TreePath,
};

/// How often a file is read anew that changes while it is read.
const ATTEMPTS: usize = 3;

/// File systems take times from a clock that stands still for up to 10 ms (a tick of the kernel): a file that has just
/// been changed may be changed again without its times telling.
const SETTLING: Duration = Duration::from_millis(20);
/// Some file systems (ext3, FAT, shares of them) keep whole seconds, or every second one.
const SETTLING_OF_WHOLE_SECONDS: Duration = Duration::from_secs(2);

/// Manifests are text, and small: they are always compressed.
const MANIFESTS: Option<Codec> = Some(Codec::Zstd(Level::DEFAULT));

/// Cuts files, in the order of a plan.
#[derive(Debug)]
pub(super) struct Cutter {
    pub(super) tree: Tree,
    /// The place in the data set that the tree goes to, if that is not all of it.
    pub(super) graft: Option<Graft>,
    pub(super) placer: Placer,
    /// The newest record, which says where chunks are that were sent again.
    pub(super) record: Option<Arc<SignedRecord>>,
    pub(super) meter: Arc<Meter>,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Cutting {
    pub(super) manifest: ManifestFile,
    pub(super) entries: u64,
    pub(super) bytes: u64,
    /// The list of the manifest's chunks, in chunks.
    pub(super) index: Vec<ChunkRef>,
    /// All objects that hold something of it.
    pub(super) objects: BTreeSet<u32>,
    /// What was sent, by hash: all of it is in the run's object.
    pub(super) stored: Inserted,
    /// What was healed, and what is still damaged.
    pub(super) wounds: Wounds,
    pub(super) problems: Vec<Problem>,
    /// Where something else came of a path than was expected.
    pub(super) corrections: Arc<Spool<Correction>>,
}

/// Why a file was not read.
enum Unread {
    /// Something about this file.
    File(String),
    /// Nobody wants chunks any more.
    Stopped,
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Unread {
        Unread::File(words(&error))
    }
}

/// What reading has shown, against what was expected.
struct Readings {
    problems: Vec<Problem>,
    /// Files that could not be read.
    unread: BTreeSet<TreePath>,
    corrections: SpoolWriter<Correction>,
}

impl Readings {
    fn new() -> io::Result<Readings> {
        Ok(Readings { problems: Vec::new(), unread: BTreeSet::new(), corrections: SpoolWriter::new()? })
    }

    /// A file was read; perhaps it is as it was before.
    fn compare(&mut self, read: &Entry, old: Option<&Entry>, change: Change) -> io::Result<()> {
        let is_same = |old: &&Entry| change == Change::Changed && old.has_content_of(read);
        match old.filter(is_same) {
            None => Ok(()),
            Some(old) if old.metadata == read.metadata => self.correct(read, change, Proved::Unchanged),
            Some(_) => self.correct(read, change, Proved::Touched),
        }
    }

    /// A file could not be read.
    fn miss(&mut self, entry: Entry, change: Change, what: String) -> io::Result<()> {
        self.correct(&entry, change, Proved::Unread)?;
        self.problems.push(Problem { path: entry.path.clone(), what });
        self.unread.insert(entry.path);
        Ok(())
    }

    /// A new name of a file; if that could not be read, then what was there stays under this name, too.
    fn link(&mut self, entry: Entry, old: Option<Entry>, change: Change) -> io::Result<Option<Entry>> {
        match &entry.kind {
            EntryKind::HardLink { to } if self.unread.contains(to) => {
                self.correct(&entry, change, Proved::Unread)?;
                let what = format!("it is a name of {to}, which could not be read");
                self.problems.push(Problem { path: entry.path, what });
                Ok(old)
            }
            _ => Ok(Some(entry)),
        }
    }

    fn correct(&mut self, entry: &Entry, change: Change, proved: Proved) -> io::Result<()> {
        let (path, bytes) = (entry.path.clone(), entry.size());
        self.corrections.push(&Correction { path, change, bytes, proved })
    }
}

impl Cutter {
    /// Cuts what is to be read and writes the manifest; of the manifest before, `old`, it sends what is damaged. None
    /// if nobody wants the chunks any more.
    pub(super) fn run(
        mut self,
        planned: &Spool<Planned>,
        old: Option<&ManifestFile>,
        prefetch: &Prefetch,
    ) -> io::Result<Option<Cutting>> {
        let (mut entries, mut readings) = (Entries::new()?, Readings::new()?);
        for planned in planned.read()? {
            let ControlFlow::Continue(entry) = self.take(planned?, &mut readings, prefetch)? else {
                return Ok(None);
            };
            if let Some(entry) = entry
                && entries.push(entry, &mut self.placer)?.is_none()
            {
                return Ok(None);
            }
        }
        let Some((manifest, mut objects)) = entries.end(&mut self.placer)? else { return Ok(None) };
        let manifest = self.whole(manifest, &mut objects)?;
        let (entries, bytes) = (manifest.entries, manifest.bytes);
        let manifest = ManifestFile::written(manifest)?;
        let Some((chunks, index)) = self.keep_manifest(&manifest, &mut objects)? else { return Ok(None) };
        let manifest = manifest.kept_in(chunks);
        if let Some(old) = old.filter(|_| !self.placer.wounds().are_none())
            && self.mend_manifest(old)?.is_none()
        {
            return Ok(None);
        }
        let (stored, wounds) = self.placer.into_parts();
        let Readings { problems, corrections, .. } = readings;
        let corrections = Arc::new(corrections.finish()?);
        Ok(Some(Cutting { manifest, entries, bytes, index, objects, stored, wounds, problems, corrections }))
    }

    /// The entry that comes of a plan, if there is one; it breaks off if nobody wants chunks any more.
    fn take(
        &mut self,
        planned: Planned,
        readings: &mut Readings,
        prefetch: &Prefetch,
    ) -> io::Result<ControlFlow<(), Option<Entry>>> {
        let kept = match planned {
            Planned::Keep(entry) => Some(entry),
            Planned::Link { entry, old, change } => readings.link(entry, old, change)?,
            Planned::Read { entry, old, change } => {
                prefetch.advance();
                match self.read(entry.clone()) {
                    Ok(read) => {
                        readings.compare(&read, old.as_ref(), change)?;
                        return Ok(ControlFlow::Continue(Some(read)));
                    }
                    Err(Unread::Stopped) => return Ok(ControlFlow::Break(())),
                    // What was there stays.
                    Err(Unread::File(what)) => {
                        readings.miss(entry, change, what)?;
                        old
                    }
                }
            }
        };
        Ok(ControlFlow::Continue(kept.map(|entry| self.moved(entry))))
    }

    /// The manifest of the whole generation, if the one that was written is that of a directory.
    fn whole(&self, manifest: Writer, objects: &mut BTreeSet<u32>) -> io::Result<Writer> {
        let Some(graft) = &self.graft else { return Ok(manifest) };
        graft.complete(&ManifestFile::written(manifest)?, |entry| {
            let entry = self.moved(entry);
            objects.extend(entry.chunks().map(|chunk| chunk.object));
            entry
        })
    }

    /// The same with its chunks where they are now.
    fn moved(&self, mut entry: Entry) -> Entry {
        if let Some(record) = self.record.as_ref().filter(|record| !record.healed.is_empty()) {
            entry.chunks_mut().for_each(|chunk| *chunk = record.place_of(chunk));
        }
        entry
    }

    /// Sends what is damaged of a manifest, and of the list of its chunks, that this machine has whole.
    fn mend_manifest(&mut self, old: &ManifestFile) -> io::Result<Option<()>> {
        let mut bytes = old.bytes()?;
        for chunk in old.chunks() {
            let mut content = vec![0; chunk.length as usize];
            bytes.read_exact(&mut content)?;
            if self.placer.wounds().has(&chunk.hash)
                && self.placer.place_now(content.into(), MANIFESTS).is_none()
            {
                return Ok(None);
            }
        }
        let list = postcard::to_stdvec(old.chunks()).map_err(io::Error::other)?;
        for part in list.chunks(FILE_CHUNKS.2) {
            let is_damaged = self.placer.wounds().has(&Hash::of(part));
            if is_damaged && self.placer.place_now(Bytes::copy_from_slice(part), MANIFESTS).is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    /// Manifest, list of its chunks: both as chunks. Gives the list, and the chunks that it is in.
    fn keep_manifest(
        &mut self,
        manifest: &ManifestFile,
        objects: &mut BTreeSet<u32>,
    ) -> io::Result<Option<(Vec<ChunkRef>, Vec<ChunkRef>)>> {
        let (least, average, most) = MANIFEST_CHUNKS;
        let mut list = Vec::new();
        for chunk in StreamCDC::new(manifest.bytes()?, least, average, most) {
            let bytes = chunk.map_err(io::Error::from)?.data;
            let Some(chunk) = self.placer.place_now(bytes.into(), MANIFESTS) else { return Ok(None) };
            list.push(chunk);
        }
        objects.extend(list.iter().map(|chunk| chunk.object));
        let written = postcard::to_stdvec(&list).map_err(io::Error::other)?;
        let mut index = Vec::new();
        for part in written.chunks(FILE_CHUNKS.2) {
            let Some(chunk) = self.placer.place_now(Bytes::copy_from_slice(part), MANIFESTS) else {
                return Ok(None);
            };
            index.push(chunk);
        }
        objects.extend(index.iter().map(|chunk| chunk.object));
        Ok(Some((list, index)))
    }

    /// Reads a file. What of it proves to be holes, or is not there any more, need not be read: the meter counts bytes
    /// that are, so that what is done comes to what is to be done.
    fn read(&mut self, entry: Entry) -> Result<Entry, Unread> {
        let (done, all) = (Meter::get(&self.meter.bytes_done), Meter::get(&self.meter.bytes));
        let others = all.saturating_sub(entry.size());
        for _ in 0..ATTEMPTS {
            Meter::set(&self.meter.bytes_done, done);
            Meter::set(&self.meter.bytes, all);
            match self.read_once(entry.clone()) {
                Ok(Some(entry)) => {
                    let read = entry.chunks().map(|chunk| u64::from(chunk.length)).sum::<u64>();
                    Meter::set(&self.meter.bytes, others + read);
                    Meter::add(&self.meter.files_done, 1);
                    return Ok(entry);
                }
                Ok(None) => {}
                Err(unread) => {
                    self.pass_over(done, others);
                    return Err(unread);
                }
            }
        }
        self.pass_over(done, others);
        Err(Unread::File("it changes while it is read".to_owned()))
    }

    /// A file is not read: only the others are.
    fn pass_over(&self, done: u64, others: u64) {
        Meter::set(&self.meter.bytes_done, done);
        Meter::set(&self.meter.bytes, others);
        Meter::add(&self.meter.files_done, 1);
    }

    /// Reads a file as it is now; none if it changed meanwhile.
    fn read_once(&mut self, mut entry: Entry) -> Result<Option<Entry>, Unread> {
        let (directory, name) = self.tree.place(&entry.path)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = openat(directory, name, flags, Mode::empty()).map_err(io::Error::from)?;
        let before = settled(&file)?;
        if !rustix::fs::FileType::from_raw_mode(before.st_mode).is_file() {
            return Err(Unread::File("it is no file any more".to_owned()));
        }
        let size = before.st_size as u64;
        let is_sparse = (before.st_blocks as u64) * 512 < size;
        let mut pieces = Vec::new();
        for (hole, length) in Segments::new(&file, size, is_sparse) {
            if hole {
                let all = Meter::get(&self.meter.bytes);
                Meter::set(&self.meter.bytes, all.saturating_sub(length));
                pieces.push(Piece::Hole(length));
            } else {
                self.cut(&file, length, &mut pieces)?;
            }
        }
        let after = fstat(&file).map_err(io::Error::from)?;
        let read: u64 = pieces.iter().map(length_of).sum();
        if state(&after) != state(&before) || read != size {
            return Ok(None);
        }
        entry.metadata.modified = modified(&before);
        entry.kind = EntryKind::File { size, pieces };
        Ok(Some(entry))
    }

    /// Cuts the next `length` bytes of a file.
    fn cut(&mut self, file: &OwnedFd, length: u64, pieces: &mut Vec<Piece>) -> Result<(), Unread> {
        let file = File::from(file.try_clone()?);
        let (least, average, most) = FILE_CHUNKS;
        let mut source = file.take(length);
        if length <= least as u64 {
            let mut bytes = Vec::with_capacity(length as usize + 1);
            source.read_to_end(&mut bytes)?;
            return if bytes.is_empty() { Ok(()) } else { self.push(bytes, pieces) };
        }
        for chunk in StreamCDC::new(source, least, average, most) {
            self.push(chunk.map_err(io::Error::from)?.data, pieces)?;
        }
        Ok(())
    }

    fn push(&mut self, bytes: Vec<u8>, pieces: &mut Vec<Piece>) -> Result<(), Unread> {
        Meter::add(&self.meter.bytes_done, bytes.len() as u64);
        pieces.push(Piece::Chunk(self.placer.place(bytes.into(), None).ok_or(Unread::Stopped)?));
        Ok(())
    }
}

/// What tells that a file's content is another one: its size and times, of which no program can set the second back.
fn state(stat: &Stat) -> (i64, Timestamp, Timestamp) {
    (stat.st_size, modified(stat), changed(stat))
}

fn changed(stat: &Stat) -> Timestamp {
    Timestamp { seconds: stat.st_ctime, nanoseconds: stat.st_ctime_nsec as u32 }
}

/// Looks at a file, at a time from which on its times tell of every change.
fn settled(file: &OwnedFd) -> io::Result<Stat> {
    let stat = fstat(file)?;
    #[allow(clippy::disallowed_methods, reason = "times of files are those of the real clock")]
    let pause = unsettled(modified(&stat), changed(&stat), SystemTime::now());
    if pause.is_zero() {
        return Ok(stat);
    }
    std::thread::sleep(pause);
    Ok(fstat(file)?)
}

/// For how long a change then may be followed by one that has the same time. One in the future is of another clock.
fn unsettled(modified: Timestamp, changed: Timestamp, now: SystemTime) -> Duration {
    let Ok(seconds) = u64::try_from(changed.seconds) else { return Duration::ZERO };
    // Where times are finer, both are whole seconds by chance only.
    let settling = match (modified.nanoseconds, changed.nanoseconds) {
        (0, 0) => SETTLING_OF_WHOLE_SECONDS,
        _ => SETTLING,
    };
    let changed = SystemTime::UNIX_EPOCH + Duration::new(seconds, changed.nanoseconds);
    now.duration_since(changed).map_or(Duration::ZERO, |age| settling.saturating_sub(age))
}

fn length_of(piece: &Piece) -> u64 {
    match piece {
        Piece::Hole(length) => *length,
        Piece::Chunk(chunk) => u64::from(chunk.length),
    }
}

/// Data and holes of a file in turn: whether it is a hole, and its length. The file's position is at each in its turn.
struct Segments<'a> {
    file: &'a OwnedFd,
    size: u64,
    offset: u64,
    is_sparse: bool,
}

impl<'a> Segments<'a> {
    fn new(file: &'a OwnedFd, size: u64, is_sparse: bool) -> Segments<'a> {
        Segments { file, size, offset: 0, is_sparse }
    }
}

impl Iterator for Segments<'_> {
    type Item = (bool, u64);

    fn next(&mut self) -> Option<(bool, u64)> {
        if self.offset >= self.size {
            return None;
        }
        let from = self.offset;
        // A file system that cannot tell, and a file that was cut meanwhile, have data up to the end.
        let data = if self.is_sparse { seek(self.file, SeekFrom::Data(from)) } else { Ok(from) };
        let (is_hole, end) = match data {
            Err(rustix::io::Errno::NXIO) => (true, self.size),
            Ok(data) if data > from => (true, data.min(self.size)),
            _ if !self.is_sparse => (false, self.size),
            _ => {
                (false, seek(self.file, SeekFrom::Hole(from)).unwrap_or(self.size).clamp(from + 1, self.size))
            }
        };
        if !is_hole {
            seek(self.file, SeekFrom::Start(from)).ok()?;
        }
        self.offset = end;
        Some((is_hole, end - from))
    }
}

#[cfg(test)]
pub(super) mod tests;
