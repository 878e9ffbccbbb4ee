//! A node: one process of one member, as a state machine.
//!
//! It gets the time, control messages and datagrams, and gives back what to send, when to be woken, and what happened.
//! Each part owns its state: `Neighbours` knows which processes are connected, `Circuits` what is forwarded, `Dialler`
//! the routes of the sessions that we open, and `Session` its streams. The node passes news between them and holds no
//! protocol of its own.
//!
//! ```text
//!            handle_control / poll_control        handle_datagram / poll_transmit
//!                       │                                     │
//!   Neighbours ◀──── control.rs ────▶ Circuits ◀──────── data plane ────────▶ Session …
//!                       │                 ▲                                      ▲
//!                       └──▶ sessions.rs ─┴──────────── Dialler ─────────────────┘
//! ```

mod control;
mod drain;
mod relayed;
mod reload;
mod sessions;
mod status;
mod streams;
mod watch;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use crate::circuit::{Circuits, Verdict};
use crate::config::{Config, ConfigError};
use crate::crypto::random::Random;
use crate::event::{Event, SessionId};
use crate::keys::Identity;
use crate::neighbour::Neighbours;
use crate::overlay::{InstanceId, MemberId, Overlay, Peer};
use crate::routes::dialler::Dialler;
use crate::run::{Ecn, Run, Transmit};
use crate::session::{Bottlenecks, Job, JobResult, PathId, Session, SharedPool};
use crate::time::Time;
use crate::wire::circuit::CircuitId;
use relayed::Relayed;

pub use crate::session::SessionStatus;

/// What [`Node::handle_datagram`] tells the socket's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ingress {
    /// Taken, or dropped and counted.
    Consumed,
    /// It was a valid greeting of this neighbour: from now on it is reached at the address that the datagram came from,
    /// unless the overlay file fixes one.
    Greeted(Peer),
}

/// A node; see the [module](self).
#[derive(Debug)]
pub struct Node {
    overlay: Arc<Overlay>,
    config: Arc<Config>,
    identity: Arc<Identity>,
    me: Peer,
    /// The latest time that the node was told.
    now: Time,
    /// The headers of a run that is being completed; empty between two runs.
    headers: Vec<u8>,
    /// When the paths were looked at last.
    watched: Time,
    random: Random,
    neighbours: Neighbours,
    circuits: Circuits,
    dialler: Dialler,
    sessions: BTreeMap<SessionId, Session>,
    /// Which path of which session a circuit that ends here carries.
    carried: BTreeMap<CircuitId, (SessionId, PathId)>,
    /// Sessions that peers opened, by the member that opened them and the token that it gave.
    by_token: BTreeMap<(MemberId, u64), SessionId>,
    next_session: u64,
    control_out: VecDeque<(Peer, Vec<u8>)>,
    /// Datagrams of others that wait for the socket.
    relayed: Relayed,
    events: VecDeque<Event>,
    /// The session whose turn it is to send.
    turn: SessionId,
    malformed_control: u64,
    window_pool: SharedPool,
    /// The links that the paths of all sessions cross.
    bottlenecks: Bottlenecks,
    /// Whether the process is to end soon.
    is_draining: bool,
}

