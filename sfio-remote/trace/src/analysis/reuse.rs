//! How long ago a block was accessed before.

use std::collections::BTreeMap;

use crate::record::Micros;

/// When the blocks of a file were last accessed, as ranges that were accessed together.
#[derive(Debug, Clone, Default)]
pub(super) struct LastAccess {
    /// First block → one behind the last, and when.
    ranges: BTreeMap<u64, (u64, Micros)>,
}

impl LastAccess {
    /// The blocks from `first` to before `end` are accessed: tells for those that were before how long ago that was,
    /// and how many there are.
    pub(super) fn access(&mut self, first: u64, end: u64, at: Micros, mut note: impl FnMut(Micros, u64)) {
        self.split(first);
        self.split(end);
        let inside: Vec<_> = self.ranges.range(first..end).map(|(start, range)| (*start, *range)).collect();
        for (start, (stop, time)) in inside {
            note(at.saturating_sub(time), stop - start);
            self.ranges.remove(&start);
        }
        self.ranges.insert(first, (end, at));
    }

    /// Makes `block` the first one of a range, if it lies within one.
    fn split(&mut self, block: u64) {
        let before = self.ranges.range(..block).next_back().map(|(start, range)| (*start, *range));
        if let Some((start, (end, time))) = before.filter(|(_, (end, _))| *end > block) {
            self.ranges.insert(start, (block, time));
            self.ranges.insert(block, (end, time));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_has_its_own_past() {
        let (mut last, mut heard) = (LastAccess::default(), Vec::new());
        last.access(0, 10, 100, |_, _| unreachable!("it is the first time"));
        last.access(3, 5, 107, |elapsed, blocks| heard.push((elapsed, blocks)));
        last.access(0, 12, 110, |elapsed, blocks| heard.push((elapsed, blocks)));
        assert_eq!(heard, [(7, 2), (10, 3), (3, 2), (10, 5)]);
    }
}
