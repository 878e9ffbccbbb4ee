//! `sfio sync` and its companions with members as processes of their own.

#![cfg(feature = "cli")]

#[path = "members/overlay.rs"]
mod overlay;

use std::collections::BTreeMap;
use std::fs;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use overlay::{LocalOverlay, Member};

fn noise(length: usize, seed: u64) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

/// Everything about a tree by path.
fn picture(root: &Path) -> BTreeMap<String, String> {
    fn add(root: &Path, path: &Path, picture: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(path).expect("a folder") {
            let path = entry.expect("an entry").path();
            let metadata = path.symlink_metadata().expect("it is there");
            let content = match () {
                () if metadata.is_symlink() => format!("{:?}", fs::read_link(&path).expect("a link")),
                () if metadata.is_file() => blake3::hash(&fs::read(&path).expect("readable")).to_string(),
                () => {
                    add(root, &path, picture);
                    String::new()
                }
            };
            let name = path.strip_prefix(root).expect("below").to_string_lossy().into_owned();
            let time = (metadata.mtime(), metadata.mtime_nsec());
            picture.insert(name, format!("{:o} {time:?} {content}", metadata.mode()));
        }
    }
    let top = root.metadata().expect("it is there");
    let mut all =
        BTreeMap::from([(".".to_owned(), format!("{:o} {:?}", top.mode(), (top.mtime(), top.mtime_nsec())))]);
    add(root, root, &mut all);
    all
}

/// A folder with a tree in it, and places beside it.
fn scene() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("a/b")).expect("folders");
    fs::write(tree.join("a/large"), noise(3_000_000, 1)).expect("a file");
    for number in 0..50 {
        fs::write(tree.join(format!("a/b/{number}")), noise(2_000, number)).expect("a file");
    }
    symlink("a/large", tree.join("link")).expect("a link");
    folder
}

fn path(folder: &tempfile::TempDir, name: &str) -> String {
    folder.path().join(name).to_string_lossy().into_owned()
}

#[test]
fn a_tree_goes_there_and_back_and_generations_can_be_gone_back_to() {
    let overlay =
        LocalOverlay::up(&["--relays", "2", "--io-nodes", "3", "--delay-ms", "1", "--loss", "0.02"]);
    let folder = scene();
    let (tree, back) = (path(&folder, "tree"), path(&folder, "back"));
    let first = picture(tree.as_ref());
    overlay.client(&["sync", &tree, "local:trees/t"]).succeeds();
    overlay.client(&["sync", "local:trees/t", &back]).succeeds();
    assert_eq!(picture(back.as_ref()), first);
    let nothing = path(&folder, "nothing");
    overlay
        .client(&["sync", "--exclude", "*", "local:trees/t", &nothing])
        .fails_with(3, "leave nothing of generation 1");

    let again = overlay.client(&["sync", "--json", &tree, "local:trees/t"]).stdout();
    let summary: serde_json::Value = serde_json::from_slice(&again).expect("one object");
    assert_eq!((&summary["generation"], &summary["network_bytes"]), (&1.into(), &0.into()));

    fs::remove_file(folder.path().join("tree/a/large")).expect("it is there");
    fs::write(folder.path().join("tree/new"), b"new").expect("a file");
    let dry = overlay.client(&["sync", "-n", "--delete", &tree, "local:trees/t"]).stdout();
    let dry = String::from_utf8(dry).expect("text");
    assert!(dry.contains("deleted  a/large\n") && dry.contains("new      new\n"), "{dry}");
    overlay
        .client(&["sync", "--delete", "--max-delete", "0", &tree, "local:trees/t"])
        .fails_with(1, "--max-delete");
    overlay.client(&["sync", "--delete", &tree, "local:trees/t"]).succeeds();
    overlay.client(&["sync", "--delete", "local:trees/t", &back]).succeeds();
    assert_eq!(picture(back.as_ref()), picture(tree.as_ref()));

    let listed = overlay.client(&["generations", "--json", "local:trees/t"]).stdout();
    assert_eq!(String::from_utf8(listed).expect("text").lines().count(), 2);
    overlay.client(&["rollback", "local:trees/t", "1"]).succeeds();
    overlay.client(&["sync", "--delete", "local:trees/t", &back]).succeeds();
    assert_eq!(picture(back.as_ref()), first);
    overlay.client(&["rollback", "local:trees/t", "7"]).fails_with(3, "kept are 1, 2");

    assert_eq!(overlay.client(&["cat", "local:trees/t", "a/b/7"]).stdout(), noise(2_000, 7));
    let listed = String::from_utf8(overlay.client(&["ls", "local:trees/t", "a/b"]).stdout()).expect("text");
    assert_eq!(listed.lines().count(), 51, "the folder and what is in it");
    overlay.client(&["du", "local:trees/t"]).succeeds();
    overlay.client(&["verify", "local:trees/t"]).succeeds();
    overlay.client(&["ls", "local:nothing"]).fails_with(3, "no data set of that name");
    overlay.client(&["ls", "elsewhere:t"]).fails_with(3, "sites: local");
}

