//! What a controller does with a report, in each of its modes.

use std::time::Duration;

use super::check::{self, Check, Verdict};
use super::climb::Sight;
use super::common_limit::Limit;
use super::contention::Rivals;
use super::drain::{self, Drained};
use super::mode::Mode;
use super::round::{Round, STANDING};
use super::start::{Start, Step};
use super::watch::Losses;
use super::window::Window;
use super::{
    Feedback, LEAST_PACKETS, LONG_QUEUE, MOST_UNDER_WAY, Manoeuvre, NEARLY, RateController, SAMPLE,
    SHORTEST_ROUND, SLOW_RATE, TARGET_QUEUE, TARGET_RATE, overload, watch,
};
use crate::time::Time;

impl RateController {
    /// Takes what a report tells and adjusts the rate.
    pub(crate) fn on_feedback(&mut self, now: Time, feedback: &Feedback) {
        if self.meter.is_outgrown_by(feedback.size) {
            self.meter.forget_delays();
            self.drain.forget_delays();
        }
        let Some(feedback) = &self.meter.take(now, feedback) else { return };
        // What may be under way makes no longer queue; what is beyond are pauses of a process.
        let longest = MOST_UNDER_WAY as f64 * 8.0 / self.mean_rate();
        let queue = self.meter.observe_delay(now, feedback, longest, self.tolerated_jitter());
        self.drain.observe(feedback);
        if self.is_crowded() {
            self.meter.note_crowd(now, feedback.round_trip);
        }
        if matches!(self.mode, Mode::Check(_)) {
            return self.on_check_feedback(now, feedback);
        }
        if self.meter.is_blind_to(feedback.departed) {
            return self.meter.round_mut().restart(feedback);
        }
        let allowed = self.allowed.at(feedback.departed);
        if let Some(drained) = self.drain.take_effect() {
            self.on_drained(now, &drained, feedback);
        }
        match self.mode {
            Mode::Start(_) => self.meter.round_mut().observe_bursts(feedback, queue, allowed),
            _ => self.meter.round_mut().observe(feedback, queue, allowed),
        }
        if self.loss_has_risen(now, queue, feedback) {
            let watch = self.meter.watch();
            let policed_rate = watch.share_if_policed(watch.risen_loss()) * allowed;
            let share = (check::CHECK_RATE * policed_rate / self.mean_rate()).min(check::CHECK_RATE);
            return self.begin_check(now, share);
        }
        match self.mode {
            Mode::Start(_) => self.double(now, feedback),
            Mode::Cruise => self.cruise(now, feedback),
            Mode::Contend(_) => self.contend(now, feedback),
            Mode::Check(_) => {}
        }
    }

    /// Enters another mode; gives the one that ends.
    pub(super) fn enter(&mut self, mode: Mode) -> Mode {
        assert!(self.mode.may_become(&mode), "{mode:?} after {:?}", self.mode);
        std::mem::replace(&mut self.mode, mode)
    }

    // --- the queue ----------------------------------------------------------------------------------------------

    /// The standing queue that this path aims at, in seconds.
    fn target(&self) -> f64 {
        let rate = self.shared_rate.max(self.mean_rate());
        let fast = TARGET_QUEUE * (TARGET_RATE / rate.max(SLOW_RATE)).sqrt();
        // Each halving makes it longer by no less than can be seen.
        let slow = STANDING * (SLOW_RATE / rate.min(SLOW_RATE)).log2();
        (fast + slow).max(STANDING)
    }

    /// A queue at which sessions of ours come to rest is shorter than this, in seconds.
    fn restful_queue(&self) -> f64 {
        2.0 * self.target().min(TARGET_QUEUE) + LONG_QUEUE
    }

    /// A queue that is longer than this, in seconds, is too long.
    fn long_queue(&self) -> f64 {
        self.restful_queue().max(self.target() + LONG_QUEUE)
    }

    /// Jitter that is shorter than this, in seconds, is nothing beside the queue that the path aims at. Where other
    /// paths of its session or of its node share a link, the queues that each of them makes are jitter to the others.
    fn tolerated_jitter(&self) -> f64 {
        let has_company = self.shares_links() || self.is_beside_sessions;
        if has_company { 2.0 * self.long_queue() } else { self.target() }
    }

