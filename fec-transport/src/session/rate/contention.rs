//! Whether the queue is filled by ourselves, by others, or by nobody. Drains tell it, and [`Rivals`] is what they have
//! told.
//!
//! - A queue that falls by half of what it would if we were alone, or more, is ours.
//! - Where it falls by less, others fill it. Three such drains in a row open the contention: a
//!   [`Window`](super::window::Window) beside theirs, until a drain, each time the window has shrunk and every 4 s,
//!   shows that they have gone.
//! - Two drains in a row that move nothing show that it is no queue: the way has become longer.

use super::drain::Drained;

/// A queue that falls by less than this share of what it would if we were alone is filled by others.
const OURS: f64 = 0.5;
/// So many drains in a row that others undo open the contention.
const FAILURES: u32 = 3;
/// So many in a row that move nothing show that the way has become longer.
const UNMOVED: u32 = 2;

/// What the drains have shown of others.
#[derive(Debug, Clone, Default)]
pub(super) struct Rivals {
    /// Drains in a row that others undid.
    failures: u32,
    /// Drains in a row that moved nothing.
    unmoved: u32,
}

impl Rivals {
    /// How many drains in a row others undid.
    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Takes whether a drain has moved the delay; gives whether the way has become longer.
    pub(super) fn note_movement(&mut self, drained: &Drained) -> bool {
        self.unmoved = if drained.is_still { self.unmoved + 1 } else { 0 };
        self.unmoved >= UNMOVED
    }

    /// Takes what a drain has left of the queue; gives whether others have undone so many that it is a contention.
    pub(super) fn note_response(&mut self, drained: &Drained, is_short: bool) -> bool {
        let is_undone = drained.response <= OURS && !is_short;
        self.failures = if is_undone { self.failures + 1 } else { 0 };
        self.failures >= FAILURES
    }
}
