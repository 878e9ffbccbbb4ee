//! What is refused before any work is done, and the codes with which that ends.

#![cfg(feature = "cli")]

use std::process::{Command, Output};

/// What `sfio` says and how it ends.
fn sfio(arguments: &[&str]) -> (i32, String) {
    let Output { status, stderr, .. } =
        Command::new(env!("CARGO_BIN_EXE_sfio")).args(arguments).output().expect("it runs");
    (status.code().expect("no signal"), String::from_utf8(stderr).expect("text"))
}

#[track_caller]
fn check(arguments: &[&str], code: i32, words: &str) {
    let (ended_with, said) = sfio(arguments);
    assert_eq!(ended_with, code, "{said}");
    assert!(said.contains(words), "{said}");
}

/// It was measured for half a minute first.
#[test]
fn a_picture_of_another_format_is_refused_before_anything_is_measured() {
    check(&["bench", "--here", "1", "--plot", "a.jpg"], 2, "a.jpg: a picture's name ends in .svg or .png");
}

#[test]
fn an_overlay_file_without_members_is_none() {
    check(&["overlay", "check", "/dev/null"], 3, "overlay file /dev/null: it lists no members");
}

/// Tables of nothing looked as if a job had asked for nothing.
#[test]
fn a_trace_without_operations_is_told() {
    check(&["trace", "analyse", "/dev/null"], 3, "/dev/null: there is no operation on files in it");
}

/// A script that looks at the code of its command could not be recorded.
#[test]
fn a_recorded_command_ends_with_its_own_code() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let trace = folder.path().join("t.jsonl");
    let record = |code: &str| {
        let trace = trace.to_str().expect("text");
        sfio(&["trace", "record", "-o", trace, "--", "sh", "-c", &format!("exit {code}")]).0
    };
    assert_eq!(["0", "5", "9", "77"].map(record), [0, 5, 9, 1]);
}

/// It spoke of a stripe unit.
#[test]
fn a_size_that_cannot_be_measured_is_told_as_a_size() {
    check(&["bench", "--here", "2", "--size", "0"], 2, "there is nothing to measure in 0 bytes");
    check(
        &["bench", "--here", "2", "--size", "100EiB"],
        2,
        "\"100EiB\" is no size; expected a number and B,",
    );
}

#[test]
fn what_is_no_number_is_told_in_words_for_people() {
    check(&["forget", "local:doc", "abc"], 2, "'abc' for '[NUMBERS]...': expected a whole number");
    check(&["forget", "local:doc"], 2, "sfio forget [OPTIONS] <DATASET> <NUMBERS...|--all>");
}

/// It expected a whole zstd stream.
#[test]
fn a_trace_that_is_no_text_is_told() {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(&file, [0xff, 0, 0x80, b'\n']).expect("it can be written");
    check(
        &["trace", "analyse", file.path().to_str().expect("text")],
        3,
        "line 1: this is no text; expected records",
    );
}
