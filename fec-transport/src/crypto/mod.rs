//! Keys and what they do: hop tags and the hash of what they cover, seals, the Noise handshake, randomness, receipts.

pub(crate) mod body_hash;
pub(crate) mod handshake;
pub(crate) mod hop_tag;
pub(crate) mod random;
pub(crate) mod receipt;
pub(crate) mod replay;
pub(crate) mod seal;
