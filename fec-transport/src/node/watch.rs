//! How the node watches over the paths of its sessions: hopeless ones are given up, dead links are gone around.

use std::time::Duration;

use super::Node;
use crate::config::Config;
use crate::event::{CloseReason, SessionId};
use crate::overlay::MemberId;
use crate::routes::detour::Health;
use crate::routes::dialler::Loss;
use crate::routes::job::Purpose;
use crate::routes::plan::PlannedRoute;
use crate::session::{PathId, PathState, Session};
use crate::time::Time;
use crate::wire::circuit::{Cause, CircuitId, Notice};

/// After this time without a word on it, a dead path's circuit is given up and its route set up anew. The responder,
/// which does not know whether the initiator still tries, waits longer.
const HOPELESS: Duration = Duration::from_secs(15);
const HOPELESS_AT_RESPONDER: Duration = Duration::from_secs(60);
/// How often the paths are looked at. A path's death is noticed by its session within a probe or two anyway.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);

impl Node {
    /// Looks at the paths of all sessions, now and then. Says whether plans were asked for.
    pub(super) fn watch_paths(&mut self) -> bool {
        if self.now.since(self.watched) < WATCH_INTERVAL {
            return false;
        }
        self.watched = self.now;
        self.give_up_hopeless_paths();
        if self.config.routing.replan {
            let sessions: Vec<SessionId> = self.dialler.sessions().collect();
            return sessions.into_iter().filter(|session| self.go_around(*session)).count() > 0;
        }
        false
    }

    fn give_up_hopeless_paths(&mut self) {
        let is_hopeless = |(session, path): &(SessionId, PathId)| {
            self.sessions.get(session).is_some_and(|session| {
                let patience = if session.is_initiator() { HOPELESS } else { HOPELESS_AT_RESPONDER };
                session.paths().hopeless(self.now, patience).contains(path)
            })
        };
        let hopeless = self.carried.iter().filter(|(_, carried)| is_hopeless(carried));
        let hopeless: Vec<CircuitId> = hopeless.map(|(circuit, _)| *circuit).collect();
        for circuit in hopeless {
            self.circuits.tear_down(circuit, "its path is dead");
            let loss = Loss { refusal: None, health: Health::Dead, since: self.now - HOPELESS };
            self.on_circuit_ended(circuit, loss);
        }
    }

    /// Asks for a plan around links that seem dead, and gives the detours up when they are not needed any more. Says
    /// whether it asked.
    fn go_around(&mut self, id: SessionId) -> bool {
        let (now, routing) = (self.now, &self.config.routing);
        let session = self.sessions.get(&id);
        let config = &self.config;
        let health = |path| session.map_or(Health::Unknown, |session| health_of(now, session, path, config));
        let suspects = self.dialler.watch(now, id, &self.overlay, routing, health);
        let over = self.dialler.restore(now, id, routing.restore_after);
        over.into_iter().for_each(|circuit| self.retire_circuit(circuit));
        self.share_by_plan(id);
        let Some(suspects) = suspects else { return false };
        self.ask_for_plan(id, Purpose::Detour(suspects));
        true
    }

    /// Takes the routes of a plan around dead links as detours; there may be none.
    pub(super) fn take_detours(&mut self, id: SessionId, plan: &[PlannedRoute]) {
        if plan.is_empty() {
            return;
        }
        let (now, session, config) = (self.now, self.sessions.get(&id), &self.config);
        let health = |path| session.map_or(Health::Unknown, |session| health_of(now, session, path, config));
        let to = self.dialler.member_of(id).map(|member| self.overlay.name(member));
        tracing::debug!(to, routes = plan.len(), "planned around dead links");
        let over = self.dialler.detour(now, id, plan, &self.config, |path| health(path) == Health::Live);
        over.into_iter().for_each(|circuit| self.retire_circuit(circuit));
        self.share_by_plan(id);
    }

    /// Tells a session which share of the flow each of its paths has in the latest plan.
    fn share_by_plan(&mut self, id: SessionId) {
        let shares: Vec<(PathId, f64)> = self.dialler.shares(id).collect();
        self.with_session(id, |session| session.paths_mut().share_by_plan(&shares));
    }

    /// What a notice about a circuit of ours says: a link of its route, or nothing.
    pub(super) fn health_told(&self, circuit: CircuitId, notice: &Notice) -> Health {
        if notice.cause != Cause::LinkDown {
            return Health::Unknown;
        }
        let members = self.dialler.members_of(circuit);
        let told_by = self.overlay.find(&notice.by);
        let place = members.iter().position(|member| Some(*member) == told_by);
        let link = place.and_then(|place| self.link_after(members, place));
        link.map_or(Health::Dead, Health::DeadAt)
    }

    /// The link from a place of a route onwards.
    pub(super) fn link_after(&self, members: &[MemberId], place: usize) -> Option<crate::overlay::LinkId> {
        self.overlay.link_between(*members.get(place)?, *members.get(place + 1)?)
    }

    /// A circuit of ours was refused.
    pub(super) fn on_refused(&mut self, circuit: CircuitId, notice: Notice) {
        let health = self.health_told(circuit, &notice);
        let refusal = Some(CloseReason::Refused { by: notice.by, reason: notice.reason });
        let loss = Loss { refusal, health, since: self.now };
        self.dialler.lost(self.now, circuit, loss, &self.config.routing);
    }

    /// A circuit that ends here has ended: its path leaves its session.
    pub(super) fn on_circuit_ended(&mut self, circuit: CircuitId, loss: Loss) {
        if let Some((session, path)) = self.carried.remove(&circuit) {
            self.with_session(session, |session| session.remove_path(path));
        }
        self.dialler.lost(self.now, circuit, loss, &self.config.routing);
    }
}

fn health_of(now: Time, session: &Session, path: PathId, config: &Config) -> Health {
    let (routing, liveness) = (&config.routing, &config.liveness);
    let Some((state, last_heard)) = session.paths().state(path) else { return Health::Unknown };
    let silence = now.since(last_heard);
    match state {
        // Two probes have brought no reply. If all paths are like this no report can tell that they are dead, and the
        // session has a few seconds left.
        PathState::Live if silence >= liveness.keep_alive + 2 * liveness.probe_interval => Health::Dead,
        PathState::Live => Health::Live,
        PathState::Dead { since } if now.since(since) >= routing.replan_after => Health::Dead,
        PathState::Unconfirmed if silence >= routing.set_up_timeout => Health::Dead,
        PathState::Dead { .. } | PathState::Unconfirmed => Health::Unknown,
    }
}
