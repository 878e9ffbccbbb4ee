//! Vectors for any processor.

use super::{HIGH, LOW, Vector};

/// As many bytes as the tables have products for half a byte.
const BYTES: usize = 16;

#[derive(Clone, Copy)]
pub(super) struct Lookup([u8; BYTES]);

// SAFETY of the two blocks below: the callers see to it that what pointers point to is there; no alignment is needed.
impl Vector for Lookup {
    const BYTES: usize = BYTES;
    type Halves = [u8; BYTES];
    type Factor = (&'static [u8; 16], &'static [u8; 16]);

    #[inline(always)]
    unsafe fn load(from: *const u8) -> Self {
        Lookup(unsafe { from.cast::<[u8; BYTES]>().read_unaligned() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u8) {
        unsafe { to.cast::<[u8; BYTES]>().write_unaligned(self.0) }
    }

    #[inline(always)]
    unsafe fn zero() -> Self {
        Lookup([0; BYTES])
    }

    #[inline(always)]
    unsafe fn plus(self, other: Self) -> Self {
        let mut sum = self.0;
        sum.iter_mut().zip(other.0).for_each(|(sum, byte)| *sum ^= byte);
        Lookup(sum)
    }

    #[inline(always)]
    unsafe fn halves(self) -> Self::Halves {
        self.0
    }

    #[inline(always)]
    unsafe fn factor(coefficient: u8) -> Self::Factor {
        (&LOW[usize::from(coefficient)], &HIGH[usize::from(coefficient)])
    }

    #[inline(always)]
    unsafe fn times(bytes: Self::Halves, (low, high): Self::Factor) -> Self {
        let mut products = [0; BYTES];
        for (product, byte) in products.iter_mut().zip(bytes) {
            *product = low[usize::from(byte & 15)] ^ high[usize::from(byte >> 4)];
        }
        Lookup(products)
    }
}
