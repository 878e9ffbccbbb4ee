//! Sealing packets end to end: AES-256-GCM, in place, one key per direction (design §6).

use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use crate::wire::hop::{AEAD_TAG, END_TO_END_PART, HOP_HEADER};

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

    /// Seals the body of the datagram that begins at `start` (what follows its hop header) in place and appends the
    /// AEAD tag.
    pub(crate) fn seal(&self, path: u32, number: u64, datagrams: &mut Vec<u8>, start: usize) {
        let (header, body) = datagrams[start..].split_at_mut(HOP_HEADER);
        let aad = Aad::from(&header[..END_TO_END_PART]);
        let tag = self.0.seal_in_place_separate_tag(nonce(path, number), aad, body);
        datagrams.extend_from_slice(tag.expect("a datagram is shorter than the cipher's limit").as_ref());
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
