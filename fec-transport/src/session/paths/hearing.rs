//! What is heard of the peer over all paths together, and what it means if that is nothing.
//!
//! A dead path is found out by the reports that come over the others. When all of them die at once, no report comes,
//! and until the probes of a second or two have told, everything that is sent would be lost. So the symbols that leave
//! are remembered until something arrives that left the peer after they could have: if many of them were due for longer
//! than the silence of a dead path, and nothing at all was heard meanwhile, nothing more is sent but probes
//! (docs/decisions/outages.md).

use std::collections::VecDeque;
use std::time::Duration;

use crate::config::Liveness;
use crate::time::Time;

/// The peer reports on symbols within this time of their arrival.
const LONGEST_REPORT_INTERVAL: Duration = Duration::from_millis(10);
/// Runs of symbols that are remembered at most: more than leave in the silence that ends in a hush.
const MAX_REMEMBERED: usize = 4_096;
/// A silence of all paths that is longer than this says nothing against any of them.
const OUTAGE: Duration = Duration::from_secs(1);

/// A hush that is over so soon after the last word may have been a mistake: some reports in a row were lost.
const MISTAKE: Duration = Duration::from_millis(120);

/// In vain was asked so often, over so many paths, since something was heard last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Asked {
    pub(crate) probes: u64,
    pub(crate) paths: usize,
}

/// What was heard of the peer, over whatever path, and what was sent since.
#[derive(Debug)]
pub(super) struct Hearing {
    latest: Time,
    /// When the latest outage of all paths ended.
    outage_ended: Time,
    /// Probes that left since something was heard.
    probes: u64,
    /// Runs of symbols of which nothing can have been heard yet, in the order in which they left.
    unanswered: VecDeque<Unanswered>,
    /// Whether nothing but probes is sent until something is heard.
    is_hushed: bool,
}

/// Symbols that left together.
#[derive(Debug, Clone, Copy)]
struct Unanswered {
    left: Time,
    /// When a report on them is due.
    due: Time,
    /// The logarithm of the probability that chance loses them all.
    log_loss: f64,
}

impl Hearing {
    pub(super) fn new(now: Time) -> Hearing {
        Hearing { latest: now, outage_ended: now, probes: 0, unanswered: VecDeque::new(), is_hushed: false }
    }

    /// When something was heard last.
    pub(super) fn latest(&self) -> Time {
        self.latest
    }

    /// Since when a path on which something was heard last at `last_heard` has been silent, not counting a time in
    /// which all paths were.
    pub(super) fn silent_since(&self, last_heard: Time) -> Time {
        last_heard.max(self.outage_ended)
    }

    /// Probes that left since something was heard.
    pub(super) fn probes(&self) -> u64 {
        self.probes
    }

    /// A probe leaves.
    pub(super) fn probe_sent(&mut self) {
        self.probes += 1;
    }

    /// Symbols leave, all of which chance loses with the probability whose logarithm is `log_loss`, on a path whose
    /// round trip is at most `round_trip`.
    pub(super) fn symbols_sent(&mut self, now: Time, round_trip: Duration, log_loss: f64) {
        if self.unanswered.len() == MAX_REMEMBERED {
            self.unanswered.pop_front();
        }
        let due = now + round_trip + LONGEST_REPORT_INTERVAL;
        self.unanswered.push_back(Unanswered { left: now, due, log_loss });
    }

    /// Something has arrived; `quickest` tells how quickly an answer may come. What left longer ago may have been
    /// answered. Says whether a hush is over that was no mistake.
    pub(super) fn heard(&mut self, now: Time, quickest: impl FnOnce() -> Duration) -> bool {
        let silence = now.since(std::mem::replace(&mut self.latest, now));
        if silence > OUTAGE {
            self.outage_ended = now;
        }
        self.probes = 0;
        let was_hushed = std::mem::take(&mut self.is_hushed);
        if !self.unanswered.is_empty() {
            let quickest = quickest();
            while self.unanswered.front().is_some_and(|sent| sent.left + quickest <= now) {
                self.unanswered.pop_front();
            }
        }
        was_hushed && silence > MISTAKE
    }

