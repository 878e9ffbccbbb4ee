//! How a link loses packets: the parameters ([`LossModel`]), and what they become at work ([`LossProcess`]).
//!
//! The two are apart because models with a memory (Gilbert–Elliott, a recorded trace) keep a state per
//! direction of a link, while their parameters are shared and compared.

use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

use crate::stream::Draws;
use crate::units::Probability;

/// The law by which a link loses packets.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum LossModel {
    /// Each packet is lost with this probability, independently of the others.
    Bernoulli(Probability),
    /// Losses come in bursts.
    GilbertElliott(GilbertElliott),
    /// The fates of packets are those of a recording.
    Trace(LossTrace),
}

impl LossModel {
    /// Loses nothing.
    pub const NONE: Self = Self::Bernoulli(Probability::ZERO);

    /// The share of packets that it loses in the long run.
    pub fn mean_loss(&self) -> Probability {
        match self {
            Self::Bernoulli(probability) => *probability,
            Self::GilbertElliott(model) => model.mean_loss(),
            Self::Trace(trace) => trace.mean_loss(),
        }
    }
}

/// Bursts of loss: a Markov chain of a good and a bad state, which takes a step after each packet (E. N. Gilbert
/// 1960, E. O. Elliott 1963). It begins in its stationary distribution.
///
/// ```text
///            to_bad
///   ┌──────┐ ──────▶ ┌─────┐
///   │ good │         │ bad │    a packet is lost with loss_when_good, loss_when_bad
///   └──────┘ ◀────── └─────┘
///            to_good
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GilbertElliott {
    /// How probably the good state is followed by the bad one.
    pub to_bad: Probability,
    /// How probably the bad state is followed by the good one.
    pub to_good: Probability,
    /// The loss in the good state.
    pub loss_when_good: Probability,
    /// The loss in the bad state.
    pub loss_when_bad: Probability,
}

/// No chain has this mean loss and these bursts.
#[derive(Debug, Clone, Copy, PartialEq, Error)]
#[error(
    "no bursts of {mean_burst} packets with a loss of {loss}: the loss must be below 1, a burst at least 1 packet \
         and so long that the gaps between bursts are too, which takes loss/(1 − loss) ≤ the burst"
)]
pub struct BurstError {
    /// The share of packets lost.
    pub loss: Probability,
    /// The wanted mean length of a burst, in packets.
    pub mean_burst: f64,
}

impl GilbertElliott {
    /// Gilbert's simple model: all is lost in the bad state and nothing in the good one, so that the share `loss` of
    /// packets is lost, in bursts of `mean_burst` packets on average.
    ///
    /// ```
    /// # use netsim::{GilbertElliott, Probability};
    /// let bursts = GilbertElliott::bursts(Probability::new(0.02)?, 8.0)?;
    /// assert_eq!(bursts.to_good.get(), 0.125);
    /// assert!((bursts.mean_loss().get() - 0.02).abs() < 1e-12);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`BurstError`] where no such chain exists.
    pub fn bursts(loss: Probability, mean_burst: f64) -> Result<Self, BurstError> {
        let error = BurstError { loss, mean_burst };
        if !(mean_burst >= 1.0 && loss.get() < 1.0) {
            return Err(error);
        }
        let to_good = 1.0 / mean_burst;
        let to_bad = to_good * loss.get() / (1.0 - loss.get());
        Ok(Self {
            to_bad: Probability::new(to_bad).map_err(|_| error)?,
            to_good: Probability::new(to_good).map_err(|_| error)?,
            loss_when_good: Probability::ZERO,
            loss_when_bad: Probability::ONE,
        })
    }

    /// The share of packets that find the bad state. A chain that leaves neither state begins in the good one.
    pub fn bad_share(&self) -> Probability {
        let (to_bad, to_good) = (self.to_bad.get(), self.to_good.get());
        let share = if to_bad > 0.0 { to_bad / (to_bad + to_good) } else { 0.0 };
        Probability::new(share).unwrap_or(Probability::ZERO)
    }

