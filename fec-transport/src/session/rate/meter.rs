//! What was measured of a path. Nothing is decided here.

use std::time::Duration;

use super::Feedback;
use super::common_limit::Crowd;
use super::drain;
use super::floor::DelayFloor;
use super::full::FullPackets;
use super::jitter::Jitter;
use super::round::Round;
use super::watch::LossWatch;
use crate::time::Time;

/// What the reports on a path have shown.
#[derive(Debug, Clone)]
pub(super) struct Meter {
    full: FullPackets,
    floor: DelayFloor,
    jitter: Jitter,
    /// How far the latest delay was above the floor, in seconds.
    queue: f64,
    round: Round,
    watch: LossWatch,
    crowd: Crowd,
    /// When the queue last was as long as it should be.
    last_at_target: Time,
    /// What packets tell that left before this is no basis for the rate.
    blind_until: Time,
    /// What was sent in the latest round, in bit/s.
    sent: Option<f64>,
    /// Whether that is about what was allowed.
    is_busy: bool,
}

impl Meter {
    pub(super) fn new(now: Time, watch: LossWatch) -> Meter {
        Meter {
            full: FullPackets::default(),
            floor: DelayFloor::default(),
            jitter: Jitter::default(),
            queue: 0.0,
            round: Round::default(),
            watch,
            crowd: Crowd::default(),
            last_at_target: now - drain::INTERVAL,
            blind_until: now,
            sent: None,
            is_busy: false,
        }
    }

    /// What this report tells, together with those before it that were about packets too small to tell of queues;
    /// `None` if this one is about such a packet, too.
    pub(super) fn take(&mut self, now: Time, feedback: &Feedback) -> Option<Feedback> {
        self.full.take(now, feedback)
    }

    /// Whether packets of this size are larger than those whose delays are known.
    pub(super) fn is_outgrown_by(&self, size: u32) -> bool {
        self.full.are_outgrown_by(size)
    }

    /// Larger packets take longer: the delays that were known are nothing to compare theirs with.
    pub(super) fn forget_delays(&mut self) {
        self.floor = DelayFloor::default();
        self.round = Round::default();
    }

    /// Takes the delay of a report; gives the queue that it shows, in seconds, but no more than `longest`: how far it
    /// is above the floor, and above what jitter explains beyond what is `tolerated` of it.
    pub(super) fn observe_delay(
        &mut self,
        now: Time,
        feedback: &Feedback,
        longest: f64,
        tolerated: f64,
    ) -> f64 {
        let delay_us = feedback.delay_us();
        self.floor.observe(now, delay_us);
        let jitter = (self.jitter.span() - tolerated).max(0.0);
        self.queue = (self.floor.above(delay_us) - jitter).clamp(0.0, longest);
        self.jitter.observe(now, feedback);
        self.queue
    }

    /// How far the latest delay was above the floor, in seconds.
    pub(super) fn queue(&self) -> f64 {
        self.queue
    }

    pub(super) fn floor(&self) -> &DelayFloor {
        &self.floor
    }

    pub(super) fn floor_mut(&mut self) -> &mut DelayFloor {
        &mut self.floor
    }

    /// The loss that the link has by itself, and what speaks for more.
    pub(super) fn watch(&self) -> &LossWatch {
        &self.watch
    }

    pub(super) fn watch_mut(&mut self) -> &mut LossWatch {
        &mut self.watch
    }

    /// The queue is too long.
    pub(super) fn note_crowd(&mut self, now: Time, round_trip: Duration) {
        self.crowd.observe(now, round_trip);
    }

    /// When the queue became too long, the latest time.
    pub(super) fn crowd(&self) -> Crowd {
        self.crowd
    }

    /// The round that is under way.
    pub(super) fn round(&self) -> &Round {
        &self.round
    }

    pub(super) fn round_mut(&mut self) -> &mut Round {
        &mut self.round
    }

    /// The round, if it has lasted for `span` and told of so many packets; the next one begins with this report.
    pub(super) fn end_round(&mut self, span: Duration, packets: u64, feedback: &Feedback) -> Option<Round> {
        if !self.round.is_over(span, packets) {
            return None;
        }
        let round = self.round.clone();
        self.round.restart(feedback);
        Some(round)
    }

    /// What was sent in a round, and whether that is what was allowed.
    pub(super) fn note_use(&mut self, round: &Round) {
        (self.sent, self.is_busy) = (Some(round.sent_rate()), round.is_busy());
    }

    /// What was sent in the latest round, in bit/s.
    pub(super) fn sent(&self) -> Option<f64> {
        self.sent
    }

    /// Whether about all was sent that was allowed lately, so that a lower rate lowers what is sent.
    pub(super) fn is_busy(&self) -> bool {
        self.is_busy
    }

    /// The queue is as long as it should be.
    pub(super) fn note_queue_at_target(&mut self, now: Time) {
        self.last_at_target = now;
    }

    /// When the queue last was as long as it should be.
    pub(super) fn last_at_target(&self) -> Time {
        self.last_at_target
    }

    /// Whether a queue has been as long as it should be since about the latest drain for the floor's sake: then the
    /// delay shows what the path carries.
    pub(super) fn was_lately_at_target(&self, now: Time) -> bool {
        now.since(self.last_at_target) < drain::INTERVAL
    }

    /// What packets tell that leave before then is no basis for the rate; the round goes on.
    pub(super) fn ignore_until(&mut self, time: Time) {
        self.blind_until = time;
    }

    /// As [`ignore_until`](Self::ignore_until), and a round begins anew.
    pub(super) fn be_blind_until(&mut self, time: Time) {
        self.blind_until = time;
        self.round = Round::default();
    }

    /// Whether a packet that left then tells nothing.
    pub(super) fn is_blind_to(&self, departed: Time) -> bool {
        departed < self.blind_until
    }

    /// Whether the round has seen packets that left since the controller last was blind.
    pub(super) fn has_seen_since(&self) -> bool {
        !self.is_blind_to(self.round.latest_departure())
    }
}

/// What tests let it have measured.
#[cfg(test)]
impl Meter {
    pub(super) fn show_queue(&mut self, seconds: f64) {
        self.queue = seconds;
    }

    pub(super) fn show_use(&mut self, sent: Option<f64>, is_busy: bool) {
        (self.sent, self.is_busy) = (sent, is_busy);
    }
}