#[test]
fn verify_names_what_a_disk_has_changed() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let folder = scene();
    overlay.client(&["sync", "--compress", "never", &path(&folder, "tree"), "local:t"]).succeeds();
    flip(&only_file(&overlay, "io1", "t/objects"), 700_000);
    overlay.fresh_client(&["verify", "local:t"]).ends_with(5, "1 thing is not as it was stored");
    let back = path(&folder, "back");
    let fetched = overlay.client(&["sync", "local:t", &back]);
    let said = fetched.printed();
    assert!(said.contains(&format!("{back} is not all of generation 1 of local:t\n")), "{said}");
    fetched.ends_with(5, "a/large");
    assert!(!Path::new(&back).join("a/large").exists() && Path::new(&back).join("a/b/7").exists());

    // An intact source heals it: the content is in all generations again.
    let healed = String::from_utf8(overlay.client(&["sync", &path(&folder, "tree"), "local:t"]).stdout());
    let healed = healed.expect("text");
    assert!(healed.contains("1 damaged chunk was sent again"), "{healed}");
    overlay.fresh_client(&["verify", "local:t"]).succeeds();
    overlay.fresh_client(&["sync", "local:t", &back]).succeeds();
    assert_eq!(picture(back.as_ref()), picture(&folder.path().join("tree")));
}

/// The file in a folder of an export root that has one.
fn only_file(overlay: &LocalOverlay, io_node: &str, folder: &str) -> PathBuf {
    let folder = overlay.export(io_node).join(folder);
    let mut entries = fs::read_dir(&folder).expect("it is there");
    let file = entries.next().expect("one").expect("an entry").path();
    assert!(entries.next().is_none(), "only one in {}", folder.display());
    file
}

/// A byte turns into another one behind everybody's back.
fn flip(file: &Path, at: u64) {
    let file = fs::File::options().write(true).read(true).open(file).expect("it is there");
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).expect("it is long enough");
    file.write_all_at(&[byte[0] ^ 1], at).expect("written");
}

/// A machine with an empty cache finds each kind of damage, and says so with code 5.
#[test]
fn verify_finds_damage_of_each_kind_without_a_cache() {
    let folder = scene();
    let tree = path(&folder, "tree");
    type Damage = fn(&Path);
    let damages: [(&str, &str, Damage); 5] = [
        ("a flipped byte of a file", "t/objects", |file| flip(file, 700_000)),
        ("a lost object", "t/objects", |file| fs::remove_file(file).expect("it is there")),
        ("an object cut short", "t/objects", |file| {
            let file = fs::File::options().write(true).open(file).expect("it is there");
            file.set_len(1_000).expect("it can be cut");
        }),
        ("a flipped byte of the record", "t/commits", |file| flip(file, 60)),
        ("a lost record", "t/commits", |file| fs::remove_file(file).expect("it is there")),
    ];
    for (what, place, damage) in damages {
        let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
        overlay.client(&["sync", "--compress", "never", &tree, "local:t"]).succeeds();
        overlay.fresh_client(&["verify", "local:t"]).succeeds();
        damage(&only_file(&overlay, "io1", place));
        println!("{what}");
        overlay.fresh_client(&["verify", "local:t"]).ends_with(5, "sfio: ");
    }
}

/// A run that was interrupted and taken up again may have left more in an object than the record counts.
#[test]
fn repair_misses_what_a_record_counts_and_nothing_else() {
    let folder = scene();
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    overlay.client(&["sync", "--compress", "never", &path(&folder, "tree"), "local:t"]).succeeds();
    let part = only_file(&overlay, "io1", "t/objects");
    let part = fs::File::options().write(true).open(part).expect("it is there");
    let length = part.metadata().expect("it is there").len();
    part.set_len(length + 10_000_000).expect("it can grow");
    overlay.client(&["repair", "local:t"]).succeeds();
    part.set_len(length - 1).expect("it can be cut");
    overlay.client(&["repair", "local:t"]).ends_with(5, "sfio: ");
}

/// A file system of its own at a folder, until it is dropped. None where this process may not mount one.
struct SmallDisk(PathBuf);

impl SmallDisk {
    fn mount(at: PathBuf, options: &str) -> Option<SmallDisk> {
        let disk = SmallDisk(at);
        disk.run("mount", &["-t", "tmpfs", "-o", options, "tmpfs"]).then_some(disk)
    }

