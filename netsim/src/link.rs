//! One direction of a link: a queue, then its rate, then propagation, then its loss.
//!
//! ```text
//!         offer                                                                             deliver
//!  packet ──────▶ policer ──▶ queue (bytes, tail drop) ──▶ rate ──▶ delay + jitter ──▶ loss ────▶ receiver
//!          TooLarge │ Policed   │ QueueFull                          │ the link dies     │ Lost
//!                   ▼           ▼                                    ▼                   ▼
//! ```
//!
//! A packet that is not lost may be held back, come twice, or come with a bit flipped.
//!
//! A [`Link`] moves no bytes. It is told the size of a packet and when it came, and says when the packet arrives or why
//! it does not. The owner of the packet (the simulator, or the emulator) asks once more at that time whether the link
//! has carried it.

mod model;

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::time::Duration;

use rand_core::RngCore;
use thiserror::Error;

pub use self::model::{DEFAULT_QUEUE_TIME, HoldBack, IPV4_UDP_HEADER_BYTES, LinkModel, Policer};

use crate::loss::LossProcess;
use crate::stream::Draws;

/// Why a packet does not arrive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum DropCause {
    /// It is larger than the link carries.
    #[error("too large for the link")]
    TooLarge,
    /// The policer's bucket had too few tokens for it.
    #[error("beyond the policed rate")]
    Policed,
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
/// Each packet offered, and each copy that the link makes of one, ends in exactly one way: delivered, lost, too large,
/// policed, dropped at the queue or by a death. What is missing is still under way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkCounters {
    /// Packets offered.
    pub offered: u64,
    /// Packets that arrived.
    pub delivered: u64,
    /// Packets that the loss took.
    pub lost: u64,
    /// Packets that were larger than the link carries.
    pub too_large: u64,
    /// Packets that the policer dropped.
    pub policed: u64,
    /// Packets that found the queue full.
    pub queue_dropped: u64,
    /// Packets that met a dead link, were on it when it died, or reached a dead receiver.
    pub dropped_down: u64,
    /// Copies that the link made.
    pub duplicated: u64,
    /// Packets and copies that were sent on their way with a bit flipped.
    pub corrupted: u64,
    /// Wire bytes offered.
    pub offered_bytes: u64,
    /// Wire bytes that arrived.
    pub delivered_bytes: u64,
}

impl LinkCounters {
    /// Packets and copies accepted and not yet arrived.
    pub fn under_way(&self) -> u64 {
        self.offered + self.duplicated - self.delivered - self.dropped()
    }

    /// Packets that did not arrive, for whatever reason.
    pub fn dropped(&self) -> u64 {
        self.lost + self.too_large + self.policed + self.queue_dropped + self.dropped_down
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
    /// Which bit of the payload is flipped, if one is: a fraction of it, in 2⁻³².
    flipped: Option<NonZeroU32>,
}

impl Transit {
    /// Whether the packet arrives with a bit flipped.
    pub fn is_corrupted(&self) -> bool {
        self.flipped.is_some()
    }

