//! Who fills the queue: ourselves, others, or nobody.
//!
//! ```text
//!            three drains that others undo
//!  Closed ─────────────────────────────────▶ Open: a window beside theirs
//!     ▲  ◀────────────────────────────────── │  each time it has shrunk, and every 4 s, a drain tries whether they
//!     │        the queue empties             │  still fill the queue; for 15 s one failure opens it again
//!     └── in either: two drains that move nothing show that the way has become longer
//! ```

use std::time::Duration;

use super::drain::{DRAIN_RATE, Drained};
use super::round::Round;
use super::window::{Signs, Window};
use super::{Feedback, Manoeuvre, RateController};
use crate::time::Time;

/// A queue that falls by less than this share of what it would if we were alone is filled by others.
const OURS: f64 = 0.5;
/// A queue of so many seconds is none.
const EMPTY: f64 = 0.002;
/// So many drains in a row that others undo open the contention; one does so soon after the last one.
const FAILURES: u32 = 3;
const SOON: Duration = Duration::from_secs(15);
/// So many in a row that move nothing show that the way has become longer.
const UNMOVED: u32 = 2;
/// A queue that has been so many times its target for this time is drained ahead of its time.
const EXCESSIVE: f64 = 1.5;
const PATIENCE: Duration = Duration::from_secs(1);
/// A drain that leaves a short queue counts as undone by others only if the queue has been above this many times its
/// target on average, for a fair session and for one that is not: so sessions of ours, which come to rest at their
/// targets, do not contend with one another …
const PRESSED: (f64, f64) = (1.0, 1.3);
/// … where each round counts so much.
const PRESSURE_WEIGHT: f64 = 0.1;
/// What a contention tells of the link's own loss weighs so many packets.
const LEARNT: f64 = 2_000.0;
/// The longest drain beside others.
const LONGEST_TRIAL: Duration = Duration::from_millis(500);

/// What the drains have shown of others.
#[derive(Debug, Clone, Default)]
pub(super) struct Contention {
    /// Drains in a row that others undid, and that moved nothing.
    failures: u32,
    unmoved: u32,
    /// Since when, or since which attempt to shorten it, the queue has been too long, and the rate before, bit/s.
    excess: Option<(Time, f64)>,
    /// The queue over its target, on average.
    pressure: f64,
    /// The window while the contention is open …
    window: Option<Window>,
    /// … and when it was closed last.
    closed: Option<(Time, Window)>,
}

impl Contention {
    pub(super) fn is_open(&self) -> bool {
        self.window.is_some()
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }

    /// Another path over a shared link has shrunk its window.
    pub(super) fn shrink(&mut self, now: Time) {
        self.window.iter_mut().for_each(|window| window.shrink(now));
    }

    /// Takes the queue of a round; gives whether it has stayed too long, whatever we did, to wait any longer.
    fn is_excessive(&mut self, now: Time, queue: f64, target: f64, rate: f64) -> bool {
        self.pressure += PRESSURE_WEIGHT * (queue / target - self.pressure);
        if queue < EXCESSIVE * target {
            self.excess = None;
            return false;
        }
        let (since, before) = *self.excess.get_or_insert((now, rate));
        let is_over = now.since(since) > PATIENCE;
        if is_over {
            self.excess = Some((now, before));
        }
        is_over
    }
}

impl RateController {
    /// A queue that stays too long is drained ahead of time, to see whether it is one.
    pub(super) fn note_queue(&mut self, now: Time, queue: f64) {
        let target = self.target();
        if self.contention.is_excessive(now, queue, target, self.rate) {
            self.drain_at = now;
        }
    }

    /// Draws the conclusion from a drain.
    pub(super) fn on_drained(&mut self, now: Time, drained: Drained, feedback: &Feedback) {
        self.contention.unmoved = if drained.is_still { self.contention.unmoved + 1 } else { 0 };
        if self.contention.unmoved >= UNMOVED {
            return self.on_longer_way(now);
        }
        if drained.is_still {
            self.drain_at = now;
        }
        if let Some(window) = &mut self.contention.window {
            if window.on_drained(drained.response) {
                self.close_contention(now);
            }
            return;
        }
        let is_short = self.floor.above(self.drain.lowest()) < self.long_queue();
        let pressed = if self.is_fair { PRESSED.0 } else { PRESSED.1 };
        let is_pressed = self.contention.pressure > pressed;
        if drained.response > OURS || (is_short && !is_pressed) {
            self.contention.failures = 0;
        } else {
            self.contention.failures += 1;
            self.open_contention_if_due(now, drained.response, feedback.round_trip);
        }
    }

    fn open_contention_if_due(&mut self, now: Time, response: f64, round_trip: Duration) {
        let closed = self.contention.closed.take().filter(|(closed, _)| now.since(*closed) < SOON);
        if self.contention.failures < FAILURES && closed.is_none() {
            return;
        }
        self.contention.failures = 0;
        let anew = || Window::new(now, self.rate, round_trip.as_secs_f64(), response, self.watch.own_loss());
        self.contention.window = Some(closed.map_or_else(anew, |(_, window)| window.resume(now)));
    }

    fn close_contention(&mut self, now: Time) {
        let Some(window) = self.contention.window.take() else { return };
        self.watch.learn(window.own_loss(), LEARNT);
        self.contention.closed = Some((now, window));
    }

    /// What looked like a queue does not depend on what we send: the way has become longer.
    fn on_longer_way(&mut self, now: Time) {
        self.floor.rise(now, self.drain.lowest());
        let before = std::mem::take(&mut self.contention);
        if let Some(window) = before.window {
            self.watch.learn(window.own_loss(), LEARNT);
        } else if let Some((_, rate)) = before.excess {
            self.set_rate(now, rate);
        }
        self.be_blind(now);
    }

    /// Keeps the window beside flows that fill the queue. Each time it shrinks, the queue is drained, too: sessions of ours
    /// do so at the same time, and together they empty it.
    pub(super) fn contend(&mut self, now: Time, round: &Round, feedback: &Feedback) {
        let path_share = self.rate / self.shared_rate.max(self.rate);
        let Some(window) = &mut self.contention.window else { return };
        let (packets, lost) = round.packets_and_lost();
        let signs = Signs {
            queue: round.mean_queue(),
            round_trip: feedback.round_trip.as_secs_f64(),
            packets,
            lost,
            dispersion: feedback.dispersion,
            sent_rate: round.sent_rate(),
            is_busy: round.is_busy(),
            path_share,
        };
        let has_shrunk = window.observe(now, self.is_fair, &signs);
        let is_trial = !has_shrunk && signs.is_busy && window.is_trial_due(now);
        let rate = window.rate(signs.round_trip);
        self.set_rate(now, rate);
        if is_trial && signs.queue < EMPTY {
            return self.close_contention(now);
        }
        if has_shrunk || is_trial {
            let span = Duration::from_secs_f64(signs.queue / (1.0 - DRAIN_RATE)).min(LONGEST_TRIAL);
            let drain = Manoeuvre::Drain { span, share: 1.0 };
            self.begin_manoeuvre(now, if has_shrunk { Manoeuvre::BackOff(span) } else { drain });
        }
    }
}
