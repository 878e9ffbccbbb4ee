//! `sfio datasets`, `diff`, `find` and `forget --all` with members as processes of their own.

#![cfg(feature = "cli")]

#[path = "members/overlay.rs"]
mod overlay;

use std::fs;
use std::path::Path;

use overlay::LocalOverlay;
use serde_json::Value;

fn write(folder: &Path, name: &str, content: &str) {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().expect("it is beneath the folder")).expect("folders");
    fs::write(path, content).expect("a file");
}

fn lines(overlay: &LocalOverlay, arguments: &[&str]) -> Vec<String> {
    let text = String::from_utf8(overlay.client(arguments).stdout()).expect("text");
    text.lines().map(|line| line.trim_end().to_owned()).collect()
}

fn objects(overlay: &LocalOverlay, arguments: &[&str]) -> Vec<Value> {
    let lines = lines(overlay, &[arguments, &["--json"]].concat());
    lines.iter().map(|line| serde_json::from_str(line).expect("an object in each line")).collect()
}

/// Has three generations of "trees/t".
fn scene() -> (LocalOverlay, tempfile::TempDir) {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let folder = tempfile::tempdir().expect("a folder");
    let tree = folder.path();
    let sync = || overlay.client(&["sync", "--delete", &tree.to_string_lossy(), "local:trees/t"]).succeeds();
    write(tree, "a/stays.txt", "as it was");
    write(tree, "a/goes.txt", "not for long");
    write(tree, "moved by time", "the same");
    write(tree, "b/grows.log", "one line\n");
    sync();
    fs::remove_file(tree.join("a/goes.txt")).expect("it is there");
    write(tree, "b/grows.log", "one line\nand another\n");
    write(tree, "c/comes.txt", "new");
    let earlier = fs::FileTimes::new().set_modified(std::time::SystemTime::UNIX_EPOCH);
    let file = fs::File::options().write(true).open(tree.join("moved by time")).expect("it is there");
    file.set_times(earlier).expect("ours");
    sync();
    fs::remove_file(tree.join("c/comes.txt")).expect("it is there");
    sync();
    (overlay, folder)
}

#[test]
fn generations_are_compared_by_what_is_in_them() {
    let (overlay, _tree) = scene();
    let differences = |arguments: &[&str]| {
        let all = lines(&overlay, &[&["diff", "local:trees/t"], arguments].concat());
        // The times of directories change with what is in them.
        let is_file = |line: &String| !line.ends_with(" .") && (line.contains('.') || line.contains("time"));
        all.into_iter().filter(is_file).collect::<Vec<_>>()
    };
    let expected =
        ["deleted  a/goes.txt", "changed  b/grows.log", "new      c/comes.txt", "touched  moved by time"];
    assert_eq!(differences(&["1", "2"]), expected);
    assert_eq!(lines(&overlay, &["diff", "local:trees/t", "1", "2"])[0], "touched  .", "as sync says it");
    assert_eq!(differences(&["2"]), ["deleted  c/comes.txt"], "the current one is the third");
    assert_eq!(differences(&["2", "1"])[0], "new      a/goes.txt");
    assert_eq!(lines(&overlay, &["diff", "local:trees/t", "2", "2"]), ["no difference"]);

    let found = objects(&overlay, &["diff", "local:trees/t", "1", "2"]);
    let grown = found.iter().find(|one| one["path"] == "b/grows.log").expect("it is among them");
    let facts = (&grown["change"], &grown["old_bytes"], &grown["bytes"]);
    assert_eq!(facts, (&"changed".into(), &9.into(), &21.into()));
    overlay.client(&["diff", "local:trees/t", "1", "9"]).fails_with(3, "there is no generation 9");
}

#[test]
fn a_file_is_found_in_the_generations_that_have_it() {
    let (overlay, _tree) = scene();
    let found = |arguments: &[&str]| lines(&overlay, &[&["find", "local:trees/t"], arguments].concat());
    assert_eq!(found(&["goes.txt"]), ["1                     12 a/goes.txt"]);
    let versions = ["1                      9 b/grows.log", "2-3                   21 b/grows.log"];
    assert_eq!(found(&["*.log"]), versions, "each version of it");
    assert_eq!(found(&["*.txt", "--generation", "3"]), ["3                      9 a/stays.txt"]);
    let all = objects(&overlay, &["find", "local:trees/t", "c/"]);
    assert_eq!((all.len(), &all[0]["directory"]), (1, &true.into()), "a slash at the end means directories");
    overlay
        .client(&["find", "local:trees/t", "nothing"])
        .fails_with(3, "local:trees/t: no entry matches \"nothing\"");
    overlay.client(&["find", "local:trees/t", "[z-a]"]).ends_with(2, "[z-a]");
}

