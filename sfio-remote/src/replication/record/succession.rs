//! Which record may follow which.

use std::collections::{BTreeMap, BTreeSet};

use super::{Deed, ObjectEntry, Record, RunId, SignedRecord};
use crate::replication::chunk::Hash;

/// What a member may do to a data set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Right {
    /// It may add: every earlier generation and every healing stays.
    Append,
    /// It may also roll back, forget, and condemn.
    ReadWrite,
}

/// Why a record may not follow another one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadSuccessor {
    /// It was made for another place in the chain.
    #[error("it is record {number} behind {predecessor}, and the newest one here is {newest} ({hash})")]
    Stale {
        /// Its number.
        number: u64,
        /// The hash that it names.
        predecessor: Hash,
        /// The number of the newest record; 0 if there is none.
        newest: u64,
        /// The newest record's hash.
        hash: Hash,
    },
    /// It is of another data set.
    #[error("it is a record of the data set {found}, and this is {expected}")]
    OtherDataSet {
        /// The data set that it names.
        found: String,
        /// The data set that it was to be published in.
        expected: String,
    },
    /// It names runs that were condemned.
    #[error("it names run {0}, which has been condemned")]
    Condemned(RunId),
    /// It uses a number for something else than before, or one that was used.
    #[error("it gives {0} a number that was used")]
    Number(&'static str),
    /// A right is missing.
    #[error("the right append does not allow {0}; read-write does")]
    Right(&'static str),
}

impl SignedRecord {
    /// Whether this record may follow `predecessor` in the chain, for a member with that right. For the first record of
    /// a data set there is none.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check_successor(
        &self,
        predecessor: Option<&SignedRecord>,
        right: Right,
    ) -> Result<(), BadSuccessor> {
        let (newest, hash) = predecessor.map_or((0, Hash::ZERO), |before| (before.number, before.hash));
        if self.number != newest + 1 || self.predecessor != hash {
            let (number, predecessor) = (self.number, self.predecessor);
            return Err(BadSuccessor::Stale { number, predecessor, newest, hash });
        }
        let Some(before) = predecessor else { return Ok(()) };
        self.is_of_the_data_set_of(before)?;
        self.keeps_numbers_of(before)?;
        let condemned: BTreeSet<RunId> = before.condemned.iter().copied().collect();
        if let Some(entry) = self.objects.iter().find(|entry| condemned.contains(&entry.run)) {
            return Err(BadSuccessor::Condemned(entry.run));
        }
        match right {
            Right::Append => self.only_adds_to(before),
            Right::ReadWrite => Ok(()),
        }
    }
}

impl Record {
    /// The objects that this record names and `before` does not.
    pub fn new_runs(&self, before: Option<&Record>) -> Vec<RunId> {
        let known: BTreeSet<RunId> =
            before.iter().flat_map(|before| before.objects.iter()).map(|entry| entry.run).collect();
        self.objects.iter().map(|entry| entry.run).filter(|run| !known.contains(run)).collect()
    }

    /// Whether it takes away anything that `before` has: a member that may only append may not publish such a record.
    pub fn drops_something_of(&self, before: &Record) -> bool {
        self.only_adds_to(before).is_err()
    }

    fn is_of_the_data_set_of(&self, before: &Record) -> Result<(), BadSuccessor> {
        if (self.token, &self.site, &self.name) == (before.token, &before.site, &before.name) {
            return Ok(());
        }
        let full = |record: &Record| {
            format!("{}:{} ({:032x})", record.site, record.name, u128::from_be_bytes(record.token.0))
        };
        Err(BadSuccessor::OtherDataSet { found: full(self), expected: full(before) })
    }

    fn keeps_numbers_of(&self, before: &Record) -> Result<(), BadSuccessor> {
        let old: BTreeMap<u32, &ObjectEntry> =
            before.objects.iter().map(|entry| (entry.number, entry)).collect();
        let is_right = |entry: &ObjectEntry| match old.get(&entry.number) {
            Some(known) => *known == entry,
            None => entry.number >= before.next_object,
        };
        if !self.objects.iter().all(is_right) || self.next_object < before.next_object {
            return Err(BadSuccessor::Number("an object"));
        }
        let is_right = |number| before.generation(number).is_some() || number >= before.next_generation;
        let generations = self.generations.iter().all(|generation| is_right(generation.number));
        if !generations || self.next_generation < before.next_generation {
            return Err(BadSuccessor::Number("a generation"));
        }
        Ok(())
    }

    /// What *append* allows: new generations, new damage, new healings of places that were not healed.
    fn only_adds_to(&self, before: &Record) -> Result<(), BadSuccessor> {
        let kept: Vec<_> =
            self.generations.iter().filter(|one| one.number < before.next_generation).collect();
        let rules = [
            (matches!(self.deed, Deed::Publish | Deed::Damage | Deed::Heal), "rolling back or forgetting"),
            (kept.iter().copied().eq(before.generations.iter()), "changing or dropping generations"),
            (self.current == before.current || self.current >= before.next_generation, "rolling back"),
            (self.condemned == before.condemned, "condemning"),
            (
                before.objects.iter().all(|entry| self.run_of(entry.number) == Some(entry.run)),
                "dropping objects",
            ),
            (before.healed.iter().all(|old| self.still_heals(old)), "changing or dropping what was healed"),
            (before.damaged.iter().all(|old| self.still_damns(old)), "denying damage"),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, what)) => Err(BadSuccessor::Right(what)),
            None => Ok(()),
        }
    }
}
