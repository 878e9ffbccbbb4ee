//! The ranks of a parallel program, and how they reach one another.

use std::fmt;

use bytes::Bytes;

/// The number of a process, or of a thread, in its group, counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank(pub u32);

impl Rank {
    /// As an index into a slice with one element per rank.
    pub fn index(self) -> usize {
        self.0 as usize
    }

    /// All ranks of a group of that size.
    pub(super) fn all(size: usize) -> impl DoubleEndedIterator<Item = Rank> + Clone {
        // A group with 2³² ranks has no memory to be in.
        (0..size as u32).map(Rank)
    }
}

impl fmt::Display for Rank {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {}", self.0)
    }
}

/// What a rank hears of its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// A message of another rank.
    From(Rank, Bytes),
    /// A rank has ended, or cannot be reached any more; nothing comes from it behind this.
    Lost(Rank),
}

/// What collective operations need of the ranks of a group: messages between each two of them, whole and in their
/// order, and word of a rank that was lost. Threads of a process, processes of a machine and ranks in virtual time are
/// groups; MPI could be one.
pub trait Group {
    /// Which rank this is.
    fn rank(&self) -> Rank;

    /// How many ranks there are.
    fn size(&self) -> usize;

    /// Sends a message to another rank. It does not wait: what a group holds of messages on their way is bounded by
    /// the collective operations, which send data only when it was asked for. To a rank that was lost it does nothing.
    fn send(&mut self, to: Rank, message: Bytes);

    /// What the network carries from this rank to others, in bit/s: what the rule of `compression` needs to know. None
    /// if it is as fast as memory, so that nothing is compressed.
    fn rate_bps(&self) -> Option<f64> {
        None
    }

    /// What has arrived, if anything has.
    fn poll(&mut self) -> Option<Arrival>;
}
