//! What a folder holds.

use std::collections::BTreeSet;

use crate::name::EntryName;
use crate::wire::MAX_LISTING_BYTES;

/// Some entries of a folder, in the order of their names' bytes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    /// The entries.
    pub entries: Vec<Entry>,
    /// Whether there are more behind the last one.
    pub more: bool,
}

/// One entry of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Its name there.
    pub name: EntryName,
    /// What it is.
    pub kind: EntryKind,
    /// The size of a file in bytes; 0 for all else.
    pub size: u64,
    /// Whether it is written once, and the session that does so still lives. Stores do not know; the I/O node does.
    pub is_being_written: bool,
}

/// What an entry of a folder is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EntryKind {
    /// Bytes at offsets.
    File,
    /// A folder.
    Folder,
    /// Something else, for instance a symbolic link.
    Other,
}

/// The most bytes that an entry takes in a reply, beside its name.
pub(crate) const ENTRY_BYTES: usize = 10;

/// The first names of a folder whose names come in any order, as many as one reply has room for.
#[derive(Debug)]
pub(crate) struct FirstNames<'a> {
    after: Option<&'a EntryName>,
    names: BTreeSet<EntryName>,
    bytes: usize,
    /// The smallest name that was left out.
    end: Option<EntryName>,
}

impl FirstNames<'_> {
    /// The first of the names that come behind `after`.
    pub(crate) fn new(after: Option<&EntryName>) -> FirstNames<'_> {
        // One byte says whether there is more.
        FirstNames { after, names: BTreeSet::new(), bytes: 1, end: None }
    }

    pub(crate) fn push(&mut self, name: EntryName) {
        if self.after.is_some_and(|after| name <= *after) || self.end.as_ref().is_some_and(|end| name >= *end)
        {
            return;
        }
        self.bytes += size_of(&name);
        self.names.insert(name);
        while self.bytes > MAX_LISTING_BYTES {
            let Some(last) = self.names.pop_last() else { return };
            self.bytes -= size_of(&last);
            self.end = Some(last);
        }
    }

    /// The names in their order, and whether there are more.
    pub(crate) fn finish(self) -> (BTreeSet<EntryName>, bool) {
        (self.names, self.end.is_some())
    }
}

fn size_of(name: &EntryName) -> usize {
    ENTRY_BYTES + name.as_str().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn going_on_behind_the_last_name_gives_each_once(lengths in prop::collection::btree_set((1_usize..240, 0_u32..2_000), 0..900)) {
            let name = |(length, number): (usize, u32)| EntryName::new(&format!("{number:0length$}")).expect("a right name");
            let all: BTreeSet<EntryName> = lengths.iter().copied().map(name).collect();
            let (mut listed, mut after) = (Vec::new(), None);
            loop {
                let mut first = FirstNames::new(after.as_ref());
                all.iter().rev().for_each(|name| first.push(name.clone()));
                let (names, more) = first.finish();
                prop_assert!(names.iter().map(size_of).sum::<usize>() < MAX_LISTING_BYTES);
                listed.extend(names);
                after = listed.last().cloned();
                if !more {
                    break;
                }
            }
            prop_assert_eq!(listed, all.into_iter().collect::<Vec<_>>());
        }
    }
}
