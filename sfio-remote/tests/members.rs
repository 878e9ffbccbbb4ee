//! Members as processes of their own: what a user sees of `sfio overlay`, `member`, `put`, `get`, `stat`, `rm`, `ping`.

#![cfg(feature = "cli")]

#[path = "members/overlay.rs"]
mod overlay;

use std::env;
use std::fs;
use std::io::{self, BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use bytes::Bytes;
use overlay::{LocalOverlay, sfio};
use sfio_remote::client::{OpenMode, OperationError};
use sfio_remote::distribution::{StripeUnit, Structure};
use sfio_remote::io::membership::Membership;
use sfio_remote::io::{FileError, MemberConfig, OpenOptions, blocking};
use sfio_remote::request::WriteList;

/// `[theory §4]`: three writers put "Hello*World!*" at 0, 13, 26 with a stripe unit of 5.
const GREETINGS: &[u8] = b"Hello*World!*Hello*World!*Hello*World!*";

#[test]
fn stripes_of_five_bytes_lie_on_the_disks_as_the_paper_has_them() {
    let overlay = LocalOverlay::up(&["--relays", "2", "--io-nodes", "2", "--delay-ms", "1"]);
    let name = "io1,/a.dat; io2,/tmp/b.dat;";
    overlay.put(GREETINGS, name, &["--stripe-unit", "5"]).succeeds();
    assert_eq!(overlay.exported("io1", "a.dat"), b"Hellod!*Heorld!o*Wor");
    assert_eq!(overlay.exported("io2", "tmp/b.dat"), b"*Worlllo*W*Hellld!*");
    assert_eq!(overlay.get(name, &["--stripe-unit", "5"]).stdout(), GREETINGS);
    let stat = overlay.client(&["stat", name, "--stripe-unit", "5"]).stdout();
    assert!(String::from_utf8_lossy(&stat).contains("39  in all"));
}

#[test]
fn a_file_goes_there_and_back_through_lossy_links_and_is_replaced_only_on_demand() {
    let overlay =
        LocalOverlay::up(&["--relays", "2", "--io-nodes", "3", "--delay-ms", "1", "--loss", "0.02"]);
    let name = "io1,x;io2,x;io3,x";
    let (first, second) = (bytes(5_000_000), bytes(100));
    overlay.put(&first, name, &[]).succeeds();
    assert!(overlay.get(name, &[]).stdout() == first, "the bytes differ");
    overlay.put(&second, name, &[]).fails_with(3, "exists already; --replace replaces it");
    overlay.put(&second, name, &["--replace"]).succeeds();
    assert_eq!(overlay.get(name, &[]).stdout(), second);
    assert_eq!(overlay.exported_names("io2"), [".x.sfio-sums", "x"]);
    overlay.client(&["rm", name]).succeeds();
    overlay.get(name, &[]).fails_with(3, "no such file");
    overlay.client(&["ping", "io2", "--count", "2"]).succeeds();
    overlay.client(&["ping", "r1", "--count", "1"]).succeeds();
}

#[test]
fn an_empty_file_is_one() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    overlay.put(b"", "io1,x;io2,x", &[]).succeeds();
    assert_eq!(overlay.get("io1,x;io2,x", &[]).stdout(), b"");
}

#[test]
fn a_missing_subfile_is_named() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let name = "io1,x;io2,y";
    overlay.put(&bytes(100_000), name, &[]).succeeds();
    fs::remove_file(overlay.export("io2").join("y")).expect("it is there");
    overlay.get(name, &[]).fails_with(5, "missing: io2,y");
    overlay.client(&["stat", name]).fails_with(5, "missing: io2,y");
}

#[test]
fn an_io_node_that_is_killed_is_named_leaves_nothing_whole_and_works_again_when_started_by_hand() {
    let overlay =
        LocalOverlay::up(&["--relays", "2", "--io-nodes", "2", "--rate-mbit", "10", "--delay-ms", "1"]);
    let name = "io1,x;io2,x";
    let put = overlay.begin_put_with(&bytes(30_000_000), name, &["--patience", "0"]);
    overlay.wait_for_file("io2", "x.sfio-part");
    overlay.signal("io2", "-KILL");
    put.fails_with(4, "io2");
    assert_eq!(overlay.exported_names("io1"), [""; 0], "the part is removed where that is possible");
    overlay.wait_for_words("io2 has died (signal: 9 (SIGKILL))");
    let _member = overlay.start_by_hand("io2");
    let again = bytes(3_000_000);
    overlay.put(&again, name, &[]).succeeds();
    assert!(overlay.get(name, &[]).stdout() == again, "the bytes differ");
}

