//! The I/O node: turns requests into disk operations and their results into replies.
//!
//! [`IoNode`] does no I/O. Streams come in as events of the transport, disk operations go out by
//! [`poll_operation`](IoNode::poll_operation), their results come in by [`handle_disk`](IoNode::handle_disk):
//!
//! ```text
//!   streams ──▶ Transfer (request · payload · reply) ──▶ DiskQueue ──▶ poll_operation
//!                  ▲   Budget: payload in memory            │   Syncs: one at a time, never after a failed one
//!                  └────────────────────────────────────────┴──◀── handle_disk
//! ```
//!
//! Payload goes to the disk in pieces while it arrives, and is read ahead while it is sent; between network and disk
//! lies at most [`IoNodeConfig::memory_bytes`]. A transfer that gets no memory does not read its stream, which holds
//! back the sender alone. Memory, requests, the disk, claims and what is remembered are shared by members, however many
//! processes, sessions and transfers each has ([`use_by_member`](IoNode::use_by_member)).

mod admission;
mod budget;
mod claims;
mod config;
mod context;
mod counters;
mod disk_queue;
mod emission;
mod extents;
mod grace;
mod intervals;
mod outbox;
mod packing;
mod past;
mod publication;
mod reception;
mod reclamation;
mod record_work;
mod rights;
mod syncs;
mod transfer;
mod turns;
mod unpacking;
mod write_once;

pub use config::IoNodeConfig;
pub use counters::{ERROR_COUNTERS_BYTES, ErrorCounters};
pub use rights::{AccessRules, Right, Rights};

use std::collections::{BTreeMap, BTreeSet};

use fec_transport::overlay::{MemberId, Peer};
use fec_transport::shares::Shares;
use fec_transport::{Event, SessionId, StreamId, Time};

use crate::compression::{CodecJob, CodecOutcome, CodecResult, Explanation, Held, JobQueue, Side};
use crate::progress::SessionProgress;
use crate::remote_error::{ErrorKind, RemoteError};
use crate::store::{DiskResult, Errand};
use crate::transport::Transport;
use admission::Admission;
use budget::{Budget, Called};
use context::{Context, JobOwner, Shared};
use disk_queue::{Asker, Completed, DiskQueue};
use grace::Grace;
use reception::LEAST_READ;
use transfer::{Status, Transfer};
use turns::Turns;

/// What a transfer takes of the memory for requests before its first byte has come.
const TRANSFER_BYTES: u64 = 512;

/// What each member may have of the memory for requests whatever others have: a dozen of the longest requests.
const LEAST_REQUEST_BYTES: u64 = 1 << 20;

/// Serves the subfiles of one member.
#[derive(Debug)]
pub struct IoNode {
    transfers: BTreeMap<StreamId, Transfer>,
    /// Those of each member.
    of_member: BTreeMap<MemberId, BTreeSet<StreamId>>,
    shared: Shared,
    progress: SessionProgress,
}

/// What one member has of what an I/O node's clients share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct MemberUse {
    /// Transfers.
    pub transfers: usize,
    /// Bytes of payload between network and disk.
    pub memory_bytes: u64,
    /// Bytes of requests.
    pub request_bytes: u64,
    /// Subfiles that it has claimed, those included whose claims have lapsed.
    pub claims: usize,
}

impl IoNode {
    /// An I/O node without transfers.
    pub fn new(config: IoNodeConfig) -> IoNode {
        let shared = Shared {
            budget: Budget::new(config.memory_bytes, config.piece_bytes.max(LEAST_READ)),
            disk: DiskQueue::new(config.disk_operations),
            admission: Admission::new(config.access.clone()),
            turns: Turns::default(),
            grace: Grace::new(config.reclaim_after),
            requests: Shares::new(config.request_bytes, LEAST_REQUEST_BYTES),
            codec_jobs: JobQueue::new(Side::IoNode, config.codec_jobs),
            held: Held::default(),
            compressors: BTreeMap::new(),
            config,
        };
        let progress = SessionProgress::default();
        IoNode { transfers: BTreeMap::new(), of_member: BTreeMap::new(), shared, progress }
    }

    /// The transport has news about a stream that a client opened, or about a session.
    pub fn handle_event<T: Transport>(&mut self, now: Time, transport: &mut T, event: &Event) {
        self.shared.grace.saw(now);
        self.progress.note(now, event);
        match *event {
            Event::StreamOpened { stream } => self.accept(now, transport, stream),
            Event::Readable { stream } | Event::Writable { stream } => self.advance(now, transport, stream),
            Event::StreamReset { stream, .. } => self.remove(now, transport, stream),
            Event::SessionClosed { session, member, .. } => {
                let streams: Vec<StreamId> = self.streams_of(session).collect();
                streams.into_iter().for_each(|stream| self.remove(now, transport, stream));
                self.shared.admission.session_ended(member, session);
            }
            Event::SessionSilent { session, member } => self.shared.admission.session_silent(member, session),
            Event::SessionHeard { session, .. } => self.shared.admission.session_heard(session),
            Event::SessionOpened { .. } | Event::StreamsAvailable { .. } | Event::Delivered { .. } => {}
        }
        self.serve_waiting(now, transport);
    }

