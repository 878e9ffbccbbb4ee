//! What is still to happen, ordered by (time, sequence number).

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::collections::binary_heap::PeekMut;
use std::time::Duration;

/// Items with the times at which they are due; those of equal times come in the order in which they were added.
///
/// Nothing is ever taken off before its time: an item whose ground has gone is recognised as stale when it is due.
/// Items should be small, because a heap moves them about.
#[derive(Debug)]
pub(crate) struct Agenda<T> {
    entries: BinaryHeap<Entry<T>>,
    next_sequence: u64,
}

#[derive(Debug)]
struct Entry<T> {
    at: Duration,
    sequence: u64,
    item: T,
}

impl<T> Agenda<T> {
    pub(crate) fn new() -> Self {
        Self { entries: BinaryHeap::new(), next_sequence: 0 }
    }

    /// Adds an item that is due at `at`. O(log n).
    pub(crate) fn add(&mut self, at: Duration, item: T) {
        self.entries.push(Entry { at, sequence: self.next_sequence, item });
        self.next_sequence += 1;
    }

    /// Takes the first item that is due by `deadline`, with its time. O(log n).
    pub(crate) fn take_due(&mut self, deadline: Duration) -> Option<(Duration, T)> {
        let first = self.entries.peek_mut().filter(|first| first.at <= deadline)?;
        let entry = PeekMut::pop(first);
        Some((entry.at, entry.item))
    }
}

impl<T> Entry<T> {
    fn key(&self) -> (Duration, u64) {
        (self.at, self.sequence)
    }
}

/// The greatest entry is the earliest one, because `BinaryHeap` pops the greatest.
impl<T> Ord for Entry<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl<T> PartialOrd for Entry<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Entry<T> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<T> Eq for Entry<T> {}