/// A member of this process, which lives as long as it is kept, and a file that it has open.
fn create(config: &str, name: &str, stripe_unit: u64) -> (blocking::Member, blocking::StripedFile) {
    let mut membership = Membership::load(Path::new(config)).expect("a right config");
    membership.limit_patience(Duration::ZERO);
    let member = blocking::Member::start(membership.endpoint(), MemberConfig::default()).expect("it starts");
    let unit = StripeUnit::new(stripe_unit).expect("in range");
    let options = OpenOptions::new().mode(OpenMode::Create).stripe_unit(unit);
    let file = member.open(&options, &name.parse().expect("a right name")).expect("both run");
    (member, file)
}

/// In the environment of a process that is one of three: at which greeting it writes.
const RANK: &str = "SFIO_TEST_RANK";

/// The paper's example: this test runs itself three times, and the three write when all have opened the file.
#[test]
fn three_processes_that_write_at_once_leave_what_the_paper_says() {
    if let Ok(rank) = env::var(RANK) {
        return write_greeting(rank.parse().expect("a number"));
    }
    let overlay = LocalOverlay::up(&["--relays", "2", "--io-nodes", "2", "--delay-ms", "1"]);
    let mut processes: Vec<Child> = (0..3).map(|rank| greeting_process(&overlay, rank)).collect();
    for process in &mut processes {
        let said = BufReader::new(process.stdout.as_mut().expect("piped")).lines();
        assert!(said.map_while(Result::ok).any(|line| line.contains("opened")), "it opens the file");
    }
    for mut process in processes {
        drop(process.stdin.take());
        assert!(process.wait().expect("it was started").success());
    }
    let exported = |io_node| String::from_utf8(overlay.exported(io_node, "a.dat")).expect("ASCII");
    assert_eq!([exported("io1"), exported("io2")], ["Hellod!*Heorld!o*Wor", "*Worlllo*W*Hellld!*"]);
}

