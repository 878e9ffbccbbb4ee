//! Frames: a payload in pieces, each packed in its own way.
//!
//! ```text
//!  0               1               2               3
//! ┌───────────────────────────────────────────────────────────────┐
//! │                         plain length                          │  0
//! ├───────────────────────────────────────────────────────────────┤
//! │                         packed length                         │  4
//! ├───────────────┬───────────────────────────────────────────────┤
//! │    format     │                 reserved (0)                  │  8
//! ├───────────────┴───────────────────────────────────────────────┤
//! │ packed bytes                                                  │ 12
//! └───────────────────────────────────────────────────────────────┘
//! ```
//!
//! The lengths are checked before anything is allocated: a frame has at most [`MAX_FRAME_BYTES`] plain bytes, no more
//! than the request still has to give, and no more packed bytes than plain ones.

use bytes::{Buf, Bytes};

use super::{Codec, Format, Level};

/// The most plain bytes of a frame.
pub const MAX_FRAME_BYTES: usize = 256 << 10;

/// The bytes of a frame in front of what is packed.
pub const FRAME_HEADER_BYTES: usize = 12;

const LZ4: u16 = 1;
const ZSTD: u16 = 2;
const ALWAYS: u16 = 4;

/// How the payload of a transfer is packed, as a request says it in 16 bits: 1 LZ4 and 2 Zstandard may occur in its
/// frames; 4 the one of both that is named packs every frame, Zstandard by the level in the upper eight bits (as a
/// signed number). All 0: there are no frames, the payload is raw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Packing {
    /// The bytes themselves, without frames.
    #[default]
    Raw,
    /// Frames, each packed as its sender thinks best, or plain.
    ByRule {
        /// Whether LZ4 may be used.
        lz4: bool,
        /// Whether Zstandard may be used.
        zstd: bool,
    },
    /// Frames that are packed by this codec, but for those that would not become shorter.
    Always(Codec),
}

impl Packing {
    /// What there is, chosen by a rule.
    pub const AUTO: Packing = Packing::ByRule { lz4: true, zstd: true };

    /// The bits of the request; what cannot be said is raw.
    pub fn bits(self) -> u16 {
        match self {
            Packing::Raw | Packing::Always(Codec::Plain) => 0,
            Packing::ByRule { lz4, zstd } => (u16::from(lz4) * LZ4) | (u16::from(zstd) * ZSTD),
            Packing::Always(Codec::Lz4) => ALWAYS | LZ4,
            Packing::Always(Codec::Zstd(level)) => {
                ALWAYS | ZSTD | u16::from_be_bytes([level.number() as u8, 0])
            }
        }
    }

    /// What the bits say; none if they say nothing.
    pub fn from_bits(bits: u16) -> Option<Packing> {
        let [level, low] = bits.to_be_bytes();
        let packing = match u16::from(low) {
            0 => Packing::Raw,
            of if of & !(LZ4 | ZSTD) == 0 => Packing::ByRule { lz4: of & LZ4 != 0, zstd: of & ZSTD != 0 },
            of if of == ALWAYS | LZ4 => Packing::Always(Codec::Lz4),
            of if of == ALWAYS | ZSTD => Packing::Always(Codec::Zstd(Level::new((level as i8).into())?)),
            _ => return None,
        };
        (packing.bits() == bits).then_some(packing)
    }

    /// Whether there are frames.
    pub fn has_frames(self) -> bool {
        self.bits() != 0
    }

    /// Whether frames may have that format.
    pub fn allows(self, format: Format) -> bool {
        match (self, format) {
            (Packing::Raw, _) => false,
            (_, Format::Plain) => true,
            (Packing::ByRule { lz4, .. }, Format::Lz4) => lz4,
            (Packing::ByRule { zstd, .. }, Format::Zstd) => zstd,
            (Packing::Always(codec), format) => codec.format() == format,
        }
    }
}

/// What stands in front of the packed bytes of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FrameHeader {
    /// How many bytes it has before they are packed.
    pub plain: u32,
    /// How many bytes follow.
    pub packed: u32,
    /// How they are packed.
    pub format: Format,
}

