//! Beside flows that fill the queue: a window as TCP with CUBIC would have it [RFC 9438].
//!
//! Two windows over one queue share the link as their sizes are, so the rate is the window over the measured round
//! trip. The window shrinks when the queue has fallen from its peak, because then the others have shrunk theirs, or
//! when packets are lost while the queue is at its peak. Loss at other times is the link's own. How far the queue falls
//! when we drain it shows our share of the link, which keeps the growth in bounds.

use std::time::Duration;

use super::drain;
use super::round::Round;
use super::watch::{ALARM, LEAST_LOSS, MEMORY, risen};
use super::{Feedback, NEARLY};
use crate::time::Time;

/// What remains of the window after it shrank. CUBIC has 0.7, but shrinks only for its own losses; we do so with every
/// fall of the queue.
const BETA: f64 = 0.8;
/// How fast it grows again, packets/s³ [RFC 9438 §5].
const C: f64 = 0.4;
/// How fast, in packets a round trip, Reno's window would grow below its last maximum; above it, by one.
const RENO_BELOW: f64 = 3.0 * (1.0 - BETA) / (1.0 + BETA);
/// How fast the window of a session that is not `fair` grows, as a share: it is to leave others more than half.
const MODEST: f64 = 0.33;
/// By what growth is multiplied or divided at most while our share of the link is far from the one that the weight
/// stands for, half of it beside one flow: among many flows a session never weighs more than this many.
const BOOST: f64 = 2.0;
/// Bytes of a full packet, by which windows grow; none is smaller.
const PACKET: f64 = 1_500.0;
/// A fall of the queue by this share of the round trip shows that others sent less.
const FALL_SHARE: f64 = 0.06;
/// So many round trips after the window shrank a drain tries whether the others are still there.
const TRIAL_ROUND_TRIPS: f64 = 3.0;
/// That trial comes no sooner than so many seconds after.
const LEAST_PAUSE: f64 = 0.3;

/// The window.
#[derive(Debug, Clone)]
pub(super) struct Window {
    /// In bytes, as all windows here.
    bytes: f64,
    /// The window before it last shrank and thereafter, and when that was.
    greatest: f64,
    least: f64,
    since: Time,
    /// What Reno's window would be.
    reno: f64,
    observed_at: Time,
    /// The longest queue since then, seconds.
    peak: f64,
    evidence: f64,
    /// When it first shrank since the latest trial, which shrinking again must not put off for ever.
    shrunk_at: Option<Time>,
    /// When to try whether the others still fill the queue, and whether that is being tried.
    trial_at: Time,
    is_trying: bool,
    round_trip: f64,
    /// Our share of the link, as the latest trial showed it.
    link_share: f64,
    /// The loss while the queue is below its peak.
    own_loss: f64,
}

impl Window {
    /// Begins at this rate, bit/s; a drain showed this response on a link that loses this share by itself.
    pub(super) fn new(now: Time, rate: f64, round_trip: f64, response: f64, own_loss: f64) -> Window {
        let bytes = (rate * round_trip / 8.0).max(PACKET);
        Window {
            bytes,
            greatest: bytes,
            least: bytes,
            since: now,
            reno: bytes,
            observed_at: now,
            peak: 0.0,
            evidence: 0.0,
            shrunk_at: None,
            trial_at: now + pause(round_trip),
            is_trying: false,
            link_share: response,
            round_trip,
            own_loss,
        }
    }

    /// The loss of the link itself.
    pub(super) fn own_loss(&self) -> f64 {
        self.own_loss
    }

    /// The rate of the window, bit/s.
    pub(super) fn rate(&self, round_trip: f64) -> f64 {
        self.bytes * 8.0 / round_trip
    }

    /// Takes a round and its last report; gives whether the window has shrunk. This path sends `path_share` of what its
    /// session sends over the shared links.
    pub(super) fn observe(
        &mut self,
        now: Time,
        is_fair: bool,
        path_share: f64,
        round: &Round,
        feedback: &Feedback,
    ) -> bool {
        let queue = round.mean_queue();
        self.peak = self.peak.max(queue);
        self.round_trip = feedback.round_trip.as_secs_f64();
        if !round.is_busy() {
            // The window is not what limits us: this time does not count [RFC 9438 §5.8].
            self.since += now.since(self.observed_at);
            (self.observed_at, self.peak) = (now, queue);
            return false;
        }
        if self.peak - queue > FALL_SHARE * self.round_trip || self.is_dropped(round, feedback.dispersion) {
            self.shrink(now);
            return true;
        }
        self.grow(now, is_fair, path_share, round.sent_rate());
        self.observed_at = now;
        false
    }

    /// Whether the queue has overflowed: what is lost while it is shorter than its peak is the link's own loss.
    fn is_dropped(&mut self, round: &Round, dispersion: f64) -> bool {
        let losses = round.losses();
        if round.mean_queue() < NEARLY * self.peak {
            self.evidence = 0.0;
            let weight = losses.packets / (losses.packets + MEMORY);
            self.own_loss += weight * (losses.share() - self.own_loss);
            return false;
        }
        let low = self.own_loss.max(LEAST_LOSS);
        let ratio = losses.log_likelihood_ratio(low, risen(low));
        self.evidence = (self.evidence + ratio / dispersion).max(0.0);
        self.evidence > ALARM
    }

