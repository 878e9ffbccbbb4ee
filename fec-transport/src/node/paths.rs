//! How circuits become paths of sessions, are gone around when their links are dead, and end.
//!
//! This is where the parts of the node meet: the dialler says which route is due, the circuits set it up, a session
//! takes it as a path; and backwards when it ends.

use std::time::Duration;

use super::Node;
use super::sessions::{Acceptance, Declined, HOPELESS, Hopeless};
use crate::circuit::{CircuitEvent, Egress};
use crate::event::{CloseReason, Event, SessionId};
use crate::neighbour::Gone;
use crate::overlay::{Adjacency, LinkId, MemberId, Route};
use crate::routes::detour::Health;
use crate::routes::dialler::{Action, Attempt, Established, Loss};
use crate::routes::job::Purpose;
use crate::routes::plan::PlannedRoute;
use crate::session::{Path, PathId, Session};
use crate::wire::circuit::{Cause, CircuitId, CircuitMessage, Notice};
use crate::wire::link::{ChallengeAnswer, GreetingKey};
use crate::wire::{Malformed, control_type};

/// How often the paths are looked at. A path's death is noticed by its session within a probe or two anyway.
const WATCH_INTERVAL: Duration = Duration::from_millis(50);

/// What arrived with a circuit that ends here.
struct Offer {
    circuit: CircuitId,
    originator: MemberId,
    route: Route,
    egress: Egress,
}

impl Node {
    // --- sessions ----------------------------------------------------------------------------------------------

    /// Lets a session act, and buries it if it is over.
    pub(super) fn with_session<T>(
        &mut self,
        id: SessionId,
        act: impl FnOnce(&mut Session) -> T,
    ) -> Option<T> {
        let result = self.sessions.with(id, act);
        self.bury_sessions();
        result
    }

    /// Tears down the circuits of sessions that are over.
    pub(super) fn bury_sessions(&mut self) {
        while let Some((id, carriers)) = self.sessions.poll_over() {
            for circuit in carriers.into_iter().chain(self.dialler.forget(id)) {
                self.circuits.tear_down(circuit, "its session is over");
            }
        }
    }

    /// Ends a session that is being opened.
    pub(super) fn give_up_opening(&mut self, session: SessionId, reason: CloseReason) {
        let Some(member) = self.dialler.member_of(session) else { return };
        let reason = match reason {
            CloseReason::NoPath { time, .. } => {
                CloseReason::NoPath { time, unreached: self.neighbours.unreached() }
            }
            other => other,
        };
        for circuit in self.dialler.forget(session) {
            self.circuits.tear_down(circuit, "the session is given up");
        }
        self.sessions.report(Event::SessionClosed { session, member, reason });
    }

    /// Ends the sessions that are being opened if every neighbour refuses a key: waiting would not help.
    pub(super) fn give_up_unwelcome(&mut self) {
        let links = self.overlay.links_of(self.me.member).map(|(link, _)| link);
        if !self.neighbours.all_refuse(links) {
            return;
        }
        let opening: Vec<SessionId> = self.dialler.opening().collect();
        for session in opening {
            self.give_up_opening(session, CloseReason::Unwelcome(self.neighbours.unreached()));
        }
    }

    pub(super) fn revoke(&mut self, session: SessionId) {
        let reason = CloseReason::Revoked(self.overlay.serial);
        match self.dialler.is_opening(session) {
            true => self.give_up_opening(session, reason),
            false => drop(self.with_session(session, |session| session.drop_dead(reason))),
        }
    }

    // --- plans -------------------------------------------------------------------------------------------------

    pub(super) fn ask_for_plan(&mut self, session: SessionId, purpose: Purpose) {
        self.dialler.ask(session, purpose, self.me.member, &self.overlay, &self.config);
    }

    /// Asks for new routes of the sessions that this node opened, or is opening.
    pub(super) fn replan_sessions(&mut self) {
        let sessions: Vec<SessionId> = self.dialler.sessions().collect();
        for session in sessions {
            let Some(member) = self.dialler.member_of(session) else { continue };
            if self.overlay.contains(member) {
                let overlay = &self.overlay;
                self.dialler.drop_routes(session, |route| overlay.allows_route(route));
                self.ask_for_plan(session, Purpose::Reload);
            } else {
                self.follow_plan(session, Vec::new());
            }
        }
    }

