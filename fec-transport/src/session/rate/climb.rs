//! Between manoeuvres: the rate follows what is delivered, so that the queue is as long as it should be. Without a
//! queue it climbs, ever faster, and slowly above a rate at which packets were dropped.

use std::time::Duration;

use super::round::Round;
use super::{NEARLY, overload};
use crate::time::Time;

/// The proportional gain of the queue's control, times the delay of the loop: 1/e is critically damped.
const GAIN: f64 = 0.36;
/// A path that sends more than this share of its rate may climb if it sees no queue: where all paths must keep step,
/// with whole packets, none of them sends all that it may.
const USED: f64 = 0.6;
/// The growth, per second, with which a climb begins: there is no sign of a limit.
const CLIMB: f64 = 0.1;
/// The growth of a climb doubles in so many round trips, but within [`LONGEST_DOUBLING`] seconds: where it is seen
/// sooner what came of it, there is no reason to wait.
const DOUBLING_ROUND_TRIPS: f64 = 50.0;
/// However long the way is, growth doubles every second, also above a ceiling while no packets are dropped.
const LONGEST_DOUBLING: f64 = 1.0;
/// The rate never grows by more than this share before it is seen what came of it: a link carries too much for so long,
/// and over a long way that is a long queue.
const LARGEST_STEP: f64 = 0.15;
/// The growth above a ceiling, per second, at first.
const CREEP: f64 = 0.02;
/// Where there should be room a path climbs as if it had climbed for so long. One that comes back was at twice its rate
/// not long ago, and the session waits for it.
const CLIMBED: Duration = Duration::from_secs(3);

/// What the rate is to follow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sight<'a> {
    pub(super) now: Time,
    pub(super) round: &'a Round,
    /// The rate of now, in bit/s.
    pub(super) rate: f64,
    /// The queue that the path aims at, in seconds.
    pub(super) target: f64,
    /// How long it takes until a change of the rate shows in a round, in seconds.
    pub(super) loop_delay: f64,
    /// The round trip, in seconds.
    pub(super) round_trip: f64,
    /// Whether a queue has lately been as long as it should be, and so has shown what the path carries.
    pub(super) queue_was_at_target: bool,
}

impl Sight<'_> {
    /// Whether there is less of a queue than half of what should be.
    fn is_free(&self) -> bool {
        self.round.standing_queue() < self.target / 2.0
    }

    /// Whether the path sends so much of what it may that it wants more. A path that sees a queue, and yet does not
    /// send all that it may, has enough.
    fn is_used(&self) -> bool {
        let sees_queue = self.round.has_queue() || self.queue_was_at_target;
        self.round.uses(if sees_queue { NEARLY } else { USED })
    }

    /// By what share of itself the rate is to grow in a climb that has lasted for so many seconds.
    fn growth_after(&self, lasted: f64) -> f64 {
        let doubling = (DOUBLING_ROUND_TRIPS * self.round_trip).min(LONGEST_DOUBLING);
        (CLIMB * (lasted / doubling).exp2() * self.loop_delay).min(LARGEST_STEP)
    }
}

/// How the rate grows where no queue limits it.
#[derive(Debug, Clone, Default)]
pub(super) struct Climb {
    since: Option<Time>,
    /// The rate above which packets were dropped, in bit/s, and when that was.
    ceiling: Option<(f64, Time)>,
}

impl Climb {
    /// The next rate, by what a round has shown.
    pub(super) fn follow(&mut self, sight: &Sight<'_>) -> f64 {
        let queue = sight.round.standing_queue();
        if self.ceiling.is_some() && queue > sight.target {
            // Something else limits the path.
            (self.ceiling, self.since) = (None, None);
        }
        let push = GAIN / sight.loop_delay * (sight.target - queue);
        let rate = if sight.is_free() {
            self.climb(sight, push)
        } else if sight.round.is_busy() {
            // The law of the queue: what the link delivers, less if the queue is longer than its target.
            self.since = None;
            sight.round.number_rate() * (1.0 + push)
        } else {
            // The queue is not ours, as long as we do not send what we may.
            sight.rate
        };
        match self.ceiling {
            Some((ceiling, lowered_at)) if sight.rate > ceiling => {
                let doublings = sight.now.since(lowered_at).as_secs_f64() / LONGEST_DOUBLING;
                let creep = CREEP * doublings.exp2() * sight.loop_delay;
                rate.min(sight.round.allowed_rate() * (1.0 + creep))
            }
            _ => rate,
        }
    }

    /// Without a queue there is room for more, unless packets were dropped at this rate not long ago, or most of them
    /// are lost: where many have driven one another into an overload, each of them would climb on. That time counts as
    /// time of the climb, which is fast once less is lost.
    fn climb(&mut self, sight: &Sight<'_>, push: f64) -> f64 {
        let now = sight.now;
        if overload::is_too_much(&sight.round.losses()) {
            return sight.rate;
        }
        if !sight.is_used() {
            // The climb pauses: a path that has too little to send for a round is not to begin anew.
            let pause = Duration::from_secs_f64(sight.loop_delay);
            self.since = self.since.map(|since| (since + pause).min(now));
            return sight.rate;
        }
        let since = *self.since.get_or_insert(now);
        let growth = sight.growth_after(now.since(since).as_secs_f64());
        // Where no queue was seen for long, something else may limit the path: the way up is then a slow one.
        let push = if sight.queue_was_at_target { push } else { 0.0 };
        // This takes what was allowed a round trip ago, and not the rate of now, whose effect is still to be seen.
        sight.round.allowed_rate() * (1.0 + growth.max(push))
    }

    pub(super) fn is_above_ceiling(&self, rate: f64) -> bool {
        self.ceiling.is_some_and(|(ceiling, _)| rate > ceiling)
    }

    /// Packets were dropped above this rate, in bit/s.
    pub(super) fn meet_ceiling(&mut self, now: Time, rate: f64) {
        self.ceiling = Some((rate, now));
    }

    /// There is room: it climbs fast, if it climbs.
    pub(super) fn hurry(&mut self, now: Time) {
        self.since = Some(self.since.unwrap_or(now).min(now - CLIMBED));
    }

    /// The next climb begins slowly.
    pub(super) fn end(&mut self) {
        self.since = None;
    }

    #[cfg(test)]
    pub(super) fn has_begun(&self) -> bool {
        self.since.is_some()
    }
}
