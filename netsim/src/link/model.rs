//! The parameters of one direction of a link.

use std::time::Duration;

use crate::loss::LossModel;
use crate::units::{Probability, Rate};

/// What IPv4 (20 bytes) and UDP (8 bytes) add to each payload.
pub const IPV4_UDP_HEADER_BYTES: u32 = 28;

/// A queue of this long at the link's rate is what [`LinkModel::new`] gives.
pub const DEFAULT_QUEUE_TIME: Duration = Duration::from_millis(50);

/// Slow links still hold a burst of this many bytes, sixteen full packets.
const LEAST_DEFAULT_QUEUE_BYTES: u64 = 24_000;

/// The parameters of one direction of a link.
///
/// ```
/// # use netsim::{LinkModel, Probability, Rate};
/// # use std::time::Duration;
/// let model = LinkModel::new(Rate::from_mbit(50), Duration::from_millis(20))
///     .with_loss(Probability::new(0.02)?)
///     .with_jitter(Duration::from_millis(1));
/// assert_eq!(model.queue_bytes, 312_500);
/// # Ok::<(), netsim::UnitError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct LinkModel {
    /// How fast packets leave the queue, headers counted.
    pub rate: Rate,
    /// Propagation delay: from the last bit sent to the packet received.
    pub delay: Duration,
    /// Added to the delay of each packet, uniform in [0, jitter).
    pub jitter: Duration,
    /// Whether jitter lets a packet overtake another; if not, a packet waits for the one before it.
    pub reorders: bool,
    /// How many bytes may wait, headers counted, the packet that is being sent not included. A packet that would
    /// exceed it is dropped. With 0 a packet passes only when the link is idle.
    pub queue_bytes: u64,
    /// What happens to packets behind the queue and the rate.
    pub loss: LossModel,
    /// What each packet costs beside its payload, in bytes.
    pub header_bytes: u32,
    /// The largest packet that the link carries, headers counted, if there is a limit (its MTU). A larger one is
    /// dropped without a word.
    pub largest_packet: Option<u32>,
    /// A limit in front of the queue, if there is one.
    pub policer: Option<Policer>,
    /// Which packets come late and are overtaken.
    pub hold_back: HoldBack,
    /// How probably a packet that arrives does so twice. The copy has a jitter of its own.
    pub duplication: Probability,
    /// How probably a packet arrives with one bit of its payload flipped.
    pub corruption: Probability,
}

/// A token bucket that drops what exceeds it, at once and without a queue.
///
/// A packet passes if the bucket holds a token for each of its bytes, headers counted. Tokens come at `rate`, and
/// as many as `burst_bytes` keep; the bucket is full at first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policer {
    /// How fast tokens come.
    pub rate: Rate,
    /// How many the bucket holds, in bytes. A packet larger than this never passes.
    pub burst_bytes: u64,
}

/// Some packets are held back, so that those sent later overtake them.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct HoldBack {
    /// How probably a packet is held back.
    pub probability: Probability,
    /// How long it is held back, beyond its delay and jitter.
    pub by: Duration,
}

impl LinkModel {
    /// A link without jitter or loss, with IPv4 and UDP headers and a queue of [`DEFAULT_QUEUE_TIME`].
    pub fn new(rate: Rate, delay: Duration) -> Self {
        Self {
            rate,
            delay,
            jitter: Duration::ZERO,
            reorders: false,
            queue_bytes: rate.bytes_in(DEFAULT_QUEUE_TIME).max(LEAST_DEFAULT_QUEUE_BYTES),
            loss: LossModel::NONE,
            header_bytes: IPV4_UDP_HEADER_BYTES,
            largest_packet: None,
            policer: None,
            hold_back: HoldBack::default(),
            duplication: Probability::ZERO,
            corruption: Probability::ZERO,
        }
    }

    /// The same link that loses each packet with this probability, independently.
    pub fn with_loss(self, loss: Probability) -> Self {
        Self { loss: LossModel::Bernoulli(loss), ..self }
    }

    /// The same link that loses packets by this law.
    pub fn with_loss_model(self, loss: LossModel) -> Self {
        Self { loss, ..self }
    }

    /// The same link with this jitter, packets staying in order.
    pub fn with_jitter(self, jitter: Duration) -> Self {
        Self { jitter, ..self }
    }

    /// The same link with its jitter free to reorder packets.
    pub fn with_reordering(self) -> Self {
        Self { reorders: true, ..self }
    }

    /// The same link that holds back each packet with this probability by this much.
    pub fn with_hold_back(self, probability: Probability, by: Duration) -> Self {
        Self { hold_back: HoldBack { probability, by }, ..self }
    }

    /// The same link that delivers each packet twice with this probability.
    pub fn with_duplication(self, duplication: Probability) -> Self {
        Self { duplication, ..self }
    }

    /// The same link that flips a bit of each payload with this probability.
    pub fn with_corruption(self, corruption: Probability) -> Self {
        Self { corruption, ..self }
    }

    /// The same link that carries no packets of more bytes, headers counted.
    pub fn with_largest_packet(self, bytes: u32) -> Self {
        Self { largest_packet: Some(bytes), ..self }
    }

    /// The same link behind a policer.
    pub fn with_policer(self, rate: Rate, burst_bytes: u64) -> Self {
        Self { policer: Some(Policer { rate, burst_bytes }), ..self }
    }

    /// The same link with a queue of this many bytes.
    pub fn with_queue_bytes(self, queue_bytes: u64) -> Self {
        Self { queue_bytes, ..self }
    }

    /// What a payload of this many bytes costs on the link, in bytes.
    pub fn wire_bytes(&self, payload_bytes: usize) -> u64 {
        payload_bytes as u64 + u64::from(self.header_bytes)
    }
}
