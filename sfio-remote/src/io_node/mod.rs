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
//! back the sender alone.

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
mod past;
mod publication;
mod reception;
mod reclamation;
mod record_work;
mod rights;
mod syncs;
mod transfer;
mod turns;
mod write_once;

pub use config::IoNodeConfig;
pub use counters::{ERROR_COUNTERS_BYTES, ErrorCounters};
pub use rights::{AccessRules, Right, Rights};

use std::collections::BTreeMap;

use fec_transport::{Event, SessionId, StreamId, Time};

use crate::progress::SessionProgress;
use crate::remote_error::{ErrorKind, RemoteError};
use crate::store::{DiskOperation, DiskResult};
use crate::transport::Transport;
use admission::Admission;
use budget::Budget;
use context::{Context, Shared};
use disk_queue::{Completed, DiskQueue};
use grace::Grace;
use transfer::{Status, Transfer};
use turns::Turns;

/// Serves the subfiles of one member.
#[derive(Debug)]
pub struct IoNode {
    transfers: BTreeMap<StreamId, Transfer>,
    shared: Shared,
    progress: SessionProgress,
}

impl IoNode {
    /// An I/O node without transfers.
    pub fn new(config: IoNodeConfig) -> IoNode {
        let budget = Budget::new(config.memory_bytes, config.session_memory_bytes);
        let admission = Admission::new(config.access.clone());
        let (turns, grace) = (Turns::default(), Grace::new(config.reclaim_after));
        let shared = Shared { config, budget, disk: DiskQueue::default(), admission, turns, grace };
        IoNode { transfers: BTreeMap::new(), shared, progress: SessionProgress::default() }
    }

    /// The transport has news about a stream that a client opened, or about a session.
    pub fn handle_event<T: Transport>(&mut self, now: Time, transport: &mut T, event: &Event) {
        self.shared.grace.saw(now);
        match *event {
            Event::StreamOpened { stream } => self.accept(now, transport, stream),
            Event::Readable { stream } | Event::Writable { stream } => self.advance(now, transport, stream),
            Event::StreamReset { stream, .. } => self.remove(now, transport, stream),
            Event::SessionClosed { session, .. } => {
                let streams: Vec<StreamId> = self.streams_of(session).collect();
                streams.into_iter().for_each(|stream| self.remove(now, transport, stream));
                self.shared.admission.session_ended(session);
            }
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

    /// The next disk operation to carry out.
    pub fn poll_operation(&mut self) -> Option<DiskOperation> {
        self.shared.disk.poll()
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub fn next_timeout(&self) -> Option<Time> {
        self.progress.next_check()
    }

    /// Gives up transfers that are stuck.
    pub fn handle_timeout<T: Transport>(&mut self, now: Time, transport: &mut T) {
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

    /// The bytes of payload between network and disk.
    pub fn memory_used(&self) -> u64 {
        self.shared.budget.used()
    }

    /// The number of transfers.
    pub fn transfer_count(&self) -> usize {
        self.transfers.len()
    }

    fn accept<T: Transport>(&mut self, now: Time, transport: &mut T, stream: StreamId) {
        if self.streams_of(stream.session).count() >= self.shared.config.transfers_per_session {
            transport.reset(now, stream, RemoteError::new(ErrorKind::Overloaded, "").reset_code());
            return;
        }
        self.transfers.insert(stream, Transfer::new(now));
        self.schedule_check(now);
        self.advance(now, transport, stream);
    }

    fn advance<T: Transport>(&mut self, now: Time, transport: &mut T, stream: StreamId) {
        let Some(transfer) = self.transfers.get_mut(&stream) else { return };
        let status = transfer.advance(&mut Context { now, stream, shared: &mut self.shared, transport });
        if !matches!(status, Ok(Status::Running)) {
            self.remove(now, transport, stream);
        }
        if self.shared.budget.is_short() {
            self.flush_all(now, transport);
        }
    }

    fn completed<T: Transport>(&mut self, now: Time, transport: &mut T, completed: Completed) {
        let stream = completed.stream;
        let Some(transfer) = self.transfers.get_mut(&stream) else {
            // The transfer was given up in the meantime; its memory was not.
            self.shared.budget.release(stream.session, completed.reserved);
            self.end_turn(stream);
            return;
        };
        let mut cx = Context { now, stream, shared: &mut self.shared, transport };
        match transfer.completed(completed, &mut cx) {
            Ok(()) => self.advance(now, transport, stream),
            Err(error) => self.reset(now, transport, stream, &error),
        }
    }

    /// Hands every write's last bytes to the disk: they may be all the memory there is.
    fn flush_all<T: Transport>(&mut self, now: Time, transport: &mut T) {
        for (stream, transfer) in &mut self.transfers {
            transfer.flush(&mut Context { now, stream: *stream, shared: &mut self.shared, transport });
        }
    }

    /// Lets transfers go on that waited for memory, if there is some, or for their turn.
    fn serve_waiting<T: Transport>(&mut self, now: Time, transport: &mut T) {
        for stream in self.shared.budget.take_waiting() {
            if self.shared.budget.used() < self.shared.config.memory_bytes {
                self.advance(now, transport, stream);
            } else {
                self.shared.budget.wait(stream);
            }
        }
        while let Some(stream) = self.shared.turns.next() {
            self.advance(now, transport, stream);
        }
    }

    fn reset<T: Transport>(&mut self, now: Time, transport: &mut T, stream: StreamId, error: &RemoteError) {
        tracing::debug!(?stream, %error, "a transfer is reset");
        transport.reset(now, stream, error.reset_code());
        self.remove(now, transport, stream);
    }

    fn remove<T: Transport>(&mut self, now: Time, transport: &mut T, stream: StreamId) {
        if let Some(transfer) = self.transfers.remove(&stream) {
            transfer.release(&mut Context { now, stream, shared: &mut self.shared, transport });
            self.end_turn(stream);
        }
    }

    /// Lets others have their turn once the disk has done all that was asked for on the ended `stream`.
    fn end_turn(&mut self, stream: StreamId) {
        if !self.shared.disk.is_busy_for(stream) {
            self.shared.turns.release(stream);
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