    /// Gives a session the routes of a newer overlay file's plan. Without any it lives on with those that are still
    /// allowed, and ends if there are none.
    pub(super) fn follow_plan(&mut self, session: SessionId, plan: Vec<PlannedRoute>) {
        let overlay = &self.overlay;
        let is_allowed = |route: &Route| overlay.allows_route(route);
        if !self.dialler.replan(self.now, session, plan, is_allowed) {
            self.revoke(session);
        }
    }

    /// Looks at the paths of all sessions, now and then. Says whether plans were asked for.
    fn watch_paths(&mut self) -> bool {
        if self.now.since(self.watched) < WATCH_INTERVAL {
            return false;
        }
        self.watched = self.now;
        for Hopeless { circuit, is_one_of_all } in self.sessions.hopeless(self.now) {
            if is_one_of_all {
                // It is asked further on, and may come back by itself; another one is tried beside it.
                self.dialler.doubt(self.now, circuit);
                continue;
            }
            self.circuits.tear_down(circuit, "its path is dead");
            let loss = Loss { refusal: None, health: Health::Dead, since: self.now - HOPELESS };
            self.on_circuit_ended(circuit, loss);
        }
        let sessions: Vec<SessionId> = self.dialler.sessions().collect();
        for id in &sessions {
            let (now, sessions) = (self.now, &self.sessions);
            self.dialler.trust(*id, |path| sessions.health(now, *id, path));
        }
        if self.config.routing.replan {
            return sessions.into_iter().filter(|session| self.go_around(*session)).count() > 0;
        }
        false
    }

    /// Asks for a plan around links that seem dead, and gives the detours up when they are not needed any more. Says
    /// whether it asked.
    fn go_around(&mut self, id: SessionId) -> bool {
        let (now, routing, sessions) = (self.now, &self.config.routing, &self.sessions);
        let suspects =
            self.dialler.watch(now, id, &self.overlay, routing, |path| sessions.health(now, id, path));
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
        let (now, sessions) = (self.now, &self.sessions);
        let to = self.dialler.member_of(id).map(|member| self.overlay.name(member));
        tracing::debug!(to, routes = plan.len(), "planned around dead links");
        let is_live = |path| sessions.health(now, id, path) == Health::Live;
        let over = self.dialler.detour(now, id, plan, &self.config, is_live);
        over.into_iter().for_each(|circuit| self.retire_circuit(circuit));
        self.share_by_plan(id);
    }

    /// Tells a session which share of the flow each of its paths has in the latest plan, if it does not know. (Whatever
    /// is told makes it look anew at all that it has to do, and there may be a thousand idle sessions.)
    fn share_by_plan(&mut self, id: SessionId) {
        let shares: Vec<(PathId, f64)> = self.dialler.shares(id).collect();
        if self.sessions.get(id).is_some_and(|session| !session.paths().are_shared_by(&shares)) {
            self.with_session(id, |session| session.paths_mut().share_by_plan(&shares));
        }
    }

    // --- circuits that we set up -------------------------------------------------------------------------------

    /// Sets up what is due. Says whether plans were asked for instead: they come first, and what is due stays so.
    pub(super) fn handle_dialler_timeout(&mut self) -> bool {
        if self.watch_paths() {
            return true;
        }
        while let Some(action) = self.dialler.next_action(self.now) {
            match action {
                Action::SetUp(attempt) => self.set_up(&attempt),
                Action::GiveUp { session, reason } => self.give_up_opening(session, reason),
                Action::Retire(circuit) => self.retire_circuit(circuit),
                Action::End(circuit) => self.end_circuit(circuit, "it is not needed any more"),
            }
        }
        false
    }

