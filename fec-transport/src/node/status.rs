//! What a node looks like from outside, for people and tests.

use super::Node;
use crate::circuit::{CircuitCounters, CircuitStatus, DatagramCounters};
use crate::event::SessionId;
use crate::neighbour::NeighbourStatus;
use crate::session::{Session, SessionStatus};

impl Node {
    /// The sessions that are open.
    pub fn sessions(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.sessions.keys().copied()
    }

    /// What a session looks like.
    pub fn session_status(&self, session: SessionId) -> Option<SessionStatus> {
        self.sessions.get(&session).map(Session::status)
    }

    /// What became of the datagrams that arrived.
    pub fn datagram_counters(&self) -> DatagramCounters {
        self.circuits.labels().counters()
    }

    /// What became of circuits.
    pub fn circuit_counters(&self) -> CircuitCounters {
        self.circuits.counters()
    }

    /// How many circuits and labels the node keeps.
    pub fn table_sizes(&self) -> (usize, usize) {
        (self.circuits.len(), self.circuits.labels().len())
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
