//! One path of a session, as one end sees it: what it sends with, what it knows of what became of it, and what it has
//! received over it.

use std::time::Duration;

use tracing::Span;

use super::arrivals::Arrivals;
use super::departures::Departures;
use super::loss::{LossEstimate, PRIOR_LOSS};
use super::pacer::Pacer;
use super::probing::{Probing, UNANSWERED_PROBES};
use super::proofs::Proofs;
use super::round_trip::RoundTrip;
use super::suspicion::{Evidence, Suspicion};
use crate::circuit::Egress;
use crate::config::Liveness;
use crate::crypto::receipt::{Made, Receipts};
use crate::overlay::{LinkId, MemberId, Route, RouteLink};
use crate::session::block::FlightFate;
use crate::session::rate::bottlenecks::CoupledPath;
use crate::session::rate::{Feedback, MOST_UNDER_WAY, RateController};
use crate::session::sender::LivingPath;
use crate::time::Time;
use crate::wire::IP_UDP_HEADERS;
use crate::wire::report::PathReport;

/// A path's number, never used twice in a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u32);

/// For other paths over the same links, the death of a path counts as so many missing packets, which no chance
/// explains.
const MISSING_OF_DEAD: usize = 1_000;
/// So many times as often a living path is asked while nothing is heard over any path.
const HUSHED_PROBES: u32 = 4;

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

/// A path of a session, as people and programs see it.
#[derive(Debug, Clone, PartialEq)]
pub struct PathStatus {
    /// Its number.
    pub id: PathId,
    /// The members from this end to the other.
    pub route: Vec<MemberId>,
    /// The link from each of them to the next.
    pub links: Vec<LinkId>,
    /// Whether it carries data.
    pub state: PathState,
    /// The share of the flow that the plan gives it, in [0, 1]; those of a session sum to no more than 1.
    pub planned_share: f64,
    /// The rate at which it is paced, in bit/s, IP headers included.
    pub rate_bps: f64,
    /// Whether that rate still doubles, because nothing has shown a limit yet.
    pub is_starting: bool,
    /// Its smoothed round trip.
    pub round_trip: Duration,
    /// The share of packets that it loses, as measured lately.
    pub loss: f64,
    /// For how long the latest packet that was reported had stood in queues on the way.
    pub queue: Duration,
    /// Its counters.
    pub counters: PathCounters,
}

/// One path of a session.
#[derive(Debug)]
pub(crate) struct Path {
    id: PathId,
    route: Route,
    /// The links that the route crosses. Other paths may cross them, too.
    links: Vec<RouteLink>,
    /// The share of the flow that the plan gives it.
    planned_share: f64,
    egress: Egress,
    state: PathState,
    counters: PathCounters,
    rate: RateController,
    round_trip: RoundTrip,
    loss: LossEstimate,
    departures: Departures,
    pacer: Pacer,
    silence: Silence,
    /// Whether it gets no new blocks, because its circuit is about to be torn down.
    is_retiring: bool,
    /// What the latest report makes of its silence.
    suspicion: Suspicion,
    heard: Heard,
    probing: Probing,
    arrivals: Arrivals,
    /// The latest receipts of packets that leave.
    receipts: Made,
    /// What is logged of the path is logged within it.
    span: Span,
}

/// The times at which a path fell silent and came back.
#[derive(Debug, Default)]
struct Silence {
    /// Whether nothing comes through, but the path stays in the schedule because dead paths do.
    is_kept: bool,
    /// When the first packet left whose silence made the path dead.
    since: Option<Time>,
    /// When the path came back from the dead, until something that left afterwards was heard of.
    ended: Option<Time>,
}

/// What is known to have arrived.
#[derive(Debug, Default)]
struct Heard {
    /// The packets that the peer has proved to have received.
    proofs: Proofs,
    /// When the latest one left.
    departed: Option<Time>,
    /// The peer's clock at its arrival less our clock at its departure, in µs: its time on the way, and what the peer's
    /// clock is ahead.
    transit_us: Option<i64>,
}

/// A report that claims what cannot be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FalseClaim {
    #[error("it acknowledged packet {0}, which was never sent")]
    NeverSent(u64),
    #[error(
        "it claims packets up to number {highest} of path {path} that did not arrive: their receipts are wrong"
    )]
    NotReceived { path: u32, highest: u64 },
}

