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
}

/// Takes down what is delivered, and when.
#[derive(Debug, Default)]
pub(super) struct DeliveryRecord {
    so_far: Delivery,
}

impl DeliveryRecord {
    pub(super) fn so_far(&self) -> &Delivery {
        &self.so_far
    }

    /// There was nothing to deliver until now: that was no pause.
    pub(super) fn resume(&mut self, now: Time) {
        self.so_far.last = Some(now);
    }

    /// A block of `length` bytes is whole.
    pub(super) fn note(&mut self, now: Time, length: u32) {
        let Delivery { bytes, last, gaps } = &mut self.so_far;
        *bytes += u64::from(length);
        let pause = last.map_or(Duration::ZERO, |last| now.since(last));
        if pause >= SHORTEST_GAP {
            if gaps.len() == REMEMBERED_GAPS {
                gaps.pop_front();
            }
            gaps.push_back(Gap { ended: now, length: pause });
        }
        *last = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_counts_where_it_overlaps_and_idleness_is_none() {
        let at = |ms| Time::ZERO + Duration::from_millis(ms);
        let mut record = DeliveryRecord::default();
        record.note(at(100), 5);
        record.note(at(150), 5);
        record.resume(at(1000));
        record.note(at(1030), 5);
        let delivery = record.so_far();
        assert_eq!(delivery.bytes, 15);
        assert_eq!(delivery.longest_gap(at(0), at(5000)), Duration::from_millis(50));
        assert_eq!(delivery.longest_gap(at(149), at(200)), Duration::from_millis(50));
        assert_eq!(delivery.longest_gap(at(150), at(900)), Duration::ZERO);
        assert_eq!(delivery.longest_gap(at(1010), at(1020)), Duration::from_millis(30));
    }
}
