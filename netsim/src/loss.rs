//! How a link loses packets: the parameters ([`LossModel`]), and what they become at work ([`LossProcess`]).
//!
//! The two are apart because models with a memory (Gilbert–Elliott, a recorded trace) keep a state per
//! direction of a link, while their parameters are shared and compared.

use rand_core::RngCore;

use crate::units::Probability;

/// The law by which a link loses packets.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum LossModel {
    /// Each packet is lost with this probability, independently of the others.
    Bernoulli(Probability),
}

impl LossModel {
    /// Loses nothing.
    pub const NONE: Self = Self::Bernoulli(Probability::ZERO);
}

/// A loss model at work on one direction of a link.
#[derive(Debug, Clone)]
pub(crate) struct LossProcess {
    model: LossModel,
}

impl LossProcess {
    pub(crate) fn new(model: LossModel) -> Self {
        Self { model }
    }

    /// Whether the next packet is lost. It draws exactly one number whatever the parameters, so that a change of
    /// them leaves the random stream, and with it the fate of everything else, where it was.
    pub(crate) fn loses(&mut self, rng: &mut impl RngCore) -> bool {
        let draw = rng.next_u64();
        match &self.model {
            LossModel::Bernoulli(probability) => probability.decide(draw),
        }
    }
}
