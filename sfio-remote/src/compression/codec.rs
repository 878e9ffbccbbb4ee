//! Codecs: how a piece of data becomes smaller, and how it is had back.

use std::fmt;
use std::str::FromStr;

use zstd::bulk::{Compressor, Decompressor};

/// How bytes are packed: what whoever unpacks them must know.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Format {
    /// As they are.
    Plain,
    /// As a block of LZ4.
    Lz4,
    /// As a frame of Zstandard.
    Zstd,
}

/// How bytes are packed, and how much work that may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Codec {
    /// Not at all.
    Plain,
    /// LZ4.
    Lz4,
    /// Zstandard of a level.
    Zstd(Level),
}

/// A level of Zstandard: the higher, the smaller and the slower.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(i8);

/// Why packed bytes cannot be had back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{packed} bytes of {format:?} do not unpack to {plain} bytes")]
pub struct UnpackError {
    /// How they should be packed.
    pub format: Format,
    /// How many there are.
    pub packed: usize,
    /// How many they should become.
    pub plain: usize,
}

/// A text that names no codec.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{0}\" is no codec; expected auto, never, lz4, zstd, or zstd:LEVEL with a level of -7 to 19")]
pub struct CodecNameError(pub(super) String);

impl Format {
    /// Its number on the wire.
    pub fn number(self) -> u8 {
        match self {
            Format::Plain => 0,
            Format::Lz4 => 1,
            Format::Zstd => 2,
        }
    }

    /// The format of that number.
    pub fn from_number(number: u8) -> Option<Format> {
        [Format::Plain, Format::Lz4, Format::Zstd].into_iter().find(|format| format.number() == number)
    }
}

impl Level {
    /// The lowest and the highest level.
    pub const RANGE: std::ops::RangeInclusive<i32> = -7..=19;

    /// The level of `zstd` without a number: the fastest that still gains much.
    pub const DEFAULT: Level = Level(1);

    /// The level of that number; none outside of [`RANGE`](Self::RANGE).
    pub fn new(level: i32) -> Option<Level> {
        // The range is that of no more than eight bits.
        Level::RANGE.contains(&level).then_some(Level(level as i8))
    }

    /// Its number.
    pub fn number(self) -> i8 {
        self.0
    }

    pub(super) const fn of(level: i8) -> Level {
        Level(level)
    }
}

impl Codec {
    /// How its output is packed.
    pub fn format(self) -> Format {
        match self {
            Codec::Plain => Format::Plain,
            Codec::Lz4 => Format::Lz4,
            Codec::Zstd(_) => Format::Zstd,
        }
    }
}

impl fmt::Display for Codec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Codec::Plain => f.write_str("plain"),
            Codec::Lz4 => f.write_str("lz4"),
            Codec::Zstd(level) => write!(f, "zstd:{}", level.0),
        }
    }
}

impl FromStr for Codec {
    type Err = CodecNameError;

    fn from_str(text: &str) -> Result<Codec, CodecNameError> {
        let zstd = |level: &str| level.parse().ok().and_then(Level::new).map(Codec::Zstd);
        let codec = match (text, text.strip_prefix("zstd:")) {
            ("lz4", _) => Some(Codec::Lz4),
            ("zstd", _) => Some(Codec::Zstd(Level::DEFAULT)),
            (_, Some(level)) => zstd(level),
            _ => None,
        };
        codec.ok_or_else(|| CodecNameError(text.to_owned()))
    }
}

/// Packs and unpacks, and keeps what Zstandard needs between two pieces: some hundred kilobytes, for high levels a few
/// megabytes.
#[derive(Default)]
pub struct Coder {
    packer: Option<(Level, Compressor<'static>)>,
    unpacker: Option<Decompressor<'static>>,
}

impl fmt::Debug for Coder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Coder").finish_non_exhaustive()
    }
}

