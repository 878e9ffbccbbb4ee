//! The round trip of a path.

use std::time::Duration;

use crate::time::Time;

/// The floor is the smallest round trip of the last one to two of these.
const FLOOR_WINDOW: Duration = Duration::from_secs(10);

/// The smoothed round trip and its deviation (RFC 6298), and the smallest of late.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RoundTrip {
    smoothed: Option<Duration>,
    deviation: Duration,
    /// The smallest of the window that began then, and of the one before.
    smallest: Option<(Time, Duration)>,
    smallest_before: Option<Duration>,
}

impl RoundTrip {
    pub(crate) fn observe(&mut self, now: Time, sample: Duration) {
        match &mut self.smallest {
            Some((since, smallest)) if now.since(*since) < FLOOR_WINDOW => *smallest = sample.min(*smallest),
            over => {
                self.smallest_before = over.map(|(_, smallest)| smallest);
                *over = Some((now, sample));
            }
        }
        match self.smoothed {
            None => (self.smoothed, self.deviation) = (Some(sample), sample / 2),
            Some(smoothed) => {
                self.deviation = (self.deviation * 3 + smoothed.abs_diff(sample)) / 4;
                self.smoothed = Some((smoothed * 7 + sample) / 8);
            }
        }
    }

    /// 100 ms until something was measured.
    pub(crate) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(Duration::from_millis(100))
    }

    /// The round trip when no queue stands; 100 ms until something was measured.
    pub(crate) fn floor(&self) -> Duration {
        let smallest = self.smallest.map_or(self.smoothed(), |(_, smallest)| smallest);
        self.smallest_before.map_or(smallest, |before| before.min(smallest))
    }

    pub(crate) fn deviation(&self) -> Duration {
        self.deviation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_floor_is_the_smallest_of_late() {
        let mut round_trip = RoundTrip::default();
        assert_eq!(round_trip.floor(), Duration::from_millis(100));
        let floors = [(0, 30), (1, 20), (12, 90), (15, 80), (23, 70)].map(|(at, sample)| {
            round_trip.observe(Time::ZERO + Duration::from_secs(at), Duration::from_millis(sample));
            round_trip.floor().as_millis()
        });
        assert_eq!(floors, [30, 20, 20, 20, 70]);
    }
}
