//! Solid frames: chunks that follow one another in an object, packed as one frame of Zstandard.
//!
//! ```text
//!  object  ···│ chunk 1 │ chunk 2 │ chunk 3 │···     behind of chunk 3 = stored bytes of chunks 1 and 2
//!             └─ one frame, flushed behind each ─┘   skip of chunk 3   = bytes of chunks 1 and 2
//! ```
//! A chunk finds matches in those before it, so that text takes a fifth less than if each were packed by itself. The
//! frame is flushed behind each chunk: a chunk has a place of its own, and can be had from the frame's beginning up to
//! its own end. That is at most [`MAX_SOLID_STORED_BYTES`] to read and [`MAX_SOLID_BYTES`] to unpack: what shrinks to
//! an eighth, as text does, fills both.

use std::collections::VecDeque;
use std::fmt;
use std::io;

use bytes::Bytes;
use zstd::stream::raw::{CParameter, DParameter, Decoder, Encoder, InBuffer, Operation as _, OutBuffer};
use zstd::zstd_safe::compress_bound;

use super::chunk::{ChunkRef, Codec, Hash, MAX_SOLID_BYTES, MAX_SOLID_STORED_BYTES};
use super::packed::{ChunkError, Packed};
use crate::compression::{self, Level};

/// How far back a frame may refer, as a power of two: as far as its beginning.
const WINDOW_LOG: u32 = MAX_SOLID_BYTES.ilog2();
/// What a flush may add to a bound that is one of whole frames.
const FLUSH_BYTES: usize = 64;
/// How many frames a reader keeps where it has left them, each with its last [`MAX_SOLID_BYTES`] at most: a tree that
/// was synced many times lies in several objects, and its chunks come from them in turn.
const KEPT_FRAMES: usize = 8;

/// Packs chunks into solid frames.
#[derive(Default)]
pub struct SolidPacker {
    encoder: Option<(Level, Encoder<'static>)>,
    /// The stored and the plain bytes of the frame that the next chunk goes on with.
    open: Option<(u32, u32)>,
}

impl fmt::Debug for SolidPacker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SolidPacker").field("open", &self.open).finish_non_exhaustive()
    }
}

impl SolidPacker {
    /// Packs a chunk of at most [`MAX_CHUNK_BYTES`](super::MAX_CHUNK_BYTES), which goes behind the one before in the
    /// object, unless [`end`](Self::end) was called. It is as it is if it does not shrink.
    pub fn pack(&mut self, level: Level, chunk: &Bytes) -> Packed {
        let goes_on = self.goes_on_with(chunk) == Some(level);
        let open = self.open.take().filter(|_| goes_on);
        let Ok(packed) = self.pack_behind(level, open.is_some(), chunk) else {
            return Packed::plain(chunk.clone());
        };
        let (behind, skip) = open.unwrap_or_default();
        let packed = Packed::or_plain(compression::Codec::Zstd(level), Some(packed), chunk.clone());
        if packed.codec == Codec::Plain {
            return packed;
        }
        self.open = Some((behind + packed.bytes.len() as u32, skip + chunk.len() as u32));
        Packed { codec: Codec::Solid { behind, skip }, ..packed }
    }

    /// The level of the frame that a chunk can go on with, if there is one.
    fn goes_on_with(&self, chunk: &Bytes) -> Option<Level> {
        let (stored, plain) = self.open?;
        let (level, _) = self.encoder.as_ref()?;
        // What is stored of the chunk is at most as long as the chunk.
        let has_room = plain as usize + chunk.len() <= MAX_SOLID_BYTES as usize
            && stored as usize + chunk.len() <= MAX_SOLID_STORED_BYTES as usize;
        has_room.then_some(*level)
    }

    /// The next chunk begins a frame: something else is in front of it.
    pub fn end(&mut self) {
        self.open = None;
    }

