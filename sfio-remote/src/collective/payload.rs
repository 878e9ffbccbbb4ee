//! The border that run tables (stage 5) and data (stage 6) cross on their way between ranks: compression belongs here,
//! and nowhere else in this module. [`pack`] is asked by who sends, [`unpack`] by who receives.

use bytes::Bytes;

/// What of `plain` travels. So far that is `plain` itself.
pub(super) fn pack(plain: Bytes) -> Bytes {
    plain
}

/// What travelled as `packed`, which has `plain_bytes` bytes: the receiver knows how many, so that nothing that comes
/// can grow beyond them.
pub(super) fn unpack(packed: Bytes, plain_bytes: u64) -> Result<Bytes, String> {
    match packed.len() as u64 {
        found if found == plain_bytes => Ok(packed),
        found => Err(format!("it sent {found} bytes where {plain_bytes} were expected")),
    }
}
