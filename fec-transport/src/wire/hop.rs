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
//! exchanged at each hop. The tag covers the first 16 bytes and, on the way to a relay, the whole body by its hash; on
//! the last hop of a circuit, where the seal tells a genuine body, the AEAD tag only (docs/decisions/hop-tag.md).

use core::ops::Range;

use super::{Malformed, Reader, Writer};

/// Bytes of the header.
pub(crate) const HOP_HEADER: usize = 24;
/// Bytes of the AEAD tag at the end of every sealed body.
pub(crate) const AEAD_TAG: usize = 16;
/// The part of the header that goes end to end: the seal's associated data.
pub(crate) const END_TO_END_PART: usize = 8;
/// Where the label lies in the header, and behind it the hop tag.
pub(crate) const LABEL: Range<usize> = END_TO_END_PART..16;
pub(crate) const HOP_TAG: Range<usize> = LABEL.end..HOP_HEADER;

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
    /// No body: asks whoever receives at the address that a greeting came from for the number.
    Challenge,
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
            3 => PacketType::Challenge,
            _ => return Err(Malformed::new("packet type")),
        };
        let epoch = reader.u8("epoch")?;
        let number = reader.u48("packet number")?;
        let label = Label(reader.u64("label")?);
        let fits = match packet_type {
            PacketType::Sealed => datagram.len() > HOP_HEADER + AEAD_TAG,
            PacketType::Greeting | PacketType::Challenge => datagram.len() == HOP_HEADER,
        };
        if fits {
            Ok(HopHeader { packet_type, epoch, number, label })
        } else {
            Err(Malformed::new("packet length"))
        }
    }

    /// Appends the header with room for the tag, which [`sign`](crate::crypto::hop_tag::sign) fills in once the body is
    /// sealed.
    pub(crate) fn emit(&self, out: &mut Vec<u8>) {
        out.put_u8(match self.packet_type {
            PacketType::Sealed => 1,
            PacketType::Greeting => 2,
            PacketType::Challenge => 3,
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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
