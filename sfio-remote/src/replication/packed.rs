//! What is stored of chunks: compressed or not, and back.

use bytes::Bytes;

use super::chunk::{ChunkRef, Codec, Hash};

/// Why the bytes of a chunk cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ChunkError {
    /// They do not decompress to what they should.
    #[error("chunk {0} does not decompress")]
    Compression(Hash),
    /// They are not the bytes that were stored: their hash is another one.
    #[error("chunk {0} has been changed: its BLAKE3 hash is now {1}")]
    Changed(Hash, Hash),
}

impl ChunkRef {
    /// The chunk's bytes out of what is stored.
    ///
    /// # Errors
    /// If they are not the ones that were stored.
    pub fn open(&self, stored: Bytes) -> Result<Bytes, ChunkError> {
        let length = self.length as usize;
        let broken = || ChunkError::Compression(self.hash);
        let bytes = match self.codec {
            Codec::Plain => stored,
            Codec::Lz4 => lz4_flex::block::decompress(&stored, length).map_err(|_| broken())?.into(),
            Codec::Zstd => zstd::bulk::decompress(&stored, length).map_err(|_| broken())?.into(),
        };
        match Hash::of(&bytes) {
            hash if hash == self.hash && bytes.len() == length => Ok(bytes),
            hash => Err(ChunkError::Changed(self.hash, hash)),
        }
    }
}

/// How chunks are to be compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Zstandard where a sample says that it is worth it.
    #[default]
    Auto,
    /// Zstandard, always tried.
    Zstd,
    /// LZ4, always tried.
    Lz4,
    /// Not at all.
    None,
}

/// What is stored of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// How it is compressed.
    pub codec: Codec,
    /// What is stored.
    pub bytes: Bytes,
}

/// The fastest level that still gains much: some 500 MB/s a core.
const ZSTD_LEVEL: i32 = 1;
/// So many bytes of a chunk are tried first.
const SAMPLE: usize = 4 << 10;
/// A chunk that does not shrink below this share is stored as it is, so that it is not decompressed for nothing.
const WORTH: f64 = 0.95;

impl Packed {
    /// Compresses a chunk, if that makes it clearly smaller.
    pub fn new(bytes: Bytes, compression: Compression) -> Packed {
        let compressed = match compression {
            Compression::None => None,
            Compression::Auto if !seems_compressible(&bytes) => None,
            Compression::Auto | Compression::Zstd => {
                zstd::bulk::compress(&bytes, ZSTD_LEVEL).ok().map(|packed| (Codec::Zstd, packed))
            }
            Compression::Lz4 => Some((Codec::Lz4, lz4_flex::block::compress(&bytes))),
        };
        match compressed {
            Some((codec, packed)) if is_worth(packed.len(), bytes.len()) => {
                // Compressors reserve memory for the worst case; chunks wait in numbers.
                Packed { codec, bytes: packed.into_boxed_slice().into() }
            }
            _ => Packed { codec: Codec::Plain, bytes },
        }
    }
}

/// LZ4 on a piece out of the middle costs a few microseconds.
fn seems_compressible(bytes: &[u8]) -> bool {
    let from = (bytes.len() / 2).saturating_sub(SAMPLE / 2);
    let sample = &bytes[from..bytes.len().min(from + SAMPLE)];
    is_worth(lz4_flex::block::compress(sample).len(), sample.len())
}

fn is_worth(packed: usize, plain: usize) -> bool {
    (packed as f64) < WORTH * plain as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reference(bytes: &[u8], packed: &Packed) -> ChunkRef {
        ChunkRef {
            hash: Hash::of(bytes),
            length: bytes.len() as u32,
            object: 0,
            offset: 0,
            stored: packed.bytes.len() as u32,
            codec: packed.codec,
        }
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        bytes
    }

    #[test]
    fn whatever_the_compression_the_bytes_come_back() {
        let text = b"all work and no play ".repeat(500);
        for compression in [Compression::Auto, Compression::Zstd, Compression::Lz4, Compression::None] {
            for bytes in [text.clone(), noise(10_000), Vec::new(), vec![7]] {
                let packed = Packed::new(bytes.clone().into(), compression);
                let chunk = reference(&bytes, &packed);
                assert!(packed.bytes.len() <= bytes.len());
                assert_eq!(chunk.open(packed.bytes).expect("right"), bytes);
            }
        }
    }

    #[test]
    fn only_what_shrinks_is_compressed() {
        let text: Bytes = b"all work and no play ".repeat(500).into();
        assert_eq!(Packed::new(text, Compression::Auto).codec, Codec::Zstd);
        assert_eq!(Packed::new(noise(10_000).into(), Compression::Zstd).codec, Codec::Plain);
    }

    #[test]
    fn a_changed_byte_is_an_error_and_never_other_data() {
        let text = b"all work and no play ".repeat(500);
        for compression in [Compression::Zstd, Compression::Lz4, Compression::None] {
            let packed = Packed::new(text.clone().into(), compression);
            let chunk = reference(&text, &packed);
            for position in (0..packed.bytes.len()).step_by(7) {
                let mut damaged = packed.bytes.to_vec();
                damaged[position] ^= 0x10;
                if let Ok(bytes) = chunk.open(damaged.into()) {
                    assert_eq!(bytes, text, "bytes that do not matter may change");
                }
            }
        }
    }
}