    /// Everything that was sent is acknowledged.
    pub(super) fn all_answered(&mut self) {
        self.unanswered.clear();
    }

    /// Why nothing was heard of what was sent until now is known, and it was no outage.
    pub(super) fn excuse(&mut self) {
        self.unanswered.clear();
        self.is_hushed = false;
    }

    /// Whether nothing but probes is to be sent.
    pub(super) fn is_hushed(&self) -> bool {
        self.is_hushed
    }

    /// Whether nothing but probes is to be sent from now on: nothing was heard although chance does not explain that
    /// none of the symbols arrived of which something was due.
    pub(super) fn falls_silent(&mut self, now: Time, liveness: &Liveness) -> bool {
        if self.is_hushed || !liveness.removal || now.since(self.latest) < liveness.silence {
            return false;
        }
        let overdue = self.unanswered.iter().filter(|sent| sent.due + liveness.silence <= now);
        self.is_hushed = overdue.map(|sent| sent.log_loss).sum::<f64>() <= liveness.doubt.ln();
        self.is_hushed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(50);

    fn at(ms: u64) -> Time {
        Time::ZERO + Duration::from_millis(ms)
    }

    /// A symbol leaves each millisecond on a path that loses one in a hundred; each packet heard is at a millisecond.
    fn hushed_at(last_heard: u64, until: u64) -> Option<u64> {
        let (liveness, mut hearing) = (Liveness::default(), Hearing::new(Time::ZERO));
        for ms in 0..until {
            hearing.symbols_sent(at(ms), RTT, 0.01_f64.ln());
            if ms <= last_heard {
                hearing.heard(at(ms), || RTT);
            }
            if hearing.falls_silent(at(ms), &liveness) {
                return Some(ms);
            }
        }
        None
    }

    #[test]
    fn who_sends_all_the_time_falls_silent_soon_after_the_last_word_whatever_the_round_trip() {
        // 60 ms of silence, 10 ms for the report, three symbols that chance does not lose together.
        assert_eq!(hushed_at(1_000, 2_000), Some(1_073));
        assert_eq!(hushed_at(2_000, 2_000), None);
    }

    #[test]
    fn what_leaves_after_a_pause_is_not_expected_back_before_a_round_trip() {
        let (liveness, mut hearing) = (Liveness::default(), Hearing::new(Time::ZERO));
        hearing.symbols_sent(at(0), RTT, -100.0);
        hearing.heard(at(55), || RTT);
        for ms in 5_000..5_000 + 119 {
            hearing.symbols_sent(at(ms), RTT, -100.0);
            assert!(!hearing.falls_silent(at(ms), &liveness), "{ms}");
        }
        assert!(hearing.falls_silent(at(5_120), &liveness));
        assert!(hearing.heard(at(5_200), || RTT) && !hearing.is_hushed());
        assert!(!hearing.heard(at(5_201), || RTT));
    }

    #[test]
    fn a_lost_symbol_is_no_outage() {
        let (liveness, mut hearing) = (Liveness::default(), Hearing::new(Time::ZERO));
        hearing.symbols_sent(at(0), RTT, 0.01_f64.ln());
        assert!(!hearing.falls_silent(at(10_000), &liveness));
    }

    #[test]
    fn an_outage_of_everything_speaks_against_no_path() {
        let mut hearing = Hearing::new(Time::ZERO);
        hearing.heard(at(500), || RTT);
        assert_eq!(hearing.silent_since(at(100)), at(100));
        hearing.probe_sent();
        hearing.heard(at(60_000), || RTT);
        assert_eq!((hearing.silent_since(at(100)), hearing.probes()), (at(60_000), 0));
    }
}
