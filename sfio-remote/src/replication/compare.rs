//! What has changed between two walks.

use std::cmp::Ordering;

use super::manifest::{Entry, EntryKind, TreePath};

/// What two walks have at a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Difference {
    /// Only the old one has it.
    Gone(Entry),
    /// Only the new one has it.
    New(Entry),
    /// Both have it; the new one's content is to be looked at.
    Changed {
        /// As it was.
        old: Entry,
        /// As it is.
        new: Entry,
    },
    /// Both have it, and the content is the same as far as size and time tell: empty files are the same at any time.
    /// The entry has the new one's metadata and the old one's content.
    Kept {
        /// As it is.
        entry: Entry,
        /// Whether at least its metadata are others.
        is_touched: bool,
    },
}

impl Difference {
    /// The path of what differs, or does not.
    pub fn path(&self) -> &TreePath {
        match self {
            Difference::Gone(entry) | Difference::New(entry) | Difference::Kept { entry, .. } => &entry.path,
            Difference::Changed { new, .. } => &new.path,
        }
    }
}

/// Merges an old and a new walk; each is given entry by entry, in ascending order.
#[derive(Debug, Default)]
pub struct Merge {
    /// Whether files of equal size and time may differ.
    pub distrusts_times: bool,
}

impl Merge {
    /// The next difference, and what it leaves of the two entries that are next.
    pub fn next(&self, old: &mut Option<Entry>, new: &mut Option<Entry>) -> Option<Difference> {
        let order = match (old.as_ref(), new.as_ref()) {
            (None, None) => return None,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(old), Some(new)) => old.path.cmp(&new.path),
        };
        match order {
            Ordering::Less => old.take().map(Difference::Gone),
            Ordering::Greater => new.take().map(Difference::New),
            Ordering::Equal => Some(self.compare(old.take()?, new.take()?)),
        }
    }

    fn compare(&self, old: Entry, mut new: Entry) -> Difference {
        let same = match (&old.kind, &new.kind) {
            (EntryKind::File { size: before, .. }, EntryKind::File { size: after, .. }) => {
                let is_believed = !self.distrusts_times && old.metadata.modified == new.metadata.modified;
                before == after && (is_believed || *before == 0)
            }
            (before, after) => before == after,
        };
        if !same {
            return Difference::Changed { old, new };
        }
        let is_touched = old.metadata != new.metadata;
        new.kind = old.kind;
        Difference::Kept { entry: new, is_touched }
    }
}

#[cfg(test)]
mod tests {
    use super::super::manifest::Metadata;
    use super::super::manifest::tests::{file, metadata};
    use super::*;

    fn differences(merge: &Merge, old: &[Entry], new: &[Entry]) -> Vec<String> {
        let (mut old, mut new) = (old.iter().cloned(), new.iter().cloned());
        let (mut next_old, mut next_new) = (old.next(), new.next());
        let mut found = Vec::new();
        while let Some(difference) = merge.next(&mut next_old, &mut next_new) {
            next_old = next_old.or_else(|| old.next());
            next_new = next_new.or_else(|| new.next());
            found.push(match difference {
                Difference::Gone(entry) => format!("-{}", entry.path),
                Difference::New(entry) => format!("+{}", entry.path),
                Difference::Changed { new, .. } => format!("*{}", new.path),
                Difference::Kept { entry, is_touched: false } => format!("={}", entry.path),
                Difference::Kept { entry, is_touched: true } => format!("~{}", entry.path),
            });
        }
        found
    }

    #[test]
    fn each_path_is_told_once() {
        let old = [file("a", 1), file("b", 1), file("d", 1), file("e", 1)];
        let new = [
            file("b", 2),
            file("c", 1),
            file("d", 1),
            Entry { metadata: Metadata { mode: 0o600, ..metadata() }, ..file("e", 1) },
        ];
        assert_eq!(differences(&Merge::default(), &old, &new), ["-a", "*b", "+c", "=d", "~e"]);
        let distrustful = Merge { distrusts_times: true };
        assert_eq!(differences(&distrustful, &old, &new), ["-a", "*b", "+c", "*d", "*e"]);
    }

    #[test]
    fn a_file_that_became_something_else_has_changed() {
        let link = Entry { kind: EntryKind::Symlink { target: b"x".to_vec() }, ..file("a", 0) };
        assert_eq!(differences(&Merge::default(), &[file("a", 0)], std::slice::from_ref(&link)), ["*a"]);
        assert_eq!(
            differences(&Merge::default(), std::slice::from_ref(&link), std::slice::from_ref(&link)),
            ["=a"]
        );
    }
}
