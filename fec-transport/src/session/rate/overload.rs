//! Whether a path loses most of what it sends. Then the loss is not believed to be the link's own, whatever checks have
//! shown: among many senders none sees much of what it does itself, so each could find that the loss does not depend
//! on its rate, and all of them together would send many times what the link carries. (RFC 8084 calls what ends this a
//! circuit breaker.)

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

/// The latest rounds in a row that lost most of their packets.
#[derive(Debug, Clone, Default)]
pub(super) struct Overload {
    since: Option<Time>,
    losses: Losses,
}

impl Overload {
    /// Takes a round that saw no long queue; gives what is lost, as a share, if the path is overloaded.
    pub(super) fn observe(&mut self, now: Time, round: &Round) -> Option<f64> {
        if round.losses().share() <= TOO_MUCH {
            *self = Overload::default();
            return None;
        }
        let since = *self.since.get_or_insert(now);
        self.losses += round.losses();
        if now.since(since) < LASTING || self.losses.packets < SAMPLE as f64 {
            return None;
        }
        Some(std::mem::take(self).losses.share())
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
        (0..).zip(losses).map(|(number, lost)| overload.observe(at(number), &round(*lost))).collect()
    }

    #[test]
    fn a_path_that_loses_most_for_a_second_is_overloaded_and_told_once() {
        assert_eq!(verdicts(&[22.5, 22.5, 22.5, 22.5]), [None, None, Some(0.75), None]);
    }

    #[test]
    fn a_link_that_was_gone_for_a_moment_or_loses_half_is_none() {
        assert_eq!(verdicts(&[30.0, 30.0, 3.0, 30.0, 30.0]), [None; 5]);
        assert_eq!(verdicts(&[15.0; 9]), [None; 9]);
    }
}
