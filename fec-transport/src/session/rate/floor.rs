//! The smallest one-way delay of the recent past: what remains of the delay when no queue stands.

use std::time::Duration;

use crate::time::Time;

/// The floor is the smallest delay of the last one to two of these: two to five drains.
const WINDOW: Duration = Duration::from_secs(10);

/// The smallest delay, over two windows of which the older is dropped in turn.
#[derive(Debug, Clone)]
pub(super) struct DelayFloor {
    since: Time,
    current: i64,
    previous: i64,
    latest: i64,
}

impl DelayFloor {
    pub(super) fn new(now: Time) -> DelayFloor {
        DelayFloor { since: now, current: i64::MAX, previous: i64::MAX, latest: i64::MAX }
    }

    pub(super) fn observe(&mut self, now: Time, delay_us: i64) {
        if now.since(self.since) > WINDOW {
            (self.since, self.previous, self.current) = (now, self.current, i64::MAX);
        }
        self.current = self.current.min(delay_us);
        self.latest = self.latest.min(delay_us);
    }

    pub(super) fn smallest(&self) -> i64 {
        self.current.min(self.previous)
    }

    /// The smallest delay since [`forget_latest`](Self::forget_latest).
    pub(super) fn latest(&self) -> Option<i64> {
        (self.latest != i64::MAX).then_some(self.latest)
    }

    pub(super) fn forget_latest(&mut self) {
        self.latest = i64::MAX;
    }

    /// The way has become longer: nothing below this delay counts any more.
    pub(super) fn rise(&mut self, now: Time, delay_us: i64) {
        *self = DelayFloor { current: delay_us, ..DelayFloor::new(now) };
    }

    /// How far a delay is above the floor, in seconds.
    pub(super) fn above(&self, delay_us: i64) -> f64 {
        delay_us.saturating_sub(self.smallest()).max(0) as f64 * 1e-6
    }
}
