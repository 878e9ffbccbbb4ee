//! The paths of a session: how they come and go, which links they cross, and what they carry together.
//!
//! [`Paths`] owns the paths, the turn, and what the sender knows of the living ones. This file is about what is known
//! of them; `sending` is about what leaves on them.

mod arrivals;
mod departures;
mod hearing;
pub(super) mod loss;
pub(super) mod pacer;
mod path;
mod probing;
mod proofs;
mod round_trip;
mod sending;
mod suspicion;
mod tally;
mod width;

use std::sync::Arc;
use std::time::Duration;

use tracing::Span;

pub(crate) use hearing::Asked;
pub(crate) use path::{FalseClaim, Path};
pub use path::{PathCounters, PathId, PathState, PathStatus};
pub(crate) use width::NARROW_SYMBOL;

use super::block::FlightFate;
use super::intake::LEAST;
use super::rate::MOST_UNDER_WAY;
use super::rate::bottlenecks::{Bottlenecks, CoupledPath};
use super::sender::{LivingPath, Sender};
use crate::config::Config;
use crate::crypto::receipt::Receipts;
use crate::crypto::replay::ReplayWindow;
use crate::event::SessionId;
use crate::limits::MAX_REPORTED_PATHS;
use crate::overlay::{Adjacency, Crossings, Overlay};
use crate::time::Time;
use crate::wire::report::{PathReport, Report};
use hearing::Hearing;
use suspicion::{Suspicion, judge};

/// Words of 64 path ids that are told apart: many times the paths that a session has at once.
const PATH_IDS: usize = 4;
/// The part of the silence that makes a path suspect (docs/decisions/failure.md).
const SUSPICION: u32 = 4;
/// On how many paths a report travels.
const REPORT_COPIES: usize = 2;
/// A path on which something was heard so recently carries reports before others do: one that carries data and was not
/// heard for longer is probably dead, in both directions.
const HEARD_RECENTLY: Duration = Duration::from_millis(40);
/// After so long the tail timer of a session without a living path assumes that nothing will come.
const TAIL_PAUSE_WITHOUT_PATHS: Duration = Duration::from_millis(500);

/// The paths of a session.
#[derive(Debug)]
pub(crate) struct Paths {
    session: SessionId,
    config: Arc<Config>,
    /// In the order in which they were added.
    paths: Vec<Path>,
    /// Which of them cross which links.
    crossings: Crossings,
    /// Path ids that were used: with a nonce in them, none may come again. The initiator counts them up, so those that
    /// are far behind count as used.
    used: ReplayWindow<PATH_IDS>,
    /// What makes the receipts of packets that leave.
    receipts: Receipts,
    /// What is heard of the peer over all of them.
    hearing: Hearing,
    /// The place of the path whose turn it is to send.
    turn: usize,
    /// What the sender knows of the paths in the schedule.
    living: Vec<LivingPath>,
    /// When that was found out; `None` once a path may have changed.
    living_at: Option<Time>,
    /// The bytes of a symbol that all of them carry.
    symbol_size: usize,
}

impl Paths {
    pub(crate) fn new(now: Time, session: SessionId, config: Arc<Config>, receipts: Receipts) -> Paths {
        let symbol_size = config.coding.symbol_size;
        Paths {
            session,
            config,
            paths: Vec::new(),
            crossings: Crossings::default(),
            used: ReplayWindow::new(),
            receipts,
            hearing: Hearing::new(now),
            turn: 0,
            living: Vec::new(),
            living_at: None,
            symbol_size,
        }
    }

    // --- how they come and go -----------------------------------------------------------------------------------

    /// Adds a path, to be logged within `span`; it carries data once a probe has come back over it. Gives false, and
    /// adds nothing, if its number was used before or there are too many paths.
    pub(crate) fn add(&mut self, mut path: Path, span: &Span) -> bool {
        // The limit is doubled because a path that is replaced lives on for a while.
        if self.paths.len() >= 2 * self.config.limits.paths || !self.used.mark(path.id().0.into()) {
            return false;
        }
        path.join(span, self.config.pace.fair);
        self.changed().push(path);
        self.look_at_links();
        true
    }

