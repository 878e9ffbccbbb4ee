//! How the program ends: the exit codes of all our programs, and failures that carry one.

use std::fmt;

use sfio_remote::client::OperationError;
use sfio_remote::io::FileError;
use sfio_remote::io::membership::ConfigError;
use sfio_remote::remote_error::ErrorKind;

/// The exit codes; `sfio --help` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
#[allow(
    dead_code,
    reason = "the list is that of all our programs; a build without demo does not use all of it"
)]
pub(crate) enum Exit {
    /// Something failed that has no code of its own.
    Failed = 1,
    /// The command line is wrong.
    Usage = 2,
    /// An input file or a configuration is wrong.
    Input = 3,
    /// The network failed; a retry may help.
    Network = 4,
    /// Data came back different.
    Integrity = 5,
    /// No space is left.
    NoSpace = 6,
    /// Some of it worked.
    Partial = 7,
    /// Interrupted by the user.
    Interrupted = 8,
    /// Another process is at it.
    Locked = 9,
}

/// What the user reads when something went wrong: one line, and the exit code.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) exit: Exit,
    message: String,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl fmt::Display) -> Failure {
        Failure { exit, message: message.to_string().replace('\n', ", ") }
    }
}

impl From<ConfigError> for Failure {
    fn from(error: ConfigError) -> Failure {
        Failure::new(Exit::Input, error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// The exit code for an operation on a striped file that failed.
pub(crate) fn exit_of(error: &FileError) -> Exit {
    match error {
        FileError::EndOfFile { .. } => Exit::Integrity,
        FileError::Ended(_) => Exit::Failed,
        FileError::OutOfPatience { error, .. } => exit_of(error),
        FileError::Operation(operation) => match operation {
            OperationError::IoNode { error, .. } => exit_of_io_node(error.kind),
            OperationError::Connect { .. }
            | OperationError::SessionClosed { .. }
            | OperationError::TimedOut { .. }
            | OperationError::Protocol { .. } => Exit::Network,
            OperationError::UnknownMember { .. } | OperationError::NotFound { .. } => Exit::Input,
            OperationError::Incomplete { .. } => Exit::Integrity,
            _ => Exit::Failed,
        },
    }
}

fn exit_of_io_node(kind: ErrorKind) -> Exit {
    match kind {
        ErrorKind::NoSpace | ErrorKind::FileTooLarge => Exit::NoSpace,
        ErrorKind::SyncLost | ErrorKind::Changed | ErrorKind::ClaimEnded => Exit::Integrity,
        ErrorKind::Claimed | ErrorKind::Taken | ErrorKind::Stale => Exit::Locked,
        ErrorKind::Overloaded | ErrorKind::Idle => Exit::Network,
        // The name is wrong: nothing that holds bytes is there.
        ErrorKind::NotFound
        | ErrorKind::IsADirectory
        | ErrorKind::NotADirectory
        | ErrorKind::NotAFile
        | ErrorKind::OutsideRoot
        | ErrorKind::NotServing => Exit::Input,
        _ => Exit::Failed,
    }
}

/// Gives an error an exit code and says what was being done.
pub(crate) trait OrFail<T> {
    fn or_fail(self, exit: Exit, what: impl fmt::Display) -> Result<T, Failure>;
}

impl<T, E: std::error::Error> OrFail<T> for Result<T, E> {
    fn or_fail(self, exit: Exit, what: impl fmt::Display) -> Result<T, Failure> {
        self.map_err(|error| Failure::new(exit, format!("{what}: {}", with_causes(&error))))
    }
}

/// An error with its causes, as far as it does not name them itself.
fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let words = error.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        cause = error.source();
    }
    text
}
