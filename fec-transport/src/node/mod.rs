//! A node: one process of one member, as a state machine.
//!
//! It gets the time, control messages and datagrams, and gives back what to send, when to be woken, and what happened.
//! Each part owns its state: `Neighbours` knows which processes are connected, `Circuits` what is forwarded, `Dialler`
//! the routes of the sessions that we open, and `Sessions` the sessions with their streams. The node passes news
//! between them and holds no protocol of its own: what its drivers call stands here, how the parts meet in `paths.rs`.
//!
//! ```text
//!            handle_control / poll_control        handle_datagram / poll_transmit
//!                       │                                     │
//!   Neighbours ◀────────┴──────────▶ Circuits ◀──────── data plane ───────▶ Sessions
//!                                        ▲                                     ▲
//!                                        └────── paths.rs ◀── Dialler ─────────┘
//! ```

mod alarms;
mod paths;
mod relayed;
mod sessions;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::circuit::{CircuitCounters, CircuitStatus, Circuits, DatagramCounters, Verdict};
use crate::config::{Config, ConfigError};
use crate::crypto::random::{Random, Randomness};
use crate::event::{CloseReason, ConnectError, Event, SessionId, StreamError, StreamId};
use crate::keys::Identity;
use crate::neighbour::{NeighbourStatus, Neighbours, Unreached};
use crate::overlay::{
    Adjacency, InstanceId, LinkId, MemberId, Overlay, OverlayChange, Peer, SuccessionError,
};
use crate::routes::dialler::Dialler;
use crate::routes::job::{Plan, PlanJob, Purpose};
use crate::routes::plan::is_reachable;
use crate::session::{Class, Job, JobResult, Read, Session};
use crate::shares::has_place;
use crate::time::Time;
use crate::transmit::{Ecn, Transmit};
use crate::wire::control_type;
use relayed::Relayed;
use sessions::Sessions;

pub use crate::session::SessionStatus;

/// What [`Node::handle_datagram`] tells the socket's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ingress {
    /// Taken, or dropped and counted.
    Consumed,
    /// It was a valid greeting of this neighbour. Where it came from is where the neighbour says that it is, and may be
    /// anybody's address: it is [challenged](Node::challenge), unless it is known already, or the overlay file fixes
    /// one; then the greeting is [confirmed](Node::confirm_greeting).
    Greeted(Adjacency),
    /// It was taken or dropped, and it is a packet of this neighbour, newer than all before it along its circuit. If it
    /// comes from another address than the one that is known, the neighbour may have moved, or a translator between has
    /// changed its port: it is [challenged](Node::challenge) there.
    Heard(Adjacency),
}

/// A node; see the [module](self).
#[derive(Debug)]
pub struct Node {
    overlay: Arc<Overlay>,
    config: Arc<Config>,
    me: Peer,
    /// The latest time that the node was told.
    now: Time,
    neighbours: Neighbours,
    circuits: Circuits,
    dialler: Dialler,
    sessions: Sessions,
    /// When the paths were looked at last.
    watched: Time,
    /// Datagrams of others that wait for the socket.
    relayed: Relayed,
    /// Whether what is relayed went first the last time.
    relays_next: bool,
}

impl Node {
    /// A node of `member`, whose secret is `identity`. All of its random choices come from `random`.
    ///
    /// # Errors
    /// [`ConfigError`] if a value of the config is out of its range.
    pub fn new(
        overlay: Arc<Overlay>,
        identity: Identity,
        member: MemberId,
        instance: InstanceId,
        config: Config,
        random: Randomness,
        now: Time,
    ) -> Result<Node, ConfigError> {
        config.validate()?;
        let (config, me) = (Arc::new(config), Peer { member, instance });
        let mut random = Random::from(random);
        Ok(Node {
            circuits: Circuits::new(Arc::clone(&overlay), Arc::clone(&config), member, random.fork()),
            dialler: Dialler::default(),
            neighbours: Neighbours::default(),
            sessions: Sessions::new(me, Arc::new(identity), Arc::clone(&config), random),
            relayed: Relayed::new(config.limits.relay_memory),
            relays_next: false,
            overlay,
            config,
            me,
            now,
            watched: now,
        })
    }

