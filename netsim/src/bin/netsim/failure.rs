//! How the program fails: one line and an exit code [design §8].

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use netsim::mobility::ScenarioError;
use netsim::mobility::trace::TraceError;
use thiserror::Error;

#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// Arguments that do not fit each other or the file.
    #[error("{0}")]
    Usage(String),
    #[error("{0}")]
    Scenario(#[from] ScenarioError),
    #[error("{}: {}", .0.display(), .1)]
    Trace(PathBuf, TraceError),
    #[error("{}: {}", .0.display(), .1)]
    File(PathBuf, io::Error),
    #[error("standard output: {0}")]
    Output(io::Error),
}

impl Failure {
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) | Self::Scenario(_) => 2,
            Self::Trace(..) => 3,
            Self::File(_, error) if error.kind() == io::ErrorKind::NotFound => 3,
            Self::File(_, error) | Self::Output(error) if error.kind() == io::ErrorKind::StorageFull => 6,
            Self::File(..) | Self::Output(_) => 1,
        })
    }
}
