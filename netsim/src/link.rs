//! One direction of a link: a queue, then its rate, then propagation, then its loss.
//!
//! ```text
//!           offer                                                             deliver
//!  packet ────────▶ queue (bytes, tail drop) ──▶ rate ──▶ delay + jitter ──▶ loss ────▶ receiver
//!                     │ QueueFull                           │ the link dies      │ Lost
//!                     ▼                                     ▼                    ▼
//! ```
//!
//! A [`Link`] moves no bytes. It is told the size of a packet and when it came, and says when it arrives or why it
//! does not; who holds the packet (the simulator's agenda, the emulator's) asks once more at that time whether the
//! link has carried it.

use std::collections::VecDeque;
use std::time::Duration;

use rand_core::RngCore;
use thiserror::Error;

use crate::loss::{LossModel, LossProcess};
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
        }
    }

    /// The same link that loses each packet with this probability, independently.
    pub fn with_loss(self, loss: Probability) -> Self {
        Self { loss: LossModel::Bernoulli(loss), ..self }
    }

    /// The same link with this jitter, packets staying in order.
    pub fn with_jitter(self, jitter: Duration) -> Self {
        Self { jitter, ..self }
    }

    /// The same link with its jitter free to reorder packets.
    pub fn with_reordering(self) -> Self {
        Self { reorders: true, ..self }
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

/// Why a packet does not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DropCause {
    /// The queue had no room for it.
    #[error("the queue is full")]
    QueueFull,
    /// The link's loss took it.
    #[error("lost on the link")]
    Lost,
    /// The link was down, or died while the packet was on it.
    #[error("the link is down")]
    Down,
}

/// What became of the packets of one direction, and of their wire bytes (headers counted).
///
/// Each offered packet ends in exactly one of the others; what is missing is still under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounters {
    /// Packets offered.
    pub offered: u64,
    /// Packets that arrived.
    pub delivered: u64,
    /// Packets that the loss took.
    pub lost: u64,
    /// Packets that found the queue full.
    pub queue_dropped: u64,
    /// Packets that met a dead link, were on it when it died, or reached a dead receiver.
    pub dropped_down: u64,
    /// Wire bytes offered.
    pub offered_bytes: u64,
    /// Wire bytes that arrived.
    pub delivered_bytes: u64,
}

impl LinkCounters {
    /// Packets accepted and not yet arrived.
    pub fn under_way(&self) -> u64 {
        self.offered - self.delivered - self.lost - self.queue_dropped - self.dropped_down
    }
}

/// A packet that the link has taken: it arrives, unless the link dies first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the holder of the packet has to deliver it"]
pub struct Transit {
    /// When it arrives.
    pub arrives_at: Duration,
    wire_bytes: u64,
    /// The life of the link in which it was taken.
    life: u32,
}

/// One direction of a link at work: a state machine without I/O and without a clock.
///
/// Times are durations since an origin of the owner's choice, the same for all calls. Calls come in the order of
/// time. All calls cost O(1), amortised.
#[derive(Debug, Clone)]
pub struct Link {
    model: LinkModel,
    loss: LossProcess,
    up: bool,
    /// Counts the deaths of the link; a packet of an earlier life never arrives.
    life: u32,
    /// When the last bit of the last accepted packet has been sent.
    idle_from: Duration,
    /// The latest arrival so far, which a later packet does not overtake.
    last_arrival: Duration,
    /// The accepted packets whose sending has not begun when last looked at, in order.
    waiting: VecDeque<Waiting>,
    waiting_bytes: u64,
    counters: LinkCounters,
}

#[derive(Debug, Clone, Copy)]
struct Waiting {
    sending_starts: Duration,
    wire_bytes: u64,
}

impl Link {
    /// A link that is up and empty.
    pub fn new(model: LinkModel) -> Self {
        Self {
            loss: LossProcess::new(model.loss.clone()),
            model,
            up: true,
            life: 0,
            idle_from: Duration::ZERO,
            last_arrival: Duration::ZERO,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            counters: LinkCounters::default(),
        }
    }

