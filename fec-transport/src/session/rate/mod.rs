//! The rate of one path.
//!
//! Three things are told apart: a *queue* (the one-way delay grows above its floor), a *policer* or a queue too short
//! to be seen (loss grows with the rate and goes away when the rate is lowered), and the link's *own loss* (it does
//! not). Loss by itself is no signal (theory §5).
//!
//! A [`RateController`] has a [`Meter`], which knows what was measured and decides nothing; a [`Mode`], whose file has
//! the diagram of what may follow what; and a [`Drain`] beside it. `conduct.rs` is what the controller does with a
//! report in each mode, this file what others see of it: the path that it paces, and the paths that share links with
//! it.
//!
//! docs/decisions/rate-control.md tells why it is so, what was tried, and what was measured.

mod allowed;
pub(crate) mod bottlenecks;
mod check;
mod climb;
mod common_limit;
mod conduct;
mod contention;
mod drain;
mod floor;
mod full;
mod jitter;
mod meter;
mod mode;
mod overload;
mod round;
mod start;
mod watch;
mod window;

use std::time::Duration;

use crate::limits::MIN_RATE;
use crate::time::Time;
use allowed::AllowedRate;
use climb::Climb;
use common_limit::{Limit, Part};
use contention::Rivals;
use drain::Drain;
use meter::Meter;
use mode::Mode;
use overload::Overload;
use start::Start;
use watch::LossWatch;

/// The rate before anything is known, in bit/s: 33 full packets in 100 ms.
const INITIAL_RATE: f64 = 4e6;
/// A path that comes back, or in beside others, begins with this rate at least, in bit/s: 30 packets a second soon tell
/// what it loses, and whether it has gone again.
const LEAST_FIRST: f64 = 360e3;
/// A path is never paced above this, bit/s.
const MAX_RATE: f64 = 40e9;
/// A path has no more bytes on the way than this and what it carries in a round trip without queues, and less if the
/// peer says so: more could stand in the peer's socket while its process does not run, and would be lost there.
pub(crate) const MOST_UNDER_WAY: u64 = 4 << 20;
/// The standing queue, in seconds, of a session that sends [`TARGET_RATE`] over a link: long enough to be told from
/// jitter, short enough for the 15 ms that design §6 allows.
const TARGET_QUEUE: f64 = 0.005;
/// A session that sends more than this, in bit/s, wants a shorter queue, and one that sends less a longer one; so
/// sessions that see the same queue become equal.
const TARGET_RATE: f64 = 50e6;
/// Below this rate, in bit/s, targets no longer grow with the square root: they would soon be too long. But they still
/// grow, because sessions that all want the same queue do not become equal.
const SLOW_RATE: f64 = 10e6;
/// A queue is too long if it is longer by this, in seconds, than its target and than twice that. Of longer targets
/// twice [`TARGET_QUEUE`] counts: a session that meets CUBIC would not see its queue otherwise.
const LONG_QUEUE: f64 = 0.004;
/// A round is half a round trip, but no shorter, because reports come every 2 to 10 ms.
const SHORTEST_ROUND: Duration = Duration::from_millis(20);
/// Fewer packets tell nothing: a round has as many at least.
const LEAST_PACKETS: u64 = 5;
/// So many packets tell what is lost: among fewer, a burst of losses looks like a limit.
const SAMPLE: u64 = 64;
/// More than this share of something is nearly all of it, as far as measurements tell: of the rate that a path may use,
/// of the packets that arrive, of a queue, of what links carry.
pub(crate) const NEARLY: f64 = 0.8;

/// What one report tells of a path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Feedback {
    /// When the latest packet that arrived had left.
    pub(crate) departed: Time,
    /// The bytes of that packet, IP header included.
    pub(crate) size: u32,
    /// Its arrival, µs of the peer's clock: only differences mean anything.
    pub(crate) arrived_us: u64,
    /// Packets whose fate this report tells.
    pub(crate) packets: u64,
    /// How many of those packets are lost; below zero if packets come late that had been given up.
    pub(crate) lost: f64,
    /// The bytes of those packets, IP headers included.
    pub(crate) bytes: f64,
    /// How much losses come in bursts (`LossEstimate::dispersion`).
    pub(crate) dispersion: f64,
    /// The smoothed round trip.
    pub(crate) round_trip: Duration,
    /// Whether there was once nothing to send between the packet of the report before and this one.
    pub(crate) is_after_idleness: bool,
}

