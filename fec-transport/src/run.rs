//! Datagrams that leave together, for one neighbour: a session writes the headers of its packets, and whoever sends
//! them does the rest.
//!
//! The rest is what touches every byte: the symbols are copied behind their headers, sealed in place, and the kernel
//! copies them again. On one thread, in a buffer that never leaves the cache next to it, that takes half as long.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;

use crate::crypto::hop_tag::{self, HopKey};
use crate::crypto::seal::SealKey;
use crate::overlay::Adjacency;
use crate::wire::hop::{self, AEAD_TAG, HOP_HEADER};
use crate::wire::packet::RECEIPT;
use crate::wire::symbol::SYMBOL_HEADER;

/// Bytes that come before the symbol in a packet.
pub(crate) const HEADERS: usize = HOP_HEADER + RECEIPT + SYMBOL_HEADER;

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

/// Datagrams to one neighbour, and what is still to be done with them before they go.
#[derive(Debug, Clone)]
pub struct Run {
    /// Where they go.
    pub transmit: Transmit,
    /// What completes them if there are only their headers yet.
    pub seal: Option<RunSeal>,
}

impl Run {
    /// Bytes of the complete datagrams, if `buffer` has what [`Node::poll_run`](crate::Node::poll_run) wrote.
    pub fn length(&self, buffer: &[u8]) -> usize {
        self.seal.as_ref().map_or(buffer.len(), RunSeal::length)
    }
}

/// Symbols of equal size, one for each of successive packets.
#[derive(Debug, Clone)]
pub(crate) struct Symbols {
    pub(crate) count: usize,
    pub(crate) size: usize,
    pub(crate) content: Content,
}

/// The bytes of symbols, `count × size` of them.
#[derive(Debug, Clone)]
pub(crate) enum Content {
    /// They are here.
    Here(Bytes),
    /// They are made by whoever completes the run.
    Later(Arc<dyn LateSymbols>),
}

/// Symbols that are made when they are sent, on the thread that seals them: what they are made of has just passed it.
pub(crate) trait LateSymbols: fmt::Debug + Send + Sync {
    /// Appends them, one behind the other.
    fn append(&self, out: &mut Vec<u8>);
}

/// What completes the packets of a run: their symbols and the keys that seal and sign them. It needs nothing else of
/// the session, so any thread can do it.
#[derive(Debug, Clone)]
pub struct RunSeal {
    key: Arc<SealKey>,
    hop_key: HopKey,
    path: u32,
    symbols: Vec<Symbols>,
}

impl Symbols {
    /// Their bytes; those that are not here yet are made in `made`.
    pub(crate) fn bytes<'a>(&'a self, made: &'a mut Vec<u8>) -> &'a [u8] {
        match &self.content {
            Content::Here(bytes) => bytes,
            Content::Later(symbols) => {
                made.clear();
                symbols.append(made);
                made
            }
        }
    }
}

impl RunSeal {
    pub(crate) fn new(key: Arc<SealKey>, hop_key: HopKey, path: u32, symbols: Vec<Symbols>) -> RunSeal {
        RunSeal { key, hop_key, path, symbols }
    }

    /// Packets of the run.
    #[must_use]
    pub fn packets(&self) -> usize {
        self.symbols.iter().map(|symbols| symbols.count).sum()
    }

    /// Bytes of the run when it is complete.
    #[must_use]
    pub fn length(&self) -> usize {
        let overhead = self.packets() * (HEADERS + AEAD_TAG);
        overhead + self.symbols.iter().map(|symbols| symbols.count * symbols.size).sum::<usize>()
    }

    /// Appends the complete packets to `packets`; `headers` are what [`Node::poll_run`](crate::Node::poll_run) wrote.
    pub fn complete(&self, headers: &[u8], packets: &mut Vec<u8>) {
        debug_assert_eq!(headers.len(), self.packets() * HEADERS);
        packets.reserve(self.length());
        let (mut headers, mut made) = (headers.chunks_exact(HEADERS), Vec::new());
        for symbols in &self.symbols {
            let bytes = symbols.bytes(&mut made);
            for (index, header) in headers.by_ref().take(symbols.count).enumerate() {
                self.complete_one(header, &bytes[index * symbols.size..][..symbols.size], packets);
            }
        }
    }

    fn complete_one(&self, header: &[u8], symbol: &[u8], packets: &mut Vec<u8>) {
        let start = packets.len();
        packets.extend_from_slice(header);
        packets.extend_from_slice(symbol);
        self.key.seal(self.path, hop::number_of(header), packets, start);
        hop_tag::sign(&mut packets[start..], &self.hop_key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::hop::{HopHeader, Label, PacketType};

    #[derive(Debug)]
    struct FirstOther;

    impl LateSymbols for FirstOther {
        fn append(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(b"firstother");
        }
    }

    #[test]
    fn a_run_is_completed_as_if_each_packet_were_sealed_alone() {
        let (key, hop_key) = (Arc::new(SealKey::new(&[3; 32])), HopKey::new([4; 16]));
        let (mut headers, mut alone) = (Vec::new(), Vec::new());
        for (number, symbol) in [(7, &b"first"[..]), (8, b"other"), (9, b"end"), (10, b"")] {
            let start = alone.len();
            let header = HopHeader { packet_type: PacketType::Sealed, epoch: 1, number, label: Label(5) };
            header.emit(&mut alone);
            alone.extend_from_slice(&[number as u8; RECEIPT + SYMBOL_HEADER]);
            headers.extend_from_slice(&alone[start..]);
            alone.extend_from_slice(symbol);
            key.seal(6, number, &mut alone, start);
            hop_tag::sign(&mut alone[start..], &hop_key);
        }
        let symbols = |count, bytes: &'static [u8]| Symbols {
            count,
            size: bytes.len() / count,
            content: Content::Here(bytes.into()),
        };
        let late = Symbols { count: 2, size: 5, content: Content::Later(Arc::new(FirstOther)) };
        let symbols = vec![late, symbols(1, b"end"), symbols(1, b"")];
        let run = RunSeal::new(key, hop_key, 6, symbols);
        let mut packets = Vec::new();
        run.complete(&headers, &mut packets);
        assert_eq!(packets, alone);
        assert_eq!((run.packets(), run.length()), (4, alone.len()));
    }
}
