//! Keys and what they do: hop tags and the hash of bodies that they cover, seals, the Noise handshake, randomness.

pub(crate) mod body_hash;
pub(crate) mod handshake;
pub(crate) mod hop_tag;
pub(crate) mod random;
pub(crate) mod replay;
pub(crate) mod seal;
