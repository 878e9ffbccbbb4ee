//! Sums of products over GF(2⁸), on symbols: what encoding and decoding spend their time on.
//!
//! ```text
//! sums[row] += Σ coefficients[row][n] · sources[n]          for each byte of a symbol
//! ```
//! Several rows are computed in one pass: a piece of a source symbol is loaded once and multiplied for all of them, and
//! the sums stay in registers until all sources are through. The crates' kernels take one coefficient at a time, and
//! load and store the sum for each (docs/decisions/reed-solomon-kernels.md has what that costs).
//!
//! Which instructions are used is decided once, when the process first needs them, by what the processor has:
//!
//! | kernel | a product is |
//! |---|---|
//! | `Avx512Gfni`, `Avx2Gfni` | one bit matrix for 64 or 32 bytes |
//! | `Avx2`, `Ssse3`, `Neon` | two look-ups, one for each half of a byte, in 32 or 16 bytes at once |
//! | `Plain` | one look-up for each byte |
//!
//! All unsafe code of the codes is in this file: raw loads and stores, which stay within slices that
//! [`Kernel::add_products`] has measured, and instructions, which are used only if the processor has them.
#![allow(unsafe_code)]

use std::sync::OnceLock;

use super::field::product;

/// How sums of products are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    #[cfg(target_arch = "x86_64")]
    Avx512Gfni,
    #[cfg(target_arch = "x86_64")]
    Avx2Gfni,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Ssse3,
    #[cfg(target_arch = "aarch64")]
    Neon,
    Plain,
}

/// What this process uses.
static CHOSEN: OnceLock<Kernel> = OnceLock::new();

/// Rows that are summed in one pass.
const ROWS: usize = 6;

/// Adds products to sums with the fastest kernel that this processor has; see [`Kernel::add_products`].
pub(super) fn add_products(coefficients: &[u8], sources: &[&[u8]], sums: &mut [u8]) {
    Kernel::chosen().add_products(coefficients, sources, sums);
}

/// Keeps kernels that are faster than the one of that name from being chosen, if none has been used yet; a name that no
/// kernel has changes nothing.
#[cfg(feature = "io")]
pub(crate) fn limit_kernel(name: &str) {
    CHOSEN.get_or_init(|| Kernel::fastest_below(Some(name)));
}

impl Kernel {
    /// The kernels of this kind of processor, the fastest first, with their names.
    const ALL: &[(Kernel, &str)] = &[
        #[cfg(target_arch = "x86_64")]
        (Kernel::Avx512Gfni, "avx512-gfni"),
        #[cfg(target_arch = "x86_64")]
        (Kernel::Avx2Gfni, "avx2-gfni"),
        #[cfg(target_arch = "x86_64")]
        (Kernel::Avx2, "avx2"),
        #[cfg(target_arch = "x86_64")]
        (Kernel::Ssse3, "ssse3"),
        #[cfg(target_arch = "aarch64")]
        (Kernel::Neon, "neon"),
        (Kernel::Plain, "plain"),
    ];

    /// The kernel that this process uses: the fastest that this processor has, unless
    /// [`limit_kernel`] came before the first use.
    fn chosen() -> Kernel {
        *CHOSEN.get_or_init(|| Kernel::fastest_below(None))
    }

    fn fastest_below(ceiling: Option<&str>) -> Kernel {
        let named = Kernel::ALL.iter().position(|(_, name)| Some(*name) == ceiling);
        let allowed = &Kernel::ALL[named.unwrap_or(0)..];
        allowed
            .iter()
            .map(|(kernel, _)| *kernel)
            .find(|kernel| kernel.is_available())
            .unwrap_or(Kernel::Plain)
    }

