//! An encoding symbol, the body of most packets.
//!
//! ```text
//!  0        1        2        3        4
//! +--------+-----------------+--------------------------------------------+
//! | kind   | encoding id     | block id (32 bits) ...                     |
//! +--------+-----------------+--------------------------------------------+
//! | stream (32 bits)         | offset of the block in the stream (48 bits)|
//! +--------------------------+--------------------------------------------+
//! | length of the block (24) | symbol of T bytes ...                      |
//! +--------------------------+--------------------------------------------+
//! ```
//! The first byte is `last block (1 bit) | codec (3 bits) | kind (4 bits)`; codec 2 is RaptorQ, 3 Reed–Solomon (1 was
//! another matrix of it, for up to 32 symbols). The symbol size T is the length of what follows the header; the seal
//! authenticates it, so it needs no field. The number of source symbols is K = ⌈length / T⌉, at least 1.

use super::packet::Kind;
use super::{Malformed, Reader, Writer};

/// Bytes of the header, the kind included.
pub(crate) const SYMBOL_HEADER: usize = 20;
/// Offsets in a stream have 48 bits.
pub(crate) const MAX_STREAM_OFFSET: u64 = (1 << 48) - 1;

const LAST_BLOCK: u8 = 0x80;
const CODEC_SHIFT: u8 = 4;

/// The erasure code of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub(crate) enum Codec {
    /// RFC 6330, 64 to 1,024 source symbols.
    RaptorQ = 2,
    /// A Cauchy matrix over GF(2⁸), up to 224 source symbols.
    ReedSolomon = 3,
}

impl Codec {
    fn of(first: u8) -> Result<Codec, Malformed> {
        match (first & !LAST_BLOCK) >> CODEC_SHIFT {
            2 => Ok(Codec::RaptorQ),
            3 => Ok(Codec::ReedSolomon),
            _ => Err(Malformed::new("codec")),
        }
    }
}

/// Which symbol of which block this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SymbolHeader {
    /// Encoding symbol id: below K a source symbol, from K on a repair symbol.
    pub(crate) encoding_id: u16,
    pub(crate) block: BlockHeader,
}

/// What all symbols of one block have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BlockHeader {
    /// Counts the blocks of one direction of a session.
    pub(crate) id: u32,
    pub(crate) stream: u32,
    /// Where the block begins in its stream.
    pub(crate) offset: u64,
    /// Bytes of the block, below 2²⁴.
    pub(crate) length: u32,
    /// Whether the stream ends with this block.
    pub(crate) last: bool,
    pub(crate) codec: Codec,
}

impl SymbolHeader {
    /// Reads the header and gives the symbol itself.
    pub(crate) fn parse(body: &[u8]) -> Result<(SymbolHeader, &[u8]), Malformed> {
        let mut reader = Reader::new(body);
        let first = reader.u8("kind")?;
        let codec = Codec::of(first)?;
        let encoding_id = reader.u16("encoding symbol id")?;
        let id = reader.u32("block id")?;
        let stream = reader.u32("stream")?;
        let offset = reader.u48("block offset")?;
        let length = reader.u24("block length")?;
        let block = BlockHeader { id, stream, offset, length, last: first & LAST_BLOCK != 0, codec };
        Ok((SymbolHeader { encoding_id, block }, reader.rest()))
    }

    /// Appends the header; the symbol follows.
    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        let last = if self.block.last { LAST_BLOCK } else { 0 };
        out.put_u8(last | (self.block.codec as u8) << CODEC_SHIFT | Kind::Symbol as u8);
        out.put_u16(self.encoding_id);
        out.put_u32(self.block.id);
        out.put_u32(self.block.stream);
        out.put_u48(self.block.offset);
        out.put_u24(self.block.length);
    }
}

impl BlockHeader {
    /// The end of the block in its stream.
    pub(crate) fn end(&self) -> u64 {
        self.offset + u64::from(self.length)
    }
}

/// K: how many symbols of `symbol_size` bytes a block of `length` bytes has; an empty block has one empty symbol.
pub(crate) fn source_symbols(length: usize, symbol_size: usize) -> usize {
    if symbol_size == 0 { 1 } else { length.div_ceil(symbol_size).max(1) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parse_of_emit_is_identity(
            encoding_id: u16, id: u32, stream: u32, offset in 0..=MAX_STREAM_OFFSET, length in 0u32..1 << 24, last: bool,
            large: bool, symbol in proptest::collection::vec(any::<u8>(), 0..20),
        ) {
            let codec = if large { Codec::RaptorQ } else { Codec::ReedSolomon };
            let header = SymbolHeader { encoding_id, block: BlockHeader { id, stream, offset, length, last, codec } };
            let mut out = Vec::new();
            header.emit(&mut out);
            prop_assert_eq!(out.len(), SYMBOL_HEADER);
            out.extend_from_slice(&symbol);
            prop_assert_eq!(SymbolHeader::parse(&out), Ok((header, &symbol[..])));
        }

        #[test]
        fn garbage_is_an_error_or_a_header_but_never_a_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = SymbolHeader::parse(&bytes);
        }
    }
}
