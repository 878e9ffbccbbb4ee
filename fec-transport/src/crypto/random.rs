//! Randomness that follows from a seed: from the operating system in production, from the test in simulation.

use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore as _, SeedableRng as _};

/// A node's source of labels, keys, numbers and jitter.
#[derive(Debug, Clone)]
pub(crate) struct Random(ChaCha20Rng);

impl Random {
    pub(crate) fn from_seed(seed: [u8; 32]) -> Random {
        Random(ChaCha20Rng::from_seed(seed))
    }

    /// Another source, whose numbers tell nothing of this one's.
    pub(crate) fn fork(&mut self) -> Random {
        Random::from_seed(self.bytes())
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        self.0.fill_bytes(bytes);
    }

    pub(crate) fn u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number below `bound`, which must not be 0; the bias is below 2⁻³² for the small bounds in use.
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (self.u64() % u64::from(bound)) as u32
    }

    /// Uniform in [0, 1).
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}
