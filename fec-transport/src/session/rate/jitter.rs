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
/// The span over which delays are spread, as a multiple of what they rise on average. It would be six if they were
/// spread evenly, and is more because packets that wait for those before them differ by less.
const SPAN: f64 = 10.0;

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
        // The average of a few reports may be far too large, and the most of late counts.
        if self.reports >= MEMORY {
            let span = SPAN * self.rise.min(self.fall);
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// What is taken for jitter after reports with these delays, 5 ms apart, in ms.
    fn span_of(delays_ms: impl IntoIterator<Item = i64>) -> f64 {
        let mut jitter = Jitter::default();
        for (number, delay_ms) in (0u32..).zip(delays_ms) {
            jitter.observe(Time::ZERO + number * Duration::from_millis(5), delay_ms * 1_000);
        }
        jitter.span() * 1e3
    }

    #[test]
    fn a_queue_that_fills_or_empties_is_no_jitter() {
        assert_eq!(span_of(0..200), 0.0);
        assert_eq!(span_of((0..200).rev()), 0.0);
    }

    #[test]
    fn a_delay_that_goes_up_and_down_is_jitter_once_enough_reports_have_come() {
        // Delays that are spread evenly over 0 to 30 ms.
        let spread = |count| (0..count).map(|number: i64| (number * 7_919) % 31);
        assert_eq!(span_of(spread(30)), 0.0);
        let span = span_of(spread(400));
        assert!((30.0..100.0).contains(&span), "{span} ms");
    }

    #[test]
    fn what_was_passed_over_is_not_compared() {
        let mut jitter = Jitter::default();
        for number in 0..100 {
            jitter.observe(Time::ZERO, if number % 2 == 0 { 0 } else { 30_000 });
            jitter.pass_over();
        }
        assert_eq!(jitter.span(), 0.0);
    }
}
