//! The hop header, the only part of a data packet that a relay reads.
//!
//! ```text
//!  0        1        2                                            8
//! +--------+--------+--------------------------------------------+
//! | type   | epoch  | packet number (48 bits)                    |
//! +--------+--------+--------------------------------------------+
//! | label (64 bits)                                              |
//! +---------------------------------------------------------------+
//! | hop tag (64 bits)                                            |
//! +---------------------------------------------------------------+
//! | sealed body ... AEAD tag (16 bytes)                          |
//! ```
//!
//! Type, epoch and packet number go end to end and are authenticated by the body's seal; label and hop tag are
//! exchanged at each hop. The tag covers the first 16 bytes and the AEAD tag, so a label with another body is worth
//! nothing.

use super::{Malformed, Reader, Writer};
use crate::crypto::hop_key::HopKey;

/// Bytes of the header.
pub(crate) const HOP_HEADER: usize = 24;
/// Bytes of the AEAD tag at the end of every sealed body.
pub(crate) const AEAD_TAG: usize = 16;
/// The part of the header that goes end to end: the seal's associated data.
pub(crate) const END_TO_END_PART: usize = 8;

/// A label, chosen at random by the node that receives packets with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Label(pub(crate) u64);

/// What kind of packet follows the hop header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PacketType {
    /// A sealed body that travels along a circuit.
    Sealed,
    /// No body: tells a neighbour from which address we send.
    Greeting,
}

/// The header's fields but for the tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HopHeader {
    pub(crate) packet_type: PacketType,
    pub(crate) epoch: u8,
    pub(crate) number: u64,
    pub(crate) label: Label,
}

impl HopHeader {
    /// Reads the header of a datagram and checks that its length fits its type.
    pub(crate) fn parse(datagram: &[u8]) -> Result<HopHeader, Malformed> {
        let mut reader = Reader::new(datagram);
        let packet_type = match reader.u8("packet type")? {
            1 => PacketType::Sealed,
            2 => PacketType::Greeting,
            _ => return Err(Malformed::new("packet type")),
        };
        let epoch = reader.u8("epoch")?;
        let number = reader.u48("packet number")?;
        let label = Label(reader.u64("label")?);
        let fits = match packet_type {
            PacketType::Sealed => datagram.len() > HOP_HEADER + AEAD_TAG,
            PacketType::Greeting => datagram.len() == HOP_HEADER,
        };
        if fits {
            Ok(HopHeader { packet_type, epoch, number, label })
        } else {
            Err(Malformed::new("packet length"))
        }
    }

    /// Appends the header with room for the tag, which [`sign`] fills in once the body is sealed.
    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        out.put_u8(match self.packet_type {
            PacketType::Sealed => 1,
            PacketType::Greeting => 2,
        });
        out.put_u8(self.epoch);
        out.put_u48(self.number);
        out.put_u64(self.label.0);
        out.put_u64(0);
    }
}

/// The packet number of a packet of ours.
pub(crate) fn number_of(packet: &[u8]) -> u64 {
    packet[2..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Writes the hop tag into a finished datagram.
pub(crate) fn sign(datagram: &mut [u8], key: &HopKey) {
    let tag = tag_of(datagram, key);
    datagram[16..HOP_HEADER].copy_from_slice(&tag);
}

/// Whether the datagram carries the right hop tag; its length was checked by [`HopHeader::parse`].
pub(crate) fn is_signed(datagram: &[u8], key: &HopKey) -> bool {
    let tag = tag_of(datagram, key);
    // Equality of 8 random-looking bytes, compared without a branch on where they differ.
    datagram[16..HOP_HEADER].iter().zip(tag).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// Exchanges label and tag: what a relay does before it passes a datagram on.
pub(crate) fn relabel(datagram: &mut [u8], label: Label, key: &HopKey) {
    datagram[8..16].copy_from_slice(&label.0.to_be_bytes());
    sign(datagram, key);
}

fn tag_of(datagram: &[u8], key: &HopKey) -> [u8; 8] {
    let body = &datagram[HOP_HEADER..];
    key.tag(&datagram[..16], &body[body.len().saturating_sub(AEAD_TAG)..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn datagram(number: u64, body: &[u8]) -> Vec<u8> {
        let header = HopHeader { packet_type: PacketType::Sealed, epoch: 3, number, label: Label(77) };
        let mut out = Vec::new();
        header.emit(&mut out);
        out.extend_from_slice(body);
        out
    }

    #[test]
    fn another_label_number_or_aead_tag_breaks_the_hop_tag() {
        let key = HopKey::new([5; 16]);
        let mut packet = datagram(9, &[1; 40]);
        sign(&mut packet, &key);
        assert!(is_signed(&packet, &key));
        assert!(!is_signed(&packet, &HopKey::new([6; 16])));
        for place in [1, 7, 15, 20, packet.len() - 1] {
            let mut forged = packet.clone();
            forged[place] ^= 1;
            assert!(!is_signed(&forged, &key), "byte {place} was changed");
        }
    }

    #[test]
    fn a_relabelled_packet_holds_for_the_next_hop() {
        let (first, second) = (HopKey::new([1; 16]), HopKey::new([2; 16]));
        let mut packet = datagram(1, &[1; 40]);
        sign(&mut packet, &first);
        relabel(&mut packet, Label(88), &second);
        assert!(is_signed(&packet, &second));
        assert_eq!(HopHeader::parse(&packet).expect("whole").label, Label(88));
    }

    proptest! {
        #[test]
        fn parse_of_emit_is_identity(number in 0u64..1 << 48, epoch: u8, label: u64) {
            let header = HopHeader { packet_type: PacketType::Sealed, epoch, number, label: Label(label) };
            let mut out = Vec::new();
            header.emit(&mut out);
            out.extend_from_slice(&[0; AEAD_TAG + 1]);
            prop_assert_eq!(HopHeader::parse(&out), Ok(header));
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = HopHeader::parse(&bytes);
        }
    }
}
