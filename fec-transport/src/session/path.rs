//! One path of a session, as one end sees it: what it sends with, what it knows of what became of it, and what it has
//! received over it.

use std::collections::VecDeque;
use std::time::Duration;

use tracing::Span;

use super::departures::Departures;
use super::loss::{LossEstimate, PRIOR_LOSS};
use super::pacer::Pacer;
use super::rate::{self, Feedback, RateController};
use super::round_trip::RoundTrip;
use super::suspicion::{Evidence, Suspicion};
use crate::circuit::Egress;
use crate::config::Liveness;
use crate::crypto::random::Random;
use crate::crypto::replay::ReplayWindow;
use crate::overlay::{MemberId, RouteLink};
use crate::time::Time;
use crate::wire::IP_UDP_HEADERS;
use crate::wire::report::PathReport;

/// A path's number, never used twice in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u32);

/// One packet number in so many is skipped in the mean.
const SKIP_ONE_IN: u32 = 1_024;
/// Probes in a row without an answer after which a path that carries nothing is dead.
const UNANSWERED_PROBES: usize = 6;
/// Probes whose echo is still recognised.
const MAX_PENDING_PROBES: usize = 8;
/// Echoes that we owe at most; a peer sends far fewer at once.
const MAX_PROBE_REPLIES: usize = 8;
/// As how many missing packets the death of a path counts for others over the same links: no chance explains it.
const MISSING_OF_DEAD: usize = 1_000;
/// For how long a dead path is probed at the full rate, and the longest interval afterwards (design §6).
const PROBE_PATIENCE: Duration = Duration::from_secs(60);
const MAX_PROBE_INTERVAL: Duration = Duration::from_secs(10);

/// Whether a path carries data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathState {
    /// Set up, but no probe has come back yet.
    Unconfirmed,
    /// In the schedule.
    Live,
    /// Out of the schedule since then, and probed.
    Dead {
        /// When it left the schedule.
        since: Time,
    },
}

/// Counters of one path, for people and programs.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct PathCounters {
    /// Packets sent, of every kind.
    pub packets_sent: u64,
    /// Source symbols sent.
    pub source_symbols: u64,
    /// Repair symbols sent, in the first sending and later.
    pub repair_symbols: u64,
    /// Packets received, of every kind.
    pub packets_received: u64,
    /// Packets that the peer's reports show to be lost.
    pub packets_lost: u64,
    /// How often the path left the schedule.
    pub deaths: u64,
}

/// One path of a session.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) id: PathId,
    pub(crate) route: Vec<MemberId>,
    /// The links that the route crosses. Other paths may cross them, too.
    pub(crate) links: Vec<RouteLink>,
    /// The share of the flow that the plan gives it.
    pub(crate) planned_share: f64,
    pub(crate) egress: Egress,
    pub(crate) state: PathState,
    pub(crate) counters: PathCounters,
    pub(crate) rate: RateController,
    pub(crate) round_trip: RoundTrip,
    pub(crate) loss: LossEstimate,
    next_number: u64,
    /// The next number that is skipped, once one was drawn.
    skip_at: Option<u64>,
    departures: Departures,
    pacer: Pacer,
    /// When it came back from the dead, until something that left afterwards was heard of.
    returned: Option<Time>,
    /// Whether nothing comes through, but it stays in the schedule because dead paths do.
    is_silent: bool,
    /// Whether it gets no new blocks, because its circuit is about to be torn down.
    pub(crate) is_retiring: bool,
    /// What the latest report makes of its silence.
    pub(crate) suspicion: Suspicion,
    /// When the latest packet left that is known to have arrived.
    heard_of: Option<Time>,
    /// What the clocks differed by when it arrived, in µs: its time on the way, and what the peer's clock is ahead.
    transit_us: Option<i64>,
    /// When the first packet left whose silence made it dead.
    fell_silent: Option<Time>,
    pub(crate) probe: ProbeState,
    pub(crate) received: Arrivals,
    /// What is logged of the path is logged within it.
    pub(crate) span: Span,
}

/// What has arrived over a path.
#[derive(Debug)]
pub(crate) struct Arrivals {
    pub(crate) window: ReplayWindow,
    pub(crate) highest: Option<u64>,
    pub(crate) highest_at: Time,
    pub(crate) count: u64,
    pub(crate) last_heard: Time,
}

/// The questions whether a path lives.
#[derive(Debug, Default)]
pub(crate) struct ProbeState {
    /// The tokens of the probes that wait for their echo, and when they were sent.
    pub(crate) pending: VecDeque<(u64, Time)>,
    /// When to send the next one.
    pub(crate) due: Option<Time>,
    /// Whether it is sent even on a path that was heard lately: what we send may not arrive all the same.
    pub(crate) is_asked: bool,
    /// Echoes that we owe the peer.
    pub(crate) replies: VecDeque<u64>,
}

