//! Whose turn it is, where members want the same: a disk, memory, the one turn at the records of data sets.
//!
//! What a member has had is counted, and the next turn is that of the member that has had least (start-time fair
//! queueing: P. Goyal, H. M. Vin, H. Cheng, *Start-time fair queueing*, IEEE/ACM Transactions on Networking 5, 1997).
//! So members that want as much as they can get have equal parts, however many requests, sessions and processes each of
//! them has, and who wants less gets all of it. Somebody who comes after a while without any wish has earned nothing by
//! that: it begins where the others are.

use std::collections::{BTreeMap, VecDeque};

/// What each has had, in whatever unit its turns cost.
#[derive(Debug, Clone)]
pub(crate) struct FairTurns<K> {
    had: BTreeMap<K, u64>,
    /// Where the latest turn began.
    now: u64,
}

impl<K> Default for FairTurns<K> {
    fn default() -> FairTurns<K> {
        FairTurns { had: BTreeMap::new(), now: 0 }
    }
}

impl<K: Ord + Copy> FairTurns<K> {
    /// Whose turn it is of those who wait: who `holds` least at the moment, and among equals who has had least.
    pub(crate) fn next(&self, waiting: impl Iterator<Item = K>, holds: impl Fn(K) -> u64) -> Option<K> {
        waiting.min_by_key(|who| (holds(*who), self.start(*who), *who))
    }

    /// `who` has a turn that costs so much.
    pub(crate) fn charge(&mut self, who: K, cost: u64) {
        self.now = self.start(who);
        // Who has had no more than where turns begin now is as one who has had nothing.
        let now = self.now;
        self.had.retain(|_, had| *had > now);
        self.had.insert(who, now.saturating_add(cost.max(1)));
    }

    fn start(&self, who: K) -> u64 {
        self.had.get(&who).copied().unwrap_or(0).max(self.now)
    }
}

/// Things that wait in one line for each member; the members take turns.
#[derive(Debug, Clone)]
pub(crate) struct FairQueue<K, T> {
    lines: BTreeMap<K, VecDeque<T>>,
    turns: FairTurns<K>,
}

impl<K, T> Default for FairQueue<K, T> {
    fn default() -> FairQueue<K, T> {
        FairQueue { lines: BTreeMap::new(), turns: FairTurns::default() }
    }
}

impl<K: Ord + Copy, T: PartialEq> FairQueue<K, T> {
    /// `item` waits behind the others of `who`, unless it waits already.
    pub(crate) fn push(&mut self, who: K, item: T) {
        let line = self.lines.entry(who).or_default();
        if !line.contains(&item) {
            line.push_back(item);
        }
    }

    /// The next one, of a member that `may` have a turn; who `holds` least comes first.
    pub(crate) fn pop(&mut self, may: impl Fn(K) -> bool, holds: impl Fn(K) -> u64) -> Option<(K, T)> {
        let who = self.turns.next(self.lines.keys().copied().filter(|who| may(*who)), holds)?;
        let line = self.lines.get_mut(&who)?;
        let item = line.pop_front()?;
        if line.is_empty() {
            self.lines.remove(&who);
        }
        self.turns.charge(who, 1);
        Some((who, item))
    }

    /// `item` of `who` waits no more.
    pub(crate) fn remove(&mut self, who: K, item: &T) {
        let Some(line) = self.lines.get_mut(&who) else { return };
        line.retain(|other| other != item);
        if line.is_empty() {
            self.lines.remove(&who);
        }
    }

    /// Whether `item` of `who` waits.
    pub(crate) fn has(&self, who: K, item: &T) -> bool {
        self.lines.get(&who).is_some_and(|line| line.contains(item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How much each of some members gets of 1,000 if its turns cost so much.
    fn parts(costs: &[u64]) -> Vec<u64> {
        let (mut turns, mut had) = (FairTurns::default(), vec![0; costs.len()]);
        while had.iter().sum::<u64>() < 1_000 {
            let who = turns.next(0..costs.len(), |_| 0).expect("all wait");
            turns.charge(who, costs[who]);
            had[who] += costs[who];
        }
        had
    }

    #[test]
    fn parts_are_equal_whatever_a_turn_costs() {
        for costs in [&[1, 1][..], &[1, 40], &[7, 1, 20, 3]] {
            let (parts, equal) = (parts(costs), 1_000 / costs.len() as u64);
            assert!(parts.iter().all(|part| part.abs_diff(equal) <= 40), "{costs:?}: {parts:?}");
        }
    }

    #[test]
    fn who_wanted_nothing_for_a_while_has_earned_nothing() {
        let mut turns = FairTurns::default();
        (0..100).for_each(|_| turns.charge('a', 1));
        let order: String = (0..6)
            .map(|_| {
                let who = turns.next("ab".chars(), |_| 0).expect("both wait");
                turns.charge(who, 1);
                who
            })
            .collect();
        assert_eq!(order, "bababa");
    }

    #[test]
    fn who_holds_least_comes_first() {
        let mut turns = FairTurns::default();
        turns.charge('a', 1_000);
        assert_eq!(turns.next("ab".chars(), |who| u64::from(who == 'b')), Some('a'));
        assert_eq!(turns.next("".chars(), |_| 0), None);
    }

    #[test]
    fn lines_are_served_in_turn_and_each_in_its_order() {
        let mut queue = FairQueue::default();
        (0..50).for_each(|item| queue.push('a', item));
        [100, 101, 100].into_iter().for_each(|item| queue.push('b', item));
        queue.remove('a', &1);
        assert!(queue.has('b', &101) && !queue.has('a', &1));
        let order: Vec<i32> = (0..5).filter_map(|_| Some(queue.pop(|_| true, |_| 0)?.1)).collect();
        assert_eq!(order, [0, 100, 2, 101, 3]);
        assert_eq!(queue.pop(|who| who != 'a', |_| 0), None);
    }
}
