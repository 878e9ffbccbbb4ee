//! Systematic Reed–Solomon over GF(2⁸) for small blocks: K = 1..=32 source symbols.
//!
//! The arithmetic is reed-solomon-erasure's. Its encoder makes all repair symbols at once; a stream needs one at a time
//! and any number of them, so the rows of its matrix are read out once and applied one by one with its own kernels. Its
//! decoder inverts a K×K matrix for each pattern of losses; here only what is missing is solved for.

use std::sync::OnceLock;

use reed_solomon_erasure::galois_8;

use super::dense::DenseSystem;
use super::{ErasureCode, NeedsMore, ReceivedSymbols, RepairSymbols};
use crate::limits::MAX_REED_SOLOMON;

/// GF(2⁸) has no more evaluation points.
const ENCODING_IDS: usize = 256;

/// Reed–Solomon with a given number of source symbols.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReedSolomon(&'static Matrix);

/// What all blocks with the same K share.
struct Matrix {
    source_symbols: usize,
    /// For the repair symbol K + i, its K coefficients; none for K = 1, whose repair symbols are copies.
    rows: Vec<Vec<u8>>,
}

impl ReedSolomon {
    /// The code for `source_symbols`, which must be in 1..=32; its matrix is made once per process.
    pub(crate) fn of(source_symbols: usize) -> ReedSolomon {
        static MATRICES: [OnceLock<Matrix>; MAX_REED_SOLOMON] = [const { OnceLock::new() }; MAX_REED_SOLOMON];
        ReedSolomon(MATRICES[source_symbols - 1].get_or_init(|| Matrix::new(source_symbols)))
    }
}

impl Matrix {
    fn new(k: usize) -> Matrix {
        if k == 1 {
            return Matrix { source_symbols: 1, rows: Vec::new() };
        }
        let encoder = galois_8::ReedSolomon::new(k, ENCODING_IDS - k).expect("K and 256 − K fit the field");
        // Unit vectors as source symbols make each repair symbol spell out its row of the matrix.
        let unit = |index: usize| (0..k).map(|place| u8::from(place == index)).collect::<Vec<u8>>();
        let mut shards: Vec<Vec<u8>> = (0..k).map(unit).collect();
        shards.resize(ENCODING_IDS, vec![0; k]);
        encoder.encode(&mut shards).expect("all shards have K bytes");
        Matrix { source_symbols: k, rows: shards.split_off(k) }
    }
}

impl std::fmt::Debug for Matrix {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Matrix({} source symbols)", self.source_symbols)
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
        if self.0.source_symbols == 1 || symbols.count() < self.0.source_symbols {
            return Err(NeedsMore);
        }
        symbols.complete();
        let (absent, size) = (symbols.absent(), symbols.symbol_size());
        let mut system = DenseSystem::new(absent.len(), size);
        let mut sides = Vec::with_capacity(absent.len() * size);
        for (id, symbol) in symbols.repair() {
            let row = &self.0.rows[usize::from(id) - self.0.source_symbols];
            if !system.is_determined() && system.add(absent.iter().map(|index| row[*index]).collect()) {
                let start = sides.len();
                sides.extend_from_slice(symbol);
                let (source, present) = symbols.source();
                add_row(row, present, source, &mut sides[start..]);
            }
        }
        if !system.is_determined() {
            return Err(NeedsMore);
        }
        system.solve(&sides, |number, value| symbols.fill_in(absent[number], value));
        Ok(())
    }
}

/// Adds the source symbols that are there, times their coefficients, to `sum`.
fn add_row(row: &[u8], present: &[bool], source: &[u8], sum: &mut [u8]) {
    let symbols = row.iter().zip(source.chunks_exact(sum.len())).zip(present);
    for ((coefficient, symbol), _) in symbols.filter(|(_, present)| **present) {
        galois_8::mul_slice_xor(*coefficient, symbol, sum);
    }
}

impl RepairSymbols for ReedSolomon {
    fn append(&self, encoding_id: u16, source: &[u8], out: &mut Vec<u8>) {
        let Matrix { source_symbols, rows, .. } = self.0;
        if *source_symbols == 1 {
            return out.extend_from_slice(source);
        }
        let size = source.len() / source_symbols;
        let start = out.len();
        out.resize(start + size, 0);
        let row = &rows[usize::from(encoding_id) - source_symbols];
        for (coefficient, symbol) in row.iter().zip(source.chunks_exact(size)) {
            galois_8::mul_slice_xor(*coefficient, symbol, &mut out[start..]);
        }
    }
}
