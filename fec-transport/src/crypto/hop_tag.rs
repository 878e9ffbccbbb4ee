//! The tag by which a hop knows a datagram as one of its own, and the key that makes it.

use siphasher::sip::SipHasher24;
use zeroize::Zeroize as _;

use crate::wire::hop::{AEAD_TAG, HOP_HEADER, HOP_TAG, LABEL, Label};

/// The most bytes that a tag covers: the header without the tag, and the body's AEAD tag.
const COVERED: usize = LABEL.end + AEAD_TAG;

/// A 128-bit key that a node hands out together with a label. A neighbour that sends with the label must know the key,
/// too.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct HopKey([u8; 16]);

impl HopKey {
    pub(crate) fn new(key: [u8; 16]) -> HopKey {
        HopKey(key)
    }

    pub(crate) fn to_bytes(&self) -> [u8; 16] {
        self.0
    }

    /// SipHash-2-4 over the header and the body's AEAD tag (design §6).
    fn tag(&self, header: &[u8], aead_tag: &[u8]) -> [u8; 8] {
        let mut covered = [0; COVERED];
        let length = header.len() + aead_tag.len();
        covered[..header.len()].copy_from_slice(header);
        covered[header.len()..length].copy_from_slice(aead_tag);
        SipHasher24::new_with_key(&self.0).hash(&covered[..length]).to_be_bytes()
    }
}

impl Drop for HopKey {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl std::fmt::Debug for HopKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HopKey(..)")
    }
}

/// Writes the hop tag into a finished datagram.
pub(crate) fn sign(datagram: &mut [u8], key: &HopKey) {
    let tag = tag_of(datagram, key);
    datagram[HOP_TAG].copy_from_slice(&tag);
}

/// Whether the datagram carries the right hop tag; its length was checked by
/// [`HopHeader::parse`](crate::wire::hop::HopHeader::parse).
pub(crate) fn is_signed(datagram: &[u8], key: &HopKey) -> bool {
    let tag = tag_of(datagram, key);
    // Equality of 8 random-looking bytes, compared without a branch on where they differ.
    datagram[HOP_TAG].iter().zip(tag).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0
}

/// Exchanges label and tag, as a relay does before it passes a datagram on.
pub(crate) fn relabel(datagram: &mut [u8], label: Label, key: &HopKey) {
    datagram[LABEL].copy_from_slice(&label.0.to_be_bytes());
    sign(datagram, key);
}

fn tag_of(datagram: &[u8], key: &HopKey) -> [u8; 8] {
    let body = &datagram[HOP_HEADER..];
    key.tag(&datagram[..LABEL.end], &body[body.len().saturating_sub(AEAD_TAG)..])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::hop::{HopHeader, PacketType};

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
}
