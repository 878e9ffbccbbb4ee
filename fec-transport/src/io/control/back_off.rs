//! How long a dialler waits before it tries again.

use std::time::Duration;

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore as _, SeedableRng as _};

/// The first pause: a neighbour that was restarted is back within about this time.
const SHORTEST: Duration = Duration::from_millis(250);

/// The longest pause: what a link that comes back after a long time costs before it is used again, beside what the
/// attempt that is under way then still takes.
const LONGEST: Duration = Duration::from_millis(500);

/// Pauses that double from 250 ms to 500 ms, each with up to a quarter more or less, so that the many neighbours of a
/// member that was restarted do not all dial it in the same millisecond.
#[derive(Debug)]
pub(super) struct BackOff {
    next: Duration,
    random: ChaCha8Rng,
}

impl BackOff {
    /// Starts with the shortest pause; equal seeds give equal pauses.
    pub(super) fn new(seed: [u8; 32]) -> BackOff {
        BackOff { next: SHORTEST, random: ChaCha8Rng::from_seed(seed) }
    }

    /// After a success the next pause is the shortest one again.
    pub(super) fn reset(&mut self) {
        self.next = SHORTEST;
    }

    /// The pause before the next attempt.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(LONGEST);
        let jitter = f64::from(self.random.next_u32()) / f64::from(u32::MAX);
        pause.mul_f64(0.75 + 0.5 * jitter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_start_anew_after_a_success() {
        let mut back_off = BackOff::new([1; 32]);
        for middle_ms in [250, 500, 500, 500] {
            let middle = Duration::from_millis(middle_ms);
            let pause = back_off.pause();
            assert!(pause >= middle.mul_f64(0.75) && pause <= middle.mul_f64(1.25), "{pause:?}");
        }
        back_off.reset();
        assert!(back_off.pause() <= SHORTEST.mul_f64(1.25));
    }

    #[test]
    fn pauses_are_a_function_of_the_seed() {
        let pauses = |seed| {
            let mut back_off = BackOff::new([seed; 32]);
            [(); 8].map(|()| back_off.pause())
        };
        assert_eq!(pauses(3), pauses(3));
        assert_ne!(pauses(3), pauses(4));
    }
}
