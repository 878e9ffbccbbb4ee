//! What has happened: links and paths that die and come back, and what sources tell.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::picture::{Happening, Kind, Life};

/// Happenings that are remembered.
const MAX_HAPPENINGS: usize = 60;
/// Paths that one happening names; a link takes many with it.
const NAMED_PATHS: usize = 2;

/// Something that lives or does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Living {
    pub(super) key: String,
    /// What people call it: its members.
    pub(super) name: String,
    pub(super) life: Life,
}

/// The memory of what has happened.
#[derive(Debug, Default)]
pub(super) struct Happenings {
    latest: VecDeque<Happening>,
    count: u64,
    links: Lives,
    paths: Lives,
    deaths: BTreeMap<String, u64>,
}

/// How things were when they were last seen to be alive or dead.
#[derive(Debug, Default)]
struct Lives(BTreeMap<String, Life>);

impl Lives {
    /// Who has died, and who has come back. Of what nobody knows now, what was known last holds.
    fn change(&mut self, all: &[Living]) -> [Vec<Living>; 2] {
        let present: BTreeSet<&String> = all.iter().map(|living| &living.key).collect();
        self.0.retain(|key, _| present.contains(key));
        let mut changed = [Vec::new(), Vec::new()];
        for living in all.iter().filter(|living| living.life != Life::Unknown) {
            match (self.0.insert(living.key.clone(), living.life), living.life) {
                (Some(Life::Live), Life::Dead) => changed[0].push(living.clone()),
                (Some(Life::Dead), Life::Live) => changed[1].push(living.clone()),
                _ => {}
            }
        }
        changed
    }
}

impl Happenings {
    /// Tells of each link that has died or come back.
    pub(super) fn note_links(&mut self, links: &[Living], at_s: f64, clock_ms: u64) {
        let [died, returned] = self.links.change(links);
        for link in died {
            *self.deaths.entry(link.key.clone()).or_default() += 1;
            self.tell(Kind::Death, format!("link {} died", link.name), Some(link.key), at_s, clock_ms);
        }
        for link in returned {
            self.tell(Kind::Return, format!("link {} is back", link.name), Some(link.key), at_s, clock_ms);
        }
    }

    /// Tells of the paths that have died, and of those that have come back, together.
    pub(super) fn note_paths(&mut self, paths: &[Living], at_s: f64, clock_ms: u64) {
        let [died, returned] = self.paths.change(paths);
        for (kind, paths) in [(Kind::Death, died), (Kind::Return, returned)] {
            if let Some(words) = of_paths(kind, &paths) {
                self.tell(kind, words, Some(paths[0].key.clone()), at_s, clock_ms);
            }
        }
    }

    pub(super) fn tell(&mut self, kind: Kind, words: String, key: Option<String>, at_s: f64, clock_ms: u64) {
        self.count += 1;
        self.latest.push_back(Happening { number: self.count, at_s, clock_ms, kind, words, key });
        if self.latest.len() > MAX_HAPPENINGS {
            self.latest.pop_front();
        }
    }

    /// How often a link was seen to die.
    pub(super) fn deaths(&self, key: &str) -> u64 {
        self.deaths.get(key).copied().unwrap_or_default()
    }

    pub(super) fn latest(&self) -> Vec<Happening> {
        self.latest.iter().cloned().collect()
    }
}

fn of_paths(kind: Kind, paths: &[Living]) -> Option<String> {
    let (is_many, verb) = (paths.len() > 1, if kind == Kind::Death { "died" } else { "back" });
    let verb = match (kind, is_many) {
        (Kind::Death, _) => verb.to_owned(),
        (_, false) => format!("is {verb}"),
        (_, true) => format!("are {verb}"),
    };
    let names: Vec<&str> = paths.iter().take(NAMED_PATHS).map(|path| path.name.as_str()).collect();
    match paths.len() {
        0 => None,
        1 => Some(format!("path {} {verb}", names[0])),
        count if count > NAMED_PATHS => {
            Some(format!("{count} paths {verb}: {} and {} more", names.join(", "), count - NAMED_PATHS))
        }
        count => Some(format!("{count} paths {verb}: {}", names.join(", "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn living(name: &str, life: Life) -> Living {
        Living { key: format!("link {name}"), name: name.to_owned(), life }
    }

    fn words(happenings: &Happenings) -> Vec<String> {
        happenings.latest().into_iter().map(|happening| happening.words).collect()
    }

    #[test]
    fn deaths_and_returns_are_told_once_and_unknown_is_neither() {
        let mut happenings = Happenings::default();
        let lives =
            [Life::Unknown, Life::Live, Life::Live, Life::Dead, Life::Dead, Life::Unknown, Life::Live];
        for (second, life) in lives.into_iter().enumerate() {
            happenings.note_links(&[living("a – b", life)], second as f64, 0);
        }
        assert_eq!(words(&happenings), ["link a – b died", "link a – b is back"]);
        assert_eq!(
            happenings.latest().iter().map(|happening| happening.at_s).collect::<Vec<_>>(),
            [3.0, 6.0]
        );
        assert_eq!((happenings.deaths("link a – b"), happenings.deaths("link c")), (1, 0));
    }

    #[test]
    fn what_was_dead_from_the_start_has_not_died() {
        let mut happenings = Happenings::default();
        happenings.note_links(&[living("a – b", Life::Dead)], 0.0, 0);
        happenings.note_links(&[], 1.0, 0);
        assert_eq!(words(&happenings), Vec::<String>::new());
    }

    #[test]
    fn paths_that_die_together_are_one_happening() {
        let mut happenings = Happenings::default();
        let all = |life| ["x", "y", "z"].map(|name| living(name, life));
        happenings.note_paths(&all(Life::Live), 0.0, 0);
        happenings.note_paths(&all(Life::Dead), 1.0, 0);
        happenings.note_paths(&[living("x", Life::Live), living("y", Life::Dead)], 2.0, 0);
        assert_eq!(words(&happenings), ["3 paths died: x, y and 1 more", "path x is back"]);
    }

    #[test]
    fn only_so_many_are_remembered() {
        let mut happenings = Happenings::default();
        (0..1_000).for_each(|number| happenings.tell(Kind::Note, number.to_string(), None, 0.0, 0));
        let latest = happenings.latest();
        assert_eq!((latest.len(), latest[0].number), (MAX_HAPPENINGS, 1_001 - MAX_HAPPENINGS as u64));
    }
}