    /// Whether a queue of so many seconds is about as long as it should be: then it shows what the path carries, so it
    /// is not loss that limits the path.
    fn has_reached_target(&self, queue: f64) -> bool {
        queue > NEARLY * self.target()
    }

    /// Whether the queue is too long.
    pub(crate) fn is_crowded(&self) -> bool {
        self.meter.queue() > self.long_queue()
    }

    /// What left until now is no basis for the rate.
    pub(super) fn be_blind(&mut self, now: Time) {
        self.meter.be_blind_until(now.max(self.drain.until()));
    }

    pub(super) fn begin_drain(&mut self, now: Time, span: Duration) {
        self.drain.begin(now, span);
        self.meter.ignore_until(self.drain.until());
    }

    /// Drains, and tells the paths over common links to join in.
    fn begin_manoeuvre(&mut self, now: Time, manoeuvre: Manoeuvre) {
        let (Manoeuvre::Drain { span, .. } | Manoeuvre::BackOff(span)) = manoeuvre;
        self.begin_drain(now, span);
        self.begun = Some(manoeuvre);
    }

    // --- start --------------------------------------------------------------------------------------------------

    /// Doubles the rate as soon as packets sent at it have arrived, until a queue stands, or until too few arrive of
    /// two steps in a row: of one it may have been a pause of a process.
    fn double(&mut self, now: Time, feedback: &Feedback) {
        if self.is_crowded() {
            // A step does not end with a queue or a pause of which it is not known yet whether it stands.
            if Start::is_ended_by(self.meter.round()) {
                self.end_start_by_queue(now, feedback);
            }
            return;
        }
        let (span, packets) = self.length_of_step(feedback);
        let round = self.meter.end_round(span, packets, feedback);
        let Some(round) = round.filter(Round::has_carried) else { return };
        let Mode::Start(start) = &mut self.mode else { return };
        match start.judge(&round) {
            Step::Double => {
                self.allowed.set(now, self.mean_rate() * 2.0);
                self.be_blind(now);
            }
            Step::Repeat => {}
            Step::End(share) => {
                self.allowed.set(now, self.mean_rate() * share);
                self.end_start(now);
            }
        }
    }

    /// How long a step of the start lasts, and how many packets it needs. It is short while nothing is lost and no
    /// queue stands, although one would show by now. Then two reports end it, which are 10 ms apart, and may tell of a
    /// little less than 20. A path beside others of its node may take the queue that they keep for the way.
    fn length_of_step(&self, feedback: &Feedback) -> (Duration, u64) {
        let (step, round_trip) = (self.meter.round(), feedback.round_trip.as_secs_f64());
        let is_clear = step.is_clear() && step.arrival_span() >= 2.0 * round_trip;
        let is_short = is_clear && !self.is_beside_sessions;
        if is_short { (SHORTEST_ROUND.mul_f64(NEARLY), LEAST_PACKETS) } else { (SHORTEST_ROUND, SAMPLE) }
    }

    fn end_start_by_queue(&mut self, now: Time, feedback: &Feedback) {
        let is_alone = !self.shares_links();
        let (round, rate) = (self.meter.round().clone(), self.mean_rate());
        // Where less was sent than allowed, what arrives tells nothing of the link. But half the rate has been carried
        // before, and on links that are not shared nobody can have come since.
        let least = if is_alone && !round.is_busy() { rate / 2.0 } else { rate / 4.0 };
        self.allowed.set(now, round.number_rate_of_queue().clamp(least, rate));
        self.meter.note_use(&round);
        if is_alone {
            // No conclusion is drawn from it: the delays before it are of a rate that was still doubling.
            self.begin_drain(now, drain::span(self.meter.queue() - self.target(), false));
            self.drain.discount();
        }
        self.end_start(now);
        self.limit = Some(Limit::found(now, feedback.round_trip));
    }

    fn end_start(&mut self, now: Time) {
        if let Mode::Start(start) = self.enter(Mode::Cruise) {
            start.teach(self.meter.watch_mut());
        }
        self.be_blind(now);
    }

    /// Ends the start, if there is one, because what the links carry is known from others.
    pub(super) fn leave_start(&mut self) {
        if self.is_starting() {
            self.enter(Mode::Cruise);
        }
    }

    // --- cruise -------------------------------------------------------------------------------------------------