    fn pack_behind(&mut self, level: Level, goes_on: bool, chunk: &[u8]) -> io::Result<Vec<u8>> {
        let encoder = match &mut self.encoder {
            Some((of, encoder)) if *of == level => {
                if !goes_on {
                    encoder.reinit()?;
                }
                encoder
            }
            other => {
                let mut encoder = Encoder::new(level.number().into())?;
                encoder.set_parameter(CParameter::WindowLog(WINDOW_LOG))?;
                &mut other.insert((level, encoder)).1
            }
        };
        let mut packed = Vec::with_capacity(compress_bound(chunk.len()) + FLUSH_BYTES);
        let (mut from, mut to) = (InBuffer::around(chunk), OutBuffer::around(&mut packed));
        while from.pos() < chunk.len() {
            encoder.run(&mut from, &mut to)?;
        }
        match encoder.flush(&mut to)? {
            0 => Ok(()),
            _ => Err(io::Error::other("a chunk became longer than any can")),
        }?;
        packed.shrink_to_fit();
        Ok(packed)
    }
}

/// A frame that was begun, and where its reader stands.
#[derive(Debug)]
struct Begun<T> {
    object: u32,
    /// Where the frame begins in the object, and up to where it was read.
    start: u64,
    at: u64,
    state: T,
}

/// The frames that were read last.
#[derive(Debug)]
struct Frames<T>(VecDeque<Begun<T>>);

impl<T> Frames<T> {
    /// The frame of a chunk, if it was not read beyond the chunk's beginning.
    fn find(&self, chunk: &ChunkRef) -> Option<usize> {
        let start = chunk.reach().offset;
        let is_it =
            |one: &Begun<T>| (one.object, one.start) == (chunk.object, start) && one.at <= chunk.offset;
        self.0.iter().position(is_it)
    }

    fn take(&mut self, chunk: &ChunkRef) -> Option<Begun<T>> {
        self.find(chunk).and_then(|index| self.0.remove(index))
    }

    /// The frame of a chunk was read up to `at`. Gives what is not needed any more: what was known of it before, or the
    /// frame in front of it, if that was read up to this one's beginning and so to its end, or the oldest one.
    fn put(&mut self, chunk: &ChunkRef, at: u64, state: T) -> Option<T> {
        let (object, start) = (chunk.object, chunk.reach().offset);
        let same = self.0.iter().position(|one| (one.object, one.start) == (object, start));
        let in_front = || self.0.iter().position(|one| (one.object, one.at) == (object, start));
        let oldest = (self.0.len() == KEPT_FRAMES).then_some(0);
        let spare = same.or_else(in_front).or(oldest).and_then(|index| self.0.remove(index));
        self.0.push_back(Begun { object, start, at, state });
        spare.map(|one| one.state)
    }
}

impl<T> Default for Frames<T> {
    fn default() -> Frames<T> {
        Frames(VecDeque::new())
    }
}

/// Tells in advance from where on an [`Opener`] will need an object's bytes, chunk by chunk.
#[derive(Debug, Default)]
pub struct OpeningPlan(Frames<()>);

impl OpeningPlan {
    /// From where on the bytes up to the end of the next chunk are needed.
    pub fn next(&mut self, chunk: &ChunkRef) -> u64 {
        if !matches!(chunk.codec, Codec::Solid { .. }) {
            return chunk.offset;
        }
        let from = self.0.take(chunk).map_or(chunk.reach().offset, |begun| begun.at);
        self.0.put(chunk, chunk.end(), ());
        from
    }
}

/// Has chunks back out of what is stored of them. Those that follow one another in a frame are unpacked once.
#[derive(Debug, Default)]
pub struct Opener {
    frames: Frames<Unpacking>,
    /// A frame that is not needed any more: its decoder has the memory that the next one needs.
    spare: Unpacking,
}

/// How far a frame is unpacked.
#[derive(Default)]
struct Unpacking {
    /// None if it cannot be unpacked any further.
    decoder: Option<Decoder<'static>>,
    /// How many plain bytes it has given.
    plain: u32,
}

impl fmt::Debug for Unpacking {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Unpacking").field("plain", &self.plain).finish_non_exhaustive()
    }
}

