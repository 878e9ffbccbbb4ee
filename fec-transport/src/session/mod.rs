//! A session: the association of two processes of two members, its streams, and the paths that carry them.
//!
//! One type per concern, each owning its fields: [`sender`] and [`receiver`] for the two directions, [`path`] for each
//! path, [`streams`] for what is open. This file is the session's life; `ingress` takes packets in, `egress` sends
//! them, and `user_streams` is what the application does with its streams.

mod backlog;
mod block;
mod code;
mod delivery;
mod departures;
mod egress;
pub(crate) mod epochs;
mod ingress;
mod job;
mod loss;
mod pacer;
pub(crate) mod path;
mod paths;
mod rate;
mod receiver;
mod recent;
mod redundancy;
mod renewal;
mod reporting;
mod round_trip;
mod sender;
mod spread;
mod stream;
pub(crate) mod streams;
mod suspicion;
mod user_streams;

use std::collections::VecDeque;
use std::sync::Arc;

use tracing::Span;

pub use delivery::{Delivery, Gap};
pub use job::{Job, JobResult};
pub use path::{PathCounters, PathId, PathState};
pub use paths::PathStatus;
pub(crate) use rate::news::{News, Part};
pub use receiver::ReceiveCounters;
pub(crate) use receiver::SharedPool;
pub use sender::SendCounters;
pub use stream::{Class, Read};

use crate::config::Config;
use crate::crypto::handshake::SessionKeys;
use crate::crypto::random::Random;
use crate::crypto::replay::ReplayWindow;
use crate::crypto::seal::SealKey;
use crate::event::{CloseReason, Event, SessionId};
use crate::keys::Identity;
use crate::overlay::{LinkId, Peer};
use crate::time::Time;
use crate::wire::report::Report;
use egress::Closing;
use epochs::{Ends, Epochs};
use job::{Done, Work};
use path::Path;
use rate::coupling::Coupling;
use receiver::{Progress, Receiver};
use reporting::Reporting;
use sender::{LivingPath, Sender};
use streams::{Role, Streams};
use user_streams::ControlQueue;

/// What each side tells the other in the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PeerLimits {
    /// Bytes that may be sent on a new stream.
    pub(crate) initial_window: u32,
    /// Streams that may be open at once.
    pub(crate) streams: u32,
}

/// What a session is made of.
#[derive(Debug)]
pub(crate) struct SessionSetUp {
    pub(crate) id: SessionId,
    /// Names the session between its two ends.
    pub(crate) token: u64,
    pub(crate) peer: Peer,
    pub(crate) role: Role,
    pub(crate) keys: SessionKeys,
    /// Who we are, and the peer's X25519 key.
    pub(crate) identity: Arc<Identity>,
    pub(crate) peer_key: [u8; 32],
    pub(crate) peer_limits: PeerLimits,
    pub(crate) random: Random,
    /// What is logged of the session is logged within it.
    pub(crate) span: Span,
    /// What windows may grow by, with the other sessions of the node.
    pub(crate) pool: SharedPool,
}

/// A session.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) token: u64,
    pub(crate) peer: Peer,
    config: Arc<Config>,
    role: Role,
    epochs: Epochs,
    /// Seals requests to join.
    join_key: SealKey,
    peer_limits: PeerLimits,
    phase: Phase,
    paths: Vec<Path>,
    /// What the paths' rates have in common.
    coupling: Coupling,
    /// Path ids that were used: with a nonce in them, none may come again. The initiator counts them up, so those that
    /// are far behind count as used.
    used_paths: ReplayWindow,
    sender: Sender,
    receiver: Receiver,
    streams: Streams,
    reporting: Reporting,
    /// A report that was made, and the paths on which it is still to be sent.
    pending_report: Option<(Report, VecDeque<PathId>)>,
    control: ControlQueue,
    /// What has arrived of the next message of the control stream.
    control_input: Vec<u8>,
    events: VecDeque<Event>,
    random: Random,
    last_heard: Time,
    /// The path whose turn it is to send.
    turn: usize,
    /// What the sender knows of the paths in the schedule, and since when; `None` once a path may have changed.
    living: Vec<LivingPath>,
    living_at: Option<Time>,
    /// Packets that did not open or did not parse.
    dropped: u64,
    /// Whether an open was refused for the peer's limit.
    opener_waits: bool,
    span: Span,
}

/// ```text
/// Unconfirmed ──first sealed packet opens──▶ Open ──close()──▶ Closing ──last close packet sent──▶ Over
///      └──────────────┴──silence, misbehaviour, close from the peer──────────────────────────────────▲
/// ```
#[derive(Debug)]
enum Phase {
    /// The handshake is done, but its first message may have been a replay.
    Unconfirmed {
        since: Time,
    },
    Open,
    Closing(Closing),
    Over,
}

