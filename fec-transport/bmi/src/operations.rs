//! What is pending: whose it is, and whose memory it has.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::{Mutex, MutexGuard, PoisonError};

use fec_transport::message::{Completion, ContextId, OperationError, OperationId, Posted};

use crate::error::{Failure, Outcome};
use crate::memory::Loan;

/// A pointer of the caller's, which nobody here looks behind.
#[derive(Debug, Clone, Copy)]
pub struct UserPointer(pub *mut c_void);

// SAFETY: it is carried only.
unsafe impl Send for UserPointer {}

/// The contexts that are open, and the operations that the caller knows of and whose completion he does not have yet.
///
/// C calls an operation by a number of ours, which the messenger gives back with its completion as the user pointer. So
/// everything that belongs to an operation is here before it can complete, on whatever thread.
#[derive(Default)]
pub struct Operations {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    contexts: BTreeSet<ContextId>,
    last: i64,
    pending: BTreeMap<i64, Pending>,
}

struct Pending {
    user: UserPointer,
    context: ContextId,
    /// What the messenger calls it; none while it is being posted.
    operation: Option<OperationId>,
    loan: Option<Loan>,
}

/// How an operation has ended.
#[derive(Debug)]
pub struct Ended {
    pub id: i64,
    pub user: UserPointer,
    pub result: Result<i64, Failure>,
}

impl Operations {
    pub fn open(&self, context: ContextId) {
        self.lock().contexts.insert(context);
    }

    /// The context of that number.
    pub fn context(&self, id: i64) -> Outcome<ContextId> {
        let context = u32::try_from(id).ok().map(ContextId);
        let open = context.filter(|context| self.lock().contexts.contains(context));
        open.ok_or_else(|| Failure::argument(format!("there is no context {id}")))
    }

    /// A context is closed, and the messenger has given up what was pending there.
    pub fn close(&self, context: ContextId) {
        let mut state = self.lock();
        state.contexts.remove(&context);
        let (closed, others) = std::mem::take(&mut state.pending)
            .into_iter()
            .partition(|(_, pending)| pending.context == context);
        state.pending = others;
        drop(state);
        wait_for_all(closed);
    }

    /// All contexts that are open.
    pub fn contexts(&self) -> Vec<ContextId> {
        self.lock().contexts.iter().copied().collect()
    }

    /// Takes note of an operation that is about to be posted.
    pub fn begin(&self, user: UserPointer, context: ContextId, loan: Option<Loan>) -> i64 {
        let mut state = self.lock();
        state.last += 1;
        let id = state.last;
        state.pending.insert(id, Pending { user, context, operation: None, loan });
        id
    }

    /// It was not posted, after all.
    pub fn forget(&self, id: i64) {
        let pending = self.lock().pending.remove(&id);
        if let Some(loan) = pending.and_then(|pending| pending.loan) {
            loan.wait();
        }
    }

    /// It was posted; gives how it has ended, if it has.
    pub fn posted(&self, id: i64, posted: Posted) -> Option<Ended> {
        match posted {
            Posted::Done(completion) => self.end(completion),
            Posted::Pending(operation) => {
                // Another thread may have taken its completion meanwhile.
                if let Some(pending) = self.lock().pending.get_mut(&id) {
                    pending.operation = Some(operation);
                }
                None
            }
        }
    }

    /// What the messenger calls an operation of a context.
    pub fn find(&self, id: i64, context: ContextId) -> Option<OperationId> {
        let state = self.lock();
        let pending = state.pending.get(&id).filter(|pending| pending.context == context)?;
        pending.operation
    }

    /// What the messenger calls the operation that a caller means.
    pub fn meant(&self, id: i64, context_id: i64) -> Outcome<OperationId> {
        let operation = self.find(id, self.context(context_id)?);
        let failure = || Failure::argument(format!("there is no operation {id} in context {context_id}"));
        operation.ok_or_else(failure)
    }

    /// A completion was taken. It waits until the network has let go of the operation's memory.
    pub fn end(&self, completion: Completion) -> Option<Ended> {
        let id = i64::try_from(completion.user).ok()?;
        let Pending { user, loan, .. } = self.lock().pending.remove(&id)?;
        if let Some(loan) = loan {
            loan.wait();
        }
        let is_receive = completion.room.is_some();
        let failure = |error: OperationError| Failure::of_operation(&error, is_receive);
        let result = completion.result.map(|size| size as i64).map_err(failure);
        Some(Ended { id, user, result })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Each change is whole.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wait_for_all(pending: BTreeMap<i64, Pending>) {
    pending.into_values().filter_map(|pending| pending.loan).for_each(Loan::wait);
}
