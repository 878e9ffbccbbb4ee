//! The limits of a client.

use std::time::Duration;

/// Every limit of a client.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientConfig {
    /// The most bytes of payload on the way to and from one I/O node, over all operations. Default 32 MiB: twice what a
    /// path of 1 Gbit/s and 130 ms holds. A window of 2 MiB would give 21 MB/s at 100 ms.
    pub window_bytes: u64,
    /// The most bytes of payload of one transfer. Default 4 MiB: an eighth of the window, so that the next ones are on
    /// their way while one waits for its reply.
    pub transfer_bytes: u64,
    /// The most bytes that one read may ask for, because they are all held in memory. Default 4 GiB.
    pub read_bytes: u64,
    /// How long a transfer may stand still while payload should flow, and nothing else of its session moves either.
    /// Default 30 s; an I/O node that is gone is noticed by its session long before.
    pub progress_timeout: Duration,
    /// The same once the I/O node has everything and its reply is all that is missing: its disk may be slow, a sync even
    /// slower. Default 120 s.
    pub reply_timeout: Duration,
}

impl Default for ClientConfig {
    fn default() -> ClientConfig {
        ClientConfig {
            window_bytes: 32 << 20,
            transfer_bytes: 4 << 20,
            read_bytes: 4 << 30,
            progress_timeout: Duration::from_secs(30),
            reply_timeout: Duration::from_secs(120),
        }
    }
}