impl Path {
    pub(crate) fn new(
        id: PathId,
        route: Route,
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
            departures: Departures::default(),
            pacer: Pacer::new(now),
            silence: Silence::default(),
            is_retiring: false,
            suspicion: Suspicion::None,
            heard: Heard::default(),
            probing: Probing::new(now),
            arrivals: Arrivals::new(now),
            receipts: Made::default(),
            span: Span::none(),
        }
    }

    pub(crate) fn id(&self) -> PathId {
        self.id
    }

    pub(crate) fn links(&self) -> &[RouteLink] {
        &self.links
    }

    pub(crate) fn state(&self) -> PathState {
        self.state
    }

    pub(crate) fn egress(&self) -> &Egress {
        &self.egress
    }

    /// Its route from this end to the other.
    pub(super) fn route(&self) -> &Route {
        &self.route
    }

    pub(super) fn planned_share(&self) -> f64 {
        self.planned_share
    }

    /// The rate at which it is paced in the mean, in bit/s.
    pub(super) fn mean_rate(&self) -> f64 {
        self.rate.mean_rate()
    }

    /// The smoothed round trip.
    pub(super) fn round_trip(&self) -> Duration {
        self.round_trip.smoothed()
    }

    /// The smallest round trip of late.
    pub(super) fn least_round_trip(&self) -> Duration {
        self.round_trip.floor()
    }

    /// The round trip that a packet takes at most, as far as is known.
    pub(super) fn longest_round_trip(&self) -> Duration {
        self.round_trip.smoothed() + 2 * self.round_trip.deviation()
    }

    /// When something was heard on it last.
    pub(super) fn last_heard(&self) -> Time {
        self.arrivals.last_heard()
    }

    /// What arrives on it, and how it is probed.
    pub(super) fn arrivals(&self) -> &Arrivals {
        &self.arrivals
    }

    pub(super) fn probing(&self) -> &Probing {
        &self.probing
    }

    pub(super) fn probing_mut(&mut self) -> &mut Probing {
        &mut self.probing
    }

    /// It belongs to a session now, within whose `span` it is logged.
    pub(super) fn join(&mut self, span: &Span, fair: bool) {
        self.span = tracing::info_span!(parent: span, "path", id = self.id.0);
        self.rate.set_fair(fair);
    }

    /// The present plan has another share of the flow for it.
    pub(super) fn set_planned_share(&mut self, share: f64) {
        self.planned_share = share;
    }

    /// A newer overlay file may have given its links other capacities.
    pub(super) fn set_links(&mut self, links: Vec<RouteLink>) {
        self.links = links;
    }

    /// It gets no new blocks from now on.
    pub(super) fn retire(&mut self) {
        self.is_retiring = true;
    }

    /// The path as the other paths see it with which it shares links.
    pub(super) fn coupled(&mut self) -> CoupledPath<'_> {
        CoupledPath { controller: &mut self.rate, links: &self.links }
    }

    /// The path as the sender sees it, which trusts it if nothing speaks against it or if `all_trusted`.
    pub(super) fn living(&self, all_trusted: bool) -> LivingPath {
        LivingPath {
            id: self.id,
            planned_share: self.planned_share,
            rate: self.rate.mean_rate(),
            round_trip: self.round_trip.floor(),
            loss: self.loss_share(),
            dispersion: self.dispersion(),
            is_trusted: self.is_trusted() || all_trusted,
            links: self.links.iter().map(|crossed| crossed.link).collect(),
        }
    }

    /// The path as people see it; its share is one of `planned`, the sum of all shares.
    pub(super) fn status(&self, planned: f64) -> PathStatus {
        PathStatus {
            id: self.id,
            route: self.route.members().to_vec(),
            links: self.route.links().to_vec(),
            state: self.state,
            planned_share: self.planned_share / planned.max(1.0),
            rate_bps: self.rate.mean_rate(),
            is_starting: self.rate.is_starting(),
            round_trip: self.round_trip.smoothed(),
            loss: self.loss_share(),
            queue: self.rate.queue(),
            counters: self.counters,
        }
    }

    /// What is known of packets that left on it at `sent`.
    pub(super) fn fate(&self, now: Time, sent: Time) -> FlightFate {
        let is_given_up = !self.is_live() || self.suspicion == Suspicion::Silent;
        if is_given_up || now.since(sent) > self.loss_timeout() {
            return FlightFate::Over;
        }
        self.known_up_to().map_or(FlightFate::Flying, FlightFate::KnownUpTo)
    }

    /// A packet has arrived whose seal was right.
    pub(super) fn note_arrival(&mut self, now: Time, number: u64, receipt: u32) {
        self.arrivals.note(now, number, receipt);
        self.counters.packets_received += 1;
    }

    /// What a report says of it that has `words` words for it; nothing before anything has arrived.
    pub(super) fn report_arrivals(&mut self, words: usize) -> Option<PathReport> {
        let highest = self.arrivals.highest()?;
        let arrived = self.arrivals.report(words);
        let arrival_us = highest.at.as_micros();
        Some(PathReport { path: self.id.0, highest: highest.number, arrival_us, arrived })
    }

    /// A symbol left.
    pub(super) fn count_symbol(&mut self, is_repair: bool) {
        self.counters.repair_symbols += u64::from(is_repair);
        self.counters.source_symbols += u64::from(!is_repair);
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
        if self.silence.is_kept { 1.0 } else { self.loss.share() }
    }

    /// The variance of its losses over that of independent ones; a silent path's losses do not vary.
    pub(crate) fn dispersion(&self) -> f64 {
        if self.silence.is_kept { 1.0 } else { self.loss.dispersion() }
    }

    /// Whether it is in the schedule and nothing speaks against it.
    pub(crate) fn is_trusted(&self) -> bool {
        self.carries_on() && self.suspicion == Suspicion::None
    }

    /// Gives the next packet its number.
    pub(crate) fn take_number(&mut self, now: Time) -> u64 {
        self.counters.packets_sent += 1;
        self.departures.push(now)
    }

    /// The session has had nothing to send so many times, before the next packet.
    pub(crate) fn note_idle_spells(&mut self, idle_spells: u32) {
        self.departures.note_idle_spells(idle_spells);
    }

    /// The receipt of the packet with that number.
    pub(crate) fn receipt(&mut self, number: u64, receipts: &Receipts) -> u32 {
        receipts.of(self.id.0, number, &mut self.receipts)
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

    /// Charges a datagram of `length` bytes, whose number was the last to be taken and which waits for nothing, to the
    /// pacer. As far as `padding` makes it longer, it tells nothing of the time that packets take.
    pub(crate) fn charge_unpaced(&mut self, now: Time, length: usize, padding: usize) {
        let bytes = length + IP_UDP_HEADERS;
        self.pacer.charge_unpaced(now, self.rate.rate(now), bytes as f64);
        self.departures.weigh_last(bytes - padding);
    }

    /// Whether the pacer and the window let a run of packets of `packet` bytes go.
    pub(crate) fn may_send(&mut self, now: Time, packet: usize) -> bool {
        self.window_opens_at().is_none_or(|at| at <= now)
            && self.pacer.may_send(now, self.rate.rate(now), packet)
    }

    /// When the pacer will have the tokens for the next run of packets of `packet` bytes, and the window is open even
    /// if no report comes.
    pub(crate) fn ready_at(&self, now: Time, packet: usize) -> Time {
        let paced = self.pacer.ready_at(self.rate.rate(now), packet);
        self.window_opens_at().map_or(paced, |opens| opens.max(paced))
    }

    /// If there is too much on the way: when all of it counts as lost. Until a report comes, one more run leaves then.
    fn window_opens_at(&self) -> Option<Time> {
        let carried = self.rate.mean_rate() / 8.0 * self.round_trip.floor().as_secs_f64();
        let room = if self.round_trip.is_short() { self.departures.room() } else { MOST_UNDER_WAY };
        let window = room as f64 + carried;
        let latest = self.departures.latest().filter(|_| self.departures.bytes() as f64 > window);
        latest.map(|latest| latest + self.loss_timeout())
    }

    /// The peer's sockets hold so many bytes of the path.
    pub(super) fn set_room(&mut self, bytes: u64) {
        self.departures.set_room(bytes);
    }

    /// How many those are.
    #[cfg(test)]
    pub(super) fn room(&self) -> u64 {
        self.departures.room()
    }

    /// Takes the path's part of a report that the peer sent at `sent_us` of its clock.
    ///
    /// # Errors
    /// [`FalseClaim`] if the peer acknowledges what was never sent, or what has not arrived.
    pub(crate) fn on_report(
        &mut self,
        now: Time,
        report: &PathReport,
        sent_us: u64,
        receipts: &Receipts,
    ) -> Result<(), FalseClaim> {
        let highest = report.highest;
        if highest >= self.departures.next() {
            return Err(FalseClaim::NeverSent(highest));
        }
        if !self.heard.proofs.take(report, receipts) {
            return Err(FalseClaim::NotReceived { path: self.id.0, highest });
        }
        let Some(acknowledged) = self.departures.acknowledge(highest) else { return Ok(()) };
        let departed = acknowledged.departed;
        self.probing.width_mut().note_arrival(departed, acknowledged.size);
        let held = Duration::from_micros(sent_us.saturating_sub(report.arrival_us));
        // Nobody holds a packet for longer than it has been away; whoever says so tells nothing of the round trip.
        if let Some(round_trip) = now.since(departed).checked_sub(held) {
            self.round_trip.observe(now, round_trip);
        }
        self.heard.departed = self.heard.departed.max(Some(departed));
        self.heard.transit_us = Some(report.arrival_us as i64 - departed.as_micros() as i64);
        let is_over = self.silence.ended.is_some_and(|returned| departed >= returned);
        let was_silent = std::mem::take(&mut self.silence.is_kept);
        if was_silent || self.silence.ended.is_some() || matches!(self.state, PathState::Dead { .. }) {
            // What went down with the path says nothing of what it can carry.
            self.loss.pass_over(acknowledged.packets, self.heard.proofs.count());
            self.silence.ended = self.silence.ended.filter(|_| !is_over);
            return Ok(());
        }
        let lost_before = self.loss.lost() as f64;
        let is_crowded = self.rate.is_crowded();
        self.loss.observe(now, acknowledged.packets, self.heard.proofs.count(), is_crowded);
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
            is_after_idleness: acknowledged.is_after_idleness,
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

    /// What speaks for its being dead, now that the peer has sent a report at `sent_us` of its clock: packets that had
    /// been due there for `silence`. Of a dead path, what made it so.
    ///
    /// Bursts of losses count only where `with_bursts`: suspicion must be quick, and may be wrong.
    pub(crate) fn evidence(&self, now: Time, sent_us: u64, silence: Duration, with_bursts: bool) -> Evidence {
        let since = self.silence.ended.unwrap_or(Time::ZERO);
        let patience = self.age_of_news(now, sent_us) + silence;
        let (missing, unheard_since) = match self.state {
            PathState::Live => {
                let missing = self.departures.older_than(now, patience, since);
                (missing, self.departures.unheard_since(since))
            }
            PathState::Dead { .. } => (MISSING_OF_DEAD, self.silence.since),
            PathState::Unconfirmed => (0, None),
        };
        let loss = self.loss.share().max(PRIOR_LOSS);
        let again = if with_bursts { self.loss.after_a_loss(loss) } else { loss };
        Evidence {
            round_trip: self.round_trip.smoothed(),
            missing,
            log_loss: loss.ln(),
            log_again: again.ln(),
            unheard_since,
            heard_of: self.heard.departed,
        }
    }

    /// How long ago a packet left of which a report that the peer sent at `sent_us` could just tell. It does not depend
    /// on the path that the report has taken.
    fn age_of_news(&self, now: Time, sent_us: u64) -> Duration {
        let Some(transit_us) = self.heard.transit_us else {
            return self.round_trip.smoothed() + 2 * self.round_trip.deviation();
        };
        let latest_us = (sent_us as i64).saturating_sub(transit_us);
        let age_us = (now.as_micros() as i64).saturating_sub(latest_us);
        Duration::from_micros(u64::try_from(age_us).unwrap_or(0))
    }

    /// Notes that the path is dead: it leaves the schedule, unless dead paths stay there.
    pub(crate) fn found_dead(&mut self, now: Time, liveness: &Liveness) {
        if liveness.removal { self.die(now, liveness) } else { self.silence.is_kept = true }
    }

    /// An outage of all paths is over in which it did not leave the schedule: what left before speaks neither against
    /// it, nor of what it can carry.
    pub(super) fn outage_over(&mut self, now: Time) {
        if self.is_live() {
            self.silence.ended = Some(now);
        }
    }

    fn die(&mut self, now: Time, liveness: &Liveness) {
        tracing::debug!(parent: &self.span, "the path is dead");
        self.state = PathState::Dead { since: now };
        self.suspicion = Suspicion::None;
        self.silence.since = self.departures.unheard_since(self.silence.ended.unwrap_or(Time::ZERO));
        self.counters.deaths += 1;
        self.probing.begin_anew(now + liveness.probe_interval / 4);
        self.probing.width_mut().rest();
    }

    /// The peer waits for an echo. What it sends comes through, so that a path that is not in the schedule is asked at
    /// once whether the other way does, too. Our first probe may have come before the peer had the session.
    pub(super) fn owe_probe_reply(&mut self, now: Time, token: u64) {
        self.probing.owe_reply(token);
        if !self.is_live() {
            self.probing.ask(now);
        }
    }

    /// A probe came back: the path is in the schedule (again). Gives whether it was not there before.
    pub(crate) fn on_probe_reply(&mut self, now: Time, token: u64, liveness: &Liveness) -> bool {
        let Some(sent) = self.probing.on_echo(token) else { return false };
        self.round_trip.observe(now, now.since(sent));
        self.heard.departed = self.heard.departed.max(Some(sent));
        if std::mem::take(&mut self.silence.is_kept) {
            self.silence.ended = Some(now);
        }
        let is_new = !self.is_live();
        if is_new {
            self.come_in(now);
        }
        self.probing.put_off(now + liveness.keep_alive);
        is_new
    }

    /// It is in the schedule (again).
    fn come_in(&mut self, now: Time) {
        let was_dead = matches!(self.state, PathState::Dead { .. });
        if was_dead {
            self.rate.restart(now);
            self.probing.width_mut().ask(now);
        }
        self.silence.ended = was_dead.then_some(now);
        self.state = PathState::Live;
        tracing::debug!(parent: &self.span, round_trip = ?self.round_trip.smoothed(), "the path is live");
        self.pacer = Pacer::new(now);
    }

    /// The neighbour that it leads to has moved, and it is known now where it is: what left before speaks neither
    /// against the path nor of what it can carry. If that neighbour is the peer, a dead path needs no probe to come
    /// back, since the peer has just answered a challenge. Gives whether it has come back.
    pub(super) fn neighbour_found(&mut self, now: Time) -> bool {
        let is_back = matches!(self.state, PathState::Dead { .. }) && self.route.links().len() == 1;
        match self.state {
            _ if is_back => self.come_in(now),
            PathState::Live => self.silence.ended = Some(now),
            PathState::Dead { .. } | PathState::Unconfirmed => self.probing.ask(now),
        }
        is_back
    }

    /// Whether it is in the schedule and has left too many probes unanswered, for too long.
    fn leaves_probes_unanswered(&self, now: Time, liveness: &Liveness) -> bool {
        let longest = liveness.probe_interval * UNANSWERED_PROBES as u32;
        self.is_live()
            && self.probing.unanswered() >= UNANSWERED_PROBES
            && now.since(self.last_heard()) >= longest
    }

    /// The probe timer: gives whether to send a probe now. A living path that was heard of needs none, unless nothing
    /// is heard over any path (`is_hushed`); one that leaves too many unanswered is dead.
    pub(crate) fn on_probe_timer(&mut self, now: Time, is_hushed: bool, liveness: &Liveness) -> bool {
        let is_asked = self.probing.take_asked() || is_hushed;
        if !is_asked && self.is_live() && now.since(self.last_heard()) < liveness.keep_alive {
            self.probing.begin_anew(self.last_heard() + liveness.keep_alive);
            return false;
        }
        if self.leaves_probes_unanswered(now, liveness) {
            self.found_dead(now, liveness);
        }
        let dead_for = match self.state {
            PathState::Dead { since } => Some(now.since(since)),
            PathState::Unconfirmed | PathState::Live => None,
        };
        // An outage of everything that is over soon is to be found over soon.
        let is_urgent = is_hushed && self.is_live();
        let interval = super::probing::interval(dead_for, liveness);
        self.probing.put_off(now + if is_urgent { interval / HUSHED_PROBES } else { interval });
        true
    }

    /// It may be dead, or carry no full packets any more: it is asked at once.
    pub(super) fn doubt(&mut self, now: Time) {
        self.probing.ask(now);
        self.probing.width_mut().ask(now);
    }

    /// Takes what a report makes of its silence; a path that falls under suspicion is asked at once.
    pub(crate) fn suspect(&mut self, now: Time, suspicion: Suspicion) {
        if suspicion != Suspicion::None && self.suspicion == Suspicion::None {
            self.doubt(now);
        }
        self.suspicion = suspicion;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::hop_tag::HopKey;
    use crate::overlay::{Adjacency, InstanceId, Peer};
    use crate::wire::hop::Label;

    fn new_path() -> Path {
        let peer = Peer { member: MemberId(1), instance: InstanceId(1) };
        let egress = Egress {
            neighbour: Adjacency { peer, link: LinkId(0) },
            label: Label(1),
            key: HopKey::new([1; 16]),
        };
        let route = Route::new(vec![MemberId(0)], Vec::new());
        Path::new(PathId(1), route, Vec::new(), 0.5, egress, Time::ZERO)
    }

    /// The end that answers has the session first, and its probe comes where nobody knows of it yet. The next one would
    /// be due a quarter of a second later, and until then this end could send nothing.
    #[test]
    fn a_path_that_is_asked_before_it_is_known_to_live_asks_back_at_once() {
        let liveness = Liveness::default();
        let mut path = new_path();
        assert!(path.on_probe_timer(Time::ZERO, false, &liveness));
        path.probing.sent(Time::ZERO, 1);
        let now = Time::ZERO + Duration::from_millis(2);
        assert!(path.probing.asks_at() > now);
        path.owe_probe_reply(now, 7);
        assert!(path.probing.asks_at() <= now && path.on_probe_timer(now, false, &liveness));
        path.probing.sent(now, 2);
        assert!(path.on_probe_reply(now + Duration::from_millis(2), 2, &liveness) && path.is_live());
        // One that lives has no reason to.
        path.owe_probe_reply(now, 8);
        assert!(path.probing.asks_at() > now);
    }

    /// Whatever the pacer says: a process that does not run for some milliseconds must not lose what its socket cannot
    /// hold.
    #[test]
    fn no_more_is_on_the_way_than_a_socket_holds() {
        let mut path = new_path();
        let room = 1_000_000;
        path.set_room(room);
        path.round_trip.observe(Time::ZERO, Duration::ZERO);
        let now = Time::ZERO + Duration::from_secs(1);
        let mut sent = 0;
        while sent <= room {
            assert!(path.ready_at(now, 0) < now + path.loss_timeout(), "after {sent} bytes");
            path.take_number(now);
            path.weigh(60_000);
            sent += 60_028;
        }
        let opens = now + path.loss_timeout();
        assert_eq!(path.ready_at(now, 0), opens);
        assert!(!path.may_send(now, 0) && path.may_send(opens, 0));
        // Without a report the window closes again behind each run.
        path.take_number(opens);
        path.weigh(60_000);
        assert!(!path.may_send(opens, 0) && path.may_send(opens + path.loss_timeout(), 0));
    }

    #[test]
    fn on_a_long_way_small_sockets_hold_nobody_back() {
        let mut path = new_path();
        path.set_room(200_000);
        path.round_trip.observe(Time::ZERO, Duration::from_millis(10));
        let now = Time::ZERO + Duration::from_secs(1);
        for _ in 0..60 {
            assert!(path.ready_at(now, 0) < now + path.loss_timeout());
            path.take_number(now);
            path.weigh(60_000);
        }
    }
}
