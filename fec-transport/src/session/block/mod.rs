//! Source blocks: what a stream is cut into, and the unit of coding, of repair and of delivery.

mod receive;
mod send;
mod stock;

#[cfg(test)]
pub(crate) use receive::MAX_FAILURES;
pub(crate) use receive::{BadSymbol, ReceiveBlock};
pub(crate) use send::{FlightFate, SendBlock};
pub(crate) use stock::Stock;

use crate::limits::{MAX_REED_SOLOMON, MIN_RAPTORQ};
use crate::wire::symbol::{Codec, source_symbols};

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
    /// The geometry of a block of `length` bytes: one symbol if it fits, else as few as `largest` allows, and these as
    /// small as their number allows, in multiples of 8 bytes.
    ///
    /// No codec takes 33 to 63 symbols: [`block_length`] cuts blocks so that there are none such.
    pub(crate) fn of(length: usize, largest: usize) -> Geometry {
        let symbols = source_symbols(length, largest);
        let symbol_size =
            if length <= largest { length } else { length.div_ceil(symbols).next_multiple_of(8) };
        let codec = if symbols <= MAX_REED_SOLOMON { Codec::ReedSolomon } else { Codec::RaptorQ };
        Geometry { codec, symbol_size, source_symbols: symbols }
    }
}

/// How many of `available` bytes the next block takes, if it may have up to `most` source symbols of `largest` bytes.
/// What would make 33 to 63 symbols makes two Reed–Solomon blocks.
pub(crate) fn block_length(available: usize, most: usize, largest: usize) -> usize {
    let length = available.min(most * largest);
    let symbols = source_symbols(length, largest);
    if symbols > MAX_REED_SOLOMON && symbols < MIN_RAPTORQ { symbols.div_ceil(2) * largest } else { length }
}

#[cfg(test)]
mod tests;
