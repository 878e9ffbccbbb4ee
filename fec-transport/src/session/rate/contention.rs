//! Whether the queue is filled by ourselves, by others, or by nobody. Drains tell it, and [`Rivals`] is what they have
//! told.
//!
//! - A queue that falls by half of what it would if we were alone, or more, is ours.
//! - Where it falls by less, others fill it. Six such drains in a row open the contention: a
//!   [`Window`](super::window::Window) beside theirs, until a drain, each time the window has shrunk and every 4 s,
//!   shows that they have gone. It takes so many because sessions of ours that begin together fill a queue, too, until
//!   they have found their shares. A drain that leaves a short queue between them tells nothing: the others may have
//!   just shrunk, as TCP does all the time.
//! - Three drains in a row that move nothing show that it is no queue: the way has become longer.

use super::drain::{Drained, INTERVAL};
use crate::time::Time;

/// A queue that falls by less than this share of what it would if we were alone is filled by others.
const OURS: f64 = 0.5;
/// One drain may be misled by jitter; so many in a row that show the same are believed.
const IN_A_ROW: u32 = 3;

/// What the drains have shown of others.
#[derive(Debug, Clone, Default)]
pub(super) struct Rivals {
    /// Drains in a row that others undid, and when the latest of them was judged.
    failures: u32,
    failed_at: Time,
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
    pub(super) fn note_response(&mut self, now: Time, drained: &Drained, is_short: bool) -> bool {
        if drained.response > OURS || is_short && now.since(self.failed_at) >= INTERVAL / 8 {
            self.failures = 0;
        } else if !is_short {
            (self.failures, self.failed_at) = (self.failures + 1, now);
        }
        self.failures >= 2 * IN_A_ROW
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// Whether a contention opens with the last of these drains: when each is judged, in ms, its response, and whether
    /// it leaves a short queue.
    fn opens(drains: &[(u64, f64, bool)]) -> bool {
        let mut rivals = Rivals::default();
        let note = |(ms, response, is_short): &(u64, f64, bool)| {
            let drained = Drained { response: *response, is_still: false };
            rivals.note_response(Time::ZERO + Duration::from_millis(*ms), &drained, *is_short)
        };
        drains.iter().map(note).last().expect("a drain")
    }

    #[test]
    fn six_drains_that_others_undo_open_a_contention() {
        let undone: Vec<_> = (1..=6).map(|number| (4_000 * number, 0.1, false)).collect();
        assert!(!opens(&undone[..5]) && opens(&undone));
    }

    /// Beside CUBIC, at most round trips from 17 to 20 ms, every second drain met a window that had just shrunk. The
    /// session never contended there, and had a quarter of the link.
    #[test]
    fn drains_that_leave_a_short_queue_between_them_tell_nothing() {
        let mixed: Vec<_> = (1..=11).map(|number| (150 * number, 0.1, number % 2 == 0)).collect();
        assert!(!opens(&mixed[..10]) && opens(&mixed));
        let rare: Vec<_> = (1..=11).map(|number| (500 * number, 0.1, number % 2 == 0)).collect();
        assert!(!opens(&rare), "they are long ago");
    }

    #[test]
    fn a_queue_that_is_ours_shows_that_nobody_else_fills_it() {
        let mut drains: Vec<_> = (1..=6).map(|number| (150 * number, 0.1, false)).collect();
        drains[3].1 = 0.9;
        assert!(!opens(&drains));
    }
}
