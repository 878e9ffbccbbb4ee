//! The rate of one path.
//!
//! Three things are told apart: a *queue* (the one-way delay grows above its floor), a *policer* or a queue too short to
//! be seen (loss grows with the rate and goes away when the rate is lowered), and the link's *own loss* (it does not).
//! Loss by itself is no signal (theory §5).
//!
//! ```text
//!          queue > long, or a check says "policed"
//!  Start ─────────────────────────────────────────▶ Cruise
//!  doubling                                           │ queue ≷ target: proportional to what was delivered
//!                                                     │ no queue: upwards, ever faster; slowly near a ceiling
//!    ┌───────────────┬────────────────────────────────┤
//!    │ every 4 s, or │ queue > long                   │ loss has risen
//!    ▼               ▼                                ▼
//!  Drain: half the rate for as long as          Check: the rate at which a policer would drop nothing;
//!  the queue takes to empty                     the loss falls: keep it, remember the ceiling; it stays: go back
//!    │ others fill it again, three times
//!    ▼
//!  Contention: a window as theirs, until a drain empties the queue
//! ```
//!
//! docs/decisions/rate-control.md tells why it is so, what was tried, and what was measured.

mod check;
mod contention;
pub(crate) mod coupling;
mod cruise;
mod drain;
mod floor;
mod full;
pub(crate) mod news;
mod round;
mod start;
mod watch;
mod window;

use std::collections::VecDeque;
use std::time::Duration;

use crate::limits::MIN_RATE;
use crate::time::Time;
use check::Check;
use contention::Contention;
use drain::{DRAIN_RATE, Drain};
use floor::DelayFloor;
use full::FullPackets;
use news::{Crowds, Limit};
use round::Round;
use start::Start;
use watch::LossWatch;

/// Before anything is known, bit/s: 40 full packets in 100 ms.
const INITIAL_RATE: f64 = 4e6;
/// A path is never paced above this, bit/s.
const MAX_RATE: f64 = 40e9;
/// A path has no more bytes on the way than this and what it carries in a round trip without queues. More could stand in
/// the peer's socket while its process does not run, and would be lost there (4 MiB of it, the kernel's share included).
pub(crate) const WINDOW: f64 = (4 << 20) as f64;
/// The standing queue of a session that sends [`TARGET_RATE`] over a link: long enough to be told from jitter, short
/// enough for the 15 ms that design §6 allows.
const TARGET_QUEUE: f64 = 0.005;
/// Who sends more wants a shorter queue, who sends less a longer one; so sessions that see the same queue become equal.
const TARGET_RATE: f64 = 50e6;
const TARGET_BOUNDS: (f64, f64) = (0.002, 0.011);
/// A queue of twice the target and this is too long: it is drained at once.
const LONG_QUEUE: f64 = 0.004;
/// … or longer than this, in seconds: no session of ours wants such a queue.
const TOO_LONG: f64 = 0.014;
/// A round is half a round trip, but no shorter, because reports come every 2 to 10 ms.
const SHORTEST_ROUND: Duration = Duration::from_millis(20);
/// A path that sends less than this share of its rate is not limited by it.
pub(crate) const BUSY: f64 = 0.8;
/// A path that comes back climbs as if it had climbed for so long: it was at twice its rate not long ago, and the session
/// waits for it.
const CLIMBED: Duration = Duration::from_secs(3);
/// Near a ceiling is: above this share of it.
const NEAR: f64 = 0.95;
/// How often the queue is emptied to see the floor of the delay.
const DRAIN_INTERVAL: Duration = Duration::from_secs(4);
/// For so long after the queue was as long as it should be, the delay tells what the path carries.
const TELLING: Duration = Duration::from_secs(5);
/// How often a loss this much above the smallest one that was verified is put to the test.
const DOUBT_INTERVAL: Duration = Duration::from_secs(5);
const DOUBTFUL_LOSS: f64 = 0.04;

/// What one report tells of a path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Feedback {
    /// When the latest packet that arrived had left.
    pub(crate) departed: Time,
    /// Its bytes, IP header included.
    pub(crate) size: u32,
    /// Its arrival, µs of the peer's clock: only differences mean anything.
    pub(crate) arrived_us: u64,
    /// Packets whose fate this report tells.
    pub(crate) packets: u64,
    /// … those of them that are lost; below zero if packets come late that had been given up.
    pub(crate) lost: f64,
    /// … and their bytes, IP headers included.
    pub(crate) bytes: f64,
    /// How much losses come in bursts (`LossEstimate::dispersion`).
    pub(crate) dispersion: f64,
    /// The smoothed round trip.
    pub(crate) round_trip: Duration,
}

