//! Between manoeuvres: the rate follows what is delivered, so that the queue is as long as it should be, or climbs.

use std::time::Duration;

use super::round::Round;
use super::{BUSY, Feedback, Manoeuvre, RateController, SHORTEST_ROUND, drain};
use crate::time::Time;

/// The proportional gain of the queue's control, times the delay of the loop: 1/e is critically damped.
const GAIN: f64 = 0.36;
/// A round has no fewer packets than this.
const LEAST_PACKETS: u64 = 16;
/// A path that sends more than this share of its rate may climb if it sees no queue: where all paths must keep step, with
/// whole packets, none of them sends all that it may.
const USED: f64 = 0.6;
/// Growth without any sign of a limit, per second; it doubles every second from the first value up to the second …
const CLIMB: (f64, f64) = (0.1, 1.5);
/// … and is this near a rate at which packets were dropped.
const CREEP: f64 = 0.02;
/// Beyond this share of a ceiling, it has moved.
const BEYOND: f64 = 1.08;
/// A round's rate never changes by more than this upwards.
const MAX_GROWTH: f64 = 0.25;

impl RateController {
    /// Takes what a report tells once the start is over: each round the rate follows the queue, or climbs where there is none.
    pub(super) fn cruise(&mut self, now: Time, feedback: &Feedback) {
        let span = (feedback.round_trip / 2).max(SHORTEST_ROUND);
        if !self.round.is_over(span, LEAST_PACKETS) {
            return;
        }
        let round = self.round.clone();
        (self.sent, self.is_busy) = (Some(round.sent_rate()), round.is_busy());
        self.round.restart(feedback);
        let queue = round.standing_queue();
        if self.contention.is_open() {
            return self.contend(now, &round, feedback);
        }
        if queue > 0.9 * self.target() {
            self.told_at = now;
            self.ended_at = None;
        }
        self.note_queue(now, queue);
        if queue > self.long_queue() {
            let carried = self.carried(&round);
            self.set_rate(now, carried);
            // A common queue lets through the same share of what each sends.
            let share = (carried / round.allowed_rate()).min(1.0);
            let span = drain::span(queue - self.target(), self.contention.failures());
            self.begin_manoeuvre(now, Manoeuvre::Drain { span, share });
        } else {
            // A slow path's round lasts until it has sent enough packets.
            let loop_delay = feedback.round_trip.as_secs_f64() + round.arrival_span().max(span.as_secs_f64());
            self.control(now, &round, loop_delay);
            self.manoeuvre_if_due(now, queue);
        }
    }

    /// What the bottleneck has shown to carry, at most the rate at which we send.
    fn carried(&self, round: &Round) -> f64 {
        if !round.is_busy() {
            return self.rate * round.stretch().min(1.0);
        }
        let received = round.arrived_rate() / (1.0 - self.watch.own_loss());
        round.number_rate().min(received)
    }

    fn control(&mut self, now: Time, round: &Round, loop_delay: f64) {
        let (queue, target) = (round.standing_queue(), self.target());
        let push = GAIN / loop_delay * (target - queue);
        let rate = if queue < target / 2.0 {
            self.climb(now, round, loop_delay, push)
        } else if round.is_busy() {
            self.climbing_since = None;
            round.number_rate() * (1.0 + push)
        } else {
            self.rate * (round.stretch() * (1.0 + push)).min(1.0)
        };
        let rate = match self.is_near_ceiling() {
            true => rate.min(round.allowed_rate() * (1.0 + self.creep(now) * loop_delay)),
            false => rate,
        };
        self.set_rate(now, rate);
        if self.ceiling.is_some_and(|ceiling| self.rate > BEYOND * ceiling || queue > 1.2 * target) {
            self.ceiling = None;
            self.climbing_since = None;
        }
    }

    /// Without a queue there is room for more, unless packets were dropped at this rate not long ago.
    fn climb(&mut self, now: Time, round: &Round, loop_delay: f64, push: f64) -> f64 {
        // Who sees a queue and yet does not send all that it may, has enough.
        let sees_queue = round.has_queue() || self.is_told(now);
        if !round.uses(if sees_queue { BUSY } else { USED }) {
            // The climb pauses: a path that has too little to send for a round is not to begin anew.
            let pause = Duration::from_secs_f64(loop_delay);
            self.climbing_since = self.climbing_since.map(|since| (since + pause).min(now));
            return self.rate;
        }
        if self.was_ended_by_a_pause(now) {
            self.resume_start();
        }
        let since = *self.climbing_since.get_or_insert(now);
        let growth = (CLIMB.0 * now.since(since).as_secs_f64().exp2()).min(CLIMB.1) * loop_delay;
        // Where no queue was seen for long, something else may limit the path: the way up is then a slow one.
        let push = if self.is_told(now) { push } else { 0.0 };
        // What was allowed a round trip ago, not the rate of now: its effect is still to be seen.
        round.allowed_rate() * (1.0 + growth.max(push).min(MAX_GROWTH))
    }

    /// Growth near a ceiling, per second.
    fn creep(&self, now: Time) -> f64 {
        CREEP * (now.since(self.lowered_at).as_secs_f64() / 1.5).exp2()
    }
}
