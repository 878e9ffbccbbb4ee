//! The one clock that the core's times come from.

use std::time::{Duration, Instant};

use crate::time::Time;

/// Measures from the start of the endpoint.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    start: Instant,
}

impl Clock {
    /// Starts now.
    #[allow(clippy::disallowed_methods, reason = "the place where the core's time comes from")]
    pub(super) fn start() -> Clock {
        Clock { start: Instant::now() }
    }

    /// The time since the start.
    pub(super) fn now(self) -> Time {
        Time::from_epoch(self.start.elapsed())
    }

    /// `time` as the runtime's timers want it; a time beyond what they know is a day off.
    pub(super) fn instant(self, time: Time) -> tokio::time::Instant {
        let a_day_off = self.start + self.start.elapsed() + Duration::from_secs(24 * 60 * 60);
        self.start.checked_add(time.since_epoch()).map_or(a_day_off, |instant| instant.min(a_day_off)).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_instants_and_no_time_is_too_late() {
        let clock = Clock::start();
        let soon = clock.now() + Duration::from_secs(1);
        assert_eq!(clock.instant(soon), clock.instant(Time::ZERO) + soon.since_epoch());
        assert!(clock.instant(Time::from_epoch(Duration::MAX)) > clock.instant(soon));
    }
}
