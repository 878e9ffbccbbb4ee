//! Sealing packets end to end: AES-256-GCM, in place, one key per direction (design §6).

use std::sync::Arc;

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::hop_key::HopKey;
use crate::wire::hop::{self, AEAD_TAG, END_TO_END_PART, HOP_HEADER};

/// After so many packets a key is not used any more: RFC 9001 B.1 for packets of up to 2 KiB.
pub(crate) const MAX_PACKETS_PER_KEY: u64 = 1 << 28;

/// The key of one direction of a session.
pub(crate) struct SealKey(LessSafeKey);

/// The seal was not made with this key for this packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BrokenSeal;

impl SealKey {
    pub(crate) fn new(key: &[u8; 32]) -> SealKey {
        SealKey(LessSafeKey::new(
            UnboundKey::new(&AES_256_GCM, key).expect("the key has the cipher's length"),
        ))
    }

    /// Seals the body of the datagram that begins at `start` (what follows its hop header) in place and appends the AEAD
    /// tag.
    pub(crate) fn seal(&self, path: u32, number: u64, datagrams: &mut Vec<u8>, start: usize) {
        let (header, body) = datagrams[start..].split_at_mut(HOP_HEADER);
        let tag = self.seal_body(path, number, header, body);
        datagrams.extend_from_slice(&tag);
    }

    /// Seals a body in place; gives the AEAD tag.
    fn seal_body(&self, path: u32, number: u64, header: &[u8], body: &mut [u8]) -> [u8; AEAD_TAG] {
        let aad = Aad::from(&header[..END_TO_END_PART]);
        let tag = self.0.seal_in_place_separate_tag(nonce(path, number), aad, body);
        let tag = tag.expect("a datagram is shorter than the cipher's limit");
        tag.as_ref().try_into().expect("the cipher's tag has this length")
    }

    /// Opens the body of `datagram` in place and gives it without the AEAD tag.
    pub(crate) fn open<'a>(
        &self,
        path: u32,
        number: u64,
        datagram: &'a mut [u8],
    ) -> Result<&'a mut [u8], BrokenSeal> {
        let (header, body) = datagram.split_at_mut(HOP_HEADER);
        let aad = Aad::from(&header[..END_TO_END_PART]);
        self.0.open_in_place(nonce(path, number), aad, body).map_err(|_| BrokenSeal)
    }

    /// Seals a short message that travels outside of packets, such as a request to join.
    pub(crate) fn seal_message(&self, number: u64, context: &[u8], message: &[u8]) -> Vec<u8> {
        let mut sealed = message.to_vec();
        let tag = self.0.seal_in_place_append_tag(nonce(0, number), Aad::from(context), &mut sealed);
        tag.expect("a message is shorter than the cipher's limit");
        sealed
    }

    /// Opens what [`seal_message`](Self::seal_message) sealed.
    pub(crate) fn open_message(
        &self,
        number: u64,
        context: &[u8],
        sealed: &[u8],
    ) -> Result<Vec<u8>, BrokenSeal> {
        let mut bytes = sealed.to_vec();
        let length = self
            .0
            .open_in_place(nonce(0, number), Aad::from(context), &mut bytes)
            .map_err(|_| BrokenSeal)?
            .len();
        bytes.truncate(length);
        debug_assert_eq!(length + AEAD_TAG, sealed.len());
        Ok(bytes)
    }
}

/// What finishes the packets of a run: each is sealed in place and gets its hop tag. It needs nothing else of the
/// session, so any thread can do it.
#[derive(Debug, Clone)]
pub struct RunSeal {
    pub(crate) key: Arc<SealKey>,
    pub(crate) path: u32,
    pub(crate) hop_key: HopKey,
}

impl RunSeal {
    /// Finishes packets of `segment_size` bytes each, of which the last may be shorter. Each has its hop header, its body
    /// and room for the AEAD tag.
    ///
    /// # Panics
    /// If a packet is too short for that: these are our own packets.
    pub fn finish(&self, run: &mut [u8], segment_size: usize) {
        for packet in run.chunks_mut(segment_size.max(1)) {
            let number = hop::number_of(packet);
            let (header, rest) = packet.split_at_mut(HOP_HEADER);
            let (body, room) = rest.split_at_mut(rest.len() - AEAD_TAG);
            room.copy_from_slice(&self.key.seal_body(self.path, number, header, body));
            hop::sign(packet, &self.hop_key);
        }
    }
}

/// The body of a datagram that [`SealKey::open`] has opened in place.
pub(crate) fn opened_body(datagram: &mut [u8]) -> &mut [u8] {
    let end = datagram.len() - AEAD_TAG;
    &mut datagram[HOP_HEADER..end]
}

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SealKey(..)")
    }
}

/// Path id (32 bits, never used twice in a session) ‖ 0 ‖ packet number (48 bits).
fn nonce(path: u32, number: u64) -> Nonce {
    let mut bytes = [0; 12];
    bytes[..4].copy_from_slice(&path.to_be_bytes());
    bytes[4..].copy_from_slice(&number.to_be_bytes());
    Nonce::assume_unique_for_key(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::hop::{HopHeader, Label, PacketType};

    #[test]
    fn a_run_is_finished_as_if_each_packet_were_sealed_alone() {
        let (key, hop_key) = (Arc::new(SealKey::new(&[3; 32])), HopKey::new([4; 16]));
        let (mut run, mut alone) = (Vec::new(), Vec::new());
        for (number, body) in [(7, &b"first"[..]), (8, b"other"), (9, b"end")] {
            let start = alone.len();
            let header = HopHeader { packet_type: PacketType::Sealed, epoch: 1, number, label: Label(5) };
            header.emit(&mut alone);
            alone.extend_from_slice(body);
            run.extend_from_slice(&alone[start..]);
            run.extend_from_slice(&[0; AEAD_TAG]);
            key.seal(6, number, &mut alone, start);
            hop::sign(&mut alone[start..], &hop_key);
        }
        RunSeal { key, path: 6, hop_key }.finish(&mut run, HOP_HEADER + 5 + AEAD_TAG);
        assert_eq!(run, alone);
    }

    #[test]
    fn a_seal_opens_for_its_path_number_and_header_only() {
        let key = SealKey::new(&[3; 32]);
        let mut datagram = vec![7; HOP_HEADER];
        datagram.extend_from_slice(b"body");
        key.seal(1, 2, &mut datagram, 0);
        assert_eq!(key.open(1, 2, &mut datagram.clone()).map(|body| body.to_vec()), Ok(b"body".to_vec()));
        assert_eq!(key.open(2, 2, &mut datagram.clone()), Err(BrokenSeal));
        assert_eq!(key.open(1, 3, &mut datagram.clone()), Err(BrokenSeal));
        for place in [0, END_TO_END_PART - 1, HOP_HEADER, datagram.len() - 1] {
            let mut forged = datagram.clone();
            forged[place] ^= 1;
            assert_eq!(key.open(1, 2, &mut forged), Err(BrokenSeal), "byte {place} was changed");
        }
        let mut relabelled = datagram.clone();
        relabelled[END_TO_END_PART] ^= 1;
        assert!(key.open(1, 2, &mut relabelled).is_ok(), "labels are exchanged on the way");
    }
}