fn greeting_process(overlay: &LocalOverlay, rank: usize) -> Child {
    Command::new(env::current_exe().expect("it runs"))
        .args(["--exact", "three_processes_that_write_at_once_leave_what_the_paper_says", "--nocapture"])
        .env(RANK, rank.to_string())
        .env("SFIO_CONFIG", overlay.config("client"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program is there")
}

fn write_greeting(rank: u64) {
    let config = env::var("SFIO_CONFIG").expect("set by who started this");
    let (_member, file) = create(&config, "io1,/a.dat;io2,/a.dat", 5);
    println!("opened");
    io::copy(&mut io::stdin(), &mut io::sink()).expect("a pipe");
    file.write_at(13 * rank, "Hello*World!*").expect("both run");
}

/// A program's own view of the same: a typed error, and the same call again after the restart.
#[test]
fn a_write_to_an_io_node_that_is_killed_names_it_and_succeeds_when_repeated_after_its_restart() {
    let overlay =
        LocalOverlay::up(&["--relays", "2", "--io-nodes", "2", "--rate-mbit", "20", "--delay-ms", "1"]);
    let (_member, file) = create(&overlay.config("client"), "io1,x;io2,x", 200);
    let data = Bytes::from(bytes(20_000_000));
    let write = file.submit_write(WriteList::new([(0, data.clone())]).expect("possible"));
    overlay.wait_for_file("io2", "x");
    overlay.signal("io2", "-KILL");
    let error = write.wait().expect_err("io2 is gone");
    let FileError::Operation(OperationError::SessionClosed { member: named, .. }) = &error else {
        panic!("{error}")
    };
    assert_eq!(named, "io2");
    overlay.wait_for_words("io2 has died");
    assert!(overlay.exported("io2", "x").len() < 10_000_000, "it was killed in the middle");
    let _io2 = overlay.start_by_hand("io2");
    file.write_at(0, data.clone()).expect("both run again");
    assert!(file.read_exact_at(0, data.len() as u64).expect("it is there") == data, "the bytes differ");
    assert_eq!(file.fsck().expect("both run"), Structure::Intact { length: data.len() as u64 });
}

/// An outage of 6 s once ended `put` and `get` with code 4. All links pass through the process of `overlay up`, so when
/// it stops, nothing arrives anywhere.
#[test]
fn a_put_and_a_get_live_through_an_outage_of_all_links() {
    let overlay =
        LocalOverlay::up(&["--relays", "2", "--io-nodes", "2", "--rate-mbit", "20", "--delay-ms", "1"]);
    let (name, data) = ("io1,x;io2,x", bytes(20_000_000));
    let source = overlay.folder().join("source");
    fs::write(&source, &data).expect("it can be written");
    let put = overlay.begin_logged(&["put", &source.to_string_lossy(), name]);
    overlay.wait_for_file("io2", "x.sfio-part");
    overlay.signal_links("-STOP");
    put.wait_for_words("waiting, because");
    overlay.signal_links("-CONT");
    put.succeeds();
    let back = overlay.folder().join("back");
    let get = overlay.begin_logged(&["get", name, &back.to_string_lossy()]);
    get.wait_for_words("fetching");
    overlay.signal_links("-STOP");
    get.wait_for_words("waiting, because");
    overlay.signal_links("-CONT");
    get.succeeds();
    assert!(fs::read(&back).expect("it was fetched") == data, "the bytes differ");
    assert_eq!(overlay.exported_names("io2"), [".x.sfio-sums", "x"]);
}

/// Nothing in a log told for ten minutes that a command was waiting.
#[test]
fn an_outage_is_two_lines_where_there_is_no_terminal() {
    let overlay =
        LocalOverlay::up(&["--relays", "2", "--io-nodes", "2", "--rate-mbit", "20", "--delay-ms", "1"]);
    let tree = overlay.folder().join("tree");
    fs::create_dir(&tree).expect("it is new");
    fs::write(tree.join("x"), bytes(20_000_000)).expect("it can be written");
    let [tree, source] = [&tree, &tree.join("x")].map(|path| path.to_string_lossy().into_owned());
    let commands = [&["put", &source, "io1,x;io2,x"][..], &["sync", "-q", &tree, "local:t"]];
    for (command, begun) in commands.into_iter().zip(["x.sfio-part", "t/objects"]) {
        let running = overlay.begin_heard(command);
        overlay.wait_for_file("io2", begun);
        overlay.signal_links("-STOP");
        let told = running.wait_for_words("waiting, because");
        assert!(told.ends_with("giving up after 600s"), "{told}");
        overlay.signal_links("-CONT");
        running.wait_for_words("going on after");
        assert_eq!(running.count_of(""), 2);
        running.succeeds();
    }
}

#[test]
fn ctrl_c_ends_a_put_that_waits() {
    let overlay =
        LocalOverlay::up(&["--relays", "2", "--io-nodes", "2", "--rate-mbit", "10", "--delay-ms", "1"]);
    let source = overlay.folder().join("source");
    fs::write(&source, bytes(30_000_000)).expect("it can be written");
    let put = overlay.begin_logged(&["put", &source.to_string_lossy(), "io1,x;io2,x"]);
    overlay.wait_for_file("io2", "x.sfio-part");
    overlay.signal("io2", "-STOP");
    put.wait_for_words("waiting, because");
    put.interrupt(8);
    overlay.signal("io2", "-CONT");
}

/// What is written to an I/O node that is killed may be lost with its power; only what was written again can be synced.
#[test]
fn a_put_stores_again_what_a_restarted_io_node_may_have_lost() {
    let overlay =
        LocalOverlay::up(&["--relays", "2", "--io-nodes", "2", "--rate-mbit", "20", "--delay-ms", "1"]);
    let (name, data) = ("io1,x;io2,x", bytes(20_000_000));
    let source = overlay.folder().join("source");
    fs::write(&source, &data).expect("it can be written");
    let put = overlay.begin_logged(&["put", &source.to_string_lossy(), name]);
    overlay.wait_for_file("io2", "x.sfio-part");
    overlay.signal("io2", "-KILL");
    overlay.wait_for_words("io2 has died");
    // As a power loss may leave it.
    fs::write(overlay.export("io2").join("x.sfio-part"), b"").expect("it can be written");
    let _io2 = overlay.start_by_hand("io2");
    put.wait_for_words("everything is stored again");
    put.succeeds();
    assert!(overlay.get(name, &[]).stdout() == data, "the bytes differ");
}

#[test]
fn when_the_patience_ends_it_says_what_was_tried_and_for_how_long() {
    let overlay =
        LocalOverlay::up(&["--relays", "2", "--io-nodes", "2", "--rate-mbit", "10", "--delay-ms", "1"]);
    let put = overlay.begin_put_with(&bytes(30_000_000), "io1,x;io2,x", &["--patience", "1s"]);
    overlay.wait_for_file("io2", "x.sfio-part");
    overlay.signal("io2", "-KILL");
    put.fails_with(4, "tried again");
}

#[test]
fn a_byte_that_has_changed_on_a_disk_is_found_and_its_place_is_told() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let (name, unit) = ("io1,a/x;io2,a/x", ["--stripe-unit", "1000"]);
    let data = bytes(400_000);
    overlay.put(&data, name, &unit).succeeds();
    let subfile = overlay.export("io2").join("a/x");
    let stored = fs::read(&subfile).expect("it was stored");
    assert_eq!(stored, data.chunks(1_000).skip(1).step_by(2).flatten().copied().collect::<Vec<u8>>(), "raw");
    let mut flipped = stored.clone();
    flipped[70_000] ^= 1;
    fs::write(&subfile, &flipped).expect("it can be written");
    let wrong = "io2,a/x: bytes 65536 to 131071 are not those that were stored";
    overlay.get(name, &unit).fails_with(5, wrong);
    let unchecked = overlay.get(name, &["--stripe-unit", "1000", "--no-check"]).stdout();
    assert_eq!(unchecked.iter().zip(&data).filter(|(found, stored)| found != stored).count(), 1);
    fs::write(&subfile, &stored).expect("it can be written");
    let sums = overlay.export("io2").join("a/.x.sfio-sums");
    let mut damaged = fs::read(&sums).expect("they were stored");
    damaged[20] ^= 1;
    fs::write(&sums, damaged).expect("it can be written");
    overlay.get(name, &unit).fails_with(5, "the checksums themselves are damaged");
}

/// `get` once gave bytes in another order than they were stored in, or half of them, and code 0.
#[test]
fn a_file_is_not_fetched_as_another_one_than_was_stored() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let (name, data) = ("io1,x;io2,x", bytes(400_000));
    overlay.put(&data, name, &["--stripe-unit", "1000"]).succeeds();
    let as_stored = "was stored as subfile 1 of 2 with a stripe unit of 1000 bytes";
    overlay.get(name, &["--stripe-unit", "500"]).fails_with(5, as_stored);
    overlay
        .get("io2,x;io1,x", &["--stripe-unit", "1000"])
        .fails_with(5, "io2,x was stored as subfile 2 of 2");
    overlay.get("io1,x", &[]).fails_with(5, as_stored);
    let half = overlay.get("io1,x", &["--no-check"]).stdout();
    assert_eq!(half, data.chunks(1_000).step_by(2).flatten().copied().collect::<Vec<u8>>());
}

