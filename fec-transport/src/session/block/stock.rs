//! Repair symbols that were made ahead.

use bytes::Bytes;

use super::Geometry;
use crate::session::code::code;

/// What all repair symbols of a RaptorQ block have in common takes a thousand times as long to compute as one of them.
/// So this many more are made than are asked for, and most blocks whose first sending falls short need no second
/// encoding.
const SPARE: usize = 32;

/// Repair symbols of consecutive encoding ids, of a RaptorQ block.
#[derive(Debug, Clone, Default)]
pub(crate) struct Stock {
    first: usize,
    count: usize,
    bytes: Bytes,
}

impl Stock {
    /// Makes the `count` repair symbols of a block from the encoding id `first` on, at least K, and spare ones.
    pub(crate) fn make(geometry: Geometry, source: &[u8], first: usize, count: usize) -> Stock {
        let Geometry { codec, symbol_size, source_symbols } = geometry;
        let code = code(codec, source_symbols);
        let count = (count + SPARE).min(code.encoding_ids() - first);
        let mut bytes = Vec::with_capacity(count * symbol_size);
        let repair = code.prepare(source);
        repair.append(first, count, source, &mut bytes);
        Stock { first, count, bytes: bytes.into() }
    }

    /// The `count` symbols from the encoding id `first` on, if they are all here.
    pub(crate) fn symbols(&self, first: usize, count: usize) -> Option<Bytes> {
        let place = first.checked_sub(self.first).filter(|place| place + count <= self.count)?;
        let size = self.bytes.len() / self.count.max(1);
        Some(self.bytes.slice(place * size..(place + count) * size))
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        self.bytes.len()
    }
}