impl Session {
    pub(crate) fn new(mut set_up: SessionSetUp, config: Arc<Config>, now: Time) -> Session {
        let SessionSetUp { identity, peer_key, token, role, .. } = set_up;
        let ends = Ends { identity, peer_key, token, role };
        let random = set_up.random.fork();
        let mut streams = Streams::new(set_up.role, config.limits.streams);
        streams.allow(set_up.peer_limits.streams);
        Session {
            id: set_up.id,
            token: set_up.token,
            peer: set_up.peer,
            role: set_up.role,
            epochs: Epochs::new(ends, config.sealing.clone(), set_up.keys.packets, random, now),
            join_key: set_up.keys.join,
            peer_limits: set_up.peer_limits,
            phase: Phase::Unconfirmed { since: now },
            paths: Vec::new(),
            coupling: Coupling::default(),
            used_paths: ReplayWindow::new(),
            sender: Sender::new(&config, now),
            receiver: Receiver::new(&config.limits, set_up.pool),
            streams,
            reporting: Reporting::new(now),
            pending_report: None,
            control: ControlQueue::default(),
            control_input: Vec::new(),
            events: VecDeque::new(),
            random: set_up.random,
            last_heard: now,
            turn: 0,
            living: Vec::new(),
            living_at: None,
            dropped: 0,
            opener_waits: false,
            span: set_up.span,
            config,
        }
    }

    /// The key of requests to join, which the initiator makes and the responder checks.
    pub(crate) fn join_key(&self) -> &SealKey {
        &self.join_key
    }

    /// How many handshakes there were after the first one.
    pub(crate) fn epoch(&self) -> u32 {
        self.epochs.number()
    }

    pub(crate) fn is_initiator(&self) -> bool {
        self.role == Role::Initiator
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    /// Whether nothing more comes of it.
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    /// The next piece of work on codes that may be done elsewhere.
    pub(crate) fn poll_job(&mut self) -> Option<Job> {
        let decode = self.receiver.poll_job().map(Work::Decode);
        let work = decode.or_else(|| self.sender.poll_job().map(Work::Encode))?;
        Some(Job { session: self.id, work })
    }

    /// Takes the result of a job.
    pub(crate) fn on_job_done(&mut self, now: Time, done: Done) {
        match done {
            Done::Encoded { block, stock } => self.sender.on_encoded(block, stock),
            Done::Decoded { block, bytes } => {
                let progress = self.receiver.on_decoded(now, block, bytes);
                // The control stream has no blocks that large.
                self.tell_reader(progress);
                self.reporting.hurry(now);
            }
        }
    }

    /// Tells the reader of a stream that there is more.
    fn tell_reader(&mut self, progress: Progress) {
        if let Progress::Complete(number) = progress {
            let stream = self.stream_id(number);
            self.events.push_back(Event::Readable { stream });
        }
    }

    /// Bytes of memory for data on its way in and out.
    pub(crate) fn memory(&self) -> usize {
        self.sender.memory() + self.receiver.memory()
    }

    pub(crate) fn send_counters(&self) -> SendCounters {
        self.sender.counters()
    }

    pub(crate) fn receive_counters(&self) -> ReceiveCounters {
        self.receiver.counters()
    }

    /// Streams that are open in either direction.
    pub(crate) fn stream_count(&self) -> usize {
        self.streams.count()
    }

    /// Packets that did not open, or came for a path that is not there.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    pub(crate) fn unmaskable_links(&self) -> Vec<LinkId> {
        self.sender.unmaskable().into_iter().collect()
    }

    pub(crate) fn delivery(&self) -> Delivery {
        self.receiver.delivery().clone()
    }

    pub(crate) fn acknowledged(&self) -> Delivery {
        self.sender.acknowledged().clone()
    }

    pub(crate) fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Ends the session and tells the peer why.
    pub(crate) fn close(&mut self, reason: &str) {
        if matches!(self.phase, Phase::Unconfirmed { .. } | Phase::Open) {
            self.end(CloseReason::Local);
            self.phase = Phase::Closing(Closing::new(reason, &self.paths));
        }
    }

    /// Ends the session at once and without a word.
    pub(crate) fn drop_dead(&mut self, reason: CloseReason) {
        self.end(reason);
        self.phase = Phase::Over;
    }

    fn end(&mut self, reason: CloseReason) {
        if matches!(self.phase, Phase::Unconfirmed { .. } | Phase::Open) {
            tracing::info!(parent: &self.span, %reason, "the session is over");
            let event = Event::SessionClosed { session: self.id, member: self.peer.member, reason };
            self.events.push_back(event);
            self.phase = Phase::Over;
        }
    }

    /// Ends the session because the peer broke the protocol, and tells it so.
    fn end_misbehaved(&mut self, what: String) {
        self.end(CloseReason::Misbehaved(what.clone()));
        self.phase = Phase::Closing(Closing::new(&what, &self.paths));
    }
}

#[cfg(test)]
mod tests;
