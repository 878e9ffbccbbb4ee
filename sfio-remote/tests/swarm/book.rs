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
    /// Whether a disk has lost something or bits.
    is_damaged: bool,
    /// From this attempt on runs can know what is lost.
    known_from: Option<usize>,
    /// Acknowledged by attempts that could know.
    whole: BTreeSet<u64>,
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
    /// A run begins.
    pub(crate) fn begin(&mut self, tree: usize, keep: usize) -> AttemptId {
        self.attempts.push(Attempt { tree, keep, end: End::Unknown });
        AttemptId(self.attempts.len() - 1)
    }

    /// It acknowledged a generation: new, or the current one, which has the tree already.
    pub(crate) fn acknowledged(
        &mut self,
        AttemptId(id): AttemptId,
        generation: u64,
        is_new: bool,
    ) -> Result<(), String> {
        let tree = self.attempts[id].tree;
        self.attempts[id].end = if is_new { End::Published(generation) } else { End::Nothing };
        if self.known_from.is_some_and(|from| id >= from) {
            self.whole.insert(generation);
        }
        match self.acknowledged.insert(generation, tree) {
            Some(other) if other != tree => Err(format!(
                "generation {generation} was acknowledged as tree {other}, and now as tree {tree}"
            )),
            Some(_) if is_new => Err(format!("generation {generation} was published twice")),
            _ => Ok(()),
        }
    }

    /// The generations that were acknowledged and must be there, whatever is not listed; with their trees.
    pub(crate) fn retained(&self, listed: &[u64]) -> BTreeMap<u64, usize> {
        let is_retained =
            |(generation, _): &(&u64, &usize)| listed.contains(generation) || !self.may_be_gone(**generation);
        self.acknowledged.iter().filter(is_retained).map(|(generation, tree)| (*generation, *tree)).collect()
    }

    /// Everything that was acknowledged.
    pub(crate) fn all(&self) -> &BTreeMap<u64, usize> {
        &self.acknowledged
    }

    /// A disk has lost something, which whoever looks at the sizes of objects can see, or bits, which only reading shows.
    pub(crate) fn damaged(&mut self, can_be_seen: bool) {
        self.is_damaged = true;
        self.whole.clear();
        self.known_from = can_be_seen.then_some(self.attempts.len());
    }

    /// A `verify` has said what is lost.
    pub(crate) fn damage_is_known(&mut self) {
        self.known_from.get_or_insert(self.attempts.len());
    }

    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// Whether a generation must be whole although disks have lost something: who acknowledged it could know that.
    pub(crate) fn must_be_whole(&self, generation: u64) -> bool {
        self.whole.contains(&generation)
    }

    /// Whether some run's `--keep` may have pushed a generation out: one that published, or may have, when so many others
    /// had followed it.
    fn may_be_gone(&self, generation: u64) -> bool {
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