    /// Whether this processor, and its operating system, have what the kernel needs.
    fn is_available(self) -> bool {
        match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512Gfni => is_x86_feature_detected!("avx512f") && is_x86_feature_detected!("gfni"),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2Gfni => is_x86_feature_detected!("avx2") && is_x86_feature_detected!("gfni"),
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx2 => is_x86_feature_detected!("avx2"),
            #[cfg(target_arch = "x86_64")]
            Kernel::Ssse3 => is_x86_feature_detected!("ssse3"),
            #[cfg(target_arch = "aarch64")]
            Kernel::Neon => std::arch::is_aarch64_feature_detected!("neon"),
            Kernel::Plain => true,
        }
    }

    /// Adds to each of the sums, which lie one behind the other, the products of its row of `coefficients`, one for
    /// each source, and the sources.
    ///
    /// # Panics
    /// If the sources differ in size, or `sums` is not as long as so many rows are; that the processor has the kernel
    /// was checked when it was chosen.
    fn add_products(self, coefficients: &[u8], sources: &[&[u8]], sums: &mut [u8]) {
        let Some(size) = sources.first().map(|source| source.len()) else { return };
        assert!(sources.iter().all(|source| source.len() == size), "sources of different sizes");
        assert!(coefficients.len().is_multiple_of(sources.len()), "a coefficient is missing");
        assert_eq!(sums.len(), coefficients.len() / sources.len() * size, "a sum for each row");
        if size == 0 {
            return;
        }
        debug_assert!(self.is_available());
        let groups = coefficients.chunks(ROWS * sources.len()).zip(sums.chunks_mut(ROWS * size));
        for (coefficients, sums) in groups {
            let task = Task { coefficients, sources, sums, size };
            match self {
                // SAFETY: a kernel is used only where the processor has the instructions that it is named after.
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx512Gfni => unsafe { x86::avx512_gfni(task) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx2Gfni => unsafe { x86::avx2_gfni(task) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx2 => unsafe { x86::avx2(task) },
                // SAFETY: as above.
                #[cfg(target_arch = "x86_64")]
                Kernel::Ssse3 => unsafe { x86::ssse3(task) },
                // SAFETY: as above.
                #[cfg(target_arch = "aarch64")]
                Kernel::Neon => unsafe { arm::neon(task) },
                Kernel::Plain => task.plain(),
            }
        }
    }
}

/// Up to [`ROWS`] sums: `sums` has as many rows of `size` bytes as `coefficients` has of one for each source, and each
/// source has `size` bytes.
struct Task<'a> {
    coefficients: &'a [u8],
    sources: &'a [&'a [u8]],
    sums: &'a mut [u8],
    size: usize,
}

impl Task<'_> {
    fn plain(self) {
        let rows = self.coefficients.chunks_exact(self.sources.len());
        for (row, sum) in rows.zip(self.sums.chunks_exact_mut(self.size)) {
            for (coefficient, source) in row.iter().zip(self.sources) {
                let (low, high) = (&LOW[usize::from(*coefficient)], &HIGH[usize::from(*coefficient)]);
                for (sum, byte) in sum.iter_mut().zip(*source) {
                    *sum ^= low[usize::from(byte & 15)] ^ high[usize::from(byte >> 4)];
                }
            }
        }
    }

    /// # Safety
    /// The processor has the instructions of `V`.
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
                _ => self.rows::<V, ROWS>(),
            }
        }
    }

    /// # Safety
    /// The processor has the instructions of `V`, and there are `R` rows.
    #[inline(always)]
    unsafe fn rows<V: Vector, const R: usize>(mut self) {
        let whole = self.size / V::BYTES * V::BYTES;
        let wide = self.size / (2 * V::BYTES) * (2 * V::BYTES);
        let mut at = 0;
        while at < wide {
            // SAFETY: `at` and two vectors more are within a symbol.
            unsafe { self.column::<V, R, 2>(at) };
            at += 2 * V::BYTES;
        }
        if at < whole {
            // SAFETY: `at` and a vector more are within a symbol.
            unsafe { self.column::<V, R, 1>(at) };
        }
        if whole < self.size {
            // SAFETY: what remains is shorter than a vector.
            unsafe { self.rest::<V, R>(whole) };
        }
    }

    /// `W` vectors of each sum, from the byte `at` of a symbol on.
    ///
    /// # Safety
    /// The processor has the instructions of `V`, there are `R` rows, and symbols have `W` vectors from `at` on.
    #[inline(always)]
    unsafe fn column<V: Vector, const R: usize, const W: usize>(&mut self, at: usize) {
        let number = self.sources.len();
        // SAFETY: `sums` has R rows of `size` bytes, each source `size` bytes, and `coefficients` R × `number`; the
        // vectors from `at` on are within `size`.
        unsafe {
            let sums = self.sums.as_mut_ptr().add(at);
            let mut sum = [[V::zero(); W]; R];
            for (row, sum) in sum.iter_mut().enumerate() {
                for (w, sum) in sum.iter_mut().enumerate() {
                    *sum = V::load(sums.add(row * self.size + w * V::BYTES));
                }
            }
            for (n, source) in self.sources.iter().enumerate() {
                let mut halves = [V::zero().halves(); W];
                for (w, halves) in halves.iter_mut().enumerate() {
                    *halves = V::load(source.as_ptr().add(at + w * V::BYTES)).halves();
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
                    sum.store(sums.add(row * self.size + w * V::BYTES));
                }
            }
        }
    }

    /// The bytes of each sum from `at` on, fewer than a vector has.
    ///
    /// # Safety
    /// The processor has the instructions of `V`, and there are `R` rows.
    #[inline(always)]
    unsafe fn rest<V: Vector, const R: usize>(self, at: usize) {
        let number = self.sources.len();
        let mut padded = [0; WIDEST];
        // SAFETY: loads and stores are of `padded`, which is as long as the widest vector; `coefficients` has R rows.
        unsafe {
            let mut sum = [V::zero(); R];
            for (n, source) in self.sources.iter().enumerate() {
                padded[..self.size - at].copy_from_slice(&source[at..]);
                let halves = V::load(padded.as_ptr()).halves();
                for (row, sum) in sum.iter_mut().enumerate() {
                    let factor = V::factor(*self.coefficients.get_unchecked(row * number + n));
                    *sum = sum.plus(V::times(halves, factor));
                }
            }
            for (sum, old) in sum.iter().zip(self.sums.chunks_exact_mut(self.size)) {
                sum.store(padded.as_mut_ptr());
                old[at..].iter_mut().zip(padded).for_each(|(old, byte)| *old ^= byte);
            }
        }
    }
}

