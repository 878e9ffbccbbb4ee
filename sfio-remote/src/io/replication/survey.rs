//! What has to be done, before it is done: a walk compared with the last generation.

use std::collections::BTreeSet;
use std::io;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::expected::Expected;
use super::namesakes::Namesakes;
use super::selection::Selection;
use super::send::Graft;
use super::spool::{Spool, SpoolWriter};
use super::walk::{LeftOut, Problem, next_entry};
use crate::replication::{Difference, Entry, EntryKind, Merge, Metadata, Record, TreePath};

/// A run in numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Summary {
    /// Entries that were not there before.
    pub new: u64,
    /// Entries whose content may be another one.
    pub changed: u64,
    /// Entries of which only mode, time, owner or attributes are others.
    pub touched: u64,
    /// Files that are as they were, and are read because the site does not have all of them any more.
    pub mended: u64,
    /// Entries that are as they were.
    pub unchanged: u64,
    /// Entries that are gone, and are deleted on the other side.
    pub deleted: u64,
    /// Entries that are gone, and stay on the other side.
    pub retained: u64,
    /// Files that were read or fetched; in a dry run, those that would be.
    pub files: u64,
    /// Their bytes, without those that the target had.
    pub bytes: u64,
    /// What did not work; everything else did.
    pub problems: Vec<Problem>,
    /// Sockets, pipes and devices: no data set holds them, and a run is as if they were not there.
    pub specials: Vec<Problem>,
    /// What interrupted fetches have left in the tree that is sent; it stays where it is.
    pub parts: Vec<Problem>,
    /// How many of the problems are that the site has lost or damaged something.
    pub damaged: u64,
    /// How many of them are that no space is left on the disk that the tree is on.
    pub without_space: u64,
}

impl Summary {
    /// How many entries this happens to.
    pub(super) fn count_of(&mut self, change: Change) -> &mut u64 {
        match change {
            Change::New => &mut self.new,
            Change::Changed => &mut self.changed,
            Change::Touched => &mut self.touched,
            Change::Mended => &mut self.mended,
            Change::Deleted => &mut self.deleted,
        }
    }

    /// Whether something is to be changed on the other side.
    pub fn has_changes(&self) -> bool {
        self.new + self.changed + self.touched + self.mended + self.deleted > 0
    }

    /// Complains of the paths that somebody has listed and that nothing was found at, unless `admits` says that they
    /// were left out, or there is a complaint of them.
    pub(super) fn miss(
        &mut self,
        unseen: BTreeSet<TreePath>,
        mut admits: impl FnMut(&TreePath, bool) -> bool,
    ) {
        let complaints = self.problems.iter().chain(&self.specials).chain(&self.parts);
        let known: BTreeSet<TreePath> = complaints.map(|complaint| complaint.path.clone()).collect();
        let missing = unseen.into_iter().filter(|path| {
            let is_known = known.contains(path) || path.parents().any(|above| known.contains(&above));
            !is_known && admits(path, false) && admits(path, true)
        });
        let what = "it is listed, and there is nothing of that name".to_owned();
        self.problems.extend(missing.map(|path| Problem { path, what: what.clone() }));
    }
}

/// What happens to a path on the other side.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Change {
    /// It appears.
    New,
    /// It gets other content.
    Changed,
    /// It gets other metadata.
    Touched,
    /// It gets the content back that it had.
    Mended,
    /// It is deleted.
    Deleted,
}

/// What is to become of an entry of the new generation.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Planned {
    /// Nothing need be read for it.
    Keep(Entry),
    /// Its file is to be read.
    Read {
        /// As the walk found it.
        entry: Entry,
        /// As the last generation has it: this stays if the file cannot be read.
        old: Option<Entry>,
        /// What is expected to happen to it.
        change: Change,
    },
    /// It has become a further name of a file, which may have to be read.
    Link {
        /// As the walk found it.
        entry: Entry,
        /// As the last generation has it: this stays if the file cannot be read.
        old: Option<Entry>,
        /// What is expected to happen to it.
        change: Change,
    },
}

/// What has changed, and the plan that follows.
#[derive(Debug)]
pub(super) struct Survey {
    /// In numbers.
    pub(super) summary: Summary,
    /// Of the top of the tree, which is no entry.
    pub(super) top: Metadata,
    pub(super) planned: Spool<Planned>,
    /// What is expected to happen to which path, in the order of a walk.
    pub(super) expected: Arc<Spool<Expected>>,
    /// The place in the data set that the tree goes to, if that is not all of it.
    pub(super) graft: Option<Graft>,
}

/// The tops of both trees, which are no entries; there may be no old one.
#[derive(Debug)]
pub(super) struct Tops {
    pub(super) old: Option<Metadata>,
    pub(super) new: Metadata,
    /// Whether the top is an entry of the data set that is not there yet.
    pub(super) is_entry: bool,
}

/// By which rules a survey is made.
#[derive(Debug)]
pub(super) struct Rules<'a> {
    /// Whether entries that are gone are deleted on the other side.
    pub(super) deletes: bool,
    /// Whether files of equal size and time may differ.
    pub(super) distrusts_times: bool,
    pub(super) selection: Selection<'a>,
    /// The newest record, if it says that something is damaged.
    pub(super) damaged: Option<&'a Record>,
}

