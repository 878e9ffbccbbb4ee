//! The erasure codes of blocks: systematic, with any number of repair symbols, made as they are wanted.
//!
//! [`ReedSolomon`] for blocks that 256 symbols suffice for, of which any K are enough, and [`RaptorQ`] for larger ones,
//! where K symbols are enough but for about one block in a hundred. Both stand behind [`ErasureCode`]; the tests hold
//! them to a naive elimination over GF(2⁸).

mod cauchy;
mod dense;
mod field;
mod kernel;
mod raptorq;
mod reed_solomon;

#[cfg(feature = "io")]
pub(crate) use kernel::limit_kernel;
pub(crate) use raptorq::RaptorQ;
pub(crate) use reed_solomon::{ENCODING_IDS as REED_SOLOMON_SYMBOLS, ReedSolomon};

use crate::limits::{MAX_RAPTORQ, MAX_REED_SOLOMON, MIN_RAPTORQ};
use crate::wire::symbol::Codec;

/// A systematic erasure code for blocks of K source symbols.
pub(crate) trait ErasureCode {
    /// Encoding symbol ids: below K the source symbols, from there on repair symbols.
    fn encoding_ids(&self) -> usize;

    /// Does what all repair symbols of a block have in common. `source` is the block, padded to K symbols of equal
    /// size.
    fn prepare(&self, source: &[u8]) -> Box<dyn RepairSymbols>;

    /// Fills in the missing source symbols.
    ///
    /// # Errors
    /// [`NeedsMore`] if the symbols do not determine the block; nothing is changed then.
    fn decode(&self, symbols: &mut ReceivedSymbols) -> Result<(), NeedsMore>;
}

/// The repair symbols of one block.
pub(crate) trait RepairSymbols {
    /// Appends `count` repair symbols from the encoding id `first` on, at least K; `source` is the block that was
    /// prepared.
    fn append(&self, first: usize, count: usize, source: &[u8], out: &mut Vec<u8>);
}

/// What has arrived does not determine the block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NeedsMore;

/// The symbols of a block that have arrived, all of `symbol_size` bytes.
#[derive(Debug, Clone)]
pub(crate) struct ReceivedSymbols {
    symbol_size: usize,
    /// Up to K symbols, of which `present` tells which are there; the others are zero, those behind the last one that
    /// is there may be left out.
    source: Vec<u8>,
    present: Vec<bool>,
    /// The distinct encoding ids of the repair symbols that are there, and these one behind the other.
    repair_ids: Vec<u16>,
    repair: Vec<u8>,
    missing: usize,
}

impl ReceivedSymbols {
    pub(crate) fn new(source_symbols: usize, symbol_size: usize) -> ReceivedSymbols {
        ReceivedSymbols {
            symbol_size,
            source: Vec::with_capacity(source_symbols * symbol_size),
            present: vec![false; source_symbols],
            repair_ids: Vec::new(),
            repair: Vec::new(),
            missing: source_symbols,
        }
    }

    /// Bytes of each symbol.
    pub(crate) fn symbol_size(&self) -> usize {
        self.symbol_size
    }

    /// K.
    pub(crate) fn source_symbols(&self) -> usize {
        self.present.len()
    }

    /// The source symbols, once they are all here.
    pub(crate) fn into_source(self) -> Vec<u8> {
        self.source
    }

    /// Stores a symbol; gives whether it was new.
    pub(crate) fn insert(&mut self, encoding_id: u16, symbol: &[u8]) -> bool {
        // All symbols of a block with one source symbol are that symbol.
        let id = if self.present.len() == 1 { 0 } else { usize::from(encoding_id) };
        if let Some(present) = self.present.get_mut(id) {
            let new = !std::mem::replace(present, true);
            if new {
                self.missing -= 1;
                self.store(id * self.symbol_size, symbol);
            }
            return new;
        }
        let new = !self.repair_ids.contains(&encoding_id);
        if new {
            self.repair_ids.push(encoding_id);
            self.repair.extend_from_slice(symbol);
        }
        new
    }

    fn store(&mut self, start: usize, symbol: &[u8]) {
        if start < self.source.len() {
            return self.source[start..][..symbol.len()].copy_from_slice(symbol);
        }
        self.source.resize(start, 0);
        self.source.extend_from_slice(symbol);
    }

    /// Zeros take the place of all symbols that are left out.
    fn complete(&mut self) {
        self.source.resize(self.present.len() * self.symbol_size, 0);
    }

    /// How many distinct symbols are here.
    pub(crate) fn count(&self) -> usize {
        self.present.len() - self.missing + self.repair_ids.len()
    }

    /// The source symbols that are not here; their bytes are zero.
    fn absent(&self) -> Vec<usize> {
        self.present.iter().enumerate().filter(|(_, present)| !**present).map(|(index, _)| index).collect()
    }

    /// The bytes of the source symbols, as many as are here, and whether each is there.
    fn source(&self) -> (&[u8], &[bool]) {
        (&self.source, &self.present)
    }

    /// The repair symbols that are here, with their encoding ids.
    fn repair(&self) -> impl Iterator<Item = (u16, &[u8])> {
        self.repair_ids.iter().copied().zip(self.repair.chunks_exact(self.symbol_size))
    }

    /// Writes a source symbol that was computed to its place.
    fn fill_in(&mut self, index: usize, symbol: &[u8]) {
        self.source[index * self.symbol_size..][..self.symbol_size].copy_from_slice(symbol);
    }

    /// All source symbols were computed at once.
    fn fill_in_all(&mut self, source: Vec<u8>) {
        self.source = source;
    }

    /// How many source symbols are not here.
    pub(crate) fn missing(&self) -> usize {
        self.missing
    }

    /// Bytes of memory.
    pub(crate) fn memory(&self) -> usize {
        let ids = self.repair_ids.capacity() * size_of::<u16>();
        self.source.capacity() + self.present.capacity() + ids + self.repair.capacity()
    }
}

/// The code for blocks of `source_symbols`, which the codec must allow (see [`allows`]).
pub(crate) fn code(codec: Codec, source_symbols: usize) -> Box<dyn ErasureCode> {
    debug_assert!(allows(codec, source_symbols));
    match codec {
        Codec::ReedSolomon => Box::new(ReedSolomon::of(source_symbols)),
        Codec::RaptorQ => Box::new(RaptorQ::of(source_symbols)),
    }
}

/// Whether blocks of so many source symbols may be coded with `codec`.
pub(crate) fn allows(codec: Codec, source_symbols: usize) -> bool {
    match codec {
        Codec::ReedSolomon => (1..=MAX_REED_SOLOMON).contains(&source_symbols),
        Codec::RaptorQ => (MIN_RAPTORQ..=MAX_RAPTORQ).contains(&source_symbols),
    }
}

#[cfg(test)]
mod tests;
