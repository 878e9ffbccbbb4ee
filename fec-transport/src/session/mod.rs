//! A session: the association of two processes of two members, its streams, and the paths that carry them.
//!
//! One type per concern, each owning its fields: `Lifecycle`, [`Paths`], [`Streams`], `Reporting`, [`sender`] and
//! [`receiver`] for the two directions, and [`epochs`] for the keys. The session passes on what one of them must know
//! of another; `packets` has what arrives and what is sent.

mod backlog;
mod block;
mod code;
mod delivery;
pub(crate) mod epochs;
mod intake;
mod job;
mod lifecycle;
mod misbehaviour;
mod outgoing;
mod packets;
mod paths;
mod rate;
mod receiver;
mod recent;
mod redundancy;
mod reporting;
mod run;
mod sender;
mod spread;
mod status;
mod stream;
mod streams;
mod windows;

use std::collections::VecDeque;
use std::sync::Arc;

use tracing::Span;

#[cfg(feature = "io")]
pub(crate) use code::limit_kernel;
pub use delivery::{Delivery, Gap};
pub(crate) use intake::SharedIntake;
pub use job::{Job, JobResult};
pub(crate) use lifecycle::Name;
pub(crate) use outgoing::SendPool;
pub(crate) use paths::{Path, Paths};
pub use paths::{PathCounters, PathId, PathState, PathStatus};
pub(crate) use rate::bottlenecks::Bottlenecks;
pub use receiver::ReceiveCounters;
pub use sender::SendCounters;
pub use status::SessionStatus;
pub use stream::{Class, Read};
pub(crate) use streams::{PeerLimits, Role, Streams};
pub(crate) use windows::SharedPool;

use crate::config::Config;
use crate::crypto::handshake::SessionKeys;
use crate::crypto::random::Random;
use crate::crypto::receipt::Receipts;
use crate::crypto::seal::SealKey;
use crate::event::{CloseReason, Event, StreamError, StreamId};
use crate::keys::Identity;
use crate::time::Time;
use epochs::{Ends, Epochs};
use intake::Intake;
use job::{Done, Work};
use lifecycle::Lifecycle;
use outgoing::Outgoing;
use receiver::Receiver;
use reporting::Reporting;
use sender::Sender;
use streams::StreamsState;

/// What a session is made of.
#[derive(Debug)]
pub(crate) struct SessionSetUp {
    pub(crate) name: Name,
    pub(crate) keys: SessionKeys,
    /// Our keys, and the peer's X25519 key: for the handshakes of later epochs.
    pub(crate) identity: Arc<Identity>,
    pub(crate) peer_key: [u8; 32],
    pub(crate) peer_limits: PeerLimits,
    pub(crate) random: Random,
    /// What is logged of the session is logged within it.
    pub(crate) span: Span,
    /// The bytes by which windows may grow, which all sessions of the node share.
    pub(crate) pool: SharedPool,
    /// The memory for what was written and is not acknowledged, which they share as well.
    pub(crate) send_pool: SendPool,
    /// What the node's sockets hold, which they share, too.
    pub(crate) intake: SharedIntake,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    config: Arc<Config>,
    lifecycle: Lifecycle,
    paths: Paths,
    streams: StreamsState,
    reporting: Reporting,
    sender: Sender,
    receiver: Receiver,
    epochs: Epochs,
    /// Seals requests to join.
    join_key: SealKey,
    events: VecDeque<Event>,
    random: Random,
    /// Packets that did not open or did not parse.
    dropped: u64,
}

/// What a session waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Timer {
    /// The peer is out of reach, or the session over, if nothing is heard.
    Silence,
    /// A path is asked whether it lives.
    Probe,
    /// The peer is told that a path lives.
    ProbeReply,
    /// The keys of the epoch before are forgotten.
    OldKeys,
    /// New keys are asked for, or the peer's question is answered.
    NewKeys,
    /// A report is sent.
    Report,
    /// Symbols are sent.
    Symbols,
    /// The last blocks are asked for, of which nothing was heard.
    Tail,
    /// A real-time block is given up.
    Deadline,
}

