//! Whether the queue is filled by ourselves, by others, or by nobody. Drains tell it, and [`Rivals`] is what they have
//! told.
//!
//! - A queue that falls by half of what it would if we were alone, or more, is ours.
//! - Where it falls by less, others fill it. Three such drains in a row open the contention: a [`Window`] beside
//!   theirs, until a drain, each time the window has shrunk and every 4 s, shows that they have gone. For 15 s after
//!   that a single failure opens it again.
//! - Two drains in a row that move nothing show that it is no queue: the way has become longer.

use std::time::Duration;

use super::drain::Drained;
use super::window::Window;
use crate::time::Time;

/// A queue that falls by less than this share of what it would if we were alone is filled by others.
const OURS: f64 = 0.5;
/// So many drains in a row that others undo open the contention.
const FAILURES: u32 = 3;
/// For so long after the last contention a single drain that others undo opens it again.
const SOON: Duration = Duration::from_secs(15);
/// So many in a row that move nothing show that the way has become longer.
const UNMOVED: u32 = 2;
/// A queue that has been so many times its target for [`PATIENCE`] is drained ahead of its time.
const EXCESSIVE: f64 = 1.5;
/// See [`EXCESSIVE`].
const PATIENCE: Duration = Duration::from_secs(1);

/// What the drains have shown of others.
#[derive(Debug, Clone, Default)]
pub(super) struct Rivals {
    /// Drains in a row that others undid.
    failures: u32,
    /// Drains in a row that moved nothing.
    unmoved: u32,
    excess: Option<Excess>,
    /// The latest contention.
    closed: Option<Closed>,
}

/// A queue that has been too long for some time.
#[derive(Debug, Clone, Copy)]
struct Excess {
    /// Since when, or since which attempt to shorten it.
    since: Time,
    /// The rate before, in bit/s.
    rate: f64,
}

/// A contention that is over.
#[derive(Debug, Clone)]
struct Closed {
    at: Time,
    window: Window,
}

impl Rivals {
    /// How many drains in a row others undid.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Takes the queue of a round and its target, in seconds; gives whether it has stayed too long, whatever we did, to
    /// wait any longer.
    pub(super) fn note_queue(&mut self, now: Time, queue: f64, target: f64, rate: f64) -> bool {
        if queue < EXCESSIVE * target {
            self.excess = None;
            return false;
        }
        let excess = self.excess.get_or_insert(Excess { since: now, rate });
        let is_over = now.since(excess.since) > PATIENCE;
        if is_over {
            excess.since = now;
        }
        is_over
    }

    /// Takes whether a drain has moved the delay; gives whether the way has become longer.
    pub(super) fn note_movement(&mut self, drained: &Drained) -> bool {
        self.unmoved = if drained.is_still { self.unmoved + 1 } else { 0 };
        self.unmoved >= UNMOVED
    }

    /// Takes what a drain has left of the queue; gives whether others have undone it.
    pub(super) fn note_response(&mut self, drained: &Drained, is_short: bool) -> bool {
        let is_undone = drained.response <= OURS && !is_short;
        self.failures = if is_undone { self.failures + 1 } else { 0 };
        is_undone
    }

    /// The window of a contention that is to be opened now, if one is; it is the last one if that was closed not long
    /// ago.
    pub(super) fn open(&mut self, now: Time, anew: impl FnOnce() -> Window) -> Option<Window> {
        let closed = self.closed.take().filter(|closed| now.since(closed.at) < SOON);
        if self.failures < FAILURES && closed.is_none() {
            return None;
        }
        self.failures = 0;
        Some(closed.map_or_else(anew, |closed| closed.window.resume(now)))
    }

    /// The contention is over.
    pub(super) fn close(&mut self, now: Time, window: Window) {
        self.closed = Some(Closed { at: now, window });
    }

    /// What looked like a queue was none, and nothing that it showed of others holds. Gives the rate before it, in
    /// bit/s.
    pub(super) fn forget(&mut self) -> Option<f64> {
        std::mem::take(self).excess.map(|excess| excess.rate)
    }
}
