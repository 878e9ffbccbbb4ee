//! The rate of one path: raised while the queue is short, lowered when the one-way delay grows.
//!
//! Loss is no signal here (theory §5). The controller looks at one round (about a round trip) at a time: the *smallest*
//! queueing delay of the round tells whether a queue stood all the while. It doubles at the start until a queue builds
//! up or the delivery flattens, then goes on in small steps. docs/decisions/rate-control.md says what this simple
//! controller can and cannot do.

use std::time::Duration;

use crate::time::Time;

/// Before anything is known, bit/s: 40 full packets in 100 ms.
const INITIAL_RATE: f64 = 4e6;
/// A path is never paced below this, bit/s: 30 packets a second keep its measurements alive.
const MIN_RATE: f64 = 360e3;
/// Nor above this, bit/s.
const MAX_RATE: f64 = 40e9;
/// A standing queue above this is too long (design §6).
const LONG_QUEUE: Duration = Duration::from_millis(10);
/// Below this there is room for more.
const SHORT_QUEUE: Duration = Duration::from_millis(4);
/// At the start a queue of this length ends the doubling at once.
const OVERSHOT_QUEUE: Duration = Duration::from_millis(25);
/// The shortest round: below, the reports' own spacing blurs the rates.
const SHORTEST_ROUND: Duration = Duration::from_millis(20);
/// The delay floor is the smallest delay of the last one to two of these.
const FLOOR_WINDOW: Duration = Duration::from_secs(10);

/// What one report tells of a path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Feedback {
    /// Arrival of the latest packet minus its departure, µs between two clocks: only its growth means anything.
    pub(crate) one_way_us: i64,
    /// Bytes whose fate this report tells, estimated from packet counts.
    pub(crate) known_bytes: f64,
    /// … and of these, those that arrived.
    pub(crate) delivered_bytes: f64,
    /// Bytes that left since the last feedback.
    pub(crate) sent_bytes: f64,
    /// The smoothed round trip.
    pub(crate) round_trip: Duration,
}

/// The paced rate of one path.
#[derive(Debug, Clone)]
pub(crate) struct RateController {
    rate: f64,
    doubling: bool,
    /// Rounds in a row that ended with an increase.
    rises: u32,
    floor: DelayFloor,
    round: Round,
}

#[derive(Debug, Clone)]
struct Round {
    start: Time,
    smallest_delay: i64,
    known_bytes: f64,
    delivered_bytes: f64,
    sent_bytes: f64,
}

impl RateController {
    pub(crate) fn new(now: Time) -> RateController {
        RateController {
            rate: INITIAL_RATE,
            doubling: true,
            rises: 0,
            floor: DelayFloor::new(now),
            round: Round::new(now),
        }
    }

    /// The rate to send at, in bit/s, IP headers included.
    pub(crate) fn rate(&self) -> f64 {
        self.rate
    }

    /// A path that came back starts at half its old rate.
    pub(crate) fn restart(&mut self, now: Time) {
        self.rate = (self.rate / 2.0).max(MIN_RATE);
        self.rises = 0;
        self.floor = DelayFloor::new(now);
        self.round = Round::new(now);
    }

    /// Takes what a report tells and, at the end of a round, adjusts the rate.
    pub(crate) fn on_feedback(&mut self, now: Time, feedback: Feedback) {
        self.floor.observe(now, feedback.one_way_us);
        self.round.smallest_delay = self.round.smallest_delay.min(feedback.one_way_us);
        self.round.known_bytes += feedback.known_bytes;
        self.round.delivered_bytes += feedback.delivered_bytes;
        self.round.sent_bytes += feedback.sent_bytes;
        let overshot = self.doubling && self.queue(feedback.one_way_us) > OVERSHOT_QUEUE;
        if overshot || now.since(self.round.start) >= feedback.round_trip.max(SHORTEST_ROUND) {
            self.end_round(now, overshot);
        }
    }

    /// Ends a round; if it `overshot`, its latest delay counts however short the queue was before.
    fn end_round(&mut self, now: Time, overshot: bool) {
        let round = std::mem::replace(&mut self.round, Round::new(now));
        let seconds = now.since(round.start).as_secs_f64().max(1e-3);
        let delivered = round.delivered_bytes * 8.0 / seconds;
        let sent = round.sent_bytes * 8.0 / seconds;
        let queue = self.queue(round.smallest_delay);
        // A path that had little to carry shows nothing of what it could.
        let was_busy = sent > 0.7 * self.rate;
        let drowns = round.delivered_bytes < 0.5 * round.known_bytes;
        if self.doubling && (overshot || queue > LONG_QUEUE || drowns) {
            self.doubling = false;
            self.rate = delivered.clamp(self.rate / 4.0, self.rate);
        } else if self.doubling {
            self.rate *= if was_busy { 2.0 } else { 1.0 };
        } else if queue > LONG_QUEUE || drowns {
            self.lower(queue, delivered);
        } else if queue < SHORT_QUEUE && was_busy {
            self.rises += 1;
            self.rate *= if self.rises > 8 { 1.08 } else { 1.03 };
        } else {
            self.rises = 0;
        }
        self.rate = self.rate.clamp(MIN_RATE, MAX_RATE);
    }