    /// The round that ends with this report, after the start.
    fn end_round(&mut self, feedback: &Feedback) -> Option<Round> {
        let round = self.meter.end_round(round_span(feedback), LEAST_PACKETS, feedback)?;
        self.meter.note_use(&round);
        Some(round)
    }

    /// Each round the rate follows the queue, or climbs where there is none.
    fn cruise(&mut self, now: Time, feedback: &Feedback) {
        let Some(round) = self.end_round(feedback) else { return };
        let (queue, target) = (round.standing_queue(), self.target());
        if self.has_reached_target(queue) {
            self.meter.note_queue_at_target(now);
        }
        self.drain.note_queue(now, queue, target);
        if queue > self.long_queue() {
            return self.shorten_queue(now, &round);
        }
        if let Some(losses) = self.overload.observe(now, &round) {
            return self.yield_to_overload(now, &losses);
        }
        // A slow path's round lasts until it has sent enough packets.
        let lasted = round.arrival_span().max(round_span(feedback).as_secs_f64());
        let round_trip = feedback.round_trip.as_secs_f64();
        let sight = Sight {
            now,
            round: &round,
            rate: self.mean_rate(),
            target,
            loop_delay: round_trip + lasted,
            round_trip,
            queue_was_at_target: self.meter.was_lately_at_target(now),
        };
        let rate = self.climb.follow(&sight);
        self.allowed.set(now, rate);
        self.drain_if_due(now, queue);
    }

    /// The queue is too long: the path goes on with what the bottleneck has shown to carry, once the queue is drained.
    fn shorten_queue(&mut self, now: Time, round: &Round) {
        let carried = self.carried(round);
        self.allowed.set(now, carried);
        // A common queue lets through the same share of what each sends.
        let share = (carried / round.allowed_rate()).min(1.0);
        let span = drain::span(round.standing_queue() - self.target(), self.rivals.are_suspected());
        self.begin_manoeuvre(now, Manoeuvre::Drain { span, share });
    }

    /// Most of what is sent is lost: the path goes on with what arrives. It may be a disturbance that passes: this loss
    /// is expected until fewer packets are lost, so that no check takes its end for what a lower rate has brought
    /// about, and then the path climbs fast.
    fn yield_to_overload(&mut self, now: Time, losses: &Losses) {
        self.allowed.set(now, self.mean_rate() * (1.0 - losses.share()));
        self.meter.watch_mut().learn(losses.share(), losses.packets);
        self.climb.hurry(now);
        self.be_blind(now);
    }

    /// What the bottleneck has shown to carry, at most the rate at which we send. A queue that overflows may by chance
    /// drop nearly all of a few packets: a round of few packets shows no more loss than what is no overload.
    fn carried(&self, round: &Round) -> f64 {
        if !round.is_busy() {
            return self.mean_rate() * round.stretch().min(1.0);
        }
        let losses = round.losses();
        let most = if losses.packets < SAMPLE as f64 { overload::TOO_MUCH } else { 1.0 };
        let arrived_share = (1.0 - losses.share().min(most)) / (1.0 - self.meter.watch().own_loss());
        round.number_rate() * arrived_share.min(1.0)
    }

    /// Now and then drains the queue, for a look at the delay's floor.
    fn drain_if_due(&mut self, now: Time, queue: f64) {
        let must_be_seen = self.is_fair || self.rivals.are_suspected();
        if let Some(span) = self.drain.take_due(now, queue, must_be_seen, self.meter.floor_mut()) {
            self.begin_manoeuvre(now, Manoeuvre::Drain { span, share: 1.0 });
        }
    }

    // --- check --------------------------------------------------------------------------------------------------

    /// Whether more is lost than the link loses by itself. What a long queue drops is told by the queue.
    fn loss_has_risen(&mut self, now: Time, queue: f64, feedback: &Feedback) -> bool {
        if !matches!(self.mode, Mode::Cruise) || self.is_crowded() {
            return false;
        }
        let is_limited_by_delay = self.has_reached_target(queue) && self.meter.was_lately_at_target(now);
        let is_above_ceiling = self.climb.is_above_ceiling(self.mean_rate());
        self.meter.watch_mut().observe(feedback, is_limited_by_delay, is_above_ceiling)
    }

    pub(super) fn begin_check(&mut self, now: Time, share: f64) {
        let check = Check::of_rise(now, share, self.meter.watch());
        self.enter(Mode::Check(check));
    }

