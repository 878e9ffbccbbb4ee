//! What the system's clock shows, which set-ups bear.

use std::time::Duration;

use crate::time::Time;

/// The difference between the node's time, which neither jumps nor goes back, and the system's clock, which somebody
/// may set. A node that is never told of one has its own time for it, as in simulations.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Calendar {
    /// By so many seconds the system's clock is ahead.
    ahead_s: i64,
}

impl Calendar {
    /// At `now` the system's clock shows so much since the UNIX epoch.
    pub(super) fn set(&mut self, now: Time, since_epoch: Duration) {
        self.ahead_s = since_epoch.as_secs().wrapping_sub(now.since_epoch().as_secs()) as i64;
    }

    /// Seconds since the UNIX epoch.
    pub(super) fn seconds(self, now: Time) -> u64 {
        now.since_epoch().as_secs().saturating_add_signed(self.ahead_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_the_systems_clock_both_ways() {
        let (mut calendar, at) =
            (Calendar::default(), |seconds| Time::from_epoch(Duration::from_secs(seconds)));
        assert_eq!(calendar.seconds(at(7)), 7);
        calendar.set(at(10), Duration::from_secs(1_000_000));
        assert_eq!(calendar.seconds(at(12)), 1_000_002);
        calendar.set(at(20), Duration::from_secs(5));
        assert_eq!(calendar.seconds(at(21)), 6);
        assert_eq!(calendar.seconds(at(0)), 0, "before the epoch there is nothing");
    }
}
