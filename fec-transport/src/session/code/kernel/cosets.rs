//! Sums of products of the Cauchy matrix, eight sources and eight rows at a time:
//!
//! ```text
//! f(x) = Σ_y s_y / (x + y)          for each byte of a symbol
//! ```
//! The encoding ids x of the rows and y of the sources are elements of the field. The elements 0 to 7 are closed under
//! addition, and ids that differ from one another in their last three bits only are a *coset* of them. Let S(z), their
//! subspace polynomial, be the product of z + v over these eight v. S is additive, S(a + b) = S(a) + S(b), and zero at
//! each v, so that S(x + y) is the same for all x of one coset and all y of another one, and not zero. The sum over the
//! sources of one coset is then N(x) · S′ / S(x + y), where N is the polynomial of degree below eight that is s_y at
//! each y, and S′, the derivative of S, is a constant.
//!
//! So eight sources are interpolated, by an additive Fourier transform of twelve products. The eight coefficients of N
//! are multiplied by S′ / S(x + y) and summed up for each coset of rows. At the end, one more transform for each coset
//! of rows gives the rows themselves, however many sources there are. Up to three cosets of rows are summed in one pass
//! over all sources, so that r rows in c cosets take 12 · ⌈c / 3⌉ + 8 · c products for eight sources, where row by row
//! there are 8 · r. The transform and its basis are those of Lin, Chung and Han ("Novel polynomial basis and its
//! application to Reed–Solomon erasure codes", FOCS 2014).

use super::{Task, Vector, load, product, store};
use crate::session::code::field::inverse;

/// Encoding ids of a coset.
pub(super) const COSET: usize = 1 << LEVELS;
/// Each level of a transform halves the polynomials.
const LEVELS: usize = 3;
/// Cosets of ids.
const COSETS: usize = 256 / COSET;
/// Cosets of rows that are summed in one pass: their 24 coefficients and the eight of the sources fill the 32 registers
/// of AVX-512.
const PASS: usize = 3;

/// The number of the coset of an id, below [`COSETS`].
pub(in crate::session::code) fn coset(id: u8) -> u8 {
    id / COSET as u8
}

/// How many products rows in so many cosets take for the sources of one coset.
pub(super) fn products(cosets: usize) -> usize {
    LEVELS * COSET / 2 * cosets.div_ceil(PASS) + COSET * cosets
}

/// Source symbols whose ids are in one coset, in the order of their ids, with zeros in the place of what is absent.
pub(super) struct Group<'a> {
    coset: u8,
    symbols: [&'a [u8]; COSET],
}

/// Sums whose ids are in one coset, in the order of their ids: those that are wanted.
pub(super) struct Sums<'a> {
    coset: u8,
    rows: [Option<&'a mut [u8]>; COSET],
}

/// Up to [`PASS`] cosets of sums; all symbols have `size` bytes.
pub(super) struct Cosets<'a, 'b> {
    groups: &'a [Group<'a>],
    sums: &'a mut [Sums<'b>],
    size: usize,
}

/// The source symbols by their cosets.
pub(super) fn groups<'a>(ids: &[u8], sources: &[&'a [u8]], zeros: &'a [u8]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::with_capacity(ids.len() / COSET + 1);
    for (id, source) in ids.iter().zip(sources) {
        if groups.last().is_none_or(|group| group.coset != coset(*id)) {
            groups.push(Group { coset: coset(*id), symbols: [zeros; COSET] });
        }
        groups.last_mut().expect("one was pushed").symbols[usize::from(*id) % COSET] = source;
    }
    groups
}

/// The sums of `size` bytes, which lie one behind the other, by the cosets of their ids.
pub(super) fn by_coset<'a>(ids: &[u8], size: usize, sums: &'a mut [u8]) -> Vec<Sums<'a>> {
    let mut by_coset: Vec<Sums<'a>> = Vec::new();
    for (id, sum) in ids.iter().zip(sums.chunks_exact_mut(size)) {
        if by_coset.last().is_none_or(|sums| sums.coset != coset(*id)) {
            by_coset.push(Sums { coset: coset(*id), rows: [const { None }; COSET] });
        }
        by_coset.last_mut().expect("one was pushed").rows[usize::from(*id) % COSET] = Some(sum);
    }
    by_coset
}

/// What it takes to add all groups to all sums, of `size` bytes.
///
/// # Panics
/// If a symbol has another size.
pub(super) fn tasks<'a, 'b>(
    groups: &'a [Group<'a>],
    sums: &'a mut [Sums<'b>],
    size: usize,
) -> impl Iterator<Item = Cosets<'a, 'b>> {
    let mut sources = groups.iter().flat_map(|group| group.symbols);
    assert!(sources.all(|source| source.len() == size), "sources of different sizes");
    let mut rows = sums.iter().flat_map(|sums| sums.rows.iter().flatten());
    assert!(rows.all(|row| row.len() == size), "sums of other sizes than sources");
    sums.chunks_mut(PASS).map(move |sums| Cosets { groups, sums, size })
}

