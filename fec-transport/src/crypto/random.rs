//! A node's random choices: numbers of the operating system in production, numbers that follow from a seed in
//! simulation.

use std::fmt;
use std::sync::Arc;

use rand_chacha::ChaCha20Rng;
use rand_core::{RngCore as _, SeedableRng as _};

/// Something that gives random bytes, as the operating system does.
///
/// Nothing of what it gave may follow from what its process keeps in memory: else a core dump would open what was
/// sealed before, and a machine that was cloned would draw the same keys as the other one.
pub trait RandomSource: Send + Sync {
    /// Fills `bytes`. It cannot fail: whoever makes the source finds out beforehand that it works.
    fn fill(&self, bytes: &mut [u8]);
}

/// Where a node takes its labels, keys, numbers and jitter from.
#[derive(Clone)]
pub enum Randomness {
    /// A source such as the operating system, which is asked for each number.
    Source(Arc<dyn RandomSource>),
    /// A seed that all choices follow from. It is for simulations only: whoever learns it knows all keys.
    Seed([u8; 32]),
}

impl fmt::Debug for Randomness {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Randomness::Source(_) => "Source(..)",
            Randomness::Seed(_) => "Seed(..)",
        })
    }
}

/// One of a node's streams of random numbers.
#[derive(Clone)]
pub(crate) enum Random {
    Source(Arc<dyn RandomSource>),
    Seeded(Box<ChaCha20Rng>),
}

impl From<Randomness> for Random {
    fn from(randomness: Randomness) -> Random {
        match randomness {
            Randomness::Source(source) => Random::Source(source),
            Randomness::Seed(seed) => Random::from_seed(seed),
        }
    }
}

impl fmt::Debug for Random {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Random(..)")
    }
}

impl Random {
    pub(crate) fn from_seed(seed: [u8; 32]) -> Random {
        Random::Seeded(Box::new(ChaCha20Rng::from_seed(seed)))
    }

    /// Another stream, whose numbers tell nothing of this one's.
    pub(crate) fn fork(&mut self) -> Random {
        match self {
            Random::Source(source) => Random::Source(Arc::clone(source)),
            Random::Seeded(_) => Random::from_seed(self.bytes()),
        }
    }

    pub(crate) fn bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.fill(&mut bytes);
        bytes
    }

    pub(crate) fn fill(&mut self, bytes: &mut [u8]) {
        match self {
            Random::Source(source) => source.fill(bytes),
            Random::Seeded(stream) => stream.fill_bytes(bytes),
        }
    }

    pub(crate) fn u64(&mut self) -> u64 {
        match self {
            Random::Source(_) => u64::from_le_bytes(self.bytes()),
            Random::Seeded(stream) => stream.next_u64(),
        }
    }

    /// A number below `bound`, which must not be 0; the bias is below 2⁻³² for the small bounds in use.
    #[cfg(test)]
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (self.u64() % u64::from(bound)) as u32
    }

    /// Uniform in [0, 1).
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// Gives each number once, as no copy of what a stream remembers could.
    #[derive(Default)]
    struct Counting(AtomicU64);

    impl RandomSource for Counting {
        fn fill(&self, bytes: &mut [u8]) {
            for byte in bytes {
                *byte = self.0.fetch_add(1, Ordering::Relaxed) as u8;
            }
        }
    }

    /// A process once drew everything from one seed in its memory: a copy of it, as of a machine that is cloned, drew
    /// the same keys, and whoever read the memory knew all earlier ones.
    #[test]
    fn a_copy_of_a_stream_does_not_draw_the_same_numbers() {
        let mut original = Random::from(Randomness::Source(Arc::new(Counting::default())));
        let (mut copy, mut fork) = (original.clone(), original.fork());
        let drawn = [original.bytes::<16>(), copy.bytes(), fork.bytes(), original.bytes()];
        for (place, bytes) in drawn.iter().enumerate() {
            assert!(!drawn[place + 1..].contains(bytes), "{drawn:?}");
        }
        assert_ne!(original.u64(), copy.u64());
    }

    #[test]
    fn a_simulation_is_a_function_of_its_seed() {
        let drawn = |seed| {
            let mut random = Random::from(Randomness::Seed([seed; 32]));
            (random.fork().u64(), random.below(1_000), random.fraction())
        };
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }
}
