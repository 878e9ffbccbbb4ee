//! What a session looks like from outside, for people and tests.

use super::delivery::Delivery;
use super::paths::PathStatus;
use super::receiver::ReceiveCounters;
use super::sender::SendCounters;
use crate::overlay::{LinkId, Peer};
use crate::time::Time;

/// What a session looks like from outside.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionStatus {
    /// The process at the other end.
    pub peer: Peer,
    /// When something was heard from it last, over whatever path.
    pub last_heard: Time,
    /// How many handshakes have renewed its keys.
    pub epoch: u32,
    /// Whether the peer opened it.
    pub incoming: bool,
    /// Streams that are open in either direction.
    pub streams: usize,
    /// Its paths.
    pub paths: Vec<PathStatus>,
    /// What it has received. A pause may mean that the peer had nothing to send.
    pub delivery: Delivery,
    /// What the peer has acknowledged. A pause means that data was on the way and nothing arrived.
    pub acknowledged: Delivery,
    /// What became of the blocks and symbols that it sent.
    pub sent: SendCounters,
    /// What became of the symbols that it received.
    pub received: ReceiveCounters,
    /// Packets that came over a right label and did not open.
    pub dropped: u64,
    /// Bytes of memory for data on its way in and out.
    pub memory: usize,
    /// Bytes of streams that were written and that the peer has not acknowledged.
    pub unacknowledged: usize,
    /// Links that carry too large a share of what is masked now to be masked themselves.
    pub unmaskable: Vec<LinkId>,
}
