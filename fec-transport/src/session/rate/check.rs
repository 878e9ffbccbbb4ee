//! The experiment that tells a policer's drops from a link's own loss: send less, and see whether less is lost.

use super::Feedback;
use super::watch::{LossWatch, log_likelihood_ratio, risen};
use crate::time::Time;

/// The verdict "policed" is believed at e^2 to one, because a mistake costs some per cent of the rate for a second or
/// two.
const POLICED: f64 = -2.0;
/// The verdict "own loss" is believed at e^6 to one, because each such mistake lets the rate climb further above what
/// is policed.
const OWN_LOSS: f64 = 6.0;
/// The rate of a check, as a share of what a policer would let pass: the loss must be seen to go.
pub(super) const CHECK_RATE: f64 = 0.9;
/// Fewer packets give no verdict.
const LEAST_EVIDENCE: f64 = 30.0;
/// A check that has seen so many packets believes what is more likely.
const ENOUGH: f64 = 300.0;

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

/// What had left before a check began and was heard of since: the loss at the full rate.
#[derive(Debug, Clone, Copy, Default)]
struct Before {
    packets: f64,
    lost: f64,
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
    packets: f64,
    lost: f64,
    before: Before,
}

impl Check {
    /// A check that begins because the loss has risen.
    pub(super) fn of_rise(now: Time, share: f64, watch: &LossWatch) -> Check {
        Check::new(now, (share, share), watch.risen_loss(), watch.own_loss())
    }

    /// A deeper check, because there is more loss than expected.
    pub(super) fn deeper(&self, now: Time, watch: &LossWatch) -> Check {
        let is_at_once = self.packets == 0.0;
        let loss =
            if is_at_once { (self.before.lost / self.before.packets).clamp(0.0, 0.9) } else { self.loss() };
        let relative = CHECK_RATE * watch.share_if_policed(loss).min(1.0);
        let share = if is_at_once { relative } else { self.share * relative };
        Check::new(now, (share, relative), loss, watch.own_loss())
    }

    /// Sends a share of the rate beside checks, which is `relative` to the rate at which so much was lost.
    fn new(now: Time, (share, relative): (f64, f64), loss: f64, least: f64) -> Check {
        let high = loss.max(0.01);
        let policed = (1.0 - (1.0 - high) / relative).max(least).clamp(0.0, 0.95 * high);
        // Others who share the policer do not lower their rates: half of the fall is evidence enough.
        let low = (0.5 * (high + policed)).max(0.002);
        Check { since: now, share, low, high, sum: 0.0, packets: 0.0, lost: 0.0, before: Before::default() }
    }

    pub(super) fn share(&self) -> f64 {
        self.share
    }

    pub(super) fn packets(&self) -> f64 {
        self.packets
    }

    /// The loss at the lower rate.
    pub(super) fn loss(&self) -> f64 {
        (self.lost / self.packets.max(1.0)).clamp(0.0, 0.9)
    }

    /// Whether more was lost at the full rate than was known when the check began: an alarm raised by the first few
    /// packets after a change cannot tell how far the loss has risen.
    fn is_too_shallow(&self) -> bool {
        let Before { packets, lost } = self.before;
        packets >= LEAST_EVIDENCE && lost / packets > risen(self.high)
    }

    pub(super) fn observe(&mut self, feedback: &Feedback) -> Option<Verdict> {
        if feedback.departed <= self.since {
            self.before.packets += feedback.packets as f64;
            self.before.lost += feedback.lost;
            return None;
        }
        if self.packets == 0.0 && self.is_too_shallow() {
            return Some(Verdict::Deeper);
        }
        self.packets += feedback.packets as f64;
        self.lost += feedback.lost;
        self.sum += log_likelihood_ratio(feedback.packets as f64, feedback.lost, self.low, self.high)
            / feedback.dispersion;
        if self.packets < LEAST_EVIDENCE {
            return None;
        }
        let is_over = self.packets >= ENOUGH;
        if self.sum > OWN_LOSS || (is_over && self.sum > 0.0) {
            Some(Verdict::OwnLoss)
        } else if self.sum < POLICED || is_over {
            Some(Verdict::Policed)
        } else {
            None
        }
    }
}