    fn set_up(&mut self, attempt: &Attempt) {
        let route = &attempt.planned.route;
        let first_link = route.links().first().copied();
        let next = route.members().get(1).copied();
        let first_hop =
            first_link.zip(next).and_then(|(link, member)| self.neighbours.process_over(link, member));
        let circuit = self.circuits.draw_id();
        let (payload, handshake) = match attempt.opens {
            true => {
                let (payload, handshake) = self.sessions.open(&self.overlay, attempt);
                (Some(payload), Some(handshake))
            }
            false => (self.sessions.join(attempt), None),
        };
        let (Some(first_hop), Some(payload)) = (first_hop, payload) else {
            let link = first_link.filter(|_| first_hop.is_none());
            let health = link.map_or(Health::Unknown, Health::DeadAt);
            return self.dialler.failed(self.now, attempt, health, &self.config.routing);
        };
        self.circuits.originate(
            self.now,
            self.sessions.identity(),
            circuit,
            route,
            first_hop,
            payload.emit(),
        );
        self.dialler.started(self.now, circuit, attempt, handshake);
    }

    fn on_answered(&mut self, circuit: CircuitId, payload: &[u8], egress: Egress) {
        let Some(established) = self.dialler.answered(self.now, circuit, &self.config.routing) else {
            return self.circuits.tear_down(circuit, "nobody waits for it");
        };
        let Established { session, member, path, planned, handshake } = established;
        let name = (session, member);
        if let Some(handshake) = handshake
            && let Err(reason) = self.sessions.begin(self.now, &self.overlay, name, handshake, payload)
        {
            self.circuits.tear_down(circuit, reason);
            let refusal = CloseReason::Refused {
                by: self.overlay.name(member),
                reason: reason.to_owned(),
                time: Duration::ZERO,
            };
            return self.give_up_opening(session, refusal);
        }
        let links = self.overlay.crossed(planned.route.links());
        let path = Path::new(path, planned.route, links, planned.share, egress, self.now);
        self.sessions.carry(circuit, session, path);
        self.bury_sessions();
        self.handle_dialler_timeout();
    }

    /// A circuit of ours was refused.
    fn on_refused(&mut self, circuit: CircuitId, notice: Notice) {
        let health = self.health_told(circuit, &notice);
        if let Some(session) =
            self.dialler.session_of(circuit).filter(|session| self.is_forgotten(*session, &notice))
        {
            self.with_session(session, Session::note_forgotten);
        }
        let refusal = Some(CloseReason::Refused {
            by: notice.by,
            reason: notice.reason,
            time: self.config.liveness.connect,
        });
        let loss = Loss { refusal, health, since: self.now };
        self.dialler.lost(self.now, circuit, loss, &self.config.routing);
    }

    /// Whether a notice says, in the name of the member at the other end of a session, that it does not know it.
    fn is_forgotten(&self, session: SessionId, notice: &Notice) -> bool {
        let responder = self.dialler.member_of(session);
        notice.cause == Cause::NoSession && responder.is_some() && self.overlay.find(&notice.by) == responder
    }

    /// What a notice about a circuit of ours says: a link of its route, or nothing.
    fn health_told(&self, circuit: CircuitId, notice: &Notice) -> Health {
        if notice.cause != Cause::LinkDown {
            return Health::Unknown;
        }
        let Some(route) = self.dialler.route_of(circuit) else { return Health::Dead };
        let told_by = self.overlay.find(&notice.by);
        let place = route.members().iter().position(|member| Some(*member) == told_by);
        let link = place.and_then(|place| route.links().get(place).copied());
        link.map_or(Health::Dead, Health::DeadAt)
    }

    // --- circuits that end here --------------------------------------------------------------------------------

    pub(super) fn handle_circuit_events(&mut self) {
        while let Some(event) = self.circuits.poll_event() {
            match event {
                CircuitEvent::Answered { circuit, payload, egress } => {
                    self.on_answered(circuit, &payload, egress);
                }
                CircuitEvent::Refused { circuit, notice } => self.on_refused(circuit, notice),
                CircuitEvent::Unanswered { circuit } => {
                    let loss = Loss { health: Health::Dead, ..Loss::silent(self.now) };
                    self.dialler.lost(self.now, circuit, loss, &self.config.routing);
                }
                CircuitEvent::Ended { circuit, notice } => {
                    let health = notice.map_or(Health::Unknown, |notice| self.health_told(circuit, &notice));
                    self.on_circuit_ended(circuit, Loss { health, ..Loss::silent(self.now) });
                }
                CircuitEvent::Offered { circuit, originator, route, payload, egress } => {
                    let offer = Offer { circuit, originator, route, egress };
                    if let Err(Declined { cause, reason }) = self.on_offer(offer, &payload) {
                        self.circuits.refuse(circuit, cause, reason);
                    }
                }
            }
        }
    }

