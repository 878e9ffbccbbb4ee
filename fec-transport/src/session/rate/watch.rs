//! The loss that a link has by itself, and a watch for more.
//!
//! A cumulative sum test (Page 1954): the log-likelihood ratio of "the loss has risen by some points" over "it is as
//! before", kept at zero from below, raises an alarm at [`ALARM`]. It needs few packets for a large rise and more for a
//! small one, whatever the rate is at which they come.

use super::Feedback;

/// The alarm is raised at e^9 to one, some ten thousand.
pub(super) const ALARM: f64 = 9.0;
/// While a queue tells what the path carries, the alarm is raised at e^30 to one.
const STRONG_ALARM: f64 = 30.0;
/// What is learnt from a check weighs against so many packets.
const WEIGHT: f64 = 300.0;
/// No loss is taken for smaller than this: a few packets lost in a row on a clean link are no trend.
pub(super) const LEAST_LOSS: f64 = 0.003;
/// The rise of the loss that is to be found: these points and [`RISE_SHARE`] of the loss.
const RISE: f64 = 0.02;
/// See [`RISE`].
const RISE_SHARE: f64 = 0.15;
/// Packets over which the own loss is averaged: so many that a rise is found before it is learnt.
pub(super) const MEMORY: f64 = 10_000.0;

/// The own loss and the test.
#[derive(Debug, Clone, Default)]
pub(crate) struct LossWatch {
    own_loss: f64,
    /// The average over [`MEMORY`].
    recent: f64,
    known: f64,
    sum: f64,
    /// Packets and losses since the sum was last zero.
    run_packets: f64,
    run_lost: f64,
}

impl LossWatch {
    /// Takes a report; gives whether the loss has risen. While the `delay_tells` what the path carries, the loss is the
    /// link's own, and only a strong rise is worth a check, unless the rate `is_above` one at which packets were
    /// dropped.
    pub(super) fn observe(&mut self, feedback: &Feedback, delay_tells: bool, is_above: bool) -> bool {
        let (packets, lost) = (feedback.packets as f64, feedback.lost);
        let low = self.own_loss.max(LEAST_LOSS);
        let high = risen(low);
        let ratio = log_likelihood_ratio(packets, lost, low, high) / feedback.dispersion;
        self.sum += ratio;
        self.run_packets += packets;
        self.run_lost += lost;
        if self.sum <= 0.0 {
            self.quiet();
        }
        self.average(packets, lost, delay_tells);
        self.sum > if delay_tells && !is_above { STRONG_ALARM } else { ALARM }
    }

    /// Without a queue to be seen, a slow rise may be our own doing: then the average only falls.
    fn average(&mut self, packets: f64, lost: f64, delay_tells: bool) {
        self.known = (self.known + packets).min(MEMORY);
        let share = (lost / packets.max(1.0)).clamp(0.0, 1.0);
        if delay_tells {
            self.own_loss += packets / self.known.max(packets) * (share - self.own_loss);
        }
        self.recent += packets / self.known.max(packets) * (share - self.recent);
        self.own_loss = self.own_loss.min(self.recent);
    }

    pub(super) fn own_loss(&self) -> f64 {
        self.own_loss.min(0.9)
    }

    /// The loss since it began to rise.
    pub(super) fn risen_loss(&self) -> f64 {
        (self.run_lost / self.run_packets.max(1.0)).clamp(self.own_loss(), 0.95)
    }

    /// The share of the rate at which a policer would drop nothing more, if it dropped all of this `loss` that is not
    /// the link's own.
    pub(super) fn share_if_policed(&self, loss: f64) -> f64 {
        (1.0 - loss) / (1.0 - self.own_loss())
    }

    /// The own loss turned out to be this, over so many `packets`.
    pub(super) fn learn(&mut self, loss: f64, packets: f64) {
        (self.own_loss, self.recent) = (loss, loss);
        self.known = packets.min(MEMORY);
        self.quiet();
    }

    /// The rate was lowered, and of so many `packets` this share was lost.
    pub(super) fn lowered(&mut self, loss: f64, packets: f64) {
        let weight = packets / (packets + WEIGHT);
        self.own_loss += weight * (loss - self.own_loss);
        self.recent = self.own_loss;
        self.quiet();
    }

    fn quiet(&mut self) {
        (self.sum, self.run_packets, self.run_lost) = (0.0, 0.0, 0.0);
    }
}

/// A loss that has risen so far above this one that the rise is to be found.
pub(super) fn risen(loss: f64) -> f64 {
    (loss + RISE + RISE_SHARE * loss).min(0.99)
}

/// ln P(the losses | `high`) − ln P(the losses | `low`), for independent losses.
pub(super) fn log_likelihood_ratio(packets: f64, lost: f64, low: f64, high: f64) -> f64 {
    lost * (high / low).ln() + (packets - lost) * ((1.0 - high) / (1.0 - low)).ln()
}
