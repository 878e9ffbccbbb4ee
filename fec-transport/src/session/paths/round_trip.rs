//! The round trip of a path.

use std::time::Duration;

use crate::session::recent::RecentSmallest;
use crate::time::Time;

/// The smoothed round trip and its deviation (RFC 6298), and the smallest of late.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RoundTrip {
    smoothed: Option<Duration>,
    deviation: Duration,
    recent: RecentSmallest<Duration>,
}

impl RoundTrip {
    pub(crate) fn observe(&mut self, now: Time, sample: Duration) {
        self.recent.observe(now, sample);
        match self.smoothed {
            None => (self.smoothed, self.deviation) = (Some(sample), sample / 2),
            Some(smoothed) => {
                self.deviation = (self.deviation * 3 + smoothed.abs_diff(sample)) / 4;
                self.smoothed = Some((smoothed * 7 + sample) / 8);
            }
        }
    }

    /// The smoothed round trip; 100 ms until something was measured.
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(Duration::from_millis(100))
    }

    /// The round trip when no queue stands; 100 ms until something was measured.
    pub(crate) fn floor(&self) -> Duration {
        self.recent.get().unwrap_or(self.smoothed())
    }

    pub(crate) fn deviation(&self) -> Duration {
        self.deviation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_a_guess_until_something_was_measured() {
        let mut round_trip = RoundTrip::default();
        assert_eq!(round_trip.floor(), Duration::from_millis(100));
        for sample in [30, 50] {
            round_trip.observe(Time::ZERO, Duration::from_millis(sample));
            assert_eq!(round_trip.floor(), Duration::from_millis(30));
        }
    }
}
