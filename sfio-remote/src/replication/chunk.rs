//! Chunks: what files are cut into, and where it is kept.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::record::Extent;

/// No chunk is longer, and none takes more where it is stored.
pub const MAX_CHUNK_BYTES: u32 = 1 << 20;
/// No frame of several chunks has more plain bytes: so many must be unpacked at most to have one of them.
pub const MAX_SOLID_BYTES: u32 = 16 << 20;
/// And none takes more where it is stored: so many must be read at most to have one of them.
pub const MAX_SOLID_STORED_BYTES: u32 = 2 << 20;
/// No object is longer: offsets can be added without a thought.
pub const MAX_OBJECT_BYTES: u64 = 1 << 62;

/// The BLAKE3 hash of a chunk's bytes before compression.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Hash([u8; 32]);

impl Hash {
    /// Stands where there is nothing that could have a hash.
    pub const ZERO: Hash = Hash([0; 32]);

    /// The hash of some bytes.
    pub fn of(bytes: &[u8]) -> Hash {
        Hash(*blake3::hash(bytes).as_bytes())
    }

    /// Its 32 bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&blake3::Hash::from_bytes(self.0).to_hex()[..16])
    }
}

/// How a chunk is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Codec {
    /// Not at all.
    Plain,
    /// As a block of LZ4.
    Lz4,
    /// As a frame of Zstandard.
    Zstd,
    /// As a part of a frame of Zstandard that begins with chunks before it in the object: to have it the frame is
    /// unpacked from its beginning.
    Solid {
        /// How many bytes of the frame are before the chunk's where it is stored.
        behind: u32,
        /// How many plain bytes those are.
        skip: u32,
    },
}

impl Codec {
    /// Whether a chunk of so many bytes can be packed so, if it takes `stored` bytes from `offset` on in its object.
    pub(super) fn is_sound(self, offset: u64, length: u32, stored: u32) -> bool {
        match self {
            Codec::Solid { behind, skip } => {
                (behind == 0) == (skip == 0)
                    && behind <= skip
                    && u64::from(behind) <= offset
                    && skip.checked_add(length).is_some_and(|plain| plain <= MAX_SOLID_BYTES)
                    && behind.checked_add(stored).is_some_and(|end| end <= MAX_SOLID_STORED_BYTES)
            }
            _ => true,
        }
    }
}

/// Where a chunk is kept, and how to know that it is the right one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ChunkRef {
    /// The hash of its bytes.
    pub hash: Hash,
    /// How many bytes it has.
    pub length: u32,
    /// The object that holds it.
    pub object: u32,
    /// Where it begins there.
    pub offset: u64,
    /// How many bytes it takes there.
    pub stored: u32,
    /// How to get the bytes back.
    pub codec: Codec,
}

impl ChunkRef {
    /// Where it ends in its object.
    pub fn end(&self) -> u64 {
        self.offset.saturating_add(self.stored.into())
    }

    /// All that is needed to have its bytes: of a chunk in a solid frame also what the frame has before it.
    pub fn reach(&self) -> Extent {
        let behind = match self.codec {
            Codec::Solid { behind, .. } => u64::from(behind).min(self.offset),
            _ => 0,
        };
        let length = behind + u64::from(self.stored);
        Extent { object: self.object, offset: self.offset - behind, length }
    }

    /// Whether there can be such a chunk, so that reading it takes no more than a chunk may have.
    pub fn is_sound(&self) -> bool {
        let is_stored_whole = self.codec == Codec::Plain;
        (1..=MAX_CHUNK_BYTES).contains(&self.length)
            && (1..=self.length).contains(&self.stored)
            && (self.stored == self.length || !is_stored_whole)
            && self.end() <= MAX_OBJECT_BYTES
            && self.codec.is_sound(self.offset, self.length, self.stored)
    }
}