#[test]
fn data_sets_are_listed_removed_and_sent_again() {
    let (overlay, tree) = scene();
    let tree = tree.path().to_string_lossy();
    overlay.client(&["sync", &tree, "local:other"]).succeeds();
    let names = |arguments: &[&str]| {
        let found = objects(&overlay, &[&["datasets"], arguments].concat());
        let name = |one: &Value| format!("{} {}", one["dataset"].as_str().expect("text"), one["generations"]);
        found.iter().map(name).collect::<Vec<_>>()
    };
    assert_eq!(names(&["local"]), ["local:other 1", "local:trees/t 3"]);
    assert_eq!(names(&["local:trees"]), ["local:trees/t 3"]);
    assert_eq!(lines(&overlay, &["datasets", "local:nowhere"]), ["there is no data set in local:nowhere"]);
    overlay.client(&["datasets", "elsewhere"]).fails_with(3, "sites: local");

    overlay.client(&["forget", "local:other"]).fails_with(2, "--all");
    let said = lines(&overlay, &["forget", "local:other", "--all"]);
    assert!(said[0].starts_with("local:other is gone; readers may still need"), "{said:?}");
    let listed = objects(&overlay, &["datasets", "local"]);
    assert_eq!((&listed[0]["removed"], &listed[0]["bytes"]), (&true.into(), &Value::Null));
    for command in
        [&["ls", "local:other"][..], &["generations", "local:other"], &["rollback", "local:other", "1"]]
    {
        overlay.client(command).fails_with(3, "no data set of that name");
    }
    overlay.fresh_client(&["verify", "local:other"]).fails_with(3, "no data set of that name");
    overlay.client(&["sync", &tree, "local:other"]).succeeds();
    assert_eq!(names(&["local"])[0], "local:other 1");
    overlay.fresh_client(&["verify", "local:other"]).succeeds();
}

/// It was not listed, and nothing was said.
#[test]
fn a_data_set_that_has_vanished_from_all_io_nodes_is_told() {
    let (overlay, tree) = scene();
    overlay.client(&["sync", &tree.path().to_string_lossy(), "local:trees/lost"]).succeeds();
    for io_node in ["io1", "io2"] {
        fs::remove_dir_all(overlay.export(io_node).join("trees/lost")).expect("it is there");
    }
    let listed = overlay.client(&["datasets", "local"]);
    assert!(listed.printed().contains("local:trees/t"), "the others are listed all the same");
    listed.ends_with(5, "local:trees/lost: the data set has gone back: this machine has seen record 1");
    overlay.client(&["datasets", "local:elsewhere"]).succeeds();
    overlay.client(&["datasets", "local", "--accept-older"]).succeeds();
    overlay.fresh_client(&["datasets", "local"]).succeeds();
}

/// What a run had sent of which nothing was published took room, and no command named it.
#[test]
fn what_was_never_published_is_listed_until_it_is_forgotten() {
    let (overlay, tree) = scene();
    let mut noise = vec![0; 3_000_000];
    blake3::Hasher::new().finalize_xof().fill(&mut noise);
    fs::write(tree.path().join("large"), noise).expect("a file");
    let tree = tree.path().to_string_lossy().into_owned();
    let slow = overlay.begin_heard(&["sync", "--bwlimit", "1Mbit/s", &tree, "local:trees/new"]);
    overlay.wait_for_file_on_any(&["io1", "io2"], "trees/new/objects");
    slow.interrupt(8);
    let listed = objects(&overlay, &["datasets", "local"]);
    let facts: Vec<(&Value, &Value)> =
        listed.iter().map(|one| (&one["dataset"], &one["unfinished"])).collect();
    assert_eq!(facts, [(&"local:trees/t".into(), &false.into()), (&"local:trees/new".into(), &true.into())]);
    let listed = lines(&overlay, &["datasets", "local:trees/new"]);
    assert!(listed.iter().any(|line| line.contains("unfinished")), "{listed:?}");
    overlay.client(&["forget", "local:trees/new", "--unfinished"]).succeeds();
    // What readers may need is kept for the grace, as that of a removed data set.
    let listed = objects(&overlay, &["datasets", "local"]);
    assert!(listed.iter().all(|one| one["unfinished"] == false), "{listed:?}");
}

