//! The limits of a client.

use std::time::Duration;

use crate::compression::Compression;

/// The smallest window: as many bytes as the disk of an I/O node writes in a few milliseconds at the rate of a fast
/// link. With a smaller one the client would wait for the disk.
const LEAST_WINDOW_BYTES: u64 = 8 << 20;

/// How many transfers of full size share a window.
const TRANSFERS_PER_WINDOW: u64 = 8;

/// Every limit of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientConfig {
    /// The most bytes of payload of the transfers under way to and from one I/O node, over all operations. The window
    /// is six times what the paths to it hold (bandwidth times delay; docs/decisions/windows.md), at least 8 MiB, and
    /// at most this. Default 256 MiB: twice what 10 Gbit/s at 100 ms hold. A fixed window of 2 MiB would give 21 MB/s
    /// at 100 ms.
    pub window_bytes: u64,
    /// The most bytes of payload of one transfer. Default 4 MiB. A transfer is an eighth of the window if that is less,
    /// so that the others travel while one begins or waits for its reply, and a slow link does not share itself among
    /// many megabytes of which none is complete for seconds.
    pub transfer_bytes: u64,
    /// The most bytes that one read may ask for, because they are all held in memory. Default 4 GiB.
    pub read_bytes: u64,
    /// How long a transfer may stand still while payload should flow, and nothing else of its session moves either.
    /// Default 30 s; an I/O node that is gone is noticed by its session long before.
    pub progress_timeout: Duration,
    /// How long a transfer may stand still once the I/O node has everything and only its reply is missing: its disk may
    /// be slow, a sync even slower. Default 120 s.
    pub reply_timeout: Duration,
    /// How what is read of files that are not open is compressed. Default: by the rule.
    pub compression: Compression,
    /// The most codec jobs at once. Default 8; a member's process has no more than processors.
    pub codec_jobs: usize,
}

impl ClientConfig {
    /// The window of a path that holds next to nothing, in bytes.
    pub(super) fn least_window_bytes(&self) -> u64 {
        LEAST_WINDOW_BYTES.min(self.window_bytes)
    }

    /// The most bytes of payload of one transfer within a window of that size.
    pub(super) fn transfer_limit(&self, window: u64) -> u64 {
        (window / TRANSFERS_PER_WINDOW).clamp(1, self.transfer_bytes)
    }
}

impl Default for ClientConfig {
    fn default() -> ClientConfig {
        ClientConfig {
            window_bytes: 256 << 20,
            transfer_bytes: 4 << 20,
            read_bytes: 4 << 30,
            progress_timeout: Duration::from_secs(30),
            reply_timeout: Duration::from_secs(120),
            compression: Compression::Auto,
            codec_jobs: 8,
        }
    }
}