/// As a reader finds it whose link to io2 has failed for as long as it took somebody to replace the file.
#[test]
fn half_of_one_file_and_half_of_another_one_are_not_taken_for_a_file() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let name = "io1,x;io2,x";
    overlay.put(&bytes(400_000), name, &[]).succeeds();
    let old = ["x", ".x.sfio-sums"].map(|file| (file, overlay.exported("io1", file)));
    let other: Vec<u8> = bytes(400_000).iter().map(|byte| !byte).collect();
    overlay.put(&other, name, &["--replace"]).succeeds();
    for (file, content) in old {
        fs::write(overlay.export("io1").join(file), content).expect("it can be written");
    }
    overlay.get(name, &[]).fails_with(5, "io2,x was changed while it was fetched");
}

#[test]
fn a_removal_that_cannot_reach_an_io_node_says_what_is_gone() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let name = "io1,x;io2,x";
    overlay.put(&bytes(400_000), name, &[]).succeeds();
    overlay.signal("io2", "-KILL");
    overlay.wait_for_words("io2 has died");
    overlay.client(&["rm", name]).fails_with(4, "removed: io1,x; give the command again");
    let _io2 = overlay.start_by_hand("io2");
    overlay.client(&["rm", name]).ends_with(0, "not removed, because there is no such subfile: io1,x\n");
    overlay.client(&["rm", name]).fails_with(3, "no such file");
    assert_eq!([overlay.exported_names("io1"), overlay.exported_names("io2")], [[""; 0]; 2]);
}

