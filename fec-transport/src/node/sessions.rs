//! The sessions of a process: which there are, how they begin, and which circuits carry them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use super::alarms::Alarms;
use crate::config::Config;
use crate::crypto::handshake::{Initiator, Occasion, Responder, SessionKeys};
use crate::crypto::random::Random;
use crate::event::{Event, SessionId};
use crate::keys::Identity;
use crate::overlay::{Adjacency, InstanceId, MemberId, Overlay, Peer};
use crate::routes::detour::Health;
use crate::routes::dialler::Attempt;
use crate::session::{
    Bottlenecks, Job, JobResult, Name, Path, PathId, PathState, PeerLimits, Role, SendPool, Session,
    SessionSetUp, SharedIntake, SharedPool,
};
use crate::shares::has_place;
use crate::time::Time;
use crate::transmit::Transmit;
use crate::wire::circuit::{Cause, CircuitId};
use crate::wire::hop::HopHeader;
use crate::wire::session::{self as wire, Opening, SetUpPayload, Share, Welcome};

/// After this time without a word on it, a dead path's circuit is given up and its route set up anew. The responder,
/// which does not know whether the initiator still tries, waits longer.
pub(super) const HOPELESS: Duration = Duration::from_secs(15);
const HOPELESS_AT_RESPONDER: Duration = Duration::from_secs(60);

/// A circuit that a peer offers, as what the session takes it.
pub(super) struct Acceptance {
    pub(super) session: SessionId,
    pub(super) path: PathId,
    pub(super) share: Share,
    /// What the originator is answered.
    pub(super) answer: Vec<u8>,
}

/// Why a circuit that a peer offers is not taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Declined {
    pub(super) cause: Cause,
    pub(super) reason: &'static str,
}

impl From<&'static str> for Declined {
    fn from(reason: &'static str) -> Declined {
        Declined { cause: Cause::Other, reason }
    }
}

/// A circuit whose path has been dead for so long that it is of no use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hopeless {
    pub(super) circuit: CircuitId,
    /// Whether nothing is heard over any other path of its session either, so that it need not be its fault.
    pub(super) is_one_of_all: bool,
}

/// The sessions of a process.
#[derive(Debug)]
pub(super) struct Sessions {
    me: Peer,
    identity: Arc<Identity>,
    config: Arc<Config>,
    random: Random,
    by_id: BTreeMap<SessionId, Box<Session>>,
    alarms: Alarms,
    /// The session that the latest datagrams were for, if nobody has looked yet at what came of them. Most datagrams of
    /// a run are for one session, and to look after each of them took a sixth of the time of 100 receivers.
    unsettled: Option<SessionId>,
    /// Sessions that have work for other threads, or had when something was done with them last.
    have_jobs: BTreeSet<SessionId>,
    /// Sessions that peers opened, by the member that opened them and the token that it gave.
    by_token: BTreeMap<(MemberId, u64), SessionId>,
    /// Which path of which session a circuit that ends here carries.
    carried: BTreeMap<CircuitId, (SessionId, PathId)>,
    /// The last id that was given away.
    last_id: u64,
    /// The session whose turn it is to send.
    turn: SessionId,
    window_pool: SharedPool,
    send_pool: SendPool,
    intake: SharedIntake,
    /// The links that the paths of all sessions cross.
    bottlenecks: Bottlenecks,
    events: VecDeque<Event>,
    /// Sessions of whose end the application is still to hear. What they have received can be read until then.
    untold: BTreeSet<SessionId>,
    /// Sessions that are over, with the circuits that carried them, until the node has torn these down.
    over: VecDeque<(SessionId, Vec<CircuitId>)>,
    /// Whether the process is to end soon, and takes no new ones.
    is_draining: bool,
}

impl Sessions {
    /// None yet; `random` decides their keys.
    pub(super) fn new(me: Peer, identity: Arc<Identity>, config: Arc<Config>, random: Random) -> Sessions {
        Sessions {
            window_pool: SharedPool::new(config.limits.node_receive_memory),
            send_pool: SendPool::new(config.limits.node_send_memory),
            intake: SharedIntake::default(),
            me,
            identity,
            config,
            random,
            by_id: BTreeMap::new(),
            alarms: Alarms::default(),
            unsettled: None,
            have_jobs: BTreeSet::new(),
            by_token: BTreeMap::new(),
            carried: BTreeMap::new(),
            last_id: 0,
            turn: SessionId(0),
            bottlenecks: Bottlenecks::default(),
            events: VecDeque::new(),
            untold: BTreeSet::new(),
            over: VecDeque::new(),
            is_draining: false,
        }
    }