impl Feedback {
    /// The time on the way of the latest packet that arrived, µs; the two clocks differ, too.
    fn delay_us(&self) -> i64 {
        self.arrived_us as i64 - self.departed.as_micros() as i64
    }
}

/// What a controller has just begun, for the paths of its session that share a link with it to join in.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Manoeuvre {
    /// The queue is emptied for so long; those for whom it is too long go on with this share of their rates.
    Drain { span: Duration, share: f64 },
    /// The queue is emptied for so long because it has fallen from its peak or overflowed: windows shrink.
    BackOff(Duration),
}

/// The paced rate of one path.
#[derive(Debug, Clone)]
pub(crate) struct RateController {
    /// The rate beside drains and checks.
    allowed: AllowedRate,
    meter: Meter,
    mode: Mode,
    drain: Drain,
    climb: Climb,
    rivals: Rivals,
    overload: Overload,
    /// The limit that a queue showed when it ended the start.
    limit: Option<Limit>,
    /// Whether to compete with other flows as CUBIC does, or to leave them more than half.
    is_fair: bool,
    /// What the session sends over the links that this path shares with others of its session, bit/s.
    shared_rate: f64,
    /// Whether other sessions of the node send over its links, too.
    is_beside_sessions: bool,
    begun: Option<Manoeuvre>,
}

impl RateController {
    pub(crate) fn new(now: Time) -> RateController {
        let start = Mode::Start(Start::default());
        RateController::in_mode(now, INITIAL_RATE, start, LossWatch::default())
    }

    fn in_mode(now: Time, rate: f64, mode: Mode, watch: LossWatch) -> RateController {
        RateController {
            allowed: AllowedRate::new(now, rate),
            meter: Meter::new(now, watch),
            mode,
            drain: Drain::none(now),
            climb: Climb::default(),
            rivals: Rivals::default(),
            overload: Overload::default(),
            limit: None,
            is_fair: false,
            shared_rate: 0.0,
            is_beside_sessions: false,
            begun: None,
        }
    }

    /// A path that came back starts at half its old rate.
    pub(crate) fn restart(&mut self, now: Time) {
        let (rate, watch) = ((self.mean_rate() / 2.0).max(LEAST_FIRST), self.meter.watch().clone());
        let anew = RateController::in_mode(now, rate, Mode::Cruise, watch);
        *self = RateController { is_fair: self.is_fair, ..anew };
        self.climb.hurry(now);
    }

    /// The rate to send at, in bit/s, IP headers included.
    pub(crate) fn rate(&self, now: Time) -> f64 {
        (self.mean_rate() * self.drain.share(now) * self.check_share()).clamp(MIN_RATE, MAX_RATE)
    }

    /// The share of its rate at which it sends while it checks.
    fn check_share(&self) -> f64 {
        if let Mode::Check(check) = &self.mode { check.share() } else { 1.0 }
    }

    /// The rate beside manoeuvres, for quotas and people.
    pub(crate) fn mean_rate(&self) -> f64 {
        self.allowed.get()
    }

    /// What it sends of its rate, in bit/s.
    pub(crate) fn sent_rate(&self) -> f64 {
        self.meter.sent().map_or(self.mean_rate(), |sent| sent.min(self.mean_rate()))
    }

    /// For how long the latest packet that was reported had stood in queues.
    pub(crate) fn queue(&self) -> Duration {
        Duration::from_secs_f64(self.meter.queue())
    }

    /// Whether to compete with other flows as CUBIC does, or to leave them more than half.
    pub(crate) fn set_fair(&mut self, is_fair: bool) {
        self.is_fair = is_fair;
    }

    // --- for the paths that share links with this one -----------------------------------------------------------

    /// What its session sends over its links, in bit/s, and whether other sessions of the node send over them, too.
    fn set_company(&mut self, shared_rate: f64, is_beside_sessions: bool) {
        (self.shared_rate, self.is_beside_sessions) = (shared_rate, is_beside_sessions);
    }

