//! Packets with symbols that leave on one path together.
//!
//! Their headers are written first, and then everything that touches each byte of them is done in one place: the
//! symbols are copied behind their headers and sealed there. The caller hands the packets to the kernel next, which
//! copies them again while they are still in the cache of the same processor.

use bytes::Bytes;

use super::epochs::Seal;
use super::paths::PathId;
use crate::crypto::hop_tag::{self, HopKey};
use crate::wire::SYMBOL_OVERHEAD;
use crate::wire::hop::{self, HOP_HEADER};
use crate::wire::packet::RECEIPT;
use crate::wire::symbol::SYMBOL_HEADER;

/// Bytes that come before the symbol in a packet.
pub(crate) const HEADERS: usize = HOP_HEADER + RECEIPT + SYMBOL_HEADER;

/// Symbols of equal size, one for each of successive packets.
#[derive(Debug, Clone)]
pub(crate) struct Symbols {
    pub(crate) count: usize,
    pub(crate) size: usize,
    /// `count × size` of them, one symbol behind the other.
    pub(crate) bytes: Bytes,
}

/// What the packets of a path are sealed and signed with.
#[derive(Debug)]
pub(crate) struct PacketSeal<'a> {
    pub(crate) path: PathId,
    pub(crate) seal: Seal<'a>,
    pub(crate) hop_key: &'a HopKey,
}

/// Bytes of the datagram that carries a symbol.
pub(crate) fn packet_size(symbol_size: usize) -> usize {
    symbol_size + SYMBOL_OVERHEAD
}

impl PacketSeal<'_> {
    /// Appends a packet for each of `headers`, which lie one behind the other, and of `symbols`.
    pub(crate) fn append(&self, headers: &[u8], symbols: &[Symbols], packets: &mut Vec<u8>) {
        let mut headers = headers.chunks_exact(HEADERS);
        for Symbols { count, size, bytes } in symbols {
            packets.reserve(count * packet_size(*size));
            for (index, header) in headers.by_ref().take(*count).enumerate() {
                self.append_one(header, &bytes[index * size..][..*size], packets);
            }
        }
        debug_assert_eq!(headers.len(), 0, "each header has its symbol");
    }

    fn append_one(&self, header: &[u8], symbol: &[u8], packets: &mut Vec<u8>) {
        let start = packets.len();
        packets.extend_from_slice(header);
        packets.extend_from_slice(symbol);
        self.close(hop::number_of(header), packets, start);
    }

    /// Seals and signs the packet of that number, which is all that is behind `start`.
    pub(crate) fn close(&self, number: u64, packets: &mut Vec<u8>, start: usize) {
        self.seal.key.seal(self.path.0, number, packets, start);
        hop_tag::sign(&mut packets[start..], self.hop_key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crypto::seal::SealKey;
    use crate::wire::hop::{HopHeader, Label, PacketType};

    #[test]
    fn packets_of_a_run_are_those_that_are_sealed_alone() {
        let (key, hop_key) = (SealKey::new(&[3; 32]), HopKey::new([4; 16]));
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
        let symbols =
            |count, bytes: &'static [u8]| Symbols { count, size: bytes.len() / count, bytes: bytes.into() };
        let symbols = [symbols(2, b"firstother"), symbols(1, b"end"), symbols(1, b"")];
        let with = PacketSeal { path: PathId(6), seal: Seal { epoch: 1, key: &key }, hop_key: &hop_key };
        let mut packets = Vec::new();
        with.append(&headers, &symbols, &mut packets);
        assert_eq!(packets, alone);
    }
}