#[test]
fn a_part_that_a_put_has_left_is_named_where_its_file_is_missing() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let (_member, part) = create(&overlay.config("client"), "io1,x.sfio-part;io2,x.sfio-part", 64 << 10);
    part.write_at(0, bytes(400_000)).expect("both run");
    let left = "all of it is \"io1,x.sfio-part;io2,x.sfio-part;\"";
    overlay.get("io1,x;io2,x", &[]).fails_with(3, left);
    overlay.client(&["stat", "io1,x;io2,x"]).fails_with(3, left);
    overlay.get("io1,y;io2,y", &[]).fails_with(3, "io1,y;io2,y;: no such file");
}

#[test]
fn a_subfile_that_was_changed_since_it_was_put_has_no_checksums_and_is_named() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let name = "io1,x;io2,x";
    let mut data = bytes(400_000);
    overlay.put(&data, name, &[]).succeeds();
    overlay.get(name, &[]).succeeds();
    let (_member, file) = create(&overlay.config("client"), name, 64 << 10);
    // Within the first stripe, which io1 has.
    file.write_at(5, "Hello").expect("both run");
    data[5..10].copy_from_slice(b"Hello");
    assert_eq!(overlay.exported_names("io1"), ["x"]);
    let got = overlay.get(name, &[]);
    assert_eq!(
        got.said(),
        "not compared with checksums, because there are none (changed since it was put): io1,x\n"
    );
    assert!(got.stdout() == data, "the bytes differ");
}

#[test]
fn a_relay_that_is_killed_does_not_disturb_a_put() {
    let overlay =
        LocalOverlay::up(&["--relays", "3", "--io-nodes", "1", "--rate-mbit", "10", "--delay-ms", "1"]);
    let data = bytes(8_000_000);
    let put = overlay.begin_put(&data, "io1,x");
    overlay.wait_for_file("io1", "x.sfio-part");
    overlay.signal("r2", "-KILL");
    put.succeeds();
    assert!(overlay.exported("io1", "x") == data, "the bytes differ");
}

/// A thread that waited for standard input once kept members from ending.
#[test]
fn a_member_ends_when_it_is_asked_to() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "1"]);
    overlay.signal("io1", "-TERM");
    overlay.wait_for_words("io1 has ended (exit status: 0)");
}

#[test]
fn two_puts_of_one_identity_work_at_once() {
    let overlay = LocalOverlay::up(&["--relays", "2", "--io-nodes", "2", "--delay-ms", "1"]);
    let (one, other) = (bytes(2_000_000), bytes(3_000_000));
    let first = overlay.begin_put(&one, "io1,a;io2,a");
    let second = overlay.begin_put(&other, "io1,b;io2,b");
    first.succeeds();
    second.succeeds();
    assert!(overlay.get("io1,a;io2,a", &[]).stdout() == one, "the bytes differ");
    assert!(overlay.get("io1,b;io2,b", &[]).stdout() == other, "the bytes differ");
}

#[test]
fn a_put_to_a_name_that_is_being_written_is_told_when_that_is_over() {
    let overlay =
        LocalOverlay::up(&["--relays", "2", "--io-nodes", "2", "--rate-mbit", "10", "--delay-ms", "1"]);
    let put = overlay.begin_put(&bytes(30_000_000), "io1,x;io2,x");
    overlay.wait_for_file("io2", "x.sfio-part");
    assert!(!put.kill(), "it was under way");
    let hint = "if that process is gone, this is over 5 s after its end at the latest";
    overlay.put(b"x", "io1,x;io2,x", &[]).fails_with(9, hint);
}

#[test]
fn a_source_that_is_not_there_leaves_nothing_and_a_folder_for_temporary_files_that_is_not_is_named() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let tree = overlay.folder().join("tree").to_string_lossy().into_owned();
    overlay.client(&["sync", &tree, "local:t"]).fails_with(3, "tree: No such file or directory");
    assert_eq!([overlay.exported_names("io1"), overlay.exported_names("io2")], [[""; 0]; 2]);
    fs::create_dir(&tree).expect("it is new");
    let told = "a temporary file in /nowhere (TMPDIR names the folder): No such file or directory";
    overlay.client_with("TMPDIR", "/nowhere", &["sync", &tree, "local:t"]).fails_with(3, told);
}