    fn on_check_feedback(&mut self, now: Time, feedback: &Feedback) {
        let Mode::Check(check) = &mut self.mode else { return };
        let Some(verdict) = check.observe(feedback) else { return };
        if verdict == Verdict::Deeper {
            let deeper = check.deeper(now, self.meter.watch());
            self.enter(Mode::Check(deeper));
            return;
        }
        if let Mode::Check(check) = self.enter(Mode::Cruise) {
            self.conclude(now, verdict, &check);
        }
    }

    fn conclude(&mut self, now: Time, verdict: Verdict, check: &Check) {
        let (loss, packets) = (check.losses().share(), check.losses().packets);
        if verdict == Verdict::Policed {
            // The share that was not policed before the check, if the loss during the check is the link's own: no less
            // than what the check has sent, and no more than what was expected when it began.
            let unpoliced = (1.0 - self.meter.watch().risen_loss()) / (1.0 - loss);
            let share = unpoliced.clamp(check.share(), check.share() / check::CHECK_RATE);
            self.allowed.set(now, self.mean_rate() * share);
            self.climb.meet_ceiling(now, self.mean_rate());
            self.meter.watch_mut().note_lowered_rate(loss, packets);
        } else {
            self.meter.watch_mut().learn(loss, packets);
        }
        self.climb.end();
        self.be_blind(now);
    }

    // --- contend ------------------------------------------------------------------------------------------------

    /// Draws the conclusion from a drain.
    fn on_drained(&mut self, now: Time, drained: &Drained, feedback: &Feedback) {
        if self.rivals.note_movement(drained) {
            return self.on_longer_way(now);
        }
        if drained.is_still {
            self.drain.hurry(now);
        }
        if let Mode::Contend(window) = &mut self.mode {
            if window.on_drained(drained.response) {
                self.close_contention();
            }
            return;
        }
        let is_short = self.meter.floor().above(self.drain.lowest()) < self.restful_queue();
        if self.rivals.note_response(now, drained, is_short) && matches!(self.mode, Mode::Cruise) {
            self.rivals = Rivals::default();
            let (rate, own_loss) = (self.mean_rate(), self.meter.watch().own_loss());
            let round_trip = feedback.round_trip.as_secs_f64();
            let window = Window::new(now, rate, round_trip, drained.response, own_loss);
            self.enter(Mode::Contend(window));
        }
    }

    /// Ends the contention, if there is one.
    fn close_contention(&mut self) {
        if let Mode::Contend(window) = &self.mode {
            self.meter.watch_mut().learn(window.own_loss(), watch::MEMORY);
            self.enter(Mode::Cruise);
        }
    }

    /// What looked like a queue does not depend on what we send: the way has become longer.
    fn on_longer_way(&mut self, now: Time) {
        let longer_us = self.drain.lowest();
        self.meter.floor_mut().rise(now, longer_us);
        self.close_contention();
        self.rivals = Rivals::default();
        self.be_blind(now);
    }

    /// Keeps the window beside flows that fill the queue. Each time it shrinks, the queue is drained, too: sessions of
    /// ours do so at the same time, and together they empty it.
    fn contend(&mut self, now: Time, feedback: &Feedback) {
        let Some(round) = self.end_round(feedback) else { return };
        let path_share = self.mean_rate() / self.shared_rate.max(self.mean_rate());
        let Mode::Contend(window) = &mut self.mode else { return };
        let has_shrunk = window.observe(now, self.is_fair, path_share, &round, feedback);
        let is_trial = !has_shrunk && round.is_busy() && window.is_trial_due(now);
        let queue = round.mean_queue();
        if is_trial && queue < STANDING {
            return self.close_contention();
        }
        self.allowed.set(now, window.rate(feedback.round_trip.as_secs_f64()));
        if has_shrunk || is_trial {
            let span = drain::span(queue, false);
            let drain = Manoeuvre::Drain { span, share: 1.0 };
            self.begin_manoeuvre(now, if has_shrunk { Manoeuvre::BackOff(span) } else { drain });
        }
    }
}

/// How long a round lasts at least, after the start.
fn round_span(feedback: &Feedback) -> Duration {
    (feedback.round_trip / 2).max(SHORTEST_ROUND)
}
