//! `sfio … | head -1`: a reader that has seen enough is no failure. `sfio … > /dev/full`: a listing that is lost is
//! one.

#![cfg(feature = "cli")]

#[path = "members/overlay.rs"]
mod overlay;

use std::fs;

use overlay::{LocalOverlay, command};
use program::reader::{leaves_early, misses_room};

/// Where a case says so, the folder of the overlay stands.
const DIR: &str = "DIR";

/// Runs each case with a reader that goes, and on a full disk.
fn check(cases: &[&[&str]], dir: &str) {
    for case in cases {
        let arguments: Vec<String> = case.iter().map(|word| word.replace(DIR, dir)).collect();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        assert_eq!(leaves_early(&mut command(&arguments)), Ok(()));
        assert_eq!(misses_room(&mut command(&arguments)), Ok(()));
    }
}

#[test]
fn what_needs_no_overlay_sees_whether_its_output_is_read() {
    for case in [&["--help"][..], &["sync", "--help"], &["overlay", "new", "--help"], &["bench", "--help"]] {
        assert_eq!(leaves_early(&mut command(case)), Ok(()));
    }
    check(&[&["demo", "--print-scene"], &["demo", "--size", "100000", "--kill", "none"]], "");
    let generate = ["trace", "generate", "--preset", "charisma-cmf"];
    check(&[&[&generate[..], &["--print"]].concat(), &[&generate[..], &["--jobs", "5"]].concat()], "");
}

#[test]
fn what_looks_at_an_overlay_sees_whether_its_output_is_read() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "1", "--io-nodes", "2"]);
    overlay.put(&[7; 300_000], "io1,x;io2,x", &[]).succeeds();
    let dir = overlay.folder().to_string_lossy();
    check(
        &[
            &["overlay", "check", "DIR/overlay.toml"],
            &["overlay", "check", "DIR/overlay.toml", "--json"],
            &["overlay", "draw", "DIR/overlay.toml"],
            &["keygen", "--show", "DIR/io1/key"],
            &["keygen", "--show", "--json", "DIR/io1/key"],
            &["status", "--config", "DIR/io1/config.toml"],
            &["status", "--config", "DIR/io1/config.toml", "--json"],
            &["ping", "io1", "--count", "1", "--overlay", "DIR"],
            &["ping", "io1", "--count", "1", "--json", "--overlay", "DIR"],
            &["stat", "io1,x;io2,x", "--overlay", "DIR"],
            &["stat", "io1,x;io2,x", "--json", "--overlay", "DIR"],
            &["get", "io1,x;io2,x", "-", "--overlay", "DIR"],
            &["bench", "io1,b;io2,b", "--size", "60000", "--patterns", "contiguous", "--overlay", "DIR"],
        ],
        &dir,
    );
}

#[test]
fn what_looks_at_a_data_set_sees_whether_its_output_is_read() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let dir = overlay.folder().to_string_lossy();
    let tree = overlay.folder().join("tree");
    fs::create_dir_all(tree.join("below")).expect("folders");
    (0..300).for_each(|number| fs::write(tree.join(format!("below/{number}")), "text").expect("a file"));
    let tree = tree.to_string_lossy().into_owned();
    overlay.client(&["sync", &tree, "local:t"]).succeeds();
    check(
        &[
            &["generations", "local:t", "--overlay", "DIR"],
            &["generations", "local:t", "--json", "--overlay", "DIR"],
            &["ls", "local:t", "--overlay", "DIR"],
            &["ls", "local:t", "--json", "--overlay", "DIR"],
            &["cat", "local:t", "below/7", "--overlay", "DIR"],
            &["du", "local:t", "--overlay", "DIR"],
            &["du", "local:t", "--json", "--overlay", "DIR"],
            &["verify", "local:t", "--overlay", "DIR"],
            &["verify", "local:t", "--json", "--overlay", "DIR"],
            &["repair", "local:t", "--overlay", "DIR"],
            &["wait", "local:t", "--generation", "1", "--overlay", "DIR"],
            &["rollback", "local:t", "1", "--overlay", "DIR"],
            &["sync", "--dry-run", "DIR/tree", "local:new", "--overlay", "DIR"],
            &["sync", "--verbose", "--json", "local:t", "DIR/back", "--overlay", "DIR"],
            &["sync", "--dry-run", "local:t", "DIR/nothing", "--overlay", "DIR"],
        ],
        &dir,
    );
}

#[test]
fn a_run_is_done_although_nobody_reads_of_it_and_its_disk_is_full() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let dir = overlay.folder().to_string_lossy();
    let tree = overlay.folder().join("tree");
    fs::create_dir(&tree).expect("a folder");
    let tree_name = tree.to_string_lossy().into_owned();
    let mut sync = command(&["sync", "--verbose", &tree_name, "local:t", "--overlay", &dir]);
    let mut published = 0;
    let mut expect = |generations: usize| {
        published += generations;
        let listed = overlay.client(&["generations", "--json", "local:t"]).stdout();
        assert_eq!(String::from_utf8_lossy(&listed).lines().count(), published);
    };
    let change = |round: &str| {
        (0..300).for_each(|number| fs::write(tree.join(number.to_string()), round).expect("a file"));
    };
    change("one");
    // Of its two runs the second one has nothing to send.
    assert_eq!(leaves_early(&mut sync), Ok(()));
    expect(1);
    change("another");
    assert_eq!(misses_room(&mut sync), Ok(()));
    expect(1);
}