impl Survey {
    /// Compares `walk` with the entries `old`.
    pub(super) fn make(
        walk: impl Iterator<Item = Result<Entry, LeftOut>>,
        old: impl Iterator<Item = io::Result<Entry>>,
        tops: Tops,
        rules: Rules<'_>,
    ) -> io::Result<Survey> {
        let mut surveyor = Surveyor {
            unseen: rules.selection.listed(),
            rules,
            summary: Summary::default(),
            planned: SpoolWriter::new()?,
            namesakes: Namesakes::new()?,
            emptied: Vec::new(),
            replaced: None,
            expected: SpoolWriter::new()?,
        };
        match &tops.old {
            None if tops.is_entry => surveyor.expect(Change::New, &TreePath::top())?,
            Some(old) if *old != tops.new => surveyor.expect(Change::Touched, &TreePath::top())?,
            _ => {}
        }
        surveyor.run(walk, old)?;
        let Surveyor { mut rules, mut summary, planned, namesakes, unseen, expected, .. } = surveyor;
        summary.miss(unseen, |path, is_directory| {
            rules.selection.admits_with_parents(path, is_directory).unwrap_or(false)
        });
        let planned = namesakes.settle(planned.finish()?)?;
        let expected = Arc::new(expected.finish()?);
        Ok(Survey { summary, top: tops.new, planned, expected, graft: None })
    }
}

struct Surveyor<'a> {
    rules: Rules<'a>,
    summary: Summary,
    planned: SpoolWriter<Planned>,
    namesakes: Namesakes,
    /// Directories around the last path that are gone. They are deleted if nothing stays that is in them.
    emptied: Vec<Entry>,
    /// The last path that is no directory any more: what was in it cannot stay.
    replaced: Option<TreePath>,
    /// The paths that somebody has listed and that nothing was found at so far.
    unseen: BTreeSet<TreePath>,
    expected: SpoolWriter<Expected>,
}

impl Surveyor<'_> {
    fn run(
        &mut self,
        mut walk: impl Iterator<Item = Result<Entry, LeftOut>>,
        mut old: impl Iterator<Item = io::Result<Entry>>,
    ) -> io::Result<()> {
        let merge = Merge { distrusts_times: self.rules.distrusts_times };
        let (mut before, mut now) = (None, None);
        loop {
            now = now.or_else(|| next_entry(&mut walk, &mut self.summary));
            if before.is_none() {
                before = old.next().transpose()?;
            }
            let difference = merge.next(&mut before, &mut now);
            self.leave_emptied(difference.as_ref().map(Difference::path))?;
            let Some(difference) = difference else { return Ok(()) };
            self.take(difference)?;
        }
    }

    fn take(&mut self, difference: Difference) -> io::Result<()> {
        if !matches!(difference, Difference::Gone(_)) {
            self.unseen.remove(difference.path());
        }
        match difference {
            Difference::Gone(entry) => self.gone(entry),
            Difference::New(entry) => self.read(entry, None, Change::New),
            Difference::Changed { old, new } => {
                self.namesakes.displace(&old)?;
                self.namesakes.retain(&old);
                if old.kind == EntryKind::Directory {
                    self.replaced = Some(old.path.clone());
                }
                self.read(new, Some(old), Change::Changed)
            }
            Difference::Kept { entry, .. } if self.is_damaged(&entry) => {
                self.read(entry.clone(), Some(entry), Change::Mended)
            }
            Difference::Kept { entry, is_touched } => {
                match is_touched {
                    true => self.expect(Change::Touched, &entry.path)?,
                    false => self.summary.unchanged += 1,
                }
                self.planned.push(&Planned::Keep(entry))
            }
        }
    }

    fn is_damaged(&self, entry: &Entry) -> bool {
        self.rules.damaged.is_some_and(|record| entry.chunks().any(|chunk| record.is_damaged(chunk)))
    }

    fn expect(&mut self, change: Change, path: &TreePath) -> io::Result<()> {
        *self.summary.count_of(change) += 1;
        self.expected.push(&Expected { change, path: path.clone() })
    }

    /// What could not be looked at, and what does not take part, is not gone for all we know.
    fn gone(&mut self, entry: Entry) -> io::Result<()> {
        let path = &entry.path;
        let is_homeless = self.replaced.as_ref().is_some_and(|replaced| path.is_within(replaced));
        let is_unknown = || self.summary.problems.iter().any(|problem| path.is_within(&problem.path));
        let is_directory = entry.kind == EntryKind::Directory;
        // What an ignore file says is unknown while it cannot be read.
        let mut takes_part = || self.rules.selection.admits_with_parents(path, is_directory).unwrap_or(false);
        if is_homeless || (self.rules.deletes && takes_part() && !is_unknown()) {
            self.unseen.remove(path);
            self.namesakes.displace(&entry)?;
            match is_directory {
                true => self.emptied.push(entry),
                false => self.expect(Change::Deleted, &entry.path)?,
            }
            return Ok(());
        }
        self.namesakes.retain(&entry);
        std::mem::take(&mut self.emptied).into_iter().chain([entry]).try_for_each(|entry| {
            self.summary.retained += 1;
            self.planned.push(&Planned::Keep(entry))
        })
    }

    /// Deletes the directories that do not lead to `path`; without a path, all.
    fn leave_emptied(&mut self, path: Option<&TreePath>) -> io::Result<()> {
        let is_left = |entry: &mut Entry| !path.is_some_and(|path| path.is_within(&entry.path));
        while let Some(directory) = self.emptied.pop_if(is_left) {
            self.expect(Change::Deleted, &directory.path)?;
        }
        Ok(())
    }

    fn read(&mut self, entry: Entry, old: Option<Entry>, change: Change) -> io::Result<()> {
        self.expect(change, &entry.path)?;
        if matches!(entry.kind, EntryKind::HardLink { .. }) {
            return self.planned.push(&Planned::Link { entry, old, change });
        }
        if entry.size() == 0 {
            return self.planned.push(&Planned::Keep(entry));
        }
        self.summary.files += 1;
        self.summary.bytes += entry.size();
        self.planned.push(&Planned::Read { entry, old, change })
    }
}

#[cfg(test)]
mod tests;
