//! When a report is due.

use std::time::Duration;

use crate::time::Time;

/// Reports are no closer than this, nor, while data flows, further apart than [`LONGEST_INTERVAL`] (design §6).
const SHORTEST_INTERVAL: Duration = Duration::from_millis(2);
const LONGEST_INTERVAL: Duration = Duration::from_millis(10);
/// The longest pause while a block is incomplete and nothing arrives.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Data that justifies a report before the longest interval is over: with two reports of 400 bytes, 2 % of it.
const BYTES_PER_REPORT: usize = 40_000;
/// So much data is reported at once, or the sender's window would close: a quarter of it.
const BYTES_OF_WINDOW: usize = 1 << 20;

/// The receiver's clock of reports.
#[derive(Debug)]
pub(crate) struct Reporting {
    sequence: u32,
    last: Time,
    due: Option<Time>,
    pause: Duration,
    bytes: usize,
}

impl Reporting {
    pub(crate) fn new(now: Time) -> Reporting {
        Reporting { sequence: 0, last: now, due: None, pause: LONGEST_INTERVAL, bytes: 0 }
    }

    /// Data has arrived.
    pub(crate) fn on_data(&mut self, now: Time, bytes: usize, round_trip: Duration) {
        self.bytes += bytes;
        self.pause = LONGEST_INTERVAL;
        let interval = match self.bytes {
            BYTES_OF_WINDOW.. => Duration::ZERO,
            BYTES_PER_REPORT.. => (round_trip / 16).clamp(SHORTEST_INTERVAL, LONGEST_INTERVAL),
            _ => LONGEST_INTERVAL,
        };
        let due = (self.last + interval).max(now);
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    /// There is news that the sender waits for.
    pub(crate) fn hurry(&mut self, now: Time) {
        let due = (self.last + SHORTEST_INTERVAL).max(now);
        self.due = Some(self.due.map_or(due, |earlier| earlier.min(due)));
    }

    pub(crate) fn due(&self) -> Option<Time> {
        self.due
    }

    /// Whether all sequence numbers were given: after 41 days at 1,200 a second.
    pub(crate) fn is_used_up(&self) -> bool {
        self.sequence == u32::MAX
    }

    #[cfg(test)]
    pub(super) fn use_up(&mut self) {
        self.sequence = u32::MAX;
    }

    /// A report is made now; gives its sequence number. While a block is `incomplete` another one follows even if
    /// nothing arrives, ever more seldom.
    pub(crate) fn next(&mut self, now: Time, incomplete: bool) -> u32 {
        self.sequence += 1;
        (self.last, self.bytes) = (now, 0);
        self.due = incomplete.then(|| now + self.pause);
        self.pause = (self.pause * 2).min(LONGEST_PAUSE);
        self.sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    #[test]
    fn reports_follow_data_and_fall_silent_after_it() {
        let mut reporting = Reporting::new(Time::ZERO);
        reporting.on_data(Time::ZERO, 100, RTT);
        assert_eq!(reporting.due(), Some(Time::ZERO + LONGEST_INTERVAL));
        reporting.on_data(Time::ZERO, BYTES_PER_REPORT, RTT);
        assert_eq!(reporting.due(), Some(Time::ZERO + RTT / 16));
        reporting.on_data(Time::ZERO + RTT / 32, BYTES_OF_WINDOW, RTT);
        assert_eq!(reporting.due(), Some(Time::ZERO + RTT / 32));
        assert_eq!(reporting.next(Time::ZERO + RTT, false), 1);
        assert_eq!(reporting.due(), None);
    }

    #[test]
    fn while_a_block_is_open_reports_go_on_ever_more_seldom() {
        let mut reporting = Reporting::new(Time::ZERO);
        let mut now = Time::ZERO;
        let mut pauses = Vec::new();
        for _ in 0..12 {
            reporting.next(now, true);
            let due = reporting.due().expect("a block is open");
            pauses.push(due.since(now));
            now = due;
        }
        assert!(pauses.is_sorted() && pauses[11] == LONGEST_PAUSE);
    }
}
