//! Keys and what they do: hop tags, seals, the Noise handshake, randomness.

pub(crate) mod handshake;
pub(crate) mod hop_tag;
pub(crate) mod random;
pub(crate) mod replay;
pub(crate) mod seal;
