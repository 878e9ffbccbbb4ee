//! What becomes of each path, whatever was there, is there and can be read: two trees on the disk, the manifest of the
//! first, and the generation that the second one makes of it.
//!
//! All files are holes of different lengths, so a length says which file a name stands for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

use proptest::collection::btree_set;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};
use proptest::test_runner::{Config, TestRunner};

use super::super::cutter::Cutting;
use super::super::cutter::tests::cutter_of;
use super::super::expected::{correct, tell_all};
use super::super::filter::Filter;
use super::super::prefetch::Prefetch;
use super::super::walk::{Attributes, Walk};
use super::*;
use crate::replication::{Compression, Owner, Piece, Timestamp};

const NAMES: [&str; 8] = ["a", "b", "c", "d/a", "d/b", "d/e/a", "d/e/b", "f"];

/// The names of a tree; names with the same number are names of one file.
type Names = BTreeMap<&'static str, u64>;

fn names() -> impl Strategy<Value = Names> {
    let file = option::weighted(0.7, 1_u64..5);
    proptest::array::uniform8(file).prop_map(|files| {
        NAMES.into_iter().zip(files).filter_map(|(name, file)| Some((name, file?))).collect()
    })
}

/// A tree on the disk.
fn make(names: &Names) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let mut first = BTreeMap::new();
    for (name, number) in names {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("below the top")).expect("folders");
        match first.get(number) {
            Some(first) => fs::hard_link(first, &path).expect("a link"),
            None => {
                let file = File::create(&path).expect("a file");
                file.set_len(*number).expect("a hole");
                file.set_modified(UNIX_EPOCH + Duration::from_secs(*number)).expect("a time");
                first.insert(number, path);
            }
        }
    }
    folder
}

fn path(name: &str) -> TreePath {
    TreePath::new(name.as_bytes().to_vec()).expect("a path")
}

/// The entries of a tree that was sent.
fn sent(top: &Path) -> Vec<Entry> {
    let everything = Filter::default();
    let walk = Walk::new(top, &everything, Attributes::Ignored).expect("a folder");
    let whole = |entry: Entry| match entry.kind {
        EntryKind::File { size, .. } => {
            Entry { kind: EntryKind::File { size, pieces: vec![Piece::Hole(size)] }, ..entry }
        }
        _ => entry,
    };
    walk.map(|entry| whole(entry.expect("readable"))).collect()
}

fn survey(old: Vec<Entry>, top: &Path, filter: &Filter, deletes: bool) -> Survey {
    let everyone = Owner { user: 0, group: 0 };
    let modified = Timestamp { seconds: 0, nanoseconds: 0 };
    let top_now = Metadata { mode: 0o755, modified, owner: everyone, attributes: Vec::new() };
    let walk = Walk::new(top, filter, Attributes::Ignored).expect("a folder");
    let rules = Rules { deletes, distrusts_times: false, selection: filter.into(), damaged: None };
    let tops = Tops { old: Some(top_now.clone()), new: top_now, is_entry: false };
    Survey::make(walk, old.into_iter().map(Ok), tops, rules).expect("a survey")
}

/// What comes of a survey. `vanished` are names that are there for the walk only.
fn cut(survey: Survey, top: &Path, vanished: &[&str]) -> Cutting {
    for name in vanished {
        fs::remove_file(top.join(name)).expect("it was there");
    }
    let (to, _chunks) = tokio::sync::mpsc::channel(9);
    let cutter = cutter_of(top, Compression::Never, to);
    let prefetch = Prefetch::start(0, top, &survey.planned).expect("no threads");
    cutter.run(&survey.planned, None, &prefetch).expect("readable").expect("nobody stops it")
}

/// The entries of the generation that follows.
fn next(old: Vec<Entry>, top: &Path, filter: &Filter, deletes: bool, vanished: &[&str]) -> Vec<Entry> {
    let cutting = cut(survey(old, top, filter, deletes), top, vanished);
    let mut entries = cutting.manifest.entries().expect("readable");
    std::iter::from_fn(|| entries.read().expect("entries in order")).collect()
}