/// What a controller has just begun, for the paths of its session that share a link with it to join in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Manoeuvre {
    /// The queue is emptied for so long; those for whom it is too long go on with this share of their rates.
    Drain { span: Duration, share: f64 },
    /// The same, because the queue has fallen from its peak or overflowed: windows shrink.
    BackOff(Duration),
}

/// The paced rate of one path.
#[derive(Debug, Clone)]
pub(crate) struct RateController {
    /// The rate beside manoeuvres, bit/s.
    rate: f64,
    /// Rates of the last round trips, oldest first: what was sent in a round is compared with what was allowed.
    history: VecDeque<(Time, f64)>,
    start: Option<Start>,
    /// When a queue ended the start, and at which rate, until a queue is seen again.
    ended_at: Option<(Time, f64)>,
    /// The limit that a queue showed when it ended the start.
    limit: Option<Limit>,
    crowds: Crowds,
    full: FullPackets,
    floor: DelayFloor,
    /// How far the latest delay was above the floor.
    queue: Duration,
    round: Round,
    watch: LossWatch,
    check: Option<Check>,
    /// The share of its rate that another path's check over a common link leaves it.
    held: Option<f64>,
    drain: Drain,
    contention: Contention,
    /// Whether to compete as others do.
    is_fair: bool,
    /// The next drain for the floor's sake.
    drain_at: Time,
    /// How many times the queue's length a drain lasts: above 1 where others fill it meanwhile.
    drain_stretch: f64,
    smallest_before_drain: Option<i64>,
    /// What packets tell that left before this is no basis for the rate.
    blind_until: Time,
    /// A rate at which packets were dropped.
    ceiling: Option<f64>,
    lowered_at: Time,
    climbing_since: Option<Time>,
    /// When the queue last was as long as it should be.
    told_at: Time,
    doubted_at: Time,
    /// What the session sends over the links that this path shares with others of its session, bit/s.
    shared_rate: f64,
    /// What it sent in the latest round, bit/s, and whether that is what it was allowed.
    sent: Option<f64>,
    is_busy: bool,
    begun: Option<Manoeuvre>,
}

impl RateController {
    pub(crate) fn new(now: Time) -> RateController {
        RateController {
            rate: INITIAL_RATE,
            history: VecDeque::from([(now, INITIAL_RATE)]),
            start: Some(Start::default()),
            ended_at: None,
            limit: None,
            crowds: Crowds::default(),
            full: FullPackets::default(),
            floor: DelayFloor::default(),
            queue: Duration::ZERO,
            round: Round::default(),
            watch: LossWatch::default(),
            check: None,
            held: None,
            drain: Drain::none(now),
            contention: Contention::default(),
            is_fair: false,
            drain_at: now + DRAIN_INTERVAL,
            drain_stretch: 1.0,
            smallest_before_drain: None,
            blind_until: now,
            ceiling: None,
            lowered_at: now,
            climbing_since: None,
            told_at: now - TELLING,
            doubted_at: now,
            shared_rate: 0.0,
            sent: None,
            is_busy: false,
            begun: None,
        }
    }

    /// The rate to send at, in bit/s, IP headers included.
    pub(crate) fn rate(&self, now: Time) -> f64 {
        let drained = if now < self.drain.until() { DRAIN_RATE } else { 1.0 };
        let checked = self.check_share().or(self.held).unwrap_or(1.0);
        (self.rate * drained * checked).clamp(MIN_RATE, MAX_RATE)
    }

    /// The rate beside manoeuvres, for quotas and people.
    pub(crate) fn mean_rate(&self) -> f64 {
        self.rate
    }

    /// What it sends of that, bit/s.
    pub(crate) fn sent_rate(&self) -> f64 {
        self.sent.map_or(self.rate, |sent| sent.min(self.rate))
    }

    /// For how long the latest packet that was reported had stood in queues.
    pub(crate) fn queue(&self) -> Duration {
        self.queue
    }

    /// What the session sends over the links that this path shares with others, bit/s.
    pub(crate) fn set_shared_rate(&mut self, rate: f64) {
        self.shared_rate = rate;
    }