/// What is wrong with a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A length that cannot be.
    #[error("a frame has {plain} plain bytes; expected 1 to {limit}")]
    Plain {
        /// What it says.
        plain: u32,
        /// The most that it could have: what is left of the payload, or the limit of frames.
        limit: u64,
    },
    /// More packed bytes than plain ones, or another number of them in a plain frame.
    #[error("a frame of {plain} plain bytes in the format {format:?} has {packed} packed ones")]
    Packed {
        /// Its plain bytes.
        plain: u32,
        /// Its packed bytes.
        packed: u32,
        /// Its format.
        format: Format,
    },
    /// A number without a meaning.
    #[error("{0:#010x} is no format of a frame")]
    Format(u32),
    /// A format that the request does not name.
    #[error("a frame has the format {0:?}, which the request does not name")]
    Unasked(Format),
}

impl FrameHeader {
    /// Its bytes.
    pub fn emit(&self) -> [u8; FRAME_HEADER_BYTES] {
        let mut bytes = [0; FRAME_HEADER_BYTES];
        bytes[..4].copy_from_slice(&self.plain.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.packed.to_be_bytes());
        bytes[8] = self.format.number();
        bytes
    }

    /// The header that `bytes` are, of a frame of a payload of which `missing` plain bytes have yet to come.
    ///
    /// # Errors
    /// If there can be no such frame.
    pub fn parse(
        bytes: &[u8; FRAME_HEADER_BYTES],
        packing: Packing,
        missing: u64,
    ) -> Result<FrameHeader, FrameError> {
        let word = |at: usize| u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
        let (plain, packed, last) = (word(0), word(4), word(8));
        let format = u8::try_from(last >> 24).ok().filter(|_| last & 0xff_ffff == 0);
        let format = format.and_then(Format::from_number).ok_or(FrameError::Format(last))?;
        let limit = missing.min(MAX_FRAME_BYTES as u64);
        if plain == 0 || u64::from(plain) > limit {
            return Err(FrameError::Plain { plain, limit });
        }
        let is_right = if format == Format::Plain { packed == plain } else { (1..plain).contains(&packed) };
        if !is_right {
            return Err(FrameError::Packed { plain, packed, format });
        }
        if !packing.allows(format) {
            return Err(FrameError::Unasked(format));
        }
        Ok(FrameHeader { plain, packed, format })
    }
}

/// What a reader of frames gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FramePart {
    /// The next bytes of a plain frame, or some of them.
    Plain(Bytes),
    /// A whole packed frame.
    Packed {
        /// How it is packed.
        format: Format,
        /// Its bytes.
        packed: Bytes,
        /// How many they become.
        plain: usize,
    },
}

/// Reads the frames of one payload from a stream.
#[derive(Debug)]
pub struct FrameReader {
    packing: Packing,
    /// Plain bytes that no frame has announced yet.
    missing: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Header { bytes: [u8; FRAME_HEADER_BYTES], have: usize },
    Body { header: FrameHeader, left: usize, packed: Vec<u8> },
}

impl State {
    const BEGIN: State = State::Header { bytes: [0; FRAME_HEADER_BYTES], have: 0 };
}

impl FrameReader {
    /// Reads a payload of so many plain bytes.
    pub fn new(packing: Packing, payload: u64) -> FrameReader {
        FrameReader { packing, missing: payload, state: State::BEGIN }
    }

    /// How many bytes of the stream it wants before it looks for the next frame; 0 at the end of the payload.
    pub fn wanted(&self) -> usize {
        match &self.state {
            State::Header { have: 0, .. } if self.missing == 0 => 0,
            State::Header { have, .. } => FRAME_HEADER_BYTES - have,
            State::Body { left, .. } => *left,
        }
    }

    /// The frame whose packed bytes come next.
    pub fn announced(&self) -> Option<FrameHeader> {
        match &self.state {
            State::Header { .. } => None,
            State::Body { header, .. } => Some(*header),
        }
    }

