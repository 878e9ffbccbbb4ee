//! A session: the association of two processes of two members, its streams, and the paths that carry them.
//!
//! One type per concern, each owning its fields: [`sender`] and [`receiver`] for the two directions, [`path`] for each
//! path, [`streams`] for what is open. This file is the session's life; `ingress` takes packets in, `egress` sends them.

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
mod rate;
mod receiver;
mod redundancy;
mod renewal;
mod reporting;
mod round_trip;
pub(crate) mod run;
mod sender;
mod spread;
mod stream;
pub(crate) mod streams;
mod suspicion;

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tracing::Span;

pub(crate) use code::{MAX_RAPTORQ, MAX_REED_SOLOMON, MIN_RAPTORQ};
pub use delivery::{Delivery, Gap};
pub use job::{Job, JobResult};
pub use path::{PathCounters, PathId, PathState};
pub(crate) use rate::MIN_RATE;
pub use receiver::ReceiveCounters;
pub(crate) use receiver::SharedPool;
pub use run::RunSeal;
pub(crate) use sender::MAX_BLOCK_SPAN;
pub use sender::SendCounters;
pub use stream::{Class, Read};

use crate::config::Config;
use crate::crypto::handshake::SessionKeys;
use crate::crypto::random::Random;
use crate::crypto::replay::ReplayWindow;
use crate::crypto::seal::SealKey;
use crate::event::{CloseReason, Event, SessionId, StreamError, StreamId};
use crate::keys::Identity;
use crate::overlay::{LinkId, MemberId, Overlay, Peer};
use crate::time::Time;
use crate::wire::report::Report;
use crate::wire::stream_control::StreamControl;
use egress::Closing;
use epochs::{Ends, Epochs};
use job::{Done, Work};
use path::Path;
use receiver::{Progress, Receiver};
use reporting::Reporting;
use sender::{CONTROL_STREAM, LivingPath, Sender};
use streams::{Role, Streams};

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

/// What waits to be written to the control stream.
#[derive(Debug, Default)]
struct ControlQueue {
    /// Streams on which credit may be due.
    credit: BTreeSet<u32>,
    resets: VecDeque<(u32, u32)>,
    /// Blocks that were given up.
    abandoned: VecDeque<StreamControl>,
}

/// Messages of the control stream wait while so many bytes of it are on the way.
const CONTROL_BACKLOG: u64 = 16 << 10;

/// A path of a session, as people and programs see it.
#[derive(Debug, Clone, PartialEq)]
pub struct PathStatus {
    /// Its number.
    pub id: PathId,
    /// The members from this end to the other.
    pub route: Vec<MemberId>,
    /// Whether it carries data.
    pub state: PathState,
    /// The share of the flow that the plan gives it, in [0, 1].
    pub planned_share: f64,
    /// The rate at which it is paced, in bit/s, IP headers included.
    pub rate_bps: f64,
    /// Its smoothed round trip.
    pub round_trip: Duration,
    /// The share of packets that it loses, as measured lately.
    pub loss: f64,
    /// For how long the latest packet that was reported had stood in queues on the way.
    pub queue: Duration,
    /// Its counters.
    pub counters: PathCounters,
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
            Done::Encoded { block, repair } => self.sender.on_prepared(block, repair),
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

    /// Adds a path; it carries data once a probe has come back over it. Gives false, and adds nothing, if its number was
    /// used before or there are too many paths.
    pub(crate) fn add_path(&mut self, mut path: Path) -> bool {
        // Twice the limit: a path that is replaced lives on for a while.
        if self.paths.len() < 2 * self.config.limits.paths && self.used_paths.mark(path.id.0.into()) {
            self.living_at = None;
            path.span = tracing::info_span!(parent: &self.span, "path", id = path.id.0);
            path.rate.set_fair(self.config.pace.fair);
            self.paths.push(path);
            return true;
        }
        false
    }

    /// The paths that have been dead, or never confirmed, for at least `patience`.
    pub(crate) fn hopeless_paths(&self, now: Time, patience: Duration) -> Vec<PathId> {
        let hopeless = |path: &&Path| now.since(path.received.last_heard) >= patience && !path.is_live();
        self.paths.iter().filter(hopeless).map(|path| path.id).collect()
    }

    /// Whether a path carries data, and when something was heard on it last.
    pub(crate) fn path_state(&self, id: PathId) -> Option<(PathState, Time)> {
        let path = self.paths.iter().find(|path| path.id == id)?;
        Some((path.state, path.received.last_heard))
    }

    /// Gives paths the shares of the flow that the present plan has for them.
    pub(crate) fn share_by_plan(&mut self, shares: &[(PathId, f64)]) {
        self.living_at = None;
        for (id, share) in shares {
            if let Some(path) = self.paths.iter_mut().find(|path| path.id == *id) {
                path.planned_share = *share;
            }
        }
    }

    /// Removes a path whose circuit is gone.
    pub(crate) fn remove_path(&mut self, id: PathId) {
        self.living_at = None;
        self.sender.on_path_death(id);
        self.paths.retain(|path| path.id != id);
    }

    /// A newer overlay file may have given links other capacities.
    pub(crate) fn recount_links(&mut self, overlay: &Overlay) {
        for path in &mut self.paths {
            path.links = overlay.route_links(&path.route);
        }
        self.living_at = None;
    }

