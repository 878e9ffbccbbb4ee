//! What has arrived over a path.

use crate::crypto::replay::ReplayWindow;
use crate::time::Time;

/// What has arrived over a path.
#[derive(Debug)]
pub(crate) struct Arrivals {
    window: ReplayWindow,
    /// The packet with the highest number.
    highest: Option<Arrival>,
    count: u64,
    last_heard: Time,
}

/// A packet that has arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) number: u64,
    pub(super) at: Time,
}

impl Arrivals {
    pub(super) fn new(now: Time) -> Arrivals {
        Arrivals { window: ReplayWindow::new(), highest: None, count: 0, last_heard: now }
    }

    /// Whether a packet of this number has not arrived yet, as far as can be told.
    pub(super) fn is_fresh(&self, number: u64) -> bool {
        self.window.is_fresh(number)
    }

    /// A packet has arrived whose seal was right.
    pub(super) fn note(&mut self, now: Time, number: u64) {
        self.window.mark(number);
        self.count += 1;
        self.last_heard = now;
        if self.highest.is_none_or(|highest| number > highest.number) {
            self.highest = Some(Arrival { number, at: now });
        }
    }

    /// The packet with the highest number.
    pub(super) fn highest(&self) -> Option<Arrival> {
        self.highest
    }

    /// How many packets have arrived.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// When the latest one did; before, when the path was set up.
    pub(super) fn last_heard(&self) -> Time {
        self.last_heard
    }
}