impl Node {
    /// A node of `member`, whose secret is `identity`. `seed` decides all of its random choices.
    ///
    /// # Errors
    /// [`ConfigError`] if a value of the config is out of its range.
    pub fn new(
        overlay: Arc<Overlay>,
        identity: Identity,
        member: MemberId,
        instance: InstanceId,
        config: Config,
        seed: [u8; 32],
        now: Time,
    ) -> Result<Node, ConfigError> {
        config.validate()?;
        let mut random = Random::from_seed(seed);
        let window_pool = SharedPool::new(config.limits.node_receive_memory);
        let config = Arc::new(config);
        Ok(Node {
            circuits: Circuits::new(Arc::clone(&overlay), Arc::clone(&config), member, random.fork()),
            dialler: Dialler::default(),
            neighbours: Neighbours::default(),
            relayed: Relayed::new(config.limits.relay_queue),
            overlay,
            config,
            identity: Arc::new(identity),
            me: Peer { member, instance },
            now,
            headers: Vec::new(),
            watched: now,
            random,
            sessions: BTreeMap::new(),
            carried: BTreeMap::new(),
            by_token: BTreeMap::new(),
            next_session: 0,
            control_out: VecDeque::new(),
            events: VecDeque::new(),
            turn: SessionId(0),
            malformed_control: 0,
            window_pool,
            bottlenecks: Bottlenecks::default(),
            is_draining: false,
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
        self.is_draining
    }

    /// Which member it is.
    pub fn member(&self) -> MemberId {
        self.me.member
    }

    // --- data plane ---------------------------------------------------------------------------------------------

    /// Takes a datagram that arrived on the data socket; it may be changed in place.
    ///
    /// Nothing is ever answered on account of a datagram alone: what carries no right hop tag is dropped and counted.
    pub fn handle_datagram(&mut self, now: Time, datagram: &mut [u8]) -> Ingress {
        self.handle_marked_datagram(now, Ecn::default(), datagram)
    }

    /// The same for a datagram that bears a mark.
    pub fn handle_marked_datagram(&mut self, now: Time, ecn: Ecn, datagram: &mut [u8]) -> Ingress {
        self.now = now;
        match self.circuits.labels_mut().decide(now, datagram) {
            Verdict::Forward(next) => {
                if !self.relayed.push(next, ecn, datagram) {
                    self.circuits.labels_mut().note_full_queue();
                }
            }
            Verdict::Deliver(circuit, header) => {
                if let Some((session, path)) = self.carried.get(&circuit).copied() {
                    if let Some(session) = self.sessions.get_mut(&session) {
                        session.on_datagram(now, path, &header, datagram, &mut self.bottlenecks);
                    }
                    self.settle(session);
                    self.pass_news_on();
                }
            }
            Verdict::Greeted(peer) => {
                self.confirm_greeting(peer);
                return Ingress::Greeted(peer);
            }
            Verdict::Drop(_) => {}
        }
        Ingress::Consumed
    }

    /// Lets the sessions over common links follow what has happened there.
    fn pass_news_on(&mut self) {
        while let Some(news) = self.bottlenecks.poll_news() {
            let concerned = self.bottlenecks.concerned_by(&news);
            let sessions = self.sessions.iter_mut().filter(|(id, _)| concerned.contains(id));
            let mut paths: Vec<_> = sessions.map(|(_, session)| session.paths_mut().coupled()).collect();
            news.tell(self.now, &mut paths);
        }
    }

    /// Writes the next datagrams into `buffer`, which is empty, and tells to whom they go; `None` when nothing is due.
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        let Run { transmit, seal } = self.poll_run(now, buffer)?;
        if let Some(seal) = seal {
            std::mem::swap(buffer, &mut self.headers);
            seal.complete(&self.headers, buffer);
            self.headers.clear();
        }
        Some(transmit)
    }

    /// Like [`poll_transmit`](Self::poll_transmit), for a caller that completes the datagrams itself, perhaps on
    /// another thread: that is most of the work.
    pub fn poll_run(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Run> {
        self.now = now;
        if let Some(transmit) = self.relayed.pop(buffer) {
            return Some(Run { transmit, seal: None });
        }
        match self.neighbours.poll_greeting(now, buffer) {
            Some(to) => Some(Run { transmit: Transmit::unmarked(to, buffer.len()), seal: None }),
            None => self.poll_sessions(now, buffer),
        }
    }

    /// Lets the sessions take turns, one run of datagrams each.
    fn poll_sessions(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Run> {
        let mut next = self.turn;
        for _ in 0..self.sessions.len() {
            let after = self.sessions.range(next..).next().or_else(|| self.sessions.first_key_value());
            let id = *after?.0;
            next = SessionId(id.0 + 1);
            let run = self.with_session(id, |session| session.poll_run(now, buffer)).flatten();
            if run.is_some() {
                self.turn = next;
                return run;
            }
        }
        None
    }

    // --- time ---------------------------------------------------------------------------------------------------

    /// When to call [`handle_timeout`](Self::handle_timeout), and then to poll everything; at once if it is not later
    /// than the time that the node was told last.
    pub fn next_timeout(&self) -> Option<Time> {
        let sessions = self.sessions.values().filter_map(|session| session.next_timeout(self.now));
        let relayed = (!self.relayed.is_empty()).then_some(self.now);
        let neighbours = self.neighbours.next_timeout(self.config.routing.neighbour_patience);
        let rest = [relayed, neighbours, self.circuits.next_timeout(), self.dialler.next_timeout()];
        sessions.chain(rest.into_iter().flatten()).min()
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
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in ids {
            self.with_session(id, |session| session.handle_timeout(now));
        }
    }

    /// What happened; called until it gives nothing.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    // --- work on codes ------------------------------------------------------------------------------------------

    /// The next piece of work on codes. Whoever drives the node runs it, on any thread, and gives the result to
    /// [`handle_job`](Self::handle_job); until then its block waits. Called until it gives nothing.
    pub fn poll_job(&mut self) -> Option<Job> {
        self.sessions.values_mut().find_map(Session::poll_job)
    }

    /// Takes the result of a job.
    pub fn handle_job(&mut self, now: Time, result: JobResult) {
        self.now = now;
        let JobResult { session, done } = result;
        self.with_session(session, |session| session.on_job_done(now, done));
    }

    /// Ends all sessions, those too that are still being opened; the peers are told `reason`.
    pub fn close_all(&mut self, now: Time, reason: &str) {
        let all: Vec<SessionId> = self.sessions().chain(self.dialler.opening()).collect();
        all.into_iter().for_each(|session| self.close(now, session, reason));
    }
}