    /// The sockets that packets come in by hold so many bytes of them.
    pub(super) fn set_intake(&self, bytes: u64) {
        self.intake.set_bytes(bytes);
    }

    pub(super) fn identity(&self) -> &Identity {
        &self.identity
    }

    pub(super) fn count(&self) -> usize {
        self.by_id.len()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.by_id.keys().copied()
    }

    pub(super) fn get(&self, id: SessionId) -> Option<&Session> {
        self.by_id.get(&id).map(Box::as_ref)
    }

    /// Whether there is a session that has not ended for the application.
    pub(super) fn goes_on(&self, id: SessionId) -> bool {
        self.get(id).is_some_and(|session| !session.is_closing() && !session.is_over())
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Session> {
        self.by_id.values().map(Box::as_ref)
    }

    /// Peers can open no more of them.
    pub(super) fn drain(&mut self) {
        self.is_draining = true;
    }

    pub(super) fn is_draining(&self) -> bool {
        self.is_draining
    }

    pub(super) fn draw_id(&mut self) -> SessionId {
        self.last_id += 1;
        SessionId(self.last_id)
    }

    // --- acting ------------------------------------------------------------------------------------------------

    /// Lets a session act, and notes what happened and whether it is over.
    pub(super) fn with<T>(&mut self, id: SessionId, act: impl FnOnce(&mut Session) -> T) -> Option<T> {
        let result = act(self.by_id.get_mut(&id)?);
        self.settle(id);
        Some(result)
    }

    fn settle(&mut self, id: SessionId) {
        self.alarms.touch(id);
        let Some(session) = self.by_id.get_mut(&id) else { return };
        if session.has_jobs() {
            self.have_jobs.insert(id);
        }
        while let Some(event) = session.poll_event() {
            if matches!(event, Event::SessionClosed { .. }) {
                self.untold.insert(id);
            }
            self.events.push_back(event);
        }
        if session.is_over() && !self.untold.contains(&id) {
            self.remove(id);
        }
    }

    fn remove(&mut self, id: SessionId) {
        let Some(session) = self.by_id.remove(&id) else { return };
        self.alarms.forget(id);
        self.have_jobs.remove(&id);
        self.bottlenecks.forget(id);
        let name = session.name();
        self.by_token.remove(&(name.peer.member, name.token));
        let carriers = self.carried.iter().filter(|(_, (owner, _))| *owner == id);
        let carriers = carriers.map(|(circuit, _)| *circuit).collect();
        self.carried.retain(|_, (owner, _)| *owner != id);
        self.over.push_back((id, carriers));
    }

    /// A session that is over, and the circuits that carried it; called until it gives nothing.
    pub(super) fn poll_over(&mut self) -> Option<(SessionId, Vec<CircuitId>)> {
        self.over.pop_front()
    }

    /// Tells the application something that no session can, such as that it could not be opened.
    pub(super) fn report(&mut self, event: Event) {
        self.events.push_back(event);
    }

    pub(super) fn poll_event(&mut self) -> Option<Event> {
        let event = self.events.pop_front()?;
        if let Event::SessionClosed { session, .. } = &event
            && self.untold.remove(session)
        {
            self.settle(*session);
        }
        Some(event)
    }

    /// Takes a datagram that arrived over a circuit that ends here. What follows from it is done by
    /// [`settle_arrivals`](Self::settle_arrivals).
    pub(super) fn on_datagram(
        &mut self,
        now: Time,
        circuit: CircuitId,
        header: &HopHeader,
        datagram: &mut [u8],
    ) {
        let Some((id, path)) = self.carried.get(&circuit).copied() else { return };
        if self.unsettled != Some(id) {
            self.settle_arrivals(now);
            self.unsettled = Some(id);
        }
        if let Some(session) = self.by_id.get_mut(&id) {
            session.on_datagram(now, path, header, datagram, &mut self.bottlenecks);
        }
    }

    /// Looks at what came of the datagrams that have arrived since this was called last; to be called behind the last
    /// one of a run.
    pub(super) fn settle_arrivals(&mut self, now: Time) {
        if let Some(id) = self.unsettled.take() {
            self.settle(id);
            self.share_limits(now);
        }
    }

    /// Lets the sessions over common links share the limits that some of them have found there.
    fn share_limits(&mut self, now: Time) {
        while let Some(found) = self.bottlenecks.poll_found() {
            let concerned = self.bottlenecks.concerned_by(&found);
            concerned.iter().for_each(|id| self.alarms.touch(*id));
            let sessions = self.by_id.iter_mut().filter(|(id, _)| concerned.contains(id));
            let mut paths: Vec<_> = sessions.map(|(_, session)| session.paths_mut().coupled()).collect();
            found.tell(now, &mut paths);
        }
    }

    /// Lets the sessions take turns, one run of datagrams each.
    pub(super) fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let turn = self.turn;
        let transmit = self.run_of_one(now, turn..SessionId(u64::MAX), buffer);
        transmit.or_else(|| self.run_of_one(now, SessionId(0)..turn, buffer))
    }

