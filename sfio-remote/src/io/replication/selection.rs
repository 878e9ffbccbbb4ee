//! Which entries of a tree on a disk take part.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;

use super::filter::Filter;
use super::ignore_files::IgnoreFiles;
use crate::replication::TreePath;

/// A filter, and the ignore files of the tree, if they count. The filter's patterns count more than the files: a file
/// is asked only about what no pattern matches.
#[derive(Debug)]
pub(super) struct Selection<'a> {
    filter: &'a Filter,
    files: Option<IgnoreFiles>,
}

impl<'a> From<&'a Filter> for Selection<'a> {
    fn from(filter: &'a Filter) -> Selection<'a> {
        Selection { filter, files: None }
    }
}

impl<'a> Selection<'a> {
    /// What the filter and the ignore files of the tree below `path` leave.
    ///
    /// # Errors
    /// If that is no directory, or its own ignore file cannot be read.
    pub(super) fn with_ignore_files(filter: &'a Filter, path: &Path) -> io::Result<Selection<'a>> {
        Ok(Selection { filter, files: Some(IgnoreFiles::of(path)?) })
    }

    /// The only paths that take part, if there is a list of them.
    pub(super) fn listed(&self) -> BTreeSet<TreePath> {
        self.filter.listed().cloned().unwrap_or_default()
    }

    /// Whether a path is on the list, leads to something on it, or there is no list.
    pub(super) fn lists(&self, path: &TreePath) -> bool {
        self.filter.lists(path)
    }

    /// Reads the ignore file of a directory.
    ///
    /// # Errors
    /// If it cannot be read.
    pub(super) fn enter(&mut self, directory: &TreePath) -> io::Result<()> {
        self.files.as_mut().map_or(Ok(()), |files| files.enter(Some(directory)))
    }

    /// Whether an entry takes part; what is in a directory that does not is never asked about.
    ///
    /// # Errors
    /// If an ignore file cannot be read.
    pub(super) fn admits(&mut self, path: &TreePath, is_directory: bool) -> io::Result<bool> {
        if !self.lists(path) {
            return Ok(false);
        }
        let excluded = match (self.filter.excludes(path, is_directory), &mut self.files) {
            (None, Some(files)) => files.exclude(path, is_directory)?,
            (excluded, _) => excluded,
        };
        Ok(excluded != Some(true))
    }

    /// Whether an entry takes part, and all the directories that it is in.
    ///
    /// # Errors
    /// If an ignore file cannot be read.
    pub(super) fn admits_with_parents(&mut self, path: &TreePath, is_directory: bool) -> io::Result<bool> {
        let mut above: Vec<TreePath> = path.parents().collect();
        while let Some(directory) = above.pop() {
            if !self.admits(&directory, true)? {
                return Ok(false);
            }
        }
        self.admits(path, is_directory)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write as _;
    use std::process::{Command, Stdio};

    use proptest::collection::{btree_set, vec};
    use proptest::prelude::*;
    use proptest::sample::select;
    use proptest::test_runner::TestRunner;

    use super::super::ignore_files::IGNORE_FILE;
    use super::super::walk::{Attributes, Walk};
    use super::*;

    /// A walk through the tree below `top`, as text.
    fn walked(top: &Path, filter: &Filter) -> Vec<String> {
        let selection = Selection::with_ignore_files(filter, top).expect("a tree");
        let walk = Walk::new(top, selection, Attributes::Ignored).expect("a tree");
        walk.map(|entry| entry.expect("it can be read").path.to_string()).collect()
    }

    #[test]
    fn the_deepest_file_counts_and_a_pattern_of_the_filter_before_all_files() {
        let top = tempfile::tempdir().expect("a folder");
        let write = |name: &str, text: &str| fs::write(top.path().join(name), text).expect("a file");
        fs::create_dir_all(top.path().join("a/b")).expect("folders");
        write(IGNORE_FILE, "\u{feff}*.o\r\n/c\n");
        write("a/.sfioignore", "!keep.o\n");
        for name in ["c", "x.o", "a/c", "a/keep.o", "a/x.o", "a/b/keep.o", "a/b/y.o"] {
            write(name, "");
        }
        let all = [IGNORE_FILE, "a", "a/.sfioignore", "a/b", "a/b/keep.o", "a/c", "a/keep.o"];
        assert_eq!(walked(top.path(), &Filter::default()), all);
        let patterns = [(true, "keep.o".to_owned()), (false, "y.o".to_owned())];
        let filter = Filter::new(patterns).expect("patterns");
        let others = [IGNORE_FILE, "a", "a/.sfioignore", "a/b", "a/b/y.o", "a/c"];
        assert_eq!(walked(top.path(), &filter), others);
    }

    #[test]
    fn a_directory_whose_file_cannot_be_read_is_left_out_as_a_whole() {
        let top = tempfile::tempdir().expect("a folder");
        fs::create_dir_all(top.path().join("a/b")).expect("folders");
        fs::write(top.path().join("a/.sfioignore"), "[z-a]\n").expect("a file");
        fs::write(top.path().join("c"), "").expect("a file");
        let filter = Filter::default();
        let selection = Selection::with_ignore_files(&filter, top.path()).expect("a tree");
        let walk = Walk::new(top.path(), selection, Attributes::Ignored).expect("a tree");
        let (good, bad): (Vec<_>, Vec<_>) = walk.partition(Result::is_ok);
        assert_eq!(good.len(), 1);
        let [Err(problem)] = &bad[..] else { panic!("{bad:?}") };
        assert!(format!("{problem:?}").contains(".sfioignore: \\\"[z-a]\\\" is no pattern"), "{problem:?}");
    }

    /// A path of a few short names.
    fn path() -> impl Strategy<Value = String> {
        let name = select(
            &["a", "b", "ab", "a.o", "b.o", "a b", "{a,b}", "[a]", "!a", "#b", "a*", "-", "a-", "]", "1"][..],
        );
        vec(name, 1..4).prop_map(|names| names.join("/"))
    }

    /// A line of an ignore file: names, wildcards and whatever git gives a meaning to.
    fn line() -> impl Strategy<Value = String> {
        let part = select(
            &[
                "a",
                "b",
                "ab",
                "o",
                ".",
                "*",
                "?",
                "**",
                "/",
                "/",
                "[ab]",
                "[!a]",
                "[^b]",
                "[!]a]",
                "[]b]",
                "[a-c]",
                "[!-a]",
                "[!--a]",
                "[]-a]",
                "[a-]",
                "[!a-]",
                "[\\a]",
                "[!\\]]",
                "[[:alpha:]]",
                "[![:punct:]]",
                "[a/]",
                "[+-9]",
                "[b[:]",
                "\\*",
                "\\[",
                "{a,b}",
                " ",
                "\\ ",
                "#",
            ][..],
        );
        let start = select(&["", "", "", "!", "/", "!/", "**/", "\\!", "\\#", "#"][..]);
        let end = select(&["", "", "", "/", "/**", "/*", " "][..]);
        let lines = (start, vec(part, 1..5), end)
            .prop_map(|(start, parts, end)| format!("{start}{}{end}", parts.concat()));
        // What git makes of other double stars and slashes is not documented.
        let is_documented = |line: &String| {
            let mut parts = line.trim_start_matches('!').trim_end().split('/');
            let is_odd = |part: &str| part.contains("**") && part != "**";
            !line.contains("//") && !parts.any(is_odd)
        };
        lines.prop_filter("it is not documented", is_documented)
    }

    /// Which of the paths `git check-ignore` would ignore.
    fn ignored_by_git(top: &Path, paths: &[String]) -> Vec<String> {
        let mut git = Command::new("git");
        git.current_dir(top).args(["check-ignore", "--no-index", "-z", "--stdin"]);
        let mut git = git.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("there is a git");
        let mut input = git.stdin.take().expect("a pipe");
        input.write_all(paths.join("\0").as_bytes()).expect("it reads");
        drop(input);
        let output = git.wait_with_output().expect("it ends").stdout;
        String::from_utf8(output).expect("names are text").split_terminator('\0').map(str::to_owned).collect()
    }

    #[test]
    fn ignore_files_are_read_as_git_reads_them() {
        let repository = tempfile::tempdir().expect("a folder");
        let git = Command::new("git").arg("init").arg("-q").arg(repository.path()).status();
        if !git.is_ok_and(|status| status.success()) {
            eprintln!("skipped: there is no git");
            return;
        }
        let trees = (btree_set(path(), 1..12), vec((0_usize..12, vec(line(), 1..5)), 1..4));
        let outcome = TestRunner::default().run(&trees, |(paths, files)| {
            let folder = tempfile::tempdir_in(&repository).expect("a folder");
            let top = folder.path();
            for path in &paths {
                // A name that is a file already cannot be a folder.
                let path = top.join(path);
                if path.parent().is_some_and(|parent| fs::create_dir_all(parent).is_ok()) && !path.exists() {
                    fs::write(path, "").expect("a file");
                }
            }
            let all = |filter: &Filter| {
                let walk = Walk::new(top, filter, Attributes::Ignored).expect("a tree");
                walk.map(|entry| entry.expect("it can be read")).collect::<Vec<_>>()
            };
            let folders: Vec<String> = all(&Filter::default())
                .iter()
                .filter(|entry| entry.kind == crate::replication::EntryKind::Directory)
                .map(|entry| entry.path.to_string())
                .chain([String::new()])
                .collect();
            for (place, lines) in &files {
                let folder = top.join(&folders[place % folders.len()]);
                for name in [IGNORE_FILE, ".gitignore"] {
                    fs::write(folder.join(name), lines.join("\n")).expect("a file");
                }
            }
            let is_own = |path: &String| path.ends_with(IGNORE_FILE) || path.ends_with(".gitignore");
            let mut paths: Vec<String> =
                all(&Filter::default()).iter().map(|entry| entry.path.to_string()).collect();
            paths.retain(|path| !is_own(path));
            let ignored = ignored_by_git(top, &paths);
            paths.retain(|path| !ignored.contains(path));
            let mut walked = walked(top, &Filter::default());
            walked.retain(|path| !is_own(path));
            prop_assert_eq!(walked, paths);
            Ok(())
        });
        outcome.unwrap_or_else(|error| panic!("{error}"));
    }
}