    /// Whether the payload is complete.
    pub fn is_complete(&self) -> bool {
        self.wanted() == 0
    }

    /// Takes from the front of `arrived` what belongs to the next frame, and gives what is complete of it; none if more
    /// must come. Bytes behind the payload are left.
    ///
    /// # Errors
    /// If these bytes cannot be frames of this payload.
    pub fn push(&mut self, arrived: &mut Bytes) -> Result<Option<FramePart>, FrameError> {
        while !arrived.is_empty() && !self.is_complete() {
            match &mut self.state {
                State::Header { bytes, have } => {
                    let taken = arrived.len().min(FRAME_HEADER_BYTES - *have);
                    bytes[*have..*have + taken].copy_from_slice(&arrived.split_to(taken));
                    *have += taken;
                    if *have == FRAME_HEADER_BYTES {
                        let header = FrameHeader::parse(bytes, self.packing, self.missing)?;
                        self.missing -= u64::from(header.plain);
                        self.state = State::Body { header, left: header.packed as usize, packed: Vec::new() };
                    }
                }
                State::Body { .. } => {
                    if let Some(part) = self.take_body(arrived) {
                        return Ok(Some(part));
                    }
                }
            }
        }
        Ok(None)
    }

    fn take_body(&mut self, arrived: &mut Bytes) -> Option<FramePart> {
        let State::Body { header, left, packed } = &mut self.state else { return None };
        let taken = arrived.split_to(arrived.len().min(*left));
        *left -= taken.len();
        let (format, plain, is_whole) = (header.format, header.plain as usize, *left == 0);
        let part = match format {
            Format::Plain => Some(FramePart::Plain(taken)),
            // One that came in one piece is not copied.
            _ if is_whole && packed.is_empty() => Some(FramePart::Packed { format, packed: taken, plain }),
            _ => {
                packed.extend_from_slice(&taken);
                is_whole.then(|| FramePart::Packed { format, packed: std::mem::take(packed).into(), plain })
            }
        };
        if is_whole {
            self.state = State::BEGIN;
        }
        part
    }
}

/// Bytes of a frame that is sent as it is or packed, header first.
pub(crate) fn emit(format: Format, plain: u32, body: impl IntoIterator<Item = Bytes>) -> Vec<Bytes> {
    let mut chunks: Vec<Bytes> = std::iter::once(Bytes::new()).chain(body).collect();
    let packed: usize = chunks.iter().map(Bytes::remaining).sum();
    // A body is at most as long as the plain bytes of a frame.
    let header = FrameHeader { plain, packed: packed as u32, format };
    chunks[0] = Bytes::copy_from_slice(&header.emit());
    chunks
}

#[cfg(test)]
mod tests {
    use super::super::Coder;
    use super::*;
    use proptest::prelude::*;

    /// A payload in frames, packed by these codecs in turn.
    fn framed(payload: &[u8], lengths: &[usize], codecs: &[Codec]) -> Vec<u8> {
        let (mut stream, mut at, mut coder) = (Vec::new(), 0, Coder::default());
        for (length, codec) in lengths.iter().cycle().zip(codecs.iter().cycle()) {
            if at == payload.len() {
                break;
            }
            let plain = &payload[at..payload.len().min(at + length)];
            at += plain.len();
            let packed = coder.pack(*codec, plain);
            let format = if packed.is_some() { codec.format() } else { Format::Plain };
            let body = packed.map_or_else(|| Bytes::copy_from_slice(plain), Bytes::from);
            emit(format, plain.len() as u32, [body]).iter().for_each(|chunk| stream.extend_from_slice(chunk));
        }
        stream
    }

    /// What comes out of a stream that arrives in pieces of so many bytes.
    fn read(reader: &mut FrameReader, stream: &[u8], step: usize) -> Result<Vec<u8>, FrameError> {
        let (mut out, mut coder) = (Vec::new(), Coder::default());
        for piece in stream.chunks(step) {
            let mut piece = Bytes::copy_from_slice(piece);
            while let Some(part) = reader.push(&mut piece)? {
                match part {
                    FramePart::Plain(bytes) => out.extend_from_slice(&bytes),
                    FramePart::Packed { format, packed, plain } => {
                        out.extend(coder.unpack(format, &packed, plain).expect("it was packed"));
                    }
                }
            }
        }
        Ok(out)
    }

