//! The key of one hop's tags.

use siphasher::sip::SipHasher24;

/// The most bytes that a tag covers: the header without the tag, and the body's AEAD tag.
const COVERED: usize = 32;

/// A 128-bit key that a node hands out together with a label; who sends with the label must know it.
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
    pub(crate) fn tag(&self, header: &[u8], aead_tag: &[u8]) -> [u8; 8] {
        let mut covered = [0; COVERED];
        let length = header.len() + aead_tag.len();
        covered[..header.len()].copy_from_slice(header);
        covered[header.len()..length].copy_from_slice(aead_tag);
        SipHasher24::new_with_key(&self.0).hash(&covered[..length]).to_be_bytes()
    }
}

impl std::fmt::Debug for HopKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HopKey(..)")
    }
}
