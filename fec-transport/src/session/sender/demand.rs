//! How much the messages of a session ask of its paths.

use std::time::Duration;

use crate::time::Time;

/// Over how long it is averaged: longer than a lonely large message takes, shorter than anybody likes to wait.
const AVERAGE: Duration = Duration::from_secs(1);

/// What urgent blocks would put on the links if each source symbol travelled once, averaged over [`AVERAGE`].
#[derive(Debug, Clone, Default)]
pub(super) struct Demand {
    /// Bits of the past, forgotten exponentially, and when that was done last.
    bits: f64,
    counted_at: Option<Time>,
}

impl Demand {
    /// Another block of so many bits, headers included.
    pub(super) fn note(&mut self, now: Time, bits: f64) {
        self.bits = self.rate(now) * AVERAGE.as_secs_f64() + bits;
        self.counted_at = Some(now);
    }

    /// In bit/s.
    pub(super) fn rate(&self, now: Time) -> f64 {
        let age = self.counted_at.map_or(Duration::ZERO, |at| now.since(at));
        self.bits * (-age.as_secs_f64() / AVERAGE.as_secs_f64()).exp() / AVERAGE.as_secs_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_mean_of_the_last_second() {
        let (mut demand, mut now) = (Demand::default(), Time::ZERO);
        for _ in 0..1_000 {
            now += Duration::from_millis(5);
            demand.note(now, 8_000.0);
        }
        assert!((demand.rate(now) / 1.6e6 - 1.0).abs() < 0.01, "{}", demand.rate(now));
        assert!(demand.rate(now + 5 * AVERAGE) < 0.02e6);
    }

    #[test]
    fn a_lonely_message_is_no_demand() {
        let mut demand = Demand::default();
        demand.note(Time::ZERO, 64_000.0 * 8.0);
        assert!(demand.rate(Time::ZERO) < 0.6e6);
    }
}
