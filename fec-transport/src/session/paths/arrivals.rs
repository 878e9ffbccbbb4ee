//! What has arrived over a path, and what a report says of it.

use std::collections::VecDeque;

use super::tally::{Tally, WORD};
use crate::crypto::replay::{REPLAY_WINDOW, ReplayWindow};
use crate::time::Time;
use crate::wire::report::Arrived;

/// In how many reports a packet is named: so many in a row may get lost before one that arrived counts as lost.
const NAMED_IN: usize = 16;
/// The most words of a path that a report names: those of the replay window.
pub(super) const MAX_WORDS: usize = (REPLAY_WINDOW / WORD) as usize;

/// Above every word: no packet has come.
const NONE: u64 = u64::MAX;

/// What has arrived over a path.
#[derive(Debug)]
pub(crate) struct Arrivals {
    window: ReplayWindow,
    /// The packet with the highest number.
    highest: Option<Arrival>,
    tally: Tally,
    /// The lowest word that packets came in before each of the latest reports, since the one before it.
    reported: VecDeque<u64>,
    /// The lowest word that packets have come in since the latest report.
    unreported: u64,
    last_heard: Time,
}

/// A packet that has arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) number: u64,
    pub(super) at: Time,
}

impl Arrivals {
    pub(super) fn new(now: Time) -> Arrivals {
        Arrivals {
            window: ReplayWindow::new(),
            highest: None,
            tally: Tally::new(MAX_WORDS),
            reported: VecDeque::new(),
            unreported: NONE,
            last_heard: now,
        }
    }

    /// Whether a packet of this number has not arrived yet, as far as can be told.
    pub(super) fn is_fresh(&self, number: u64) -> bool {
        self.window.is_fresh(number)
    }

    /// A packet has arrived whose seal was right; each number comes once.
    pub(super) fn note(&mut self, now: Time, number: u64, receipt: u32) {
        self.window.mark(number);
        self.last_heard = now;
        if self.highest.is_none_or(|highest| number > highest.number) {
            self.highest = Some(Arrival { number, at: now });
        }
        if let Some(word) = self.tally.word_mut(number / WORD) {
            word.bits |= 1 << (number % WORD);
            word.receipts ^= receipt;
            self.unreported = self.unreported.min(number / WORD);
        }
    }

    /// The packet with the highest number.
    pub(super) fn highest(&self) -> Option<Arrival> {
        self.highest
    }

    /// When the latest one did; before, when the path was set up.
    pub(super) fn last_heard(&self) -> Time {
        self.last_heard
    }

    /// How many words the next report had better name; none before anything has arrived.
    pub(super) fn words_to_report(&self) -> usize {
        let Some(highest) = self.highest else { return 0 };
        let last = highest.number / WORD;
        let changed = self.reported.iter().copied().fold(self.unreported, u64::min);
        (last - changed.clamp(self.tally.first(), last) + 1) as usize
    }

    /// What a report says that has `words` words for this path, at least one.
    pub(super) fn report(&mut self, words: usize) -> Arrived {
        let last = self.highest.map_or(0, |highest| highest.number / WORD);
        if self.reported.len() == NAMED_IN {
            self.reported.pop_front();
        }
        self.reported.push_back(std::mem::replace(&mut self.unreported, NONE));
        let first = (last + 1).saturating_sub(words as u64).max(self.tally.first());
        let named = (first..=last).map(|word| self.tally.word(word));
        let proof = named.clone().fold(0, |proof, word| proof ^ word.receipts);
        Arrived { words: named.map(|word| word.bits).collect(), proof }
    }
}