    fn remount(&self, options: &str) {
        assert!(self.run("mount", &["-o", &format!("remount,{options}")]), "remount,{options}");
    }

    fn run(&self, program: &str, arguments: &[&str]) -> bool {
        Command::new(program)
            .args(arguments)
            .arg(&self.0)
            .output()
            .is_ok_and(|output| output.status.success())
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        self.run("umount", &["-l"]);
    }
}

#[test]
fn a_disk_that_is_full_or_turns_read_only_is_named_and_the_next_run_goes_on() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let folder = scene();
    let (tree, back) = (path(&folder, "tree"), path(&folder, "back"));
    overlay.signal("io2", "-KILL");
    let Some(disk) = SmallDisk::mount(overlay.export("io2"), "size=1m") else {
        eprintln!("skipped: this process may not mount a file system (it needs root)");
        return;
    };
    // The disk is another one on purpose: what the member remembers of the old one has to go, or it does not serve.
    fs::remove_file(overlay.export("io2").with_extension("identity")).expect("it has served before");
    let io2 = overlay.start_by_hand("io2");
    overlay.client(&["sync", &tree, "local:t"]).fails_with(6, "io2,t/objects/");
    disk.remount("size=64m");
    overlay.client(&["sync", &tree, "local:t"]).succeeds();
    overlay.client(&["sync", "local:t", &back]).succeeds();
    assert_eq!(picture(back.as_ref()), picture(tree.as_ref()));

    // Nothing is open for writing in an I/O node that has just been started.
    drop(io2);
    let _io2 = overlay.start_by_hand("io2");
    disk.remount("ro");
    let before = picture(tree.as_ref());
    fs::write(folder.path().join("tree/new"), noise(1_000_000, 5)).expect("a file");
    overlay.client(&["sync", &tree, "local:t"]).fails_with(1, "io2,t/");
    overlay.client(&["sync", "local:t", &back]).succeeds();
    assert_eq!(picture(back.as_ref()), before, "what was published can be read");
    disk.remount("rw");
    overlay.client(&["sync", &tree, "local:t"]).succeeds();
    overlay.client(&["sync", "local:t", &back]).succeeds();
    assert_eq!(picture(back.as_ref()), picture(tree.as_ref()));
}

/// It ended with code 7, and counted and announced what it could not write.
#[test]
fn a_tree_that_a_full_disk_does_not_hold_is_counted_as_far_as_it_came() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let folder = scene();
    overlay.client(&["sync", &path(&folder, "tree"), "local:t"]).succeeds();
    let back = folder.path().join("full");
    fs::create_dir(&back).expect("a folder");
    let Some(_disk) = SmallDisk::mount(back.clone(), "size=256k") else {
        eprintln!("skipped: this process may not mount a file system (it needs root)");
        return;
    };
    let fetched = overlay.client(&["sync", "--json", "local:t", &back.to_string_lossy()]);
    let printed = fetched.printed();
    let lines = printed.lines().map(|line| serde_json::from_str(line).expect("an object in each line"));
    let mut lines: Vec<serde_json::Value> = lines.collect();
    let summary = lines.pop().expect("a summary");
    let new: Vec<&str> = lines
        .iter()
        .filter(|line| line["change"] == "new")
        .map(|line| line["path"].as_str().expect("text"))
        .collect();
    assert_eq!(summary["new"], new.len());
    let there = picture(&back).keys().filter(|name| *name != "." && !name.contains(".sfio-part-")).count();
    assert_eq!(new.len(), there);
    assert!(!new.contains(&"a/large"), "{new:?}");
    assert_eq!(summary["problems"].as_array().expect("a list").len(), 1, "each further one would fail, too");
    // The rest of the file was fetched, too, and had no room either.
    let fetched_bytes = summary["network_bytes"].as_u64().expect("a number");
    assert!(fetched_bytes < 1_500_000, "{fetched_bytes} bytes of 3,000,000");
    fetched.ends_with(6, "no space is left on the disk, and nothing more was fetched");
}