#[test]
fn names_that_lead_out_of_the_export_root_or_to_no_file_are_refused() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "1"]);
    symlink("/etc", overlay.export("io1").join("out")).expect("it is new");
    symlink("/dev/zero", overlay.export("io1").join("zero")).expect("it is new");
    fs::create_dir(overlay.export("io1").join("folder")).expect("it is new");
    overlay.get("io1,out/passwd", &[]).fails_with(3, "leaves the export root");
    overlay.get("io1,zero", &[]).fails_with(3, "io1,zero");
    overlay.get("io1,folder", &[]).fails_with(3, "directory");
    overlay.get("io1,a/../../x", &[]).fails_with(2, "\"..\"");
    overlay.get("io1,", &[]).fails_with(2, "the path is empty");
    overlay.get("io1,/a;io1,a", &[]).fails_with(2, "the same subfile");
    overlay.get("io9,a", &[]).fails_with(3, "io9");
    overlay.put(b"x", " io1, /tmp/a.dat; ", &[]).succeeds();
    assert_eq!(overlay.exported("io1", "tmp/a.dat"), b"x");
}

#[test]
fn a_stranger_is_refused_and_named_once_in_the_log() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "1"]);
    let stranger = overlay.folder().join("stranger");
    fs::create_dir(&stranger).expect("it is new");
    let keys = sfio(&["keygen", &stranger.join("key").to_string_lossy()]).stdout();
    let keys = String::from_utf8(keys).expect("text");
    let listed = fs::read_to_string(overlay.folder().join("overlay.toml")).expect("it is there");
    let own = listed
        .replace("name = \"client\"", "name = \"former\"")
        .replace("a = \"client\"", "a = \"stranger\"")
        + &format!("\n[[member]]\nname = \"stranger\"\n{keys}");
    fs::write(stranger.join("overlay.toml"), own).expect("it can be written");
    let config = "overlay = \"overlay.toml\"\nmember = \"stranger\"\nkey = \"key\"\n";
    fs::write(stranger.join("config.toml"), config).expect("it can be written");
    let config = stranger.join("config.toml");
    sfio(&["ping", "io1", "--config", &config.to_string_lossy()]).fails_with(3, "io1");
    let log = fs::read_to_string(overlay.folder().join("io1/log")).expect("it is there");
    assert_eq!(log.matches("refused a stranger").count(), 1, "{log}");
}

#[test]
fn a_wrong_config_is_one_line_and_code_3() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("o");
    sfio(&["overlay", "new", &dir.to_string_lossy(), "--plain", "--relays", "0", "--io-nodes", "1"])
        .succeeds();
    let config = dir.join("io1/config.toml");
    let member = || sfio(&["member", "--until-stdin-ends", "--config", &config.to_string_lossy()]);
    let right = fs::read_to_string(&config).expect("it is there");

    let set = |text: &str| fs::write(&config, text).expect("it can be written");
    set(&right.replace("io1", "io7"));
    member().fails_with(3, "no member \"io7\"");
    set(&right.replace("member =", "member = ="));
    member().fails_with(3, "config.toml, line 2: ");
    set(&right.replace("\"export\"", "\"nowhere\""));
    member().fails_with(3, "nowhere");
    set(&right.replace("\"export\"", "\"key\""));
    member().fails_with(3, "io1/key: Not a directory");
    set(&right.replace("\"key\"", "\"lost\""));
    member().fails_with(3, "lost: No such file");
    set(&right);
    let key = dir.join("io1/key");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).expect("our own file");
    member().fails_with(3, "has mode 0644");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).expect("our own file");
    let export = dir.join("io1/export");
    fs::set_permissions(&export, fs::Permissions::from_mode(0o500)).expect("our own folder");
    // Nothing keeps the superuser out.
    if fs::write(export.join("x"), "").is_err() {
        member().fails_with(3, "io1/export is not writable");
    }
    fs::set_permissions(&export, fs::Permissions::from_mode(0o700)).expect("our own folder");
    let _taken = overlay::occupy_an_address(&dir.join("overlay.toml"));
    member().fails_with(3, "is in use by another process");
}

