//! Why a session must end: the peer owns the session's key and yet breaks its rules.

use super::epochs::BadRenewal;
use super::paths::FalseClaim;
use super::receiver::BadData;
use super::streams::TooManyStreams;
use crate::wire::Malformed;

/// What the peer did that nobody else can have done.
#[derive(Debug, thiserror::Error)]
pub(super) enum Misbehaviour {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Data(#[from] BadData),
    #[error(transparent)]
    Streams(#[from] TooManyStreams),
    #[error(transparent)]
    FalseClaim(#[from] FalseClaim),
    #[error(transparent)]
    Renewal(#[from] BadRenewal),
    #[error("it reported blocks that were never sent")]
    FalseReport,
}