#[test]
fn a_directory_or_a_file_is_fetched_alone() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let folder = scene();
    let (tree, back) = (path(&folder, "tree"), path(&folder, "back"));
    let objects = folder.path().join("tree/objects");
    fs::create_dir(&objects).expect("a folder, called as one of the data set's own");
    fs::hard_link(folder.path().join("tree/a/large"), objects.join("x")).expect("a second name");
    overlay.client(&["sync", &tree, "local:trees/t"]).succeeds();

    overlay.client(&["sync", "local:trees/t/a/b", &back]).succeeds();
    assert_eq!(picture(back.as_ref()), picture(folder.path().join("tree/a/b").as_ref()));
    overlay.client(&["sync", "--delete", "local:trees/t/objects", &back]).succeeds();
    assert_eq!(picture(back.as_ref()), picture(&objects), "a file, whose other name is elsewhere");
    overlay.client(&["sync", "local:trees/t/a/b/7", &back]).succeeds();
    assert_eq!(fs::read(folder.path().join("back/7")).expect("a file"), noise(2_000, 7));

    overlay
        .client(&["sync", "local:trees/t/a/c", &back])
        .fails_with(3, "generation 1 of local:trees/t has no a/c");
    overlay.client(&["sync", "local:trees/u/a", &back]).fails_with(3, "no data set of that name");
    // A data set of the whole name comes first, and stays one of its own.
    overlay.client(&["sync", &path(&folder, "tree/a/b"), "local:nested/t/a"]).succeeds();
    overlay.client(&["sync", &tree, "local:nested/t"]).succeeds();
    overlay.client(&["sync", "--delete", "local:nested/t/a", &back]).succeeds();
    assert_eq!(picture(back.as_ref()), picture(folder.path().join("tree/a/b").as_ref()));
}

#[test]
fn patterns_come_from_a_file_and_a_wrong_one_is_named_with_its_line() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "1"]);
    let folder = scene();
    let (tree, patterns) = (path(&folder, "tree"), path(&folder, "patterns"));
    fs::write(&patterns, "# of all small files one\nb/*\n!b/7\n").expect("a file");
    overlay.client(&["sync", "--exclude-from", &patterns, &tree, "local:t"]).succeeds();
    let listed = String::from_utf8(overlay.client(&["ls", "local:t", "a/b"]).stdout()).expect("text");
    assert_eq!(listed.lines().count(), 51, "a pattern with a slash in it begins at the top: {listed}");
    fs::write(&patterns, "a/b/*\n!a/b/7\n").expect("a file");
    overlay.client(&["sync", "--delete", "--exclude-from", &patterns, &tree, "local:u"]).succeeds();
    let listed = String::from_utf8(overlay.client(&["ls", "local:u", "a/b"]).stdout()).expect("text");
    assert_eq!(listed.lines().count(), 2, "the folder and one file: {listed}");
    fs::write(&patterns, "right\n[z-a]\n").expect("a file");
    overlay
        .client(&["sync", "--exclude-from", &patterns, &tree, "local:u"])
        .fails_with(3, "line 2: \"[z-a]\"");
    overlay.client(&["sync", "--exclude-from", "nowhere", &tree, "local:u"]).fails_with(3, "nowhere");
}

#[test]
fn a_list_says_what_takes_part_and_files_in_the_tree_what_does_not() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "1"]);
    let folder = scene();
    let (tree, list, back) = (path(&folder, "tree"), path(&folder, "list"), path(&folder, "back"));
    let held = |name: &str| {
        let listed = String::from_utf8(overlay.client(&["ls", name]).stdout()).expect("text");
        listed
            .lines()
            .filter_map(|line| line.split_whitespace().last().map(str::to_owned))
            .collect::<Vec<_>>()
    };
    fs::write(&list, "a/b/7\n./a/b/8\n").expect("a file");
    overlay.client(&["sync", "--files-from", &list, &tree, "local:t"]).succeeds();
    let names = held("local:t");
    assert!(names.ends_with(&["a".into(), "a/b".into(), "a/b/7".into(), "a/b/8".into()]), "{names:?}");
    // What is not listed is not deleted either, and what is listed and is not there is said.
    fs::write(&list, "a/b/9\0a/nowhere\0").expect("a file");
    overlay
        .client(&["sync", "--delete", "--files-from", &list, &tree, "local:t"])
        .ends_with(7, "a/nowhere: it is listed, and there is nothing of that name");
    assert_eq!(held("local:t").len(), names.len() + 1);
    overlay.client(&["sync", "--files-from", &list, "local:t", &back]).ends_with(7, "a/nowhere");
    assert!(folder.path().join("back/a/b/9").exists() && !folder.path().join("back/a/b/7").exists());
    fs::write(&list, "a\n../b\n").expect("a file");
    overlay.client(&["sync", "--files-from", &list, &tree, "local:t"]).fails_with(3, "line 2");
    fs::write(&list, "").expect("a file");
    overlay.client(&["sync", "--files-from", &list, &tree, "local:new"]).fails_with(3, "leave nothing of it");
    overlay.client(&["generations", "local:new"]).fails_with(3, "no data set of that name");

    fs::write(folder.path().join("tree/a/.sfioignore"), "b/*\n!b/7\n").expect("a file");
    overlay.client(&["sync", &tree, "local:all"]).succeeds();
    overlay.client(&["sync", "--sfioignore", &tree, "local:some"]).succeeds();
    let is_within = |name: &&String| name.starts_with("a/b/");
    assert!(held("local:all").iter().filter(is_within).count() > 40);
    assert_eq!(held("local:some").iter().filter(is_within).collect::<Vec<_>>(), ["a/b/7"]);
    // What is left out now and was sent before stays.
    overlay.client(&["sync", "--delete", "--sfioignore", &tree, "local:all"]).succeeds();
    assert!(held("local:all").iter().filter(is_within).count() > 40);
}

