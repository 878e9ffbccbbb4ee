//! The experiment that tells a policer's drops from a link's own loss: send less, and see whether less is lost.

use super::watch::{ENOUGH, LossWatch, Losses, risen};
use super::{Feedback, LEAST_PACKETS};
use crate::time::Time;

/// A verdict is believed at e^6 to one: each "own loss" by mistake lets the rate climb further above what is policed.
const BELIEVED: f64 = 6.0;
/// The rate of a check, as a share of what a policer would let pass: the loss must be seen to go.
pub(super) const CHECK_RATE: f64 = 0.9;

/// What a check finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The loss has gone with the rate.
    Policed,
    /// The loss is the link's own.
    OwnLoss,
    /// It is higher than it was when the check began: nothing can be told but by a deeper check.
    Deeper,
}

/// A check under way.
#[derive(Debug, Clone)]
pub(super) struct Check {
    since: Time,
    /// The share of the rate at which the path sends while it checks.
    share: f64,
    /// The loss that would show a policer, and the loss that would show none.
    low: f64,
    high: f64,
    sum: f64,
    /// What is lost at the lower rate.
    losses: Losses,
    /// The same of what had left before it began and was heard of since: at the full rate.
    before: Losses,
}

impl Check {
    /// A check that begins because the loss has risen.
    pub(super) fn of_rise(now: Time, share: f64, watch: &LossWatch) -> Check {
        Check::new(now, share, watch.risen_loss(), watch.own_loss())
    }

    /// A deeper check, because more was lost before it began than its alarm knew of.
    pub(super) fn deeper(&self, now: Time, watch: &LossWatch) -> Check {
        let loss = self.before.share();
        let share = CHECK_RATE * watch.share_if_policed(loss).min(1.0);
        Check::new(now, share, loss, watch.own_loss())
    }

    /// Sends this share of the rate at which so much was lost; of that at `least` so much is the link's own.
    fn new(now: Time, share: f64, loss: f64, least: f64) -> Check {
        let high = loss.max(0.01);
        let policed = (1.0 - (1.0 - high) / share).max(least).clamp(0.0, 0.95 * high);
        // Others who share the policer do not lower their rates: half of the fall is evidence enough.
        let low = (0.5 * (high + policed)).max(0.002);
        let [losses, before] = [Losses::default(); 2];
        Check { since: now, share, low, high, sum: 0.0, losses, before }
    }

    pub(super) fn share(&self) -> f64 {
        self.share
    }

    pub(super) fn losses(&self) -> Losses {
        self.losses
    }

    /// Whether more was lost at the full rate than was known when the check began: an alarm raised by the first few
    /// packets after a change cannot tell how far the loss has risen.
    fn is_too_shallow(&self) -> bool {
        self.before.packets >= LEAST_PACKETS as f64 && self.before.share() > risen(self.high)
    }

    pub(super) fn observe(&mut self, feedback: &Feedback) -> Option<Verdict> {
        if feedback.departed <= self.since {
            self.before += Losses::of(feedback);
            return None;
        }
        if self.losses.packets == 0.0 && self.is_too_shallow() {
            return Some(Verdict::Deeper);
        }
        let losses = Losses::of(feedback);
        self.losses += losses;
        self.sum += losses.log_likelihood_ratio(self.low, self.high) / feedback.dispersion;
        let is_over = self.losses.packets >= ENOUGH;
        if self.sum > BELIEVED || (is_over && self.sum > 0.0) {
            Some(Verdict::OwnLoss)
        } else if self.sum < -BELIEVED || is_over {
            Some(Verdict::Policed)
        } else {
            None
        }
    }
}