/// It went on without ever saying that it was not ready.
#[test]
fn a_member_that_cannot_start_ends_all_of_them_with_its_code() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("o").to_string_lossy().into_owned();
    sfio(&["overlay", "new", &dir, "--plain", "--relays", "0", "--io-nodes", "2"]).succeeds();
    let config = folder.path().join("o/io2/config.toml");
    let right = fs::read_to_string(&config).expect("it is there");
    fs::write(&config, right.replace("\"export\"", "\"nowhere\"")).expect("it can be written");
    let told = "io2 has died before it was ready (exit status: 3); it said: ";
    sfio(&["overlay", "up", &dir]).fails_with(3, told);
}

#[test]
fn a_second_overlay_up_is_refused_and_one_without_members_ends() {
    let mut overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let dir = overlay.folder().to_string_lossy().into_owned();
    let pid = fs::read(overlay.folder().join("io1/pid")).expect("it runs");
    sfio(&["overlay", "up", &dir]).fails_with(9, "io1 runs already");
    assert_eq!(fs::read(overlay.folder().join("io1/pid")).expect("it still runs"), pid);
    overlay.signal("io1", "-KILL");
    overlay.wait_for_words("io1 has died");
    overlay.client(&["ping", "io2", "--count", "1"]).succeeds();
    overlay.signal("io2", "-KILL");
    overlay.wait_for_words("no member runs any more");
    assert_eq!(overlay.code(), Some(1));
}

#[test]
fn an_overlay_that_cannot_work_is_refused_with_what_is_out_of_reach() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("o");
    sfio(&["overlay", "new", &dir.to_string_lossy(), "--relays", "1", "--io-nodes", "2"]).succeeds();
    let file = dir.join("overlay.toml");
    let check = |file: &Path| sfio(&["overlay", "check", &file.to_string_lossy()]);
    check(&file).succeeds();
    let text = fs::read_to_string(&file).expect("it is there");
    fs::write(&file, text.replace("relay_for = [\"*\"]", "")).expect("it can be written");
    check(&file).fails_with(3, "out of reach: io1 from client, io2 from client");
    let drawn = sfio(&["overlay", "draw", &file.to_string_lossy()]).stdout();
    assert!(drawn.starts_with(b"<svg"));
}

/// Bytes that no repetition can pass for.
fn bytes(count: usize) -> Vec<u8> {
    let mut output = vec![0; count];
    blake3::Hasher::new_keyed(&[count as u8; 32]).finalize_xof().fill(&mut output);
    output
}

#[test]
fn an_io_node_without_its_disk_does_not_serve_the_empty_folder() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    overlay.put(&bytes(1_000), "io1,x;io2,x", &[]).succeeds();
    overlay.signal("io2", "-KILL");
    overlay.wait_for_words("io2 has died");
    let (export, disk) = (overlay.export("io2"), overlay.folder().join("disk"));
    fs::rename(&export, &disk).expect("our own folder");
    fs::create_dir(&export).expect("our own folder");
    let config = overlay.folder().join("io2/config.toml").to_string_lossy().into_owned();
    sfio(&["member", "--until-stdin-ends", "--config", &config]).fails_with(3, "Is a disk not mounted?");
    assert_eq!(fs::read_dir(&export).expect("a folder").count(), 0, "nothing is written to it");
    fs::remove_dir(&export).expect("it is empty");
    fs::rename(&disk, &export).expect("our own folder");
    let _member = overlay.start_by_hand("io2");
    assert!(overlay.get("io1,x;io2,x", &[]).stdout() == bytes(1_000), "the bytes differ");
}

#[test]
fn a_config_that_exports_and_says_not_to_whom_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let dir = folder.path().join("o");
    sfio(&["overlay", "new", &dir.to_string_lossy(), "--plain", "--relays", "0", "--io-nodes", "1"])
        .succeeds();
    let config = dir.join("io1/config.toml");
    let text = fs::read_to_string(&config).expect("it is there");
    let (without, _) = text.split_once("[access]").expect("overlay new writes it");
    fs::write(&config, without).expect("it can be written");
    let member = sfio(&["member", "--until-stdin-ends", "--config", &config.to_string_lossy()]);
    member.fails_with(3, "[access] and client = \"read-write\"");
}

