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

/// There was no trace, or an old one, and nothing was said.
#[test]
fn a_command_that_does_nothing_with_files_has_an_empty_trace() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    for name in ["t.jsonl", "t.jsonl.zst"] {
        let trace = folder.path().join(name);
        std::fs::write(&trace, "of an earlier run").expect("it can be written");
        let trace = trace.to_str().expect("text");
        check(&["trace", "record", "-o", trace, "--", "true"], 0, "did nothing that is written down");
        check(&["trace", "export", trace, "--format", "fio"], 3, "it has no requests");
    }
    let nowhere = folder.path().join("no/t.jsonl");
    check(&["trace", "record", "-o", nowhere.to_str().expect("text"), "--", "true"], 3, "No such file");
}

/// The log had no requests, and nothing was said.
#[test]
fn a_log_without_requests_is_told() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("it can be written");
        path.to_str().expect("text").to_owned()
    };
    let of_one = write("one.jsonl", &request(4, 10));
    let fio = |trace: &str, more: &[&str], code: i32, words: &str| {
        check(&[&["trace", "export", trace, "--format", "fio"], more].concat(), code, words);
    };
    fio(&of_one, &[], 0, "");
    fio(&of_one, &["--client", "4"], 0, "");
    let told = "--client 9: that process asks for nothing; expected one of 4 to 4";
    fio(&of_one, &["--client", "9"], 3, told);
    let empty = write("empty.jsonl", "");
    fio(&empty, &[], 3, "empty.jsonl: it has no requests");
    let table = folder.path().join("table");
    let table = table.to_str().expect("text");
    check(&["trace", "export", &empty, "--format", "parquet", "-o", table], 0, "the table has no rows");
    let of_client = ["trace", "export", &of_one, "--format", "parquet", "-o", table, "--client", "4"];
    check(&of_client, 2, "--client and --lay-out are for --format fio");
}

/// A line of a trace.
fn request(client: u32, bytes: u64) -> String {
    format!(
        "{{\"record\":\"request\",\"start\":0,\"end\":5,\"application\":1,\"client\":{client},\"file\":7,\
         \"descriptor\":0,\"operation\":\"write\",\"asynchronous\":false,\"offset\":0,\"bytes\":{bytes}}}\n"
    )
}

/// The program was aborted, because it wanted so much memory.
#[test]
fn a_request_that_no_memory_holds_is_not_played() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let trace = folder.path().join("t.jsonl");
    std::fs::write(&trace, request(0, 1 << 60)).expect("it can be written");
    let replay = ["trace", "replay", trace.to_str().expect("text")];
    check(
        &replay,
        3,
        "to play it would take 1152921504606846976 bytes of memory, 1152921504606846976 for its",
    );
}

/// It was code 1, and "External:" came before the reason.
#[test]
fn requests_as_parquet_on_a_full_disk_have_its_code() {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let trace = folder.path().join("t.jsonl");
    let trace = trace.to_str().expect("text");
    assert_eq!(sfio(&["trace", "generate", "--preset", "charisma-cmmd", "--jobs", "1", "-o", trace]).0, 0);
    let export = ["trace", "export", trace, "--format", "parquet", "-o", "/dev/full"];
    check(&export, 6, "sfio: /dev/full: No space left on device");
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
