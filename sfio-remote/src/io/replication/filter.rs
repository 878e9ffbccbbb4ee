//! Which entries of a tree take part.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::replication::TreePath;

/// Patterns as in `.gitignore` files; of several that match, the last one counts.
#[derive(Debug, Clone)]
pub struct Filter {
    patterns: Gitignore,
}

/// Why a pattern is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{pattern}\" is no pattern as in .gitignore: {why}")]
pub struct BadPattern {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub why: String,
}

impl Filter {
    /// A filter of patterns in order, each with whether it excludes or includes what it matches.
    ///
    /// # Errors
    /// If one of them is no pattern.
    pub fn new(patterns: impl IntoIterator<Item = (bool, String)>) -> Result<Filter, BadPattern> {
        let mut builder = GitignoreBuilder::new("");
        for (excludes, pattern) in patterns {
            let line = if excludes { pattern.clone() } else { format!("!{pattern}") };
            builder.add_line(None, &line).map_err(|error| BadPattern { pattern, why: error.to_string() })?;
        }
        let patterns =
            builder.build().map_err(|error| BadPattern { pattern: String::new(), why: error.to_string() })?;
        Ok(Filter { patterns })
    }

    /// Whether an entry takes part, and all the directories that it is in.
    pub fn admits_with_parents(&self, path: &TreePath, is_directory: bool) -> bool {
        let above = std::iter::successors(path.parent(), TreePath::parent);
        self.admits(path, is_directory) && above.into_iter().all(|path| self.admits(&path, true))
    }

    /// Whether an entry takes part; what is in a directory that does not is never asked about.
    pub fn admits(&self, path: &TreePath, is_directory: bool) -> bool {
        let path = Path::new(OsStr::from_bytes(path.as_bytes()));
        !matches!(self.patterns.matched(path, is_directory), Match::Ignore(_))
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
    fn a_wrong_pattern_is_named() {
        let error = Filter::new([(true, "[z-a]".to_owned())]).expect_err("the range runs backwards");
        assert!(error.to_string().contains("[z-a]"), "{error}");
    }
}
