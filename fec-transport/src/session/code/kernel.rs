//! Sums of products over GF(2⁸), on symbols: what encoding and decoding spend their time on.
//!
//! | what | for which sums |
//! |---|---|
//! | [`add_products`] | of any matrix, row by row |
//! | [`add_cosets`] | of the Cauchy matrix, eight sources and eight rows at a time, with fewer products |
//!
//! Both go through symbols column by column, a vector wide or two, and keep what they sum up in registers until all
//! sources have been added. Which instructions are used is decided once, when the process first needs them, by what the
//! processor has:
//!
//! | kernel | a product is |
//! |---|---|
//! | `Avx512Gfni`, `Avx2Gfni` | one bit matrix for 64 or 32 bytes |
//! | `Avx2`, `Ssse3`, `Neon` | two look-ups, one for each half of a byte, in 32 or 16 bytes at once |
//! | `Plain` | two look-ups for each byte |
//!
//! All unsafe code of the codes is in this module: raw loads and stores, which stay within slices that safe functions
//! have measured, and instructions, which are used only if the processor has them.
#![allow(unsafe_code)]

mod cosets;
mod plain;
mod products;

#[cfg(target_arch = "aarch64")]
mod arm;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::OnceLock;

use super::field::product;

pub(super) use cosets::coset;

/// How sums of products are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kernel {
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

/// Adds to each of the sums, which lie one behind the other, the products of its row of `coefficients`, one for each
/// source, and the sources.
///
/// # Panics
/// If the sources differ in size, or `sums` is not as long as so many rows are.
pub(super) fn add_products(coefficients: &[u8], sources: &[&[u8]], sums: &mut [u8]) {
    Kernel::chosen().add_products(coefficients, sources, sums);
}

/// Adds to each of the sums, which lie one behind the other, what the Cauchy matrix gives for its repair symbol and all
/// sources but those of its own coset. The ids of repair symbols, and those of sources, are all different; those of one
/// coset should lie side by side.
///
/// # Panics
/// If the sources differ in size, or there are not as many sums of that size as repair symbols.
pub(super) fn add_cosets(repairs: &[u8], ids: &[u8], sources: &[&[u8]], sums: &mut [u8]) {
    Kernel::chosen().add_cosets(repairs, ids, sources, sums);
}

/// Whether [`add_cosets`] is faster than [`add_products`] for so many repair symbols that lie in so many cosets.
pub(super) fn are_faster_by_coset(repairs: usize, cosets: usize) -> bool {
    Kernel::chosen().are_faster_by_coset(repairs, cosets)
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
            Kernel::Avx512Gfni => {
                is_x86_feature_detected!("avx512f")
                    && is_x86_feature_detected!("avx512bw")
                    && is_x86_feature_detected!("gfni")
            }
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

    /// See [`add_products`].
    fn add_products(self, coefficients: &[u8], sources: &[&[u8]], sums: &mut [u8]) {
        if sources.first().is_some_and(|source| !source.is_empty()) {
            products::tasks(coefficients, sources, sums).for_each(|task| self.run(task));
        }
    }

    /// See [`add_cosets`].
    fn add_cosets(self, repairs: &[u8], ids: &[u8], sources: &[&[u8]], sums: &mut [u8]) {
        let size = sources.first().map_or(0, |source| source.len());
        if size == 0 {
            return;
        }
        assert_eq!(sums.len(), repairs.len() * size, "a sum for each repair symbol");
        let zeros = vec![0; size];
        let groups = cosets::groups(ids, sources, &zeros);
        let mut sums = cosets::by_coset(repairs, size, sums);
        cosets::tasks(&groups, &mut sums, size).for_each(|task| self.run(task));
    }

    /// Products of a transform come with more sums than those of rows. Its vectors fill the 32 registers of AVX-512,
    /// and where there are 16, some of them wait in memory. So it is the faster way if it takes at most five eighths as
    /// many products with AVX-512, and half as many with the others (docs/decisions/reed-solomon-kernels.md).
    fn are_faster_by_coset(self, repairs: usize, cosets: usize) -> bool {
        let eighths = match self {
            #[cfg(target_arch = "x86_64")]
            Kernel::Avx512Gfni => 5,
            _ => 4,
        };
        8 * cosets::products(cosets) <= eighths * cosets::COSET * repairs
    }

    /// Whether the processor has the kernel was checked when it was chosen.
    fn run(self, task: impl Task) {
        debug_assert!(self.is_available());
        // SAFETY: a kernel is used only where the processor has the instructions that it is named after.
        unsafe {
            match self {
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx512Gfni => x86::avx512_gfni(task),
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx2Gfni => x86::avx2_gfni(task),
                #[cfg(target_arch = "x86_64")]
                Kernel::Avx2 => x86::avx2(task),
                #[cfg(target_arch = "x86_64")]
                Kernel::Ssse3 => x86::ssse3(task),
                #[cfg(target_arch = "aarch64")]
                Kernel::Neon => arm::neon(task),
                Kernel::Plain => task.run::<plain::Lookup>(),
            }
        }
    }
}

