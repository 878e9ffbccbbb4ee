//! Whether a path loses most of what it sends. Then the loss is not believed to be the link's own, whatever checks have
//! shown: among many senders none sees much of what it does itself, so each could find that the loss does not depend
//! on its rate, and all of them together would send many times what the link carries. (RFC 8084 calls what ends this a
//! circuit breaker.) Such a path goes on with what arrives, and does not climb until less is lost.

use std::time::Duration;

use super::SAMPLE;
use super::round::Round;
use super::watch::Losses;
use crate::time::Time;

/// A path that loses more than this share of what it sends is overloaded.
pub(super) const TOO_MUCH: f64 = 0.5;
/// The loss has to last for so long: a link that was gone for a moment is not overloaded, and a disturbance that passes
/// is to cost little.
const LASTING: Duration = Duration::from_secs(1);

/// Whether more is lost than a path may lose.
pub(super) fn is_too_much(losses: &Losses) -> bool {
    losses.share() > TOO_MUCH
}

/// The latest rounds in a row that lost most of their packets.
#[derive(Debug, Clone, Default)]
pub(super) struct Overload {
    since: Option<Time>,
    losses: Losses,
    /// Whether they have been told of. What is lost still is not of this path's making: it sends less, and does not
    /// climb.
    is_told: bool,
}

impl Overload {
    /// Takes a round that saw no long queue; gives what is lost, once the path is overloaded.
    pub(super) fn observe(&mut self, now: Time, round: &Round) -> Option<Losses> {
        if !is_too_much(&round.losses()) {
            *self = Overload::default();
            return None;
        }
        if self.is_told {
            return None;
        }
        let since = *self.since.get_or_insert(now);
        self.losses += round.losses();
        self.is_told = now.since(since) >= LASTING && self.losses.packets >= SAMPLE as f64;
        self.is_told.then_some(self.losses)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::rate::Feedback;
    use crate::session::rate::tests::feedback;

    /// A round of thirty packets, of which so many are lost.
    fn round(lost: f64) -> Round {
        let mut round = Round::default();
        round.restart(&feedback(0));
        (1..=3).for_each(|number| {
            round.observe(&Feedback { lost: lost / 3.0, ..feedback(number) }, 0.0, 1e6);
        });
        round
    }

    /// What is said of rounds that lose so much, half a second apart.
    fn verdicts(losses: &[f64]) -> Vec<Option<f64>> {
        let mut overload = Overload::default();
        let at = |number: u32| Time::ZERO + number * Duration::from_millis(500);
        let observe = |(number, lost): (u32, &f64)| overload.observe(at(number), &round(*lost));
        (0..).zip(losses).map(observe).map(|told| told.map(|losses| losses.share())).collect()
    }

    #[test]
    fn a_path_that_loses_most_for_a_second_is_overloaded_and_told_once() {
        let mut losses = vec![22.5; 9];
        let mut told = vec![None; 9];
        told[2] = Some(0.75);
        assert_eq!(verdicts(&losses), told);
        // Another overload is told again.
        losses.extend([3.0, 22.5, 22.5, 22.5]);
        told.extend([None, None, None, Some(0.75)]);
        assert_eq!(verdicts(&losses), told);
    }

    #[test]
    fn a_link_that_was_gone_for_a_moment_or_loses_half_is_none() {
        assert_eq!(verdicts(&[30.0, 30.0, 3.0, 30.0, 30.0]), [None; 5]);
        assert_eq!(verdicts(&[15.0; 9]), [None; 9]);
    }
}