    /// The run of the first of these sessions that has something to send.
    fn run_of_one(&mut self, now: Time, ids: Range<SessionId>, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let mut from = ids.start;
        while let Some(id) = self.sending_from(now, from).filter(|id| *id < ids.end) {
            let transmit = self.with(id, |session| session.poll_transmit(now, buffer)).flatten();
            from = SessionId(id.0 + 1);
            if transmit.is_some() {
                self.turn = from;
                return transmit;
            }
        }
        None
    }

    /// The first session, from `from` on, that has something to send now.
    fn sending_from(&mut self, now: Time, from: SessionId) -> Option<SessionId> {
        let Sessions { alarms, by_id, .. } = self;
        alarms.sending_from(now, from, |id| by_id.get(&id)?.sends_at(now))
    }

    /// The first session, from `from` on, that has something else to do now.
    fn acting_from(&mut self, now: Time, from: SessionId) -> Option<SessionId> {
        let Sessions { alarms, by_id, .. } = self;
        alarms.acting_from(now, from, |id| by_id.get(&id)?.acts_at(now))
    }

    pub(super) fn poll_job(&mut self) -> Option<Job> {
        while let Some(id) = self.have_jobs.first().copied() {
            let job = self.by_id.get_mut(&id).and_then(|session| session.poll_job());
            if job.is_some() {
                return job;
            }
            self.have_jobs.remove(&id);
        }
        None
    }

    pub(super) fn on_job_done(&mut self, now: Time, result: JobResult) {
        let JobResult { session, done } = result;
        self.with(session, |session| session.on_job_done(now, done));
    }

    pub(super) fn next_timeout(&mut self, now: Time) -> Option<Time> {
        let Sessions { alarms, by_id, .. } = self;
        alarms.next(|id| by_id.get(&id)?.sends_at(now), |id| by_id.get(&id)?.acts_at(now))
    }

    pub(super) fn handle_timeout(&mut self, now: Time) {
        let mut from = SessionId(0);
        while let Some(id) = self.acting_from(now, from) {
            self.with(id, |session| session.handle_timeout(now));
            from = SessionId(id.0 + 1);
        }
    }

    // --- paths -------------------------------------------------------------------------------------------------

    /// Gives a session a path, which a circuit carries. Returns whether it took it.
    pub(super) fn carry(&mut self, circuit: CircuitId, session: SessionId, path: Path) -> bool {
        let id = path.id();
        let added = self.with(session, |session| session.add_path(path)).unwrap_or(false);
        if added {
            self.carried.insert(circuit, (session, id));
        }
        added
    }

    /// Takes the path that a circuit carries out of use. Returns whether there is one with something still on the way.
    pub(super) fn retire(&mut self, circuit: CircuitId) -> bool {
        let Some((session, path)) = self.carried.get(&circuit) else { return false };
        self.alarms.touch(*session);
        self.by_id.get_mut(session).is_some_and(|session| session.paths_mut().retire(*path))
    }

    /// A circuit has ended: its path leaves its session.
    pub(super) fn drop_path(&mut self, circuit: CircuitId) {
        if let Some((session, path)) = self.carried.remove(&circuit) {
            self.with(session, |session| session.remove_path(path));
        }
    }

    /// A neighbour knows where we are from now on: echoes of probes that it was to pass on to us before are lost.
    pub(super) fn probe_new_paths(&mut self, now: Time, neighbour: Adjacency) {
        for id in self.ids().collect::<Vec<_>>() {
            self.with(id, |session| session.paths_mut().probe_new_ones(now, neighbour));
        }
    }

    /// A neighbour asks whether we are where our packets come from.
    pub(super) fn neighbour_seeks_us(&mut self, neighbour: Adjacency) {
        for id in self.ids().collect::<Vec<_>>() {
            self.with(id, |session| session.paths_mut().neighbour_seeks_us(neighbour));
        }
    }

