//! What a node looks like from outside, for people and tests.

use super::Node;
use crate::circuit::{CircuitCounters, CircuitStatus, DatagramCounters};
use crate::event::SessionId;
use crate::neighbour::NeighbourStatus;
use crate::overlay::{LinkId, Peer};
use crate::session::{Delivery, PathStatus, ReceiveCounters, SendCounters};

/// What a session looks like from outside.
#[derive(Debug, Clone, PartialEq)]
pub struct SessionStatus {
    /// Who is at the other end.
    pub peer: Peer,
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
    /// Links that carry too large a share of what is masked now to be masked themselves.
    pub unmaskable: Vec<LinkId>,
}

impl Node {
    /// The sessions that are open.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.sessions.keys().copied()
    }

    /// What a session looks like.
    pub fn session_status(&self, session: SessionId) -> Option<SessionStatus> {
        self.sessions.get(&session).map(|session| SessionStatus {
            peer: session.peer,
            epoch: session.epoch(),
            incoming: !session.is_initiator(),
            streams: session.stream_count(),
            dropped: session.dropped(),
            paths: session.path_statuses(),
            delivery: session.delivery(),
            acknowledged: session.acknowledged(),
            sent: session.send_counters(),
            received: session.receive_counters(),
            memory: session.memory(),
            unmaskable: session.unmaskable_links(),
        })
    }

    /// What became of the datagrams that arrived.
    pub fn datagram_counters(&self) -> DatagramCounters {
        self.circuits.labels.counters
    }

    /// What became of circuits.
    pub fn circuit_counters(&self) -> CircuitCounters {
        self.circuits.counters()
    }

    /// How many circuits and labels the node keeps.
    pub fn table_sizes(&self) -> (usize, usize) {
        (self.circuits.len(), self.circuits.labels.len())
    }

    /// The circuits that this node knows: its own, those that it relays, and those that end here.
    pub fn circuits(&self) -> impl Iterator<Item = CircuitStatus> + '_ {
        self.circuits.statuses()
    }

    /// The neighbours' processes that are connected or were lately: whether, and since when.
    pub fn neighbours(&self) -> impl Iterator<Item = NeighbourStatus> + '_ {
        self.neighbours.statuses()
    }

    /// Control messages of neighbours that were malformed.
    pub fn malformed_control(&self) -> u64 {
        self.malformed_control
    }

    /// How many neighbours' processes are connected or were lately.
    pub fn neighbour_count(&self) -> usize {
        self.neighbours.count()
    }
}
