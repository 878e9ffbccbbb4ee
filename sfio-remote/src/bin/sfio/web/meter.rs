//! Rates from counters.

use std::collections::{BTreeMap, VecDeque};

/// The time over which rates are taken: blocks are acknowledged in lumps, so a shorter one would make rates jump.
const WINDOW_S: f64 = 1.0;

/// Counters of many things at one moment, by their names.
pub(super) type Counts = BTreeMap<String, [u64; 4]>;

/// The counters of the last second or so.
#[derive(Debug, Default)]
pub(super) struct Meter {
    looks: VecDeque<(f64, Counts)>,
}

impl Meter {
    /// The counters at the time `at_s`.
    pub(super) fn note(&mut self, at_s: f64, counts: Counts) {
        self.looks.push_back((at_s, counts));
        // The oldest one that is kept is the youngest of those that are old enough.
        while self.looks.len() > 2 && at_s - self.looks[1].0 >= WINDOW_S {
            self.looks.pop_front();
        }
    }

    /// How much the counters of something have grown within the window, since it was first seen there.
    pub(super) fn growth(&self, name: &str) -> [u64; 4] {
        self.grown(name).map_or([0; 4], |(_, growth)| growth)
    }

    /// The same in a second; nothing for what was seen once only.
    pub(super) fn per_second(&self, name: &str) -> [f64; 4] {
        match self.grown(name) {
            Some((seconds, growth)) if seconds > 0.0 => growth.map(|growth| growth as f64 / seconds),
            _ => [0.0; 4],
        }
    }

    fn grown(&self, name: &str) -> Option<(f64, [u64; 4])> {
        let (now, last) = self.looks.back()?;
        let last = last.get(name)?;
        let (then, first) = self.looks.iter().find_map(|(at, counts)| Some((at, counts.get(name)?)))?;
        // Counters that have gone back are those of something else.
        Some((now - then, std::array::from_fn(|index| last[index].saturating_sub(first[index]))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(entries: &[(&str, u64)]) -> Counts {
        entries.iter().map(|(name, count)| ((*name).to_owned(), [*count, 0, 0, 0])).collect()
    }

    #[test]
    fn rates_are_those_of_the_last_second() {
        let mut meter = Meter::default();
        for (quarter, count) in [0, 1_000, 1_000, 1_000, 1_000, 1_050, 1_100].into_iter().enumerate() {
            meter.note(quarter as f64 / 4.0, counts(&[("path", count)]));
        }
        assert_eq!((meter.per_second("path")[0], meter.growth("path")[0]), (100.0, 100));
        assert!(meter.looks.len() <= 5);
    }

    #[test]
    fn what_is_seen_more_seldom_has_the_rate_since_the_look_before() {
        let mut meter = Meter::default();
        [0.0, 3.0, 6.0].into_iter().for_each(|at| meter.note(at, counts(&[("path", 10 * at as u64)])));
        assert_eq!(meter.per_second("path")[0], 10.0);
    }

    #[test]
    fn what_is_new_or_gone_or_begins_anew_has_no_rate() {
        let mut meter = Meter::default();
        meter.note(0.0, counts(&[("gone", 1), ("anew", 100)]));
        meter.note(1.0, counts(&[("new", 5), ("anew", 1)]));
        let rate = |name| meter.per_second(name)[0];
        assert_eq!((rate("new"), rate("gone"), rate("anew")), (0.0, 0.0, 0.0));
    }
}
