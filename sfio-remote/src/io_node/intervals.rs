//! Which bytes of a subfile were written.

use std::collections::BTreeMap;

use crate::distribution::Extent;
use crate::request::Run;
use crate::wire::RunTable;

/// The most separate pieces that are told apart.
const MAX_PIECES: usize = 1_024;

/// Disjoint pieces of a subfile; pieces that touch are one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Intervals(BTreeMap<u64, u64>);

/// Why some bytes are not added.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum NotAdded {
    /// Some of them are there.
    Overlap(Extent),
    /// There would be too many pieces.
    TooMany,
}

impl Intervals {
    /// How many separate pieces there are.
    pub(super) fn pieces(&self) -> usize {
        self.0.len()
    }

    /// Adds all bytes of `runs`, or none if one of them is there, or if there would be more than `most` pieces.
    pub(super) fn add(&mut self, runs: &RunTable, most: usize) -> Result<(), NotAdded> {
        let most = most.min(MAX_PIECES);
        if runs.runs().map(|run| run.count()).fold(0, u64::saturating_add) > MAX_PIECES as u64 {
            return Err(NotAdded::TooMany);
        }
        let extents: Vec<Extent> = runs.runs().flat_map(Run::extents).collect();
        if self.0.len() + extents.iter().filter(|extent| !self.touches(**extent)).count() > most {
            return Err(NotAdded::TooMany);
        }
        if let Some(extent) = extents.iter().find(|extent| self.overlaps(**extent)) {
            return Err(NotAdded::Overlap(*extent));
        }
        extents.into_iter().for_each(|extent| self.insert(extent));
        Ok(())
    }

    fn overlaps(&self, extent: Extent) -> bool {
        // Disjoint pieces end in the order in which they begin.
        let before = self.0.range(..extent.end()).next_back();
        before.is_some_and(|(_, end)| *end > extent.offset())
    }

    fn touches(&self, extent: Extent) -> bool {
        let before = self.0.range(..extent.offset()).next_back();
        self.0.contains_key(&extent.end()) || before.is_some_and(|(_, end)| *end == extent.offset())
    }

    /// Adds a piece that overlaps none.
    fn insert(&mut self, extent: Extent) {
        let end = self.0.remove(&extent.end()).unwrap_or(extent.end());
        let before = self.0.range_mut(..extent.offset()).next_back();
        match before.filter(|(_, before_end)| **before_end == extent.offset()) {
            Some((_, before_end)) => *before_end = end,
            None => drop(self.0.insert(extent.offset(), end)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::RunTableBuilder;
    use proptest::prelude::*;

    fn table(extents: &[(u64, u64)]) -> RunTable {
        let mut builder = RunTableBuilder::default();
        extents.iter().for_each(|(start, length)| builder.push(Extent::between(*start, start + length)));
        builder.finish().expect("not empty")
    }

    #[test]
    fn pieces_that_touch_are_one_and_too_many_are_refused() {
        let mut intervals = Intervals::default();
        for start in [10, 30, 20, 0] {
            assert_eq!(intervals.add(&table(&[(start, 10)]), usize::MAX), Ok(()));
        }
        assert_eq!(intervals, Intervals([(0, 40)].into()));
        let scattered: Vec<(u64, u64)> = (10..10 + MAX_PIECES as u64).map(|i| (i * 10, 5)).collect();
        assert_eq!(intervals.add(&table(&scattered), usize::MAX), Err(NotAdded::TooMany));
        assert_eq!(intervals.add(&table(&scattered[1..]), usize::MAX), Ok(()));
        assert_eq!(intervals.add(&table(&[(1 << 40, 1)]), usize::MAX), Err(NotAdded::TooMany));
        assert_eq!(intervals.add(&table(&[(115, 5)]), usize::MAX), Ok(()));
        assert_eq!(intervals.add(&table(&[(1 << 40, 1)]), usize::MAX), Ok(()));
        let endless: Vec<(u64, u64)> = (0..=MAX_PIECES as u64).map(|i| (i * 2, 1)).collect();
        assert_eq!(Intervals::default().add(&table(&endless), usize::MAX), Err(NotAdded::TooMany));
    }

    proptest! {
        #[test]
        fn it_is_a_set_of_bytes(writes in prop::collection::vec(prop::collection::vec((1_u64..20, 1_u64..30), 1..4), 1..40)) {
            let (mut intervals, mut oracle) = (Intervals::default(), std::collections::BTreeSet::new());
            for (number, write) in writes.iter().enumerate() {
                let mut at = number as u64 * 37 % 400;
                let extents: Vec<(u64, u64)> = write.iter().map(|(gap, length)| {
                    at += gap + length;
                    (at - length, *length)
                }).collect();
                let bytes: Vec<u64> = extents.iter().flat_map(|(start, length)| *start..start + length).collect();
                let is_new = bytes.iter().all(|byte| !oracle.contains(byte));
                prop_assert_eq!(intervals.add(&table(&extents), usize::MAX).is_ok(), is_new);
                if is_new {
                    oracle.extend(bytes);
                }
                let all: Vec<u64> = intervals.0.iter().flat_map(|(start, end)| *start..*end).collect();
                prop_assert_eq!(&all, &oracle.iter().copied().collect::<Vec<_>>());
                let apart = intervals.0.iter().zip(intervals.0.keys().skip(1)).all(|((_, end), start)| end < start);
                prop_assert!(apart);
            }
        }
    }
}