impl Opener {
    /// From where on the object's bytes up to the end of a chunk are needed to open it: from its own beginning, if
    /// what its frame has before it was opened, or cannot be.
    pub fn start(&self, chunk: &ChunkRef) -> u64 {
        match chunk.codec {
            Codec::Solid { .. } => match self.frames.find(chunk).map(|index| &self.frames.0[index]) {
                Some(Begun { state: Unpacking { decoder: None, .. }, .. }) => chunk.offset,
                begun => begun.map_or(chunk.reach().offset, |begun| begun.at),
            },
            _ => chunk.offset,
        }
    }

    /// A chunk's bytes out of the object's from [`start`](Self::start) to its end.
    ///
    /// # Errors
    /// If they are not the ones that were stored.
    pub fn open(&mut self, chunk: &ChunkRef, stored: Bytes) -> Result<Bytes, ChunkError> {
        let length = chunk.length as usize;
        let bytes = match chunk.codec {
            Codec::Plain => Some(stored),
            Codec::Lz4 => lz4_flex::block::decompress(&stored, length).ok().map(Bytes::from),
            Codec::Zstd => zstd::bulk::decompress(&stored, length).ok().map(Bytes::from),
            Codec::Solid { skip, .. } => self.open_solid(chunk, skip, &stored).map(Bytes::from),
        };
        let bytes = bytes.ok_or(ChunkError::Compression(chunk.hash))?;
        match Hash::of(&bytes) {
            hash if hash == chunk.hash && bytes.len() == length => Ok(bytes),
            hash => Err(ChunkError::Changed(chunk.hash, hash)),
        }
    }

    /// The bytes of a chunk cannot be had, and so nothing behind them in its frame.
    pub fn lose(&mut self, chunk: &ChunkRef) {
        if matches!(chunk.codec, Codec::Solid { .. }) {
            self.leave(chunk, chunk.offset, Unpacking::default());
        }
    }

    fn leave(&mut self, chunk: &ChunkRef, at: u64, state: Unpacking) {
        if let Some(spare) = self.frames.put(chunk, at, state) {
            self.spare = spare;
        }
    }

    fn begin(&mut self) -> Unpacking {
        let reset = |mut decoder: Decoder<'static>| decoder.reinit().ok().map(|()| decoder);
        let spare = self.spare.decoder.take().and_then(reset);
        Unpacking { decoder: spare.or_else(|| decoder().ok()), plain: 0 }
    }

    fn open_solid(&mut self, chunk: &ChunkRef, skip: u32, stored: &[u8]) -> Option<Vec<u8>> {
        let Unpacking { decoder, plain } = match self.frames.take(chunk) {
            Some(begun) => begun.state,
            None => self.begin(),
        };
        let before = skip.checked_sub(plain).map(|before| before as usize);
        let opened = decoder.zip(before).and_then(|(mut decoder, before)| {
            let bytes = unpack(&mut decoder, stored, before + chunk.length as usize)?;
            Some((decoder, bytes, before))
        });
        let Some((decoder, mut bytes, before)) = opened else {
            self.lose(chunk);
            return None;
        };
        let state = Unpacking { decoder: Some(decoder), plain: skip + chunk.length };
        self.leave(chunk, chunk.end(), state);
        bytes.drain(..before);
        Some(bytes)
    }
}

fn decoder() -> io::Result<Decoder<'static>> {
    let mut decoder = Decoder::new()?;
    decoder.set_parameter(DParameter::WindowLogMax(WINDOW_LOG))?;
    Ok(decoder)
}

/// The next `plain` bytes of a frame; none if the packed ones do not become exactly so many.
fn unpack(decoder: &mut Decoder<'static>, packed: &[u8], plain: usize) -> Option<Vec<u8>> {
    if plain > MAX_SOLID_BYTES as usize {
        return None;
    }
    // One more than is wanted, so that too many are noticed.
    let mut bytes = Vec::with_capacity(plain + 1);
    let (mut from, mut to) = (InBuffer::around(packed), OutBuffer::around(&mut bytes));
    loop {
        let before = (from.pos(), to.pos());
        decoder.run(&mut from, &mut to).ok()?;
        if (from.pos(), to.pos()) == before {
            break;
        }
    }
    let is_used_up = from.pos() == packed.len();
    (is_used_up && bytes.len() == plain).then_some(bytes)
}

#[cfg(test)]
mod tests;