impl Task for Cosets<'_, '_> {
    #[inline(always)]
    unsafe fn run<V: Vector>(self) {
        // SAFETY: passed on to the caller.
        unsafe {
            match self.sums.len() {
                1 => self.cosets::<V, 1>(),
                2 => self.cosets::<V, 2>(),
                _ => self.cosets::<V, PASS>(),
            }
        }
    }
}

impl Cosets<'_, '_> {
    /// All of `C` cosets of sums.
    ///
    /// # Safety
    /// The processor has the instructions of `V`.
    #[inline(always)]
    unsafe fn cosets<V: Vector, const C: usize>(mut self) {
        let mut at = 0;
        while at + V::BYTES <= self.size {
            // SAFETY: `at` and a vector more are within a symbol.
            unsafe { self.column::<V, C, true>(at) };
            at += V::BYTES;
        }
        if at < self.size {
            // SAFETY: what remains is shorter than a vector.
            unsafe { self.column::<V, C, false>(at) };
        }
    }

    /// A vector of each sum of `C` cosets, from the byte `at` of a symbol on, or what is left of one.
    ///
    /// # Safety
    /// The processor has the instructions of `V`, and a symbol has a whole vector from `at` on, or part of one.
    #[inline(always)]
    unsafe fn column<V: Vector, const C: usize, const WHOLE: bool>(&mut self, at: usize) {
        let left = self.size - at;
        let cosets: [u8; C] = std::array::from_fn(|c| self.sums[c].coset);
        // SAFETY: all symbols have `size` bytes; the vector at `at` is within them, or ends there.
        unsafe {
            let mut totals = [[V::zero(); COSET]; C];
            for group in self.groups {
                let mut values = load_all::<V, WHOLE>(&group.symbols, at, left);
                interpolate(&mut values, group.coset);
                for (c, total) in totals.iter_mut().enumerate() {
                    let factor = V::factor(FACTORS[usize::from(cosets[c] ^ group.coset)]);
                    for (total, value) in total.iter_mut().zip(values) {
                        *total = total.plus(V::times(value.halves(), factor));
                    }
                }
            }
            for (c, mut total) in totals.into_iter().enumerate() {
                evaluate(&mut total, cosets[c]);
                add_all::<V, WHOLE>(total, &mut self.sums[c].rows, at, left);
            }
        }
    }
}

/// A vector of each symbol, from the byte `at` on, or what is left of one.
///
/// # Safety
/// The processor has the instructions of `V`, and the symbols have so many bytes.
#[inline(always)]
unsafe fn load_all<V: Vector, const WHOLE: bool>(
    symbols: &[&[u8]; COSET],
    at: usize,
    left: usize,
) -> [V; COSET] {
    // SAFETY: passed on to the caller. The loads are written out: the compiler would not unroll a loop here, and would
    // keep the vectors in memory.
    unsafe {
        [
            load::<V, WHOLE>(symbols[0].as_ptr().add(at), left),
            load::<V, WHOLE>(symbols[1].as_ptr().add(at), left),
            load::<V, WHOLE>(symbols[2].as_ptr().add(at), left),
            load::<V, WHOLE>(symbols[3].as_ptr().add(at), left),
            load::<V, WHOLE>(symbols[4].as_ptr().add(at), left),
            load::<V, WHOLE>(symbols[5].as_ptr().add(at), left),
            load::<V, WHOLE>(symbols[6].as_ptr().add(at), left),
            load::<V, WHOLE>(symbols[7].as_ptr().add(at), left),
        ]
    }
}

/// Adds a vector to each row that is wanted, from the byte `at` on, or what is left of one.
///
/// # Safety
/// The processor has the instructions of `V`, and the rows have so many bytes.
#[inline(always)]
unsafe fn add_all<V: Vector, const WHOLE: bool>(
    values: [V; COSET],
    rows: &mut [Option<&mut [u8]>; COSET],
    at: usize,
    left: usize,
) {
    for (value, row) in values.iter().zip(rows) {
        if let Some(row) = row {
            // SAFETY: passed on to the caller.
            unsafe {
                let to = row.as_mut_ptr().add(at);
                store::<V, WHOLE>(value.plus(load::<V, WHOLE>(to, left)), to, left);
            }
        }
    }
}

/// Coefficients in the basis of the transform become values at the ids of a coset.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn evaluate<V: Vector>(values: &mut [V; COSET], coset: u8) {
    let twiddles = &TWIDDLES[usize::from(coset)];
    // SAFETY: passed on to the caller. The butterflies are written out for the same reason as the loads.
    unsafe {
        butterfly(values, 0, 4, twiddles[0]);
        butterfly(values, 1, 5, twiddles[0]);
        butterfly(values, 2, 6, twiddles[0]);
        butterfly(values, 3, 7, twiddles[0]);
        butterfly(values, 0, 2, twiddles[1]);
        butterfly(values, 1, 3, twiddles[1]);
        butterfly(values, 4, 6, twiddles[2]);
        butterfly(values, 5, 7, twiddles[2]);
        butterfly(values, 0, 1, twiddles[3]);
        butterfly(values, 2, 3, twiddles[4]);
        butterfly(values, 4, 5, twiddles[5]);
        butterfly(values, 6, 7, twiddles[6]);
    }
}

