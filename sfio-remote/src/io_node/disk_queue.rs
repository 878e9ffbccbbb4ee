//! The disk operations that wait or are on their way, and the transfers that their results belong to.
//!
//! An operation stays here until the disk has room for it: so members take turns (see [`Elevator`]), and what was asked
//! for on a stream that was given up meanwhile is dropped.

use std::collections::{BTreeMap, BTreeSet};

use fec_transport::StreamId;
use fec_transport::overlay::MemberId;

use super::ErrorCounters;
use super::past::{Past, PastId};
use super::syncs::{Aftermath, Ended, Syncs};
use crate::name::SubfilePath;
use crate::remote_error::ErrorKind;
use crate::store::{
    DiskAction, DiskError, DiskOperation, DiskReply, DiskResult, Elevator, Errand, SystemCall, Ticket,
    UnderWay,
};

/// All disk operations of an I/O node.
#[derive(Debug)]
pub(super) struct DiskQueue {
    /// How many errands the disk has at once.
    at_once: usize,
    next_ticket: u64,
    waiting: Elevator<MemberId>,
    pending: BTreeMap<Ticket, Pending>,
    /// The operations of each stream.
    by_stream: BTreeMap<StreamId, BTreeSet<Ticket>>,
    /// What the disk works on, by the ticket of the first operation.
    errands: BTreeMap<Ticket, Running>,
    syncs: Syncs,
    pub(super) counters: ErrorCounters,
    pub(super) past: Past,
}

/// On whose behalf the disk is asked to do something.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asker {
    pub(super) member: MemberId,
    pub(super) stream: StreamId,
}

/// What must be known of an operation when its result comes.
#[derive(Debug)]
struct Pending {
    asker: Asker,
    path: SubfilePath,
    aftermath: Aftermath,
    reserved: u64,
    /// The request whose outcome this is, if it is to be remembered.
    once: Option<PastId>,
    /// Whether it creates a subfile that was claimed.
    claims: bool,
    /// The errand that it is part of, once the disk works on it.
    errand: Option<Ticket>,
}

/// An errand that has not ended.
#[derive(Debug)]
struct Running {
    /// Whose turn it was.
    member: MemberId,
    /// Operations without a result.
    left: usize,
    is_slow: bool,
}

/// A result with the transfer that it belongs to.
#[derive(Debug)]
pub(super) struct Completed {
    pub(super) asker: Asker,
    pub(super) ticket: Ticket,
    /// The payload memory that the operation held.
    pub(super) reserved: u64,
    pub(super) outcome: Result<DiskReply, DiskError>,
    /// The subfile that was claimed with this creation.
    pub(super) claim: Option<SubfilePath>,
}

impl DiskQueue {
    /// A queue for a disk that has so many errands at once.
    pub(super) fn new(at_once: usize) -> DiskQueue {
        DiskQueue {
            at_once: at_once.max(1),
            next_ticket: 0,
            waiting: Elevator::default(),
            pending: BTreeMap::new(),
            by_stream: BTreeMap::new(),
            errands: BTreeMap::new(),
            syncs: Syncs::default(),
            counters: ErrorCounters::default(),
            past: Past::default(),
        }
    }

    /// Queues an operation that holds `reserved` bytes of payload memory; for a sync there is [`sync`](Self::sync).
    pub(super) fn submit(
        &mut self,
        asker: Asker,
        path: &SubfilePath,
        action: DiskAction,
        reserved: u64,
    ) -> Ticket {
        debug_assert!(action != DiskAction::Sync, "syncs pass through `sync`");
        let aftermath = Aftermath::of(&action);
        let operation = self.operation(path, action);
        let ticket = operation.ticket;
        self.note(ticket, asker, path, aftermath, reserved);
        self.waiting.push(asker.member, operation);
        ticket
    }

    /// The same for a request that is carried out once, and whose outcome is remembered.
    pub(super) fn submit_once(&mut self, asker: Asker, path: &SubfilePath, action: DiskAction, id: PastId) {
        let ticket = self.submit(asker, path, action, 0);
        if let Some(pending) = self.pending.get_mut(&ticket) {
            pending.once = Some(id);
        }
    }

    /// The same for the creation of a subfile that was claimed.
    pub(super) fn submit_claimed(&mut self, asker: Asker, path: &SubfilePath, action: DiskAction) {
        let ticket = self.submit(asker, path, action, 0);
        if let Some(pending) = self.pending.get_mut(&ticket) {
            pending.claims = true;
        }
    }

    /// Queues a sync, behind the others of that subfile.
    ///
    /// # Errors
    /// If an earlier one failed.
    pub(super) fn sync(&mut self, asker: Asker, path: &SubfilePath) -> Result<(), DiskError> {
        let operation = self.operation(path, DiskAction::Sync);
        let ticket = operation.ticket;
        if let Some(operation) = self.syncs.admit(operation)? {
            self.waiting.push(asker.member, operation);
        }
        self.note(ticket, asker, path, Aftermath::Sync, 0);
        Ok(())
    }

    fn note(
        &mut self,
        ticket: Ticket,
        asker: Asker,
        path: &SubfilePath,
        aftermath: Aftermath,
        reserved: u64,
    ) {
        let path = path.clone();
        let pending = Pending { asker, path, aftermath, reserved, once: None, claims: false, errand: None };
        self.pending.insert(ticket, pending);
        self.by_stream.entry(asker.stream).or_default().insert(ticket);
    }

