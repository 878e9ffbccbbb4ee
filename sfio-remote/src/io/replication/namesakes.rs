//! Further names of files whose first name goes its own way.
//!
//! In a manifest a file with several names is a file under the first of them, and the others are hard links to it. An
//! entry that the walk does not meet stays in the data set as it was: because nothing is deleted, or because it does
//! not take part. If such an entry is a hard link, and the walk has changed or deleted the name that it leads to, then
//! it would lead to something else, or to nothing. So it becomes the file that it was.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use super::spool::{Spool, SpoolWriter};
use super::survey::Planned;
use crate::replication::{Entry, EntryKind, TreePath};

/// The hard links that stay as they were, and the files that do not.
#[derive(Debug)]
pub(super) struct Namesakes {
    /// Where each of the links leads to.
    links: BTreeMap<TreePath, TreePath>,
    /// Files of the last generation that are deleted or changed. Most runs have many of them and no such link.
    displaced: SpoolWriter<Entry>,
}

impl Namesakes {
    pub(super) fn new() -> io::Result<Namesakes> {
        Ok(Namesakes { links: BTreeMap::new(), displaced: SpoolWriter::new()? })
    }

    /// An entry of the last generation stays: the walk has not met it, or what is there now may prove unreadable.
    pub(super) fn retain(&mut self, entry: &Entry) {
        if let EntryKind::HardLink { to } = &entry.kind {
            self.links.insert(entry.path.clone(), to.clone());
        }
    }

    /// An entry of the last generation is deleted or changed.
    ///
    /// # Errors
    /// If a temporary file cannot be written.
    pub(super) fn displace(&mut self, entry: &Entry) -> io::Result<()> {
        if matches!(entry.kind, EntryKind::File { .. }) {
            self.displaced.push(entry)?;
        }
        Ok(())
    }

    /// The plan in which each link whose file was displaced is that file, or leads to the first one that now is.
    ///
    /// # Errors
    /// If a temporary file cannot be read or written.
    pub(super) fn settle(self, planned: Spool<Planned>) -> io::Result<Spool<Planned>> {
        let mut files = Files::of(&self.links, &self.displaced.finish()?)?;
        if files.kinds.is_empty() {
            return Ok(planned);
        }
        let mut settled = SpoolWriter::new()?;
        for planned in planned.read()? {
            settled.push(&match planned? {
                Planned::Keep(entry) if is_of(&self.links, &entry) => {
                    Planned::Keep(files.own_or_first(entry))
                }
                Planned::Keep(entry) => Planned::Keep(entry),
                Planned::Read { entry, old, change } => {
                    Planned::Read { entry, old: old.map(|old| files.without_link(old)), change }
                }
                Planned::Link { entry, old, change } => {
                    Planned::Link { entry, old: old.map(|old| files.without_link(old)), change }
                }
            })?;
        }
        settled.finish()
    }
}

/// Whether an entry is one of the links: the walk may have found something else under its name.
fn is_of(links: &BTreeMap<TreePath, TreePath>, entry: &Entry) -> bool {
    matches!(&entry.kind, EntryKind::HardLink { to } if links.get(&entry.path) == Some(to))
}

/// Files that were displaced and have names that stay.
struct Files {
    /// What each was, by its first name until now.
    kinds: BTreeMap<TreePath, EntryKind>,
    /// The first name that it has from now on, by the one until now.
    first: BTreeMap<TreePath, TreePath>,
}

impl Files {
    fn of(links: &BTreeMap<TreePath, TreePath>, displaced: &Spool<Entry>) -> io::Result<Files> {
        let wanted: BTreeSet<&TreePath> = links.values().collect();
        let mut kinds = BTreeMap::new();
        if !wanted.is_empty() {
            for entry in displaced.read()? {
                let entry = entry?;
                if wanted.contains(&entry.path) {
                    kinds.insert(entry.path, entry.kind);
                }
            }
        }
        Ok(Files { kinds, first: BTreeMap::new() })
    }

    /// A link that stays and whose file was displaced, as that file, or as a link to the first one that is it now.
    fn own_or_first(&mut self, entry: Entry) -> Entry {
        let EntryKind::HardLink { to } = &entry.kind else { return entry };
        if !self.kinds.contains_key(to) {
            return entry;
        }
        match self.first.get(to) {
            Some(first) => Entry { kind: EntryKind::HardLink { to: first.clone() }, ..entry },
            None => {
                self.first.insert(to.clone(), entry.path.clone());
                self.without_link(entry)
            }
        }
    }

    /// The entry as a file of its own, if it is a name of one that was displaced.
    fn without_link(&self, entry: Entry) -> Entry {
        let kind = match &entry.kind {
            EntryKind::HardLink { to } => self.kinds.get(to).cloned(),
            _ => None,
        };
        Entry { kind: kind.unwrap_or(entry.kind), ..entry }
    }
}
