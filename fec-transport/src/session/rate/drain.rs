//! Emptying the queue: how long, and what came of it.
//!
//! Half the rate for as long as the queue takes to empty shows who fills it. Alone, we see it gone; if others fill it,
//! it falls by about our share of the link; and if it does not move at all, it is no queue but a longer way.

use std::collections::VecDeque;
use std::time::Duration;

use super::floor::DelayFloor;
use super::round::STANDING;
use super::{Feedback, NEARLY, SHORTEST_ROUND};
use crate::time::Time;

/// The rate while draining, as a share.
const DRAIN_RATE: f64 = 0.5;
/// A drain lasts no longer than this.
const LONGEST: Duration = Duration::from_secs(1);
/// A drain lasts no shorter if its effect must be seen: by whoever drains, once others have undone a drain, or by
/// several sessions at once.
pub(super) const VISIBLE: Duration = Duration::from_millis(60);
/// A delay that moves by less than this, in seconds, does not move. Packets leave in runs of 1 ms, and may meet one
/// another.
const STILL: f64 = 0.001;
/// How often the queue is emptied to see the floor of the delay.
pub(super) const INTERVAL: Duration = Duration::from_secs(4);
/// After a drain that has not emptied the queue the next one is stretched by this factor. After one that has emptied
/// it, the next one is shortened by this factor.
const LONGER: f64 = 1.5;
/// No drain lasts more than so many times what the queue alone would take.
const LONGEST_STRETCH: f64 = 6.0;

/// What a drain showed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Drained {
    /// How far the queue fell, as a share of how far it would have fallen if we were alone: about our share of the
    /// link.
    pub(super) response: f64,
    /// Whether the delay has not moved at all: then it is no queue.
    pub(super) is_still: bool,
}

/// The latest drain, the delays before it, and when the next one is due.
#[derive(Debug, Clone)]
pub(super) struct Drain {
    /// The next drain for the floor's sake.
    due_at: Time,
    /// When the queue was last no longer than it may be, or the latest attempt to shorten it.
    in_order_at: Time,
    /// How many times the queue's length it lasts: above 1 where others fill the queue meanwhile.
    stretch: f64,
    /// The floor of the delay before the latest drain for its sake, µs.
    floor_before: Option<i64>,
    began: Time,
    until: Time,
    /// Departures and delays, µs, of the last packets before it that were heard of.
    before: VecDeque<(Time, i64)>,
    /// The least delay of what left in its second half, µs.
    lowest: i64,
    is_judged: bool,
}

impl Drain {
    /// A drain before which there was none.
    pub(super) fn none(now: Time) -> Drain {
        Drain {
            due_at: now + INTERVAL,
            in_order_at: now,
            stretch: 1.0,
            floor_before: None,
            began: now,
            until: now,
            before: VecDeque::new(),
            lowest: i64::MAX,
            is_judged: true,
        }
    }

    /// Begins a drain of this length.
    pub(super) fn begin(&mut self, now: Time, span: Duration) {
        self.due_at = self.due_at.max(now + INTERVAL);
        (self.began, self.until) = (now, now + span);
        (self.lowest, self.is_judged) = (i64::MAX, false);
    }

    /// Nothing will be concluded from the drain that has begun.
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

    /// The share of the rate that it leaves.
    pub(super) fn share(&self, now: Time) -> f64 {
        if now < self.until { DRAIN_RATE } else { 1.0 }
    }

    /// The next drain for the floor's sake is due at once.
    pub(super) fn hurry(&mut self, now: Time) {
        self.due_at = now;
    }

    /// Takes the queue of a round and its target, in seconds. One that is longer than that for a quarter of
    /// [`INTERVAL`] is drained, to see whether it is one.
    pub(super) fn note_queue(&mut self, now: Time, queue: f64, target: f64) {
        if NEARLY * queue < target {
            self.in_order_at = now;
        } else if now.since(self.in_order_at) > INTERVAL / 4 {
            (self.in_order_at, self.due_at) = (now, now);
        }
    }

    /// How long to drain to see the floor of the delay, if that is due and there is a queue of so many seconds;
    /// `must_be_seen` as for [`span`].
    pub(super) fn take_due(
        &mut self,
        now: Time,
        queue: f64,
        must_be_seen: bool,
        floor: &mut DelayFloor,
    ) -> Option<Duration> {
        if now < self.due_at {
            return None;
        }
        self.due_at = now + INTERVAL;
        if queue <= STANDING {
            return None;
        }
        self.judge_reach(floor);
        Some(span(self.stretch * (queue + STILL), must_be_seen))
    }

    /// Chooses the length of the next drain for the floor's sake, by whether the last one has reached the floor.
    fn judge_reach(&mut self, floor: &mut DelayFloor) {
        if let (Some(reached), Some(before)) = (floor.latest(), self.floor_before) {
            let has_missed = (reached - before).abs() as f64 * 1e-6 > STILL;
            self.stretch *= if has_missed { LONGER } else { 1.0 / LONGER };
            self.stretch = self.stretch.clamp(1.0, LONGEST_STRETCH);
        }
        self.floor_before = floor.smallest();
        floor.forget_latest();
    }

    /// The delays of now are nothing to compare later ones with.
    pub(super) fn forget_delays(&mut self) {
        self.floor_before = None;
        self.discount();
    }

    /// Takes a report. The delays of a round before the drain are compared with those of the drain itself: the least of
    /// them, because there is jitter.
    pub(super) fn observe(&mut self, feedback: &Feedback) {
        let (departed, delay_us) = (feedback.departed, feedback.delay_us());
        if departed < self.began || self.is_judged {
            self.before.push_back((departed, delay_us));
            while self.before.front().is_some_and(|(first, _)| departed.since(*first) > SHORTEST_ROUND) {
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

    /// What it showed, once. Whether the delay moves is not told by a drain that is shorter than a round.
    pub(super) fn take_effect(&mut self) -> Option<Drained> {
        if std::mem::replace(&mut self.is_judged, true) || self.lowest == i64::MAX {
            return None;
        }
        let before = self.before.drain(..).map(|(_, delay_us)| delay_us).min()?;
        let lasted = self.until.since(self.began);
        let expected = (1.0 - DRAIN_RATE) * lasted.as_secs_f64();
        let fall = (before - self.lowest) as f64 * 1e-6;
        let is_still = lasted > SHORTEST_ROUND && fall.abs() < STILL;
        Some(Drained { response: fall / expected, is_still })
    }
}

/// How long to drain a queue that is `excess` seconds too long; longer, if its effect must be seen.
pub(super) fn span(excess: f64, must_be_seen: bool) -> Duration {
    let least = if must_be_seen { VISIBLE } else { Duration::ZERO };
    Duration::from_secs_f64(excess / (1.0 - DRAIN_RATE)).clamp(least, LONGEST)
}
