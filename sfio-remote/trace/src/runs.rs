//! Regions of one call, as runs of equal length and equal distance.
//!
//! A call may ask for a million regions of eight bytes. A line for each of them costs more to write than they cost to
//! move, and most such lists are regular: then they are a few numbers. [Others](crate::regions) are listed.

use serde::{Deserialize, Serialize, Serializer};

/// Regions of `bytes` bytes each, at `offset`, `offset + stride`, and so on: `times` of them. As JSON it is the array
/// `[offset, bytes, times, stride]`, or `[offset, bytes]` if it is one region.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Vec<u64>")]
pub struct Run {
    /// Where the first one begins.
    pub offset: u64,
    /// How many bytes each of them has.
    pub bytes: u64,
    /// How many they are.
    pub times: u64,
    /// From the begin of one to that of the next one; 0 if there is one only.
    pub stride: u64,
}

/// A run has no more regions than this, so that a few bytes of a trace cannot ask for endless work.
pub const MAX_TIMES: u64 = 1 << 20;

impl Run {
    /// One region.
    pub fn one(offset: u64, bytes: u64) -> Run {
        Run { offset, bytes, times: 1, stride: 0 }
    }

    /// Its regions: where each begins, and how many bytes it has.
    pub fn regions(self) -> impl Iterator<Item = (u64, u64)> {
        (0..self.times).map(move |index| (self.offset + index * self.stride, self.bytes))
    }

    /// Where its first region begins and how many bytes that has, and a run of the other ones.
    pub fn split_first(self) -> ((u64, u64), Option<Run>) {
        let times = self.times.saturating_sub(1);
        let rest = || match times {
            1 => Run::one(self.offset + self.stride, self.bytes),
            _ => Run { offset: self.offset + self.stride, times, ..self },
        };
        ((self.offset, self.bytes), (times > 0).then(rest))
    }

    /// Whether it has as many regions as a run may have, and all of them end at an offset that a file may have.
    pub fn is_valid(self) -> bool {
        let last = self.times.checked_sub(1).and_then(|steps| steps.checked_mul(self.stride));
        let end = last.and_then(|last| last.checked_add(self.offset)?.checked_add(self.bytes));
        self.times <= MAX_TIMES && end.is_some_and(|end| end <= i64::MAX as u64)
    }

    /// Takes another region; false if it does not continue the run.
    fn take(&mut self, offset: u64, bytes: u64) -> bool {
        let Some(distance) = offset.checked_sub(self.offset) else { return false };
        let stride = if self.times == 1 { distance } else { self.stride };
        let continues = self.times.checked_mul(stride) == Some(distance);
        let is_taken = bytes == self.bytes && continues && self.times < MAX_TIMES;
        if is_taken {
            (self.times, self.stride) = (self.times + 1, stride);
        }
        is_taken
    }
}

/// The regions as runs, in their order.
pub fn runs(regions: impl IntoIterator<Item = (u64, u64)>) -> impl Iterator<Item = Run> {
    let mut regions = regions.into_iter().peekable();
    std::iter::from_fn(move || {
        let (offset, bytes) = regions.next()?;
        let mut run = Run::one(offset, bytes);
        while regions.next_if(|&(offset, bytes)| run.take(offset, bytes)).is_some() {}
        Some(run)
    })
}

impl TryFrom<Vec<u64>> for Run {
    type Error = &'static str;

    fn try_from(numbers: Vec<u64>) -> Result<Run, &'static str> {
        match numbers[..] {
            [offset, bytes] => Ok(Run::one(offset, bytes)),
            [offset, bytes, times, stride] => Ok(Run { offset, bytes, times, stride }),
            _ => Err("expected [offset, bytes] or [offset, bytes, times, stride]"),
        }
    }
}

impl Serialize for Run {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match *self {
            Run { offset, bytes, times: 1, .. } => [offset, bytes].serialize(serializer),
            Run { offset, bytes, times, stride } => [offset, bytes, times, stride].serialize(serializer),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_regular_list_is_one_run_and_any_other_a_run_for_each_region_or_two() {
        let regular = runs((0..1_000).map(|index| (5 + 1_000 * index, 8)));
        assert_eq!(regular.collect::<Vec<_>>(), [Run { offset: 5, bytes: 8, times: 1_000, stride: 1_000 }]);
        let falling = runs((0..10).rev().map(|index| (index, 1)));
        assert_eq!(falling.count(), 10);
        let same = runs([(7, 1); 3]);
        assert_eq!(same.collect::<Vec<_>>(), [Run { offset: 7, bytes: 1, times: 3, stride: 0 }]);
    }

    #[test]
    fn a_run_of_endless_regions_or_beyond_the_largest_file_is_not_valid() {
        assert!(Run::one(0, i64::MAX as u64).is_valid());
        assert!(!Run::one(1, i64::MAX as u64).is_valid());
        assert!(!Run { offset: 0, bytes: 0, times: u64::MAX, stride: 0 }.is_valid());
        assert!(!Run { offset: 0, bytes: 0, times: 0, stride: 0 }.is_valid());
        assert!(!Run { offset: 0, bytes: 1, times: 3, stride: u64::MAX / 2 }.is_valid());
    }

    proptest! {
        #[test]
        fn runs_are_the_regions_that_they_were_made_of(
            regions in prop::collection::vec((0..6_u64, 1..3_u64), 0..40)
        ) {
            let runs: Vec<Run> = runs(regions.iter().copied()).collect();
            prop_assert!(runs.iter().all(|run| run.is_valid()));
            for run in &runs {
                let (first, rest) = run.split_first();
                let split: Vec<(u64, u64)> =
                    std::iter::once(first).chain(rest.into_iter().flat_map(Run::regions)).collect();
                prop_assert_eq!(run.regions().collect::<Vec<_>>(), split);
            }
            prop_assert_eq!(runs.iter().flat_map(|run| run.regions()).collect::<Vec<_>>(), regions);
        }
    }
}
