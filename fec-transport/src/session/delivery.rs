//! How evenly data is delivered.

use std::collections::VecDeque;
use std::time::Duration;

use crate::time::Time;

/// Shorter pauses are nothing to remember.
const SHORTEST_GAP: Duration = Duration::from_millis(10);
const REMEMBERED_GAPS: usize = 256;

/// What was delivered, and when there were pauses.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Delivery {
    /// Bytes of whole blocks.
    pub bytes: u64,
    /// When the last block was whole.
    pub last: Option<Time>,
    /// The latest pauses of at least 10 ms between two blocks, oldest first; at most 256.
    pub gaps: VecDeque<Gap>,
}

/// A pause in delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// When it ended.
    pub ended: Time,
    /// How long it was.
    pub length: Duration,
}

impl Delivery {
    /// The longest pause that began by `to` and ended after `from`; zero if none was longer than 10 ms.
    pub fn longest_gap(&self, from: Time, to: Time) -> Duration {
        let around = self.gaps.iter().filter(|gap| gap.ended > from && gap.ended - gap.length <= to);
        around.map(|gap| gap.length).max().unwrap_or_default()
    }

    /// There was nothing to deliver until now: that was no pause.
    pub(super) fn resume(&mut self, now: Time) {
        self.last = Some(now);
    }

    /// A block of `length` bytes is whole.
    pub(super) fn note(&mut self, now: Time, length: u32) {
        self.bytes += u64::from(length);
        let pause = self.last.map_or(Duration::ZERO, |last| now.since(last));
        if pause >= SHORTEST_GAP {
            if self.gaps.len() == REMEMBERED_GAPS {
                self.gaps.pop_front();
            }
            self.gaps.push_back(Gap { ended: now, length: pause });
        }
        self.last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_where_it_overlaps_and_idleness_is_none() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let mut delivery = Delivery::default();
        delivery.note(at(100), 5);
        delivery.note(at(150), 5);
        delivery.resume(at(1000));
        delivery.note(at(1030), 5);
        assert_eq!(delivery.bytes, 15);
        assert_eq!(delivery.longest_gap(at(0), at(5000)), Duration::from_millis(50));
        assert_eq!(delivery.longest_gap(at(149), at(200)), Duration::from_millis(50));
        assert_eq!(delivery.longest_gap(at(150), at(900)), Duration::ZERO);
        assert_eq!(delivery.longest_gap(at(1010), at(1020)), Duration::from_millis(30));
    }
}
