//! How the program fails: one line and an exit code [design §8].

use std::io;
use std::path::PathBuf;

use capillary::SolveError;
use capillary::format::ReadError;
use parquet::errors::ParquetError;
use program::Exit;
use ror::{BlockError, RatingError};
use thiserror::Error;

#[derive(Debug, Error)]
pub(crate) enum Failure {
    /// An argument that does not fit.
    #[error("{0}")]
    Usage(String),
    #[error("{}: {}", .0.display(), .1)]
    Read(PathBuf, ReadError),
    /// A plan or file that asks for what cannot be.
    #[error("{}: {}", .0.display(), .1)]
    Input(PathBuf, String),
    #[error("{}: {}", .0.display(), .1)]
    File(PathBuf, io::Error),
    #[error("{0}")]
    Output(program::Failure),
    #[error("{0}")]
    Solve(#[from] SolveError),
    #[error("{0}")]
    Rating(#[from] RatingError),
    #[error("{0}")]
    Block(#[from] BlockError),
    #[error("{}: {}", .0.display(), .1)]
    Parquet(PathBuf, ParquetError),
    #[error("{0}")]
    Picture(program::Failure),
    /// Rows that are not those of the plan.
    #[error("{}: {}", .0.display(), .1)]
    Damaged(PathBuf, String),
    /// Shards that nobody has finished yet.
    #[error("{}: {}", .0.display(), .1)]
    Partial(PathBuf, String),
    #[error("interrupted after {done} of {items} items; the same command goes on from there")]
    Interrupted { done: u64, items: u64 },
    #[error("{}: another run is at work on this shard", .0.display())]
    Locked(PathBuf),
}

impl Failure {
    /// For `map_err` on what is done with a file.
    pub(crate) fn at(path: &std::path::Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::File(path.to_path_buf(), error)
    }
}

impl From<Failure> for program::Failure {
    fn from(failure: Failure) -> Self {
        let exit = match failure {
            Failure::File(path, error) => return Self::file(&path, &error),
            Failure::Parquet(path, error) => return Self::library(&path, &error),
            Failure::Output(failure) | Failure::Picture(failure) => return failure,
            Failure::Usage(_) | Failure::Block(_) => Exit::Usage,
            Failure::Read(..) | Failure::Input(..) => Exit::Input,
            Failure::Damaged(..) => Exit::Integrity,
            Failure::Partial(..) => Exit::Partial,
            Failure::Interrupted { .. } => Exit::Interrupted,
            Failure::Locked(_) => Exit::Locked,
            Failure::Solve(_) | Failure::Rating(_) => Exit::Failed,
        };
        Self::new(exit, failure)
    }
}