    /// Removes a path whose circuit is gone.
    pub(crate) fn remove(&mut self, id: PathId) {
        self.changed().retain(|path| path.id() != id);
        self.look_at_links();
    }

    /// Gives a path no new blocks from now on: its circuit is about to be torn down. It ends what it has begun, so that
    /// nothing on the way is lost with it; gives false if there is nothing to end.
    pub(crate) fn retire(&mut self, id: PathId) -> bool {
        self.get_mut(id).filter(|path| path.is_live()).map(Path::retire).is_some()
    }

    /// Whether paths have the shares of the flow that the present plan has for them.
    pub(crate) fn are_shared_by(&self, shares: &[(PathId, f64)]) -> bool {
        let has =
            |(id, share): &(PathId, f64)| self.get(*id).is_none_or(|path| path.planned_share() == *share);
        shares.iter().all(has)
    }

    /// Gives paths the shares of the flow that the present plan has for them.
    pub(crate) fn share_by_plan(&mut self, shares: &[(PathId, f64)]) {
        for (id, share) in shares {
            if let Some(path) = self.get_mut(*id) {
                path.set_planned_share(*share);
            }
        }
    }

    /// Probes again, at once, what goes over that neighbour and has not been heard of yet.
    pub(crate) fn probe_new_ones(&mut self, now: Time, neighbour: Adjacency) {
        let is_new =
            |path: &Path| path.state() == PathState::Unconfirmed && path.egress().neighbour == neighbour;
        self.paths.iter_mut().filter(|path| is_new(path)).for_each(|path| path.probing_mut().ask(now));
    }

    /// A newer overlay file may have given links other capacities.
    pub(crate) fn recount_links(&mut self, overlay: &Overlay) {
        for path in self.changed() {
            path.set_links(overlay.crossed(path.route().links()));
        }
        self.look_at_links();
    }

    /// The paths, for a change. What the sender knows of them is forgotten, because every change of a path that
    /// concerns the sender is made by way of this.
    fn changed(&mut self) -> &mut Vec<Path> {
        self.living_at = None;
        &mut self.paths
    }

    /// A path that may be changed.
    fn get_mut(&mut self, id: PathId) -> Option<&mut Path> {
        self.changed().iter_mut().find(|path| path.id() == id)
    }

    fn get(&self, id: PathId) -> Option<&Path> {
        self.paths.iter().find(|path| path.id() == id)
    }

    fn look_at_links(&mut self) {
        let links = |path: &Path| path.links().iter().map(|crossed| crossed.link).collect::<Vec<_>>();
        self.crossings = Crossings::new(self.paths.iter().map(links));
    }

    // --- what they are told -------------------------------------------------------------------------------------

    /// A packet has arrived on a path, and its seal was right.
    pub(crate) fn note_arrival(&mut self, now: Time, id: PathId, number: u64, receipt: u32) {
        if let Some(path) = self.get_mut(id) {
            path.note_arrival(now, number, receipt);
        }
        let Paths { hearing, paths, .. } = self;
        // A symbol may go the quicker way of one path, and the word about it come back the quicker way of another one.
        let quickest = || paths.iter().map(Path::least_round_trip).min().unwrap_or_default() / 2;
        if hearing.heard(now, quickest) {
            paths.iter_mut().for_each(|path| path.outage_over(now));
        }
    }

    /// Everything that was sent is acknowledged.
    pub(crate) fn all_answered(&mut self) {
        self.hearing.all_answered();
    }

    /// How often, and over how many paths, the peer was asked in vain since something was heard of it.
    pub(crate) fn asked(&self) -> Asked {
        Asked { probes: self.hearing.probes(), paths: self.paths.len() }
    }

    /// Whether a path is there and no packet of this number has arrived on it yet, as far as can be told.
    pub(crate) fn is_fresh(&self, id: PathId, number: u64) -> bool {
        self.get(id).is_some_and(|path| path.arrivals().is_fresh(number))
    }

