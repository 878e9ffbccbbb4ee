//! What is still to happen, ordered by (time, sequence number).

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::time::Duration;

use super::event::{Change, End, LinkId, NodeId};
use crate::link::Transit;

/// Something that is due at a time.
///
/// Nothing is ever taken off the agenda: an item whose ground has gone (a dead link, a pipe reset, a later wake-up)
/// is recognised as stale when it is due. Items stay small, because a heap moves them about.
#[derive(Debug)]
pub(super) enum Item {
    /// A packet reaches the end of the link `toward` which it goes.
    PacketArrives { link: LinkId, toward: End, transit: Transit, packet: Vec<u8> },
    /// The first message of the pipe toward this end reaches it.
    MessageArrives { link: LinkId, toward: End, life: u32 },
    /// This end learns that the pipe is up.
    PipeOpens { link: LinkId, toward: End, life: u32 },
    /// The pipe has been interrupted for too long.
    PipeBreaks { link: LinkId, interruption: u32 },
    /// A wake-up.
    Wake { node: NodeId },
    /// A scheduled change of the network.
    Change(Box<Change>),
}

#[derive(Debug)]
struct Entry {
    at: Duration,
    sequence: u64,
    item: Item,
}

#[derive(Debug, Default)]
pub(super) struct Agenda {
    entries: BinaryHeap<Entry>,
    next_sequence: u64,
}

impl Agenda {
    pub(super) fn add(&mut self, at: Duration, item: Item) {
        self.entries.push(Entry { at, sequence: self.next_sequence, item });
        self.next_sequence += 1;
    }

    /// Takes the first item that is due by `deadline`, with its time.
    pub(super) fn take_due(&mut self, deadline: Duration) -> Option<(Duration, Item)> {
        let first = self.entries.peek_mut().filter(|first| first.at <= deadline)?;
        let entry = std::collections::binary_heap::PeekMut::pop(first);
        Some((entry.at, entry.item))
    }
}

impl Entry {
    fn key(&self) -> (Duration, u64) {
        (self.at, self.sequence)
    }
}

/// The greatest entry is the earliest one, because `BinaryHeap` pops the greatest.
impl Ord for Entry {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key().cmp(&self.key())
    }
}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Entry {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Entry {}