    /// Whether to compete with other flows as CUBIC does, or to leave them more than half.
    pub(crate) fn set_fair(&mut self, is_fair: bool) {
        self.is_fair = is_fair;
    }

    /// Lowers the rate to `share` of it, because a known limit says so.
    pub(crate) fn scale(&mut self, now: Time, share: f64) {
        self.set_rate(now, self.rate * share);
    }

    /// What has begun since the last call.
    pub(crate) fn take_begun(&mut self) -> Option<Manoeuvre> {
        self.begun.take()
    }

    /// Joins in what another path over a shared link has begun.
    pub(crate) fn join(&mut self, now: Time, manoeuvre: Manoeuvre) {
        match manoeuvre {
            Manoeuvre::Drain { span, share } => {
                if self.is_crowded_anew() {
                    self.scale(now, share);
                }
                self.drain(now, span);
            }
            Manoeuvre::BackOff(span) => {
                self.contention.shrink(now);
                self.drain(now, span);
            }
        }
        self.begun = None;
    }

    /// Whether it sent about what it was allowed lately, so that lowering its rate lowers what it sends.
    pub(crate) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// The drain that has just begun will tell nothing: others of the session fill the queue meanwhile.
    pub(crate) fn discount_drain(&mut self) {
        self.drain.discount();
    }

    /// Whether it still doubles.
    pub(crate) fn is_starting(&self) -> bool {
        self.start.is_some()
    }

    /// A path that comes in beside others over a common link begins at this rate, in bit/s. It does not double, because
    /// they know what the link carries; it climbs.
    pub(crate) fn begin_beside(&mut self, now: Time, rate: f64) {
        (self.start, self.sent) = (None, None);
        self.set_rate(now, rate);
        self.history = VecDeque::from([(now, self.rate)]);
        self.hurry(now);
    }

    /// There is room on its links: it climbs fast, if it climbs.
    pub(crate) fn hurry(&mut self, now: Time) {
        let since = self.climbing_since.unwrap_or(now);
        self.climbing_since = Some(since.min(now - CLIMBED));
    }

    /// Leaves a newcomer on a common link all but this share of the rate. What is on the way left at the old one, and must
    /// not bring that back.
    pub(crate) fn make_room(&mut self, now: Time, share: f64) {
        self.scale(now, share);
        self.be_blind(now);
    }

    /// A path that came back starts at half its old rate.
    pub(crate) fn restart(&mut self, now: Time) {
        let rate = (self.rate / 2.0).max(MIN_RATE);
        let (watch, is_fair, climbing_since) = (self.watch.clone(), self.is_fair, Some(now - CLIMBED));
        *self =
            RateController { rate, start: None, climbing_since, watch, is_fair, ..RateController::new(now) };
        self.history = VecDeque::from([(now, rate)]);
    }

    /// Takes what a report tells and adjusts the rate.
    pub(crate) fn on_feedback(&mut self, now: Time, feedback: &Feedback) {
        if self.full.are_outgrown_by(feedback.size) {
            self.forget_delays();
        }
        let Some(feedback) = &self.full.take(now, feedback) else { return };
        let delay_us = feedback.arrived_us as i64 - feedback.departed.as_micros() as i64;
        self.floor.observe(now, delay_us);
        self.drain.observe(feedback, delay_us);
        // The window allows for no longer queue; what is beyond are pauses of a process.
        let queue = self.floor.above(delay_us).min(WINDOW * 8.0 / self.rate);
        self.queue = Duration::from_secs_f64(queue);
        if self.is_crowded() {
            self.crowds.observe(now, feedback.round_trip);
        }
        if self.check.is_some() {
            return self.on_check_feedback(now, feedback);
        }
        if self.held.is_some() {
            self.be_blind(now);
        }
        let allowed = self.rate_at(feedback.departed);
        let is_blind = feedback.departed < self.blind_until;
        if is_blind {
            self.round.restart(feedback);
            return;
        }
        if let Some(drained) = self.drain.take_effect() {
            self.on_drained(now, drained, feedback);
        }
        self.round.observe(feedback, queue, allowed);
        // What a long queue drops is told by the queue.
        let may_be_policed = self.start.is_none() && !self.contention.is_open() && !self.is_crowded();
        if may_be_policed
            && self.watch.observe(feedback, self.delay_tells(now, queue), self.is_near_ceiling())
        {
            let policed_rate = self.watch.share_if_policed() * allowed;
            return self
                .begin_check(now, (check::CHECK_RATE * policed_rate / self.rate).min(check::CHECK_RATE));
        }
        match self.start {
            Some(start) => self.double(now, feedback, start),
            None => self.cruise(now, feedback),
        }
    }

