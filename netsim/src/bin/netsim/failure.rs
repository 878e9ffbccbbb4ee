//! How the program fails: one line and an exit code [design §8].

use std::io;
use std::path::PathBuf;

use netsim::mobility::ScenarioError;
use netsim::mobility::trace::TraceError;
use program::Exit;
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
    #[error("{0}")]
    Output(program::Failure),
}

impl From<Failure> for program::Failure {
    fn from(failure: Failure) -> Self {
        let exit = match failure {
            Failure::Usage(_) | Failure::Scenario(_) => Exit::Usage,
            Failure::Trace(..) => Exit::Input,
            Failure::File(path, error) => return Self::file(&path, &error),
            Failure::Output(failure) => return failure,
        };
        Self::new(exit, failure)
    }
}
