//! The formats on the wire, one file per format: a checked view of the bytes in, a plain struct of meaning out.
//!
//! `docs/protocol/fec-transport.md` has the byte diagrams. All numbers are big-endian. Nothing here allocates more than
//! the message that it reads is long, and nothing panics on any bytes.

pub(crate) mod circuit;
pub(crate) mod hop;
pub(crate) mod link;
pub(crate) mod message;
pub(crate) mod packet;
pub(crate) mod pieces;
pub(crate) mod reader;
pub(crate) mod report;
pub(crate) mod session;
pub(crate) mod stream_control;
pub(crate) mod symbol;

pub(crate) use reader::{Malformed, Reader, Writer};

/// The version of both planes; a set-up of another version is dropped.
pub(crate) const PROTOCOL_VERSION: u8 = 4;

/// Bytes of IPv4 and UDP headers: pacing and policing count what the link carries.
pub(crate) const IP_UDP_HEADERS: usize = 28;

/// Bytes of a datagram with a symbol beside the symbol itself: what every hop reads, what proves that it arrived, what
/// says which symbol it is, and what sealing adds.
pub const SYMBOL_OVERHEAD: usize = hop::HOP_HEADER + packet::RECEIPT + symbol::SYMBOL_HEADER + hop::AEAD_TAG;

/// The part of a full packet with symbols of `symbol_size` bytes that is payload; headers of IPv4 and UDP count.
pub fn payload_share(symbol_size: usize) -> f64 {
    symbol_size as f64 / (symbol_size + SYMBOL_OVERHEAD + IP_UDP_HEADERS) as f64
}

/// Type bytes of the control plane.
pub(crate) mod control_type {
    pub(crate) const SET_UP: u8 = 1;
    pub(crate) const ANSWER: u8 = 2;
    pub(crate) const REFUSAL: u8 = 3;
    pub(crate) const TEAR_DOWN: u8 = 4;
    pub(crate) const GREETING_KEY: u8 = 5;
    pub(crate) const GREETED: u8 = 6;
    pub(crate) const CHALLENGE_ANSWER: u8 = 7;
}
