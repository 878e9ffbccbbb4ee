//! Emptying the queue: how long, and what came of it.
//!
//! Half the rate for as long as the queue takes to empty shows who fills it. Alone, we see it gone; if others fill it, it
//! falls by about our share of the link; and if it does not move at all, it is no queue but a longer way.

use std::collections::VecDeque;
use std::time::Duration;

use super::Feedback;
use crate::time::Time;

/// The rate while draining, as a share.
pub(super) const DRAIN_RATE: f64 = 0.5;
/// A drain lasts no longer …
const LONGEST: Duration = Duration::from_millis(150);
/// … and, once one has failed, no shorter: what it does must be seen.
const LEAST_AFTER_FAILURE: Duration = Duration::from_millis(60);
/// The delays of so long before it are compared with its own: the least of some, because there is jitter.
const BEFORE: Duration = Duration::from_millis(20);
/// A delay that moves by less than this, in seconds, and by less than this share of what it would, does not move. Packets
/// leave in runs of 1 ms, and may meet one another.
const STILL: f64 = 0.001;
const STILL_SHARE: f64 = 0.03;
/// … provided that it would have moved by this many seconds.
const LEAST_TEST: f64 = 0.01;

/// What a drain showed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drained {
    /// By how much the queue fell, as a share of what it would have if we were alone: about our share of the link.
    pub(super) response: f64,
    /// Whether the delay has not moved at all: then it is no queue.
    pub(super) is_still: bool,
}

/// The latest drain, and the delays before it.
#[derive(Debug, Clone)]
pub(super) struct Drain {
    began: Time,
    until: Time,
    /// Departures and delays, µs, of the last packets before it that were heard of.
    before: VecDeque<(Time, i64)>,
    /// The least delay of what left in its second half, µs.
    lowest: i64,
    is_judged: bool,
}

impl Drain {
    /// There was none.
    pub(super) fn none(now: Time) -> Drain {
        Drain { began: now, until: now, before: VecDeque::new(), lowest: i64::MAX, is_judged: true }
    }

    /// Begins one of this length.
    pub(super) fn begin(&mut self, now: Time, span: Duration) {
        (self.began, self.until) = (now, now + span);
        (self.lowest, self.is_judged) = (i64::MAX, false);
    }

    /// Nothing will be concluded from the one that has begun.
    pub(super) fn discount(&mut self) {
        self.is_judged = true;
    }

    /// Whether something will be concluded from it.
    #[cfg(test)]
    pub(super) fn will_tell(&self) -> bool {
        !self.is_judged
    }

    pub(super) fn until(&self) -> Time {
        self.until
    }

    pub(super) fn observe(&mut self, feedback: &Feedback, delay_us: i64) {
        let departed = feedback.departed;
        if departed < self.began || self.is_judged {
            self.before.push_back((departed, delay_us));
            while self.before.front().is_some_and(|(first, _)| departed.since(*first) > BEFORE) {
                self.before.pop_front();
            }
        } else if departed >= self.began + self.until.since(self.began) / 2 {
            self.lowest = self.lowest.min(delay_us);
        }
    }

    /// The least delay of what left in its second half, µs.
    pub(super) fn lowest(&self) -> i64 {
        self.lowest
    }

    /// What it showed, once.
    pub(super) fn take_effect(&mut self) -> Option<Drained> {
        if std::mem::replace(&mut self.is_judged, true) || self.lowest == i64::MAX {
            return None;
        }
        let before = self.before.drain(..).map(|(_, delay_us)| delay_us).min()?;
        let expected = (1.0 - DRAIN_RATE) * self.until.since(self.began).as_secs_f64();
        let fall = (before - self.lowest) as f64 * 1e-6;
        let is_still = expected > LEAST_TEST && fall.abs() < STILL.max(STILL_SHARE * expected);
        Some(Drained { response: fall / expected, is_still })
    }
}

/// How long to drain a queue that is `excess` seconds too long, after so many `failures`.
pub(super) fn span(excess: f64, failures: u32) -> Duration {
    let least = if failures > 0 { LEAST_AFTER_FAILURE } else { Duration::ZERO };
    Duration::from_secs_f64(excess / (1.0 - DRAIN_RATE)).clamp(least, LONGEST)
}
