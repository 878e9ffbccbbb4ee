//! The border that run tables (stage 5) and data (stage 6) cross on their way between ranks: they are packed here, and
//! nowhere else in this module. `[tpc §4]`

use bytes::Bytes;

use crate::compression::{
    Circumstances, Codec, Compression, Format, Packing, Processor, Rule, SAMPLE_BYTES, Trial,
};

/// What travels in messages. Run tables and data shrink differently, so the rule keeps them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Stage 5.
    Tables,
    /// Stage 6.
    Data,
}

/// Bytes on their way between two ranks.
#[derive(Debug, Clone)]
pub(super) struct Packed {
    /// The number of the format.
    pub(super) format: u8,
    pub(super) bytes: Bytes,
}

/// How one rank packs what it sends; what the rule has learned stays from call to call.
#[derive(Debug, Default)]
pub(super) struct Packer {
    compression: Compression,
    /// What the network between the ranks carries, in bit/s; none if it never makes a rank wait.
    rate_bps: Option<f64>,
    rule: Rule,
}

/// A rank's packer, and the processor that does the work.
pub(super) struct Codecs<'a> {
    pub(super) packer: &'a mut Packer,
    pub(super) processor: &'a mut dyn Processor,
}

impl Packed {
    pub(super) fn plain(bytes: Bytes) -> Packed {
        Packed { format: Format::Plain.number(), bytes }
    }
}

impl Packer {
    /// From now on payloads are packed so.
    pub(super) fn set(&mut self, compression: Compression, rate_bps: Option<f64>) {
        (self.compression, self.rate_bps) = (compression, rate_bps);
    }
}

impl Codecs<'_> {
    /// What of `plain` travels.
    pub(super) fn pack(&mut self, kind: Kind, plain: Bytes) -> Packed {
        let codec = match self.packer.compression.packing(plain.len() as u64) {
            Packing::Raw => Codec::Plain,
            Packing::Always(codec) => codec,
            packing => self.chosen(kind, packing, &plain),
        };
        if codec == Codec::Plain {
            return Packed::plain(plain);
        }
        let (packed, trial) = Trial::packing(self.processor, codec, &plain);
        self.packer.rule.learned(kind.name(), &trial);
        match packed {
            Some(packed) => Packed { format: codec.format().number(), bytes: packed.into() },
            None => Packed::plain(plain),
        }
    }

    /// What travelled, which has `plain_bytes` bytes: the receiver knows how many, so that nothing that comes can grow
    /// beyond them.
    pub(super) fn unpack(&mut self, packed: Packed, plain_bytes: u64) -> Result<Bytes, String> {
        let Packed { format, bytes } = packed;
        let format =
            Format::from_number(format).ok_or_else(|| format!("it sent bytes in format {format}"))?;
        if format != Format::Plain {
            let (plain, _) = self.processor.unpack(format, &bytes, plain_bytes as usize);
            return plain.map(Bytes::from).map_err(|error| error.to_string());
        }
        match bytes.len() as u64 {
            found if found == plain_bytes => Ok(bytes),
            found => Err(format!("it sent {found} bytes where {plain_bytes} were expected")),
        }
    }

    /// What the rule says. Data is packed while data before it travels. For run tables all ranks wait, so that packing
    /// and sending follow one another, as if no processor were idle.
    fn chosen(&mut self, kind: Kind, packing: Packing, plain: &Bytes) -> Codec {
        let Some(rate_bps) = self.packer.rate_bps else { return Codec::Plain };
        let idle_processors = match kind {
            Kind::Tables => 0.0,
            Kind::Data => self.processor.idle(),
        };
        let circumstances = Circumstances { rate_bps, network_waits: true, idle_processors };
        let sample = &plain[..plain.len().min(SAMPLE_BYTES as usize)];
        self.packer.rule.decide(kind.name(), packing, &circumstances, self.processor, sample)
    }
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Tables => "tables",
            Kind::Data => "data",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::Coder;

    fn packed(compression: Compression, rate_bps: Option<f64>, plain: &Bytes) -> Packed {
        let (mut packer, mut coder) = (Packer::default(), Coder::default());
        packer.set(compression, rate_bps);
        Codecs { packer: &mut packer, processor: &mut coder }.pack(Kind::Data, plain.clone())
    }

    #[test]
    fn what_shrinks_is_packed_if_the_network_makes_ranks_wait_or_somebody_said_so() {
        let zeros = Bytes::from(vec![0; 100_000]);
        let always = Compression::Always(Codec::Lz4);
        for (compression, rate, is_packed) in [
            (Compression::Auto, None, false),
            (Compression::Auto, Some(100e6), true),
            (Compression::Never, Some(100e6), false),
            (always, None, true),
        ] {
            let packed = packed(compression, rate, &zeros);
            assert_eq!(packed.bytes.len() < 1_000, is_packed, "{compression}, {rate:?}");
            let (mut packer, mut coder) = (Packer::default(), Coder::default());
            let mut codecs = Codecs { packer: &mut packer, processor: &mut coder };
            assert_eq!(codecs.unpack(packed, 100_000), Ok(zeros.clone()));
        }
        let small = zeros.slice(..1_000);
        assert_eq!(packed(Compression::Auto, Some(100e6), &small).bytes, small, "not worth it");
    }

    #[test]
    fn what_is_longer_or_shorter_than_expected_or_in_no_format_is_refused() {
        let (mut packer, mut coder) = (Packer::default(), Coder::default());
        let mut codecs = Codecs { packer: &mut packer, processor: &mut coder };
        let zeros = Bytes::from(vec![0; 100_000]);
        let of = |compression| packed(compression, None, &zeros);
        for compression in [Compression::Never, Compression::Always(Codec::Lz4)] {
            for expected in [99_999, 100_001] {
                codecs.unpack(of(compression), expected).expect_err("another length");
            }
        }
        let strange = Packed { format: 9, bytes: zeros };
        assert!(codecs.unpack(strange, 100_000).expect_err("no format").contains("format 9"));
    }
}