    /// Offers a packet of `payload_bytes` at `now`; says when it arrives.
    ///
    /// `rng` is the stream of this direction. It is asked for two numbers per packet that passes the queue,
    /// whatever the parameters.
    ///
    /// # Errors
    /// Why it does not arrive, as far as it is decided now: a lost packet takes its share of queue and rate first,
    /// but its fate is known at once.
    pub fn offer(
        &mut self,
        now: Duration,
        payload_bytes: usize,
        rng: &mut impl RngCore,
    ) -> Result<Transit, DropCause> {
        let wire_bytes = self.model.wire_bytes(payload_bytes);
        let outcome = self.pass(now, wire_bytes, rng);
        self.counters.offered += 1;
        self.counters.offered_bytes += wire_bytes;
        match outcome {
            Ok(_) => {}
            Err(DropCause::QueueFull) => self.counters.queue_dropped += 1,
            Err(DropCause::Lost) => self.counters.lost += 1,
            Err(DropCause::Down) => self.counters.dropped_down += 1,
        }
        outcome
    }

    fn pass(&mut self, now: Duration, wire_bytes: u64, rng: &mut impl RngCore) -> Result<Transit, DropCause> {
        if !self.up {
            return Err(DropCause::Down);
        }
        let sent_at = self.enqueue(now, wire_bytes)?;
        let is_lost = self.loss.loses(rng);
        let jitter = fraction_of(self.model.jitter, rng.next_u64());
        if is_lost {
            return Err(DropCause::Lost);
        }
        let mut arrives_at = sent_at.saturating_add(self.model.delay).saturating_add(jitter);
        if !self.model.reorders {
            arrives_at = arrives_at.max(self.last_arrival);
        }
        self.last_arrival = self.last_arrival.max(arrives_at);
        Ok(Transit { arrives_at, wire_bytes, life: self.life })
    }

    /// Puts a packet into the queue; says when its last bit will have been sent.
    fn enqueue(&mut self, now: Duration, wire_bytes: u64) -> Result<Duration, DropCause> {
        self.forget_sent(now);
        let sending_starts = now.max(self.idle_from);
        if sending_starts > now {
            if self.waiting_bytes + wire_bytes > self.model.queue_bytes {
                return Err(DropCause::QueueFull);
            }
            self.waiting.push_back(Waiting { sending_starts, wire_bytes });
            self.waiting_bytes += wire_bytes;
        }
        self.idle_from = sending_starts.saturating_add(self.model.rate.time_for(wire_bytes));
        Ok(self.idle_from)
    }

    fn forget_sent(&mut self, now: Duration) {
        while let Some(first) = self.waiting.front().filter(|first| first.sending_starts <= now) {
            self.waiting_bytes -= first.wire_bytes;
            self.waiting.pop_front();
        }
    }

    /// Whether a packet that is due now has arrived; not so when the link has died since it was taken.
    pub fn deliver(&mut self, transit: Transit) -> bool {
        let has_arrived = self.up && transit.life == self.life;
        if has_arrived {
            self.counters.delivered += 1;
            self.counters.delivered_bytes += transit.wire_bytes;
        } else {
            self.counters.dropped_down += 1;
        }
        has_arrived
    }

    /// Drops a packet that is due now, because its receiver is dead.
    pub fn discard(&mut self, _transit: Transit) {
        self.counters.dropped_down += 1;
    }

    /// The link dies: what waits and what is under way is gone.
    pub fn set_down(&mut self) {
        self.up = false;
        self.life = self.life.wrapping_add(1);
        self.waiting.clear();
        self.waiting_bytes = 0;
        self.idle_from = Duration::ZERO;
        self.last_arrival = Duration::ZERO;
    }

    /// The link is back, empty.
    pub fn set_up(&mut self) {
        self.up = true;
    }

    /// Whether the link is up.
    pub fn is_up(&self) -> bool {
        self.up
    }

    /// Changes the parameters. They count for packets offered from now on; what is queued or under way keeps the
    /// times that it was promised, and is not overtaken when the delay shrinks.
    pub fn set_model(&mut self, model: LinkModel) {
        if model.loss != self.model.loss {
            self.loss = LossProcess::new(model.loss.clone());
        }
        self.model = model;
    }

    /// The parameters.
    pub fn model(&self) -> &LinkModel {
        &self.model
    }

    /// How many bytes wait at `now`, headers counted; the packet that is being sent does not wait any more.
    pub fn queued_bytes(&mut self, now: Duration) -> u64 {
        self.forget_sent(now);
        self.waiting_bytes
    }

    /// What became of the packets so far.
    pub fn counters(&self) -> &LinkCounters {
        &self.counters
    }
}

/// `draw` / 2⁶⁴ of `time`, in integers, so that all machines agree. Beyond 584 years it is 584 years.
fn fraction_of(time: Duration, draw: u64) -> Duration {
    let nanos = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
    Duration::from_nanos(((u128::from(nanos) * u128::from(draw)) >> 64) as u64)
}
