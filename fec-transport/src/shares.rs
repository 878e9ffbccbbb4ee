//! Something of which there is so much, shared by members so that none of them takes it all.
//!
//! What a member holds may be lasting: credit that was promised cannot be taken back, and neither can memory that waits
//! for a peer who does not read. So nobody is let take all, not even while nobody else wants any: a member may hold as
//! much as it leaves free for others (the dynamic threshold of A. K. Choudhury and E. L. Hahne, *Dynamic queue length
//! thresholds for shared-memory packet switches*, IEEE/ACM Transactions on Networking 6, 1998). One member alone gets
//! half, and n members that want as much as they can get have equal parts of n/(n + 1); what is left is for the next
//! one.

use std::collections::BTreeMap;

/// What a member may hold in a table whatever others hold there, as long as there is a place at all.
const LEAST: usize = 4;

/// Whether a member that holds so many of the `limit` places of a table, of which all together hold `used`, may take
/// one more: it leaves as many free as it then holds.
pub fn has_place(limit: usize, used: usize, held: usize) -> bool {
    used < limit && (held < LEAST || held + 1 < limit - used)
}

/// So much of something, and how much of it each holder has.
#[derive(Debug, Clone)]
pub struct Shares<K> {
    limit: u64,
    least: u64,
    used: u64,
    held: BTreeMap<K, u64>,
}

impl<K: Ord + Copy> Shares<K> {
    /// Shares of `limit`. Each holder may have `least` whatever the others have: where that is not 0, the bound on all
    /// is `limit` and `least` for each holder.
    pub fn new(limit: u64, least: u64) -> Shares<K> {
        Shares { limit, least, used: 0, held: BTreeMap::new() }
    }

    /// How much all have.
    pub fn used(&self) -> u64 {
        self.used
    }

    /// How much `holder` has.
    pub fn held(&self, holder: K) -> u64 {
        self.held.get(&holder).copied().unwrap_or(0)
    }

    /// How much more `holder` may take now.
    pub fn available(&self, holder: K) -> u64 {
        let held = self.held(holder);
        let leaves_as_much = self.limit.saturating_sub(self.used).saturating_sub(held) / 2;
        leaves_as_much.max(self.least.saturating_sub(held))
    }

    /// Whether all together have more than there is, and `holder` more than an equal part.
    pub fn is_beyond_its_part(&self, holder: K) -> bool {
        let holders = self.held.len().max(1) as u64;
        self.used > self.limit && self.held(holder) > self.limit / holders
    }

    /// `holder` has so much more; more than is available if it must be.
    pub fn take(&mut self, holder: K, amount: u64) {
        if amount > 0 {
            self.used += amount;
            *self.held.entry(holder).or_default() += amount;
        }
    }

    /// `holder` gives back so much of what it has.
    pub fn give_back(&mut self, holder: K, amount: u64) {
        let Some(held) = self.held.get_mut(&holder) else { return };
        let given = amount.min(*held);
        *held -= given;
        self.used -= given;
        if *held == 0 {
            self.held.remove(&holder);
        }
    }

    /// All who have something, and how much.
    pub fn holders(&self) -> impl Iterator<Item = (K, u64)> + '_ {
        self.held.iter().map(|(holder, held)| (*holder, *held))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Everybody takes as much as it can get, in turn, until nobody gets any more.
    fn all_that_they_can(shares: &mut Shares<u8>, holders: &[u8]) {
        for _ in 0..200 {
            for holder in holders {
                let amount = shares.available(*holder).min(1_000);
                shares.take(*holder, amount);
            }
        }
    }

    #[test]
    fn who_want_all_that_they_can_get_have_equal_parts_and_leave_one_for_the_next() {
        for (count, part) in [(1, 50_000), (2, 33_333), (3, 25_000)] {
            let mut shares = Shares::new(100_000, 0);
            let holders: Vec<u8> = (0..count).collect();
            all_that_they_can(&mut shares, &holders);
            for holder in holders {
                assert!(shares.held(holder).abs_diff(part) <= 1_000, "{count}: {}", shares.held(holder));
            }
            assert!(shares.available(99) >= part / 2 - 1_000, "the next one");
        }
    }

    /// One member once had all 1,024 sessions, connected processes or circuits of a node if it liked.
    #[test]
    fn members_that_take_all_places_they_can_get_leave_some_to_the_next_one() {
        let limit = 2_048;
        for members in [1, 2, 7, 100] {
            let mut held = vec![0; members + 1];
            for _ in 0..limit {
                for member in 0..members {
                    let used = held.iter().sum();
                    held[member] += usize::from(has_place(limit, used, held[member]));
                }
            }
            let part = limit / (members + 1);
            assert!(held[..members].iter().all(|held| held.abs_diff(part) <= 1), "{held:?}");
            let mut used: usize = held.iter().sum();
            while has_place(limit, used, held[members]) {
                (used, held[members]) = (used + 1, held[members] + 1);
            }
            assert!(held[members] >= (part / 2 - 1).max(LEAST), "{} of {part}", held[members]);
        }
        assert!(has_place(1, 0, 0) && !has_place(1, 1, 0));
    }

    #[test]
    fn those_who_give_nothing_back_leave_the_least_to_everybody() {
        let mut shares = Shares::new(1_000, 10);
        (0..100).for_each(|holder| all_that_they_can(&mut shares, &[holder]));
        assert_eq!(shares.available(100), 10);
        assert!(shares.used() <= 1_000 + 100 * 10);
    }

    proptest! {
        #[test]
        fn what_is_given_back_can_be_taken_again(steps in proptest::collection::vec((0_u8..4, 0_u64..500, any::<bool>()), 1..100)) {
            let mut shares = Shares::new(1_000, 0);
            for (holder, amount, takes) in steps {
                match takes {
                    true => shares.take(holder, amount.min(shares.available(holder))),
                    false => shares.give_back(holder, amount),
                }
                prop_assert_eq!(shares.holders().map(|(_, held)| held).sum::<u64>(), shares.used());
                prop_assert!(shares.used() <= 1_000);
            }
            let all: Vec<(u8, u64)> = shares.holders().collect();
            all.into_iter().for_each(|(holder, held)| shares.give_back(holder, held));
            prop_assert_eq!(shares.available(0), 500);
        }
    }
}
