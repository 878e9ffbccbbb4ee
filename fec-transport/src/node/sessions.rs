//! The node's sessions: how they are opened, joined by further circuits, and buried.

use std::sync::Arc;

use super::Node;
use crate::circuit::{CircuitEvent, Egress};
use crate::crypto::handshake::{Initiator, Occasion, Responder, SessionKeys};
use crate::event::{CloseReason, ConnectError, Event, SessionId};
use crate::overlay::{InstanceId, MemberId, Peer};
use crate::routes::detour::Health;
use crate::routes::dialler::{Action, Attempt, Established, Loss};
use crate::routes::job::{Plan, PlanJob, Purpose};
use crate::routes::plan::is_reachable;
use crate::session::{Name, Path, PathId, PeerLimits, Role, Session, SessionSetUp};
use crate::time::Time;
use crate::wire::circuit::CircuitId;
use crate::wire::session::{self as wire, Opening, SetUpPayload, Share, Welcome};

/// What arrived with a circuit that ends here.
struct Offer {
    circuit: CircuitId,
    originator: MemberId,
    route: Vec<MemberId>,
    egress: Egress,
}

impl Node {
    /// The session to `member`: the one that is open or being opened, or a new one. [`Event::SessionOpened`] or
    /// [`Event::SessionClosed`] follows.
    ///
    /// # Errors
    /// [`ConnectError`] if it cannot even be tried.
    pub fn connect(&mut self, now: Time, member: MemberId) -> Result<SessionId, ConnectError> {
        self.now = now;
        if !self.overlay.contains(member) {
            return Err(ConnectError::NoMember(member.0));
        }
        if member == self.me.member {
            return Err(ConnectError::Itself(self.overlay.name(member)));
        }
        if let Some(session) = self.dialler.session_to(member) {
            return Ok(session);
        }
        let open = self.sessions.len() + self.dialler.opening().count();
        if open >= self.config.limits.sessions {
            return Err(ConnectError::TooMany(open));
        }
        if !is_reachable(&self.overlay, self.me.member, member, &self.config) {
            let name = |member| self.overlay.name(member);
            return Err(ConnectError::NoPath { from: name(self.me.member), to: name(member) });
        }
        let session = self.draw_session_id();
        self.dialler.open(now, session, member, &self.config.liveness);
        self.ask_for_plan(session, Purpose::Open);
        Ok(session)
    }

    pub(super) fn ask_for_plan(&mut self, session: SessionId, purpose: Purpose) {
        self.dialler.ask(session, purpose, self.me.member, &self.overlay, &self.config);
    }

    /// The next plan to compute. Whoever drives the node [runs](PlanJob::run) it, on any thread, and gives the result
    /// to [`handle_plan`](Self::handle_plan); until then nothing waits but the session whose routes are planned. Called
    /// until it gives nothing.
    pub fn poll_plan(&mut self) -> Option<PlanJob> {
        self.dialler.poll_plan()
    }

    /// Takes a plan that was computed.
    pub fn handle_plan(&mut self, now: Time, plan: Plan) {
        self.now = now;
        if !self.dialler.is_wanted(&plan) {
            return;
        }
        let Plan { session, purpose, routes, .. } = plan;
        match purpose {
            Purpose::Open if routes.is_empty() => {
                let member = self.dialler.member_of(session).unwrap_or(self.me.member);
                let reason = CloseReason::NoPath(self.config.liveness.connect);
                self.give_up_opening(session, member, reason);
            }
            Purpose::Open => self.dialler.add_planned(now, session, routes),
            Purpose::Reload => self.follow_plan(session, routes),
            Purpose::Detour(_) => self.take_detours(session, &routes),
        }
        self.handle_dialler_timeout();
    }

