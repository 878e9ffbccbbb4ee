//! Receipts: by them a receiver proves which packets arrived (docs/decisions/receipts.md).
//!
//! Each sealed body begins with four bytes that only its sender can tell beforehand. A report names the packets that
//! arrived and gives the exclusive or of their receipts; whoever names one packet that did not arrive is found out but
//! for one time in 2³², whatever else they know.

use siphasher::sip::SipHasher24;

/// What makes the receipts of one end of a session; nothing of them need be remembered.
#[derive(Clone, Copy)]
pub(crate) struct Receipts {
    key: [u8; 16],
}

impl Receipts {
    /// The receipts that follow from a key, which never leaves this end.
    pub(crate) fn new(key: [u8; 16]) -> Receipts {
        Receipts { key }
    }

    /// The receipt of a packet on a path.
    pub(crate) fn of(&self, path: u32, number: u64) -> u32 {
        half(self.pair(path, number / 2), number)
    }

    /// The receipts of packets of a path that leave one behind the other.
    pub(crate) fn of_run(self, path: u32) -> OfRun {
        OfRun { receipts: self, path, latest: None }
    }

    /// The exclusive or of the receipts of those packets among the 64 from number 64 × `word` on whose bits are set.
    pub(crate) fn sum(&self, path: u32, word: u64, bits: u64) -> u32 {
        if bits == 0 {
            return 0;
        }
        let pairs = (0..32).filter(|place| bits >> (2 * place) & 3 != 0);
        pairs.fold(0, |sum, place| {
            let pair = self.pair(path, 32 * word + place);
            let set = |number: u64| if bits >> number & 1 == 1 { half(pair, number) } else { 0 };
            sum ^ set(2 * place) ^ set(2 * place + 1)
        })
    }

    /// The receipts of two packets at once: SipHash-2-4 gives twice as much as one needs.
    fn pair(&self, path: u32, pair: u64) -> u64 {
        let mut input = [0; 12];
        input[..4].copy_from_slice(&path.to_be_bytes());
        input[4..].copy_from_slice(&pair.to_be_bytes());
        SipHasher24::new_with_key(&self.key).hash(&input)
    }
}

impl std::fmt::Debug for Receipts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Receipts(..)")
    }
}

fn half(pair: u64, number: u64) -> u32 {
    (pair >> (32 * (number % 2))) as u32
}

/// The receipts of packets of a path that leave one behind the other: half of them were computed with the one before.
pub(crate) struct OfRun {
    receipts: Receipts,
    path: u32,
    /// Which pair was computed last, and what it is.
    latest: Option<(u64, u64)>,
}

impl OfRun {
    /// The receipt of a packet.
    pub(crate) fn of(&mut self, number: u64) -> u32 {
        let which = number / 2;
        let known = self.latest.filter(|(latest, _)| *latest == which);
        let pair = known.map_or_else(|| self.receipts.pair(self.path, which), |(_, pair)| pair);
        self.latest = Some((which, pair));
        half(pair, number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_sum_is_that_of_the_packets_one_by_one(key: [u8; 16], path: u32, word in 0u64..1 << 42, bits: u64) {
            let receipts = Receipts::new(key);
            let numbers = (0..64).filter(|place| bits >> place & 1 == 1).map(|place| 64 * word + place);
            let sum = numbers.fold(0, |sum, number| sum ^ receipts.of(path, number));
            prop_assert_eq!(receipts.sum(path, word, bits), sum);
        }

        #[test]
        fn those_of_a_run_are_those_of_its_packets(key: [u8; 16], path: u32, first in 0u64..1 << 48) {
            let receipts = Receipts::new(key);
            let mut run = receipts.of_run(path);
            for number in first..first + 5 {
                prop_assert_eq!(run.of(number), receipts.of(path, number));
            }
        }
    }

    #[test]
    fn receipts_differ_by_key_path_and_number() {
        let receipts = |key| Receipts::new([key; 16]);
        let all = [(1, 1, 6), (1, 1, 7), (1, 1, 8), (1, 2, 6), (2, 1, 6)];
        let made = all.map(|(key, path, number)| receipts(key).of(path, number));
        let distinct: std::collections::BTreeSet<u32> = made.into_iter().collect();
        assert_eq!(distinct.len(), all.len());
    }
}
