//! The experiment that tells a policer's drops from a link's own loss: send less, and see whether less is lost.

use std::time::Duration;

use super::watch::{LossWatch, log_likelihood_ratio};
use super::{Feedback, RateController};
use crate::time::Time;

/// "Policed" is believed at e^2 to one, because a mistake costs some per cent of the rate for a second or two. "Own
/// loss" takes e^6, because each such mistake lets the rate climb further above what is policed …
const POLICED: f64 = -2.0;
const OWN_LOSS: f64 = 6.0;
/// … unless the delay has lately told what the path carries.
const OWN_LOSS_IF_TOLD: f64 = 3.0;
/// The rate of a check, as a share of what a policer would let pass: the loss must be seen to go.
pub(super) const CHECK_RATE: f64 = 0.9;
const LEAST_PACKETS: f64 = 30.0;
/// A loss that has grown by this factor (and three points) since the check began was still growing then.
const HIGHER: f64 = 1.15;
/// A check is late after so long and so many packets, or after the second time whatever has come: then what is more
/// likely is believed of a doubt, and "policed" of a rise. Fewer packets would tell nothing, and a verdict by default
/// would lower a slow path again and again.
const LONGEST: (Duration, Duration) = (Duration::from_millis(1_500), Duration::from_secs(6));
const LATE_PACKETS: f64 = 300.0;

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
    /// Of the rate.
    share: f64,
    /// The loss that would show a policer, and the loss that would show none.
    low: f64,
    high: f64,
    sum: f64,
    packets: f64,
    lost: f64,
    first_news: Option<Time>,
    /// What had left before it began and was heard of since: the loss at the full rate.
    before: (f64, f64),
    /// Whether the delay has lately told what the path carries.
    is_told: bool,
    /// Whether nothing has risen, and the loss is only put to the test.
    pub(super) is_doubt: bool,
}

impl Check {
    /// Because the loss has risen.
    pub(super) fn of_rise(now: Time, share: f64, watch: &LossWatch, is_told: bool) -> Check {
        Check { is_told, ..Check::new(now, share, watch.risen_loss(), watch.own_loss()) }
    }

    /// Because there is more loss than expected; `rate` is the share of what a policer would let pass.
    pub(super) fn deeper(&self, now: Time, rate: f64, watch: &LossWatch) -> Check {
        let is_at_once = self.packets == 0.0;
        let loss = if is_at_once { (self.before.1 / self.before.0).clamp(0.0, 0.9) } else { self.loss() };
        let policed = (1.0 - loss) / (1.0 - watch.own_loss());
        let relative = (rate * policed).clamp(0.05, rate);
        let share = if is_at_once { relative } else { self.share * relative };
        let check = Check::new(now, relative, loss, watch.own_loss());
        Check { is_told: self.is_told, is_doubt: self.is_doubt, share: share.max(0.01), ..check }
    }

    /// Because the loss may have been our own doing all along.
    pub(super) fn of_doubt(now: Time, share: f64, watch: &LossWatch) -> Check {
        Check { is_doubt: true, ..Check::new(now, share, watch.own_loss(), watch.least_loss()) }
    }

    fn new(now: Time, share: f64, loss: f64, least: f64) -> Check {
        let high = loss.max(0.01);
        let policed = (1.0 - (1.0 - high) / share).max(least).clamp(0.0, 0.95 * high);
        // Others who share the policer do not lower their rates: half of the fall is evidence enough.
        let low = (0.5 * (high + policed)).max(0.002);
        Check {
            since: now,
            share,
            low,
            high,
            sum: 0.0,
            packets: 0.0,
            lost: 0.0,
            first_news: None,
            before: (0.0, 0.0),
            is_told: false,
            is_doubt: false,
        }
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
        let (packets, lost) = self.before;
        packets >= LEAST_PACKETS && lost / packets > HIGHER * self.high + 0.03
    }

    pub(super) fn observe(&mut self, now: Time, feedback: &Feedback) -> Option<Verdict> {
        if feedback.departed <= self.since {
            self.before.0 += feedback.packets as f64;
            self.before.1 += feedback.lost;
            return None;
        }
        if self.first_news.is_none() && self.is_too_shallow() {
            return Some(Verdict::Deeper);
        }
        let begin = *self.first_news.get_or_insert(now);
        self.packets += feedback.packets as f64;
        self.lost += feedback.lost;
        self.sum += log_likelihood_ratio(feedback.packets as f64, feedback.lost, self.low, self.high)
            / feedback.dispersion;
        if self.packets < LEAST_PACKETS {
            return None;
        }
        let own_loss = if self.is_told { OWN_LOSS_IF_TOLD } else { OWN_LOSS };
        let span = now.since(begin);
        let is_late = span >= LONGEST.1 || (span >= LONGEST.0 && self.packets >= LATE_PACKETS);
        if self.sum > own_loss || (is_late && (self.is_told || self.is_doubt) && self.sum > 0.0) {
            let is_higher = self.loss() > HIGHER * self.high + 0.03;
            Some(if is_higher { Verdict::Deeper } else { Verdict::OwnLoss })
        } else if self.sum < POLICED || is_late {
            Some(Verdict::Policed)
        } else {
            None
        }
    }
}

impl RateController {
    /// The share of its rate at which it sends while it checks.
    pub(super) fn check_share(&self) -> Option<f64> {
        self.check.as_ref().map(Check::share)
    }

    /// Sends no more than this share of its rate, because a path over a common link checks. It concludes nothing: that its
    /// own loss does not fall with the rate would not tell why, as it has not risen.
    pub(super) fn hold(&mut self, share: Option<f64>) {
        self.held = share;
    }

    pub(super) fn begin_check(&mut self, now: Time, share: f64) {
        if self.check.is_none() {
            self.check = Some(Check::of_rise(now, share, &self.watch, self.is_told(now)));
        }
    }

    pub(super) fn begin_doubt(&mut self, now: Time) {
        if self.check.is_none() {
            let policed = (1.0 - self.watch.own_loss()) / (1.0 - self.watch.least_loss());
            let share = CHECK_RATE * policed;
            self.check = Some(Check::of_doubt(now, share, &self.watch));
        }
    }

    pub(super) fn on_check_feedback(&mut self, now: Time, feedback: &Feedback) {
        let Some(check) = &mut self.check else { return };
        let Some(verdict) = check.observe(now, feedback) else { return };
        let (share, loss, packets, is_doubt) = (check.share(), check.loss(), check.packets(), check.is_doubt);
        let deeper = check.deeper(now, CHECK_RATE, &self.watch);
        self.check = None;
        match verdict {
            Verdict::Deeper => {
                self.check = Some(deeper);
                return;
            }
            Verdict::Policed => {
                // What arrived before the check, if the loss during the check is the link's own.
                let carried = (1.0 - self.watch.risen_loss()) / (1.0 - loss);
                self.set_rate(now, self.rate * carried.clamp(share, share / CHECK_RATE));
                self.ceiling = Some(self.rate);
                self.lowered_at = now;
                self.watch.lowered(loss, packets);
            }
            Verdict::OwnLoss => {
                self.watch.learn(loss, packets);
                if is_doubt {
                    self.watch.settle();
                }
            }
        }
        self.climbing_since = None;
        self.be_blind(now);
    }
}
