//! Sums of products of any matrix:
//!
//! ```text
//! sums[row] += Σ coefficients[row][n] · sources[n]          for each byte of a symbol
//! ```
//! Several rows are computed in one pass: a piece of a source symbol is loaded once and multiplied for all of them, and
//! the sums stay in registers until all sources have been added. The crates' kernels take one coefficient at a time,
//! and load and store the sum for each (docs/decisions/reed-solomon-kernels.md has what that costs).

use super::{Task, Vector, load, store};

/// Rows that are summed in one pass.
const ROWS: usize = 6;

/// Up to [`ROWS`] sums: `sums` has as many rows of `size` bytes as `coefficients` has of one for each source, and each
/// source has `size` bytes.
pub(super) struct Products<'a> {
    coefficients: &'a [u8],
    sources: &'a [&'a [u8]],
    sums: &'a mut [u8],
    size: usize,
}

/// What it takes to add to each of the sums the products of its row of `coefficients`; there is a source, and it is not
/// empty.
///
/// # Panics
/// If the sources differ in size, or `sums` is not as long as so many rows are.
pub(super) fn tasks<'a>(
    coefficients: &'a [u8],
    sources: &'a [&'a [u8]],
    sums: &'a mut [u8],
) -> impl Iterator<Item = Products<'a>> {
    let (number, size) = (sources.len(), sources[0].len());
    assert!(sources.iter().all(|source| source.len() == size), "sources of different sizes");
    assert!(coefficients.len().is_multiple_of(number), "a coefficient is missing");
    assert_eq!(sums.len(), coefficients.len() / number * size, "a sum for each row");
    let groups = coefficients.chunks(ROWS * number).zip(sums.chunks_mut(ROWS * size));
    groups.map(move |(coefficients, sums)| Products { coefficients, sources, sums, size })
}

impl Task for Products<'_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: passed on to the caller.
        unsafe {
            match self.coefficients.len() / self.sources.len() {
                1 => self.rows::<V, 1>(),
                2 => self.rows::<V, 2>(),
                3 => self.rows::<V, 3>(),
                4 => self.rows::<V, 4>(),
                5 => self.rows::<V, 5>(),
                6 => self.rows::<V, 6>(),
                rows => unreachable!("{rows} rows are more than {ROWS}"),
            }
        }
    }
}

impl Products<'_> {
    /// # Safety
    /// The processor has the instructions of `V`, and there are `R` rows.
    #[inline(always)]
    unsafe fn rows<V: Vector, const R: usize>(mut self) {
        let mut at = 0;
        while at + 2 * V::BYTES <= self.size {
            // SAFETY: `at` and two vectors more are within a symbol.
            unsafe { self.column::<V, R, 2, true>(at) };
            at += 2 * V::BYTES;
        }
        if at + V::BYTES <= self.size {
            // SAFETY: `at` and a vector more are within a symbol.
            unsafe { self.column::<V, R, 1, true>(at) };
            at += V::BYTES;
        }
        if at < self.size {
            // SAFETY: what remains is shorter than a vector.
            unsafe { self.column::<V, R, 1, false>(at) };
        }
    }

    /// `W` vectors of each sum, from the byte `at` of a symbol on, or what is left of one.
    ///
    /// # Safety
    /// The processor has the instructions of `V`, there are `R` rows, and symbols have `W` whole vectors from `at` on,
    /// or part of one.
    #[inline(always)]
    unsafe fn column<V: Vector, const R: usize, const W: usize, const WHOLE: bool>(&mut self, at: usize) {
        let (number, size) = (self.sources.len(), self.size);
        let left = size - at;
        // SAFETY: `sums` has R rows of `size` bytes, each source `size` bytes, and `coefficients` R × `number`; the
        // vectors from `at` on are within `size`, or end there.
        unsafe {
            let sums = self.sums.as_mut_ptr().add(at);
            let mut sum = [[V::zero(); W]; R];
            for (row, sum) in sum.iter_mut().enumerate() {
                for (w, sum) in sum.iter_mut().enumerate() {
                    *sum = load::<V, WHOLE>(sums.add(row * size + w * V::BYTES), left);
                }
            }
            for (n, source) in self.sources.iter().enumerate() {
                let mut halves = [V::zero().halves(); W];
                for (w, halves) in halves.iter_mut().enumerate() {
                    *halves = load::<V, WHOLE>(source.as_ptr().add(at + w * V::BYTES), left).halves();
                }
                for (row, sum) in sum.iter_mut().enumerate() {
                    let factor = V::factor(*self.coefficients.get_unchecked(row * number + n));
                    for (sum, halves) in sum.iter_mut().zip(halves) {
                        *sum = sum.plus(V::times(halves, factor));
                    }
                }
            }
            for (row, sum) in sum.iter().enumerate() {
                for (w, sum) in sum.iter().enumerate() {
                    let to = sums.add(row * size + w * V::BYTES);
                    store::<V, WHOLE>(*sum, to, left);
                }
            }
        }
    }
}