    /// Whether anything is under way for `stream`.
    pub(super) fn is_busy_for(&self, stream: StreamId) -> bool {
        self.by_stream.contains_key(&stream)
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

    /// The next errand, if the disk has room for one more.
    pub(super) fn poll(&mut self) -> Option<Errand> {
        if self.errands.len() >= self.at_once {
            return None;
        }
        let errands = &self.errands;
        let (member, errand) = self.waiting.pop(|member| {
            let of_member = || errands.values().filter(|running| running.member == member);
            UnderWay {
                errands: of_member().count(),
                slow: of_member().filter(|running| running.is_slow).count(),
            }
        })?;
        let operations = errand.operations();
        let name = operations.first()?.ticket;
        let (left, is_slow) = (operations.len(), errand.is_slow());
        self.errands.insert(name, Running { member, left, is_slow });
        for operation in operations {
            if let Some(pending) = self.pending.get_mut(&operation.ticket) {
                pending.errand = Some(name);
            }
        }
        Some(errand)
    }

    /// Drops what was asked for on a stream that is given up, as far as the disk does not work on it yet and nobody
    /// else waits for it. Gives what will have no result.
    pub(super) fn cancel(&mut self, stream: StreamId) -> Vec<Completed> {
        let tickets = self.by_stream.get(&stream).cloned().unwrap_or_default();
        tickets.into_iter().filter_map(|ticket| self.cancel_one(ticket)).collect()
    }

    fn cancel_one(&mut self, ticket: Ticket) -> Option<Completed> {
        let pending = self.pending.get_mut(&ticket).filter(|pending| pending.errand.is_none())?;
        if pending.aftermath == Aftermath::Sync && !self.syncs.cancel(&pending.path, ticket) {
            return None;
        }
        if let Some(heir) = pending.once.and_then(|id| self.past.give_up(id)) {
            let before = std::mem::replace(&mut pending.asker.stream, heir);
            forget(&mut self.by_stream, before, ticket);
            self.by_stream.entry(heir).or_default().insert(ticket);
            return None;
        }
        let member = pending.asker.member;
        self.waiting.remove(member, ticket);
        let error = DiskError::new(SystemCall::Close, ErrorKind::Cancelled, "");
        self.take(ticket).map(|pending| pending.completed(ticket, Err(error)))
    }

    fn take(&mut self, ticket: Ticket) -> Option<Pending> {
        let pending = self.pending.remove(&ticket)?;
        forget(&mut self.by_stream, pending.asker.stream, ticket);
        if let Some(name) = pending.errand
            && let Some(running) = self.errands.get_mut(&name)
        {
            running.left -= 1;
            if running.left == 0 {
                self.errands.remove(&name);
            }
        }
        Some(pending)
    }

    /// Takes note of a result; gives it with its owner, and behind it those of syncs that have become useless by it.
    ///
    /// A result that belongs to no operation is ignored.
    pub(super) fn complete(&mut self, result: DiskResult) -> Vec<Completed> {
        for incident in result.incidents {
            self.counters.count(incident.error.call);
            self.syncs.mark_lost(&incident.path);
        }
        let Some(pending) = self.take(result.ticket) else { return Vec::new() };
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
            self.syncs.succeeded(&pending.path, pending.aftermath.clone());
        }
        let repeated = pending.once.map(|id| self.past.done(id, &outcome)).unwrap_or_default();
        let (ticket, member) = (result.ticket, pending.asker.member);
        let repeat = |stream| {
            let asker = Asker { member, stream };
            Completed { asker, ticket, reserved: 0, outcome: outcome.clone(), claim: None }
        };
        completed.extend(repeated.into_iter().map(repeat));
        completed.insert(0, pending.completed(ticket, outcome));
        completed
    }

    /// Lets the next sync of `path` run; gives those that the one that ended has served, or made useless.
    fn sync_ended(&mut self, path: &SubfilePath, outcome: &Result<DiskReply, DiskError>) -> Vec<Completed> {
        let Ended { next, with_it, useless } = self.syncs.ended(path, outcome.as_ref().err());
        if let Some(next) = next
            && let Some(pending) = self.pending.get(&next.ticket)
        {
            self.waiting.push(pending.asker.member, next);
        }
        let lost = self.syncs.refuse_lost(path).map(|()| DiskReply::default());
        let with_it = with_it.into_iter().map(|ticket| (ticket, outcome.clone()));
        let useless = useless.into_iter().map(|ticket| (ticket, lost.clone()));
        let ended: Vec<_> = with_it.chain(useless).collect();
        let complete = |(ticket, outcome)| Some(self.take(ticket)?.completed(ticket, outcome));
        ended.into_iter().filter_map(complete).collect()
    }
}

impl Pending {
    fn completed(self, ticket: Ticket, outcome: Result<DiskReply, DiskError>) -> Completed {
        let Pending { asker, reserved, claims, path, .. } = self;
        Completed { asker, ticket, reserved, outcome, claim: claims.then_some(path) }
    }
}

fn forget(by_stream: &mut BTreeMap<StreamId, BTreeSet<Ticket>>, stream: StreamId, ticket: Ticket) {
    if let Some(tickets) = by_stream.get_mut(&stream) {
        tickets.remove(&ticket);
        if tickets.is_empty() {
            by_stream.remove(&stream);
        }
    }
}
