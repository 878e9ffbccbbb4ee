//! Which of the latest packets of a path have arrived, and what their receipts come to.

use std::collections::VecDeque;

/// Packets of a word.
pub(super) const WORD: u64 = 64;

/// The latest packets of a path, 64 to a word.
#[derive(Debug)]
pub(super) struct Tally {
    /// The word that is remembered longest.
    first: u64,
    words: VecDeque<Word>,
    /// The most words that are remembered.
    most: usize,
}

/// 64 packets in a row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Word {
    /// Which of them have arrived, the lowest number in the lowest bit.
    pub(super) bits: u64,
    /// The exclusive or of their receipts.
    pub(super) receipts: u32,
}

impl Tally {
    /// Remembers so many words.
    pub(super) fn new(most: usize) -> Tally {
        Tally { first: 0, words: VecDeque::new(), most }
    }

    /// The first word that is remembered.
    pub(super) fn first(&self) -> u64 {
        self.first
    }

    /// A word, empty if nothing is known of it.
    pub(super) fn word(&self, word: u64) -> Word {
        let place = word.checked_sub(self.first).and_then(|place| usize::try_from(place).ok());
        place.and_then(|place| self.words.get(place)).copied().unwrap_or_default()
    }

    /// A word, for a change; none if it is too old. Older words are forgotten for a new one.
    pub(super) fn word_mut(&mut self, word: u64) -> Option<&mut Word> {
        let place = word.checked_sub(self.first)?;
        if place >= (self.words.len() + self.most) as u64 {
            self.words.clear();
            self.first = word;
        }
        while self.first + self.words.len() as u64 <= word {
            self.words.push_back(Word::default());
        }
        while self.words.len() > self.most {
            self.words.pop_front();
            self.first += 1;
        }
        self.words.get_mut((word - self.first) as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_words_are_remembered_however_far_numbers_jump() {
        let mut tally = Tally::new(4);
        for word in [0, 1, 5, 3, 4, 1 << 40] {
            let known = tally.word_mut(word);
            assert_eq!(known.is_some(), word + 4 > 5 || word < 2, "word {word}");
            if let Some(known) = known {
                known.bits = word + 1;
            }
            assert!(tally.words.len() <= 4);
        }
        assert_eq!(
            (tally.first(), tally.word(1 << 40).bits, tally.word(5).bits),
            (1 << 40, (1 << 40) + 1, 0)
        );
    }
}
