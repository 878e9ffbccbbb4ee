//! Numbers in as few bytes as they need: seven bits a byte, the lowest first, the top bit set on all but the last
//! (LEB128, as in WebAssembly and Protocol Buffers).

/// The most bytes that a number takes.
pub(super) const MAX_BYTES: usize = 10;

/// Appends `value`.
pub(super) fn put(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

/// Takes a number off the front of `bytes`; none if they end inside it, if it exceeds 64 bits, or if it is longer than
/// it need be.
pub(super) fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for (index, byte) in bytes.iter().take(MAX_BYTES).enumerate() {
        let bits = u64::from(byte & 0x7f);
        if index == MAX_BYTES - 1 && bits > 1 {
            return None;
        }
        value |= bits << (7 * index);
        if byte & 0x80 == 0 {
            let needless = *byte == 0 && index > 0;
            *bytes = &bytes[index + 1..];
            return (!needless).then_some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn each_number_has_one_spelling() {
        assert_eq!(take(&mut &[0x80, 0x00][..]), None);
        assert_eq!(take(&mut &[0xff; 10][..]), None);
        assert_eq!(take(&mut &[0x80; 10][..]), None);
        assert_eq!(take(&mut &[][..]), None);
        assert_eq!(take(&mut &[0x00][..]), Some(0));
    }

    proptest! {
        #[test]
        fn numbers_read_back(value: u64, shift in 0_u32..64) {
            let value = value >> shift;
            let mut bytes = Vec::new();
            put(&mut bytes, value);
            prop_assert!(bytes.len() <= MAX_BYTES);
            let mut rest = bytes.as_slice();
            prop_assert_eq!(take(&mut rest), Some(value));
            prop_assert!(rest.is_empty());
        }
    }
}
