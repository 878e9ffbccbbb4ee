//! The one clock that the core's times come from.

use std::time::{Duration, Instant, SystemTime};

use crate::time::Time;

/// Tells the time since the UNIX epoch as it was known at the start: from then on the time neither jumps nor goes back.
/// On Linux it goes on while the machine sleeps; elsewhere it stands still then. What other members compare with their
/// clocks is the [`calendar`](Self::calendar).
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    time_at_start: Time,
    start: Ticks,
}

impl Clock {
    /// Begins with what the system's clock shows.
    pub(super) fn start() -> Clock {
        Clock { time_at_start: Time::from_epoch(Clock::calendar()), start: Ticks::now() }
    }

    /// What the system's clock shows now, since the UNIX epoch; somebody may have set it since the start. One that
    /// stands before 1970 is taken for 1970.
    #[allow(clippy::disallowed_methods, reason = "the place where the system's clock is asked")]
    pub(super) fn calendar() -> Duration {
        SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
    }

    /// The time.
    pub(super) fn now(self) -> Time {
        self.time_at_start + self.start.elapsed()
    }

    /// The moment at which a batch of datagrams was taken from the kernel, which is now.
    ///
    /// The system's clock is asked first: if this process is kept from running before the other one is asked, datagrams
    /// seem to have come later than they did. If they seemed to have come earlier, perhaps before they were sent, the
    /// floor of the one-way delay would be too low for twenty seconds, everything would look like a queue, and the
    /// path's rate would fall to nothing.
    pub(super) fn batch(self) -> Batch {
        Batch { since_epoch: Clock::calendar(), now: self.now() }
    }

    /// `time` as the runtime's timers want it. What is more than a day off is a day off. Those timers stand still while
    /// the machine sleeps, so after a sleep they may be late by what was left of them.
    #[allow(clippy::disallowed_methods, reason = "the place where the core's time meets the runtime's")]
    pub(super) fn instant(self, time: Time) -> tokio::time::Instant {
        let ahead = time.since(self.now()).min(Duration::from_secs(24 * 60 * 60));
        (Instant::now() + ahead).into()
    }
}

/// When a batch of datagrams was taken from the kernel, by the system's clock and by ours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Batch {
    since_epoch: Duration,
    now: Time,
}

impl Batch {
    /// When a datagram arrived that the kernel has noted at `noted` by the system's clock; without a note, now.
    pub(super) fn arrival(self, noted: Option<Duration>) -> Time {
        let age = noted.map_or(Duration::ZERO, |noted| self.since_epoch.saturating_sub(noted));
        self.now - age
    }
}

/// A point of the clock that runs on while the machine sleeps.
#[cfg(target_os = "linux")]
#[derive(Debug, Clone, Copy)]
struct Ticks(Duration);

#[cfg(target_os = "linux")]
impl Ticks {
    fn now() -> Ticks {
        let time = rustix::time::clock_gettime(rustix::time::ClockId::Boottime);
        let (seconds, nanoseconds) = (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec));
        Ticks(Duration::new(seconds.unwrap_or_default(), nanoseconds.unwrap_or_default()))
    }

    fn elapsed(self) -> Duration {
        Ticks::now().0.saturating_sub(self.0)
    }
}

/// A point of the monotonic clock.
#[cfg(not(target_os = "linux"))]
#[derive(Debug, Clone, Copy)]
struct Ticks(Instant);

#[cfg(not(target_os = "linux"))]
impl Ticks {
    #[allow(clippy::disallowed_methods, reason = "the place where the core's time comes from")]
    fn now() -> Ticks {
        Ticks(Instant::now())
    }

    fn elapsed(self) -> Duration {
        self.0.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_become_instants_and_no_time_is_too_late() {
        let clock = Clock::start();
        let (soon, second) = (clock.now() + Duration::from_secs(1), Duration::from_secs(1));
        // Each conversion looks at the clocks anew.
        assert!(clock.instant(soon + 2 * second) > clock.instant(soon) + second);
        assert!(clock.instant(Time::from_epoch(Duration::MAX)) > clock.instant(soon));
        assert!(clock.instant(Time::ZERO) < clock.instant(soon));
    }

    #[test]
    fn what_waited_in_the_kernel_arrived_before_it_was_taken() {
        let (since_epoch, now) = (Duration::from_secs(1_000), Time::from_epoch(Duration::from_secs(7)));
        let batch = Batch { since_epoch, now };
        let waited = Duration::from_millis(30);
        assert_eq!(batch.arrival(Some(since_epoch - waited)), now - waited);
        // The system's clock may have been set back meanwhile, and not every kernel notes anything.
        assert_eq!([batch.arrival(Some(since_epoch + waited)), batch.arrival(None)], [now; 2]);
    }

    #[test]
    fn time_does_not_go_back() {
        let clock = Clock::start();
        let times: Vec<Time> = (0..1_000).map(|_| clock.now()).collect();
        assert!(times.is_sorted());
    }
}
