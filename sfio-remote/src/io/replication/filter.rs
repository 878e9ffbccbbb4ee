//! Which entries of a tree take part.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use crate::replication::TreePath;

/// Patterns as in `.gitignore` files, of which the last one that matches counts; and, if that is wanted, a list of
/// the only paths that take part. The default admits everything.
#[derive(Debug, Clone)]
pub struct Filter {
    patterns: Patterns,
    listed: Option<BTreeSet<TreePath>>,
}

/// Patterns of one place: the command line, or a file in a directory.
#[derive(Debug, Clone)]
pub(super) struct Patterns(Gitignore);

/// Why a pattern is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{pattern}\" is no pattern as in .gitignore: {why}")]
pub struct BadPattern {
    /// The pattern.
    pub pattern: String,
    /// What is wrong with it.
    pub why: String,
}

impl Default for Filter {
    fn default() -> Filter {
        Filter { patterns: Patterns(Gitignore::empty()), listed: None }
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

impl Patterns {
    /// The patterns of a file's lines.
    pub(super) fn new(lines: impl IntoIterator<Item = String>) -> Result<Patterns, BadPattern> {
        let mut builder = GitignoreBuilder::new("");
        for line in lines {
            let bad = |error: ignore::Error| BadPattern { pattern: line.clone(), why: error.to_string() };
            builder.add_line(None, &as_in_git(&line)).map_err(bad)?;
        }
        let bad = |error: ignore::Error| BadPattern { pattern: String::new(), why: error.to_string() };
        Ok(Patterns(builder.build().map_err(bad)?))
    }

    /// Whether they leave out what is at `path`, seen from the directory that they stand in; none if none of them
    /// matches.
    pub(super) fn exclude(&self, path: &[u8], is_directory: bool) -> Option<bool> {
        match self.0.matched(Path::new(OsStr::from_bytes(path)), is_directory) {
            Match::None => None,
            Match::Ignore(_) => Some(true),
            Match::Whitelist(_) => Some(false),
        }
    }
}

/// The line in the words in which the crate understands what git understands by it. The crate takes `{a,b}` for `a` or
/// `b`, lets `[!a]` match a slash, and takes away white space at the end even where git keeps it.
fn as_in_git(line: &str) -> String {
    if line.starts_with('#') {
        return String::new();
    }
    let (mut written, mut place, mut kept) = (String::with_capacity(line.len()), InLine::Outside, 0);
    for character in line.chars() {
        match (place, character) {
            (InLine::Outside, '{' | '}') => written.extend(['\\', character]),
            (InLine::Negated, ']') => written.push_str("]/"),
            (InLine::Negated, _) => written.extend(['/', character]),
            _ => written.push(character),
        }
        if character != ' ' || place == InLine::Escaped {
            kept = written.len();
        }
        place = place.after(character);
    }
    written.truncate(kept);
    let (mark, pattern) = line.strip_prefix('!').map_or(("", line), |pattern| ("!", pattern));
    let is_anchored = pattern.trim_end_matches([' ', '/']).contains('/');
    if !is_anchored && written.trim_end_matches('/').contains('/') {
        // To the crate, a slash in a class is one in the pattern, and ties it to the directory.
        written.insert_str(mark.len(), "**/");
    }
    match written.pop() {
        // The crate keeps nothing but a space that has a backslash.
        Some(' ') => format!("{}[ ]", written.trim_end_matches('\\')),
        Some(last) if last.is_whitespace() => format!("{written}[{last}]"),
        // It takes nothing back.
        Some('!') if written.is_empty() => written,
        last => written + &last.map(String::from).unwrap_or_default(),
    }
}

/// Where in a pattern a character stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum InLine {
    Outside,
    /// Behind a backslash.
    Escaped,
    /// Behind `[`, where `]` is one of the class.
    Opened,
    /// Behind `[!`, where `]` is one of the class, too.
    Negated,
    Class,
}

impl InLine {
    fn after(self, character: char) -> InLine {
        match (self, character) {
            (InLine::Outside, '\\') => InLine::Escaped,
            (InLine::Outside, '[') => InLine::Opened,
            (InLine::Outside | InLine::Escaped, _) | (InLine::Class, ']') => InLine::Outside,
            (InLine::Opened, '!' | '^') => InLine::Negated,
            (InLine::Opened | InLine::Negated | InLine::Class, _) => InLine::Class,
        }
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