    /// Ends a session; the peer is told `reason`. [`Event::SessionClosed`] follows.
    pub fn close(&mut self, now: Time, session: SessionId, reason: &str) {
        self.now = now;
        if self.dialler.is_opening(session) {
            let member = self.dialler.member_of(session).unwrap_or(self.me.member);
            self.give_up_opening(session, member, CloseReason::Local);
        } else {
            self.with_session(session, |session| session.close(reason));
        }
    }

    /// The peer at the other end of a session.
    pub fn peer(&self, session: SessionId) -> Option<Peer> {
        self.sessions.get(&session).map(|session| session.name().peer)
    }

    /// Lets a session act, passes on what happened, and buries it if it is over.
    pub(super) fn with_session<T>(
        &mut self,
        id: SessionId,
        act: impl FnOnce(&mut Session) -> T,
    ) -> Option<T> {
        let result = act(self.sessions.get_mut(&id)?);
        self.settle(id);
        Some(result)
    }

    /// Passes on what has happened in a session, and buries it if it is over.
    pub(super) fn settle(&mut self, id: SessionId) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        while let Some(event) = session.poll_event() {
            self.events.push_back(event);
        }
        if session.is_over() {
            self.bury(id);
        }
    }

    fn bury(&mut self, id: SessionId) {
        let Some(session) = self.sessions.remove(&id) else { return };
        self.bottlenecks.forget(id);
        let name = session.name();
        self.by_token.remove(&(name.peer.member, name.token));
        let circuits =
            self.carried.iter().filter(|(_, (owner, _))| *owner == id).map(|(circuit, _)| *circuit);
        let circuits: Vec<CircuitId> = circuits.collect();
        for circuit in circuits.into_iter().chain(self.dialler.forget(id)) {
            self.carried.remove(&circuit);
            self.circuits.tear_down(circuit, "its session is over");
        }
    }

    fn draw_session_id(&mut self) -> SessionId {
        self.next_session += 1;
        SessionId(self.next_session)
    }

    // --- sessions that we open ------------------------------------------------------------------------------------

    /// Sets up what is due. Says whether plans were asked for instead: they come first, and what is due stays so.
    pub(super) fn handle_dialler_timeout(&mut self) -> bool {
        if self.watch_paths() {
            return true;
        }
        while let Some(action) = self.dialler.next_action(self.now) {
            match action {
                Action::SetUp(attempt) => self.set_up(&attempt),
                Action::GiveUp { session, member, reason } => self.give_up_opening(session, member, reason),
                Action::Retire(circuit) => self.retire_circuit(circuit),
                Action::End(circuit) => self.end_circuit(circuit, "it is not needed any more"),
            }
        }
        false
    }

    fn set_up(&mut self, attempt: &Attempt) {
        let first_hop = attempt.planned.members.get(1).and_then(|member| self.neighbours.process_of(*member));
        let circuit = self.circuits.draw_id();
        let payload =
            if attempt.opens { Some(self.handshake(attempt)) } else { self.request_to_join(attempt) };
        let (Some(first_hop), Some((payload, handshake))) = (first_hop, payload) else {
            let link = self.link_after(&attempt.planned.members, 0).filter(|_| first_hop.is_none());
            let health = link.map_or(Health::Unknown, Health::DeadAt);
            return self.dialler.failed(self.now, attempt, health, &self.config.routing);
        };
        let route = &attempt.planned.members;
        self.circuits.originate(self.now, &self.identity, circuit, route, first_hop, payload.emit());
        self.dialler.started(circuit, attempt, handshake);
    }

    fn handshake(&mut self, attempt: &Attempt) -> (SetUpPayload, Option<(Initiator, u64)>) {
        let token = self.random.u64();
        let opening = Opening {
            token,
            instance: self.me.instance.0,
            path: attempt.path.0,
            share: Share::from_fraction(attempt.planned.share),
            window: self.config.limits.initial_window,
            streams: self.config.limits.streams,
        };
        let responder = self.overlay.member(attempt.member).keys.x25519;
        let random = self.random.fork();
        let (initiator, message) =
            Initiator::start(&self.identity, &responder, &opening.emit(), random, Occasion::Opening);
        (SetUpPayload::Handshake(message), Some((initiator, token)))
    }

    fn request_to_join(&self, attempt: &Attempt) -> Option<(SetUpPayload, Option<(Initiator, u64)>)> {
        let session = self.sessions.get(&attempt.session)?;
        let (token, path) = (session.name().token, attempt.path.0);
        let share = wire::emit_join(Share::from_fraction(attempt.planned.share));
        let sealed = session.join_key().seal_message(path.into(), &token.to_be_bytes(), &share);
        Some((SetUpPayload::Join { token, path, sealed }, None))
    }

    pub(super) fn give_up_opening(&mut self, session: SessionId, member: MemberId, reason: CloseReason) {
        for circuit in self.dialler.forget(session) {
            self.circuits.tear_down(circuit, "the session is given up");
        }
        self.events.push_back(Event::SessionClosed { session, member, reason });
    }

    /// Takes a circuit that ends here out of use, and tears it down when what is on the way over it has arrived.
    pub(super) fn retire_circuit(&mut self, circuit: CircuitId) {
        let path = self.carried.get(&circuit).copied();
        let session = path.and_then(|(session, path)| Some((self.sessions.get_mut(&session)?, path)));
        if session.is_some_and(|(session, path)| session.paths_mut().retire(path)) {
            self.dialler.end_soon(self.now, circuit);
        } else {
            self.end_circuit(circuit, "it is not needed any more");
        }
    }

    /// Tears down a circuit that ends here and takes its path out of its session.
    pub(super) fn end_circuit(&mut self, circuit: CircuitId, reason: &str) {
        self.circuits.tear_down(circuit, reason);
        self.on_circuit_ended(circuit, Loss::silent(self.now));
    }

    // --- what circuits bring ----------------------------------------------------------------------------------------

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
                    if let Err(reason) = self.on_offer(offer, &payload) {
                        self.circuits.refuse(circuit, reason);
                    }
                }
            }
        }
    }

    fn on_answered(&mut self, circuit: CircuitId, payload: &[u8], egress: Egress) {
        let Some(established) = self.dialler.answered(self.now, circuit, &self.config.routing) else {
            return self.circuits.tear_down(circuit, "nobody waits for it");
        };
        let Established { session, member, path, planned, handshake } = established;
        if let Some((initiator, token)) = handshake
            && let Err(reason) = self.begin_session(session, member, token, initiator, payload)
        {
            self.circuits.tear_down(circuit, reason);
            let refusal = CloseReason::Refused { by: self.overlay.name(member), reason: reason.to_owned() };
            return self.give_up_opening(session, member, refusal);
        }
        let links = self.overlay.route_links(&planned.members);
        let path = Path::new(path, planned.members, links, planned.share, egress, self.now);
        self.carry(circuit, session, path);
        self.handle_dialler_timeout();
    }

    fn begin_session(
        &mut self,
        id: SessionId,
        member: MemberId,
        token: u64,
        initiator: Initiator,
        payload: &[u8],
    ) -> Result<(), &'static str> {
        let failed = "its answer to the handshake does not open";
        let (payload, keys) = initiator.finish(payload).map_err(|_| failed)?;
        let welcome = Welcome::parse(&payload).map_err(|_| failed)?;
        let peer = Peer { member, instance: InstanceId(welcome.instance) };
        let peer_limits = PeerLimits { initial_window: welcome.window, streams: welcome.streams };
        let name = Name { id, token, peer, role: Role::Initiator };
        self.insert_session(name, keys, peer_limits);
        Ok(())
    }

    fn on_offer(&mut self, offer: Offer, payload: &[u8]) -> Result<(), &'static str> {
        match SetUpPayload::parse(payload).map_err(|_| "malformed payload")? {
            SetUpPayload::Handshake(message) => self.on_handshake(offer, &message),
            SetUpPayload::Join { token, path, sealed } => self.on_join(offer, token, PathId(path), &sealed),
        }
    }

    fn on_handshake(&mut self, offer: Offer, message: &[u8]) -> Result<(), &'static str> {
        if self.is_draining {
            return Err("it is shutting down");
        }
        if self.sessions.len() >= self.config.limits.sessions {
            return Err("too many sessions are open here");
        }
        let random = self.random.fork();
        let responder = Responder::read(&self.identity, message, random, Occasion::Opening)
            .map_err(|_| "the handshake does not open")?;
        if responder.initiator != self.overlay.member(offer.originator).keys.x25519 {
            return Err("the handshake is not the originator's");
        }
        let opening = Opening::parse(&responder.payload).map_err(|_| "malformed handshake")?;
        if self.by_token.contains_key(&(offer.originator, opening.token)) {
            return Err("this session was opened before");
        }
        let limits = &self.config.limits;
        let welcome =
            Welcome { instance: self.me.instance.0, window: limits.initial_window, streams: limits.streams };
        let (answer, keys) = responder.finish(&welcome.emit());
        let id = self.draw_session_id();
        let peer = Peer { member: offer.originator, instance: InstanceId(opening.instance) };
        let peer_limits = PeerLimits { initial_window: opening.window, streams: opening.streams };
        let name = Name { id, token: opening.token, peer, role: Role::Responder };
        self.insert_session(name, keys, peer_limits);
        self.by_token.insert((offer.originator, opening.token), id);
        self.accept(offer, id, PathId(opening.path), opening.share, answer)
    }

    fn on_join(&mut self, offer: Offer, token: u64, path: PathId, sealed: &[u8]) -> Result<(), &'static str> {
        let unknown = "there is no such session here";
        let id = *self.by_token.get(&(offer.originator, token)).ok_or(unknown)?;
        let session = self.sessions.get(&id).ok_or(unknown)?;
        let opened = session.join_key().open_message(path.0.into(), &token.to_be_bytes(), sealed);
        let share = opened.map_err(|_| "the request to join does not open")?;
        let share = wire::parse_join(&share).map_err(|_| "malformed request to join")?;
        self.accept(offer, id, path, share, Vec::new())
    }

    /// Accepts a circuit as a path of a session.
    fn accept(
        &mut self,
        offer: Offer,
        session: SessionId,
        path: PathId,
        share: Share,
        answer: Vec<u8>,
    ) -> Result<(), &'static str> {
        let back: Vec<MemberId> = offer.route.into_iter().rev().collect();
        let links = self.overlay.route_links(&back);
        let path = Path::new(path, back, links, share.to_fraction(), offer.egress, self.now);
        if !self.carry(offer.circuit, session, path) {
            return Err("the session has no room for this path");
        }
        self.circuits.answer(self.now, offer.circuit, answer);
        Ok(())
    }

    fn carry(&mut self, circuit: CircuitId, session: SessionId, path: Path) -> bool {
        let id = path.id();
        let added = self.with_session(session, |session| session.add_path(path)).unwrap_or(false);
        if added {
            self.carried.insert(circuit, (session, id));
        }
        added
    }

    fn insert_session(&mut self, name: Name, keys: SessionKeys, peer_limits: PeerLimits) {
        let Name { id, peer, role, .. } = name;
        let (random, identity) = (self.random.fork(), Arc::clone(&self.identity));
        let peer_key = self.overlay.member(peer.member).keys.x25519;
        let member = self.overlay.name(peer.member);
        let span =
            tracing::info_span!("session", id = id.0, peer = member, incoming = role == Role::Responder);
        let set_up = SessionSetUp {
            name,
            keys,
            identity,
            peer_key,
            peer_limits,
            random,
            span,
            pool: self.window_pool.clone(),
        };
        self.sessions.insert(id, Session::new(set_up, Arc::clone(&self.config), self.now));
    }
}