/// The inverse of [`evaluate`]: values at the ids of a coset become coefficients.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn interpolate<V: Vector>(values: &mut [V; COSET], coset: u8) {
    let twiddles = &TWIDDLES[usize::from(coset)];
    // SAFETY: passed on to the caller.
    unsafe {
        inverse_butterfly(values, 6, 7, twiddles[6]);
        inverse_butterfly(values, 4, 5, twiddles[5]);
        inverse_butterfly(values, 2, 3, twiddles[4]);
        inverse_butterfly(values, 0, 1, twiddles[3]);
        inverse_butterfly(values, 5, 7, twiddles[2]);
        inverse_butterfly(values, 4, 6, twiddles[2]);
        inverse_butterfly(values, 1, 3, twiddles[1]);
        inverse_butterfly(values, 0, 2, twiddles[1]);
        inverse_butterfly(values, 3, 7, twiddles[0]);
        inverse_butterfly(values, 2, 6, twiddles[0]);
        inverse_butterfly(values, 1, 5, twiddles[0]);
        inverse_butterfly(values, 0, 4, twiddles[0]);
    }
}

/// With the coefficients low and high of a polynomial in the next subspace polynomial, low + twiddle · high is its
/// value in the first half of a block. In the second half the twiddle factor is larger by one, so that high is added
/// once more.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn butterfly<V: Vector>(values: &mut [V; COSET], low: usize, high: usize, twiddle: u8) {
    // SAFETY: passed on to the caller.
    unsafe {
        values[low] = values[low].plus(V::times(values[high].halves(), V::factor(twiddle)));
        values[high] = values[high].plus(values[low]);
    }
}

/// The inverse of [`butterfly`].
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn inverse_butterfly<V: Vector>(values: &mut [V; COSET], low: usize, high: usize, twiddle: u8) {
    // SAFETY: passed on to the caller.
    unsafe {
        values[high] = values[high].plus(values[low]);
        values[low] = values[low].plus(V::times(values[high].halves(), V::factor(twiddle)));
    }
}

/// For each coset, the twiddle factors of one block on the highest level, of two on the next, of four on the lowest.
static TWIDDLES: [[u8; COSET - 1]; COSETS] = twiddles();

/// S′ / S(x + y), for x in one coset and y in another one: the index is the exclusive or of the cosets' numbers.
static FACTORS: [u8; COSETS] = factors();

const fn twiddles() -> [[u8; COSET - 1]; COSETS] {
    let (mut twiddles, mut coset) = ([[0; COSET - 1]; COSETS], 0);
    while coset < COSETS {
        let mut level = 0;
        while level < LEVELS {
            let blocks = COSET >> (level + 1);
            let mut block = 0;
            while block < blocks {
                let first = coset * COSET + (block << (level + 1));
                let norm = inverse(subspace_polynomial(level, 1 << level));
                twiddles[coset][blocks - 1 + block] = product(subspace_polynomial(level, first as u8), norm);
                block += 1;
            }
            level += 1;
        }
        coset += 1;
    }
    twiddles
}

/// The first is zero: sources of the rows' own coset are left out.
const fn factors() -> [u8; COSETS] {
    // S′ is the coefficient of z in S, which each level multiplies by the level's polynomial at its step.
    let (mut slope, mut level) = (1, 0);
    while level < LEVELS {
        slope = product(slope, subspace_polynomial(level, 1 << level));
        level += 1;
    }
    let (mut factors, mut difference) = ([0; COSETS], 1);
    while difference < COSETS {
        factors[difference] =
            product(slope, inverse(subspace_polynomial(LEVELS, (difference * COSET) as u8)));
        difference += 1;
    }
    factors
}

/// The polynomial that is zero at the elements below 2^`level`, and only there: Π_v (z + v). The next one is
/// S(z) · S(z + 2^`level`), which is S(z)² + S(2^`level`) · S(z), as S is additive.
const fn subspace_polynomial(level: usize, z: u8) -> u8 {
    if level == 0 {
        return z;
    }
    let (value, step) = (subspace_polynomial(level - 1, z), subspace_polynomial(level - 1, 1 << (level - 1)));
    product(value, value) ^ product(step, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subspace_polynomial_is_the_product_of_its_factors() {
        for level in 0..=LEVELS {
            for z in 0..=255 {
                let by_definition = (0..1u8 << level).fold(1, |value, v| product(value, z ^ v));
                assert_eq!(subspace_polynomial(level, z), by_definition, "level {level}, {z}");
            }
        }
    }
}