    fn header(plain: u32, packed: u32, format: Format) -> [u8; FRAME_HEADER_BYTES] {
        FrameHeader { plain, packed, format }.emit()
    }

    fn fault(bytes: [u8; FRAME_HEADER_BYTES], packing: Packing, missing: u64) -> String {
        FrameHeader::parse(&bytes, packing, missing).expect_err("a wrong frame").to_string()
    }

    #[test]
    fn each_fault_is_named() {
        let auto = Packing::AUTO;
        assert!(fault(header(u32::MAX, 7, Format::Zstd), auto, u64::MAX).contains("expected 1 to 262144"));
        assert!(fault(header(11, 7, Format::Zstd), auto, 10).contains("expected 1 to 10"));
        assert!(fault(header(0, 0, Format::Plain), auto, 10).contains("has 0 plain bytes"));
        assert!(fault(header(5, 6, Format::Lz4), auto, 10).contains("has 6 packed ones"));
        assert!(fault(header(5, 4, Format::Plain), auto, 10).contains("has 4 packed ones"));
        assert!(
            fault(header(5, 4, Format::Lz4), Packing::ByRule { lz4: false, zstd: true }, 10).contains("Lz4")
        );
        let mut unknown = header(5, 4, Format::Lz4);
        unknown[8] = 3;
        assert!(fault(unknown, auto, 10).contains("0x03000000"));
        let mut reserved = header(5, 4, Format::Lz4);
        reserved[11] = 1;
        assert!(fault(reserved, auto, 10).contains("0x01000001"));
    }

    #[test]
    fn a_request_says_in_16_bits_how_its_payload_is_packed() {
        for bits in 0..=u16::MAX {
            if let Some(packing) = Packing::from_bits(bits) {
                assert_eq!(packing.bits(), bits, "{packing:?}");
            }
        }
        let sayable = (0..=u16::MAX).filter(|bits| Packing::from_bits(*bits).is_some()).count();
        assert_eq!(sayable, 1 + 3 + 1 + 27, "raw, by a rule, always LZ4, always Zstandard of a level");
    }

    proptest! {
        #[test]
        fn a_payload_comes_back_out_of_its_frames(
            payload in prop::collection::vec(0_u8..4, 1..5_000), lengths in prop::collection::vec(1_usize..2_000, 1..5), step in 1_usize..3_000,
        ) {
            let codecs = [Codec::Lz4, Codec::Plain, Codec::Zstd(Level::DEFAULT)];
            let stream = framed(&payload, &lengths, &codecs);
            let mut reader = FrameReader::new(Packing::AUTO, payload.len() as u64);
            let found = read(&mut reader, &stream, step);
            prop_assert_eq!(found.as_ref(), Ok(&payload));
            prop_assert!(reader.is_complete());
            let mut behind = Bytes::from_static(b"more");
            prop_assert_eq!(reader.push(&mut behind), Ok(None));
            prop_assert_eq!(behind.len(), 4);
        }

        #[test]
        fn garbage_never_gives_more_than_was_asked_for(bytes in prop::collection::vec(any::<u8>(), 0..200), small: bool, payload in 0_u64..300) {
            let mut bytes = bytes;
            if small && bytes.len() > 8 {
                bytes[..8].copy_from_slice(&[0, 0, 0, 40, 0, 0, 0, 20]);
            }
            let mut reader = FrameReader::new(Packing::AUTO, payload);
            let (mut rest, mut plain) = (Bytes::from(bytes), 0);
            while let Ok(Some(part)) = reader.push(&mut rest) {
                plain += match part {
                    FramePart::Plain(bytes) => bytes.len(),
                    FramePart::Packed { plain, .. } => plain,
                };
            }
            prop_assert!(plain as u64 <= payload);
        }
    }
}