    /// The overlay that it is a member of.
    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// The same, to be kept.
    pub fn shared_overlay(&self) -> Arc<Overlay> {
        Arc::clone(&self.overlay)
    }

    /// Its limits and policies.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The latest time that it was told.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Whether it takes nothing new.
    pub fn is_draining(&self) -> bool {
        self.sessions.is_draining()
    }

    /// Which member it is.
    pub fn member(&self) -> MemberId {
        self.me.member
    }

    // --- control plane -----------------------------------------------------------------------------------------

    /// A control connection to a process of a neighbour is up, over this link; its identity is proven.
    pub fn neighbour_up(&mut self, now: Time, neighbour: Adjacency) {
        self.now = now;
        let member = neighbour.peer.member;
        if !self.overlay.joins(neighbour.link, self.me.member, member) {
            return;
        }
        let is_known = self.neighbours.greets_with(neighbour).is_some();
        let (all, of_member) = (self.neighbours.count(), self.neighbours.count_of(member));
        if !is_known && !has_place(self.config.limits.neighbours, all, of_member) {
            tracing::warn!(member = %self.overlay.name(member), "too many neighbours are connected");
            return;
        }
        let gone = self.neighbours.up(now, &self.overlay, neighbour);
        self.give_up(&gone);
        self.offer_greeting(neighbour);
        self.handle_circuit_events();
        self.dialler.hurry(now, neighbour.link);
        self.handle_dialler_timeout();
    }

    /// The control connection to a process of a neighbour broke over this link.
    pub fn neighbour_down(&mut self, now: Time, neighbour: Adjacency) {
        self.now = now;
        self.neighbours.down(now, neighbour);
    }

    /// No control connection could be made over this link. A session that is given up because no path to its peer
    /// answers tells so; where all neighbours refuse a key it is given up at once.
    pub fn neighbour_unreached(&mut self, link: LinkId, why: Unreached) {
        if self.overlay.links_of(self.me.member).any(|(other, _)| other == link) {
            self.neighbours.note_unreached(link, why);
            self.give_up_unwelcome();
        }
    }

    /// Takes a control message of a neighbour. One that is malformed is dropped: it can only be a fault of the
    /// neighbour's, and what it was about times out. A message from a process that is not [up](Self::neighbour_up) is
    /// dropped, too.
    pub fn handle_control(&mut self, now: Time, from: Adjacency, message: &[u8]) {
        self.now = now;
        if !self.neighbours.is_up(from) {
            return;
        }
        if let Err(malformed) = self.take_control(from, message)
            && let Some(so_far) = self.neighbours.note_malformed()
        {
            let from = self.overlay.name(from.peer.member);
            tracing::warn!(%from, %malformed, so_far, "control message dropped");
        }
        self.handle_circuit_events();
    }

    /// The next control message to send, and to whom.
    pub fn poll_control(&mut self) -> Option<(Adjacency, Vec<u8>)> {
        while let Some((to, message)) = self.circuits.poll_message() {
            self.neighbours.send(to, message.emit());
        }
        self.neighbours.poll_message()
    }

    // --- data plane --------------------------------------------------------------------------------------------

    /// Takes a datagram that arrived on the data socket without a mark; it may be changed in place.
    ///
    /// Nothing is ever answered on account of a datagram alone: what carries no right hop tag is dropped and counted.
    pub fn handle_datagram(&mut self, now: Time, datagram: &mut [u8]) -> Ingress {
        let (ingress, onward) = self.take(now, datagram);
        self.relay(onward, Ecn::default(), datagram.len(), datagram, &mut |_, _| false);
        self.settle_arrivals();
        ingress
    }

