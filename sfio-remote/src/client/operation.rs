//! What every operation has in common: it plans its stages, and the last one gives its answer.

use std::fmt;
use std::sync::Arc;

use fec_transport::overlay::MemberId;

use super::error::OperationError;
use super::file::Layout;
use super::files::{FileId, Files, OpenFile};
use super::stage::Stage;
use super::{ClientConfig, Delivery};
use crate::compression::Compression;
use crate::distribution::StripeUnit;
use crate::name::FileName;
use crate::transport::Transport;

/// Something to do with striped files, with an answer of its own type; the module [`operations`](super::operations) has
/// all that there are.
///
/// Operations run at once and in no order: a caller that wants one after the other waits for the first.
pub trait Operation: Send + 'static {
    /// What it answers when it has succeeded.
    type Answer: Send + 'static;

    /// What it does at which subfiles, and what follows.
    ///
    /// # Errors
    /// If it is not possible, whatever the I/O nodes would say.
    fn plan(self, planning: &Planning<'_>) -> Result<Plan<Self::Answer>, OperationError>;

    /// How many bytes of the caller it moves, at most.
    fn payload_bytes(&self) -> u64 {
        0
    }
}

/// What an operation may look at while it is planned.
pub struct Planning<'a> {
    files: &'a Files,
    config: &'a ClientConfig,
    transport: &'a dyn Transport,
}

/// A stage, and what follows when all its parts are finished.
pub struct Plan<A> {
    stage: Stage,
    then: Then<A>,
}

/// What follows a stage.
pub(super) enum Next<A> {
    /// The operation has its answer.
    Answer(A),
    /// There is a further stage.
    Plan(Box<Plan<A>>),
}

type Then<A> = Box<dyn FnOnce(Stage, &mut Files) -> Result<Next<A>, OperationError> + Send>;

/// An operation under way. What it answers is known only to the function that ends its stages.
pub(super) struct Running {
    stage: Stage,
    ended: Ended,
}

/// What an operation does next.
pub(super) enum Step {
    /// Its next stage.
    Stage(Running),
    /// Nothing: it has ended, and its caller can be told.
    Done(Delivery),
}

/// Takes the finished stage, or the error that ended it.
type Ended = Box<dyn FnOnce(Result<Stage, OperationError>, &mut Files) -> Step + Send>;

impl<'a> Planning<'a> {
    pub(super) fn new(
        files: &'a Files,
        config: &'a ClientConfig,
        transport: &'a dyn Transport,
    ) -> Planning<'a> {
        Planning { files, config, transport }
    }

    /// A file that is open.
    pub(super) fn file(&self, file: FileId) -> Result<&OpenFile, OperationError> {
        self.files.get(file)
    }

    /// Where the bytes of a file are, which need not be open.
    pub(super) fn layout(
        &self,
        name: FileName,
        stripe_unit: StripeUnit,
    ) -> Result<Arc<Layout>, OperationError> {
        Layout::resolve(name, stripe_unit, self.transport).map(Arc::new)
    }

    /// The member of that name.
    pub(super) fn member(&self, name: &str) -> Result<MemberId, OperationError> {
        let unknown = || OperationError::UnknownMember { member: name.to_owned() };
        self.transport.find_member(name).ok_or_else(unknown)
    }

    /// How what is read of files that are not open is compressed.
    pub(super) fn compression(&self) -> Compression {
        self.config.compression
    }

    /// The most bytes that one read may ask for.
    pub(super) fn read_limit(&self) -> u64 {
        self.config.read_bytes
    }
}

impl Stage {
    /// This stage is the only one, and what it brought gives the answer.
    pub(super) fn answers<A>(
        self,
        answer: impl FnOnce(Stage) -> Result<A, OperationError> + Send + 'static,
    ) -> Plan<A> {
        self.then(|stage, _| answer(stage).map(Next::Answer))
    }

    /// What follows this stage: an answer, or another stage. The open files may change on that occasion.
    pub(super) fn then<A>(
        self,
        then: impl FnOnce(Stage, &mut Files) -> Result<Next<A>, OperationError> + Send + 'static,
    ) -> Plan<A> {
        Plan { stage: self, then: Box::new(then) }
    }
}

impl<A: Send + 'static> Plan<A> {
    /// The first step of an operation whose result goes to `tell`.
    pub(super) fn begin(self, tell: impl FnOnce(Result<A, OperationError>) + Send + 'static) -> Step {
        let Plan { stage, then } = self;
        let ended: Ended = Box::new(move |stage, files| match stage.and_then(|stage| then(stage, files)) {
            Ok(Next::Answer(answer)) => Step::done(tell, Ok(answer)),
            Ok(Next::Plan(plan)) => plan.begin(tell),
            Err(error) => Step::done(tell, Err(error)),
        });
        Step::Stage(Running { stage, ended })
    }
}

impl Step {
    /// The operation has ended like that.
    pub(super) fn done<A: Send + 'static>(
        tell: impl FnOnce(Result<A, OperationError>) + Send + 'static,
        result: Result<A, OperationError>,
    ) -> Step {
        Step::Done(Box::new(move || tell(result)))
    }
}

impl Running {
    pub(super) fn stage(&self) -> &Stage {
        &self.stage
    }

    pub(super) fn stage_mut(&mut self) -> &mut Stage {
        &mut self.stage
    }

    /// All parts of the stage are finished.
    pub(super) fn finish(self, files: &mut Files) -> Step {
        (self.ended)(Ok(self.stage), files)
    }

    /// The operation has failed.
    pub(super) fn fail(self, error: OperationError, files: &mut Files) -> Step {
        (self.ended)(Err(error), files)
    }
}

impl fmt::Debug for Running {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Running").field("stage", &self.stage).finish_non_exhaustive()
    }
}