    pub(crate) fn path_statuses(&self) -> Vec<PathStatus> {
        let status = |path: &Path| PathStatus {
            id: path.id,
            route: path.route.clone(),
            state: path.state,
            planned_share: path.planned_share,
            rate_bps: path.rate.mean_rate(),
            round_trip: path.round_trip.smoothed(),
            loss: path.loss_share(),
            queue: path.rate.queue(),
            counters: path.counters,
        };
        self.paths.iter().map(status).collect()
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

    pub(crate) fn open_stream(&mut self) -> Result<StreamId, StreamError> {
        if !self.is_open() {
            return Err(StreamError::NotOpen);
        }
        let Some(number) = self.streams.open() else {
            self.opener_waits = true;
            return Err(StreamError::TooMany);
        };
        self.begin_stream(number);
        Ok(self.stream_id(number))
    }

    fn begin_stream(&mut self, number: u32) {
        self.sender.open(number, u64::from(self.peer_limits.initial_window));
        self.receiver.open(number);
    }

    pub(crate) fn write(&mut self, now: Time, number: u32, data: &[u8]) -> Result<usize, StreamError> {
        let limit = self.config.limits.send_buffer;
        let stream = self.user_stream(number)?;
        if stream.is_finished() {
            return Err(StreamError::Finished);
        }
        Ok(stream.write(now, data, limit))
    }

    pub(crate) fn write_bytes(&mut self, now: Time, number: u32, data: &Bytes) -> Result<usize, StreamError> {
        let limit = self.config.limits.send_buffer;
        let stream = self.user_stream(number)?;
        if stream.is_finished() {
            return Err(StreamError::Finished);
        }
        Ok(stream.write_bytes(now, data, limit))
    }

    pub(crate) fn set_class(&mut self, number: u32, class: Class) -> Result<(), StreamError> {
        self.user_stream(number)?.class = class;
        Ok(())
    }

    pub(crate) fn flush(&mut self, number: u32) -> Result<(), StreamError> {
        self.user_stream(number)?.flush();
        Ok(())
    }

    pub(crate) fn finish(&mut self, number: u32) -> Result<(), StreamError> {
        self.user_stream(number)?.finish();
        Ok(())
    }

    fn user_stream(&mut self, number: u32) -> Result<&mut stream::SendStream, StreamError> {
        if number == CONTROL_STREAM || !self.streams.is_open(number) {
            return Err(StreamError::NoStream);
        }
        self.sender.stream(number).ok_or(StreamError::NoStream)
    }

    pub(crate) fn read(&mut self, now: Time, number: u32, max: usize) -> Result<Read, StreamError> {
        self.read_with(now, number, |receiver| receiver.read(number, max))
    }

    pub(crate) fn read_block(&mut self, now: Time, number: u32) -> Result<Read, StreamError> {
        self.read_with(now, number, |receiver| receiver.read_block(number))
    }

    fn read_with(
        &mut self,
        now: Time,
        number: u32,
        read: impl FnOnce(&mut Receiver) -> Option<Read>,
    ) -> Result<Read, StreamError> {
        if number == CONTROL_STREAM || !self.streams.is_open(number) {
            return Err(StreamError::NoStream);
        }
        let read = read(&mut self.receiver).ok_or(StreamError::NoStream)?;
        match &read {
            Read::Data { .. } | Read::Lost { .. } => {
                self.control.credit.insert(number);
                self.write_control(now);
            }
            Read::Finished => self.receiving_over(now, number),
            Read::Blocked => {}
        }
        Ok(read)
    }

    /// Gives up both directions of a stream and tells the peer.
    pub(crate) fn reset(&mut self, now: Time, number: u32, code: u32) {
        if self.streams.is_open(number) {
            self.control.resets.push_back((number, code));
            self.drop_stream(now, number);
        }
    }

    /// Forgets a stream that one side gave up. Blocks that are on the way are still completed on both sides, so that no
    /// hole stays in their numbering.
    fn drop_stream(&mut self, now: Time, number: u32) {
        if let Some(stream) = self.sender.stream(number) {
            stream.abandon();
        }
        self.streams.sending_over(number);
        self.streams.receiving_over(number);
        self.forget_stream(now, number);
    }

    fn sending_over(&mut self, now: Time, number: u32) {
        self.events.push_back(Event::Delivered { stream: self.stream_id(number) });
        if self.streams.sending_over(number) {
            self.forget_stream(now, number);
        }
    }

    fn receiving_over(&mut self, now: Time, number: u32) {
        if self.streams.receiving_over(number) {
            self.forget_stream(now, number);
        }
    }

    fn forget_stream(&mut self, now: Time, number: u32) {
        self.sender.close(number);
        self.receiver.close(number);
        self.control.credit.remove(&number);
        self.write_control(now);
    }

    fn stream_id(&self, number: u32) -> StreamId {
        StreamId { session: self.id, number }
    }

    /// Writes what is due to the control stream, unless much of it is still on the way.
    fn write_control(&mut self, now: Time) {
        while self.sender.control_backlog() < CONTROL_BACKLOG {
            let Some(message) = self.next_control() else { break };
            let mut bytes = Vec::new();
            message.emit(&mut bytes);
            let Some(control) = self.sender.stream(CONTROL_STREAM) else { break };
            control.write(now, &bytes, usize::MAX);
            control.flush();
        }
    }

    fn next_control(&mut self) -> Option<StreamControl> {
        if let Some(message) = self.control.abandoned.pop_front() {
            return Some(message);
        }
        if let Some((stream, code)) = self.control.resets.pop_front() {
            return Some(StreamControl::Reset { stream, code });
        }
        while let Some(stream) = self.control.credit.pop_first() {
            if let Some(limit) = self.receiver.next_credit(stream) {
                return Some(StreamControl::Credit { stream, limit });
            }
        }
        self.streams.next_limit().map(|count| StreamControl::StreamLimit { count })
    }
}

#[cfg(test)]
mod tests;
