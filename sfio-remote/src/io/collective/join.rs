//! Why a process did not get into its group, and where groups meet.

use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fec_transport::io::message::StartError;
use fec_transport::message::AddressError;

/// Why a process did not get into its group.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// A rank that the group does not have.
    #[error("rank {rank} of a group of {size}; ranks are counted from 0")]
    NoSuchRank {
        /// The rank.
        rank: u32,
        /// The size of the group.
        size: u32,
    },
    /// The file or socket by which the others find this rank cannot be made.
    #[error("{path}: {error}; every job needs a folder of its own, in which this rank has not been")]
    Socket {
        /// Where it should be.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The others have not all come.
    #[error("after {after:?} these ranks have not come to {folder}: {missing:?}")]
    Missing {
        /// Where they should meet.
        folder: PathBuf,
        /// Which ones.
        missing: Vec<u32>,
        /// How long they were waited for.
        after: Duration,
    },
    /// The others are known, but have not all been heard.
    #[error("after {after:?} nothing has been heard of these ranks: {missing:?}")]
    Silent {
        /// Which ones.
        missing: Vec<u32>,
        /// How long they were waited for.
        after: Duration,
    },
    /// This machine does not have the address under which the others were to reach it.
    #[error("{host}: {error}; expected an address of this machine that the others can reach")]
    Host {
        /// The address.
        host: IpAddr,
        /// Why it cannot be used.
        #[source]
        error: io::Error,
    },
    /// A rank's address is none, or is of a network that the messenger does not use.
    #[error("a rank's address \"{address}\": {error}")]
    Address {
        /// The address.
        address: String,
        /// What is wrong.
        #[source]
        error: AddressError,
    },
    /// Two ranks have the same address.
    #[error("two ranks have the address \"{address}\"; each has one of its own")]
    Twice {
        /// The address.
        address: String,
    },
    /// There are no random numbers for a key.
    #[error("the operating system gives no random numbers")]
    Random,
    /// The messages cannot be carried.
    #[error(transparent)]
    Start(#[from] StartError),
    /// No thread can be started.
    #[error("the thread that hears the other ranks cannot be started")]
    Thread(#[source] io::Error),
}

/// A group of that size must have that rank.
pub(super) fn check_rank(rank: u32, size: u32) -> Result<(), JoinError> {
    match rank < size {
        true => Ok(()),
        false => Err(JoinError::NoSuchRank { rank, size }),
    }
}

/// What a rank has in the folder where a group meets, so that the others find it.
pub(super) fn meeting_point(folder: &Path, rank: u32) -> PathBuf {
    folder.join(format!("rank-{rank}"))
}