/// What one call of a kernel does: some sums, computed in one pass over all sources.
trait Task {
    /// # Safety
    /// The processor has the instructions of `V`.
    unsafe fn run<V: Vector>(self);
}

/// Bytes of the widest vector.
const WIDEST: usize = 64;

/// The products of each element with 0 to 15, and with 16 times these.
static LOW: [[u8; 16]; 256] = half_byte_products(1);
static HIGH: [[u8; 16]; 256] = half_byte_products(16);

const fn half_byte_products(step: u8) -> [[u8; 16]; 256] {
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
    /// The halves of the bytes, where products are looked up by halves; otherwise the bytes themselves.
    type Halves: Copy;
    /// What is looked up of a coefficient.
    type Factor: Copy;

    /// # Safety
    /// Of all functions: the processor has the instructions. Of this one: `BYTES` bytes can be read.
    unsafe fn load(from: *const u8) -> Self;
    /// # Safety
    /// `BYTES` bytes can be written.
    unsafe fn store(self, to: *mut u8);
    /// The vector whose first bytes are the `left` ones at `from`, and the others zero.
    ///
    /// # Safety
    /// So many bytes can be read; they are fewer than `BYTES`.
    #[inline(always)]
    unsafe fn load_part(from: *const u8, left: usize) -> Self {
        // SAFETY: passed on to the caller.
        unsafe { load_padded(from, left) }
    }
    /// Stores the first `left` bytes.
    ///
    /// # Safety
    /// So many bytes can be written; they are fewer than `BYTES`.
    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, left: usize) {
        // SAFETY: passed on to the caller.
        unsafe { store_padded(self, to, left) }
    }
    unsafe fn zero() -> Self;
    unsafe fn plus(self, other: Self) -> Self;
    unsafe fn halves(self) -> Self::Halves;
    unsafe fn factor(coefficient: u8) -> Self::Factor;
    unsafe fn times(halves: Self::Halves, factor: Self::Factor) -> Self;
}

/// The vector at `from`, or what is left of one, with zeros behind it.
///
/// # Safety
/// The processor has the instructions of `V`, and a vector can be read, or `left` bytes where it is not a whole one.
#[inline(always)]
unsafe fn load<V: Vector, const WHOLE: bool>(from: *const u8, left: usize) -> V {
    // SAFETY: passed on to the caller.
    unsafe { if WHOLE { V::load(from) } else { V::load_part(from, left) } }
}

/// Stores a vector, or as many of its bytes as are left.
///
/// # Safety
/// The processor has the instructions of `V`, and a vector can be written, or `left` bytes where it is not a whole one.
#[inline(always)]
unsafe fn store<V: Vector, const WHOLE: bool>(vector: V, to: *mut u8, left: usize) {
    // SAFETY: passed on to the caller.
    unsafe { if WHOLE { vector.store(to) } else { vector.store_part(to, left) } }
}

/// [`Vector::load_part`] for any number of bytes and any processor, by way of memory.
///
/// # Safety
/// The processor has the instructions of `V`, and `left` bytes can be read, fewer than a vector has.
#[inline(always)]
unsafe fn load_padded<V: Vector>(from: *const u8, left: usize) -> V {
    const { assert!(V::BYTES <= WIDEST) };
    let mut padded = [0; WIDEST];
    // SAFETY: `padded` is as long as the widest vector; for `from` it is passed on to the caller.
    unsafe {
        std::ptr::copy_nonoverlapping(from, padded.as_mut_ptr(), left.min(V::BYTES));
        V::load(padded.as_ptr())
    }
}

/// [`Vector::store_part`] for any number of bytes and any processor, by way of memory.
///
/// # Safety
/// The processor has the instructions of `V`, and `left` bytes can be written, fewer than a vector has.
#[inline(always)]
unsafe fn store_padded<V: Vector>(vector: V, to: *mut u8, left: usize) {
    const { assert!(V::BYTES <= WIDEST) };
    let mut padded = [0; WIDEST];
    // SAFETY: as for `load_padded`.
    unsafe {
        vector.store(padded.as_mut_ptr());
        std::ptr::copy_nonoverlapping(padded.as_ptr(), to, left.min(V::BYTES));
    }
}

#[cfg(test)]
mod tests;