#[test]
fn one_directory_or_one_file_of_a_data_set_is_sent_and_the_rest_stays() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let folder = scene();
    let (tree, back) = (path(&folder, "tree"), path(&folder, "back"));
    let place = |name: &str| folder.path().join(name);
    // The file has a name within the part, and one outside of it.
    fs::hard_link(place("tree/a/b/7"), place("tree/seven")).expect("a link");
    overlay.client(&["sync", &tree, "local:all/t"]).succeeds();

    fs::remove_file(place("tree/a/b/8")).expect("it was there");
    fs::remove_file(place("tree/a/b/7")).expect("it was there");
    fs::write(place("tree/a/b/9"), "changed").expect("a file");
    fs::write(place("tree/a/large"), "changed, and not sent").expect("a file");
    let part = path(&folder, "tree/a/b");
    overlay.client(&["sync", "--delete", &part, "local:all/t/a/b"]).succeeds();
    overlay.client(&["sync", "local:all/t", &back]).succeeds();
    assert_eq!(picture(place("tree/a/b").as_ref()), picture(place("back/a/b").as_ref()));
    assert_eq!(fs::read(place("back/seven")).expect("it stays"), noise(2_000, 7));
    assert_eq!(fs::read(place("back/a/large")).expect("it stays"), noise(3_000_000, 1));
    let again = overlay.client(&["sync", "--json", "--delete", &part, "local:all/t/a/b"]).stdout();
    assert!(String::from_utf8(again).expect("text").contains("\"generation\":2,"));

    // A file that is sent alone does not change the directory that it goes to.
    let one = path(&folder, "tree/a/large");
    fs::set_permissions(place("tree/a"), fs::Permissions::from_mode(0o700)).expect("it is ours");
    overlay.client(&["sync", &one, "local:all/t/a"]).succeeds();
    overlay.client(&["sync", &one, "local:all/t/new"]).succeeds();
    overlay.client(&["sync", "local:all/t", &back]).succeeds();
    let mode = fs::metadata(place("back/a")).expect("it was restored").mode();
    assert_eq!(mode & 0o777, 0o755, "the mode of the directory");
    for name in ["back/a/large", "back/new/large"] {
        assert_eq!(fs::read_to_string(place(name)).expect("it was sent"), "changed, and not sent");
    }
    assert_eq!(picture(place("tree/a/b").as_ref()), picture(place("back/a/b").as_ref()));

    overlay.client(&["sync", &part, "local:all/t/x/y"]).fails_with(3, "there is no directory x/y in it");
    overlay.client(&["sync", &part, "local:all/t/seven"]).fails_with(3, "there is no directory seven in it");
    let both = ["sync", "--exclude", "x", &one, "local:all/t/a"];
    overlay.client(&both).ends_with(2, "is one file");
}

/// What stays is what it was, whatever becomes of other names of the same file. Such a name once led to nothing, or to
/// other content, in a generation that was acknowledged and that `verify` found whole.
#[test]
fn a_name_that_stays_keeps_the_content_that_it_had() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "1"]);
    let folder = tempfile::tempdir().expect("a folder");
    let (tree, back) = (path(&folder, "tree"), path(&folder, "back"));
    let place = |name: &str| folder.path().join(name);
    let content = |name: &str| fs::read_to_string(place(name)).expect("it was restored");
    fs::create_dir_all(place("tree/a")).expect("a folder");
    fs::create_dir_all(place("tree/b")).expect("a folder");
    fs::write(place("tree/a/x"), "early").expect("a file");
    fs::hard_link(place("tree/a/x"), place("tree/b/y")).expect("a link");
    fs::hard_link(place("tree/a/x"), place("tree/b/z")).expect("a link");
    overlay.client(&["sync", &tree, "local:gone"]).succeeds();
    overlay.client(&["sync", &tree, "local:other"]).succeeds();

    fs::remove_file(place("tree/a/x")).expect("it was there");
    overlay.client(&["sync", "--exclude", "b", "--delete", &tree, "local:gone"]).succeeds();
    overlay.client(&["sync", "local:gone", &back]).succeeds();
    assert!(!place("back/a/x").exists());
    assert_eq!((content("back/b/y"), content("back/b/z")), ("early".into(), "early".into()));
    let inode = |name: &str| fs::metadata(place(name)).expect("it was restored").ino();
    assert_eq!(inode("back/b/y"), inode("back/b/z"));

    fs::remove_dir_all(place("tree/b")).expect("it was there");
    fs::write(place("tree/a/x"), "something else").expect("a file");
    overlay.client(&["sync", &tree, "local:other"]).succeeds();
    overlay.client(&["sync", "--delete", "local:other", &back]).succeeds();
    assert_eq!((content("back/a/x"), content("back/b/y")), ("something else".into(), "early".into()));
}

