//! Which entries of a tree take part.

use std::collections::BTreeSet;

use super::patterns::{BadPattern, Patterns};
use crate::replication::TreePath;

/// Patterns as in `.gitignore` files, of which the last one that matches counts; and, if that is wanted, a list of
/// the only paths that take part. The default admits everything.
#[derive(Debug, Clone)]
pub struct Filter {
    patterns: Patterns,
    listed: Option<BTreeSet<TreePath>>,
}

impl Default for Filter {
    fn default() -> Filter {
        Filter { patterns: Patterns::none(), listed: None }
    }
}

impl Filter {
    /// A filter of patterns in order, each with whether it excludes or includes what it matches.
    ///
    /// # Errors
    /// If one of them is no pattern.
    pub fn new(patterns: impl IntoIterator<Item = (bool, String)>) -> Result<Filter, BadPattern> {
        let line = |(excludes, pattern)| if excludes { pattern } else { format!("!{pattern}") };
        Ok(Filter { patterns: Patterns::new(patterns.into_iter().map(line))?, listed: None })
    }

    /// The same filter for these paths only: for what is in them, and for the directories that lead there.
    #[must_use]
    pub fn only(mut self, paths: BTreeSet<TreePath>) -> Filter {
        self.listed = Some(paths);
        self
    }

    /// Whether everything takes part.
    pub fn is_everything(&self) -> bool {
        self.patterns.are_none() && self.listed.is_none()
    }

    /// The only paths that take part, if there is a list of them.
    pub fn listed(&self) -> Option<&BTreeSet<TreePath>> {
        self.listed.as_ref()
    }

    /// Whether an entry takes part, and all the directories that it is in.
    pub fn admits_with_parents(&self, path: &TreePath, is_directory: bool) -> bool {
        self.admits(path, is_directory) && path.parents().all(|path| self.admits(&path, true))
    }

    /// Whether an entry takes part; what is in a directory that does not is never asked about.
    pub fn admits(&self, path: &TreePath, is_directory: bool) -> bool {
        self.lists(path) && self.excludes(path, is_directory) != Some(true)
    }

    /// Whether the patterns leave an entry out; none if they do not mention it.
    pub(super) fn excludes(&self, path: &TreePath, is_directory: bool) -> Option<bool> {
        self.patterns.exclude(path.as_bytes(), is_directory)
    }

    /// Whether the list, if there is one, has the path, something in it, or a directory that it is in.
    pub(super) fn lists(&self, path: &TreePath) -> bool {
        let Some(listed) = &self.listed else { return true };
        let mut from_here = listed.range::<TreePath, _>(path..);
        from_here.next().is_some_and(|next| next.is_within(path))
            || path.parents().any(|above| listed.contains(&above))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_match_counts_as_in_gitignore() {
        let patterns = [(true, "*.log"), (false, "keep.log"), (true, "/build/")];
        let filter =
            Filter::new(patterns.map(|(excludes, text)| (excludes, text.to_owned()))).expect("patterns");
        let admits = |path: &str, is_directory| {
            filter.admits(&TreePath::new(path.as_bytes().to_vec()).expect("a path"), is_directory)
        };
        assert!(!admits("a/b.log", false) && admits("a/keep.log", false) && admits("a/b.txt", false));
        assert!(!admits("build", true) && admits("build", false) && admits("a/build", true));
    }

    #[test]
    fn a_list_admits_what_is_in_it_and_what_leads_there() {
        let path = |text: &str| TreePath::new(text.as_bytes().to_vec()).expect("a path");
        let filter = Filter::new([(true, "*.o".to_owned())]).expect("a pattern");
        let filter = filter.only(["a/b", "c"].map(path).into());
        let admitted = ["a", "a/b", "a/b/c", "a/b/c.o", "a/bc", "a/a", "c", "d", "c/x/y"];
        let admitted = admitted.into_iter().filter(|text| filter.admits(&path(text), false));
        assert_eq!(admitted.collect::<Vec<_>>(), ["a", "a/b", "a/b/c", "c", "c/x/y"]);
    }
}
