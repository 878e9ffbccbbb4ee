//! The round trip of a path.

use std::time::Duration;

use crate::session::recent::RecentSmallest;
use crate::time::Time;

/// On a longer way more is under way than a peer's sockets hold, and comes as slowly as the way lets it.
const SHORT_WAY: Duration = Duration::from_millis(5);

/// The smoothed round trip and its deviation (RFC 6298), and the smallest of late.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct RoundTrip {
    smoothed: Option<Duration>,
    deviation: Duration,
    recent: RecentSmallest<Duration>,
    smallest: Option<Duration>,
}

impl RoundTrip {
    pub(crate) fn observe(&mut self, now: Time, sample: Duration) {
        self.recent.observe(now, sample);
        self.smallest = Some(self.smallest.map_or(sample, |smallest| smallest.min(sample)));
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

    /// Whether it has ever been that of a short way. Of late it may be longer because a queue stands in the peer's
    /// sockets, and what bounds that queue must not end because of it.
    pub(crate) fn is_short(&self) -> bool {
        self.smallest.is_some_and(|smallest| smallest < SHORT_WAY)
    }

    pub(crate) fn deviation(&self) -> Duration {
        self.deviation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_way_that_was_short_stays_so_however_long_a_queue_stands() {
        let mut round_trip = RoundTrip::default();
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        round_trip.observe(at(0), SHORT_WAY);
        assert!(!round_trip.is_short());
        round_trip.observe(at(1), SHORT_WAY / 2);
        (2..100).for_each(|second| round_trip.observe(at(second), 9 * SHORT_WAY));
        assert!(round_trip.is_short() && round_trip.floor() == 9 * SHORT_WAY);
    }

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
