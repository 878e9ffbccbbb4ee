//! Gives chunks their places: where they are already, or behind those before them in the object of the run.
//!
//! A new chunk has a place once it is packed, while the thread that cuts is some batches ahead. Until then it goes by
//! its hash, and what names it waits in [`Entries`].

use std::collections::{BTreeSet, VecDeque};
use std::fs::File;
use std::io::{self, BufWriter};
use std::sync::Arc;

use bytes::Bytes;

use super::meter::Meter;
use super::packer::{ChunkPacker, PackedChunk};
use super::send::Wounds;
use super::spool::ManifestFile;
use crate::compression::Codec;
use crate::io::threads::Output;
use crate::replication::{self, ChunkIndex, ChunkRef, Entry, EntryKind, EntryWriter, Hash, Inserted, Packed};

/// Entries wait for the places of their chunks. Are there more than that, with what they consist of, then those places
/// are waited for.
const MOST_WAITING: usize = 1 << 14;

pub(super) type Writer = EntryWriter<BufWriter<File>>;

/// A chunk that is new.
#[derive(Debug)]
pub(super) struct NewChunk {
    pub(super) chunk: ChunkRef,
    /// What is stored of it.
    pub(super) bytes: Bytes,
}

/// Gives chunks their places.
#[derive(Debug)]
pub(super) struct Placer {
    index: ChunkIndex,
    packer: ChunkPacker,
    /// The new chunks that have no place yet.
    unplaced: BTreeSet<Hash>,
    /// How many new chunks there are.
    new: u64,
    /// The object that new chunks go to, and where it ends.
    object: u32,
    offset: u64,
    /// What is damaged and is sent again if its content comes by.
    wounds: Wounds,
    to: Output<NewChunk>,
    meter: Arc<Meter>,
}

impl Placer {
    /// One that puts out what goes to an object that is empty, unless the index has it.
    pub(super) fn new(
        index: ChunkIndex,
        packer: ChunkPacker,
        object: u32,
        wounds: Wounds,
        to: Output<NewChunk>,
        meter: Arc<Meter>,
    ) -> Placer {
        let unplaced = BTreeSet::new();
        Placer { index, packer, unplaced, new: 0, object, offset: 0, wounds, to, meter }
    }

    /// What is damaged and was not sent again so far.
    pub(super) fn wounds(&self) -> &Wounds {
        &self.wounds
    }

    /// All chunks that were new, and what is damaged still.
    pub(super) fn into_parts(self) -> (Inserted, Wounds) {
        (self.index.into_inserted(), self.wounds)
    }

    /// Sees to it that a chunk gets a place, compressed as the user wants it unless it has a codec of its own. None if
    /// nobody wants it any more.
    pub(super) fn place(&mut self, bytes: Bytes, codec: Option<Codec>) -> Option<ChunkRef> {
        let (hash, length) = (Hash::of(&bytes), bytes.len() as u32);
        let known = self.index.find(&hash);
        if known.is_some() || !self.unplaced.insert(hash) {
            Meter::add(&self.meter.known, u64::from(length));
        } else {
            self.new += 1;
            match self.wounds.codec_of(&hash).or(codec) {
                Some(codec) => self.packer.add_alone(codec, hash, bytes),
                None => self.packer.add(hash, bytes),
            }
        }
        while let Some(packed) = self.packer.next_ready() {
            self.put(packed)?;
        }
        Some(known.unwrap_or_else(|| self.without_place(hash, length)))
    }

    /// The same, and waits for the place.
    pub(super) fn place_now(&mut self, bytes: Bytes, codec: Option<Codec>) -> Option<ChunkRef> {
        let chunk = self.place(bytes, codec)?;
        self.place_all()?;
        Some(self.with_place(chunk))
    }

    /// Waits until all chunks have their places.
    pub(super) fn place_all(&mut self) -> Option<()> {
        while let Some(packed) = self.packer.next() {
            self.put(packed)?;
        }
        Some(())
    }

    /// How many new chunks have a place.
    fn placed(&self) -> u64 {
        self.new - self.unplaced.len() as u64
    }

    fn put(&mut self, packed: PackedChunk) -> Option<()> {
        let PackedChunk { hash, length, packed: Packed { codec, bytes } } = packed;
        let stored = bytes.len() as u32;
        let chunk = ChunkRef { hash, length, object: self.object, offset: self.offset, stored, codec };
        self.offset += u64::from(stored);
        self.unplaced.remove(&hash);
        self.index.insert(chunk);
        self.wounds.heal(&chunk);
        self.to.put(NewChunk { chunk, bytes })
    }

    /// A chunk that is not stored anywhere yet: no manifest may name it.
    fn without_place(&self, hash: Hash, length: u32) -> ChunkRef {
        ChunkRef { hash, length, object: self.object, offset: 0, stored: 0, codec: replication::Codec::Plain }
    }

    fn with_place(&self, chunk: ChunkRef) -> ChunkRef {
        match chunk.stored {
            0 => self.index.find(&chunk.hash).expect("it was put out"),
            _ => chunk,
        }
    }
}

/// Entries on their way into a manifest.
#[derive(Debug)]
pub(super) struct Entries {
    manifest: Writer,
    /// Each with how many new chunks there were when it came: it can be written once these have places.
    waiting: VecDeque<(u64, Entry)>,
    /// They and their pieces.
    count: usize,
    /// All objects that hold something of what was written.
    objects: BTreeSet<u32>,
}

impl Entries {
    pub(super) fn new() -> io::Result<Entries> {
        let manifest = ManifestFile::writer()?;
        Ok(Entries { manifest, waiting: VecDeque::new(), count: 0, objects: BTreeSet::new() })
    }

    /// The next entry. None if nobody wants its chunks any more.
    pub(super) fn push(&mut self, entry: Entry, placer: &mut Placer) -> io::Result<Option<()>> {
        self.count += weight(&entry);
        self.waiting.push_back((placer.new, entry));
        if self.count > MOST_WAITING && placer.place_all().is_none() {
            return Ok(None);
        }
        self.write(placer).map(Some)
    }

    /// The manifest, and the objects that hold something of it. None if nobody wants its chunks any more.
    pub(super) fn end(mut self, placer: &mut Placer) -> io::Result<Option<(Writer, BTreeSet<u32>)>> {
        if placer.place_all().is_none() {
            return Ok(None);
        }
        self.write(placer)?;
        Ok(Some((self.manifest, self.objects)))
    }

    /// Writes those whose chunks have places.
    fn write(&mut self, placer: &Placer) -> io::Result<()> {
        while self.waiting.front().is_some_and(|(new, _)| *new <= placer.placed()) {
            let Some((_, mut entry)) = self.waiting.pop_front() else { break };
            self.count -= weight(&entry);
            entry.chunks_mut().for_each(|chunk| *chunk = placer.with_place(*chunk));
            self.objects.extend(entry.chunks().map(|chunk| chunk.object));
            self.manifest.write(&entry)?;
        }
        Ok(())
    }
}

/// An entry counts as one, and each of its pieces.
fn weight(entry: &Entry) -> usize {
    match &entry.kind {
        EntryKind::File { pieces, .. } => 1 + pieces.len(),
        _ => 1,
    }
}