    /// Whether others of its session send more than a little over its links.
    fn shares_links(&self) -> bool {
        self.mean_rate() < NEARLY * self.shared_rate
    }

    /// Whether it sent about what it was allowed lately, so that lowering its rate lowers what it sends.
    fn is_busy(&self) -> bool {
        self.meter.is_busy()
    }

    /// Whether it still doubles.
    pub(crate) fn is_starting(&self) -> bool {
        matches!(self.mode, Mode::Start(_))
    }

    /// Lowers the rate to `share` of it, because a known limit says so.
    fn scale(&mut self, now: Time, share: f64) {
        self.allowed.set(now, self.mean_rate() * share);
    }

    /// What has begun since the last call.
    fn take_begun(&mut self) -> Option<Manoeuvre> {
        self.begun.take()
    }

    /// Joins in what another path over a shared link has begun.
    fn join(&mut self, now: Time, manoeuvre: Manoeuvre) {
        match manoeuvre {
            Manoeuvre::Drain { span, share } => {
                // One excess is not to be answered twice.
                if self.is_crowded() && self.meter.has_seen_since() {
                    self.scale(now, share);
                }
                self.begin_drain(now, span);
            }
            Manoeuvre::BackOff(span) => {
                if let Mode::Contend(window) = &mut self.mode {
                    window.shrink(now);
                }
                self.begin_drain(now, span);
            }
        }
        self.begun = None;
    }

    /// The drain that has just begun will tell nothing: others of the session fill the queue meanwhile.
    fn discount_drain(&mut self) {
        self.drain.discount();
    }

    /// A path that comes in beside others over a common link begins at this rate, in bit/s. It does not double, because
    /// they know what the link carries; it climbs.
    fn begin_beside(&mut self, now: Time, rate: f64) {
        self.leave_start();
        self.allowed = AllowedRate::new(now, rate.max(LEAST_FIRST));
        self.climb.hurry(now);
    }

    /// Leaves a newcomer on a common link all but this share of the rate. What is on the way left at the old one, and
    /// must not bring that back.
    fn make_room(&mut self, now: Time, share: f64) {
        self.scale(now, share);
        self.be_blind(now);
    }

    // --- for the other sessions of the node ---------------------------------------------------------------------

    /// The limit that ended the start, each time that it is to be shared.
    fn take_limit(&mut self, now: Time) -> Option<Limit> {
        let limit = self.limit.as_mut()?;
        limit.take_due(now).then_some(*limit)
    }

    /// Whether its queue became too long when that limit was found, and it sends all that it may.
    fn has_met(&self, limit: &Limit) -> bool {
        let is_busy = match self.is_starting() {
            true => self.is_crowded() && self.meter.round().is_busy(),
            false => self.is_busy(),
        };
        is_busy && limit.explains(self.meter.crowd())
    }

    /// What it sends at a limit.
    fn part(&self) -> Part {
        let is_own = self.limit.is_some_and(|limit| limit.is_own());
        Part { rate: self.mean_rate(), most: if is_own { self.mean_rate() } else { MAX_RATE } }
    }

    /// Goes on with this share of its rate, because that is its part of a limit that was found with others.
    fn share_limit(&mut self, now: Time, limit: &Limit, share: f64) {
        self.leave_start();
        self.make_room(now, share);
        self.begin_drain(now, drain::VISIBLE);
        self.discount_drain();
        self.make_up_for_a_pause(now, limit);
    }

    /// Nobody else has met the limit: it is this path's own, if it has shown itself again.
    fn keep_limit(&mut self, now: Time, limit: &Limit) {
        let last_at_target = self.meter.last_at_target();
        self.limit.iter_mut().for_each(|limit| limit.keep(last_at_target));
        self.make_up_for_a_pause(now, limit);
    }

    /// Where no queue has stood since, what looked like a limit was a process that did not run.
    fn make_up_for_a_pause(&mut self, now: Time, limit: &Limit) {
        if limit.is_doubtful(self.meter.last_at_target()) {
            self.climb.hurry(now);
        }
    }
}

#[cfg(test)]
mod tests;
