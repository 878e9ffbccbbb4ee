//! Who waits for which operation: what is pending, and what has completed, by context.

use std::collections::{BTreeMap, BTreeSet};

use super::operation::{Completion, ContextId, Deadline, NoOperation, OperationError, OperationId};
use super::room::Room;
use super::transfer::Transfer;
use crate::time::Time;

/// The operations of a messenger.
///
/// Nothing here looks at all operations: each step costs the logarithm of their number.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    contexts: BTreeMap<ContextId, Context>,
    operations: BTreeMap<OperationId, State>,
    deadlines: BTreeSet<(Time, OperationId)>,
    last_context: u32,
    last_operation: u64,
    /// How many operations have completed so far.
    completed: u64,
}

/// What has completed in a context, in that order, and what is pending there.
#[derive(Debug, Default)]
struct Context {
    done: BTreeMap<u64, Completion>,
    pending: BTreeSet<OperationId>,
}

#[derive(Debug)]
enum State {
    Pending(Pending),
    /// Where in its context its completion waits.
    Done(ContextId, u64),
}

/// An operation that is under way.
#[derive(Debug)]
struct Pending {
    context: ContextId,
    user: u64,
    deadline: Option<Deadline>,
    transfer: Transfer,
}

impl Contexts {
    pub(super) fn open(&mut self) -> ContextId {
        self.last_context += 1;
        let id = ContextId(self.last_context);
        self.contexts.insert(id, Context::default());
        id
    }

    pub(super) fn is_open(&self, context: ContextId) -> bool {
        self.contexts.contains_key(&context)
    }

    /// The operations that are pending in a context.
    pub(super) fn pending(&self, context: ContextId) -> Vec<OperationId> {
        self.contexts
            .get(&context)
            .map(|context| context.pending.iter().copied().collect())
            .unwrap_or_default()
    }

    /// Forgets a context without pending operations, and what has completed there.
    pub(super) fn close(&mut self, context: ContextId) {
        let Some(closed) = self.contexts.remove(&context) else { return };
        for completion in closed.done.into_values() {
            self.operations.remove(&completion.operation);
        }
    }

    /// A new operation of an open context.
    pub(super) fn begin(
        &mut self,
        context: ContextId,
        user: u64,
        deadline: Option<Deadline>,
        transfer: Transfer,
    ) -> OperationId {
        self.last_operation += 1;
        let id = OperationId(self.last_operation);
        if let Some(deadline) = deadline {
            self.deadlines.insert((deadline.at, id));
        }
        if let Some(context) = self.contexts.get_mut(&context) {
            context.pending.insert(id);
        }
        self.operations.insert(id, State::Pending(Pending { context, user, deadline, transfer }));
        id
    }

    /// Whether there is such an operation, or its completion.
    pub(super) fn contains(&self, operation: OperationId) -> bool {
        self.operations.contains_key(&operation)
    }

    /// What a pending operation does.
    pub(super) fn transfer(&mut self, operation: OperationId) -> Option<&mut Transfer> {
        match self.operations.get_mut(&operation)? {
            State::Pending(pending) => Some(&mut pending.transfer),
            State::Done(..) => None,
        }
    }

    /// Within which time the operation was to be complete.
    pub(super) fn deadline(&self, operation: OperationId) -> Option<Deadline> {
        match self.operations.get(&operation)? {
            State::Pending(pending) => pending.deadline,
            State::Done(..) => None,
        }
    }

    /// A pending operation has ended.
    pub(super) fn complete(&mut self, operation: OperationId, result: Result<u64, OperationError>) {
        let Some(State::Pending(pending)) = self.operations.remove(&operation) else {
            debug_assert!(false, "{operation:?} was not pending");
            return;
        };
        if let Some(deadline) = pending.deadline {
            self.deadlines.remove(&(deadline.at, operation));
        }
        let room: Option<Room> = pending.transfer.into_room();
        self.completed += 1;
        if let Some(context) = self.contexts.get_mut(&pending.context) {
            context.pending.remove(&operation);
            context.done.insert(self.completed, Completion { operation, user: pending.user, result, room });
            self.operations.insert(operation, State::Done(pending.context, self.completed));
        }
    }

    /// Takes the completion of an operation, if it has ended.
    pub(super) fn test(&mut self, operation: OperationId) -> Result<Option<Completion>, NoOperation> {
        let (context, place) = match self.operations.get(&operation) {
            None => return Err(NoOperation(operation)),
            Some(State::Pending(_)) => return Ok(None),
            Some(State::Done(context, place)) => (*context, *place),
        };
        self.operations.remove(&operation);
        Ok(self.contexts.get_mut(&context).and_then(|context| context.done.remove(&place)))
    }

    /// Takes the completion that came first in a context.
    pub(super) fn test_context(&mut self, context: ContextId) -> Option<Completion> {
        let (_, completion) = self.contexts.get_mut(&context)?.done.pop_first()?;
        self.operations.remove(&completion.operation);
        Some(completion)
    }

    /// How many operations have completed so far; whoever waits looks whether it has changed.
    pub(super) fn completed(&self) -> u64 {
        self.completed
    }

    /// How many operations there are, those included whose completion nobody has taken.
    pub(super) fn len(&self) -> usize {
        self.operations.len()
    }

    /// When the next operation runs out of time.
    pub(super) fn next_deadline(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// An operation whose time has passed.
    pub(super) fn overdue(&self, now: Time) -> Option<OperationId> {
        self.deadlines.first().filter(|(at, _)| *at <= now).map(|(_, operation)| *operation)
    }
}
