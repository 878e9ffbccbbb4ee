//! The erasure code of a block: systematic Reed–Solomon over GF(2⁸), K = 1..=32 source symbols.
//!
//! The arithmetic is reed-solomon-erasure's. Its encoder makes all repair symbols at once; a stream needs one at a time
//! and any number of them, so the rows of its matrix are read out once and applied one by one with its own kernels.

use std::sync::OnceLock;

use reed_solomon_erasure::galois_8::{self, ReedSolomon};

/// The most source symbols of a block.
pub(crate) const MAX_SOURCE_SYMBOLS: usize = 32;
/// Encoding symbol ids of a block: GF(2⁸) has no more evaluation points.
pub(crate) const ENCODING_IDS: usize = 256;

/// The code with a given number of source symbols.
pub(crate) struct Code {
    source_symbols: usize,
    /// For the repair symbol K + i, its K coefficients; none for K = 1, whose repair symbols are copies.
    rows: Vec<Vec<u8>>,
    decoder: Option<ReedSolomon>,
}

impl Code {
    /// The code for `source_symbols`, which must be in 1..=32; made once per process.
    pub(crate) fn of(source_symbols: usize) -> &'static Code {
        static CODES: [OnceLock<Code>; MAX_SOURCE_SYMBOLS] = [const { OnceLock::new() }; MAX_SOURCE_SYMBOLS];
        CODES[source_symbols - 1].get_or_init(|| Code::new(source_symbols))
    }

    fn new(k: usize) -> Code {
        if k == 1 {
            return Code { source_symbols: 1, rows: Vec::new(), decoder: None };
        }
        let decoder = ReedSolomon::new(k, ENCODING_IDS - k).expect("K and 256 − K fit the field");
        // Unit vectors as source symbols make each repair symbol spell out its row of the matrix.
        let unit = |index: usize| (0..k).map(|place| u8::from(place == index)).collect::<Vec<u8>>();
        let mut shards: Vec<Vec<u8>> = (0..k).map(unit).collect();
        shards.resize(ENCODING_IDS, vec![0; k]);
        decoder.encode(&mut shards).expect("all shards have K bytes");
        Code { source_symbols: k, rows: shards.split_off(k), decoder: Some(decoder) }
    }

    /// Appends the symbol `encoding_id` of a block to `out`. `source` is the block, padded to K symbols of equal size.
    pub(crate) fn encode(&self, encoding_id: u16, source: &[u8], out: &mut Vec<u8>) {
        let size = source.len() / self.source_symbols;
        let id = usize::from(encoding_id);
        if self.source_symbols == 1 {
            out.extend_from_slice(source);
        } else if id < self.source_symbols {
            out.extend_from_slice(&source[id * size..][..size]);
        } else {
            let start = out.len();
            out.resize(start + size, 0);
            let row = &self.rows[id - self.source_symbols];
            for (coefficient, symbol) in row.iter().zip(source.chunks_exact(size)) {
                galois_8::mul_slice_xor(*coefficient, symbol, &mut out[start..]);
            }
        }
    }

    /// Fills in the missing source symbols.
    ///
    /// `source` holds K symbols of equal size, `present[i]` tells which are there; `repair` holds repair symbols with
    /// distinct encoding ids. Together they must be at least K, which the caller has counted.
    pub(crate) fn decode(&self, source: &mut [u8], present: &[bool], repair: &mut [(u16, Vec<u8>)]) {
        let Some(decoder) = &self.decoder else { return };
        if present.iter().all(|there| *there) {
            return;
        }
        let size = source.len() / self.source_symbols;
        let mut shards: Vec<(&mut [u8], bool)> =
            source.chunks_exact_mut(size).zip(present.iter().copied()).collect();
        shards.resize_with(ENCODING_IDS, || (&mut [][..], false));
        for (id, symbol) in repair {
            shards[usize::from(*id)] = (symbol, true);
        }
        decoder.reconstruct_data(&mut shards).expect("K distinct symbols of equal size determine the block");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The field's product by definition (polynomial 0x11d), the oracle for the kernels.
    fn product(mut a: u8, mut b: u8) -> u8 {
        let mut sum = 0;
        while b != 0 {
            if b & 1 == 1 {
                sum ^= a;
            }
            a = (a << 1) ^ if a & 0x80 != 0 { 0x1d } else { 0 };
            b >>= 1;
        }
        sum
    }

    #[test]
    fn a_repair_symbol_is_its_row_times_the_source() {
        let (k, size) = (5, 16);
        let code = Code::of(k);
        let source: Vec<u8> = (0..k * size).map(|i| (i * 37 % 251) as u8).collect();
        for id in k..ENCODING_IDS {
            let mut symbol = Vec::new();
            code.encode(id as u16, &source, &mut symbol);
            let naive: Vec<u8> = (0..size)
                .map(|byte| {
                    (0..k).fold(0, |sum, i| sum ^ product(code.rows[id - k][i], source[i * size + byte]))
                })
                .collect();
            assert_eq!(symbol, naive, "encoding id {id}");
        }
    }

    proptest! {
        #[test]
        fn any_k_distinct_symbols_give_the_block_back(
            k in 1usize..=32, eighths in 1usize..5, order in Just((0u16..256).collect::<Vec<_>>()).prop_shuffle(),
            seed: u64,
        ) {
            let (code, size) = (Code::of(k), eighths * 8);
            let source: Vec<u8> = (0..k * size).map(|i| (seed.rotate_left(i as u32 % 64) as usize + i) as u8).collect();
            let (mut block, mut present, mut repair) = (vec![0; k * size], vec![false; k], Vec::new());
            for id in order.into_iter().take(k) {
                let mut symbol = Vec::new();
                code.encode(id, &source, &mut symbol);
                let place = if k == 1 { 0 } else { usize::from(id) };
                if place < k {
                    block[place * size..][..size].copy_from_slice(&symbol);
                    present[place] = true;
                } else {
                    repair.push((id, symbol));
                }
            }
            code.decode(&mut block, &present, &mut repair);
            prop_assert_eq!(block, source);
        }
    }
}