    /// Whether a queue has lately been as long as it should be.
    fn is_told(&self, now: Time) -> bool {
        now.since(self.told_at) < TELLING
    }

    /// Whether the queue is too long.
    fn is_crowded(&self) -> bool {
        self.queue.as_secs_f64() > self.long_queue()
    }

    /// The same, by packets that left after its latest drain: one excess is not to be answered twice.
    fn is_crowded_anew(&self) -> bool {
        self.is_crowded() && self.round.latest_departure() >= self.blind_until
    }

    /// Whether a queue stands that is as long as it should be, so that it cannot be loss that limits the path.
    fn delay_tells(&self, now: Time, queue: f64) -> bool {
        queue > self.target() / 2.0 && self.is_told(now)
    }

    fn is_near_ceiling(&self) -> bool {
        self.ceiling.is_some_and(|ceiling| self.rate > NEAR * ceiling)
    }

    /// Starts what is due: a look at the delay's floor, or at a loss that may be our own doing.
    fn manoeuvre_if_due(&mut self, now: Time, queue: f64) {
        if now >= self.drain_at {
            self.drain_at = now + DRAIN_INTERVAL;
            if queue > 0.001 {
                self.judge_last_drain();
                let failures = self.contention.failures() + u32::from(self.is_fair);
                let span = drain::span(self.drain_stretch * (queue + 0.001), failures);
                self.begin_manoeuvre(now, Manoeuvre::Drain { span, share: 1.0 });
            }
        }
        if self.is_told(now) {
            self.doubted_at = now;
            if self.told_at == now {
                self.watch.settle();
            }
        } else if now.since(self.doubted_at) > DOUBT_INTERVAL {
            self.doubted_at = now;
            if self.watch.own_loss() > self.watch.least_loss() + DOUBTFUL_LOSS {
                self.begin_doubt(now);
            }
        }
    }

    fn judge_last_drain(&mut self) {
        if let (Some(reached), Some(before)) = (self.floor.latest(), self.smallest_before_drain) {
            let off = (reached - before).abs();
            self.drain_stretch = if off > 700 { self.drain_stretch * 1.5 } else { self.drain_stretch * 0.85 };
            self.drain_stretch = self.drain_stretch.clamp(1.0, 6.0);
        }
        self.smallest_before_drain = self.floor.smallest();
        self.floor.forget_latest();
    }

    /// Drains, and tells the paths over common links to join in.
    fn begin_manoeuvre(&mut self, now: Time, manoeuvre: Manoeuvre) {
        let (Manoeuvre::Drain { span, .. } | Manoeuvre::BackOff(span)) = manoeuvre;
        self.drain(now, span);
        self.begun = Some(manoeuvre);
    }

    fn drain(&mut self, now: Time, span: Duration) {
        self.drain_at = self.drain_at.max(now + DRAIN_INTERVAL);
        self.drain.begin(now, span);
        self.blind_until = self.drain.until();
    }

    /// The standing queue that this path aims at, in seconds.
    fn target(&self) -> f64 {
        let rate = self.shared_rate.max(self.rate);
        (TARGET_QUEUE * (TARGET_RATE / rate).sqrt()).clamp(TARGET_BOUNDS.0, TARGET_BOUNDS.1)
    }

    fn long_queue(&self) -> f64 {
        (2.0 * self.target() + LONG_QUEUE).min(TOO_LONG)
    }

    fn be_blind(&mut self, now: Time) {
        self.blind_until = now.max(self.drain.until());
        self.round = Round::default();
    }

    fn set_rate(&mut self, now: Time, rate: f64) {
        self.rate = rate.clamp(MIN_RATE, MAX_RATE);
        self.history.push_back((now, self.rate));
        while self.history.len() > 64 {
            self.history.pop_front();
        }
    }

    fn rate_at(&self, when: Time) -> f64 {
        let before = self.history.iter().rev().find(|(since, _)| *since <= when);
        before.or(self.history.front()).map_or(self.rate, |(_, rate)| *rate)
    }
}

#[cfg(test)]
mod tests;