    /// Whether there are paths in the schedule, and none of them carries full packets.
    pub(crate) fn are_too_narrow(&self) -> bool {
        self.any_lives() && self.living().all(|path| path.probing().width().is_surely_narrow())
    }

    /// The peer waits for an echo on a path.
    pub(crate) fn owe_probe_reply(&mut self, now: Time, id: PathId, token: u64) {
        if let Some(path) = self.get_mut(id) {
            path.owe_probe_reply(now, token);
        }
    }

    /// An echo came back: its path is in the schedule (again), beside those that share links with it.
    pub(crate) fn on_probe_reply(
        &mut self,
        now: Time,
        id: PathId,
        token: u64,
        bottlenecks: &mut Bottlenecks,
    ) {
        let config = Arc::clone(&self.config);
        if self.get_mut(id).is_some_and(|path| path.on_probe_reply(now, token, &config.liveness)) {
            self.admit(now, id, bottlenecks);
        }
    }

    /// A path is in the schedule (again), beside those that share links with it.
    fn admit(&mut self, now: Time, id: PathId, bottlenecks: &mut Bottlenecks) {
        let mut carrying = self.paths.iter().filter(|path| path.carries_on());
        if let Some(newcomer) = carrying.position(|path| path.id() == id) {
            bottlenecks.admit(now, self.session, &mut self.coupled(), newcomer);
        }
    }

    /// A neighbour asks whether we are at the address that our packets come from. Until it knows, nothing that it sends
    /// arrives here, and that is no sign of an outage.
    pub(crate) fn neighbour_seeks_us(&mut self, neighbour: Adjacency) {
        if self.paths.iter().any(|path| path.egress().neighbour == neighbour) {
            self.hearing.excuse();
        }
    }

    /// It is known now where a neighbour is that has moved. What was sent to it before was lost, which speaks against
    /// no path.
    pub(crate) fn neighbour_found(&mut self, now: Time, neighbour: Adjacency, bottlenecks: &mut Bottlenecks) {
        let through = |path: &Path| path.egress().neighbour == neighbour;
        let concerned: Vec<PathId> = self.paths.iter().filter(|path| through(path)).map(Path::id).collect();
        if !concerned.is_empty() {
            self.hearing.excuse();
        }
        for id in concerned {
            if self.get_mut(id).is_some_and(|path| path.neighbour_found(now)) {
                self.admit(now, id, bottlenecks);
            }
        }
    }

    /// Takes the paths' part of a report.
    ///
    /// # Errors
    /// [`FalseClaim`] if the peer acknowledges what was never sent, or what has not arrived.
    pub(crate) fn on_report(
        &mut self,
        now: Time,
        report: &Report,
        sender: &mut Sender,
        bottlenecks: &mut Bottlenecks,
    ) -> Result<(), FalseClaim> {
        if let Some(intake) = report.intake {
            self.share_room(intake);
        }
        let receipts = self.receipts;
        for entry in &report.paths {
            if let Some(path) = self.get_mut(PathId(entry.path)) {
                path.on_report(now, entry, report.sent_us, &receipts)?;
            }
        }
        let (session, limit) = (self.session, self.config.pace.limit.map(|limit| limit as f64 * 8.0));
        bottlenecks.couple(now, session, &mut self.coupled(), limit);
        self.judge(now, report.sent_us, sender);
        Ok(())
    }

    /// Gives each path its part of what the peer's sockets hold of the session, by their rates.
    fn share_room(&mut self, intake: u64) {
        let intake = intake.min(MOST_UNDER_WAY);
        let all: f64 = self.paths.iter().filter(|path| path.is_live()).map(Path::mean_rate).sum();
        for path in &mut self.paths {
            let share = if path.is_live() { path.mean_rate() / all } else { 0.0 };
            path.set_room(((intake as f64 * share) as u64).max(LEAST));
        }
    }

    /// What the peer's sockets hold of each path.
    #[cfg(test)]
    pub(super) fn rooms(&self) -> Vec<u64> {
        self.paths.iter().map(Path::room).collect()
    }