/// Bytes of the widest vector.
const WIDEST: usize = 64;

/// The products of each element with 0 to 15, and with 16 times these.
static LOW: [[u8; 16]; 256] = products(1);
static HIGH: [[u8; 16]; 256] = products(16);

const fn products(step: u8) -> [[u8; 16]; 256] {
    let (mut table, mut element) = ([[0; 16]; 256], 0);
    while element < 256 {
        let mut half = 0;
        while half < 16 {
            table[element][half] = product(element as u8, step * half as u8);
            half += 1;
        }
        element += 1;
    }
    table
}

/// Bytes that are multiplied and added at once.
trait Vector: Copy {
    const BYTES: usize;
    /// What is prepared of the bytes before they are multiplied by several factors.
    type Halves: Copy;
    /// What is looked up of a coefficient.
    type Factor: Copy;

    /// # Safety
    /// Of all functions: the processor has the instructions. Of this one: `BYTES` bytes can be read.
    unsafe fn load(from: *const u8) -> Self;
    /// # Safety
    /// `BYTES` bytes can be written.
    unsafe fn store(self, to: *mut u8);
    unsafe fn zero() -> Self;
    unsafe fn plus(self, other: Self) -> Self;
    unsafe fn halves(self) -> Self::Halves;
    unsafe fn factor(coefficient: u8) -> Self::Factor;
    unsafe fn times(halves: Self::Halves, factor: Self::Factor) -> Self;
}

#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(target_arch = "aarch64")]
mod arm;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn by_definition(coefficients: &[u8], sources: &[Vec<u8>], sums: &mut [u8], size: usize) {
        for (row, sum) in coefficients.chunks(sources.len()).zip(sums.chunks_mut(size)) {
            for (coefficient, source) in row.iter().zip(sources) {
                sum.iter_mut().zip(source).for_each(|(sum, byte)| *sum ^= product(*coefficient, *byte));
            }
        }
    }

    proptest! {
        /// On each machine this tries the kernels that its processor has; `Plain` is among them everywhere.
        #[test]
        fn every_kernel_computes_the_sums_by_definition(
            rows in 0usize..15, size in 1usize..300, number in 1usize..20,
            bytes in proptest::collection::vec(any::<u8>(), 1000),
        ) {
            let mut bytes = bytes.into_iter().cycle();
            let mut draw = |count: usize| bytes.by_ref().take(count).collect::<Vec<u8>>();
            let (coefficients, start) = (draw(rows * number), draw(rows * size));
            let sources: Vec<Vec<u8>> = (0..number).map(|_| draw(size)).collect();
            let mut expected = start.clone();
            by_definition(&coefficients, &sources, &mut expected, size);
            let sources: Vec<&[u8]> = sources.iter().map(Vec::as_slice).collect();
            for (kernel, name) in Kernel::ALL.iter().filter(|(kernel, _)| kernel.is_available()) {
                let mut sums = start.clone();
                kernel.add_products(&coefficients, &sources, &mut sums);
                prop_assert_eq!(&sums, &expected, "{}", name);
            }
        }
    }

    #[test]
    fn the_environment_keeps_faster_kernels_from_being_chosen() {
        assert_eq!(Kernel::fastest_below(Some("plain")), Kernel::Plain);
        assert!(Kernel::fastest_below(None).is_available());
        assert_eq!(Kernel::fastest_below(Some("no such kernel")), Kernel::fastest_below(None));
        for (kernel, name) in Kernel::ALL.iter().filter(|(kernel, _)| kernel.is_available()) {
            assert_eq!(Kernel::fastest_below(Some(name)), *kernel);
        }
    }

    #[test]
    #[should_panic(expected = "sources of different sizes")]
    fn sources_of_different_sizes_are_a_mistake() {
        add_products(&[1, 2], &[&[1, 2], &[3]], &mut [0, 0]);
    }
}
