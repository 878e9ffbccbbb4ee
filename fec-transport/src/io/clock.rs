//! The one clock that the core's times come from.

use std::time::{Duration, Instant, SystemTime};

use crate::time::Time;

/// Tells the time since the UNIX epoch, because signed set-ups carry it and other members compare it with theirs. The
/// system's clock is asked once: from then on the time neither jumps nor goes back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    start: Instant,
    time_at_start: Time,
}

impl Clock {
    /// Asks the system's clock. One that stands before 1970 is taken for 1970; the other members will refuse our times.
    #[allow(clippy::disallowed_methods, reason = "the place where the core's time comes from")]
    pub(super) fn start() -> Clock {
        let since_epoch = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        Clock { start: Instant::now(), time_at_start: Time::from_epoch(since_epoch) }
    }

    /// The time.
    pub(super) fn now(self) -> Time {
        self.time_at_start + self.start.elapsed()
    }

    /// `time` as the runtime's timers want it. What is more than a day off is a day off.
    pub(super) fn instant(self, time: Time) -> tokio::time::Instant {
        let elapsed = self.start.elapsed();
        let after_start = time.since(self.time_at_start).min(elapsed + Duration::from_secs(24 * 60 * 60));
        (self.start + after_start).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_instants_and_no_time_is_too_late() {
        let clock = Clock::start();
        let (soon, second) = (clock.now() + Duration::from_secs(1), Duration::from_secs(1));
        assert_eq!(clock.instant(soon + second), clock.instant(soon) + second);
        assert!(clock.instant(Time::from_epoch(Duration::MAX)) > clock.instant(soon));
        assert!(clock.instant(Time::ZERO) < clock.instant(soon));
    }
}