    /// Takes silent paths out of the schedule, now that the peer has sent a report at `sent_us` of its clock.
    ///
    /// A quarter of the silence is enough for suspicion: a path under suspicion gets no repair and no new bulk blocks,
    /// and what flies on it counts as lost if it is itself silent.
    fn judge(&mut self, now: Time, sent_us: u64, sender: &mut Sender) {
        let config = Arc::clone(&self.config);
        let liveness = &config.liveness;
        let verdicts = |silence, with_bursts| {
            let evidence = self.paths.iter().map(|path| path.evidence(now, sent_us, silence, with_bursts));
            judge(&evidence.collect::<Vec<_>>(), &self.crossings, liveness.doubt)
        };
        let dead = verdicts(liveness.silence, true);
        let suspected = verdicts(liveness.silence / SUSPICION, false);
        for ((path, dead), suspicion) in self.changed().iter_mut().zip(dead).zip(suspected) {
            if !path.is_live() {
                continue;
            }
            if dead == Suspicion::Silent {
                path.found_dead(now, liveness);
            } else if liveness.removal {
                path.suspect(now, suspicion);
            }
            if !path.is_live() {
                sender.on_path_death(path.id());
            }
        }
    }

    // --- what is known of them ----------------------------------------------------------------------------------

    /// The paths that have been dead, or never confirmed, for at least `patience`. A time in which nothing was heard
    /// over any path counts against none of them.
    pub(crate) fn hopeless(&self, now: Time, patience: Duration) -> Vec<PathId> {
        let silence = |path: &Path| now.since(self.hearing.silent_since(path.last_heard()));
        let hopeless = |path: &&Path| silence(path) >= patience && !path.is_live();
        self.paths.iter().filter(hopeless).map(Path::id).collect()
    }

    /// Whether nothing was heard over any path for so long.
    pub(crate) fn are_silent(&self, now: Time, time: Duration) -> bool {
        now.since(self.hearing.latest()) >= time
    }

    /// Whether a path carries data, and when something was heard on it last.
    pub(crate) fn state(&self, id: PathId) -> Option<(PathState, Time)> {
        self.get(id).map(|path| (path.state(), path.last_heard()))
    }

    /// The paths as people and programs see them.
    pub(crate) fn statuses(&self) -> Vec<PathStatus> {
        // While a path that was planned around comes back, the weights of both plans are in use.
        let planned: f64 = self.paths.iter().map(Path::planned_share).sum();
        self.paths.iter().map(|path| path.status(planned)).collect()
    }

    /// What is known of packets that left on a path at `sent`.
    pub(crate) fn fate(&self, now: Time, id: PathId, sent: Time) -> FlightFate {
        self.get(id).map_or(FlightFate::Over, |path| path.fate(now, sent))
    }

    /// The smoothed round trip of a path.
    pub(crate) fn round_trip(&self, id: PathId) -> Duration {
        self.get(id).map(Path::round_trip).unwrap_or_default()
    }

    /// The round trip of the slowest path.
    pub(crate) fn slowest_round_trip(&self) -> Duration {
        self.paths.iter().map(Path::round_trip).max().unwrap_or_default()
    }

    /// Of how many paths a report tells.
    pub(crate) fn reported(&self) -> usize {
        self.paths.iter().filter(|path| path.arrivals().highest().is_some()).count().min(MAX_REPORTED_PATHS)
    }

    /// What a report says of the paths; `room` tells how many words it has for so many of them.
    pub(crate) fn report_arrivals(&mut self, room: impl Fn(usize) -> usize) -> Vec<PathReport> {
        let count = self.reported();
        let heard = || self.paths.iter().filter(|path| path.arrivals().highest().is_some()).take(count);
        let wanted: Vec<usize> = heard().map(|path| path.arrivals().words_to_report()).collect();
        let words = share_out(&wanted, room(count));
        let heard = self.paths.iter_mut().filter(|path| path.arrivals().highest().is_some());
        heard.zip(words).filter_map(|(path, words)| path.report_arrivals(words)).collect()
    }