    /// Does to the payload what the link has done to it: flips a bit, if so. An empty one stays as it is.
    pub fn corrupt(&self, payload: &mut [u8]) {
        if let Some(draw) = self.flipped.filter(|_| !payload.is_empty()) {
            let bit = (payload.len() as u128 * 8 * u128::from(draw.get())) >> 32;
            payload[(bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }
}

/// What the link has made of a packet that it has taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use = "the holder of the packet has to deliver it"]
pub struct Passage {
    /// The packet.
    pub transit: Transit,
    /// A copy of it that the link has made: the holder delivers that too.
    pub copy: Option<Transit>,
}

/// One direction of a link at work: a state machine without I/O and without a clock.
///
/// Times are durations since an origin of the owner's choice, the same for all calls. Calls come in the order of
/// time. All calls cost O(1), amortised.
#[derive(Debug, Clone)]
pub struct Link {
    model: LinkModel,
    loss: LossProcess,
    /// When the policer's bucket is full again.
    bucket_full_at: Duration,
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
            bucket_full_at: Duration::ZERO,
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
    ) -> Result<Passage, DropCause> {
        let wire_bytes = self.model.wire_bytes(payload_bytes);
        let outcome = self.pass(now, wire_bytes, rng);
        self.counters.offered += 1;
        self.counters.offered_bytes += wire_bytes;
        match outcome {
            Ok(passage) => self.count_faults(passage),
            Err(DropCause::TooLarge) => self.counters.too_large += 1,
            Err(DropCause::Policed) => self.counters.policed += 1,
            Err(DropCause::QueueFull) => self.counters.queue_dropped += 1,
            Err(DropCause::Lost) => self.counters.lost += 1,
            Err(DropCause::Down) => self.counters.dropped_down += 1,
        }
        outcome
    }

    fn count_faults(&mut self, Passage { transit, copy }: Passage) {
        self.counters.duplicated += u64::from(copy.is_some());
        let flipped = [Some(transit), copy].into_iter().flatten().filter(Transit::is_corrupted);
        self.counters.corrupted += flipped.count() as u64;
    }

    fn pass(&mut self, now: Duration, wire_bytes: u64, rng: &mut impl RngCore) -> Result<Passage, DropCause> {
        if !self.up {
            return Err(DropCause::Down);
        }
        if self.model.largest_packet.is_some_and(|largest| wire_bytes > u64::from(largest)) {
            return Err(DropCause::TooLarge);
        }
        self.police(now, wire_bytes)?;
        let sent_at = self.enqueue(now, wire_bytes)?;
        let is_lost = self.loss.loses(rng.next_u64());
        let mut draws = Draws::from(rng.next_u64());
        if is_lost {
            return Err(DropCause::Lost);
        }
        let transit = self.transit(sent_at, wire_bytes, &mut draws);
        let is_doubled = self.model.duplication.decide(draws.next());
        let copy = is_doubled.then(|| self.transit(sent_at, wire_bytes, &mut draws));
        Ok(Passage { transit, copy })
    }

    /// Takes the tokens for a packet from the policer's bucket. The bucket is kept as the time at which it is full
    /// again (the generic cell rate algorithm), which is exact in integers.
    fn police(&mut self, now: Duration, wire_bytes: u64) -> Result<(), DropCause> {
        let Some(Policer { rate, burst_bytes }) = self.model.policer else { return Ok(()) };
        let full_at = self.bucket_full_at.max(now).saturating_add(rate.time_for(wire_bytes));
        if full_at - now > rate.time_for(burst_bytes) {
            return Err(DropCause::Policed);
        }
        self.bucket_full_at = full_at;
        Ok(())
    }

    /// The way of a packet whose last bit was sent at `sent_at`.
    fn transit(&mut self, sent_at: Duration, wire_bytes: u64, draws: &mut Draws) -> Transit {
        let arrives_at = self.arrival(sent_at, draws);
        let place = NonZeroU32::MIN | (draws.next() >> 32) as u32;
        let flipped = self.model.corruption.decide(draws.next()).then_some(place);
        Transit { arrives_at, wire_bytes, life: self.life, flipped }
    }

    /// When a packet arrives whose last bit was sent at `sent_at`.
    fn arrival(&mut self, sent_at: Duration, draws: &mut Draws) -> Duration {
        let jitter = fraction_of(self.model.jitter, draws.next());
        let mut arrives_at = sent_at.saturating_add(self.model.delay).saturating_add(jitter);
        if self.model.hold_back.probability.decide(draws.next()) {
            return arrives_at.saturating_add(self.model.hold_back.by);
        }
        if !self.model.reorders {
            arrives_at = arrives_at.max(self.last_arrival);
        }
        self.last_arrival = self.last_arrival.max(arrives_at);
        arrives_at
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
    /// times that it was promised, and is not overtaken when the delay shrinks. A loss model or policer that has not
    /// changed keeps its state; a new policer begins with a full bucket.
    pub fn set_model(&mut self, model: LinkModel) {
        if model.loss != self.model.loss {
            self.loss = LossProcess::new(model.loss.clone());
        }
        if model.policer != self.model.policer {
            self.bucket_full_at = Duration::ZERO;
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
