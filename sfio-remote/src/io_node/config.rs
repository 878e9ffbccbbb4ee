//! The limits of an I/O node.

use std::time::Duration;

use super::AccessRules;
use crate::compression::Compression;

/// Every limit of an I/O node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IoNodeConfig {
    /// Bytes of payload between network and disk, over all transfers. A member may hold as much of it as it leaves free
    /// for others (one alone half, of two that want more a third each), and the bytes of one disk operation whatever
    /// others hold. Beyond that its streams are not read, which holds their senders back, and nothing is read ahead.
    /// Default 64 MiB.
    pub memory_bytes: u64,
    /// Bytes of requests and of short replies, shared in the same way; each member may have 1 MiB. What exceeds it is
    /// refused. Default 16 MiB.
    pub request_bytes: u64,
    /// The most bytes of one disk operation. Default 1 MiB: large enough that its fixed cost does not matter, small
    /// enough that network and disk work at the same time.
    pub piece_bytes: u64,
    /// The most disk operations of one transfer at a time, written behind or read ahead. Default 4.
    pub operations_per_transfer: usize,
    /// The most transfers at a time over all sessions of one member; more are refused. Default 512.
    pub transfers_per_member: usize,
    /// The most disk operations at once; what waits, waits in the I/O node, where members take turns. Default 8: enough
    /// for the queues of one solid-state disk.
    pub disk_operations: usize,
    /// After this time without any progress a transfer is given up, if nothing else of its session moves either. The
    /// disk may take longer. Default 30 s.
    pub idle_timeout: Duration,
    /// What each member may do. Default: nothing, for nobody.
    pub access: AccessRules,
    /// For how long the bytes of a run that is not needed any more are kept for those who still read them: since the
    /// record that says so, the last mark of a reader, or the start of the I/O node, whichever was last. Default 1 h.
    pub reclaim_after: Duration,
    /// How what is read is compressed, if the client's request has frames: by the rule, or whatever the request says,
    /// not at all. Default: by the rule.
    pub compression: Compression,
    /// The most codec jobs at once. Default 8; a member's process has no more than processors.
    pub codec_jobs: usize,
}

impl Default for IoNodeConfig {
    fn default() -> IoNodeConfig {
        IoNodeConfig {
            memory_bytes: 64 << 20,
            request_bytes: 16 << 20,
            piece_bytes: 1 << 20,
            operations_per_transfer: 4,
            transfers_per_member: 512,
            disk_operations: 8,
            idle_timeout: Duration::from_secs(30),
            access: AccessRules::default(),
            reclaim_after: Duration::from_secs(3_600),
            compression: Compression::Auto,
            codec_jobs: 8,
        }
    }
}
