//! The vectors of x86-64 processors.

use std::arch::x86_64::*;

use super::{HIGH, LOW, Task, Vector, load_padded, store_padded};
use crate::session::code::field::product;

/// # Safety
/// The processor has AVX-512, with its instructions for bytes, and GFNI.
#[target_feature(enable = "avx512f,avx512bw,gfni")]
pub(super) unsafe fn avx512_gfni(task: impl Task) {
    // SAFETY: passed on to the caller.
    unsafe { task.run::<Matrix512>() }
}

/// # Safety
/// The processor has AVX2 and GFNI.
#[target_feature(enable = "avx2,gfni")]
pub(super) unsafe fn avx2_gfni(task: impl Task) {
    // SAFETY: passed on to the caller.
    unsafe { task.run::<Matrix256>() }
}

/// # Safety
/// The processor has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn avx2(task: impl Task) {
    // SAFETY: passed on to the caller.
    unsafe { task.run::<Shuffle256>() }
}

/// # Safety
/// The processor has SSSE3.
#[target_feature(enable = "ssse3")]
pub(super) unsafe fn ssse3(task: impl Task) {
    // SAFETY: passed on to the caller.
    unsafe { task.run::<Shuffle128>() }
}

/// Multiplication by each element as a matrix of bits, in the order of `gf2p8affineqb`: byte 7 − i has the coefficients
/// of bit i of the product.
static MATRICES: [i64; 256] = matrices();

const fn matrices() -> [i64; 256] {
    let (mut matrices, mut element) = ([0; 256], 0);
    while element < 256 {
        let (mut matrix, mut place) = (0u64, 0);
        while place < 64 {
            let (row, column) = (place / 8, place % 8);
            let bit = product(element as u8, 1 << column) >> row & 1;
            matrix |= (bit as u64) << ((7 - row) * 8 + column);
            place += 1;
        }
        matrices[element] = matrix as i64;
        element += 1;
    }
    matrices
}

#[derive(Clone, Copy)]
struct Matrix512(__m512i);

