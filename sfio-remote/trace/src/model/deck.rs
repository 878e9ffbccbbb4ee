//! Chance: a seeded stream, mixtures, decks.

use rand_chacha::ChaCha8Rng;
use rand_core::{RngCore as _, SeedableRng as _};

/// A stream of random numbers that is a function of its seed.
#[derive(Debug, Clone)]
pub(super) struct Chance(ChaCha8Rng);

impl Chance {
    pub(super) fn new(seed: u64) -> Chance {
        Chance(ChaCha8Rng::seed_from_u64(seed))
    }

    /// From 0 to below 1.
    pub(super) fn share(&mut self) -> f64 {
        (self.0.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// From 0 to below `end`, which is at least 1; what rounding favours is below one in 2³².
    pub(super) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.0.next_u64()) * u128::from(end.max(1))) >> 64) as u64
    }

    /// From `low` to `high`, both possible.
    pub(super) fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high.saturating_sub(low) + 1)
    }

    /// Between two numbers, with even logarithms.
    pub(super) fn log_between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.share())
    }

    /// A number from a mixture of intervals with even logarithms.
    pub(super) fn mixture(&mut self, intervals: &[(f64, f64, f64)]) -> f64 {
        let sum: f64 = intervals.iter().map(|(_, _, weight)| weight).sum();
        let mut left = self.share() * sum;
        for (low, high, weight) in intervals {
            if left < *weight {
                return self.log_between(*low, *high);
            }
            left -= weight;
        }
        intervals.last().map_or(1.0, |(_, high, _)| *high)
    }

    pub(super) fn weighted(&mut self, values: &[(u32, f64)]) -> u32 {
        let sum: f64 = values.iter().map(|(_, weight)| weight).sum();
        let mut left = self.share() * sum;
        for (value, weight) in values {
            if left < *weight {
                return *value;
            }
            left -= weight;
        }
        values.last().map_or(1, |(value, _)| *value)
    }

    pub(super) fn shuffle<T>(&mut self, cards: &mut [T]) {
        for last in (1..cards.len()).rev() {
            cards.swap(last, self.below(last as u64 + 1) as usize);
        }
    }
}

/// Cards that are dealt until there are none, then shuffled and dealt again.
#[derive(Debug, Clone)]
pub(super) struct Deck<T> {
    cards: Vec<T>,
    dealt: usize,
}

impl<T: Clone> Deck<T> {
    /// A deck of at least one card.
    pub(super) fn new(cards: Vec<T>) -> Deck<T> {
        let dealt = cards.len();
        Deck { cards, dealt }
    }

    pub(super) fn deal(&mut self, chance: &mut Chance) -> T {
        if self.dealt >= self.cards.len() {
            chance.shuffle(&mut self.cards);
            self.dealt = 0;
        }
        self.dealt += 1;
        self.cards[self.dealt - 1].clone()
    }
}

/// Numbers that were drawn and not used, so that a use with a lower limit takes a fitting one, and what is used in all
/// is distributed as what was drawn.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool {
    drawn: Vec<f64>,
}

impl Pool {
    /// Numbers that wait.
    const SIZE: usize = 200;

    /// One of the numbers that are at least `least`; if there is none, `least` itself.
    pub(super) fn take(
        &mut self,
        least: f64,
        chance: &mut Chance,
        mut draw: impl FnMut(&mut Chance) -> f64,
    ) -> f64 {
        while self.drawn.len() < Pool::SIZE {
            self.drawn.push(draw(chance));
        }
        self.drawn.sort_by(f64::total_cmp);
        let first = self.drawn.partition_point(|number| *number < least);
        // What needs nothing takes from the lower numbers, so that the upper ones are left to what needs them.
        let last = if least > 0.0 { self.drawn.len() } else { first + Pool::SIZE / 3 };
        if first >= self.drawn.len() {
            least
        } else {
            self.drawn.remove(chance.between(first as u64, last as u64 - 1) as usize)
        }
    }
}
