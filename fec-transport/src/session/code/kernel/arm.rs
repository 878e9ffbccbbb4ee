//! The vectors of 64-bit ARM processors.

use std::arch::aarch64::*;

use super::{HIGH, LOW, Task, Vector};

/// # Safety
/// The processor has NEON.
#[target_feature(enable = "neon")]
pub(super) unsafe fn neon(task: impl Task) {
    // SAFETY: passed on to the caller.
    unsafe { task.run::<Shuffle128>() }
}

#[derive(Clone, Copy)]
struct Shuffle128(uint8x16_t);

// SAFETY of all blocks below: the callers see to it that the processor has the instructions and that what pointers
// point to is there; none of the loads and stores needs an alignment.
impl Vector for Shuffle128 {
    const BYTES: usize = 16;
    type Halves = (uint8x16_t, uint8x16_t);
    type Factor = (uint8x16_t, uint8x16_t);

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        Shuffle128(unsafe { vld1q_u8(from) })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { vst1q_u8(to, self.0) }
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        Shuffle128(unsafe { vdupq_n_u8(0) })
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        Shuffle128(unsafe { veorq_u8(self.0, other.0) })
    }

    #[inline(always)]
    unsafe fn halves(self) -> Self::Halves {
        unsafe { (vandq_u8(self.0, vdupq_n_u8(15)), vshrq_n_u8::<4>(self.0)) }
    }

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> Self::Factor {
        let (low, high) = (&LOW[usize::from(coefficient)], &HIGH[usize::from(coefficient)]);
        unsafe { (vld1q_u8(low.as_ptr()), vld1q_u8(high.as_ptr())) }
    }

    #[inline(always)]
    unsafe fn times(halves: Self::Halves, factor: Self::Factor) -> Self {
        let (low, high) = factor;
        unsafe { Shuffle128(veorq_u8(vqtbl1q_u8(low, halves.0), vqtbl1q_u8(high, halves.1))) }
    }
}
