//! Systematic Reed–Solomon over GF(2⁸): K = 1 to 224 source symbols, and up to 256 symbols in all.
//!
//! Repair symbols are sums of the source symbols with the coefficients of a [Cauchy matrix](super::cauchy), of which
//! every square part has an inverse, so any K symbols are enough. With K = 1 all symbols are the block.
//!
//! Only what is missing is solved for. Where L source symbols are missing, L repair symbols without the parts of the
//! source symbols that are there are L equations for them. Their matrix is a Cauchy matrix too, and its inverse has a
//! closed form, of L² products.

use super::cauchy::{add_cauchy, inverse_of_cauchy};
use super::kernel::add_products;
use super::{ErasureCode, NeedsMore, ReceivedSymbols, RepairSymbols};

/// Each encoding symbol id is an element of GF(2⁸).
pub(crate) const ENCODING_IDS: usize = 256;

/// Reed–Solomon with a given number of source symbols.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReedSolomon {
    source_symbols: usize,
}

impl ReedSolomon {
    pub(crate) fn of(source_symbols: usize) -> ReedSolomon {
        ReedSolomon { source_symbols }
    }

    /// Appends the `count` repair symbols from the encoding id `first` on of a block with these source symbols, which
    /// may lie anywhere.
    pub(crate) fn append_repair(first: usize, count: usize, sources: &[&[u8]], out: &mut Vec<u8>) {
        if let [symbol] = sources {
            return (0..count).for_each(|_| out.extend_from_slice(symbol));
        }
        let Some(size) = sources.first().map(|source| source.len()) else { return };
        let ids = |ids: std::ops::Range<usize>| ids.map(|id| id as u8).collect::<Vec<_>>();
        let start = out.len();
        out.resize(start + count * size, 0);
        add_cauchy(&ids(first..first + count), &ids(0..sources.len()), sources, &mut out[start..]);
    }
}

impl ErasureCode for ReedSolomon {
    fn encoding_ids(&self) -> usize {
        ENCODING_IDS
    }

    fn prepare(&self, _: &[u8]) -> Box<dyn RepairSymbols> {
        Box::new(*self)
    }

    fn decode(&self, symbols: &mut ReceivedSymbols) -> Result<(), NeedsMore> {
        if symbols.missing() == 0 {
            return Ok(());
        }
        if self.source_symbols == 1 || symbols.count() < self.source_symbols {
            return Err(NeedsMore);
        }
        symbols.complete();
        let absent: Vec<u8> = symbols.absent().into_iter().map(|index| index as u8).collect();
        let (repairs, sides) = right_hand_sides(symbols, absent.len());
        let sides: Vec<&[u8]> = sides.chunks_exact(symbols.symbol_size()).collect();
        let mut values = vec![0; absent.len() * symbols.symbol_size()];
        add_products(&inverse_of_cauchy(&repairs, &absent), &sides, &mut values);
        for (index, value) in absent.iter().zip(values.chunks_exact(symbols.symbol_size())) {
            symbols.fill_in(usize::from(*index), value);
        }
        Ok(())
    }
}

/// The `count` lowest ids of repair symbols that are here, and what these symbols are without the parts of the source
/// symbols that are here. The lowest ids lie in the fewest cosets, for which [`add_cauchy`] is fast.
fn right_hand_sides(symbols: &ReceivedSymbols, count: usize) -> (Vec<u8>, Vec<u8>) {
    let mut repair: Vec<(u16, &[u8])> = symbols.repair().collect();
    repair.sort_unstable_by_key(|(id, _)| *id);
    let (repairs, sides): (Vec<u8>, Vec<&[u8]>) =
        repair.into_iter().take(count).map(|(id, symbol)| (id as u8, symbol)).unzip();
    let mut sides = sides.concat();
    let (source, present) = symbols.source();
    let known = source.chunks_exact(symbols.symbol_size()).zip(0u8..).zip(present);
    let (known, ids): (Vec<&[u8]>, Vec<u8>) =
        known.filter(|(_, present)| **present).map(|(known, _)| known).unzip();
    add_cauchy(&repairs, &ids, &known, &mut sides);
    (repairs, sides)
}

impl RepairSymbols for ReedSolomon {
    fn append(&self, first: usize, count: usize, source: &[u8], out: &mut Vec<u8>) {
        let size = source.len() / self.source_symbols;
        let sources: Vec<&[u8]> = match self.source_symbols {
            1 => vec![source],
            _ => source.chunks_exact(size).collect(),
        };
        ReedSolomon::append_repair(first, count, &sources, out);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::code::cauchy::cauchy;

    /// What docs/protocol/fec-transport.md gives for another implementation to compare itself with.
    #[test]
    fn the_symbols_are_those_of_the_protocols_document() {
        assert_eq!(cauchy(&[3, 4, 5], &[0, 1, 2]), [0xf4, 0x8e, 0x01, 0x47, 0xa7, 0x7a, 0xa7, 0x47, 0xba]);
        let repair = |k: usize, source: &[u8], id: usize| {
            let mut out = Vec::new();
            ReedSolomon::of(k).append(id, 1, source, &mut out);
            out
        };
        let text = b"Cauchy's rows of 24 byte";
        assert_eq!(repair(3, text, 3), [0xfa, 0xdf, 0x55, 0xb4, 0x06, 0xb5, 0xd0, 0x8c]);
        assert_eq!(repair(3, text, 4), [0x7b, 0xb9, 0x4f, 0x31, 0x43, 0x6e, 0x3e, 0x54]);
        assert_eq!(repair(1, b"one", 9), b"one");
        let source: Vec<u8> = (0..224 * 8).map(|at| (at % 251) as u8).collect();
        assert_eq!(repair(224, &source, 224), [0xb3, 0x15, 0x81, 0x4c, 0xff, 0x23, 0xe6, 0xde]);
        assert_eq!(repair(224, &source, 255), [0x7c, 0x36, 0x19, 0xdb, 0xb4, 0x3a, 0xfc, 0xe9]);
    }

    proptest::proptest! {
        #[test]
        fn several_repair_symbols_at_once_are_those_one_by_one(
            k in 1usize..=224, count in 1usize..40, skipped in 0usize..40, size in 1usize..80, seed in 0u8..251,
        ) {
            let first = (k + skipped).min(255);
            let count = count.min(256 - first);
            let source: Vec<u8> = (0..k * size).map(|at| (at * 7 + at / 251) as u8 ^ seed).collect();
            let (mut together, mut one_by_one) = (Vec::new(), Vec::new());
            ReedSolomon::of(k).append(first, count, &source, &mut together);
            (first..first + count).for_each(|id| ReedSolomon::of(k).append(id, 1, &source, &mut one_by_one));
            proptest::prop_assert_eq!(together, one_by_one);
        }
    }
}
