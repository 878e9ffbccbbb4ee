//! The bytes of every simulated stream: known everywhere and cheap to compare.

use std::sync::LazyLock;

/// A prime, so that no block, symbol or stripe begins alike.
const PERIOD: usize = 65_521;
/// The most that is asked for at once.
pub(crate) const PIECE: usize = 64 << 10;

static BYTES: LazyLock<Vec<u8>> = LazyLock::new(|| {
    let at = |index: usize| ((index % PERIOD) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56;
    (0..PERIOD + PIECE).map(|index| at(index) as u8).collect()
});

/// The bytes from `offset` on, at most [`PIECE`] of them.
pub(crate) fn piece(offset: u64, length: usize) -> &'static [u8] {
    let start = (offset % PERIOD as u64) as usize;
    &BYTES[start..start + length.min(PIECE)]
}

/// How many of `bytes` are not those that a stream has at `offset`.
pub(crate) fn wrong_bytes(offset: u64, bytes: &[u8]) -> u64 {
    let mut wrong = 0;
    for (index, part) in bytes.chunks(PIECE).enumerate() {
        let right = piece(offset + (index * PIECE) as u64, part.len());
        if part != right {
            wrong += part.iter().zip(right).filter(|(one, other)| one != other).count() as u64;
        }
    }
    wrong
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_byte_is_counted_wherever_it_stands() {
        let mut bytes: Vec<u8> = piece(60_000, 50_000).to_vec();
        bytes.extend_from_slice(piece(110_000, 40_000));
        assert_eq!(wrong_bytes(60_000, &bytes), 0);
        bytes[70_000] ^= 1;
        bytes[0] ^= 1;
        assert_eq!(wrong_bytes(60_000, &bytes), 2);
    }
}