impl Timer {
    /// Those after which something is sent. They are apart from the others, because in a node with many busy sessions
    /// most of these have run out at any time, and wait for their turn.
    const SENDING: [Timer; 5] =
        [Timer::Probe, Timer::ProbeReply, Timer::NewKeys, Timer::Report, Timer::Symbols];
    /// The same while the peer has not shown yet that it is there.
    const SENDING_UNCONFIRMED: [Timer; 2] = [Timer::Probe, Timer::ProbeReply];
    /// Those after which the session's state changes.
    const ACTING: [Timer; 4] = [Timer::Silence, Timer::OldKeys, Timer::Tail, Timer::Deadline];
    /// The same while the peer has not shown yet that it is there.
    const ACTING_UNCONFIRMED: [Timer; 2] = [Timer::Silence, Timer::OldKeys];
}

impl Session {
    pub(crate) fn new(mut set_up: SessionSetUp, config: Arc<Config>, now: Time) -> Session {
        let SessionSetUp { name, identity, peer_key, peer_limits, .. } = set_up;
        let ends = Ends { identity, peer_key, token: name.token, role: name.role };
        let random = set_up.random.fork();
        let receipts = Receipts::new(set_up.random.bytes());
        let outgoing = Outgoing::new(set_up.send_pool, name.peer.member);
        Session {
            lifecycle: Lifecycle::new(now, name, set_up.span),
            paths: Paths::new(now, name.id, Arc::clone(&config), receipts),
            streams: StreamsState::new(name.id, name.role, &config.limits, peer_limits, outgoing),
            reporting: Reporting::new(now, Intake::new(set_up.intake)),
            sender: Sender::new(&config, now),
            receiver: Receiver::new(&config.limits, set_up.pool, name.peer.member),
            epochs: Epochs::new(ends, config.sealing.clone(), set_up.keys.packets, random, now),
            join_key: set_up.keys.join,
            events: VecDeque::new(),
            random: set_up.random,
            dropped: 0,
            config,
        }
    }

    /// The two ends, and what they call the session.
    pub(crate) fn name(&self) -> Name {
        self.lifecycle.name()
    }

    /// The key of requests to join, which the initiator makes and the responder checks.
    pub(crate) fn join_key(&self) -> &SealKey {
        &self.join_key
    }

    pub(crate) fn is_initiator(&self) -> bool {
        self.name().role == Role::Initiator
    }

    pub(crate) fn is_open(&self) -> bool {
        self.lifecycle.is_open()
    }

    /// Whether it only says goodbye.
    pub(crate) fn is_closing(&self) -> bool {
        self.lifecycle.is_closing()
    }

    /// Whether nothing more comes of it.
    pub(crate) fn is_over(&self) -> bool {
        self.lifecycle.is_over()
    }

