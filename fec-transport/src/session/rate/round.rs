//! What the reports of one round tell together.

use std::time::Duration;

use super::watch::Losses;
use super::{Feedback, NEARLY};
use crate::time::Time;

/// A queue of this many seconds stands.
pub(super) const STANDING: f64 = 0.002;
/// A report that was delayed by more than this share of the round, beyond the others, does not end it: what arrived
/// would be counted over the pause of a process. Should it be a queue that grows so fast, the round ends at twice its
/// length.
const SPIKE: f64 = 0.25;

/// Sums over reports; the first one only sets the marks from which it counts.
#[derive(Debug, Clone, Default)]
pub(super) struct Round {
    begin: Option<(Time, u64)>,
    end: (Time, u64),
    losses: Losses,
    bytes: f64,
    queue: f64,
    /// The least difference of the clocks at departure and arrival, µs.
    least_delay: Option<i64>,
    least_queue: Option<f64>,
    allowed: f64,
    reports: f64,
    /// Since when a queue stands: arrival, µs, and bytes before it.
    standing_from: Option<(u64, f64)>,
    /// Whether pauses were left out in which there was nothing to send.
    has_paused: bool,
}

impl Round {
    /// Begins anew behind this report.
    pub(super) fn restart(&mut self, feedback: &Feedback) {
        let mark = (feedback.departed, feedback.arrived_us);
        *self = Round { begin: Some(mark), end: mark, least_delay: Some(delay(mark)), ..Round::default() };
    }

    /// Adds what a report tells: the queue in seconds, and the rate that was `allowed` when the packet left.
    pub(super) fn observe(&mut self, feedback: &Feedback, queue: f64, allowed: f64) {
        if self.begin.is_none() {
            return self.restart(feedback);
        }
        self.end = (feedback.departed, feedback.arrived_us);
        self.least_delay = self.least_delay.min(Some(delay(self.end)));
        self.losses += Losses::of(feedback);
        self.bytes += feedback.bytes;
        self.queue += queue;
        self.least_queue = Some(self.least_queue.map_or(queue, |least| least.min(queue)));
        self.allowed += allowed;
        self.reports += 1.0;
        if queue < STANDING {
            self.standing_from = None;
        } else if self.standing_from.is_none() {
            self.standing_from = Some((feedback.arrived_us, self.bytes));
        }
    }

    /// As [`observe`](Self::observe), but pauses are left out in which there was nothing to send.
    pub(super) fn observe_bursts(&mut self, feedback: &Feedback, queue: f64, allowed: f64) {
        if self.is_paused_before(feedback, allowed) {
            self.leave_out(feedback);
        } else {
            self.observe(feedback, queue, allowed);
        }
    }

    /// Whether there was nothing to send for a while before these packets, which were `allowed` that rate: for longer
    /// than what would be no queue.
    fn is_paused_before(&self, feedback: &Feedback, allowed: f64) -> bool {
        let (since, took) = (feedback.departed.since(self.end.0), feedback.bytes * 8.0 / allowed);
        feedback.is_after_idleness && self.begin.is_some() && since.as_secs_f64() > took + STANDING
    }

    /// The round goes on behind this report, as if neither its packets nor the time since the one before had been.
    fn leave_out(&mut self, feedback: &Feedback) {
        let Some((departed, arrived_us)) = &mut self.begin else { return };
        *departed += feedback.departed.since(self.end.0);
        *arrived_us += feedback.arrived_us.saturating_sub(self.end.1);
        self.end = (feedback.departed, feedback.arrived_us);
        (self.standing_from, self.has_paused) = (None, true);
    }

    pub(super) fn is_over(&self, span: Duration, packets: u64) -> bool {
        let (span, arrival_span) = (span.as_secs_f64(), self.arrival_span());
        self.losses.packets >= packets as f64
            && arrival_span >= span
            && (!self.ends_in_spike() || arrival_span >= 2.0 * span)
    }

    /// Whether the latest report was delayed much longer than another one of the round.
    fn ends_in_spike(&self) -> bool {
        let excess = self.least_delay.map_or(0, |least| delay(self.end) - least);
        excess as f64 * 1e-6 > SPIKE * self.arrival_span()
    }

    /// How long it lasted where packets arrive, in seconds.
    pub(super) fn arrival_span(&self) -> f64 {
        self.begin.map_or(0.0, |(_, from)| self.end.1.saturating_sub(from) as f64 * 1e-6)
    }

    fn departure_span(&self) -> f64 {
        self.begin.map_or(0.0, |(from, _)| self.end.0.since(from).as_secs_f64())
    }

    /// When the latest packet that was reported left.
    pub(super) fn latest_departure(&self) -> Time {
        self.end.0
    }