impl Coder {
    /// What a codec makes of `plain`; none if that is not shorter.
    pub fn pack(&mut self, codec: Codec, plain: &[u8]) -> Option<Vec<u8>> {
        let mut packed = match codec {
            Codec::Plain => return None,
            Codec::Lz4 => lz4_flex::block::compress(plain),
            Codec::Zstd(level) => self.pack_by_zstd(level, plain)?,
        };
        if packed.len() >= plain.len() {
            return None;
        }
        // Compressors reserve memory for the worst case, and frames wait in numbers.
        packed.shrink_to_fit();
        Some(packed)
    }

    /// The `plain` bytes that were packed in this format.
    ///
    /// # Errors
    /// If `packed` does not become exactly so many.
    pub fn unpack(&mut self, format: Format, packed: &[u8], plain: usize) -> Result<Vec<u8>, UnpackError> {
        let bytes = match format {
            Format::Plain => Some(packed.to_vec()),
            Format::Lz4 => {
                let mut bytes = vec![0; plain];
                let length = lz4_flex::block::decompress_into(packed, &mut bytes).ok();
                length.filter(|length| *length == plain).map(|_| bytes)
            }
            Format::Zstd => self.unpack_zstd(packed, plain),
        };
        let bytes = bytes.filter(|bytes| bytes.len() == plain);
        bytes.ok_or(UnpackError { format, packed: packed.len(), plain })
    }

    fn pack_by_zstd(&mut self, level: Level, plain: &[u8]) -> Option<Vec<u8>> {
        if self.packer.as_ref().is_none_or(|(of, _)| *of != level) {
            self.packer = Some((level, Compressor::new(level.0.into()).ok()?));
        }
        self.packer.as_mut()?.1.compress(plain).ok()
    }

    fn unpack_zstd(&mut self, packed: &[u8], plain: usize) -> Option<Vec<u8>> {
        if self.unpacker.is_none() {
            self.unpacker = Some(Decompressor::new().ok()?);
        }
        let mut bytes = Vec::with_capacity(plain);
        self.unpacker.as_mut()?.decompress_to_buffer(packed, &mut bytes).ok()?;
        Some(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_codec() -> impl Strategy<Value = Codec> {
        prop_oneof![
            Just(Codec::Lz4),
            (-7_i32..=19).prop_map(|level| Codec::Zstd(Level::new(level).expect("in range")))
        ]
    }

    #[test]
    fn codecs_are_named_as_they_are_printed() {
        for name in ["lz4", "zstd:-5", "zstd:1", "zstd:19"] {
            assert_eq!(name.parse::<Codec>().map(|codec| codec.to_string()), Ok(name.to_owned()));
        }
        assert_eq!("zstd".parse(), Ok(Codec::Zstd(Level::DEFAULT)));
        for wrong in ["gzip", "zstd:20", "zstd:-8", "zstd:", "lz4:1", ""] {
            let error = wrong.parse::<Codec>().expect_err("no codec").to_string();
            assert!(error.contains("-7 to 19"), "{error}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn what_is_packed_is_had_back(codec in any_codec(), words in prop::collection::vec(0_u8..6, 0..3_000)) {
            let mut coder = Coder::default();
            if let Some(packed) = coder.pack(codec, &words) {
                prop_assert!(packed.len() < words.len());
                let plain = coder.unpack(codec.format(), &packed, words.len());
                prop_assert_eq!(plain.as_ref(), Ok(&words));
                prop_assert!(coder.unpack(codec.format(), &packed, words.len() - 1).is_err());
                prop_assert!(coder.unpack(codec.format(), &packed, words.len() + 1).is_err());
            }
        }

        #[test]
        fn garbage_is_an_error_or_as_long_as_it_should_be(zstd: bool, bytes in prop::collection::vec(any::<u8>(), 0..300), plain in 0_usize..5_000) {
            let format = if zstd { Format::Zstd } else { Format::Lz4 };
            if let Ok(unpacked) = Coder::default().unpack(format, &bytes, plain) {
                prop_assert_eq!(unpacked.len(), plain);
            }
        }
    }
}