    /// The peer's member says that it does not know the session.
    pub(crate) fn note_forgotten(&mut self) {
        self.lifecycle.note_forgotten();
    }

    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }

    pub(crate) fn paths_mut(&mut self) -> &mut Paths {
        &mut self.paths
    }

    /// Adds a path; it carries data once a probe has come back over it. Gives false, and adds nothing, if its number
    /// was used before or there are too many paths.
    pub(crate) fn add_path(&mut self, path: Path) -> bool {
        self.paths.add(path, self.lifecycle.span())
    }

    /// Removes a path whose circuit is gone.
    pub(crate) fn remove_path(&mut self, id: PathId) {
        self.sender.on_path_death(id);
        self.paths.remove(id);
    }

    /// The streams, for whatever the application does with them.
    pub(crate) fn streams(&mut self) -> Streams<'_> {
        self.streams.with(&mut self.sender, &mut self.receiver, &mut self.events)
    }

    /// Streams that are open in either direction.
    pub(crate) fn stream_count(&self) -> usize {
        self.streams.count()
    }

    pub(crate) fn open_stream(&mut self) -> Result<StreamId, StreamError> {
        if self.is_open() { self.streams().open() } else { Err(StreamError::NotOpen) }
    }

    /// Whether there is work on codes that may be done elsewhere.
    pub(crate) fn has_jobs(&self) -> bool {
        self.receiver.has_jobs() || self.sender.has_jobs()
    }

    /// The next piece of work on codes that may be done elsewhere.
    pub(crate) fn poll_job(&mut self) -> Option<Job> {
        let decode = self.receiver.poll_job().map(Work::Decode);
        let work = decode.or_else(|| self.sender.poll_job().map(Work::Encode))?;
        Some(Job { session: self.name().id, work })
    }

    /// Takes the result of a job.
    pub(crate) fn on_job_done(&mut self, now: Time, done: Done) {
        match done {
            Done::Encoded { block, stock } => self.sender.on_encoded(block, stock),
            Done::Decoded { block, bytes } => {
                match self.receiver.on_decoded(now, block, bytes) {
                    // The control stream has no blocks that large.
                    Ok(progress) => self.streams().tell_reader(progress),
                    Err(_) if !self.is_open() => {}
                    Err(bad) => {
                        self.events.extend(self.lifecycle.end_misbehaved(&bad.to_string(), &self.paths));
                    }
                }
                self.reporting.hurry(now);
            }
        }
    }

    pub(crate) fn status(&self) -> SessionStatus {
        SessionStatus {
            peer: self.name().peer,
            last_heard: self.lifecycle.last_heard(),
            epoch: self.epochs.number(),
            incoming: !self.is_initiator(),
            streams: self.streams.count(),
            dropped: self.dropped,
            paths: self.paths.statuses(),
            delivery: self.receiver.delivery().clone(),
            acknowledged: self.sender.acknowledged().clone(),
            sent: self.sender.counters(),
            received: self.receiver.counters(),
            memory: self.sender.memory() + self.receiver.memory(),
            unacknowledged: self.sender.held(),
            unmaskable: self.sender.unmaskable().into_iter().collect(),
        }
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Ends the session and tells the peer why.
    pub(crate) fn close(&mut self, reason: &str) {
        self.events.extend(self.lifecycle.close(reason, &self.paths));
    }

    /// Ends the session at once and without a word.
    pub(crate) fn drop_dead(&mut self, reason: CloseReason) {
        self.events.extend(self.lifecycle.drop_dead(reason));
    }

    // --- time ---------------------------------------------------------------------------------------------------

    /// When to call [`poll_transmit`](Self::poll_transmit) next.
    pub(crate) fn sends_at(&self, now: Time) -> Option<Time> {
        let timers: &[Timer] = if self.is_open() { &Timer::SENDING } else { &Timer::SENDING_UNCONFIRMED };
        self.lifecycle.goodbye_at(now).or_else(|| self.first_of(timers, now))
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) next.
    pub(crate) fn acts_at(&self, now: Time) -> Option<Time> {
        self.first_of(if self.is_open() { &Timer::ACTING } else { &Timer::ACTING_UNCONFIRMED }, now)
    }

    /// When the first of these timers runs out. A session that says goodbye, or is over, has none.
    fn first_of(&self, timers: &[Timer], now: Time) -> Option<Time> {
        if self.lifecycle.is_closing() || self.is_over() {
            return None;
        }
        timers.iter().filter_map(|timer| self.timer(*timer, now)).min()
    }

    /// When a timer runs out, if it runs.
    fn timer(&self, timer: Timer, now: Time) -> Option<Time> {
        match timer {
            Timer::Silence => self.lifecycle.acts_at(&self.config.liveness),
            Timer::Probe => self.paths.probes_at(),
            Timer::ProbeReply => self.paths.owes_probe_reply().then_some(now),
            Timer::OldKeys => self.epochs.forgets_at(),
            Timer::NewKeys if self.epochs.owes_answer() => Some(now),
            Timer::NewKeys => self.epochs.asks_at().filter(|_| self.paths.any_lives()),
            Timer::Report => self.reporting.due(),
            Timer::Symbols => self.paths.symbols_at(now, &self.sender),
            Timer::Tail => self.sender.tail_at(now, self.paths.tail_pause(), self.paths.rate()),
            Timer::Deadline => self.sender.expires_at(),
        }
    }

    /// Acts on the timers that have run out.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.epochs.handle_timeout(now);
        let was_open = self.is_open();
        let asked = self.paths.asked();
        self.events.extend(self.lifecycle.handle_timeout(now, &self.config.liveness, asked));
        if was_open && self.is_open() {
            self.streams().abandon_expired(now);
            if self.timer(Timer::Tail, now).is_some_and(|at| at <= now) {
                self.sender.on_tail(now, self.paths.mean_loss());
            }
        }
    }
}

#[cfg(test)]
mod tests;