    /// Takes datagrams that arrived together: each has `stride` bytes, the last one may be shorter, and all bear one
    /// mark. They may be changed in place. Gives what is to be known of them, without what is
    /// [consumed](Ingress::Consumed).
    ///
    /// Those that follow one another to one neighbour are offered to `pass` where they lie, if they are long enough for
    /// a call of the socket and nothing waits that must go first. It says whether it has sent them; if not, they wait
    /// for [`poll_transmit`](Self::poll_transmit).
    pub fn handle_run(
        &mut self,
        now: Time,
        ecn: Ecn,
        stride: usize,
        datagrams: &mut [u8],
        mut pass: impl FnMut(Transmit, &[u8]) -> bool,
    ) -> Vec<Ingress> {
        let (mut told, mut onward, mut begin) = (Vec::new(), None, 0);
        for place in (0..datagrams.len()).step_by(stride.max(1)) {
            let end = datagrams.len().min(place + stride);
            let (ingress, next) = self.take(now, &mut datagrams[place..end]);
            if ingress != Ingress::Consumed && told.last() != Some(&ingress) {
                told.push(ingress);
            }
            if next != onward {
                self.relay(onward, ecn, stride, &datagrams[begin..place], &mut pass);
                (onward, begin) = (next, place);
            }
        }
        self.relay(onward, ecn, stride, &datagrams[begin..], &mut pass);
        self.settle_arrivals();
        told
    }

    /// Takes a datagram. If it is to be relayed, gives the neighbour that it goes to, and the member on whose account
    /// it is sent.
    fn take(&mut self, now: Time, datagram: &mut [u8]) -> (Ingress, Option<(Adjacency, MemberId)>) {
        self.now = now;
        if let Some(neighbour) = self.neighbours.on_challenge(datagram) {
            self.sessions.neighbour_seeks_us(neighbour);
            return (Ingress::Consumed, None);
        }
        let verdict = self.circuits.labels_mut().decide(now, datagram);
        let heard = self.circuits.labels().heard().map_or(Ingress::Consumed, Ingress::Heard);
        match verdict {
            Verdict::Forward { to, originator } => return (heard, Some((to, originator))),
            Verdict::Deliver(circuit, header) => {
                self.sessions.on_datagram(now, circuit, &header, datagram);
            }
            Verdict::Greeted(neighbour) => return (Ingress::Greeted(neighbour), None),
            Verdict::Drop(_) => {}
        }
        (heard, None)
    }

    /// Lets the sessions draw the conclusions from what [`take`](Self::take) has brought them.
    fn settle_arrivals(&mut self) {
        self.sessions.settle_arrivals(self.now);
        self.bury_sessions();
    }

    /// Passes on what [`take`](Self::take) has found to be relayed, or puts it into the queue.
    fn relay(
        &mut self,
        onward: Option<(Adjacency, MemberId)>,
        ecn: Ecn,
        segment_size: usize,
        datagrams: &[u8],
        pass: &mut impl FnMut(Transmit, &[u8]) -> bool,
    ) {
        if let Some((to, originator)) = onward {
            let transmit = Transmit { to, segment_size, ecn };
            let without_room = self.relayed.add(originator, transmit, datagrams, pass);
            self.circuits.labels_mut().note_full_queue(without_room);
        }
    }

    /// Appends a challenge of 24 bytes to `datagram`, as many as a greeting has, to be sent to the address from which
    /// `neighbour` has greeted, and gives its number. The address is the neighbour's once
    /// [`poll_challenge_answer`](Self::poll_challenge_answer) gives that number. Gives `None` if it does not greet us.
    pub fn challenge(&mut self, neighbour: Adjacency, datagram: &mut Vec<u8>) -> Option<u64> {
        let label = self.neighbours.greets_with(neighbour)?;
        self.circuits.labels_mut().challenge(label, datagram)
    }

    /// The next number of a challenge that a neighbour has answered; called until it gives nothing.
    pub fn poll_challenge_answer(&mut self) -> Option<(Adjacency, u64)> {
        self.neighbours.poll_answer()
    }

    /// Tells a neighbour that it is known where it is; until then it greets us again and again.
    pub fn confirm_greeting(&mut self, neighbour: Adjacency) {
        self.neighbours.send(neighbour, vec![control_type::GREETED]);
    }

    /// A neighbour is at another address than before: it has answered a challenge there. Paths through it go on at
    /// once.
    pub fn neighbour_found(&mut self, neighbour: Adjacency) {
        self.sessions.neighbour_found(self.now, neighbour);
    }