    /// The window shrinks: the others have shrunk theirs, or the queue has overflowed.
    pub(super) fn shrink(&mut self, now: Time) {
        let (first, pause) = (*self.shrunk_at.get_or_insert(now), pause(self.round_trip));
        self.trial_at = (now + pause).min(first + 2 * pause);
        self.greatest = self.bytes;
        self.bytes = (self.bytes * BETA).max(PACKET);
        (self.least, self.reno) = (self.bytes, self.bytes);
        (self.since, self.observed_at) = (now, now);
        (self.peak, self.evidence) = (0.0, 0.0);
    }

    fn grow(&mut self, now: Time, is_fair: bool, path_share: f64, sent_rate: f64) {
        let weight = if is_fair { 1.0 } else { MODEST };
        let boost = (weight / 2.0 / self.link_share.max(0.01)).clamp(1.0 / BOOST, BOOST);
        let weight = path_share * weight * boost;
        let growth = if self.reno < self.greatest { RENO_BELOW } else { 1.0 };
        let round_trips = now.since(self.observed_at).as_secs_f64() / self.round_trip;
        self.reno += weight * growth * round_trips * PACKET;
        let c = weight * C * PACKET;
        let plateau = ((self.greatest - self.least).max(0.0) / c).cbrt();
        let cubic = c * (now.since(self.since).as_secs_f64() - plateau).powi(3) + self.greatest;
        // A window that is not used up does not grow: what nobody sends shows no limit [RFC 7661].
        let used = sent_rate / NEARLY * self.round_trip / 8.0;
        self.bytes = cubic.max(self.reno).min(used).clamp(self.bytes, 1.5 * self.bytes);
    }

    /// Whether it is time to try whether the others still fill the queue.
    pub(super) fn is_trial_due(&mut self, now: Time) -> bool {
        let is_due = now >= self.trial_at;
        if is_due {
            (self.trial_at, self.is_trying, self.shrunk_at) = (now + drain::INTERVAL, true, None);
            self.peak = 0.0;
        }
        is_due
    }

    /// A drain showed this response; gives whether the others are gone: the queue falls by about as much as if we were
    /// alone, and what they fill of it is less than a session that leaves others more than half would.
    pub(super) fn on_drained(&mut self, response: f64) -> bool {
        self.peak = 0.0;
        let is_trial = std::mem::take(&mut self.is_trying);
        if is_trial {
            self.link_share = response;
        }
        is_trial && response > 1.0 - MODEST
    }
}

/// From a change of the window to the trial after it.
fn pause(round_trip: f64) -> Duration {
    Duration::from_secs_f64((TRIAL_ROUND_TRIPS * round_trip).max(LEAST_PAUSE))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::rate::tests::feedback;

    const RATE: f64 = 1e7;
    const ROUND_TRIP: f64 = 0.1;

    /// What a session sees whose window has this rate, of which it uses such a share.
    fn observe(window: &mut Window, now: Time, sent_rate: f64, use_share: f64) {
        let span = Duration::from_millis(50);
        let begin = Feedback { round_trip: Duration::from_millis(100), ..feedback(1) };
        let end = Feedback {
            departed: begin.departed + span,
            arrived_us: begin.arrived_us + span.as_micros() as u64,
            bytes: sent_rate * span.as_secs_f64() / 8.0,
            ..begin
        };
        let mut round = Round::default();
        round.restart(&begin);
        round.observe(&end, 0.005, sent_rate / use_share);
        window.observe(now, true, 1.0, &round, &end);
    }

    /// The rate of a window after so many seconds in which each round sends what `sent` makes of its rate.
    fn after(seconds: u32, sent: impl Fn(f64) -> f64) -> f64 {
        let mut window = Window::new(Time::ZERO, RATE, ROUND_TRIP, 0.5, 0.0);
        for round in 1..=20 * seconds {
            let rate = window.rate(ROUND_TRIP);
            observe(&mut window, Time::ZERO + round * Duration::from_millis(50), sent(rate), 1.0);
        }
        window.rate(ROUND_TRIP)
    }

    #[test]
    fn a_window_that_is_used_up_grows() {
        assert!(after(10, |rate| rate) > 2.0 * RATE);
    }

    /// Over Geant2012 a masked path that its session held back once ran up to 25 Mbit/s on links of 10, and then used
    /// it.
    #[test]
    fn a_window_grows_no_further_than_what_is_sent_shows() {
        let rate = after(30, |_| RATE);
        assert!(rate <= RATE / NEARLY * 1.001, "{rate}");
    }

    /// The windows of four sessions that had taken one another for foreign flows shrank five times a second, each time
    /// that the queue fell, and put off the look whether others are still there: for good, while a third of the link
    /// stood idle.
    #[test]
    fn a_window_that_keeps_shrinking_is_tried_all_the_same() {
        let mut window = Window::new(Time::ZERO, RATE, ROUND_TRIP, 0.5, 0.0);
        let mut now = Time::ZERO;
        let tried = (0..10).any(|_| {
            now += pause(ROUND_TRIP) * 2 / 3;
            window.shrink(now);
            window.is_trial_due(now)
        });
        assert!(tried);
    }

    #[test]
    fn time_in_which_it_is_not_used_up_does_not_count() {
        let mut window = Window::new(Time::ZERO, RATE, ROUND_TRIP, 0.5, 0.0);
        let mut now = Time::ZERO;
        for _ in 0..600 {
            now += Duration::from_millis(50);
            observe(&mut window, now, RATE / 2.0, 0.5);
        }
        observe(&mut window, now + Duration::from_millis(50), RATE, 1.0);
        assert!(window.rate(ROUND_TRIP) < 1.02 * RATE, "{}", window.rate(ROUND_TRIP));
    }
}
