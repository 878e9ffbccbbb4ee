//! Whose turn it is among streams that wait to form a block.

use std::collections::BTreeMap;

/// Streams that wait, in the order in which they began to wait or were served last.
///
/// The order of their numbers would not do. Streams that are opened later have higher numbers; a client that opens the
/// next stream whenever one has ended would keep the turns among the new ones, and the oldest would never be served.
#[derive(Debug, Default)]
pub(super) struct Turns {
    by_turn: BTreeMap<u64, u32>,
    turn_of: BTreeMap<u32, u64>,
    next: u64,
}

impl Turns {
    /// A stream waits, behind all that do already, or does not wait any more.
    pub(super) fn set(&mut self, number: u32, waits: bool) {
        match waits {
            true if self.contains(number) => {}
            true => self.enter(number),
            false => self.remove(number),
        }
    }

    /// A stream has had its turn: if it waits, it does so behind the others from now on.
    pub(super) fn go_to_the_end(&mut self, number: u32) {
        if self.contains(number) {
            self.remove(number);
            self.enter(number);
        }
    }

    pub(super) fn remove(&mut self, number: u32) {
        if let Some(turn) = self.turn_of.remove(&number) {
            self.by_turn.remove(&turn);
        }
    }

    pub(super) fn contains(&self, number: u32) -> bool {
        self.turn_of.contains_key(&number)
    }

    /// Those who wait, the next one first.
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> {
        self.by_turn.values().copied()
    }

    fn enter(&mut self, number: u32) {
        self.turn_of.insert(number, self.next);
        self.by_turn.insert(self.next, number);
        self.next += 1;
    }
}
