//! The smallest one-way delay of the recent past: what remains of the delay when no queue stands.

use super::super::recent::RecentSmallest;
use crate::time::Time;

/// The smallest delay of late, and since the last drain.
#[derive(Debug, Clone, Default)]
pub(super) struct DelayFloor {
    recent: RecentSmallest<i64>,
    latest: Option<i64>,
}

impl DelayFloor {
    pub(super) fn observe(&mut self, now: Time, delay_us: i64) {
        self.recent.observe(now, delay_us);
        self.latest = Some(self.latest.map_or(delay_us, |latest| latest.min(delay_us)));
    }

    /// `None` until a delay was observed.
    pub(super) fn smallest(&self) -> Option<i64> {
        self.recent.get()
    }

    /// The smallest delay since [`forget_latest`](Self::forget_latest).
    pub(super) fn latest(&self) -> Option<i64> {
        self.latest
    }

    pub(super) fn forget_latest(&mut self) {
        self.latest = None;
    }

    /// The way has become longer: nothing below this delay counts any more.
    pub(super) fn rise(&mut self, now: Time, delay_us: i64) {
        *self = DelayFloor::default();
        self.recent.observe(now, delay_us);
    }

    /// How far a delay is above the floor, in seconds.
    pub(super) fn above(&self, delay_us: i64) -> f64 {
        self.smallest().map_or(0.0, |floor| delay_us.saturating_sub(floor).max(0) as f64 * 1e-6)
    }
}
