//! The replay window of one path: which of its latest packet numbers have been seen.

/// How many of the latest packet numbers are told apart; older ones count as seen (design §6).
pub(crate) const REPLAY_WINDOW: u64 = 8_192;
const PACKETS: usize = (REPLAY_WINDOW / 64) as usize;

/// A window of `64 × WORDS` numbers that ends at the highest one marked; those of packets have [`REPLAY_WINDOW`], 1
/// KiB.
#[derive(Debug, Clone)]
pub(crate) struct ReplayWindow<const WORDS: usize = PACKETS> {
    /// One past the highest number marked.
    end: u64,
    seen: Box<[u64; WORDS]>,
}

impl<const WORDS: usize> ReplayWindow<WORDS> {
    const LENGTH: u64 = 64 * WORDS as u64;

    pub(crate) fn new() -> ReplayWindow<WORDS> {
        ReplayWindow { end: 0, seen: Box::new([0; WORDS]) }
    }

    /// Whether `number` has neither been marked nor fallen out of the window.
    pub(crate) fn is_fresh(&self, number: u64) -> bool {
        if number >= self.end {
            return true;
        }
        self.end - number <= Self::LENGTH && self.seen[Self::word(number)] & bit(number) == 0
    }

    /// Marks a number as seen; gives false if it was not fresh.
    pub(crate) fn mark(&mut self, number: u64) -> bool {
        if !self.is_fresh(number) {
            return false;
        }
        if number >= self.end {
            self.advance(number + 1);
        }
        self.seen[Self::word(number)] |= bit(number);
        true
    }

    fn advance(&mut self, end: u64) {
        if end - self.end >= Self::LENGTH {
            self.seen.fill(0);
        } else {
            (self.end..end).for_each(|number| self.seen[Self::word(number)] &= !bit(number));
        }
        self.end = end;
    }

    fn word(number: u64) -> usize {
        (number % Self::LENGTH / 64) as usize
    }
}

fn bit(number: u64) -> u64 {
    1 << (number % 64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_agrees_with_a_set_of_all_numbers(
            steps in proptest::collection::vec(prop_oneof![0u64..40, 0u64..20_000, 100_000u64..110_000], 1..400),
        ) {
            let (mut window, mut seen, mut highest) = (ReplayWindow::<PACKETS>::new(), BTreeSet::new(), 0);
            for number in steps {
                let expected = (number + REPLAY_WINDOW > highest || seen.is_empty()) && !seen.contains(&number);
                prop_assert_eq!(window.mark(number), expected, "number {}", number);
                if expected {
                    seen.insert(number);
                    highest = highest.max(number);
                }
            }
        }
    }
}
