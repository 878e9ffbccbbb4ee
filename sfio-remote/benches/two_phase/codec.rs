//! The study's processor and its LZO: what is packed is really packed, by Zstandard at level 1, which leaves as much of
//! integers and floats as LZO did there; how long that takes is what the study measured.

use std::time::Duration;

use sfio_remote::compression::{Codec, Coder, Format, Level, Processor, UnpackError};

use crate::Kind;

/// What LZO does with zeros, in bytes per second. The study does not say; it copies from what it has just written.
const ZEROS: f64 = 3e9;

/// What each call takes besides, to pack and to unpack: by so much the times of its Table 4 grow with each message.
const CALL: (Duration, Duration) = (Duration::from_micros(480), Duration::from_micros(110));

/// LZO goes by the name of LZ4, which is the codec that the rule takes for a fast one. No other one shrinks anything.
#[derive(Debug)]
pub(crate) struct Lzo {
    kind: Kind,
    coder: Coder,
    /// How long it has worked since somebody asked.
    pub(crate) worked: Duration,
}

impl Lzo {
    pub(crate) fn new(kind: Kind) -> Lzo {
        Lzo { kind, coder: Coder::default(), worked: Duration::ZERO }
    }

    /// How long `plain` bytes take of which `packed` are left, at so many bytes per second where nothing is zero.
    fn work(&mut self, plain: usize, packed: usize, call: Duration, per_second: f64) -> Duration {
        let of_literals = (packed as f64 / (self.kind.ratio() * plain.max(1) as f64)).min(1.0);
        let per_byte = of_literals / per_second + (1.0 - of_literals) / ZEROS;
        let took = call + Duration::from_secs_f64(plain as f64 * per_byte);
        self.worked += took;
        took
    }
}

impl Processor for Lzo {
    fn pack(&mut self, codec: Codec, plain: &[u8]) -> (Option<Vec<u8>>, Duration) {
        if codec != Codec::Lz4 {
            return (None, Duration::ZERO);
        }
        let packed = self.coder.pack(Codec::Zstd(Level::DEFAULT), plain);
        let length = packed.as_ref().map_or(plain.len(), Vec::len);
        let took = self.work(plain.len(), length, CALL.0, self.kind.speeds().0);
        (packed, took)
    }

    fn unpack(
        &mut self,
        _format: Format,
        packed: &[u8],
        plain: usize,
    ) -> (Result<Vec<u8>, UnpackError>, Duration) {
        let unpacked = self.coder.unpack(Format::Zstd, packed, plain);
        let took = self.work(plain, packed.len(), CALL.1, self.kind.speeds().1);
        (unpacked, took)
    }

    /// Its nodes have two processors, of which the other one has nothing to do.
    fn idle(&mut self) -> f64 {
        1.0
    }
}
