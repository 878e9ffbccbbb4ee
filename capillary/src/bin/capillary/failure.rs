//! How the program fails: one line and an exit code [design §8].

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use capillary::cli::LoadError;
use capillary::format::ReadError;
use capillary::{CertificateError, SolveError};
use thiserror::Error;

#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// An argument that does not fit the file.
    #[error("{0}")]
    Usage(String),
    #[error("{}: {}", .0.display(), .1)]
    Read(PathBuf, ReadError),
    #[error("{}: {}", .0.display(), .1)]
    Input(PathBuf, String),
    #[error("{}: {}", .0.display(), .1)]
    File(PathBuf, io::Error),
    #[error("standard output: {0}")]
    Output(io::Error),
    #[error("{0}")]
    Solve(SolveError),
    /// A fault of ours, which the solver's certificate brought to light.
    #[error("the result fails its own proof: {0}")]
    Unproven(CertificateError),
}

impl Failure {
    /// Why the topology file at `path` was not loaded.
    pub(crate) fn of_load(path: &Path, error: LoadError) -> Self {
        match error {
            LoadError::File(error) => Self::File(path.to_path_buf(), error),
            LoadError::Read(error) => Self::Read(path.to_path_buf(), error),
        }
    }

    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) => 2,
            Self::Read(..) | Self::Input(..) => 3,
            Self::File(_, error) if error.kind() == io::ErrorKind::NotFound => 3,
            Self::File(_, error) if error.kind() == io::ErrorKind::StorageFull => 6,
            Self::File(..) | Self::Output(_) | Self::Solve(_) | Self::Unproven(_) => 1,
        })
    }
}
