//! How the program fails: one line and an exit code [design §8].

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use capillary::SolveError;
use capillary::format::ReadError;
use parquet::errors::ParquetError;
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
    #[error("standard output: {0}")]
    Output(io::Error),
    #[error("{0}")]
    Solve(#[from] SolveError),
    #[error("{0}")]
    Rating(#[from] RatingError),
    #[error("{0}")]
    Block(#[from] BlockError),
    #[error("{}: {}", .0.display(), .1)]
    Parquet(PathBuf, ParquetError),
    #[error("the picture: {0}")]
    Picture(String),
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
    pub(crate) fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Usage(_) | Self::Block(_) => 2,
            Self::Read(..) | Self::Input(..) => 3,
            Self::File(_, error) if error.kind() == io::ErrorKind::NotFound => 3,
            Self::File(_, error) if error.kind() == io::ErrorKind::StorageFull => 6,
            Self::Damaged(..) => 5,
            Self::Partial(..) => 7,
            Self::Interrupted { .. } => 8,
            Self::Locked(_) => 9,
            Self::File(..)
            | Self::Output(_)
            | Self::Solve(_)
            | Self::Rating(_)
            | Self::Parquet(..)
            | Self::Picture(_) => 1,
        })
    }

    /// For `map_err` on what is done with a file.
    pub(crate) fn at(path: &std::path::Path) -> impl Fn(io::Error) -> Self {
        move |error| Self::File(path.to_path_buf(), error)
    }
}
