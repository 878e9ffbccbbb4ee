//! The hash of a datagram's body that the tags of hops to relays cover (docs/decisions/hop-tag.md).
//!
//! It is UMAC's: NH, a sum of products with secret words, brings the body down to 16 bytes for each 1,536, and SipHash
//! hides the result [Black et al., UMAC, CRYPTO 1999; VMAC has the same NH over words of 64 bits]. Two bodies of one
//! length have the same sum for one key in 2⁶⁴, whichever bodies somebody without the key chooses.

use std::hash::Hasher as _;

use siphasher::sip::SipHasher24;
use zeroize::Zeroize as _;

/// What the hash key is derived for.
const CONTEXT: &str = "fec-transport 2026 body hash";
/// Bytes of a body that one sum takes: those of all datagrams that an Ethernet carries.
const CHUNK: usize = 1_536;
/// Bytes of a product.
const PAIR: usize = 16;
const WORDS: usize = CHUNK / 8;

/// The body hash of one circuit: all of its members know the key, and nobody else.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct BodyHash {
    words: Box<[u64; WORDS]>,
    last: [u8; 16],
}

impl BodyHash {
    /// The hash whose key is derived from the circuit's body key.
    pub(crate) fn new(body_key: &[u8; 16]) -> BodyHash {
        let mut bytes = [0; CHUNK + 16];
        blake3::Hasher::new_derive_key(CONTEXT).update(body_key).finalize_xof().fill(&mut bytes);
        let mut words = Box::new([0; WORDS]);
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = word_of(bytes);
        }
        let mut last = [0; 16];
        last.copy_from_slice(&bytes[CHUNK..]);
        bytes.zeroize();
        BodyHash { words, last }
    }

    /// The hash of a body.
    pub(crate) fn digest(&self, body: &[u8]) -> [u8; 8] {
        let mut hasher = SipHasher24::new_with_key(&self.last);
        hasher.write(&(body.len() as u64).to_le_bytes());
        for chunk in body.chunks(CHUNK) {
            hasher.write(&self.sum(chunk).to_le_bytes());
        }
        hasher.finish().to_be_bytes()
    }

    /// NH of a chunk, the last pair filled up with zeros: the body's length is hashed beside it.
    fn sum(&self, chunk: &[u8]) -> u128 {
        let pairs = chunk.chunks_exact(PAIR);
        let (rest, whole) = (pairs.remainder(), pairs.len());
        let products = pairs.zip(self.words.chunks_exact(2)).map(|(pair, keys)| product(pair, keys));
        let sum = products.fold(0, u128::wrapping_add);
        if rest.is_empty() {
            return sum;
        }
        let mut last = [0; PAIR];
        last[..rest.len()].copy_from_slice(rest);
        sum.wrapping_add(product(&last, &self.words[2 * whole..]))
    }
}

impl Drop for BodyHash {
    fn drop(&mut self) {
        self.words.zeroize();
        self.last.zeroize();
    }
}

impl std::fmt::Debug for BodyHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("BodyHash(..)")
    }
}

fn product(pair: &[u8], keys: &[u64]) -> u128 {
    let left = word_of(&pair[..8]).wrapping_add(keys[0]);
    let right = word_of(&pair[8..]).wrapping_add(keys[1]);
    u128::from(left) * u128::from(right)
}

fn word_of(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(bytes.try_into().expect("a word has eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;

    /// NH as the paper has it, one word after the other.
    fn oracle(hash: &BodyHash, body: &[u8]) -> [u8; 8] {
        let mut hashed = (body.len() as u64).to_le_bytes().to_vec();
        for chunk in body.chunks(CHUNK) {
            let mut padded = chunk.to_vec();
            padded.resize(chunk.len().next_multiple_of(PAIR), 0);
            let word = |index: usize| {
                let bytes = &padded[8 * index..8 * index + 8];
                let value = bytes.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
                u128::from(value.wrapping_add(hash.words[index]))
            };
            let products = (0..padded.len() / PAIR).map(|pair| word(2 * pair) * word(2 * pair + 1));
            hashed.extend_from_slice(&products.fold(0, u128::wrapping_add).to_le_bytes());
        }
        SipHasher24::new_with_key(&hash.last).hash(&hashed).to_be_bytes()
    }

    #[test]
    fn it_is_what_the_protocol_document_says() {
        // The values are those of a program in another language, made from docs/protocol/fec-transport.md.
        let hash = BodyHash::new(&std::array::from_fn(|place| place as u8));
        let vectors = [
            (0, 0x5b7f_f8f4_83b9_f48a),
            (1, 0x3666_1c40_2753_d910),
            (16, 0xd73c_209f_fcfa_f4cb),
            (41, 0xe97f_adb3_514e_f2a4),
            (1_444, 0x7110_c237_ebf8_6f2a),
            (1_536, 0x5c3e_eef4_69fd_c5f3),
            (1_537, 0x49ce_f1c4_e323_7a49),
            (9_000, 0x4b41_c639_50a5_1f64_u64),
        ];
        for (length, digest) in vectors {
            let body: Vec<u8> = (0..length).map(|place| (place * 7) as u8).collect();
            assert_eq!(u64::from_be_bytes(hash.digest(&body)), digest, "{length} bytes");
        }
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_definition(key: [u8; 16], body in vec(any::<u8>(), 0..2 * CHUNK + 40)) {
            let hash = BodyHash::new(&key);
            prop_assert_eq!(hash.digest(&body), oracle(&hash, &body));
        }

        #[test]
        fn a_change_anywhere_another_length_and_another_key_change_it(
            key: [u8; 16], body in vec(any::<u8>(), 1..2 * CHUNK), place: prop::sample::Index, other in 1u8..,
        ) {
            let hash = BodyHash::new(&key);
            let digest = hash.digest(&body);
            let mut changed = body.clone();
            changed[place.index(body.len())] ^= other;
            prop_assert_ne!(hash.digest(&changed), digest);
            let mut longer = body.clone();
            longer.push(0);
            prop_assert_ne!(hash.digest(&longer), digest);
            prop_assert_ne!(hash.digest(&body[..body.len() - 1]), digest);
            let mut other_key = key;
            other_key[0] ^= other;
            prop_assert_ne!(BodyHash::new(&other_key).digest(&body), digest);
        }
    }
}
