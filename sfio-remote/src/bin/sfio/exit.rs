//! Which exit codes the errors of sfio-remote have.

use sfio_remote::client::OperationError;
use sfio_remote::io::FileError;
use sfio_remote::remote_error::ErrorKind;

pub(crate) use program::{Exit, Failure, OrFail};

/// The exit code for an operation on a striped file that failed.
pub(crate) fn exit_of(error: &FileError) -> Exit {
    match error {
        FileError::EndOfFile { .. } => Exit::Integrity,
        error if error.is_for_the_key() => Exit::Input,
        FileError::Ended(_) => Exit::Failed,
        FileError::OutOfPatience { error, .. } => exit_of(error),
        FileError::Operation(operation) => match operation {
            OperationError::IoNode { error, .. } => exit_of_io_node(error.kind),
            OperationError::Connect { .. }
            | OperationError::SessionClosed { .. }
            | OperationError::TimedOut { .. }
            | OperationError::Protocol { .. } => Exit::Network,
            OperationError::UnknownMember { .. } | OperationError::NotFound { .. } => Exit::Input,
            OperationError::Incomplete { .. } | OperationError::Restarted { .. } => Exit::Integrity,
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
        | ErrorKind::Reserved
        | ErrorKind::NotServing => Exit::Input,
        _ => Exit::Failed,
    }
}
