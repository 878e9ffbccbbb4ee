//! Pages that name tests name tests that exist: a promise whose test was renamed or removed would be believed for ever.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the crate lies in the workspace").to_owned()
}

/// What stands in backticks on a page, as `path::name`.
fn names(page: &str) -> Vec<(String, String)> {
    let quoted = page.split('`').skip(1).step_by(2);
    let split = quoted.filter_map(|text| text.rsplit_once("::"));
    split.map(|(file, name)| (file.trim().to_owned(), name.trim().to_owned())).collect()
}

/// The names of the functions that a file marks as tests.
fn tests_of(source: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    let mut is_test = false;
    for line in source.lines().map(str::trim) {
        // Property tests bear the mark inside their macro.
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test) {
            found.insert(rest.split(['(', '<']).next().unwrap_or(rest));
            is_test = false;
        }
    }
    found
}

fn sources_below(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("readable").path()) {
        match entry.is_dir() {
            true => sources_below(&entry, found),
            false if entry.extension().is_some_and(|ending| ending == "rs") => found.push(entry),
            false => {}
        }
    }
}

#[test]
fn each_test_that_the_page_of_attacks_names_is_in_the_file_that_it_names() {
    let workspace = workspace();
    let page = fs::read_to_string(workspace.join("docs/attacks.md")).expect("the page is there");
    let names = names(&page);
    assert!(names.len() > 50, "{} names were found", names.len());
    for (file, name) in names {
        let inside = match file.starts_with("sfio-remote/") {
            true => workspace.join(&file),
            false => workspace.join("fec-transport").join(&file),
        };
        let source = fs::read_to_string(&inside).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(tests_of(&source).contains(name.as_str()), "{file} has no test {name}");
    }
}

#[test]
fn each_test_that_the_page_of_security_names_is_somewhere() {
    let workspace = workspace();
    let page = fs::read_to_string(workspace.join("docs/security.md")).expect("the page is there");
    let mut sources = Vec::new();
    for folder in ["fec-transport/src", "fec-transport/tests", "sfio-remote/src", "sfio-remote/tests"] {
        sources_below(&workspace.join(folder), &mut sources);
    }
    let sources: Vec<String> =
        sources.iter().map(|file| fs::read_to_string(file).expect("readable")).collect();
    let all: BTreeSet<&str> = sources.iter().flat_map(|source| tests_of(source)).collect();
    // `file::test` explains the form, and the family of tests named `garbage…` is meant as such.
    let names = names(&page).into_iter().filter(|(file, name)| file != "file" && !name.ends_with('…'));
    let missing: Vec<String> =
        names.map(|(_, name)| name).filter(|name| !all.contains(name.as_str())).collect();
    assert!(missing.is_empty(), "docs/security.md names tests that do not exist: {missing:#?}");
}