    /// A disk operation has ended.
    pub fn handle_disk<T: Transport>(&mut self, now: Time, transport: &mut T, result: DiskResult) {
        for completed in self.shared.disk.complete(result) {
            self.completed(now, transport, completed);
        }
        self.serve_waiting(now, transport);
    }

    /// What the disk is to do next, if it is not busy with [`IoNodeConfig::disk_operations`] such errands; the result
    /// of each operation goes to [`handle_disk`](Self::handle_disk).
    pub fn poll_operation(&mut self) -> Option<Errand> {
        self.shared.disk.poll()
    }

    /// What somebody is to pack or unpack next; the result goes to [`handle_codec`](Self::handle_codec).
    pub fn poll_codec_job(&mut self) -> Option<CodecJob> {
        self.shared.codec_jobs.poll()
    }

    /// A codec job has ended.
    pub fn handle_codec<T: Transport>(&mut self, now: Time, transport: &mut T, result: CodecResult) {
        match (self.shared.codec_jobs.ended(&result), &result.outcome) {
            (Some(JobOwner::Transfer(stream)), _) => {
                self.coded(now, transport, stream, result);
            }
            (Some(JobOwner::Trial(member, subfile)), CodecOutcome::Tried(trials)) => {
                self.shared.compressors.entry(member).or_default().tried(&subfile, trials);
            }
            _ => {}
        }
        self.release_held(now, transport);
        self.serve_waiting(now, transport);
    }

    /// What was sent to each member in frames, how it was packed, and why.
    pub fn compression(&self) -> impl Iterator<Item = (MemberId, Explanation)> + '_ {
        let compressors = self.shared.compressors.iter();
        compressors.filter_map(|(member, compressor)| Some((*member, compressor.explain()?)))
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub fn next_timeout(&self) -> Option<Time> {
        self.progress.next_check().into_iter().chain(self.shared.held.until()).min()
    }

    /// Lets transfers go on that were held, and gives up those that are stuck.
    pub fn handle_timeout<T: Transport>(&mut self, now: Time, transport: &mut T) {
        if self.shared.held.is_due(now) {
            self.release_held(now, transport);
        }
        if !self.progress.check(now, transport, self.transfers.keys().map(|stream| stream.session)) {
            return;
        }
        let timeout = self.shared.config.idle_timeout;
        let is_stuck = |(stream, transfer): &(&StreamId, &Transfer)| {
            self.progress.is_stuck(now, stream.session, transfer.idle_since(), timeout)
                && !self.shared.disk.is_busy_for(**stream)
        };
        let stuck: Vec<StreamId> =
            self.transfers.iter().filter(is_stuck).map(|(stream, _)| *stream).collect();
        for stream in stuck {
            self.reset(now, transport, stream, &RemoteError::new(ErrorKind::Idle, ""));
        }
        self.schedule_check(now);
        self.serve_waiting(now, transport);
    }

    /// The error counters.
    pub fn error_counters(&self) -> ErrorCounters {
        self.shared.disk.counters
    }

    /// The limits.
    pub fn config(&self) -> &IoNodeConfig {
        &self.shared.config
    }

    /// The bytes of payload between network and disk.
    pub fn memory_used(&self) -> u64 {
        self.shared.budget.used()
    }

    /// The number of transfers.
    pub fn transfer_count(&self) -> usize {
        self.transfers.len()
    }

    /// What each member has of what all share; those that have nothing are left out.
    pub fn use_by_member(&self) -> BTreeMap<MemberId, MemberUse> {
        let mut uses: BTreeMap<MemberId, MemberUse> = BTreeMap::new();
        for (member, streams) in &self.of_member {
            uses.entry(*member).or_default().transfers = streams.len();
        }
        for (member, bytes) in self.shared.budget.holders() {
            uses.entry(member).or_default().memory_bytes = bytes;
        }
        for (member, bytes) in self.shared.requests.holders() {
            uses.entry(member).or_default().request_bytes = bytes;
        }
        for (member, claims) in self.shared.admission.claims() {
            uses.entry(member).or_default().claims = claims;
        }
        uses
    }

    fn accept<T: Transport>(&mut self, now: Time, transport: &mut T, stream: StreamId) {
        let Some(Peer { member, .. }) = transport.peer(stream.session) else { return };
        let streams = self.of_member.get(&member).map_or(0, BTreeSet::len);
        let requests = &mut self.shared.requests;
        let is_full = streams >= self.shared.config.transfers_per_member;
        if is_full || requests.available(member) < TRANSFER_BYTES {
            transport.reset(now, stream, RemoteError::new(ErrorKind::Overloaded, "").reset_code());
            return;
        }
        requests.take(member, TRANSFER_BYTES);
        self.of_member.entry(member).or_default().insert(stream);
        self.transfers.insert(stream, Transfer::new(now, member, TRANSFER_BYTES));
        self.schedule_check(now);
        self.advance(now, transport, stream);
    }