#[test]
fn a_member_that_may_only_read_writes_nothing() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let config = overlay.folder().join("io2/config.toml");
    let text = fs::read_to_string(&config).expect("it is there");
    overlay.put(&bytes(1_000), "io1,x;io2,x", &[]).succeeds();
    fs::write(&config, text.replace("read-write", "read")).expect("it can be written");
    overlay.signal("io2", "-KILL");
    overlay.wait_for_words("io2 has died");
    let _member = overlay.start_by_hand("io2");
    overlay
        .put(&bytes(1_000), "io1,y;io2,y", &[])
        .fails_with(1, "io2,y.sfio-part: read-only: for member client");
    assert!(overlay.get("io1,x;io2,x", &[]).stdout() == bytes(1_000), "the bytes differ");
}

#[test]
fn a_member_that_fills_its_quota_is_told_so_and_gets_it_back() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let config = overlay.folder().join("io2/config.toml");
    let text = fs::read_to_string(&config).expect("it is there");
    fs::write(&config, text + "\n[quota]\nclient = \"1KiB\"\n").expect("it can be written");
    overlay.signal("io2", "-KILL");
    overlay.wait_for_words("io2 has died");
    let _member = overlay.start_by_hand("io2");
    let put = |name: &str| overlay.put(&bytes(1_400), name, &["--stripe-unit", "100"]);
    put("io1,x;io2,x").succeeds();
    let full = "io2,y.sfio-part: no space left: 700 bytes more for member client, which uses 812 of its 1024";
    put("io1,y;io2,y").fails_with(6, full);
    assert_eq!(overlay.exported_names("io2"), [".x.sfio-sums", "x"]);
    overlay.client(&["rm", "io1,x;io2,x"]).succeeds();
    put("io1,y;io2,y").succeeds();
}

#[test]
fn a_bench_measures_every_pattern_and_leaves_nothing_behind() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "3"]);
    let picture = overlay.folder().join("bench.svg").to_string_lossy().into_owned();
    let options = ["--size", "300000", "--stripe-units", "75,64KiB", "--unoptimised", "3000", "--json"];
    let patterns =
        ["--patterns", "contiguous,strided,random,tile,small,scattered,fragments", "--plot", &picture];
    let bench = [&["bench", "io1,b;io2,b;io3,b"][..], &options, &patterns].concat();
    let rows: serde_json::Value = serde_json::from_slice(&overlay.client(&bench).stdout()).expect("JSON");
    let rows = rows.as_array().expect("a list");
    // Seven patterns, the last with nine sizes of fragments, and two stripe units.
    assert_eq!(rows.len(), (6 + 9) * 2);
    let positive = |row: &serde_json::Value, key: &str| row[key].as_f64().is_some_and(|rate| rate > 0.0);
    assert!(rows.iter().all(|row| {
        ["write_bytes_per_s", "read_bytes_per_s", "local_write_bytes_per_s"]
            .iter()
            .all(|key| positive(row, key))
    }));
    assert!(positive(&rows[0], "unoptimised_write_bytes_per_s"));
    assert!(fs::read_to_string(&picture).expect("it was drawn").contains("<polyline"));
    assert_eq!(overlay.exported_names("io1"), [""; 0]);
}

#[test]
fn a_bench_can_bring_its_own_io_nodes_and_emulated_links() {
    let folder = tempfile::tempdir().expect("a folder");
    let place = folder.path().to_string_lossy().into_owned();
    let links = ["--rate-mbit", "100", "--delay-ms", "1", "--loss", "0.01"];
    let what = ["--patterns", "contiguous", "--stripe-units", "200", "--size", "300000", "--repeat", "2"];
    let bench = [&["bench", "--here", "2", "--json", "--local", &place][..], &links, &what].concat();
    let rows: serde_json::Value = serde_json::from_slice(&sfio(&bench).stdout()).expect("JSON");
    assert_eq!((&rows[0]["rounds"], &rows[0]["bytes"]), (&2.into(), &300_000.into()));
    let left = fs::read_dir(folder.path()).expect("it is there").count();
    assert_eq!(left, 0, "the members and their files are gone");
    sfio(&["bench", "--here", "2", "io1,x"]).fails_with(2, "cannot be used with");
}
