//! Whether the queue is filled by ourselves, by others, or by nobody. Drains tell it, and [`Rivals`] is what they have
//! told.
//!
//! - A queue that falls by half of what it would if we were alone, or more, is ours.
//! - Where it falls by less, others fill it. Six such drains in a row open the contention: a
//!   [`Window`](super::window::Window) beside theirs, until a drain, each time the window has shrunk and every 4 s,
//!   shows that they have gone. It takes so many because sessions of ours that begin together fill a queue, too, until
//!   they have found their shares.
//! - Three drains in a row that move nothing show that it is no queue: the way has become longer.

use super::drain::Drained;

/// A queue that falls by less than this share of what it would if we were alone is filled by others.
const OURS: f64 = 0.5;
/// One drain may be misled by jitter; so many in a row that show the same are believed.
const IN_A_ROW: u32 = 3;

/// What the drains have shown of others.
#[derive(Debug, Clone, Default)]
pub(super) struct Rivals {
    /// Drains in a row that others undid.
    failures: u32,
    /// Drains in a row that moved nothing.
    unmoved: u32,
}

impl Rivals {
    /// Whether others have undone the latest drain.
    pub(super) fn are_suspected(&self) -> bool {
        self.failures > 0
    }

    /// Takes whether a drain has moved the delay; gives whether the way has become longer.
    pub(super) fn note_movement(&mut self, drained: &Drained) -> bool {
        self.unmoved = if drained.is_still { self.unmoved + 1 } else { 0 };
        self.unmoved >= IN_A_ROW
    }

    /// Takes what a drain has left of the queue; gives whether others have undone so many that it is a contention.
    pub(super) fn note_response(&mut self, drained: &Drained, is_short: bool) -> bool {
        let is_undone = drained.response <= OURS && !is_short;
        self.failures = if is_undone { self.failures + 1 } else { 0 };
        self.failures >= 2 * IN_A_ROW
    }
}
