//! Datagrams that leave together, for one neighbour.

use crate::overlay::Adjacency;

/// One or more datagrams of equal size, of which the last may be shorter, to one neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    /// The neighbour, and the link to it.
    pub to: Adjacency,
    /// Bytes of each datagram but the last.
    pub segment_size: usize,
    /// How they are marked.
    pub ecn: Ecn,
}

/// The two bits of explicit congestion notification in an IP header (RFC 3168): relays pass them on as they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Ecn(u8);

impl Ecn {
    /// The mark that the two lowest bits are.
    pub const fn from_bits(bits: u8) -> Ecn {
        Ecn(bits & 3)
    }

    /// The two bits.
    pub fn bits(self) -> u8 {
        self.0
    }
}

impl Transmit {
    /// Datagrams of our own, which bear no mark.
    pub(crate) fn unmarked(to: Adjacency, segment_size: usize) -> Transmit {
        Transmit { to, segment_size, ecn: Ecn::default() }
    }
}