    /// Bits per second that left.
    pub(super) fn sent_rate(&self) -> f64 {
        self.bytes * 8.0 / self.departure_span().max(1e-4)
    }

    /// Bits per second at the bottleneck, those lost behind it included.
    pub(super) fn number_rate(&self) -> f64 {
        self.bytes * 8.0 / self.arrival_span().max(1e-4)
    }

    /// For how long a queue stands by now.
    pub(super) fn stood_for(&self) -> Duration {
        self.standing_from
            .map_or(Duration::ZERO, |(from, _)| Duration::from_micros(self.end.1.saturating_sub(from)))
    }

    /// Bits per second at the bottleneck since a queue stands.
    pub(super) fn number_rate_of_queue(&self) -> f64 {
        match self.standing_from {
            Some((from, bytes)) if self.end.1 > from + 1_000 => {
                (self.bytes - bytes) * 8e6 / (self.end.1 - from) as f64
            }
            _ => self.number_rate(),
        }
    }

    pub(super) fn losses(&self) -> Losses {
        self.losses
    }

    /// Departure over arrival time: below 1 while a queue grows.
    pub(super) fn stretch(&self) -> f64 {
        self.departure_span() / self.arrival_span().max(1e-4)
    }

    /// The queue that stood throughout, in seconds. What comes and goes within a round is no queue of ours: a process
    /// that did not run, a burst of others.
    pub(super) fn standing_queue(&self) -> f64 {
        self.least_queue.unwrap_or(0.0)
    }

    /// Whether a queue stood throughout.
    pub(super) fn has_queue(&self) -> bool {
        self.standing_queue() > STANDING
    }

    /// Whether nothing was lost, and no queue stood, neither on average nor in the end.
    pub(super) fn is_clear(&self) -> bool {
        self.losses.lost <= 0.0 && self.standing_from.is_none() && self.mean_queue() < STANDING
    }

    /// The mean queue, in seconds.
    pub(super) fn mean_queue(&self) -> f64 {
        self.queue / self.reports.max(1.0)
    }

    /// The mean of the rates that the packets were allowed.
    pub(super) fn allowed_rate(&self) -> f64 {
        self.allowed / self.reports.max(1.0)
    }

    /// Whether the path sent about what it was allowed.
    pub(super) fn is_busy(&self) -> bool {
        self.uses(NEARLY)
    }

    /// Whether the path has carried what it was allowed while there was something to send. In a round with pauses no
    /// queue becomes long enough to tell of a limit. What tells of one there is that packets take longer to arrive than
    /// they took to leave.
    pub(super) fn has_carried(&self) -> bool {
        self.is_busy() && (!self.has_paused || self.stretch() > NEARLY)
    }

    /// Whether the path sent more than this share of what it was allowed.
    pub(super) fn uses(&self, share: f64) -> bool {
        self.bytes * 8.0 > share * self.allowed_rate() * self.departure_span()
    }
}

/// What a mark tells of the time on the way, µs: the clocks differ, too.
fn delay((departed, arrived_us): (Time, u64)) -> i64 {
    arrived_us as i64 - departed.as_micros() as i64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::rate::tests::feedback;

    /// Reports every 10 ms, delayed by so many ms; gives after how many the round of 20 ms is over.
    fn length_of_round(delays: &[u64]) -> Option<usize> {
        let mut round = Round::default();
        let report = |(number, delay): (u64, &u64)| {
            let report = feedback(number);
            Feedback { arrived_us: report.arrived_us + 1_000 * delay, ..report }
        };
        (0..).zip(delays).map(report).position(|report| {
            round.observe(&report, 0.0, 1e6);
            round.is_over(Duration::from_millis(20), 16)
        })
    }

    /// At 100 Mbit/s a round that ended with a pause of the peer once halved the rate, and the one that began there
    /// doubled it.
    #[test]
    fn a_round_does_not_end_with_the_pause_of_a_process() {
        assert_eq!(length_of_round(&[0, 0, 0, 0]), Some(2));
        assert_eq!(length_of_round(&[0, 0, 12, 0]), Some(3));
        // One report after a long pause, and the next one.
        assert_eq!(length_of_round(&[0, 25, 15, 0]), Some(3));
        // A queue that grows as fast as we send.
        assert_eq!(length_of_round(&[0, 10, 20, 30, 40]), Some(2));
    }

    #[test]
    fn what_comes_and_goes_within_a_round_is_no_standing_queue() {
        let mut round = Round::default();
        round.restart(&feedback(0));
        for (number, queue) in (1..).zip([0.02, 0.001, 0.012]) {
            round.observe(&feedback(number), queue, 1e6);
        }
        assert_eq!(round.standing_queue(), 0.001);
        assert!((round.mean_queue() - 0.011).abs() < 1e-9);
    }
}
