//! Why a collective call failed.

use super::group::Rank;

/// Why a collective call failed. All ranks of the group that are still there learn of it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CollectiveError {
    /// A rank ended, or cannot be reached any more, before it had done its part. What the call was to write may have
    /// been written in parts; the group is of no further use.
    #[error("{rank} was lost")]
    RankLost {
        /// Which one.
        rank: Rank,
    },
    /// A rank is in another call than this one. Nothing was read or written, and the group can go on.
    #[error(
        "{rank} is in {theirs}, this rank in {ours}: all ranks must make the same calls in the same order"
    )]
    OtherCall {
        /// Which one.
        rank: Rank,
        /// Its call.
        theirs: String,
        /// The call of this rank.
        ours: String,
    },
    /// A rank could not do its part.
    #[error("{rank}: {fault}")]
    RankFailed {
        /// Which one.
        rank: Rank,
        /// What went wrong there.
        fault: String,
    },
    /// A rank sent what it must not. The group is of no further use.
    #[error("{rank} broke the rules: {fault}")]
    Broken {
        /// Which one.
        rank: Rank,
        /// What it did.
        fault: String,
    },
    /// This rank is in no group any more: a call was dropped before it had ended.
    #[error("this rank has left its group: a collective call was given up before its end")]
    Left,
}
