//! Which record may follow which.

use std::collections::{BTreeMap, BTreeSet};

use super::{Deed, ObjectEntry, Record, RunId, SignedRecord};
use crate::replication::chunk::Hash;

/// By how much one record may raise the number of the next object. A run gives a number to its own object and to that
/// of each interrupted run that it may use, and the numbers that it does not use are lost.
const MOST_NEW_OBJECTS: u32 = 1 << 16;
/// By how much one record may raise the number of the next generation; a run needs one.
const MOST_NEW_GENERATIONS: u64 = 1 << 20;

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
    /// It leaves out so many numbers that there would soon be none left.
    #[error(
        "it raises the number of the next {what} from {from} to {to}, and a record may by {most} at most"
    )]
    Leap {
        /// Of what.
        what: &'static str,
        /// The number before.
        from: u64,
        /// The number that it has.
        to: u64,
        /// By how much it may grow.
        most: u64,
    },
    /// It says of a generation that somebody else sent it.
    #[error("it changes where a generation comes from, or names another sender than its signer")]
    Origin,
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
        check_numbers(self, predecessor.map(SignedRecord::record))?;
        let Some(before) = predecessor else { return Ok(()) };
        let succession = Succession { before, after: self };
        succession.is_of_one_data_set()?;
        succession.keeps_numbers()?;
        if !succession.has_true_origins() {
            return Err(BadSuccessor::Origin);
        }
        let condemned: BTreeSet<RunId> = before.condemned.iter().copied().collect();
        if let Some(entry) = self.objects.iter().find(|entry| condemned.contains(&entry.run)) {
            return Err(BadSuccessor::Condemned(entry.run));
        }
        match right {
            Right::Append => succession.only_adds(),
            Right::ReadWrite => Ok(()),
        }
    }
}

/// Numbers never come back, so whoever took the last one would end the data set for all others.
fn check_numbers(record: &Record, before: Option<&Record>) -> Result<(), BadSuccessor> {
    if before.is_none() && record.number > 1 {
        // The record before is lost, and how far it had come.
        return Ok(());
    }
    let (object, generation) = before.map_or((0, 1), |before| (before.next_object, before.next_generation));
    let growths = [
        ("object", u64::from(object), u64::from(record.next_object), u64::from(MOST_NEW_OBJECTS)),
        ("generation", generation, record.next_generation, MOST_NEW_GENERATIONS),
    ];
    match growths.into_iter().find(|(_, from, to, most)| to.saturating_sub(*from) > *most) {
        Some((what, from, to, most)) => Err(BadSuccessor::Leap { what, from, to, most }),
        None => Ok(()),
    }
}

/// A record, and the one that is to follow it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Succession<'a> {
    pub(super) before: &'a Record,
    pub(super) after: &'a Record,
}

impl Succession<'_> {
    fn is_of_one_data_set(self) -> Result<(), BadSuccessor> {
        let Succession { before, after } = self;
        if (after.token, &after.site, &after.name) == (before.token, &before.site, &before.name) {
            return Ok(());
        }
        let full = |record: &Record| {
            format!("{}:{} ({:032x})", record.site, record.name, u128::from_be_bytes(record.token.0))
        };
        Err(BadSuccessor::OtherDataSet { found: full(after), expected: full(before) })
    }

    fn keeps_numbers(self) -> Result<(), BadSuccessor> {
        let Succession { before, after } = self;
        let old: BTreeMap<u32, &ObjectEntry> =
            before.objects.iter().map(|entry| (entry.number, entry)).collect();
        let is_right = |entry: &ObjectEntry| match old.get(&entry.number) {
            Some(known) => *known == entry,
            None => entry.number >= before.next_object,
        };
        if !after.objects.iter().all(is_right) || after.next_object < before.next_object {
            return Err(BadSuccessor::Number("an object"));
        }
        let is_right = |number| before.generation(number).is_some() || number >= before.next_generation;
        let generations = after.generations.iter().all(|generation| is_right(generation.number));
        if !generations || after.next_generation < before.next_generation {
            return Err(BadSuccessor::Number("a generation"));
        }
        Ok(())
    }

    /// What *append* allows: new generations, new damage, new healings of places that were not healed.
    pub(super) fn only_adds(self) -> Result<(), BadSuccessor> {
        let Succession { before, after } = self;
        let kept: Vec<_> =
            after.generations.iter().filter(|one| one.number < before.next_generation).collect();
        let rules = [
            (
                matches!(after.deed, Deed::Publish | Deed::Damage | Deed::Heal),
                "rolling back, forgetting or removing",
            ),
            (kept.iter().copied().eq(before.generations.iter()), "changing or dropping generations"),
            (after.current == before.current || after.current >= before.next_generation, "rolling back"),
            (after.condemned == before.condemned, "condemning"),
            (
                before.objects.iter().all(|entry| after.run_of(entry.number) == Some(entry.run)),
                "dropping objects",
            ),
            (before.healed.iter().all(|old| after.still_heals(old)), "changing or dropping what was healed"),
            (before.damaged.iter().all(|old| after.still_damns(old)), "denying damage"),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, what)) => Err(BadSuccessor::Right(what)),
            None => Ok(()),
        }
    }
}