#[test]
fn a_site_stands_for_the_same_path_on_its_io_nodes() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "2"]);
    let folder = tempfile::tempdir().expect("a folder");
    let (file, back) = (path(&folder, "file"), path(&folder, "back"));
    fs::write(&file, noise(300_000, 1)).expect("a file");
    overlay.client(&["put", &file, "local:a/b"]).succeeds();
    overlay.client(&["get", "io1,a/b;io2,a/b", &back]).succeeds();
    assert_eq!(fs::read(&back).expect("it was fetched"), noise(300_000, 1));
    let sizes = overlay.client(&["stat", "--json", "local:a/b"]).stdout();
    assert!(String::from_utf8(sizes).expect("text").contains("\"bytes\":300000"));
    overlay.client(&["rm", "local:a/b"]).succeeds();
    overlay.client(&["get", "local:a/b", &back]).fails_with(3, "io1,a/b");
    overlay.client(&["put", &file, "nowhere:a"]).fails_with(3, "no site \"nowhere\" (sites: local)");
}

/// Parts were sent as files, and then fetched as such.
#[test]
fn what_an_interrupted_fetch_has_left_is_not_sent() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "1"]);
    let folder = scene();
    let tree = path(&folder, "tree");
    // A further name of a file may be left under such a name, too, and comes first.
    let part = folder.path().join("tree/a/.sfio-part-0123456789abcdef");
    fs::hard_link(folder.path().join("tree/a/large"), &part).expect("a further name");
    fs::write(folder.path().join("tree/.sfio-part-mine"), b"x").expect("a file of that name");
    let sent = String::from_utf8(overlay.client(&["sync", "-v", &tree, "local:t"]).stdout()).expect("text");
    let lines = "left out a/.sfio-part-0123456789abcdef: an interrupted fetch has left it\n1 left out: ";
    assert!(sent.contains(lines), "{sent}");
    let listed = String::from_utf8(overlay.client(&["ls", "local:t", "a"]).stdout()).expect("text");
    assert!(listed.contains("a/large") && !listed.contains(".sfio-part-"), "{listed}");
    let listed = String::from_utf8(overlay.client(&["ls", "local:t"]).stdout()).expect("text");
    assert!(listed.contains(".sfio-part-mine"), "{listed}");
    assert!(part.exists(), "the next fetch uses it");
}

/// A pipe once made every run end with code 7, for ever.
#[test]
fn pipes_are_named_and_fail_nothing() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "1"]);
    let folder = scene();
    let tree = path(&folder, "tree");
    let made = std::process::Command::new("mkfifo").arg(folder.path().join("tree/pipe")).status();
    assert!(made.expect("there is a mkfifo").success());
    let sent = String::from_utf8(overlay.client(&["sync", "-v", &tree, "local:t"]).stdout()).expect("text");
    assert!(sent.contains("left out pipe: a pipe\n1 left out: sockets, pipes or devices\n"), "{sent}");
    let again = overlay.client(&["sync", "--json", &tree, "local:t"]).stdout();
    let summary: serde_json::Value = serde_json::from_slice(&again).expect("one object");
    assert_eq!((&summary["generation"], &summary["specials"]), (&1.into(), &vec!["pipe: a pipe"].into()));
}

/// It was waited for as an outage, ten minutes long.
#[test]
fn a_key_that_nobody_takes_is_told_at_once() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "1", "--io-nodes", "1"]);
    let folder = scene();
    let key = overlay.folder().join("client/key");
    fs::remove_file(&key).expect("it is there");
    let keys = overlay::sfio(&["keygen", &key.to_string_lossy()]).stdout();
    let keys = String::from_utf8(keys).expect("text");
    // The client's own overlay file has the new key, and that of the others the old one.
    let theirs = fs::read_to_string(overlay.folder().join("overlay.toml")).expect("it is there");
    let own = overlay.folder().join("client/overlay.toml");
    fs::write(&own, with_keys(&theirs, "client", &keys)).expect("it can be written");
    let config = fs::read_to_string(overlay.config("client")).expect("it is there");
    let config = config.replace("../overlay.toml", "overlay.toml");
    fs::write(overlay.config("client"), config).expect("it can be written");
    let words = "no neighbour takes this member's key";
    overlay.client(&["sync", &path(&folder, "tree"), "local:t"]).fails_with(3, words);
    overlay.client(&["datasets", "local"]).fails_with(3, "its overlay file is another one");
}

