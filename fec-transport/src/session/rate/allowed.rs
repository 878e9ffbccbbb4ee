//! The rate of a path beside drains and checks, and what it was when packets left.

use std::collections::VecDeque;

use super::{MAX_RATE, MIN_RATE};
use crate::time::Time;

/// So many changes of the rate are remembered: more than come in a round trip.
const REMEMBERED: usize = 64;

/// The rate of now and those of the last round trips, in bit/s: what was sent in a round is compared with what was
/// allowed.
#[derive(Debug, Clone)]
pub(super) struct AllowedRate {
    rate: f64,
    /// Since when each rate held, the oldest first; never empty.
    history: VecDeque<(Time, f64)>,
}

impl AllowedRate {
    /// A rate that holds from now on, with nothing remembered of before.
    pub(super) fn new(now: Time, rate: f64) -> AllowedRate {
        let rate = rate.clamp(MIN_RATE, MAX_RATE);
        AllowedRate { rate, history: VecDeque::from([(now, rate)]) }
    }

    pub(super) fn get(&self) -> f64 {
        self.rate
    }

    pub(super) fn set(&mut self, now: Time, rate: f64) {
        self.rate = rate.clamp(MIN_RATE, MAX_RATE);
        self.history.push_back((now, self.rate));
        if self.history.len() > REMEMBERED {
            self.history.pop_front();
        }
    }

    /// The rate when a packet left.
    pub(super) fn at(&self, when: Time) -> f64 {
        let before = self.history.iter().rev().find(|(since, _)| *since <= when);
        before.or(self.history.front()).map_or(self.rate, |(_, rate)| *rate)
    }
}
