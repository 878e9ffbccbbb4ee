//! When a report is due, and on which paths it is still to be sent.

use std::collections::VecDeque;
use std::time::Duration;

use super::intake::Intake;
use super::paths::PathId;
use super::rate::MOST_UNDER_WAY;
use crate::time::Time;
use crate::wire::report::Report;

/// Reports are no closer than this, nor, while data flows, further apart than [`LONGEST_INTERVAL`] (design §6).
const SHORTEST_INTERVAL: Duration = Duration::from_millis(2);
const LONGEST_INTERVAL: Duration = Duration::from_millis(10);
/// The longest pause while a block is incomplete and nothing arrives.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// Data that justifies a report before the longest interval is over: with two reports of 400 bytes, 2 % of it.
const BYTES_PER_REPORT: usize = 40_000;
/// A quarter of what the sender may have on the way is reported at once, or its window would close; of 4 MiB if nobody
/// knows what that is.
const SHARE_OF_WINDOW: u64 = 4;

/// The receiver's clock of reports.
#[derive(Debug)]
pub(crate) struct Reporting {
    sequence: u32,
    last: Time,
    due: Option<Time>,
    pause: Duration,
    /// Bytes that have come since the last one.
    bytes: usize,
    /// What the sender may have on the way, which reports tell.
    intake: Intake,
    /// A report that was made, and the paths on which it is still to be sent.
    pending: Option<Pending>,
    /// What a peer that breaks the rules makes of its reports.
    #[cfg(test)]
    lie: Option<Lie>,
}

#[cfg(test)]
type Lie = fn(&mut Report);

#[derive(Debug)]
struct Pending {
    report: Report,
    paths: VecDeque<PathId>,
}

impl Reporting {
    pub(crate) fn new(now: Time, intake: Intake) -> Reporting {
        Reporting {
            sequence: 0,
            last: now,
            due: None,
            pause: LONGEST_INTERVAL,
            bytes: 0,
            intake,
            pending: None,
            #[cfg(test)]
            lie: None,
        }
    }

    /// Data has arrived.
    pub(crate) fn on_data(&mut self, now: Time, bytes: usize, round_trip: Duration) {
        self.bytes += bytes;
        self.intake.on_data(bytes);
        self.pause = LONGEST_INTERVAL;
        let window = self.intake.part().unwrap_or(MOST_UNDER_WAY);
        let of_window = ((window / SHARE_OF_WINDOW) as usize).max(BYTES_PER_REPORT);
        let interval = match self.bytes {
            bytes if bytes >= of_window => Duration::ZERO,
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

    /// Whether a report is to be made now: one is due, and the one before has been sent.
    pub(crate) fn is_due(&self, now: Time) -> bool {
        self.pending.is_none() && self.due.is_some_and(|due| due <= now)
    }

    /// The report is to be sent on these paths, once on each.
    pub(crate) fn send(&mut self, report: Report, paths: VecDeque<PathId>) {
        #[cfg(test)]
        let report = {
            let mut report = report;
            self.lie.inspect(|lie| lie(&mut report));
            report
        };
        self.pending = Some(Pending { report, paths });
    }

    /// The next copy of the report that is to be sent, and on which path, if there is one.
    pub(crate) fn next_copy(&mut self) -> Option<(Option<PathId>, &Report)> {
        let Pending { report, paths } = self.pending.as_mut()?;
        Some((paths.pop_front(), report))
    }

    /// A copy was sent.
    pub(crate) fn copy_sent(&mut self) {
        self.pending = self.pending.take().filter(|pending| !pending.paths.is_empty());
    }

    /// Whether all sequence numbers were given: after 41 days at 1,200 a second.
    pub(crate) fn is_used_up(&self) -> bool {
        self.sequence == u32::MAX
    }

    /// From now on what is reported is what `lie` makes of it.
    #[cfg(test)]
    pub(super) fn falsify(&mut self, lie: Lie) {
        self.lie = Some(lie);
    }

    /// What the sender may have on the way to our sockets, in bytes, if that is known.
    pub(crate) fn intake(&mut self, now: Time) -> Option<u64> {
        self.intake.share(now)
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

    use super::super::intake::SharedIntake;

    const RTT: Duration = Duration::from_millis(50);

    fn reporting() -> Reporting {
        Reporting::new(Time::ZERO, Intake::new(SharedIntake::default()))
    }

    #[test]
    fn reports_follow_data_and_fall_silent_after_it() {
        let mut reporting = reporting();
        reporting.on_data(Time::ZERO, 100, RTT);
        assert_eq!(reporting.due(), Some(Time::ZERO + LONGEST_INTERVAL));
        reporting.on_data(Time::ZERO, BYTES_PER_REPORT, RTT);
        assert_eq!(reporting.due(), Some(Time::ZERO + RTT / 16));
        // The sockets hold 4 MiB, and a quarter of them has come.
        reporting.on_data(Time::ZERO + RTT / 32, 1 << 20, RTT);
        assert_eq!(reporting.due(), Some(Time::ZERO + RTT / 32));
        assert_eq!(reporting.next(Time::ZERO + RTT, false), 1);
        assert_eq!(reporting.due(), None);
    }

    #[test]
    fn where_the_sockets_hold_little_less_of_it_is_worth_a_report() {
        let shared = SharedIntake::default();
        shared.set_bytes(208 << 10);
        let mut reporting = Reporting::new(Time::ZERO, Intake::new(shared));
        reporting.on_data(Time::ZERO, 51 << 10, RTT);
        assert_eq!(reporting.due(), Some(Time::ZERO + RTT / 16));
        reporting.on_data(Time::ZERO, 1 << 10, RTT);
        assert_eq!(reporting.due(), Some(Time::ZERO));
        assert_eq!(reporting.intake(Time::ZERO), Some(208 << 10));
    }

    #[test]
    fn while_a_block_is_open_reports_go_on_ever_more_seldom() {
        let mut reporting = reporting();
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