/// An overlay file in which a member has other keys.
fn with_keys(overlay: &str, member: &str, keys: &str) -> String {
    let name = format!("name = \"{member}\"");
    let is_key = |line: &str| ["ed25519", "x25519"].iter().any(|key| line.starts_with(key));
    let mut is_of_member = false;
    let mut lines = Vec::new();
    for line in overlay.lines() {
        is_of_member = line == name || (is_of_member && !line.starts_with("[["));
        if !(is_of_member && is_key(line)) {
            lines.push(line);
        }
        if line == name {
            lines.extend(keys.lines());
        }
    }
    lines.join("\n")
}

#[test]
fn a_second_run_is_told_who_is_at_work_and_for_how_long() {
    let overlay = LocalOverlay::up(&["--plain", "--relays", "0", "--io-nodes", "1"]);
    let folder = scene();
    let tree = path(&folder, "tree");
    let slow = overlay.begin(&["sync", "--bwlimit", "100kbit/s", &tree, "local:t"]);
    overlay.wait_for_file_on_any(&["io1"], "t/objects");
    overlay.client(&["sync", &tree, "local:t"]).fails_with(9, "by client (process ");
    assert!(!slow.kill(), "3 MB take four minutes");
}

/// All of the file is under way long before it arrives: what has arrived is in the journal all the same.
#[test]
fn a_run_that_is_killed_on_a_slow_link_is_resumed() {
    let overlay = LocalOverlay::up(&["--relays", "1", "--io-nodes", "2", "--rate-mbit", "40", "--loss", "0"]);
    let folder = tempfile::tempdir().expect("a folder");
    let tree = path(&folder, "tree");
    fs::create_dir(&tree).expect("a folder");
    fs::write(folder.path().join("tree/large"), noise(30_000_000, 1)).expect("a file");
    let sync = overlay.begin(&["sync", &tree, "local:t"]);
    overlay.wait_for_file_on_any(&["io1", "io2"], "t/journals");
    assert!(!sync.kill(), "30 MB take six seconds");
    let again = overlay.client(&["sync", "--json", &tree, "local:t"]).stdout();
    let again = String::from_utf8(again).expect("text");
    let summary = again.lines().last().expect("a summary");
    let summary: serde_json::Value = serde_json::from_str(summary).expect("an object");
    assert!(summary["resumed_bytes"].as_u64() > Some(1_000_000), "{summary}");
}

/// A tree on its way to an overlay whose members and clients are killed.
struct Battered {
    overlay: LocalOverlay,
    /// I/O nodes that were killed, and started again.
    by_hand: BTreeMap<String, Member>,
    folder: tempfile::TempDir,
}

/// What a killed run had left, and what the next one made of it.
#[derive(Debug, Default)]
struct Aftermath {
    ended_before: bool,
    /// Whether it was the client that was killed, and not an I/O node.
    was_client: bool,
    /// Bytes on the I/O nodes that no generation refers to.
    held: u64,
    /// Those of them that the journal knew, and that were not sent again.
    resumed: u64,
}

impl Battered {
    fn new() -> Battered {
        let overlay = LocalOverlay::up(&["--plain", "--relays", "2", "--io-nodes", "3"]);
        let battered = Battered { overlay, by_hand: BTreeMap::new(), folder: scene() };
        battered.overlay.client(&["sync", &path(&battered.folder, "tree"), "local:t"]).succeeds();
        battered
    }

    fn tree(&self) -> BTreeMap<String, String> {
        picture(&self.folder.path().join("tree"))
    }

    /// The current generation.
    fn restored(&self) -> BTreeMap<String, String> {
        let back = path(&self.folder, "back");
        self.overlay.client(&["sync", "--delete", "local:t", &back]).succeeds();
        picture(back.as_ref())
    }

    /// Kills the client or an I/O node while a large file is sent, as the dice say. Gives whether the run had ended
    /// before.
    fn kill(&mut self, dice: &[u8]) -> bool {
        let tree = path(&self.folder, "tree");
        let sync = self.overlay.begin(&["sync", "--patience", "0", "--bwlimit", "5MB/s", &tree, "local:t"]);
        std::thread::sleep(Duration::from_millis(u64::from(dice[0]) * 20));
        if strikes_client(dice) {
            return sync.kill();
        }
        let name = format!("io{}", 1 + dice[2] % 3);
        match self.by_hand.remove(&name) {
            Some(member) => drop(member),
            None => self.overlay.signal(&name, "-KILL"),
        }
        let ended_well = sync.ends_well();
        self.by_hand.insert(name.clone(), self.overlay.start_by_hand(&name));
        ended_well
    }

