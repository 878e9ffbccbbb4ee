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
/// A check that has seen so many packets believes what is more likely; what it has learnt weighs against as many.
pub(super) const ENOUGH: f64 = 300.0;
/// No loss is taken for smaller than one packet of [`ENOUGH`]: a few in a row on a clean link are no trend.
pub(super) const LEAST_LOSS: f64 = 1.0 / ENOUGH;
/// The rise of the loss that is to be found: these points and [`RISE_SHARE`] of the loss.
pub(super) const RISE: f64 = 0.02;
/// See [`RISE`].
const RISE_SHARE: f64 = 0.15;
/// Packets over which the own loss is averaged: so many that a rise is found before it is learnt.
pub(super) const MEMORY: f64 = 10_000.0;

/// Packets whose fate is known, and how many of them are lost.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses {
    pub(super) packets: f64,
    pub(super) lost: f64,
}

impl Losses {
    pub(super) fn of(feedback: &Feedback) -> Losses {
        Losses { packets: feedback.packets as f64, lost: feedback.lost }
    }

    /// The share that is lost, which is never believed to be all.
    pub(super) fn share(&self) -> f64 {
        (self.lost / self.packets.max(1.0)).clamp(0.0, 0.9)
    }

    /// ln P(these losses | `high`) − ln P(these losses | `low`), for independent losses.
    pub(super) fn log_likelihood_ratio(&self, low: f64, high: f64) -> f64 {
        self.lost * (high / low).ln() + (self.packets - self.lost) * ((1.0 - high) / (1.0 - low)).ln()
    }
}

impl std::ops::AddAssign for Losses {
    fn add_assign(&mut self, other: Losses) {
        self.packets += other.packets;
        self.lost += other.lost;
    }
}

/// The own loss and the test.
#[derive(Debug, Clone, Default)]
pub(crate) struct LossWatch {
    own_loss: f64,
    /// What was lost lately, whatever the reason is: the average over so many packets, [`MEMORY`] at most.
    recent: f64,
    known: f64,
    sum: f64,
    /// What was lost since the sum was last zero.
    run: Losses,
}

impl LossWatch {
    /// Takes a report; gives whether the loss has risen. While the path `is_limited_by_delay`, the loss is the link's
    /// own, and only a strong rise is worth a check, unless the rate `is_above` one at which packets were dropped.
    pub(super) fn observe(&mut self, feedback: &Feedback, is_limited_by_delay: bool, is_above: bool) -> bool {
        let losses = Losses::of(feedback);
        let low = self.own_loss.max(LEAST_LOSS);
        self.sum += losses.log_likelihood_ratio(low, risen(low)) / feedback.dispersion;
        self.run += losses;
        if self.sum <= 0.0 {
            self.quiet();
        }
        self.average(losses, is_limited_by_delay);
        self.sum > if is_limited_by_delay && !is_above { STRONG_ALARM } else { ALARM }
    }

    /// Without a queue to be seen, a slow rise may be our own doing: then the own loss only falls.
    fn average(&mut self, losses: Losses, is_limited_by_delay: bool) {
        self.known = (self.known + losses.packets).min(MEMORY);
        let weight = losses.packets / self.known.max(losses.packets);
        if is_limited_by_delay {
            self.own_loss += weight * (losses.share() - self.own_loss);
        }
        self.recent += weight * (losses.share() - self.recent);
        self.own_loss = self.own_loss.min(self.recent);
    }

    pub(super) fn own_loss(&self) -> f64 {
        self.own_loss
    }

    /// The loss since it began to rise.
    pub(super) fn risen_loss(&self) -> f64 {
        self.run.share().max(self.own_loss)
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
    pub(super) fn note_lowered_rate(&mut self, loss: f64, packets: f64) {
        let weight = packets / (packets + ENOUGH);
        self.own_loss += weight * (loss - self.own_loss);
        self.recent = self.own_loss;
        self.quiet();
    }

    fn quiet(&mut self) {
        (self.sum, self.run) = (0.0, Losses::default());
    }
}

/// A loss that has risen so far above this one that the rise is to be found.
pub(super) fn risen(loss: f64) -> f64 {
    (loss + RISE + RISE_SHARE * loss).min(0.99)
}