impl ProbeState {
    /// Notes that the peer waits for an echo.
    pub(crate) fn owe_reply(&mut self, token: u64) {
        if self.replies.len() < MAX_PROBE_REPLIES {
            self.replies.push_back(token);
        }
    }
}

/// A report that claims what cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it acknowledged packet {0}, which was never sent")]
pub(crate) struct FalseClaim(u64);

impl Path {
    pub(crate) fn new(
        id: PathId,
        route: Vec<MemberId>,
        links: Vec<RouteLink>,
        planned_share: f64,
        egress: Egress,
        now: Time,
    ) -> Path {
        Path {
            id,
            route,
            links,
            planned_share,
            egress,
            state: PathState::Unconfirmed,
            counters: PathCounters::default(),
            rate: RateController::new(now),
            round_trip: RoundTrip::default(),
            loss: LossEstimate::default(),
            next_number: 0,
            skip_at: None,
            departures: Departures::default(),
            pacer: Pacer::new(now),
            returned: None,
            is_silent: false,
            is_retiring: false,
            suspicion: Suspicion::None,
            heard_of: None,
            transit_us: None,
            fell_silent: None,
            probe: ProbeState { due: Some(now), ..ProbeState::default() },
            received: Arrivals {
                window: ReplayWindow::new(),
                highest: None,
                highest_at: now,
                count: 0,
                last_heard: now,
            },
            span: Span::none(),
        }
    }

    pub(crate) fn is_live(&self) -> bool {
        self.state == PathState::Live
    }

    /// Whether it is in the schedule, and will be.
    pub(crate) fn carries_on(&self) -> bool {
        self.is_live() && !self.is_retiring
    }

    /// The share of packets that it loses: all of them while it is silent.
    pub(crate) fn loss_share(&self) -> f64 {
        if self.is_silent { 1.0 } else { self.loss.share() }
    }

    /// The variance of its losses over that of independent ones; a silent path's losses do not vary.
    pub(crate) fn dispersion(&self) -> f64 {
        if self.is_silent { 1.0 } else { self.loss.dispersion() }
    }

    /// Whether it is in the schedule and nothing speaks against it.
    pub(crate) fn is_trusted(&self) -> bool {
        self.carries_on() && self.suspicion == Suspicion::None
    }

    /// How many links it has in common with `other`.
    pub(crate) fn links_shared_with(&self, other: &Path) -> usize {
        let crosses = |link: &&RouteLink| other.links.iter().any(|own| own.link == link.link);
        self.links.iter().filter(crosses).count()
    }

    /// Gives the next packet its number. Now and then one is skipped: who acknowledges it has not received anything.
    pub(crate) fn take_number(&mut self, now: Time, skip: bool) -> u64 {
        if skip {
            self.departures.push(None);
            self.next_number += 1;
        }
        let number = self.next_number;
        self.next_number += 1;
        self.departures.push(Some(now));
        self.counters.packets_sent += 1;
        number
    }

    /// The same for the next symbol: now and then a number is skipped, nobody knows when.
    pub(crate) fn take_symbol_number(&mut self, now: Time, random: &mut Random) -> u64 {
        let mut draw = |from: u64| from + 1 + u64::from(random.below(2 * SKIP_ONE_IN));
        let skip_at = *self.skip_at.get_or_insert_with(|| draw(self.next_number));
        let skip = self.next_number >= skip_at;
        if skip {
            self.skip_at = Some(draw(self.next_number));
        }
        self.take_number(now, skip)
    }

    /// The pacer's tokens, in bytes; the last packet of a run may go ahead of them.
    pub(crate) fn tokens(&mut self, now: Time) -> f64 {
        self.pacer.tokens(now, self.rate.rate(now))
    }

    /// Notes the size of the datagram whose number was the last to be taken; the pacer is charged with
    /// [`charge_run`](Self::charge_run).
    pub(crate) fn weigh(&mut self, length: usize) {
        self.departures.weigh_last(length + IP_UDP_HEADERS);
    }

    /// Charges `packets` datagrams of `length` bytes together to the pacer.
    pub(crate) fn charge_run(&mut self, now: Time, packets: usize, length: usize) {
        let bytes = length + packets * IP_UDP_HEADERS;
        self.pacer.charge(now, self.rate.rate(now), bytes as f64);
    }