    /// It is known now where a neighbour is that has moved.
    pub(super) fn neighbour_found(&mut self, now: Time, neighbour: Adjacency) {
        for (id, session) in &mut self.by_id {
            self.alarms.touch(*id);
            session.paths_mut().neighbour_found(now, neighbour, &mut self.bottlenecks);
        }
        self.share_limits(now);
    }

    /// The overlay has changed, and with it which links the paths cross.
    pub(super) fn recount_links(&mut self, overlay: &Overlay) {
        for (id, session) in &mut self.by_id {
            self.alarms.touch(*id);
            session.paths_mut().recount_links(overlay);
        }
    }

    /// The circuits whose paths have been dead for so long that they are of no use.
    pub(super) fn hopeless(&self, now: Time) -> Vec<Hopeless> {
        // Each session is asked once; hardly any has such a path, and only then are the circuits looked at.
        let hopeless: BTreeSet<(SessionId, PathId)> = self
            .by_id
            .iter()
            .flat_map(|(id, session)| {
                let patience = if session.is_initiator() { HOPELESS } else { HOPELESS_AT_RESPONDER };
                session.paths().hopeless(now, patience).into_iter().map(|path| (*id, path))
            })
            .collect();
        if hopeless.is_empty() {
            return Vec::new();
        }
        let carriers = self.carried.iter().filter(|(_, carried)| hopeless.contains(carried));
        let are_silent = |session: &SessionId| {
            let session = self.by_id.get(session);
            session
                .is_some_and(|session| session.paths().are_silent(now, self.config.liveness.session_silence))
        };
        let hopeless = |(circuit, (session, _)): (&CircuitId, &(SessionId, PathId))| Hopeless {
            circuit: *circuit,
            is_one_of_all: are_silent(session),
        };
        carriers.map(hopeless).collect()
    }

    /// What a path of a session tells of its links.
    pub(super) fn health(&self, now: Time, session: SessionId, path: PathId) -> Health {
        let (routing, liveness) = (&self.config.routing, &self.config.liveness);
        let state = self.by_id.get(&session).and_then(|session| session.paths().state(path));
        let Some((state, last_heard)) = state else { return Health::Unknown };
        let silence = now.since(last_heard);
        match state {
            // Two probes have brought no reply. If all paths are like this no report can tell that they are dead, and
            // the session has a few seconds left.
            PathState::Live if silence >= liveness.keep_alive + 2 * liveness.probe_interval => Health::Dead,
            PathState::Live => Health::Live,
            PathState::Dead { since } if now.since(since) >= routing.replan_after => Health::Dead,
            PathState::Unconfirmed if silence >= routing.set_up_timeout => Health::Dead,
            PathState::Dead { .. } | PathState::Unconfirmed => Health::Unknown,
        }
    }

    // --- how sessions begin ------------------------------------------------------------------------------------

    /// The first message of a new session, and what its answer is read with.
    pub(super) fn open(&mut self, overlay: &Overlay, attempt: &Attempt) -> (SetUpPayload, (Initiator, u64)) {
        let token = self.random.u64();
        let opening = Opening {
            token,
            instance: self.me.instance.0,
            path: attempt.path.0,
            share: Share::from_fraction(attempt.planned.share),
            window: self.config.limits.initial_window,
            streams: self.config.limits.streams,
        };
        let responder = overlay.member(attempt.member).keys.x25519;
        let random = self.random.fork();
        let (initiator, message) =
            Initiator::start(&self.identity, &responder, &opening.emit(), random, Occasion::Opening);
        (SetUpPayload::Handshake(message), (initiator, token))
    }

    /// The message with which a further circuit joins a session that we opened.
    pub(super) fn join(&self, attempt: &Attempt) -> Option<SetUpPayload> {
        let session = self.by_id.get(&attempt.session)?;
        let (token, path) = (session.name().token, attempt.path.0);
        let share = wire::emit_join(Share::from_fraction(attempt.planned.share));
        let sealed = session.join_key().seal_message(path.into(), &token.to_be_bytes(), &share);
        Some(SetUpPayload::Join { token, path, sealed })
    }

