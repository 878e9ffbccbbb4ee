//! How a caller asks a client for an operation, and how it is told.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::error::OperationError;
use super::operation::{Operation, Planning, Step};

/// An operation of a client; the caller chooses the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationId(pub u64);

/// An operation together with the place where its result goes.
pub struct Action {
    name: &'static str,
    payload_bytes: u64,
    begin: Begin,
}

/// Plans the operation, or ends it with the error for which it cannot be planned.
type Begin = Box<dyn FnOnce(Result<&Planning<'_>, OperationError>) -> Step + Send>;

/// Tells a caller what came of an operation.
pub(super) type Delivery = Box<dyn FnOnce() + Send>;

/// An operation has ended.
pub struct Completion {
    operation: OperationId,
    delivery: Delivery,
}

/// The place where the result of an operation will lie.
#[derive(Debug)]
pub struct Receipt<A>(Arc<Mutex<Option<Result<A, OperationError>>>>);

impl Action {
    /// An operation, and what is done with its result when the [`Completion`] is delivered. If the client itself ends
    /// before the operation, `tell` is dropped.
    pub fn new<O: Operation>(
        operation: O,
        tell: impl FnOnce(Result<O::Answer, OperationError>) + Send + 'static,
    ) -> Action {
        let payload_bytes = operation.payload_bytes();
        let begin: Begin =
            Box::new(move |planning| match planning.and_then(|planning| operation.plan(planning)) {
                Ok(plan) => plan.begin(tell),
                Err(error) => Step::done(tell, Err(error)),
            });
        Action { name: std::any::type_name::<O>(), payload_bytes, begin }
    }

    /// An operation, and the place where its result can be looked for.
    pub fn with_receipt<O: Operation>(operation: O) -> (Action, Receipt<O::Answer>) {
        let place = Arc::new(Mutex::new(None));
        let receipt = Receipt(Arc::clone(&place));
        let tell = move |result| *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(result);
        (Action::new(operation, tell), receipt)
    }

    /// How many bytes of the caller it moves, at most.
    pub fn payload_bytes(&self) -> u64 {
        self.payload_bytes
    }

    pub(super) fn begin(self, planning: &Planning<'_>) -> Step {
        (self.begin)(Ok(planning))
    }

    pub(super) fn refuse(self, error: OperationError) -> Step {
        (self.begin)(Err(error))
    }
}

impl Completion {
    pub(super) fn new(operation: OperationId, delivery: Delivery) -> Completion {
        Completion { operation, delivery }
    }

    /// Which operation has ended.
    pub fn operation(&self) -> OperationId {
        self.operation
    }

    /// Tells the caller of the operation.
    pub fn deliver(self) {
        (self.delivery)();
    }
}

impl<A> Receipt<A> {
    /// The result, once it is there; it is given once.
    pub fn take(&self) -> Option<Result<A, OperationError>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Action").field(&self.name).finish()
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Completion").field(&self.operation).finish()
    }
}