    /// Charges a datagram of `length` bytes, whose number was the last to be taken, to the pacer.
    pub(crate) fn charge(&mut self, now: Time, length: usize) {
        let bytes = length + IP_UDP_HEADERS;
        self.pacer.charge(now, self.rate.rate(now), bytes as f64);
        self.departures.weigh_last(bytes);
    }

    /// Whether the pacer and the window let a run of packets of `packet` bytes go.
    pub(crate) fn may_send(&mut self, now: Time, packet: usize) -> bool {
        self.window_opens_at().is_none_or(|at| at <= now)
            && self.pacer.may_send(now, self.rate.rate(now), packet)
    }

    /// When the pacer will have the tokens for the next run of packets of `packet` bytes, and the window is open even if no
    /// report comes.
    pub(crate) fn ready_at(&self, now: Time, packet: usize) -> Time {
        let paced = self.pacer.ready_at(self.rate.rate(now), packet);
        self.window_opens_at().map_or(paced, |opens| opens.max(paced))
    }

    /// If there is too much on the way: when all of it counts as lost. Until a report comes, one more run leaves then.
    fn window_opens_at(&self) -> Option<Time> {
        let window = rate::WINDOW + self.rate.mean_rate() / 8.0 * self.round_trip.floor().as_secs_f64();
        let latest = self.departures.latest().filter(|_| self.departures.bytes() as f64 > window);
        latest.map(|latest| latest + self.loss_timeout())
    }

    /// Takes the path's part of a report that the peer sent at `sent_us` of its clock.
    ///
    /// # Errors
    /// [`FalseClaim`] if the peer acknowledges what was never sent.
    pub(crate) fn on_report(
        &mut self,
        now: Time,
        report: &PathReport,
        sent_us: u64,
    ) -> Result<(), FalseClaim> {
        if report.highest >= self.next_number || report.received > self.counters.packets_sent {
            return Err(FalseClaim(report.highest));
        }
        if report.highest < self.departures.first() {
            return Ok(());
        }
        let acknowledged = self.departures.acknowledge(report.highest);
        let departed = acknowledged.departure.ok_or(FalseClaim(report.highest))?;
        let held = Duration::from_micros(sent_us.saturating_sub(report.arrival_us));
        self.round_trip.observe(now, now.since(departed).saturating_sub(held));
        self.heard_of = self.heard_of.max(Some(departed));
        self.transit_us = Some(report.arrival_us as i64 - departed.as_micros() as i64);
        let is_over = self.returned.is_some_and(|returned| departed >= returned);
        let was_silent = std::mem::take(&mut self.is_silent);
        if was_silent || self.returned.is_some() || matches!(self.state, PathState::Dead { .. }) {
            // What went down with the path says nothing of what it can carry.
            self.loss.pass_over(acknowledged.packets, report.received);
            self.returned = self.returned.filter(|_| !is_over);
            return Ok(());
        }
        let lost_before = self.loss.lost() as f64;
        self.loss.observe(now, acknowledged.packets, report.received);
        self.counters.packets_lost = self.loss.lost();
        let feedback = Feedback {
            departed,
            size: acknowledged.size,
            arrived_us: report.arrival_us,
            packets: acknowledged.packets,
            lost: self.loss.lost() as f64 - lost_before,
            bytes: acknowledged.bytes as f64,
            dispersion: self.loss.dispersion(),
            round_trip: self.round_trip.smoothed(),
        };
        self.rate.on_feedback(now, &feedback);
        Ok(())
    }

    /// Up to which packet number everything has arrived or never will.
    pub(crate) fn known_up_to(&self) -> Option<u64> {
        self.departures.first().checked_sub(1)
    }

    /// After how long a packet without news counts as lost.
    pub(crate) fn loss_timeout(&self) -> Duration {
        self.round_trip.smoothed() + 4 * self.round_trip.deviation() + Duration::from_millis(30)
    }