    fn lower(&mut self, queue: Duration, delivered: f64) {
        self.rises = 0;
        let step = if queue > 3 * LONG_QUEUE { 0.8 } else { 0.93 };
        // Never far below what the path has just shown to carry.
        self.rate = (self.rate * step).max(0.8 * delivered);
    }

    fn queue(&self, delay_us: i64) -> Duration {
        Duration::from_micros(delay_us.saturating_sub(self.floor.smallest()).max(0).unsigned_abs())
    }
}

impl Round {
    fn new(start: Time) -> Round {
        Round { start, smallest_delay: i64::MAX, known_bytes: 0.0, delivered_bytes: 0.0, sent_bytes: 0.0 }
    }
}

/// The smallest delay of the recent past, over two windows of which the older is dropped in turn.
#[derive(Debug, Clone)]
struct DelayFloor {
    since: Time,
    current: i64,
    previous: i64,
}

impl DelayFloor {
    fn new(now: Time) -> DelayFloor {
        DelayFloor { since: now, current: i64::MAX, previous: i64::MAX }
    }

    fn observe(&mut self, now: Time, delay_us: i64) {
        if now.since(self.since) > FLOOR_WINDOW {
            (self.since, self.previous, self.current) = (now, self.current, i64::MAX);
        }
        self.current = self.current.min(delay_us);
    }

    fn smallest(&self) -> i64 {
        self.current.min(self.previous)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A link of `capacity` bit/s with a queue that never overflows, fed at the controller's rate for `seconds`.
    /// Gives the mean of delivered rate over capacity in the second half, and the longest queue there, in ms.
    fn drive(controller: &mut RateController, capacity: f64, loss: f64, seconds: u64) -> (f64, f64) {
        let (mut queue_bits, mut delivered_in_all, mut longest) = (0.0f64, 0.0, 0.0f64);
        let step = 5 * MS;
        for tick in 0..seconds * 200 {
            let now = Time::ZERO + step * tick as u32;
            let sent = controller.rate() * step.as_secs_f64();
            queue_bits += sent;
            let served = queue_bits.min(capacity * step.as_secs_f64());
            queue_bits -= served;
            let delay = queue_bits / capacity;
            controller.on_feedback(
                now,
                Feedback {
                    one_way_us: 20_000 + (delay * 1e6) as i64,
                    known_bytes: served / 8.0,
                    delivered_bytes: served * (1.0 - loss) / 8.0,
                    sent_bytes: sent / 8.0,
                    round_trip: 40 * MS,
                },
            );
            if tick > seconds * 100 {
                delivered_in_all += served;
                longest = longest.max(delay * 1e3);
            }
        }
        (delivered_in_all / (capacity * seconds as f64 / 2.0), longest)
    }

    #[test]
    fn it_fills_the_link_with_a_short_queue_whatever_the_loss() {
        for loss in [0.0, 0.05, 0.2] {
            let mut controller = RateController::new(Time::ZERO);
            let (share, longest) = drive(&mut controller, 50e6, loss, 20);
            assert!(share > 0.9, "{share} of the capacity at loss {loss}");
            assert!(longest < 40.0, "{longest} ms at loss {loss}");
        }
    }

    #[test]
    fn an_idle_path_does_not_raise_its_rate() {
        let mut controller = RateController::new(Time::ZERO);
        for tick in 0..1000 {
            let now = Time::ZERO + 5 * MS * tick;
            let bytes = 100.0;
            controller.on_feedback(
                now,
                Feedback {
                    one_way_us: 0,
                    known_bytes: bytes,
                    delivered_bytes: bytes,
                    sent_bytes: bytes,
                    round_trip: 10 * MS,
                },
            );
        }
        assert!(controller.rate() <= INITIAL_RATE);
    }

    #[test]
    fn a_queue_that_shoots_up_ends_the_doubling_although_the_round_began_with_none() {
        // Such a round once doubled the rate again, because only its smallest delay was looked at.
        let mut controller = RateController::new(Time::ZERO);
        let busy = |one_way_us| Feedback {
            one_way_us,
            known_bytes: 40_000.0,
            delivered_bytes: 40_000.0,
            sent_bytes: 40_000.0,
            round_trip: 100 * MS,
        };
        controller.on_feedback(Time::ZERO + 10 * MS, busy(20_000));
        controller.on_feedback(Time::ZERO + 20 * MS, busy(50_000));
        assert!(!controller.doubling && controller.rate() <= INITIAL_RATE, "{}", controller.rate());
    }

    #[test]
    fn a_path_that_returns_starts_at_half_its_rate() {
        let mut controller = RateController::new(Time::ZERO);
        drive(&mut controller, 50e6, 0.0, 5);
        let before = controller.rate();
        controller.restart(Time::ZERO);
        assert!((controller.rate() - before / 2.0).abs() < 1.0);
    }
}