#[test]
fn a_generation_says_who_sent_it_and_what_it_is_called() {
    let (overlay, tree) = scene();
    let tree = tree.path().to_string_lossy();
    let sync = |arguments: &[&str]| {
        overlay.client(&[&["sync", "--json", &tree, "local:trees/t"], arguments].concat()).stdout()
    };
    sync(&["--host", "elsewhere", "--tag", "before the upgrade"]);
    sync(&["--tag", "before the upgrade"]);
    sync(&[]);
    let listed = objects(&overlay, &["generations", "local:trees/t"]);
    let facts = |one: &Value| (one["member"].clone(), one["host"].clone(), one["tag"].clone());
    assert_eq!(listed.len(), 4, "the tag makes one generation of the same tree, and no second one");
    assert_eq!(facts(&listed[3]), ("client".into(), "elsewhere".into(), "before the upgrade".into()));
    assert_eq!((&listed[0]["member"], &listed[0]["tag"]), (&"client".into(), &"".into()));
    overlay.client(&["forget", "local:trees/t", "1", "2", "3"]).stdout();
    let table = lines(&overlay, &["generations", "local:trees/t"]).pop().expect("a line");
    assert!(table.ends_with("client@elsewhere  before the upgrade"), "{table}");
    let refused = ["sync", &tree, "local:trees/t", "--tag", "two\nlines"];
    overlay.client(&refused).fails_with(2, "expected one line of 1 to 255 bytes");
}

/// Its table had 72 columns whatever the terminal had.
#[test]
fn a_table_is_folded_in_a_narrow_terminal() {
    let (overlay, _tree) = scene();
    for command in ["generations local:trees/t", "datasets local", "du local:trees/t"] {
        let shown = overlay.client_on_terminal(50, command);
        let lines: Vec<&str> = shown.lines().map(str::trim_end).collect();
        assert!(lines.len() > 3 && lines.iter().all(|line| line.chars().count() <= 50), "{shown}");
    }
}

#[test]
fn a_quiet_run_says_what_is_wrong_and_nothing_else() {
    let (overlay, tree) = scene();
    let quiet = ["sync", "--quiet", &tree.path().to_string_lossy(), "local:trees/t"];
    write(tree.path(), "one more", "file");
    assert_eq!(lines(&overlay, &quiet), [""; 0]);
    assert_eq!(objects(&overlay, &["generations", "local:trees/t"]).len(), 4);
    fs::remove_dir_all(tree.path()).expect("it is there");
    overlay.client(&quiet).fails_with(3, "No such file or directory");
    overlay.client(&[&quiet[..], &["--json"]].concat()).fails_with(2, "cannot be used with");
}

#[test]
fn folders_that_a_member_may_not_read_are_named() {
    let (overlay, _tree) = scene();
    let config = overlay.folder().join("io1/config.toml");
    let text = fs::read_to_string(&config).expect("it is there");
    let with_rights = |rights: &str| {
        fs::write(&config, text.replace("client = \"read-write\"", rights)).expect("it can be written");
        overlay.start_by_hand("io1")
    };
    overlay.signal("io1", "-KILL");
    overlay.wait_for_words("io1 has died");
    let member = with_rights("[access.client]\ntrees = \"read\"");
    overlay
        .client(&["datasets", "local"])
        .fails_with(3, "local: this member may not list the top of the export root; name a folder");
    assert_eq!(objects(&overlay, &["datasets", "local:trees"]).len(), 1);
    drop(member);
    let _member = with_rights("[access.client]\ntrees = \"read\"\n\"trees/t\" = \"none\"");
    overlay
        .client(&["datasets", "local:trees"])
        .ends_with(0, "local:trees: this member may not look into trees/t");
}

/// Data sets were looked for on the first I/O node alone: when that had lost its disk, there were none.
#[test]
fn a_site_whose_first_io_node_has_lost_its_disk_lists_what_the_others_know() {
    let (overlay, _tree) = scene();
    fs::remove_dir_all(overlay.export("io1").join("trees")).expect("it is there");
    let listed = overlay.fresh_client(&["datasets", "local", "--json"]);
    let known = listed.printed();
    assert_eq!(known.lines().count(), 1, "{known}");
    assert!(known.contains("local:trees/t"), "{known}");
    listed.fails_with(5, "local:trees/t: I/O nodes disagree: io1 has records up to 0, others up to 3");
}