    /// Writes the next datagrams into `buffer`, which is empty, and tells to whom they go; `None` when nothing is due.
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        self.now = now;
        // A flood of what others send must not keep this node's own sessions from sending.
        self.relays_next = !self.relays_next;
        if self.relays_next {
            return self.relayed.pop(buffer).or_else(|| self.poll_own(now, buffer));
        }
        self.poll_own(now, buffer).or_else(|| self.relayed.pop(buffer))
    }

    /// The next greeting, or the next run of this node's own sessions.
    fn poll_own(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        if let Some(to) = self.neighbours.poll_greeting(now, buffer) {
            return Some(Transmit::unmarked(to, buffer.len()));
        }
        let transmit = self.sessions.poll_transmit(now, buffer);
        self.bury_sessions();
        transmit
    }

    // --- time --------------------------------------------------------------------------------------------------

    /// When to call [`handle_timeout`](Self::handle_timeout), and then to poll everything; at once if it is not later
    /// than the time that the node was told last.
    pub fn next_timeout(&mut self) -> Option<Time> {
        let relayed = (!self.relayed.is_empty()).then_some(self.now);
        let neighbours = self.neighbours.next_timeout(self.config.routing.neighbour_patience);
        let sessions = self.sessions.next_timeout(self.now);
        let all = [sessions, relayed, neighbours, self.circuits.next_timeout(), self.dialler.next_timeout()];
        all.into_iter().flatten().min()
    }

    /// At `now` the system's clock shows so much since the UNIX epoch: set-ups of circuits bear its time, and other
    /// members compare it with theirs. Without it the node's own time counts.
    pub fn set_calendar(&mut self, now: Time, since_epoch: Duration) {
        self.circuits.set_calendar(now, since_epoch);
    }

    /// The sockets that packets come in by hold so many bytes of them while nobody reads there: peers are told what
    /// their part is, and have no more on the way. Without this they are told nothing, and have 4 MiB.
    pub fn set_intake(&mut self, bytes: u64) {
        self.sessions.set_intake(bytes);
    }

    /// Acts on all timers that have run out.
    pub fn handle_timeout(&mut self, now: Time) {
        self.now = now;
        let gone = self.neighbours.forget(now, self.config.routing.neighbour_patience);
        self.give_up(&gone);
        self.circuits.handle_timeout(now);
        self.handle_circuit_events();
        if self.handle_dialler_timeout() {
            // Whoever drives the node computes the plans first; all other timers are due at once.
            return;
        }
        self.sessions.handle_timeout(now);
        self.bury_sessions();
    }

    /// What happened; called until it gives nothing. What a session has received can be read until its
    /// [`Event::SessionClosed`] is given.
    pub fn poll_event(&mut self) -> Option<Event> {
        let event = self.sessions.poll_event();
        self.bury_sessions();
        event
    }

    // --- work for other threads --------------------------------------------------------------------------------

    /// The next piece of work on codes. Whoever drives the node runs it, on any thread, and gives the result to
    /// [`handle_job`](Self::handle_job); until then its block waits. Called until it gives nothing.
    pub fn poll_job(&mut self) -> Option<Job> {
        self.sessions.poll_job()
    }

    /// Takes the result of a job.
    pub fn handle_job(&mut self, now: Time, result: JobResult) {
        self.now = now;
        self.sessions.on_job_done(now, result);
        self.bury_sessions();
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
                self.give_up_opening(session, CloseReason::no_path(self.config.liveness.connect));
            }
            Purpose::Open => {
                self.dialler.add_planned(now, session, routes);
                self.give_up_unwelcome();
            }
            Purpose::Reload => self.follow_plan(session, routes),
            Purpose::Detour(_) => self.take_detours(session, &routes),
        }
        self.handle_dialler_timeout();
    }

    // --- sessions ----------------------------------------------------------------------------------------------

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
        // Of one that still says goodbye the application has heard the last.
        let goes_on = |session| self.dialler.is_opening(session) || self.sessions.goes_on(session);
        let known = self.dialler.sessions_to(member).find(|session| goes_on(*session));
        if let Some(session) = known {
            return Ok(session);
        }
        let open = self.sessions.count() + self.dialler.opening().count();
        if open >= self.config.limits.sessions {
            return Err(ConnectError::TooMany(open));
        }
        if !is_reachable(&self.overlay, self.me.member, member, &self.config) {
            let name = |member| self.overlay.name(member);
            return Err(ConnectError::NoPath { from: name(self.me.member), to: name(member) });
        }
        let session = self.sessions.draw_id();
        self.dialler.open(now, session, member, &self.config.liveness);
        self.ask_for_plan(session, Purpose::Open);
        Ok(session)
    }

    /// Ends a session; the peer is told `reason`. [`Event::SessionClosed`] follows.
    pub fn close(&mut self, now: Time, session: SessionId, reason: &str) {
        self.now = now;
        match self.dialler.is_opening(session) {
            true => self.give_up_opening(session, CloseReason::Local),
            false => drop(self.with_session(session, |session| session.close(reason))),
        }
    }

    /// Ends all sessions, those too that are still being opened; the peers are told `reason`.
    pub fn close_all(&mut self, now: Time, reason: &str) {
        let all: Vec<SessionId> = self.sessions().chain(self.dialler.opening()).collect();
        all.into_iter().for_each(|session| self.close(now, session, reason));
    }

    /// Takes nothing new from now on: peers can open no sessions here, and no circuits through this node. Circuits that
    /// it relays are torn down with a notice that lets their originators go around it at once. Sessions that are open
    /// go on, with all their streams, until somebody [closes](Self::close) them.
    pub fn drain(&mut self, now: Time) {
        self.now = now;
        self.sessions.drain();
        self.circuits.drain();
    }

    /// Goes on with a newer overlay file, whose signature the caller has checked.
    ///
    /// Members that are not listed any more lose their sessions, circuits and control connections at once, and so do
    /// circuits over links that are not listed, or through members that do not relay for their originator any more.
    /// Sessions and circuits of others stay. The sessions that this node opened are planned anew: their new routes are
    /// set up before the old ones are given up.
    ///
    /// # Errors
    /// [`SuccessionError`] if the serial has not risen, or the file does not list this member with the keys that it
    /// has; then nothing changes.
    pub fn reload(&mut self, now: Time, newer: &Overlay) -> Result<OverlayChange, SuccessionError> {
        self.now = now;
        let merged = self.overlay.succeeded_by(newer)?;
        if !merged.contains(self.me.member) {
            return Err(SuccessionError::NotListed(self.overlay.name(self.me.member)));
        }
        let change = self.overlay.change_to(&merged);
        self.overlay = Arc::new(merged);
        let is_revoked = |session: &&Session| !self.overlay.contains(session.name().peer.member);
        let revoked = self.sessions.iter().filter(is_revoked).map(|session| session.name().id);
        let revoked: Vec<SessionId> = revoked.collect();
        revoked.into_iter().for_each(|session| self.revoke(session));
        self.replan_sessions();
        self.circuits.succeed(Arc::clone(&self.overlay));
        self.handle_circuit_events();
        let overlay = &self.overlay;
        let gone = self.neighbours.revoke(|link| overlay.contains_link(link));
        self.give_up(&gone);
        self.handle_circuit_events();
        self.sessions.recount_links(&self.overlay);
        self.handle_dialler_timeout();
        Ok(change)
    }

    // --- streams -----------------------------------------------------------------------------------------------

    /// Opens a stream on an open session.
    ///
    /// # Errors
    /// [`StreamError::NoSession`], [`StreamError::NotOpen`], [`StreamError::TooMany`].
    pub fn open_stream(&mut self, session: SessionId) -> Result<StreamId, StreamError> {
        if self.dialler.is_opening(session) {
            return Err(StreamError::NotOpen);
        }
        self.with_session(session, Session::open_stream).unwrap_or(Err(StreamError::NoSession))
    }

    /// Takes as much of `data` as the stream's buffer has room for and says how much. After less than all of it,
    /// [`Event::Writable`] follows.
    ///
    /// # Errors
    /// [`StreamError::NoSession`], [`StreamError::NoStream`], [`StreamError::Finished`].
    pub fn write(&mut self, now: Time, stream: StreamId, data: &[u8]) -> Result<usize, StreamError> {
        self.on_stream(now, stream, |session| session.streams().write(now, stream.number, data))
    }

    /// The same without a copy: what is taken is kept until the peer has it.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn write_bytes(&mut self, now: Time, stream: StreamId, data: &Bytes) -> Result<usize, StreamError> {
        self.on_stream(now, stream, |session| session.streams().write_bytes(now, stream.number, data))
    }

    /// Says what our direction of a stream is for, from its next block on. Streams begin as [`Class::Bulk`].
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn set_class(&mut self, now: Time, stream: StreamId, class: Class) -> Result<(), StreamError> {
        self.on_stream(now, stream, |session| session.streams().set_class(stream.number, class))
    }

    /// Sends what was written without waiting for a full block.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn flush(&mut self, now: Time, stream: StreamId) -> Result<(), StreamError> {
        self.on_stream(now, stream, |session| session.streams().flush(stream.number))
    }

    /// Ends our direction after what was written, and sends it.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub fn finish(&mut self, now: Time, stream: StreamId) -> Result<(), StreamError> {
        self.on_stream(now, stream, |session| session.streams().finish(stream.number))
    }

    /// Gives up both directions of a stream; the peer is told `code`.
    pub fn reset(&mut self, now: Time, stream: StreamId, code: u32) {
        self.with_session(stream.session, |session| session.streams().reset(now, stream.number, code));
    }

    /// The next bytes of a stream in order, at most `max`.
    ///
    /// # Errors
    /// [`StreamError::NoSession`], [`StreamError::NoStream`].
    pub fn read(&mut self, now: Time, stream: StreamId, max: usize) -> Result<Read, StreamError> {
        self.on_stream(now, stream, |session| session.streams().read(now, stream.number, max))
    }

    /// Any block of a stream that has been decoded, with its offset. A stream is read either in order or by blocks.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_block(&mut self, now: Time, stream: StreamId) -> Result<Read, StreamError> {
        self.on_stream(now, stream, |session| session.streams().read_block(now, stream.number))
    }

    fn on_stream<T>(
        &mut self,
        now: Time,
        stream: StreamId,
        act: impl FnOnce(&mut Session) -> Result<T, StreamError>,
    ) -> Result<T, StreamError> {
        self.now = now;
        self.with_session(stream.session, act).unwrap_or(Err(StreamError::NoSession))
    }

    // --- what it looks like from outside -----------------------------------------------------------------------

    /// The sessions that are open.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.sessions.ids()
    }

    /// What a session looks like.
    pub fn session_status(&self, session: SessionId) -> Option<SessionStatus> {
        self.sessions.get(session).map(Session::status)
    }

    /// The peer at the other end of a session.
    pub fn peer(&self, session: SessionId) -> Option<Peer> {
        self.sessions.get(session).map(|session| session.name().peer)
    }

    /// The sessions with streams that are open in either direction.
    pub fn busy_sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.sessions.iter().filter(|session| session.stream_count() > 0).map(|session| session.name().id)
    }

    /// What became of the datagrams that arrived.
    pub fn datagram_counters(&self) -> DatagramCounters {
        self.circuits.labels().counters()
    }

    /// What became of circuits.
    pub fn circuit_counters(&self) -> CircuitCounters {
        self.circuits.counters()
    }

    /// How many circuits and labels the node keeps.
    pub fn table_sizes(&self) -> (usize, usize) {
        (self.circuits.len(), self.circuits.labels().len())
    }

    /// The circuits that this node knows: its own, those that it relays, and those that end here.
    pub fn circuits(&self) -> impl Iterator<Item = CircuitStatus> + '_ {
        self.circuits.statuses()
    }

    /// The neighbours' processes that are connected or were lately: whether, and since when.
    pub fn neighbours(&self) -> impl Iterator<Item = NeighbourStatus> + '_ {
        self.neighbours.statuses()
    }

    /// Control messages of neighbours that were malformed.
    pub fn malformed_control(&self) -> u64 {
        self.neighbours.malformed()
    }

    /// How many neighbours' processes are connected or were lately.
    pub fn neighbour_count(&self) -> usize {
        self.neighbours.count()
    }
}
