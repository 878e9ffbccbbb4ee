//! `fec-testbed … | head -1`: a reader that has seen enough is no failure, and a full disk is one.

use std::process::Command;

use program::reader::{leaves_early, misses_room};

#[test]
fn a_reader_that_has_seen_enough_is_no_failure_and_a_full_disk_is_one() {
    let cases: [&[&str]; 5] = [
        &["scenarios", "--list"],
        &["swarm", "--seeds", "3", "--hashes"],
        &["swarm", "--seeds", "1"],
        &["--help"],
        &["wan", "--help"],
    ];
    for case in cases {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fec-testbed"));
        assert_eq!(leaves_early(command.args(case)), Ok(()));
        if !case.contains(&"--help") {
            assert_eq!(misses_room(&mut command), Ok(()));
        }
    }
}
