//! The time that every state machine gets as an argument.

use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// A point in time, as the distance from an epoch: in production the Unix epoch, because set-ups carry a signed time
/// that other members compare with theirs (docs/decisions/time-epoch.md); in simulations their start.
///
/// The core never looks at a clock (design §2); it only compares and subtracts the times that it was given.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Time(Duration);

impl Time {
    /// The epoch itself.
    pub const ZERO: Time = Time(Duration::ZERO);

    /// The point `elapsed` after the epoch.
    pub const fn from_epoch(elapsed: Duration) -> Time {
        Time(elapsed)
    }

    /// How long after the epoch this is.
    pub const fn since_epoch(self) -> Duration {
        self.0
    }

    /// How long after `earlier` this is; zero if it is not after it.
    pub fn since(self, earlier: Time) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    /// Microseconds since the epoch.
    pub fn as_micros(self) -> u64 {
        u64::try_from(self.0.as_micros()).unwrap_or(u64::MAX)
    }
}

impl Add<Duration> for Time {
    type Output = Time;
    fn add(self, distance: Duration) -> Time {
        Time(self.0.saturating_add(distance))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, distance: Duration) {
        *self = *self + distance;
    }
}

impl Sub<Duration> for Time {
    type Output = Time;
    fn sub(self, distance: Duration) -> Time {
        Time(self.0.saturating_sub(distance))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_never_goes_below_zero() {
        let early = Time::from_epoch(Duration::from_secs(1));
        let late = early + Duration::from_secs(2);
        assert_eq!(late.since(early), Duration::from_secs(2));
        assert_eq!(early.since(late), Duration::ZERO);
        assert_eq!(early - Duration::from_secs(5), Time::ZERO);
    }
}
