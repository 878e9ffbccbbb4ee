//! What is stored of chunks: compressed or not. How they are had back: [`Opener`](super::Opener).

use bytes::Bytes;

use super::chunk::{Codec, Hash};
use crate::compression::{self, Format};

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

/// What is stored of a chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// How it is compressed.
    pub codec: Codec,
    /// What is stored.
    pub bytes: Bytes,
}

/// A chunk that does not shrink below this share is stored as it is, so that it is not decompressed for nothing.
const WORTH: f64 = 0.95;

impl Packed {
    /// A chunk as it is.
    pub fn plain(bytes: Bytes) -> Packed {
        Packed { codec: Codec::Plain, bytes }
    }

    /// What a codec made of a chunk, or the chunk as it is if that is not clearly smaller.
    pub fn or_plain(codec: compression::Codec, packed: Option<Vec<u8>>, bytes: Bytes) -> Packed {
        match packed.filter(|packed| (packed.len() as f64) < WORTH * bytes.len() as f64) {
            Some(packed) => Packed { codec: codec.format().into(), bytes: packed.into() },
            None => Packed::plain(bytes),
        }
    }
}

impl From<Format> for Codec {
    fn from(format: Format) -> Codec {
        match format {
            Format::Plain => Codec::Plain,
            Format::Lz4 => Codec::Lz4,
            Format::Zstd => Codec::Zstd,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::{ChunkRef, Opener};

    fn open(chunk: &ChunkRef, stored: Bytes) -> Result<Bytes, ChunkError> {
        Opener::default().open(chunk, stored)
    }

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

    const CODECS: [&str; 3] = ["zstd", "zstd:9", "lz4"];

    fn packed(codec: &str, bytes: Vec<u8>) -> Packed {
        let codec = codec.parse().expect("a codec");
        Packed::or_plain(codec, compression::Coder::default().pack(codec, &bytes), bytes.into())
    }

    fn noise(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        bytes
    }

    #[test]
    fn whatever_the_compression_the_bytes_come_back() {
        let text = b"all work and no play ".repeat(500);
        for name in CODECS {
            for bytes in [text.clone(), noise(10_000), Vec::new(), vec![7]] {
                let packed = packed(name, bytes.clone());
                let chunk = reference(&bytes, &packed);
                assert!(packed.bytes.len() <= bytes.len());
                assert_eq!(open(&chunk, packed.bytes).expect("right"), bytes);
            }
        }
    }

    #[test]
    fn only_what_shrinks_is_compressed() {
        let text = b"all work and no play ".repeat(500);
        assert_eq!(packed("zstd", text.clone()).codec, Codec::Zstd);
        assert_eq!(packed("zstd", noise(10_000)).codec, Codec::Plain);
        // Only a little shorter: not worth it.
        let bytes: Bytes = text.into();
        let little = bytes[..bytes.len() * 97 / 100].to_vec();
        assert_eq!(Packed::or_plain(compression::Codec::Lz4, Some(little), bytes).codec, Codec::Plain);
    }

    #[test]
    fn a_changed_byte_is_an_error_and_never_other_data() {
        let text = b"all work and no play ".repeat(500);
        for name in CODECS {
            let packed = packed(name, text.clone());
            let chunk = reference(&text, &packed);
            for position in (0..packed.bytes.len()).step_by(7) {
                let mut damaged = packed.bytes.to_vec();
                damaged[position] ^= 0x10;
                if let Ok(bytes) = open(&chunk, damaged.into()) {
                    assert_eq!(bytes, text, "bytes that do not matter may change");
                }
            }
        }
    }
}
