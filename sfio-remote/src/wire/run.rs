//! Runs: many extents at equal distances, described by four numbers.

use crate::distribution::{Extent, MAX_LENGTH};

/// `count` extents of `length` bytes each, the first at `start`, each `stride` bytes behind the one before.
///
/// ```text
/// start
/// ├──────┤       ├──────┤       ├──────┤        count = 3
///  length
/// ├─── stride ───┤
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    start: u64,
    length: u64,
    stride: u64,
    count: u64,
}

impl Run {
    /// A single extent.
    pub fn single(extent: Extent) -> Run {
        Run { start: extent.offset(), length: extent.length(), stride: extent.length(), count: 1 }
    }

    /// `count` extents of `length` bytes, `stride` bytes from beginning to beginning; none if they are empty, touch, or
    /// end beyond [`MAX_LENGTH`].
    pub fn new(start: u64, length: u64, stride: u64, count: u64) -> Option<Run> {
        let possible = length > 0 && count > 0 && (count == 1 || stride > length);
        let end = (count.checked_sub(1)?).checked_mul(stride)?.checked_add(start)?.checked_add(length)?;
        let stride = if count == 1 { length } else { stride };
        (possible && end <= MAX_LENGTH).then_some(Run { start, length, stride, count })
    }

    /// Where the first extent begins, in bytes.
    pub fn start(self) -> u64 {
        self.start
    }

    /// The length of each extent in bytes; at least 1.
    pub fn length(self) -> u64 {
        self.length
    }

    /// The distance from one beginning to the next in bytes; more than the length, unless there is only one extent.
    pub fn stride(self) -> u64 {
        self.stride
    }

    /// The number of extents; at least 1.
    pub fn count(self) -> u64 {
        self.count
    }

    /// The offset behind the last extent; at most [`MAX_LENGTH`].
    pub fn end(self) -> u64 {
        self.start + (self.count - 1) * self.stride + self.length
    }

    /// The number of bytes in all extents.
    pub fn bytes(self) -> u64 {
        self.count * self.length
    }

    /// The number of bytes in all extents that lie before `size`.
    pub fn bytes_before(self, size: u64) -> u64 {
        if size <= self.start {
            return 0;
        }
        let (whole_strides, rest) = ((size - self.start) / self.stride, (size - self.start) % self.stride);
        if whole_strides >= self.count {
            return self.bytes();
        }
        whole_strides * self.length + rest.min(self.length)
    }

    /// The extents one by one.
    pub fn extents(self) -> impl Iterator<Item = Extent> {
        (0..self.count).map(move |index| {
            let start = self.start + index * self.stride;
            Extent::between(start, start + self.length)
        })
    }

    /// This run with one more extent, if `next` continues it.
    pub(crate) fn extended(self, next: Extent) -> Option<Run> {
        let distance = next.offset() - self.start;
        let fits = match self.count {
            1 => distance > self.length,
            count => distance == count * self.stride,
        };
        let stride = if self.count == 1 { distance } else { self.stride };
        (fits && next.length() == self.length).then_some(Run { stride, count: self.count + 1, ..self })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn impossible_runs_are_refused() {
        assert!(Run::new(0, 0, 5, 2).is_none());
        assert!(Run::new(0, 5, 5, 2).is_none());
        assert!(Run::new(0, 5, 6, 0).is_none());
        assert!(Run::new(MAX_LENGTH - 5, 5, 0, 1).is_some());
        assert!(Run::new(MAX_LENGTH - 5, 6, 0, 1).is_none());
        assert!(Run::new(0, 1, u64::MAX, u64::MAX).is_none());
    }

    proptest! {
        #[test]
        fn the_arithmetic_is_that_of_its_extents(start in 0_u64..50, length in 1_u64..9, gap in 1_u64..9, count in 1_u64..9, size in 0_u64..250) {
            let run = Run::new(start, length, length + gap, count).expect("small");
            let extents: Vec<Extent> = run.extents().collect();
            prop_assert_eq!(extents.iter().map(|e| e.length()).sum::<u64>(), run.bytes());
            prop_assert_eq!(extents.last().map(|e| e.end()), Some(run.end()));
            let before: u64 = extents.iter().map(|e| e.end().min(size).saturating_sub(e.offset())).sum();
            prop_assert_eq!(run.bytes_before(size), before);
            let joined = extents[1..].iter().try_fold(Run::single(extents[0]), |run, next| run.extended(*next));
            prop_assert_eq!(joined, Some(run));
        }
    }
}
