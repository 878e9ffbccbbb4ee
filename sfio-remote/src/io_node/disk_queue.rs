//! The disk operations that are on their way, and the transfers that their results belong to.

use std::collections::{BTreeMap, VecDeque};

use fec_transport::StreamId;

use super::ErrorCounters;
use super::past::{Past, PastId};
use super::syncs::{Aftermath, Ended, Syncs};
use crate::name::SubfilePath;
use crate::store::{DiskAction, DiskError, DiskOperation, DiskReply, DiskResult, Ticket};

/// All disk operations of an I/O node.
#[derive(Debug, Default)]
pub(super) struct DiskQueue {
    next_ticket: u64,
    outgoing: VecDeque<DiskOperation>,
    pending: BTreeMap<Ticket, Pending>,
    syncs: Syncs,
    pub(super) counters: ErrorCounters,
    pub(super) past: Past,
}

/// What must be known of an operation when its result comes.
#[derive(Debug)]
struct Pending {
    stream: StreamId,
    path: SubfilePath,
    aftermath: Aftermath,
    reserved: u64,
    /// The request whose outcome this is, if it is to be remembered.
    once: Option<PastId>,
}

/// A result with the transfer that it belongs to.
#[derive(Debug)]
pub(super) struct Completed {
    pub(super) stream: StreamId,
    pub(super) ticket: Ticket,
    /// The payload memory that the operation held.
    pub(super) reserved: u64,
    pub(super) outcome: Result<DiskReply, DiskError>,
}

impl DiskQueue {
    /// Queues an operation that holds `reserved` bytes of payload memory; for a sync there is [`sync`](Self::sync).
    pub(super) fn submit(
        &mut self,
        stream: StreamId,
        path: &SubfilePath,
        action: DiskAction,
        reserved: u64,
    ) -> Ticket {
        debug_assert!(action != DiskAction::Sync, "syncs pass through `sync`");
        let aftermath = Aftermath::of(&action);
        let operation = self.operation(path, action);
        let ticket = operation.ticket;
        self.pending.insert(ticket, Pending { stream, path: path.clone(), aftermath, reserved, once: None });
        self.outgoing.push_back(operation);
        ticket
    }

    /// The same for a request that is carried out once, and whose outcome is remembered.
    pub(super) fn submit_once(
        &mut self,
        stream: StreamId,
        path: &SubfilePath,
        action: DiskAction,
        id: PastId,
    ) {
        let ticket = self.submit(stream, path, action, 0);
        if let Some(pending) = self.pending.get_mut(&ticket) {
            pending.once = Some(id);
        }
    }

    /// Queues a sync, behind the others of that subfile.
    ///
    /// # Errors
    /// If an earlier one failed.
    pub(super) fn sync(&mut self, stream: StreamId, path: &SubfilePath) -> Result<(), DiskError> {
        let operation = self.operation(path, DiskAction::Sync);
        let ticket = operation.ticket;
        self.outgoing.extend(self.syncs.admit(operation)?);
        let pending =
            Pending { stream, path: path.clone(), aftermath: Aftermath::Sync, reserved: 0, once: None };
        self.pending.insert(ticket, pending);
        Ok(())
    }

    /// Whether anything is under way for `stream`.
    pub(super) fn is_busy_for(&self, stream: StreamId) -> bool {
        self.pending.values().any(|pending| pending.stream == stream)
    }

    /// Whether anything is under way with the subfile.
    pub(super) fn is_busy_at(&self, path: &SubfilePath) -> bool {
        self.pending.values().any(|pending| pending.path == *path)
    }

    fn operation(&mut self, path: &SubfilePath, action: DiskAction) -> DiskOperation {
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        DiskOperation { ticket, path: path.clone(), action }
    }

    /// The next operation to carry out.
    pub(super) fn poll(&mut self) -> Option<DiskOperation> {
        self.outgoing.pop_front()
    }

    /// Takes note of a result; gives it with its owner, and behind it those of syncs that have become useless by it.
    ///
    /// A result that belongs to no operation is ignored.
    pub(super) fn complete(&mut self, result: DiskResult) -> Vec<Completed> {
        for incident in result.incidents {
            self.counters.count(incident.error.call);
            self.syncs.mark_lost(&incident.path);
        }
        let Some(pending) = self.pending.remove(&result.ticket) else { return Vec::new() };
        if let Err(error) = &result.outcome {
            self.counters.count(error.call);
        }
        let is_sync = pending.aftermath == Aftermath::Sync;
        // A sync that ran while another subfile's incident concerned this one succeeded for nothing.
        let lost = if is_sync { self.syncs.refuse_lost(&pending.path) } else { Ok(()) };
        let outcome = result.outcome.and_then(|reply| lost.map(|()| reply));
        let mut completed = Vec::new();
        if is_sync {
            completed = self.sync_ended(&pending.path, &outcome);
        } else if outcome.is_ok() {
            self.syncs.succeeded(&pending.path, pending.aftermath);
        }
        let Pending { stream, reserved, once, .. } = pending;
        let repeated = once.map(|id| self.past.done(id, &outcome)).unwrap_or_default();
        let ticket = result.ticket;
        completed.insert(0, Completed { stream, ticket, reserved, outcome: outcome.clone() });
        let repeat = |stream| Completed { stream, ticket, reserved: 0, outcome: outcome.clone() };
        completed.extend(repeated.into_iter().map(repeat));
        completed
    }

    /// Lets the next sync of `path` run; gives those that the one that ended has served, or made useless.
    fn sync_ended(&mut self, path: &SubfilePath, outcome: &Result<DiskReply, DiskError>) -> Vec<Completed> {
        let Ended { next, with_it, useless } = self.syncs.ended(path, outcome.is_ok());
        self.outgoing.extend(next);
        let lost = self.syncs.refuse_lost(path).map(|()| DiskReply::default());
        let with_it = with_it.into_iter().map(|ticket| (ticket, outcome.clone()));
        let useless = useless.into_iter().map(|ticket| (ticket, lost.clone()));
        let complete = |(ticket, outcome)| {
            let Pending { stream, reserved, .. } = self.pending.remove(&ticket)?;
            Some(Completed { stream, ticket, reserved, outcome })
        };
        with_it.chain(useless).filter_map(complete).collect()
    }
}
