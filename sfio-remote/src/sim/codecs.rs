//! Codecs in virtual time: they do their work, and a model says how long it takes.

use std::time::Duration;

use crate::compression::{Codec, CodecJob, CodecResult, Coder, Format, Processor, UnpackError};

/// How fast a processor packs and unpacks, in bytes of plain data per second, whatever they are.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Speed {
    /// While it packs.
    pub packing: f64,
    /// While it unpacks.
    pub unpacking: f64,
}

/// How long codecs take on a machine.
#[derive(Debug)]
pub struct CodecModel {
    speed: fn(Format, i8) -> Speed,
    idle_processors: f64,
    coder: Coder,
    taken: Duration,
}

impl CodecModel {
    /// A machine with so many processors that have nothing else to do; `speed` gives that of a format and a level of
    /// Zstandard.
    pub fn new(idle_processors: f64, speed: fn(Format, i8) -> Speed) -> CodecModel {
        CodecModel { speed, idle_processors, coder: Coder::default(), taken: Duration::ZERO }
    }

    /// Carries a job out, and says how long that takes.
    pub fn perform(&mut self, job: CodecJob) -> (CodecResult, Duration) {
        self.taken = Duration::ZERO;
        let result = job.perform(self);
        (result, self.taken)
    }

    fn take(&mut self, bytes: usize, per_second: f64) -> Duration {
        let took = Duration::from_secs_f64(bytes as f64 / per_second);
        self.taken += took;
        took
    }
}

/// Some processor of 2020: what is measured of text, in round numbers.
impl Default for CodecModel {
    fn default() -> CodecModel {
        CodecModel::new(1.0, |format, level| match (format, level) {
            (Format::Plain, _) => Speed { packing: 1e10, unpacking: 1e10 },
            (Format::Lz4, _) => Speed { packing: 600e6, unpacking: 2e9 },
            (Format::Zstd, ..=0) => Speed { packing: 700e6, unpacking: 1e9 },
            (Format::Zstd, 1..=2) => Speed { packing: 400e6, unpacking: 1e9 },
            (Format::Zstd, 3..=5) => Speed { packing: 200e6, unpacking: 1e9 },
            (Format::Zstd, _) => Speed { packing: 45e6, unpacking: 1e9 },
        })
    }
}

impl Processor for CodecModel {
    fn pack(&mut self, codec: Codec, plain: &[u8]) -> (Option<Vec<u8>>, Duration) {
        let level = if let Codec::Zstd(level) = codec { level.number() } else { 0 };
        let speed = (self.speed)(codec.format(), level).packing;
        let packed = self.coder.pack(codec, plain);
        (packed, self.take(plain.len(), speed))
    }

    fn unpack(
        &mut self,
        format: Format,
        packed: &[u8],
        plain: usize,
    ) -> (Result<Vec<u8>, UnpackError>, Duration) {
        let speed = (self.speed)(format, 0).unpacking;
        let unpacked = self.coder.unpack(format, packed, plain);
        (unpacked, self.take(plain, speed))
    }

    fn idle(&mut self) -> f64 {
        self.idle_processors
    }
}
