//! The tag by which a hop knows a datagram as one of its own, and the key that makes it (docs/decisions/hop-tag.md).

use std::sync::Arc;

use siphasher::sip::SipHasher24;
use zeroize::Zeroize as _;

use super::body_hash::BodyHash;
use crate::wire::hop::{AEAD_TAG, HOP_HEADER, HOP_TAG, LABEL, Label};

/// The most bytes that a tag covers: the header without the tag, and 16 bytes for the body.
const COVERED: usize = LABEL.end + AEAD_TAG;

/// A 128-bit key that a node hands out together with a label. A neighbour that sends with the label must know the key,
/// too.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct HopKey {
    key: [u8; 16],
    /// What hashes the body if the label leads to a relay, which has nothing else to tell a genuine body by. The end of
    /// a circuit has the seal.
    body_hash: Option<Arc<BodyHash>>,
}

/// What a datagram's tag was found to cover: for the next tag, which covers the same body.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Verified {
    digest: Option<[u8; 8]>,
}

impl HopKey {
    /// The key of a greeting's label, or of one at which a circuit ends.
    pub(crate) fn new(key: [u8; 16]) -> HopKey {
        HopKey { key, body_hash: None }
    }

    /// The key of a label at a relay of the circuit whose bodies have this hash.
    pub(crate) fn to_relay(key: [u8; 16], body_hash: Arc<BodyHash>) -> HopKey {
        HopKey { key, body_hash: Some(body_hash) }
    }

    pub(crate) fn to_bytes(&self) -> [u8; 16] {
        self.key
    }

    fn digest(&self, datagram: &[u8]) -> Option<[u8; 8]> {
        self.body_hash.as_ref().map(|hash| hash.digest(&datagram[HOP_HEADER..]))
    }

    /// SipHash-2-4 over the header and what stands for the body: its hash on the way to a relay, else its AEAD tag.
    fn tag(&self, datagram: &[u8], digest: Option<&[u8; 8]>) -> [u8; 8] {
        let body = &datagram[HOP_HEADER..];
        let seal = &body[body.len().saturating_sub(AEAD_TAG)..];
        let stands_for_body = digest.map_or(seal, <[u8; 8]>::as_slice);
        let mut covered = [0; COVERED];
        let length = LABEL.end + stands_for_body.len();
        covered[..LABEL.end].copy_from_slice(&datagram[..LABEL.end]);
        covered[LABEL.end..length].copy_from_slice(stands_for_body);
        SipHasher24::new_with_key(&self.key).hash(&covered[..length]).to_be_bytes()
    }
}

impl Drop for HopKey {
    fn drop(&mut self) {
        self.key.zeroize();
    }
}

impl std::fmt::Debug for HopKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HopKey(..)")
    }
}

/// Writes the hop tag into a finished datagram.
pub(crate) fn sign(datagram: &mut [u8], key: &HopKey) {
    let tag = key.tag(datagram, key.digest(datagram).as_ref());
    datagram[HOP_TAG].copy_from_slice(&tag);
}

/// What the datagram's hop tag covers if it is the right one; the datagram's length was checked by
/// [`HopHeader::parse`](crate::wire::hop::HopHeader::parse).
pub(crate) fn verify(datagram: &[u8], key: &HopKey) -> Option<Verified> {
    let digest = key.digest(datagram);
    let tag = key.tag(datagram, digest.as_ref());
    // Equality of 8 random-looking bytes, compared without a branch on where they differ.
    let is_equal = datagram[HOP_TAG].iter().zip(tag).fold(0, |differ, (a, b)| differ | (a ^ b)) == 0;
    is_equal.then_some(Verified { digest })
}

/// Exchanges label and tag, as a relay does before it passes a datagram on; `verified` is what its own tag covered.
/// All hops of a circuit have the same body hash, so that one pass over the body is enough.
pub(crate) fn relabel(datagram: &mut [u8], label: Label, key: &HopKey, verified: Verified) {
    datagram[LABEL].copy_from_slice(&label.0.to_be_bytes());
    let digest = verified.digest.filter(|_| key.body_hash.is_some());
    let tag = key.tag(datagram, digest.as_ref());
    datagram[HOP_TAG].copy_from_slice(&tag);
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
        assert!(verify(&packet, &key).is_some());
        assert_eq!(verify(&packet, &HopKey::new([6; 16])), None);
        for place in [1, 7, 15, 20, packet.len() - 1] {
            let mut forged = packet.clone();
            forged[place] ^= 1;
            assert_eq!(verify(&forged, &key), None, "byte {place} was changed");
        }
    }

    #[test]
    fn on_the_way_to_a_relay_a_change_of_any_byte_breaks_the_hop_tag() {
        // Such tags once covered header and AEAD tag only, so that a bystander's copy with another body passed.
        let key = HopKey::to_relay([5; 16], Arc::new(BodyHash::new(&[7; 16])));
        let mut packet = datagram(9, &[1; 40]);
        sign(&mut packet, &key);
        assert!(verify(&packet, &key).is_some());
        for place in 1..packet.len() {
            let mut forged = packet.clone();
            forged[place] ^= 1;
            assert_eq!(verify(&forged, &key), None, "byte {place} was changed");
        }
        packet.push(0);
        assert_eq!(verify(&packet, &key), None, "a byte was appended");
    }

    #[test]
    fn tags_are_what_the_protocol_document_says() {
        // The values are those of a program in another language, made from docs/protocol/fec-transport.md.
        let body_hash = BodyHash::new(&std::array::from_fn(|place| place as u8));
        let to_relay = HopKey::to_relay([5; 16], Arc::new(body_hash));
        let body: Vec<u8> = (0..60).map(|place| (place * 7) as u8).collect();
        let mut greeting = datagram(9, &[]);
        greeting[..2].copy_from_slice(&[2, 0]);
        let vectors = [
            (datagram(9, &body), to_relay, "cb8d8b17bba07f12"),
            (datagram(9, &body), HopKey::new([5; 16]), "44012c4cea785b5d"),
            (greeting, HopKey::new([5; 16]), "980fc8706448a17f"),
        ];
        for (mut packet, key, tag) in vectors {
            sign(&mut packet, &key);
            let written: String = packet[HOP_TAG].iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(written, tag);
        }
    }

    #[test]
    fn a_relabelled_packet_holds_for_the_next_hop() {
        let body_hash = Arc::new(BodyHash::new(&[7; 16]));
        let to_relay = |key: u8| HopKey::to_relay([key; 16], Arc::clone(&body_hash));
        for next in [to_relay(2), HopKey::new([2; 16])] {
            let mut packet = datagram(1, &[1; 40]);
            sign(&mut packet, &to_relay(1));
            let verified = verify(&packet, &to_relay(1)).expect("it was signed");
            relabel(&mut packet, Label(88), &next, verified);
            assert!(verify(&packet, &next).is_some());
            assert_eq!(HopHeader::parse(&packet).expect("whole").label, Label(88));
        }
    }
}