    /// The two best paths for a report: those heard lately, the faster first, and the second one over other links than
    /// the first, because a link that dies must not take the news of it along.
    pub(crate) fn for_report(&self, now: Time) -> impl Iterator<Item = PathId> + '_ {
        let mut chosen: Vec<usize> = Vec::new();
        for _ in 0..REPORT_COPIES {
            let left = (0..self.paths.len()).filter(|place| !chosen.contains(place));
            chosen.extend(left.min_by_key(|place| {
                let path = &self.paths[*place];
                let is_silent = now.since(path.last_heard()) > HEARD_RECENTLY;
                let shared = chosen.iter().map(|other| self.crossings.shared(*place, *other)).sum::<usize>();
                (!path.carries_on(), is_silent, shared, path.round_trip())
            }));
        }
        chosen.into_iter().map(|place| self.paths[place].id())
    }

    /// The paths that are not dead.
    pub(crate) fn not_dead(&self) -> impl Iterator<Item = PathId> + Clone + '_ {
        self.paths.iter().filter(|path| !matches!(path.state(), PathState::Dead { .. })).map(Path::id)
    }

    pub(crate) fn count(&self) -> usize {
        self.paths.len()
    }

    /// The living path whose turn it is after so many `tries`, and how long an answer on it may take: another one each
    /// time, so that no path that carries nothing can hold a question up.
    pub(crate) fn living_after(&self, tries: usize) -> Option<(PathId, Duration)> {
        let living = self.living();
        let path = living.clone().nth(tries % living.count().max(1))?;
        Some((path.id(), path.loss_timeout()))
    }

    /// Whether any path is in the schedule.
    pub(crate) fn any_lives(&self) -> bool {
        self.living().next().is_some()
    }

    fn living(&self) -> impl Iterator<Item = &Path> + Clone {
        self.paths.iter().filter(|path| path.is_live())
    }

    /// The living paths that nothing speaks against; all of them if something speaks against each. Then there is
    /// nothing to be gained by telling them apart.
    fn trusted(&self) -> impl Iterator<Item = &Path> {
        let all = self.trusts_none();
        self.living().filter(move |path| path.is_trusted() || all)
    }

    fn trusts_none(&self) -> bool {
        !self.paths.iter().any(Path::is_trusted)
    }

    /// The pause after which the tail timer assumes that nothing will come.
    pub(crate) fn tail_pause(&self) -> Duration {
        self.living().map(Path::loss_timeout).max().unwrap_or(TAIL_PAUSE_WITHOUT_PATHS)
    }

    // --- their rates --------------------------------------------------------------------------------------------

    /// The rate of the trusted paths together, in bit/s.
    pub(crate) fn rate(&self) -> f64 {
        self.trusted().map(Path::mean_rate).sum()
    }

    /// The loss of the living paths, weighted by their rates.
    pub(crate) fn mean_loss(&self) -> f64 {
        let rate: f64 = self.living().map(Path::mean_rate).sum();
        self.living().map(|path| path.mean_rate() * path.loss_share()).sum::<f64>() / rate.max(1.0)
    }

    /// The living paths, for what they do together with others over their links.
    pub(crate) fn coupled(&mut self) -> Vec<CoupledPath<'_>> {
        self.changed().iter_mut().filter(|path| path.carries_on()).map(Path::coupled).collect()
    }
}

/// Shares `room` words out to those who want so many: who wants less than an equal part gets all of it. Each gets one
/// at least, if there is one for each.
fn share_out(wanted: &[usize], room: usize) -> Vec<usize> {
    let mut places: Vec<usize> = (0..wanted.len()).collect();
    places.sort_by_key(|place| wanted[*place]);
    let (mut granted, mut left) = (vec![0; wanted.len()], room);
    for (done, place) in places.into_iter().enumerate() {
        granted[place] = wanted[place].min(left / (wanted.len() - done));
        left -= granted[place];
    }
    granted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_wants_little_gets_it_and_the_others_share_the_rest() {
        assert_eq!(share_out(&[1, 100, 5, 100], 46), [1, 20, 5, 20]);
        assert_eq!(share_out(&[1, 2], 46), [1, 2]);
        assert_eq!(share_out(&[9; 3], 3), [1; 3]);
    }
}
