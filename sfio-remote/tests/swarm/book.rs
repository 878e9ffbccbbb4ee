//! The test's own book: what runs were told to do, and what they acknowledged.

use std::collections::{BTreeMap, BTreeSet};

/// The number of an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AttemptId(usize);

/// What was asked of a data set, and what came of it.
#[derive(Debug, Default)]
pub(crate) struct Book {
    attempts: Vec<Attempt>,
    /// What each generation is that any run acknowledged: the number of a tree.
    acknowledged: BTreeMap<u64, usize>,
    /// The last attempt that acknowledged a generation.
    last_acknowledged: BTreeMap<u64, usize>,
    /// Generations that somebody was told to forget.
    forgotten: BTreeSet<u64>,
    /// What attempts before this one have acknowledged may be gone with the data set; none while a removal goes on.
    removals: Vec<Option<usize>>,
    damage: Option<Damage>,
    /// From this attempt on runs can know what is lost.
    known_from: Option<usize>,
    /// Acknowledged by attempts that could know.
    whole: BTreeSet<u64>,
}

/// The number of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RemovalId(usize);

/// What disks have lost that they had promised to keep.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Damage {
    /// A bit, which only reading shows.
    Bit,
    /// What one disk of several had, since some time or altogether: whoever compares with the others sees that.
    Disk,
    /// The same of the only disk: whoever remembers nothing cannot know.
    OnlyDisk,
}

/// A run that was to publish a generation.
#[derive(Debug)]
struct Attempt {
    tree: usize,
    keep: usize,
    end: End,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    /// It may have published by now, or still will.
    Unknown,
    /// It has not and will not.
    Nothing,
    Published(u64),
}

impl Book {
    /// A run begins that keeps so many generations.
    pub(crate) fn begin(&mut self, tree: usize, keep: usize) -> AttemptId {
        self.attempts.push(Attempt { tree, keep, end: End::Unknown });
        AttemptId(self.attempts.len() - 1)
    }

    /// Somebody begins to forget a generation.
    pub(crate) fn begin_to_forget(&mut self, generation: u64) {
        self.forgotten.insert(generation);
    }

    /// Somebody begins to remove the data set: from now on, until it is known that the removal is over, everything may
    /// be gone.
    pub(crate) fn begin_to_remove(&mut self) -> RemovalId {
        self.removals.push(None);
        RemovalId(self.removals.len() - 1)
    }

    /// A removal is over: what later attempts acknowledge is there.
    pub(crate) fn removed(&mut self, RemovalId(id): RemovalId) {
        self.removals[id] = Some(self.attempts.len());
    }

    /// A run acknowledged a generation: new, or the current one, which has the tree already.
    pub(crate) fn acknowledged(
        &mut self,
        AttemptId(id): AttemptId,
        generation: u64,
        is_new: bool,
    ) -> Result<(), String> {
        let tree = self.attempts[id].tree;
        // Another run may have found it there before the one that published it could say so.
        let is_published_twice =
            is_new && self.attempts.iter().any(|other| other.end == End::Published(generation));
        self.attempts[id].end = if is_new { End::Published(generation) } else { End::Nothing };
        if self.known_from.is_some_and(|from| id >= from) {
            self.whole.insert(generation);
        }
        let last = self.last_acknowledged.entry(generation).or_default();
        *last = id.max(*last);
        match self.acknowledged.insert(generation, tree) {
            // Nobody who remembers nothing could know that the number was used.
            Some(_) if self.damage == Some(Damage::OnlyDisk) => Ok(()),
            Some(other) if other != tree => Err(format!(
                "generation {generation} was acknowledged as tree {other}, and now as tree {tree}"
            )),
            Some(_) if is_published_twice => Err(format!("generation {generation} was published twice")),
            _ => Ok(()),
        }
    }

    /// All runs have ended; `listed` generations are there and `next` comes next. Learns which of those runs have
    /// published nothing that could not say what they did.
    pub(crate) fn learn(&mut self, next: u64) {
        // A generation that a run found there may have been published by one that cannot say so.
        let is_published = |number| self.attempts.iter().any(|attempt| attempt.end == End::Published(number));
        let is_known = self.damage.is_none() && (1..next).all(is_published);
        if is_known {
            let unknown = self.attempts.iter_mut().filter(|attempt| attempt.end == End::Unknown);
            unknown.for_each(|attempt| attempt.end = End::Nothing);
        }
        if self.damage.is_none() {
            let now = self.attempts.len();
            self.removals.iter_mut().for_each(|until| *until = until.or(Some(now)));
        }
    }

    /// The generations that were acknowledged and must be there, whatever is not listed; with their trees.
    pub(crate) fn retained(&self, listed: &[u64]) -> BTreeMap<u64, usize> {
        let is_retained =
            |(generation, _): &(&u64, &usize)| listed.contains(generation) || !self.may_be_gone(**generation);
        self.acknowledged.iter().filter(is_retained).map(|(generation, tree)| (*generation, *tree)).collect()
    }

    /// The trees of runs that do not know whether they have published.
    pub(crate) fn unknown_trees(&self) -> BTreeSet<usize> {
        let unknown = self.attempts.iter().filter(|attempt| attempt.end == End::Unknown);
        unknown.map(|attempt| attempt.tree).collect()
    }

    /// Everything that was acknowledged.
    pub(crate) fn all(&self) -> &BTreeMap<u64, usize> {
        &self.acknowledged
    }

    /// A disk has lost something.
    pub(crate) fn damaged(&mut self, damage: Damage) {
        self.damage = self.damage.max(Some(damage));
        self.whole.clear();
        self.known_from = (damage != Damage::Bit).then_some(self.attempts.len());
    }

    /// A `verify` has said what is lost, and recorded it.
    pub(crate) fn damage_is_known(&mut self) {
        self.known_from.get_or_insert(self.attempts.len());
    }

    pub(crate) fn damage(&self) -> Option<Damage> {
        self.damage
    }

    /// Whether a generation must be whole although disks have lost something: who acknowledged it could know that.
    pub(crate) fn must_be_whole(&self, generation: u64) -> bool {
        self.whole.contains(&generation)
    }

    /// Whether a generation was to be forgotten, alone or with the data set, or some run's `--keep` may have pushed it
    /// out: one that published, or may have, when so many others had followed it.
    pub(crate) fn may_be_gone(&self, generation: u64) -> bool {
        let acknowledged = self.last_acknowledged.get(&generation).copied();
        let is_removed = |until: &Option<usize>| until.is_none_or(|until| acknowledged < Some(until));
        if self.forgotten.contains(&generation) || self.removals.iter().any(is_removed) {
            return true;
        }
        let unknown = self.attempts.iter().filter(|attempt| attempt.end == End::Unknown).count();
        self.attempts.iter().any(|attempt| {
            let (last, more) = match attempt.end {
                End::Nothing => return false,
                End::Published(number) if number <= generation => return false,
                End::Published(number) => (number, unknown),
                End::Unknown => (u64::MAX, unknown),
            };
            let published = self.attempts.iter().filter(
                |other| matches!(other.end, End::Published(number) if number > generation && number <= last),
            );
            published.count() + more >= attempt.keep
        })
    }
}