/// Which file each name stands for, in entries of which each link leads to a file before it, and each parent is there.
fn files(entries: &[Entry]) -> Result<BTreeMap<String, u64>, TestCaseError> {
    let mut files = BTreeMap::new();
    let directories = entries.iter().filter(|entry| entry.kind == EntryKind::Directory);
    let directories: BTreeSet<&TreePath> = directories.map(|entry| &entry.path).collect();
    for entry in entries {
        prop_assert!(
            entry.path.parent().is_none_or(|parent| directories.contains(&parent)),
            "{}",
            entry.path
        );
        match &entry.kind {
            EntryKind::File { size, .. } => files.extend([(entry.path.to_string(), *size)]),
            EntryKind::HardLink { to } => {
                let first = entries.iter().find(|first| first.path == *to && *to < entry.path);
                let is_file = first.is_some_and(|first| matches!(first.kind, EntryKind::File { .. }));
                prop_assert!(is_file, "{} leads to {to}: {entries:?}", entry.path);
                files.extend(files.get(&to.to_string()).map(|file| (entry.path.to_string(), *file)));
            }
            _ => {}
        }
    }
    Ok(files)
}

#[test]
fn each_name_stands_for_what_it_is_or_for_what_it_was() {
    let lists = option::of(btree_set(select(&["a", "b", "d", "d/a", "d/e"][..]), 1..3));
    let pattern = option::of(select(&["b", "/d/", "e", "/a"][..]));
    let runs = (names(), names(), lists, pattern, any::<bool>(), subsequence(&NAMES[..], 0..3));
    let outcome = TestRunner::new(Config { cases: 200, ..Config::default() }).run(
        &runs,
        |(before, now, listed, pattern, deletes, vanished)| {
            let filter = Filter::new(pattern.map(|text| (true, text.to_owned()))).expect("a pattern");
            let filter = match &listed {
                Some(listed) => filter.only(listed.iter().map(|name| path(name)).collect()),
                None => filter,
            };
            let admits = |name: &str| filter.admits_with_parents(&path(name), false);
            let (old, new) = (make(&before), make(&now));
            // The first name that takes part is the one by which a file is read, unless it was there before as it is.
            let first = |file: u64| now.iter().find(|(name, number)| **number == file && admits(name));
            let is_lost = |name: &str, file: u64| {
                let first = first(file).map_or(name, |(first, _)| first);
                let was_first = before.iter().find(|(_, number)| **number == file).map(|(name, _)| *name);
                vanished.contains(&first) && was_first != Some(first)
            };
            let expected = NAMES.into_iter().filter_map(|name| {
                let was = before.get(name).copied();
                let is = match now.get(name) {
                    Some(file) if admits(name) => {
                        if is_lost(name, *file) {
                            was
                        } else {
                            Some(*file)
                        }
                    }
                    _ if deletes && admits(name) => None,
                    _ => was,
                };
                Some((name.to_owned(), is?))
            });
            let expected: BTreeMap<String, u64> = expected.collect();
            let there: Vec<&str> = vanished.iter().copied().filter(|name| now.contains_key(name)).collect();
            let entries = next(sent(old.path()), new.path(), &filter, deletes, &there);
            prop_assert_eq!(files(&entries)?, expected);
            Ok(())
        },
    );
    outcome.unwrap_or_else(|error| panic!("{error}"));
}

/// It was counted and announced before it was read, and then it was not in the generation.
#[test]
fn what_cannot_be_read_is_neither_counted_nor_announced() {
    let tree = make(&Names::from([("a", 1), ("b", 2), ("c", 3), ("f", 2)]));
    let filter = Filter::default();
    let survey = survey(Vec::new(), tree.path(), &filter, false);
    let expected = Arc::clone(&survey.expected);
    let mut summary = survey.summary.clone();
    let cutting = cut(survey, tree.path(), &["b"]);
    correct(&mut summary, &cutting.corrections).expect("readable");
    assert_eq!((summary.new, summary.files, summary.bytes), (2, 2, 4));
    let mut told = Vec::new();
    let mut tell = |change: Change, path: &TreePath| told.push((change, path.to_string()));
    tell_all(&expected, Some(&cutting.corrections), &mut tell).expect("readable");
    assert_eq!(told, ["a", "c"].map(|name| (Change::New, name.to_owned())));
    let problems: Vec<String> = cutting.problems.iter().map(|problem| problem.path.to_string()).collect();
    assert_eq!(problems, ["b", "f"], "both names of the file");
}
