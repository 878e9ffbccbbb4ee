//! How often which value occurred, and how much weight it had.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds};

use serde::ser::SerializeSeq as _;
use serde::{Serialize, Serializer};

/// Counts and weights by value. Values of more than four digits are kept to four, rounded down, so that a trace of any
/// length needs little memory; what lies below a limit of at most four digits is exact.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Distribution {
    cells: BTreeMap<u64, (u64, u64)>,
    count: u64,
    weight: u64,
}

impl Distribution {
    /// A value that occurred once and weighs nothing.
    pub fn note(&mut self, value: u64) {
        self.add(value, 1, 0);
    }

    /// A value that occurred `count` times and weighs `weight` in all.
    pub fn add(&mut self, value: u64, count: u64, weight: u64) {
        let cell = self.cells.entry(rounded(value)).or_default();
        cell.0 += count;
        cell.1 = cell.1.saturating_add(weight);
        self.count += count;
        self.weight = self.weight.saturating_add(weight);
    }

    /// How many values there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// What they weighed in all.
    pub fn weight(&self) -> u64 {
        self.weight
    }

    /// The share of the values that lie in a range, from 0 to 1; 0 if there is none.
    pub fn share(&self, range: impl RangeBounds<u64>) -> f64 {
        ratio(self.within(range).map(|cell| cell.0).sum(), self.count)
    }

    /// The share of the weight whose values lie in a range, from 0 to 1; 0 if there is none.
    pub fn weight_share(&self, range: impl RangeBounds<u64>) -> f64 {
        ratio(self.within(range).map(|cell| cell.1).sum(), self.weight)
    }

    /// Of each value in ascending order: the value, and the shares of the count and of the weight up to and with it.
    pub fn cumulative(&self) -> impl Iterator<Item = (u64, f64, f64)> {
        let (mut count, mut weight) = (0, 0);
        self.cells.iter().map(move |(value, cell)| {
            count += cell.0;
            weight += cell.1;
            (*value, ratio(count, self.count), ratio(weight, self.weight))
        })
    }

    /// Each value with its count and weight, in ascending order.
    pub fn cells(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        self.cells.iter().map(|(value, cell)| (*value, cell.0, cell.1))
    }

    /// The least value up to which at least that share of the values lies, if there is any.
    pub fn quantile(&self, share: f64) -> Option<u64> {
        self.cumulative().find(|(_, reached, _)| *reached >= share).map(|(value, _, _)| value)
    }

    fn within(&self, range: impl RangeBounds<u64>) -> impl Iterator<Item = (u64, u64)> {
        let is_empty = match (range.start_bound(), range.end_bound()) {
            (Bound::Included(low), Bound::Excluded(high)) => low >= high,
            (Bound::Included(low), Bound::Included(high)) => low > high,
            _ => false,
        };
        let bounds = (range.start_bound().cloned(), range.end_bound().cloned());
        let cells = (!is_empty).then(|| self.cells.range(bounds));
        cells.into_iter().flatten().map(|(_, cell)| *cell)
    }
}

/// As a list of value, count and weight.
impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.cells.len()))?;
        for cell in self.cells() {
            list.serialize_element(&cell)?;
        }
        list.end()
    }
}

/// Four significant digits, rounded down.
fn rounded(value: u64) -> u64 {
    let unit = 10_u64.pow(value.checked_ilog10().unwrap_or(0).saturating_sub(3));
    value / unit * unit
}

pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_count_or_of_the_weight() {
        let mut sizes = Distribution::default();
        for (value, count) in [(100, 8), (1_000, 1), (12_345_678, 1)] {
            sizes.add(value, count, value * count);
        }
        assert_eq!((sizes.share(100..=1_000), sizes.share(..100), sizes.share(4_001..)), (0.9, 0.0, 0.1));
        assert!(sizes.weight_share(4_001..) > 0.999);
        assert_eq!((sizes.quantile(0.5), sizes.quantile(1.0)), (Some(100), Some(12_340_000)));
        assert_eq!(sizes.share(5..5), 0.0);
    }
}