    fn advance<T: Transport>(&mut self, now: Time, transport: &mut T, stream: StreamId) {
        let Some(transfer) = self.transfers.get_mut(&stream) else { return };
        let asker = Asker { member: transfer.member(), stream };
        let status = transfer.advance(&mut Context { now, asker, shared: &mut self.shared, transport });
        if !matches!(status, Ok(Status::Running)) {
            self.remove(now, transport, stream);
        } else if self.shared.budget.is_waiting(asker.member, stream) {
            self.flush_all(now, transport, asker.member);
        }
    }

    fn completed<T: Transport>(&mut self, now: Time, transport: &mut T, completed: Completed) {
        let Asker { member, stream } = completed.asker;
        if let Some(path) = &completed.claim {
            self.shared.admission.creation_ended(member, path, completed.outcome.is_ok());
        }
        let Some(transfer) = self.transfers.get_mut(&stream) else {
            // The transfer was given up in the meantime; its memory was not.
            self.shared.budget.release(member, completed.reserved);
            self.end_turn(completed.asker);
            return;
        };
        let mut cx = Context { now, asker: completed.asker, shared: &mut self.shared, transport };
        match transfer.completed(completed, &mut cx) {
            Ok(()) => self.advance(now, transport, stream),
            Err(error) => self.reset(now, transport, stream, &error),
        }
    }

    /// Hands the last bytes of every write of a member that waits for memory to the disk: they may be all that it may
    /// have.
    fn flush_all<T: Transport>(&mut self, now: Time, transport: &mut T, member: MemberId) {
        for stream in self.of_member.get(&member).into_iter().flatten() {
            if let Some(transfer) = self.transfers.get_mut(stream) {
                let asker = Asker { member, stream: *stream };
                transfer.flush(&mut Context { now, asker, shared: &mut self.shared, transport });
            }
        }
    }

    /// Lets transfers go on that waited for memory, if there is some, or for their turn.
    fn serve_waiting<T: Transport>(&mut self, now: Time, transport: &mut T) {
        while self.shared.budget.take_released() {
            let mut in_vain = Called::new();
            while let Some((member, stream)) = self.shared.budget.next_waiting(&in_vain) {
                self.advance(now, transport, stream);
                if self.shared.budget.is_waiting(member, stream) {
                    in_vain.insert(member);
                }
            }
        }
        while let Some(stream) = self.shared.turns.next() {
            self.advance(now, transport, stream);
        }
    }

    /// A codec has worked for a transfer.
    fn coded<T: Transport>(&mut self, now: Time, transport: &mut T, stream: StreamId, result: CodecResult) {
        let Some(transfer) = self.transfers.get_mut(&stream) else { return };
        let asker = Asker { member: transfer.member(), stream };
        transfer.coded(result, &mut Context { now, asker, shared: &mut self.shared, transport });
        self.advance(now, transport, stream);
    }

    /// Those that were held ask again.
    fn release_held<T: Transport>(&mut self, now: Time, transport: &mut T) {
        for stream in self.shared.held.release() {
            self.advance(now, transport, stream);
        }
    }

    fn reset<T: Transport>(&mut self, now: Time, transport: &mut T, stream: StreamId, error: &RemoteError) {
        tracing::debug!(?stream, %error, "a transfer is reset");
        transport.reset(now, stream, error.reset_code());
        self.remove(now, transport, stream);
    }

    fn remove<T: Transport>(&mut self, now: Time, transport: &mut T, stream: StreamId) {
        let Some(transfer) = self.transfers.remove(&stream) else { return };
        let asker = Asker { member: transfer.member(), stream };
        transfer.release(&mut Context { now, asker, shared: &mut self.shared, transport });
        if let Some(streams) = self.of_member.get_mut(&asker.member) {
            streams.remove(&stream);
            if streams.is_empty() {
                self.of_member.remove(&asker.member);
            }
        }
        self.shared.budget.forget(asker.member, stream);
        self.shared.codec_jobs.cancel(|owner| *owner == JobOwner::Transfer(stream));
        for cancelled in self.shared.disk.cancel(stream) {
            self.completed(now, transport, cancelled);
        }
        self.end_turn(asker);
    }

    /// Lets others have their turn once the disk has done all that was asked for on the ended stream.
    fn end_turn(&mut self, asker: Asker) {
        if !self.shared.disk.is_busy_for(asker.stream) {
            self.shared.turns.release(asker.member, asker.stream);
        }
    }

    fn streams_of(&self, session: SessionId) -> impl Iterator<Item = StreamId> + '_ {
        let (first, last) = (StreamId { session, number: 0 }, StreamId { session, number: u32::MAX });
        self.transfers.range(first..=last).map(|(stream, _)| *stream)
    }

    fn schedule_check(&mut self, now: Time) {
        if !self.transfers.is_empty() {
            self.progress.begin(now, self.shared.config.idle_timeout);
        }
    }
}

#[cfg(test)]
mod record_fixtures;
#[cfg(test)]
mod tests;