    /// Accepts a circuit as a path of a session, which it may open.
    fn on_offer(&mut self, offer: Offer, payload: &[u8]) -> Result<(), Declined> {
        let Offer { circuit, originator, route, egress } = offer;
        let Acceptance { session, path, share, answer } =
            self.sessions.answer(self.now, &self.overlay, originator, payload)?;
        let back = route.reversed();
        let links = self.overlay.crossed(back.links());
        let path = Path::new(path, back, links, share.to_fraction(), egress, self.now);
        let is_carried = self.sessions.carry(circuit, session, path);
        self.bury_sessions();
        if !is_carried {
            return Err("the session has no room for this path".into());
        }
        self.circuits.answer(self.now, circuit, answer);
        Ok(())
    }

    /// Takes a circuit that ends here out of use, and tears it down when what is on the way over it has arrived.
    fn retire_circuit(&mut self, circuit: CircuitId) {
        match self.sessions.retire(circuit) {
            true => self.dialler.end_soon(self.now, circuit),
            false => self.end_circuit(circuit, "it is not needed any more"),
        }
    }

    /// Tears down a circuit that ends here and takes its path out of its session.
    fn end_circuit(&mut self, circuit: CircuitId, reason: &str) {
        self.circuits.tear_down(circuit, reason);
        self.on_circuit_ended(circuit, Loss::silent(self.now));
    }

    /// A circuit that ends here has ended: its path leaves its session.
    fn on_circuit_ended(&mut self, circuit: CircuitId, loss: Loss) {
        self.sessions.drop_path(circuit);
        self.bury_sessions();
        self.dialler.lost(self.now, circuit, loss, &self.config.routing);
    }

    // --- neighbours --------------------------------------------------------------------------------------------

    pub(super) fn take_control(&mut self, from: Adjacency, message: &[u8]) -> Result<(), Malformed> {
        let (message_type, body) = message.split_first().ok_or(Malformed::new("control message"))?;
        match *message_type {
            control_type::GREETING_KEY => {
                let key = GreetingKey::parse(body)?;
                self.neighbours.on_greeting_key(self.now, from, &key);
            }
            control_type::GREETED => {
                if self.neighbours.on_greeted(self.now, from) {
                    self.sessions.probe_new_paths(self.now, from);
                }
            }
            control_type::CHALLENGE_ANSWER => {
                self.neighbours.on_challenge_answer(from, ChallengeAnswer::parse(body)?);
            }
            other => {
                let message = CircuitMessage::parse(other, body)?;
                let (neighbours, overlay, me) = (&self.neighbours, &self.overlay, self.me.member);
                let over = |link: LinkId| neighbours.process_over(link, overlay.link(link).other_end(me)?);
                self.circuits.handle(self.now, from, message, over);
            }
        }
        Ok(())
    }

    /// As the acceptor of the connection, tells the dialler with what to greet us.
    pub(super) fn offer_greeting(&mut self, neighbour: Adjacency) {
        if self.overlay.dialler(neighbour.link) == self.me.member {
            return;
        }
        if let Some(old) = self.neighbours.greets_with(neighbour) {
            self.circuits.labels_mut().remove(old);
        }
        let hop = self.circuits.labels_mut().greeting(neighbour);
        self.neighbours.set_greets_with(neighbour, hop.label);
        self.neighbours.send(neighbour, GreetingKey { label: hop.label, hop_key: hop.key }.emit());
    }

    /// Gives up what went over processes that are gone.
    pub(super) fn give_up(&mut self, gone: &[Gone]) {
        for Gone { neighbour, label } in gone {
            label.iter().for_each(|label| self.circuits.labels_mut().remove(*label));
            self.circuits.on_neighbour_gone(*neighbour);
        }
    }
}
