//! How much the delay goes up and down from report to report: radio links that send again or wait for their turn,
//! schedulers, others' bursts.
//!
//! A queue that fills or empties moves the delay one way for many reports; jitter moves it both ways. So what the
//! delay rises *and* falls within some tens of reports is jitter, and a delay that is no further above its floor than
//! jitter explains shows no queue. Without this a link whose delay varies by 30 ms looked as if a queue stood on it
//! whatever the rate was, and had a tenth of what it carries.

use super::super::recent::RecentSmallest;
use crate::time::Time;

/// Reports over which rises and falls are averaged.
const MEMORY: f64 = 32.0;
/// Delays that are spread evenly over a span differ by a third of it on average, and by less if packets wait for those
/// before them.
const SPAN: f64 = 5.0;

/// Rises and falls of the delay, averaged, and the most that they have been of late.
#[derive(Debug, Clone, Default)]
pub(super) struct Jitter {
    last_us: Option<i64>,
    reports: f64,
    /// Averages, µs a report.
    rise: f64,
    fall: f64,
    /// The largest span of late, in µs; below zero, so that it is the smallest.
    recent: RecentSmallest<i64>,
}

impl Jitter {
    pub(super) fn observe(&mut self, now: Time, delay_us: i64) {
        if let Some(last) = self.last_us.replace(delay_us) {
            let step = (delay_us - last) as f64;
            self.reports = (self.reports + 1.0).min(MEMORY);
            self.rise += (step.max(0.0) - self.rise) / self.reports;
            self.fall += ((-step).max(0.0) - self.fall) / self.reports;
        }
        // Of a few reports some rise and fall by chance as much as nowhere else.
        if self.reports >= MEMORY {
            let span = SPAN * 2.0 * self.rise.min(self.fall);
            self.recent.observe(now, -(span as i64));
        }
    }

    /// The next delay is not compared with those before.
    pub(super) fn pass_over(&mut self) {
        self.last_us = None;
    }

    /// How far above its floor the delay may be without a queue, in seconds: the most of late.
    pub(super) fn span(&self) -> f64 {
        self.recent.get().unwrap_or(0) as f64 * -1e-6
    }
}