// SAFETY of all blocks below, here and in the other vectors: the callers see to it that the processor has the
// instructions and that what pointers point to is there; none of the loads and stores needs an alignment.
impl Vector for Matrix512 {
    const BYTES: usize = 64;
    type Halves = __m512i;
    type Factor = __m512i;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        Matrix512(unsafe { _mm512_loadu_si512(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, left: usize) -> Self {
        Matrix512(unsafe { _mm512_maskz_loadu_epi8(first_of_64(left), from.cast()) })
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, left: usize) {
        unsafe { _mm512_mask_storeu_epi8(to.cast(), first_of_64(left), self.0) }
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        Matrix512(unsafe { _mm512_setzero_si512() })
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        Matrix512(unsafe { _mm512_xor_si512(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn halves(self) -> __m512i {
        self.0
    }

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> __m512i {
        unsafe { _mm512_set1_epi64(MATRICES[usize::from(coefficient)]) }
    }

    #[inline(always)]
    unsafe fn times(bytes: __m512i, factor: __m512i) -> Self {
        Matrix512(unsafe { _mm512_gf2p8affine_epi64_epi8::<0>(bytes, factor) })
    }
}

/// A mask of the first bytes of 64.
#[inline(always)]
fn first_of_64(bytes: usize) -> __mmask64 {
    debug_assert!(bytes < 64);
    (1 << bytes) - 1
}

/// Masks of the first of four groups of eight bytes.
static FIRST_GROUPS: [[i64; 4]; 4] = [[0, 0, 0, 0], [-1, 0, 0, 0], [-1, -1, 0, 0], [-1, -1, -1, 0]];

/// A mask of the first bytes of 32, if they are whole groups of eight: the symbols of a block of several are.
#[inline(always)]
fn first_of_32(bytes: usize) -> Option<__m256i> {
    let mask = FIRST_GROUPS.get(bytes / 8).filter(|_| bytes.is_multiple_of(8))?;
    Some(unsafe { _mm256_loadu_si256(mask.as_ptr().cast()) })
}

#[derive(Clone, Copy)]
struct Matrix256(__m256i);

impl Vector for Matrix256 {
    const BYTES: usize = 32;
    type Halves = __m256i;
    type Factor = __m256i;

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        Matrix256(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, left: usize) -> Self {
        match first_of_32(left) {
            Some(mask) => Matrix256(unsafe { _mm256_maskload_epi64(from.cast(), mask) }),
            None => unsafe { load_padded(from, left) },
        }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, left: usize) {
        match first_of_32(left) {
            Some(mask) => unsafe { _mm256_maskstore_epi64(to.cast(), mask, self.0) },
            None => unsafe { store_padded(self, to, left) },
        }
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        Matrix256(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        Matrix256(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn halves(self) -> __m256i {
        self.0
    }

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> __m256i {
        unsafe { _mm256_set1_epi64x(MATRICES[usize::from(coefficient)]) }
    }

    #[inline(always)]
    unsafe fn times(bytes: __m256i, factor: __m256i) -> Self {
        Matrix256(unsafe { _mm256_gf2p8affine_epi64_epi8::<0>(bytes, factor) })
    }
}

#[derive(Clone, Copy)]
struct Shuffle256(__m256i);

impl Vector for Shuffle256 {
    const BYTES: usize = 32;
    type Halves = (__m256i, __m256i);
    type Factor = (__m256i, __m256i);

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        Shuffle256(unsafe { _mm256_loadu_si256(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm256_storeu_si256(to.cast(), self.0) }
    }

    // Parts of vectors are loaded and stored as by `Matrix256`, which differs in how it multiplies.
    #[inline(always)]
    unsafe fn load_part(from: *const u8, left: usize) -> Self {
        Shuffle256(unsafe { Matrix256::load_part(from, left) }.0)
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, left: usize) {
        unsafe { Matrix256(self.0).store_part(to, left) }
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        Shuffle256(unsafe { _mm256_setzero_si256() })
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        Shuffle256(unsafe { _mm256_xor_si256(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn halves(self) -> Self::Halves {
        unsafe {
            let mask = _mm256_set1_epi8(15);
            (_mm256_and_si256(self.0, mask), _mm256_and_si256(_mm256_srli_epi64::<4>(self.0), mask))
        }
    }

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> Self::Factor {
        let (low, high) = (&LOW[usize::from(coefficient)], &HIGH[usize::from(coefficient)]);
        unsafe {
            let (low, high) = (_mm_loadu_si128(low.as_ptr().cast()), _mm_loadu_si128(high.as_ptr().cast()));
            (_mm256_broadcastsi128_si256(low), _mm256_broadcastsi128_si256(high))
        }
    }

    #[inline(always)]
    unsafe fn times(halves: Self::Halves, factor: Self::Factor) -> Self {
        let (low, high) = factor;
        unsafe {
            let (low, high) = (_mm256_shuffle_epi8(low, halves.0), _mm256_shuffle_epi8(high, halves.1));
            Shuffle256(_mm256_xor_si256(low, high))
        }
    }
}

#[derive(Clone, Copy)]
struct Shuffle128(__m128i);

impl Vector for Shuffle128 {
    const BYTES: usize = 16;
    type Halves = (__m128i, __m128i);
    type Factor = (__m128i, __m128i);

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        Shuffle128(unsafe { _mm_loadu_si128(from.cast()) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { _mm_storeu_si128(to.cast(), self.0) }
    }

    #[inline(always)]
    unsafe fn load_part(from: *const u8, left: usize) -> Self {
        match left {
            8 => Shuffle128(unsafe { _mm_loadl_epi64(from.cast()) }),
            _ => unsafe { load_padded(from, left) },
        }
    }

    #[inline(always)]
    unsafe fn store_part(self, to: *mut u8, left: usize) {
        match left {
            8 => unsafe { _mm_storel_epi64(to.cast(), self.0) },
            _ => unsafe { store_padded(self, to, left) },
        }
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        Shuffle128(unsafe { _mm_setzero_si128() })
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        Shuffle128(unsafe { _mm_xor_si128(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn halves(self) -> Self::Halves {
        unsafe {
            let mask = _mm_set1_epi8(15);
            (_mm_and_si128(self.0, mask), _mm_and_si128(_mm_srli_epi64::<4>(self.0), mask))
        }
    }

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> Self::Factor {
        let (low, high) = (&LOW[usize::from(coefficient)], &HIGH[usize::from(coefficient)]);
        unsafe { (_mm_loadu_si128(low.as_ptr().cast()), _mm_loadu_si128(high.as_ptr().cast())) }
    }

    #[inline(always)]
    unsafe fn times(halves: Self::Halves, factor: Self::Factor) -> Self {
        let (low, high) = factor;
        unsafe {
            let (low, high) = (_mm_shuffle_epi8(low, halves.0), _mm_shuffle_epi8(high, halves.1));
            Shuffle128(_mm_xor_si128(low, high))
        }
    }
}