    /// The answer to what [`open`](Self::open) gave has come: the session begins.
    pub(super) fn begin(
        &mut self,
        now: Time,
        overlay: &Overlay,
        (id, member): (SessionId, MemberId),
        (initiator, token): (Initiator, u64),
        payload: &[u8],
    ) -> Result<(), &'static str> {
        let failed = "its answer to the handshake does not open";
        let (payload, keys) = initiator.finish(payload).map_err(|_| failed)?;
        let welcome = Welcome::parse(&payload).map_err(|_| failed)?;
        let peer = Peer { member, instance: InstanceId(welcome.instance) };
        let peer_limits = PeerLimits { initial_window: welcome.window, streams: welcome.streams };
        let name = Name { id, token, peer, role: Role::Initiator };
        self.insert(now, overlay, name, keys, peer_limits);
        Ok(())
    }

    /// A peer opens a session or joins one with a circuit.
    pub(super) fn answer(
        &mut self,
        now: Time,
        overlay: &Overlay,
        originator: MemberId,
        payload: &[u8],
    ) -> Result<Acceptance, Declined> {
        match SetUpPayload::parse(payload).map_err(|_| "malformed payload")? {
            SetUpPayload::Handshake(message) => self.on_handshake(now, overlay, originator, &message),
            SetUpPayload::Join { token, path, sealed } => {
                self.on_join(originator, token, PathId(path), &sealed)
            }
        }
    }

    fn on_handshake(
        &mut self,
        now: Time,
        overlay: &Overlay,
        originator: MemberId,
        message: &[u8],
    ) -> Result<Acceptance, Declined> {
        if self.is_draining {
            return Err("it is shutting down".into());
        }
        let of_originator = self.by_token.range((originator, 0)..=(originator, u64::MAX)).count();
        if !has_place(self.config.limits.sessions, self.by_id.len(), of_originator) {
            return Err("too many sessions are open here".into());
        }
        let random = self.random.fork();
        let responder = Responder::read(&self.identity, message, random, Occasion::Opening).map_err(
            |_| "the handshake is made for another x25519 key than it has: the overlay files differ",
        )?;
        if responder.initiator != overlay.member(originator).keys.x25519 {
            return Err("the handshake is not the originator's".into());
        }
        let opening = Opening::parse(&responder.payload).map_err(|_| "malformed handshake")?;
        let Opening { token, share, path, .. } = opening;
        if self.by_token.contains_key(&(originator, token)) {
            return Err("this session was opened before".into());
        }
        let limits = &self.config.limits;
        let welcome =
            Welcome { instance: self.me.instance.0, window: limits.initial_window, streams: limits.streams };
        let (answer, keys) = responder.finish(&welcome.emit());
        let session = self.draw_id();
        let peer = Peer { member: originator, instance: InstanceId(opening.instance) };
        let peer_limits = PeerLimits { initial_window: opening.window, streams: opening.streams };
        let name = Name { id: session, token, peer, role: Role::Responder };
        self.insert(now, overlay, name, keys, peer_limits);
        self.by_token.insert((originator, token), session);
        Ok(Acceptance { session, path: PathId(path), share, answer })
    }

    fn on_join(
        &self,
        originator: MemberId,
        token: u64,
        path: PathId,
        sealed: &[u8],
    ) -> Result<Acceptance, Declined> {
        let unknown = Declined { cause: Cause::NoSession, reason: "there is no such session here" };
        let session = *self.by_token.get(&(originator, token)).ok_or(unknown)?;
        let joined = self.by_id.get(&session).filter(|session| !session.is_over());
        let join_key = joined.ok_or(unknown)?.join_key();
        let opened = join_key.open_message(path.0.into(), &token.to_be_bytes(), sealed);
        let share = opened.map_err(|_| "the request to join does not open")?;
        let share = wire::parse_join(&share).map_err(|_| "malformed request to join")?;
        Ok(Acceptance { session, path, share, answer: Vec::new() })
    }

    fn insert(
        &mut self,
        now: Time,
        overlay: &Overlay,
        name: Name,
        keys: SessionKeys,
        peer_limits: PeerLimits,
    ) {
        let Name { id, peer, role, .. } = name;
        let (random, identity) = (self.random.fork(), Arc::clone(&self.identity));
        let peer_key = overlay.member(peer.member).keys.x25519;
        let member = overlay.name(peer.member);
        let span =
            tracing::info_span!("session", id = id.0, peer = member, incoming = role == Role::Responder);
        let (pool, send_pool) = (self.window_pool.clone(), self.send_pool.clone());
        let intake = self.intake.clone();
        let set_up = SessionSetUp {
            name,
            keys,
            identity,
            peer_key,
            peer_limits,
            random,
            span,
            pool,
            send_pool,
            intake,
        };
        self.by_id.insert(id, Box::new(Session::new(set_up, Arc::clone(&self.config), now)));
        self.alarms.touch(id);
    }
}