    /// What speaks for its being dead, now that the peer has sent a report at `sent_us` of its clock: packets that had been
    /// due there for `silence`. Of a dead path, what made it so.
    ///
    /// Bursts of losses count only where `with_bursts`: suspicion must be quick, and may be wrong.
    pub(crate) fn evidence(
        &self,
        now: Time,
        sent_us: u64,
        silence: Duration,
        with_bursts: bool,
    ) -> Evidence<'_> {
        let since = self.returned.unwrap_or(Time::ZERO);
        let patience = self.age_of_news(now, sent_us) + silence;
        let (missing, unheard_since) = match self.state {
            PathState::Live => {
                let missing = self.departures.older_than(now, patience, since);
                (missing, self.departures.unheard_since(since))
            }
            PathState::Dead { .. } => (MISSING_OF_DEAD, self.fell_silent),
            PathState::Unconfirmed => (0, None),
        };
        let loss = self.loss.share().max(PRIOR_LOSS);
        let again = if with_bursts { self.loss.after_a_loss(loss) } else { loss };
        Evidence {
            links: &self.links,
            round_trip: self.round_trip.smoothed(),
            missing,
            log_loss: loss.ln(),
            log_again: again.ln(),
            unheard_since,
            heard_of: self.heard_of,
        }
    }

    /// How long ago a packet left of which a report that the peer sent at `sent_us` could just tell. It does not depend on the
    /// path that the report has taken.
    fn age_of_news(&self, now: Time, sent_us: u64) -> Duration {
        let Some(transit_us) = self.transit_us else {
            return self.round_trip.smoothed() + 2 * self.round_trip.deviation();
        };
        let latest_us = (sent_us as i64).saturating_sub(transit_us);
        let age_us = (now.as_micros() as i64).saturating_sub(latest_us);
        Duration::from_micros(u64::try_from(age_us).unwrap_or(0))
    }

    /// Notes that the path is dead: it leaves the schedule, unless dead paths stay there.
    pub(crate) fn found_dead(&mut self, now: Time, liveness: &Liveness) {
        if liveness.removal { self.die(now, liveness) } else { self.is_silent = true }
    }

    fn die(&mut self, now: Time, liveness: &Liveness) {
        tracing::debug!(parent: &self.span, "the path is dead");
        self.state = PathState::Dead { since: now };
        self.suspicion = Suspicion::None;
        self.fell_silent = self.departures.unheard_since(self.returned.unwrap_or(Time::ZERO));
        self.counters.deaths += 1;
        self.probe.pending.clear();
        self.probe.due = Some(now + liveness.probe_interval / 4);
    }

    /// A probe came back: the path is in the schedule (again). Gives whether it was not there before.
    pub(crate) fn on_probe_reply(&mut self, now: Time, token: u64, liveness: &Liveness) -> bool {
        let Some(place) = self.probe.pending.iter().position(|(expected, _)| *expected == token) else {
            return false;
        };
        let (_, sent) = self.probe.pending[place];
        self.probe.pending.clear();
        self.round_trip.observe(now, now.since(sent));
        self.heard_of = self.heard_of.max(Some(sent));
        if matches!(self.state, PathState::Dead { .. }) {
            self.rate.restart(now);
        }
        if std::mem::take(&mut self.is_silent) {
            self.returned = Some(now);
        }
        let is_new = !self.is_live();
        if is_new {
            self.returned = matches!(self.state, PathState::Dead { .. }).then_some(now);
            self.state = PathState::Live;
            tracing::debug!(parent: &self.span, round_trip = ?self.round_trip.smoothed(), "the path is live");
            self.pacer = Pacer::new(now);
        }
        self.probe.due = Some(now + liveness.keep_alive);
        is_new
    }

    /// The probe timer: gives whether to send a probe now. A living path that was heard of needs none; one that leaves
    /// too many unanswered is dead.
    pub(crate) fn on_probe_timer(&mut self, now: Time, liveness: &Liveness) -> bool {
        let is_asked = std::mem::take(&mut self.probe.is_asked);
        if !is_asked && self.is_live() && now.since(self.received.last_heard) < liveness.keep_alive {
            self.probe.pending.clear();
            self.probe.due = Some(self.received.last_heard + liveness.keep_alive);
            return false;
        }
        if self.is_live() && self.probe.pending.len() >= UNANSWERED_PROBES {
            self.found_dead(now, liveness);
        }
        self.probe.due = Some(now + self.probe_interval(now, liveness));
        true
    }

    /// Takes what a report makes of its silence; who falls under suspicion is asked at once.
    pub(crate) fn suspect(&mut self, now: Time, suspicion: Suspicion) {
        if suspicion != Suspicion::None && self.suspicion == Suspicion::None {
            self.probe.is_asked = true;
            self.probe.due = Some(now);
        }
        self.suspicion = suspicion;
    }

    /// Notes that a probe left.
    pub(crate) fn probed(&mut self, now: Time, token: u64) {
        if self.probe.pending.len() == MAX_PENDING_PROBES {
            self.probe.pending.pop_front();
        }
        self.probe.pending.push_back((token, now));
    }

    fn probe_interval(&self, now: Time, liveness: &Liveness) -> Duration {
        match self.state {
            PathState::Dead { since } if now.since(since) > PROBE_PATIENCE => {
                (now.since(since) / 16).clamp(liveness.probe_interval, MAX_PROBE_INTERVAL)
            }
            _ => liveness.probe_interval,
        }
    }
}