    /// The share of packets that it loses.
    pub fn mean_loss(&self) -> Probability {
        let bad = self.bad_share().get();
        let loss = bad * self.loss_when_bad.get() + (1.0 - bad) * self.loss_when_good.get();
        Probability::new(loss.min(1.0)).unwrap_or(Probability::ONE)
    }

    fn loss_in(&self, is_bad: bool) -> Probability {
        if is_bad { self.loss_when_bad } else { self.loss_when_good }
    }

    fn step(&self, is_bad: bool, draw: u64) -> bool {
        if is_bad { !self.to_good.decide(draw) } else { self.to_bad.decide(draw) }
    }
}

/// A recording of which packets were lost, played over and over.
///
/// ```
/// # use netsim::LossTrace;
/// let trace: LossTrace = "0001 0000 0110 0000".parse()?;
/// assert_eq!(trace.mean_loss().get(), 3.0 / 16.0);
/// # Ok::<(), netsim::LossTraceError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LossTrace(Arc<[bool]>);

/// What is no recording of losses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum LossTraceError {
    /// It has no packet.
    #[error("a loss trace without a packet: it needs at least one 0 or 1")]
    Empty,
    /// Something else than packets stands in it.
    #[error(
        "line {line} of a loss trace: {found:?} is no fate of a packet: 0 is one that arrived, 1 one lost"
    )]
    Character {
        /// The line, counted from 1.
        line: usize,
        /// What stands there.
        found: char,
    },
}

impl LossTrace {
    /// The recording in which packet i was lost if `lost[i]`.
    ///
    /// # Errors
    /// [`LossTraceError::Empty`] without a packet.
    pub fn new(lost: impl Into<Arc<[bool]>>) -> Result<Self, LossTraceError> {
        let lost = lost.into();
        if lost.is_empty() { Err(LossTraceError::Empty) } else { Ok(Self(lost)) }
    }

    /// The fates: true for each packet that was lost.
    pub fn lost(&self) -> &[bool] {
        &self.0
    }

    /// The share of its packets that were lost.
    pub fn mean_loss(&self) -> Probability {
        let lost = self.0.iter().filter(|lost| **lost).count();
        Probability::new(lost as f64 / self.0.len() as f64).unwrap_or(Probability::ONE)
    }
}

/// A text of `0` (arrived) and `1` (lost); white space does not count.
impl FromStr for LossTrace {
    type Err = LossTraceError;

    fn from_str(text: &str) -> Result<Self, LossTraceError> {
        let mut lost = Vec::new();
        for (index, line) in text.lines().enumerate() {
            for found in line.chars().filter(|character| !character.is_whitespace()) {
                lost.push(match found {
                    '0' => false,
                    '1' => true,
                    _ => return Err(LossTraceError::Character { line: index + 1, found }),
                });
            }
        }
        Self::new(lost)
    }
}

/// A loss model at work on one direction of a link.
#[derive(Debug, Clone)]
pub(crate) struct LossProcess {
    model: LossModel,
    /// Whether a Gilbert–Elliott chain is in its bad state; unknown before the first packet.
    is_bad: Option<bool>,
    /// The next packet of a trace.
    position: usize,
}

impl LossProcess {
    pub(crate) fn new(model: LossModel) -> Self {
        Self { model, is_bad: None, position: 0 }
    }

    /// Whether the next packet is lost. It needs exactly one draw whatever the parameters, so that a change of
    /// them leaves the random stream, and with it the fate of everything else, where it was.
    pub(crate) fn loses(&mut self, draw: u64) -> bool {
        match &self.model {
            LossModel::Bernoulli(probability) => probability.decide(draw),
            LossModel::GilbertElliott(model) => {
                let mut draws = Draws::from(draw);
                let is_lost_draw = draws.next();
                let is_bad = self.is_bad.unwrap_or_else(|| model.bad_share().decide(draws.next()));
                self.is_bad = Some(model.step(is_bad, draws.next()));
                model.loss_in(is_bad).decide(is_lost_draw)
            }
            LossModel::Trace(LossTrace(lost)) => {
                let is_lost = lost[self.position];
                self.position = (self.position + 1) % lost.len();
                is_lost
            }
        }
    }
}
