//! Receipts: by them a receiver proves which packets arrived (docs/decisions/receipts.md).
//!
//! Each sealed body begins with four bytes that only its sender can tell beforehand. A report names the packets that
//! arrived and gives the exclusive or of their receipts; whoever names one packet that did not arrive is found out but
//! for one time in 2³², whatever else they know.

use rand_chacha::ChaCha12Rng;
use rand_chacha::rand_core::{RngCore as _, SeedableRng as _};

/// Packets whose receipts are made together: ChaCha gives as many at once.
const WORD: usize = 64;

/// What makes the receipts of one end of a session; nothing of them need be remembered.
#[derive(Clone, Copy)]
pub(crate) struct Receipts {
    key: [u8; 32],
}

/// The receipts of a path that were made last, so that packets in turn do not make them again.
#[derive(Default)]
pub(crate) struct Made(Option<Box<(u64, [u32; WORD])>>);

impl Receipts {
    /// The receipts that follow from a key, which never leaves this end.
    pub(crate) fn new(key: [u8; 32]) -> Receipts {
        Receipts { key }
    }

    /// The receipt of a packet on a path, of which `made` remembers some.
    pub(crate) fn of(&self, path: u32, number: u64, made: &mut Made) -> u32 {
        self.word(path, number / WORD as u64, made)[number as usize % WORD]
    }

    /// The exclusive or of the receipts of those packets among the 64 from number 64 × `word` on whose bits are set.
    pub(crate) fn sum(&self, path: u32, word: u64, bits: u64, made: &mut Made) -> u32 {
        if bits == 0 {
            return 0;
        }
        let receipts = self.word(path, word, made).iter().enumerate();
        receipts
            .fold(0, |sum, (place, receipt)| sum ^ (receipt & 0u32.wrapping_sub((bits >> place) as u32 & 1)))
    }

    /// Word n of ChaCha12's stream for a path is the receipt of its packet n.
    fn word<'a>(&self, path: u32, word: u64, Made(made): &'a mut Made) -> &'a [u32; WORD] {
        let made = made.get_or_insert_with(|| Box::new((u64::MAX, [0; WORD])));
        if made.0 != word {
            let mut stream = ChaCha12Rng::from_seed(self.key);
            stream.set_stream(path.into());
            stream.set_word_pos(u128::from(word) * WORD as u128);
            made.1.fill_with(|| stream.next_u32());
            made.0 = word;
        }
        &made.1
    }
}

impl std::fmt::Debug for Receipts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Receipts(..)")
    }
}

impl std::fmt::Debug for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Made(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_sum_is_that_of_the_packets_one_by_one(key: [u8; 32], path: u32, word in 0u64..1 << 42, bits: u64) {
            let receipts = Receipts::new(key);
            let numbers = (0..64).filter(|place| bits >> place & 1 == 1).map(|place| 64 * word + place);
            let sum = numbers.fold(0, |sum, number| sum ^ receipts.of(path, number, &mut Made::default()));
            prop_assert_eq!(receipts.sum(path, word, bits, &mut Made::default()), sum);
        }

        #[test]
        fn those_that_are_remembered_are_those_that_are_made_anew(
            key: [u8; 32], path: u32, numbers in proptest::collection::vec(0u64..300, 1..20), far: bool,
        ) {
            let (receipts, mut made) = (Receipts::new(key), Made::default());
            for number in numbers {
                let number = number + if far { (1 << 48) - 300 } else { 0 };
                let anew = receipts.of(path, number, &mut Made::default());
                prop_assert_eq!(receipts.of(path, number, &mut made), anew);
            }
        }
    }

    #[test]
    fn receipts_differ_by_key_path_and_number() {
        let all = [(1, 1, 6), (1, 1, 7), (1, 1, 8), (1, 1, 64 + 6), (1, 2, 6), (2, 1, 6)];
        let made =
            all.map(|(key, path, number)| Receipts::new([key; 32]).of(path, number, &mut Made::default()));
        let distinct: std::collections::BTreeSet<u32> = made.into_iter().collect();
        assert_eq!(distinct.len(), all.len());
    }

    #[test]
    fn they_are_the_stream_of_chacha12() {
        // RFC 8439 numbers blocks with 32 bits; here it is the original's 64, and the path is the nonce.
        let mut stream = ChaCha12Rng::from_seed([7; 32]);
        stream.set_stream(3);
        let mut made = Made::default();
        for number in 0..200 {
            assert_eq!(Receipts::new([7; 32]).of(3, number, &mut made), stream.next_u32(), "{number}");
        }
    }
}
