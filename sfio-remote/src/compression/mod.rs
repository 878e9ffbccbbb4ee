//! Compression on the wire, by a rule (`[tpc §4, §6]`, docs/decisions/compression.md).
//!
//! A payload travels as frames ([`frame`]), each packed by a codec ([`codec`]) that a rule chooses ([`rule`]): first by
//! whether the network makes us wait at all ([`pressure`]), then by what the codecs have been seen to do. Packing and
//! unpacking are jobs ([`job`]) that somebody else carries out: nothing here looks at a clock or takes long.
//!
//! ```text
//! payload ─▶ Compressor (Pressure, Rule): hold, try, or a codec ─▶ jobs ─▶ Framer: frames in order ─▶ stream
//! stream ─▶ FrameReader ─▶ jobs ─▶ payload
//! ```

pub mod codec;
mod compressor;
pub mod frame;
mod framer;
pub mod job;
pub mod pressure;
pub mod rule;

use std::fmt;
use std::str::FromStr;

pub use codec::{Codec, CodecNameError, Coder, Format, Level, UnpackError};
pub(crate) use compressor::{Compressor, Held};
pub use frame::{FrameError, FrameHeader, FramePart, FrameReader, MAX_FRAME_BYTES, Packing};
pub(crate) use framer::{Framer, ReadyFrame};
pub use job::{CodecJob, CodecResult, Processor, Trial};
pub(crate) use job::{CodecOutcome, CodecWork, JobQueue, JobTicket, Side};
pub use rule::{Choice, Circumstances, Explanation, Rule, Why};

/// How many bytes codecs are tried on.
pub(crate) const SAMPLE_BYTES: u64 = 64 << 10;

/// A payload of fewer bytes is not worth frames.
const LEAST_BY_RULE: u64 = 16 << 10;
const LEAST_ALWAYS: u64 = 64;

/// What users choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// What the rule says, frame by frame.
    #[default]
    Auto,
    /// Nothing is compressed.
    Never,
    /// Everything by this codec.
    Always(Codec),
}

impl Compression {
    /// How a payload of so many bytes is packed.
    pub fn packing(self, bytes: u64) -> Packing {
        match self {
            Compression::Auto if bytes >= LEAST_BY_RULE => Packing::AUTO,
            Compression::Always(codec) if bytes >= LEAST_ALWAYS && codec != Codec::Plain => {
                Packing::Always(codec)
            }
            _ => Packing::Raw,
        }
    }
}

impl fmt::Display for Compression {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Compression::Auto => f.write_str("auto"),
            Compression::Never => f.write_str("never"),
            Compression::Always(codec) => codec.fmt(f),
        }
    }
}

impl FromStr for Compression {
    type Err = CodecNameError;

    fn from_str(text: &str) -> Result<Compression, CodecNameError> {
        match text {
            "auto" => Ok(Compression::Auto),
            "never" => Ok(Compression::Never),
            codec => codec.parse().map(Compression::Always),
        }
    }
}
