//! Source blocks: what a stream is cut into, and the unit of coding, of repair and of delivery.

mod receive;
mod send;
mod source;
mod stock;

pub(crate) use receive::{BadSymbol, ReceiveBlock};
pub(crate) use send::{FlightFate, SendBlock};
pub(crate) use source::Source;
pub(crate) use stock::Stock;

use crate::limits::MIN_RAPTORQ;
use crate::wire::symbol::{Codec, source_symbols};

/// What a full block of a stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FullBlock {
    pub(crate) codec: Codec,
    pub(crate) source_symbols: usize,
}

/// How a block is cut into symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Geometry {
    pub(crate) codec: Codec,
    /// T, in bytes.
    pub(crate) symbol_size: usize,
    /// K.
    pub(crate) source_symbols: usize,
}

impl Geometry {
    /// The geometry of a block of `length` bytes, no longer than a full one: one symbol if it fits, else as few as
    /// `largest` allows, and these as small as their number allows, in multiples of 8 bytes. What is too short for
    /// RaptorQ gets Reed–Solomon.
    pub(crate) fn of(length: usize, largest: usize, full: FullBlock) -> Geometry {
        let symbols = source_symbols(length, largest);
        let symbol_size =
            if length <= largest { length } else { length.div_ceil(symbols).next_multiple_of(8) };
        let codec = if symbols < MIN_RAPTORQ { Codec::ReedSolomon } else { full.codec };
        Geometry { codec, symbol_size, source_symbols: symbols }
    }
}

#[cfg(test)]
mod tests;