    /// Whatever was killed, what the site has is a whole generation, and the next run finishes the work.
    fn survive(&mut self, round: u64) -> Aftermath {
        let dice = noise(8, 1_000 + round);
        let before = self.tree();
        let old = self.objects();
        let file = self.folder.path().join(format!("tree/a/{}", dice[0] % 8));
        fs::write(file, noise(24_000_000, round)).expect("a file");
        let after = self.tree();
        let ended_before = self.kill(&dice[1..]);
        let found = self.restored();
        assert!(found == before || found == after, "round {round}: a mixture of generations");
        let new = self.objects().into_iter().filter(|(name, _)| !old.contains_key(name));
        let held = if found == after { 0 } else { new.map(|(_, size)| size).sum() };
        let again = self.overlay.client(&["sync", "--json", &path(&self.folder, "tree"), "local:t"]).stdout();
        let again = String::from_utf8(again).expect("text");
        let summary: serde_json::Value =
            serde_json::from_str(again.lines().last().expect("a summary")).expect("an object");
        assert_eq!(self.restored(), after, "round {round}");
        let resumed = summary["resumed_bytes"].as_u64().expect("a number");
        let was_client = strikes_client(&dice[1..]);
        println!(
            "round {round}: client {was_client}, ended before {ended_before}, {held} held, {resumed} known"
        );
        Aftermath { ended_before, was_client, held, resumed }
    }

    /// The objects, and the bytes of each on all I/O nodes together.
    fn objects(&self) -> BTreeMap<String, u64> {
        let mut sizes = BTreeMap::<String, u64>::new();
        for io_node in ["io1", "io2", "io3"] {
            for entry in fs::read_dir(self.overlay.export(io_node).join("t/objects")).expect("it is there") {
                let entry = entry.expect("an entry");
                *sizes.entry(entry.file_name().to_string_lossy().into_owned()).or_default() +=
                    entry.metadata().expect("it is there").len();
            }
        }
        sizes
    }
}

/// Three of four kills are the client's.
fn strikes_client(dice: &[u8]) -> bool {
    !dice[1].is_multiple_of(4)
}

/// Kills in some rounds. Gives how much of what the I/O nodes had was sent again at most after an I/O node was killed,
/// and after the client was. When an I/O node is killed, the others take what comes until its session ends, four
/// seconds later, and no journal can tell of it.
fn kill_while_syncing(rounds: Range<u64>) -> [u64; 2] {
    let mut battered = Battered::new();
    let aftermaths: Vec<Aftermath> = rounds.map(|round| battered.survive(round)).collect();
    let ended = aftermaths.iter().filter(|aftermath| aftermath.ended_before).count();
    println!("{} kills, {ended} of runs that had ended", aftermaths.len());
    [false, true].map(|was_client| {
        let interrupted: Vec<_> =
            aftermaths.iter().filter(|it| it.held > 0 && it.was_client == was_client).collect();
        let resumed = interrupted.iter().filter(|aftermath| aftermath.resumed > 0).count();
        let again = interrupted.iter().map(|it| it.held.saturating_sub(it.resumed)).max().unwrap_or(0);
        let (who, count) = (if was_client { "clients" } else { "I/O nodes" }, interrupted.len());
        println!("{who}: {count} had sent something, {resumed} of them resumed; at most {again} bytes were sent again");
        again
    })
}

#[test]
fn a_killed_sync_leaves_whole_generations() {
    kill_while_syncing(0..5);
}

/// `cargo test --release -p sfio-remote --test sync -- --ignored --nocapture`
#[test]
#[ignore = "takes a quarter of an hour: it takes four seconds until the others miss a client that was killed"]
fn two_hundred_kills() {
    let overlays: Vec<_> = (0..4)
        .map(|number| std::thread::spawn(move || kill_while_syncing(number * 50..(number + 1) * 50)))
        .collect();
    for overlay in overlays {
        let [after_io_node, after_client] = overlay.join().expect("all rounds are survived");
        // 1.6 seconds at 5 MB/s: 100 ms, a sync and a write to the journal, on a machine and a disk that others use,
        // too.
        assert!(after_client < 8 << 20, "{after_client} bytes are more than a journal interval");
        // Two thirds of the 8 MiB that may be under way, and of what had arrived in the second before.
        assert!(after_io_node < 16 << 20, "{after_io_node} bytes are more than may be under way");
    }
}
