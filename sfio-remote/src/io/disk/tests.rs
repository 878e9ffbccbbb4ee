//! The store on disks against the one in memory, and against paths that want out.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use bytes::Bytes;
use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::distribution::Extent;
use crate::name::EntryName;
use crate::remote_error::ErrorKind;
use crate::store::{EntryKind, MemoryStore, Ticket};

fn path(text: &str) -> SubfilePath {
    SubfilePath::new(text).expect("a right path")
}

fn store() -> (TempDir, DiskStore) {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let root = directory.path().join("export");
    fs::create_dir(&root).expect("possible");
    let store = DiskStore::open(&root).expect("a right export root");
    (directory, store)
}

fn perform(store: &DiskStore, text: &str, action: DiskAction) -> Result<DiskReply, ErrorKind> {
    let operation = DiskOperation { ticket: Ticket(1), path: path(text), action };
    let result = store.perform(&operation);
    assert_eq!((result.ticket, result.incidents), (Ticket(1), Vec::new()));
    result.outcome.map_err(|error| error.error.kind)
}

fn create(store: &DiskStore, text: &str) -> Result<DiskReply, ErrorKind> {
    perform(
        store,
        text,
        DiskAction::Create { truncate: false, exclusive: false, durable: false, owner: None },
    )
}

fn any_extents() -> impl Strategy<Value = Vec<Extent>> {
    prop::collection::vec((0_u64..9_000, 1_u64..3_000), 1..6).prop_map(|steps| {
        let mut at = 0;
        let mut place = |(gap, length)| {
            at += gap + length;
            Extent::between(at - length, at)
        };
        steps.into_iter().map(&mut place).collect()
    })
}

fn write(extents: Vec<Extent>, seed: u64, cut: usize) -> DiskAction {
    let total: u64 = extents.iter().map(|extent| extent.length()).sum();
    let bytes: Vec<u8> = (0..total).map(|i| ((i + seed) * 131 % 251) as u8).collect();
    DiskAction::Write { extents, data: bytes.chunks(cut).map(Bytes::copy_from_slice).collect() }
}

fn any_action() -> impl Strategy<Value = DiskAction> {
    let durable = any::<bool>;
    prop_oneof![
        3 => (any_extents(), any::<u8>(), 1_usize..2_000).prop_map(|(e, seed, cut)| write(e, seed.into(), cut)),
        3 => any_extents().prop_map(|extents| DiskAction::Read { extents }),
        1 => (any::<bool>(), durable()).prop_map(|(truncate, durable)| DiskAction::Create { truncate, exclusive: false, durable, owner: None }),
        1 => (0_u64..40_000).prop_map(|length| DiskAction::SetLength { length }),
        1 => (0_u64..40_000).prop_map(|length| DiskAction::Grow { length }),
        1 => durable().prop_map(|durable| DiskAction::Create { truncate: false, exclusive: true, durable, owner: None }),
        1 => (0_u64..40_000).prop_map(|limit| DiskAction::ReadWhole { limit }),
        1 => (0_u64..40_000, 1_u64..40_000).prop_map(|(start, length)| DiskAction::Uncache { extent: Extent::between(start, start + length) }),
        2 => prop::option::of("[ab]").prop_map(|after| {
            DiskAction::List { after: after.map(|after| EntryName::new(&after).expect("a right name")), durable: false }
        }),
        1 => Just(DiskAction::Size),
        1 => Just(DiskAction::Sync),
        1 => durable().prop_map(|durable| DiskAction::Remove { durable }),
        1 => ("[ab]", any::<bool>(), durable()).prop_map(|(target, replace, durable)| DiskAction::Rename { target: path(&target), replace, durable }),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_disk_does_what_memory_does(actions in prop::collection::vec(("[ab]|d/[ab]|d", any_action()), 1..40)) {
        let ((_directory, disk), mut memory) = (store(), MemoryStore::default());
        for (text, action) in actions {
            if matches!(&action, DiskAction::Rename { target, .. } if target.as_str() == text) {
                continue;
            }
            let size_matters = !matches!(action, DiskAction::Remove { .. } | DiskAction::Rename { .. });
            let expected = memory.perform(&path(&text), &action).map_err(|error| error.error.kind);
            let found = perform(&disk, &text, action.clone());
            match (found, expected) {
                (Ok(found), Ok(expected)) => {
                    prop_assert_eq!(found.data, expected.data);
                    prop_assert_eq!(found.listing, expected.listing);
                    prop_assert!(!size_matters || found.size_before == expected.size_before, "{:?}", action);
                }
                (found, expected) => prop_assert_eq!(found.err(), expected.err(), "{:?}", action),
            }
        }
    }
}

#[test]
fn directories_are_made_beneath_the_root() {
    let (directory, store) = store();
    create(&store, "/deep/er/a.dat").expect("possible");
    assert!(directory.path().join("export/deep/er/a.dat").is_file());
    assert_eq!(create(&store, "deep/er"), Err(ErrorKind::IsADirectory));
    assert_eq!(create(&store, "deep/er/a.dat/b"), Err(ErrorKind::NotADirectory));
    assert_eq!(perform(&store, "deep", DiskAction::Remove { durable: false }), Err(ErrorKind::IsADirectory));
}

#[test]
fn a_listing_leaves_out_what_no_path_can_name_and_does_not_leave_the_root() {
    use std::os::unix::ffi::OsStrExt as _;
    let (directory, store) = store();
    let root = directory.path().join("export");
    create(&store, "d/a").expect("possible");
    for name in [&b"semi;colon"[..], b"not\xffutf8"] {
        fs::write(root.join("d").join(std::ffi::OsStr::from_bytes(name)), "").expect("possible");
    }
    symlink("a", root.join("d/link")).expect("possible");
    symlink("..", root.join("out")).expect("possible");
    let list = |text: &str| perform(&store, text, DiskAction::List { after: None, durable: false });
    let entries = list("d").expect("a folder").listing.entries;
    let names: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.kind)).collect();
    assert_eq!(names, [("a", EntryKind::File), ("link", EntryKind::Other)]);
    assert_eq!(list("out").expect_err("out of the root"), ErrorKind::OutsideRoot);
    assert_eq!(list("d/a").expect_err("a file"), ErrorKind::NotADirectory);
}

/// Who may read them is said in `[access]`; other users of the machine are none of those.
#[test]
fn subfiles_and_folders_are_the_io_nodes_own() {
    use std::os::unix::fs::PermissionsExt as _;
    let (directory, store) = store();
    create(&store, "d/a").expect("possible");
    let mode = |text: &str| fs::metadata(directory.path().join(text)).expect("there").permissions().mode();
    assert_eq!([mode("export/d"), mode("export/d/a")].map(|mode| mode & 0o7777), [0o700, 0o600]);
}

#[test]
fn a_subfile_that_must_be_new_is_created_once_however_many_try() {
    let (directory, store) = store();
    let create = DiskAction::Create { truncate: false, exclusive: true, durable: false, owner: None };
    let created = std::thread::scope(|scope| {
        let attempt = || perform(&store, "d/a", create.clone()).is_ok();
        let attempts: Vec<_> = (0..4).map(|_| scope.spawn(attempt)).collect();
        attempts.into_iter().map(|attempt| attempt.join().expect("no panic")).filter(|won| *won).count()
    });
    assert_eq!(created, 1);
    // One that somebody removed on the disk may be created again, whatever the store has open.
    fs::remove_file(directory.path().join("export/d/a")).expect("it is there");
    perform(&store, "d/a", create).expect("it is free");
}

fn store_text(store: &DiskStore, text: &str, content: &'static str) {
    let extents = vec![Extent::between(0, content.len() as u64)];
    let action = DiskAction::Write { extents, data: vec![Bytes::from_static(content.as_bytes())] };
    perform(store, text, action).expect("possible");
}

fn text_on_disk(directory: &TempDir, text: &str) -> String {
    fs::read_to_string(directory.path().join("export").join(text)).expect("it is there")
}

/// What was created anew under the old path was once the renamed subfile, which was emptied by it.
#[test]
fn a_rename_counts_although_its_folder_cannot_be_synced() {
    let (directory, store) = store();
    create(&store, "a").expect("possible");
    create(&store, "d/other").expect("possible");
    store_text(&store, "a", "renamed");
    store.root.folders().lose("d");
    let rename = DiskAction::Rename { target: path("d/b"), replace: false, durable: true };
    assert_eq!(perform(&store, "a", rename).err(), Some(ErrorKind::SyncLost));
    let anew = DiskAction::Create { truncate: true, exclusive: false, durable: false, owner: None };
    perform(&store, "a", anew).expect("possible");
    store_text(&store, "a", "anew");
    assert_eq!([text_on_disk(&directory, "a"), text_on_disk(&directory, "d/b")], ["anew", "renamed"]);
    let list = |durable| perform(&store, "d", DiskAction::List { after: None, durable });
    assert_eq!(list(false).expect("readable").listing.entries.len(), 2);
    assert_eq!(list(true).err(), Some(ErrorKind::SyncLost), "nobody knows what is on the disk");
}

/// Whoever created a subfile under a path that was just given up once wrote to the one that had it before.
#[test]
fn a_subfile_that_takes_the_path_of_a_renamed_one_is_another_one() {
    let (directory, store) = store();
    let exclusive = DiskAction::Create { truncate: false, exclusive: true, durable: false, owner: None };
    for round in 0..200 {
        let target = format!("moved-{round}");
        perform(&store, "a", exclusive.clone()).expect("it is free");
        store_text(&store, "a", "first");
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let rename = DiskAction::Rename { target: path(&target), replace: false, durable: true };
                perform(&store, "a", rename).expect("possible");
            });
            scope.spawn(|| {
                while perform(&store, "a", exclusive.clone()).is_err() {}
                store_text(&store, "a", "second");
            });
        });
        assert_eq!([text_on_disk(&directory, &target), text_on_disk(&directory, "a")], ["first", "second"]);
        perform(&store, "a", DiskAction::Remove { durable: false }).expect("it is there");
    }
}

#[test]
fn what_the_cache_lets_go_of_is_read_again_as_it_was() {
    let (_directory, store) = store();
    create(&store, "a").expect("possible");
    perform(&store, "a", write(vec![Extent::between(0, 10_000)], 1, 100)).expect("possible");
    perform(&store, "a", DiskAction::Sync).expect("possible");
    let whole = Extent::between(0, 10_000);
    for extent in [whole, Extent::between(4_097, 5_000), Extent::between(0, i64::MAX as u64)] {
        let reply = perform(&store, "a", DiskAction::Uncache { extent }).expect("possible");
        assert_eq!(reply.size_before, 10_000);
    }
    let read = perform(&store, "a", DiskAction::Read { extents: vec![whole] }).expect("possible");
    let DiskAction::Write { data, .. } = write(vec![whole], 1, 10_000) else { unreachable!("it writes") };
    assert_eq!(read.data, data[0]);
}

/// The export root, and a folder outside of it with a secret in a file of that name.
fn root_and_outside(directory: &TempDir, name: &str) -> (PathBuf, PathBuf) {
    let (root, outside) = (directory.path().join("export"), directory.path().join("outside"));
    fs::create_dir(&outside).expect("possible");
    fs::write(outside.join(name), "secret").expect("possible");
    (root, outside)
}

#[test]
fn links_that_leave_the_root_are_refused_and_others_are_followed() {
    let (directory, store) = store();
    let (root, outside) = root_and_outside(&directory, "secret");
    symlink(&outside, root.join("absolute")).expect("possible");
    symlink("../outside", root.join("relative")).expect("possible");
    symlink("../outside/secret", root.join("file")).expect("possible");
    symlink("circle", root.join("circle")).expect("possible");
    for text in ["absolute/secret", "relative/secret", "file", "circle"] {
        for action in [
            DiskAction::Size,
            DiskAction::Create { truncate: true, exclusive: false, durable: true, owner: None },
            DiskAction::SetLength { length: 0 },
            DiskAction::Remove { durable: false },
            DiskAction::Rename { target: path("b"), replace: true, durable: false },
        ] {
            assert_eq!(
                perform(&store, text, action.clone()),
                Err(ErrorKind::OutsideRoot),
                "{text} {action:?}"
            );
        }
    }
    assert_eq!(create(&store, "relative/new"), Err(ErrorKind::OutsideRoot));
    create(&store, "real/a").expect("possible");
    let out = DiskAction::Rename { target: path("relative/a"), replace: true, durable: false };
    assert_eq!(perform(&store, "real/a", out), Err(ErrorKind::OutsideRoot));
    assert_eq!(fs::read(outside.join("secret")).expect("untouched"), b"secret");
    assert_eq!(fs::read_dir(&outside).expect("a directory").count(), 1);
    symlink("real", root.join("link")).expect("possible");
    assert_eq!(perform(&store, "link/a", DiskAction::Size), Ok(DiskReply::default()));
}

#[test]
fn what_is_no_regular_file_is_refused_without_waiting_for_it() {
    let (directory, store) = store();
    make_fifo(&directory.path().join("export/fifo"));
    let socket =
        std::os::unix::net::UnixListener::bind(directory.path().join("export/socket")).expect("possible");
    for text in ["fifo", "socket"] {
        assert_eq!(perform(&store, text, DiskAction::Size), Err(ErrorKind::NotAFile));
        assert_eq!(create(&store, text), Err(ErrorKind::NotAFile));
        assert_eq!(perform(&store, text, DiskAction::Remove { durable: false }), Err(ErrorKind::NotAFile));
    }
    drop(socket);
}

#[test]
fn a_subfile_that_somebody_removed_on_the_disk_is_gone() {
    let (directory, store) = store();
    create(&store, "a").expect("possible");
    fs::remove_file(directory.path().join("export/a")).expect("possible");
    assert_eq!(perform(&store, "a", DiskAction::Size), Err(ErrorKind::NotFound));
    assert_eq!(create(&store, "a"), Ok(DiskReply::default()));
    assert!(directory.path().join("export/a").is_file());
}

#[test]
fn growing_never_cuts_what_is_written_at_the_same_time() {
    let (_directory, store) = store();
    create(&store, "a").expect("possible");
    std::thread::scope(|scope| {
        let (writer, grower) = (store.clone(), store.clone());
        scope.spawn(move || {
            for i in 0..2_000_u64 {
                let extents = vec![Extent::between(i * 100, i * 100 + 100)];
                perform(&writer, "a", write(extents, i, 100)).expect("possible");
            }
        });
        scope.spawn(move || {
            for i in 0..2_000 {
                perform(&grower, "a", DiskAction::Grow { length: i * 100 + 50 }).expect("possible");
            }
        });
    });
    assert_eq!(perform(&store, "a", DiskAction::Size).expect("there").size_before, 200_000);
    let read =
        perform(&store, "a", DiskAction::Read { extents: vec![Extent::between(0, 200_000)] }).expect("there");
    for (i, bytes) in (0_u64..).zip(read.data.chunks(100)) {
        let expected = write(vec![Extent::between(0, 100)], i, 100);
        assert!(matches!(expected, DiskAction::Write { data, .. } if data[0] == bytes), "piece {i}");
    }
}

#[test]
fn more_subfiles_than_stay_open_all_keep_their_content() {
    let (_directory, store) = store();
    for i in 0..700_u64 {
        let name = format!("d{}/f{i}", i % 7);
        create(&store, &name).expect("possible");
        perform(&store, &name, write(vec![Extent::between(i, i + 9)], i, 4)).expect("possible");
    }
    for i in 0..700_u64 {
        let name = format!("d{}/f{i}", i % 7);
        assert_eq!(perform(&store, &name, DiskAction::Sync).expect("possible").size_before, i + 9);
    }
}

#[test]
fn a_file_system_of_the_kernel_is_no_export_root() {
    for path in ["/proc", "/sys"].map(Path::new).into_iter().filter(|path| path.is_dir()) {
        let error = DiskStore::open(path).expect_err("not a disk");
        assert!(matches!(error, ExportError::NotADisk { .. }), "{error}");
    }
}

/// Reads, writes, cuts and creates `text` while others exchange the names of each pair as fast as they can; gives how
/// often that succeeded.
fn while_swapped(store: &DiskStore, root: &Path, pairs: &[(&str, &str)], text: &str) -> usize {
    let stop = std::sync::atomic::AtomicBool::new(false);
    let exchange = || {
        let directory = fs::File::open(root).expect("it is there");
        while !stop.load(std::sync::atomic::Ordering::Relaxed) {
            for (one, other) in pairs {
                let flags = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(&directory, *one, &directory, *other, flags)
                    .expect("both are there");
            }
        }
    };
    let attempt = |round: u64| {
        let action = match round % 4 {
            0 => DiskAction::Read { extents: vec![Extent::between(0, 6)] },
            1 => write(vec![Extent::between(0, 6)], 1, 6),
            2 => DiskAction::SetLength { length: 6 },
            _ => DiskAction::Create { truncate: false, exclusive: false, durable: false, owner: None },
        };
        let result = perform(store, text, action);
        // What the store keeps open must not hide the race.
        store.lock().remove(&path(text));
        match &result {
            Ok(reply) => assert_ne!(reply.data, Bytes::from_static(b"secret")),
            Err(error) => {
                let refusals = [ErrorKind::OutsideRoot, ErrorKind::NotFound, ErrorKind::NotAFile];
                assert!(refusals.contains(error), "{error}");
            }
        }
        result.is_ok()
    };
    std::thread::scope(|scope| {
        scope.spawn(exchange);
        let mut reached = (0..3_000).filter(|round| attempt(*round)).count();
        // On a busy machine the exchanges may stand at the other name for as long as all of those take.
        let mut later = 3_000..3_000_000;
        while reached == 0
            && let Some(round) = later.next()
        {
            reached += usize::from(attempt(round));
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        reached
    })
}

#[test]
fn names_that_are_swapped_during_the_call_never_lead_out() {
    let (directory, store) = store();
    let (root, outside) = root_and_outside(&directory, "a");
    // "d" is a directory beneath the root at one moment and a link out of it at the next.
    symlink(&outside, root.join("link")).expect("possible");
    fs::create_dir(root.join("d")).expect("possible");
    fs::write(root.join("d/a"), "public").expect("possible");
    assert!(while_swapped(&store, &root, &[("d", "link")], "d/a") > 0);
    // "f" is a file, a link out of the root, a FIFO.
    symlink(outside.join("a"), root.join("out")).expect("possible");
    fs::write(root.join("f"), "public").expect("possible");
    make_fifo(&root.join("fifo"));
    assert!(while_swapped(&store, &root, &[("f", "out"), ("f", "fifo")], "f") > 0);
    assert_eq!(fs::read(outside.join("a")).expect("untouched"), b"secret");
    assert_eq!(fs::read_dir(&outside).expect("a directory").count(), 1);
}

fn make_fifo(path: &Path) {
    use rustix::fs::{CWD, FileType, Mode, mknodat};
    mknodat(CWD, path, FileType::Fifo, Mode::from_raw_mode(0o600), 0).expect("possible");
}

#[test]
fn impossible_export_roots_say_what_is_wrong() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("file");
    fs::write(&file, "").expect("possible");
    for path in [directory.path().join("missing"), file] {
        let error = DiskStore::open(&path).expect_err("no directory");
        assert!(matches!(error, ExportError::Open { .. }));
        assert!(error.to_string().starts_with(&format!("export root {}: ", path.display())), "{error}");
    }
}

#[test]
fn members_pay_for_what_they_created_until_it_is_gone() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let open = || quoted(&directory, 1_000);
    let Some(mut store) = open() else { return };
    create_for(&store, "d/x", "a");
    create_for(&store, "y", "a");
    create_for(&store, "z", "b");
    assert_eq!(grow(&store, "z", 5_000), Ok(()));
    assert_eq!(grow(&store, "d/x", 600), Ok(()));
    let extents = || vec![Extent::between(0, 300), Extent::between(350, 400)];
    perform(&store, "y", write(extents(), 1, 100)).expect("within the quota");
    assert_eq!(perform(&store, "y", write(vec![Extent::between(400, 401)], 1, 1)), Err(ErrorKind::NoSpace));
    perform(&store, "y", write(extents(), 2, 100)).expect("nothing grows");
    // What is cut, removed or replaced is paid back; what gets another name is not.
    perform(&store, "d/x", DiskAction::SetLength { length: 500 }).expect("possible");
    assert_eq!(grow(&store, "y", 501), Err(ErrorKind::NoSpace));
    assert_eq!(grow(&store, "y", 500), Ok(()));
    let rename = DiskAction::Rename { target: path("y"), replace: true, durable: false };
    perform(&store, "d/x", rename).expect("possible");
    // A new process counts what is there.
    for _ in 0..2 {
        assert_eq!(grow(&store, "y", 1_001), Err(ErrorKind::NoSpace));
        store = open().expect("as before");
    }
    assert_eq!(grow(&store, "y", 1_000), Ok(()));
    perform(&store, "y", DiskAction::Remove { durable: false }).expect("possible");
    create_for(&store, "new", "a");
    assert_eq!(grow(&store, "new", 1_000), Ok(()));
}

/// Empty subfiles and folders once cost nothing, however many they were.
#[test]
fn empty_subfiles_and_folders_have_a_quota_too() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let open = || quoted(&directory, 1_000);
    let Some(mut store) = open() else { return };
    let owner = Some("a".into());
    let create = DiskAction::Create { truncate: false, exclusive: true, durable: false, owner };
    // A folder and what is in it are two.
    for number in 0..512 {
        perform(&store, &format!("{number}/x"), create.clone()).expect("within the quota");
    }
    for _ in 0..2 {
        assert_eq!(perform(&store, "one-more", create.clone()), Err(ErrorKind::NoSpace));
        assert_eq!(perform(&store, "folder/x", create.clone()), Err(ErrorKind::NoSpace));
        assert!(!directory.path().join("folder").exists(), "nothing stays behind");
        store = open().expect("as before");
    }
    perform(&store, "7/x", DiskAction::Remove { durable: false }).expect("it is there");
    perform(&store, "one-more", create.clone()).expect("one was given back");
    assert_eq!(perform(&store, "two-more", create), Err(ErrorKind::NoSpace));
    create_for(&store, "another/member", "b");
}

/// A member whose quota objects had filled could not forget any of them: that takes a record.
#[test]
fn objects_leave_some_of_a_quota_to_records() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let Some(store) = quoted(&directory, 1_600) else { return };
    let [object, record] = ["d/objects/0123456789abcdef0123456789abcdef", "d/commits/00000000000000000007"];
    create_for(&store, object, "a");
    let bytes = |from, to| write(vec![Extent::between(from, to)], 1, 1_000);
    perform(&store, object, bytes(0, 1_500)).expect("that is what objects may have");
    assert_eq!(perform(&store, object, bytes(1_500, 1_501)), Err(ErrorKind::NoSpace));
    create_for(&store, record, "a");
    perform(&store, record, bytes(0, 100)).expect("the rest is for records");
    assert_eq!(perform(&store, record, bytes(100, 101)), Err(ErrorKind::NoSpace));
    let create =
        DiskAction::Create { truncate: false, exclusive: true, durable: false, owner: Some("a".into()) };
    let mut name = (0..).map(|number| format!("d/objects/{number:032x}"));
    let full = |name: String| perform(&store, &name, create.clone()) == Err(ErrorKind::NoSpace);
    assert!(name.by_ref().take(1_024).any(full), "objects may not have all entries");
    create_for(&store, "d/commits/00000000000000000008", "a");
}

/// Writes that failed were once paid for until the I/O node started anew.
#[test]
fn nobody_pays_for_a_write_that_failed() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    const ALL: u64 = i64::MAX as u64;
    let Some(store) = quoted(&directory, ALL) else { return };
    create_for(&store, "x", "a");
    create_for(&store, "y", "a");
    let far = write(vec![Extent::between(ALL - 1, ALL)], 1, 1);
    // Most file systems have no files of that size.
    match perform(&store, "x", far) {
        Err(error) => assert_eq!(error, ErrorKind::FileTooLarge),
        Ok(_) => perform(&store, "x", DiskAction::SetLength { length: 0 }).map(drop).expect("possible"),
    }
    assert_eq!(grow(&store, "y", 1_000), Ok(()));
}

#[test]
fn whoever_creates_a_subfile_beside_others_who_open_it_pays_for_it() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let Some(store) = quoted(&directory, 1_000) else { return };
    for round in 0..200 {
        let name = round.to_string();
        std::thread::scope(|scope| {
            scope.spawn(|| while perform(&store, &name, DiskAction::Size).is_err() {});
            create_for(&store, &name, "a");
        });
        assert_eq!(grow(&store, &name, 1_001), Err(ErrorKind::NoSpace), "round {round}");
    }
}

/// A store in which member "a" has a quota of `bytes`; none where files have no extended attributes.
fn quoted(directory: &TempDir, bytes: u64) -> Option<DiskStore> {
    let quotas = Quotas { members: [("a".to_owned(), bytes)].into(), others: None };
    match DiskStore::with_quotas(directory.path(), quotas) {
        Err(ExportError::NotCounted { error, .. }) if error.kind() == std::io::ErrorKind::Unsupported => None,
        opened => Some(opened.expect("a right export root")),
    }
}

fn create_for(store: &DiskStore, text: &str, owner: &str) {
    let create =
        DiskAction::Create { truncate: true, exclusive: false, durable: false, owner: Some(owner.into()) };
    perform(store, text, create).expect("possible");
}

fn grow(store: &DiskStore, text: &str, length: u64) -> Result<(), ErrorKind> {
    perform(store, text, DiskAction::Grow { length }).map(drop)
}

/// What `sfio put` stores beside a subfile.
fn store_with_sums(store: &DiskStore, text: &str) {
    create(store, text).expect("it can be");
    perform(store, text, write(vec![Extent::between(0, 100)], 1, 100)).expect("there is room");
    create(store, &sums_of(text)).expect("it can be");
    perform(store, &sums_of(text), write(vec![Extent::between(0, 10)], 1, 10)).expect("there is room");
}

fn sums_of(text: &str) -> String {
    crate::sums::beside(&path(text)).expect("a short name").to_string()
}

fn has_sums(store: &DiskStore, text: &str) -> bool {
    perform(store, &sums_of(text), DiskAction::Size).is_ok()
}

#[test]
fn sums_are_gone_before_anything_changes_their_subfile() {
    let remove = || DiskAction::Remove { durable: false };
    let changes = [
        write(vec![Extent::between(3, 4)], 2, 1),
        DiskAction::SetLength { length: 5 },
        DiskAction::Grow { length: 500 },
        DiskAction::Create { truncate: true, exclusive: false, durable: false, owner: None },
        remove(),
    ];
    for change in changes {
        let (_directory, store) = store();
        store_with_sums(&store, "a/x");
        store_with_sums(&store, "a/y");
        perform(&store, "a/x", change.clone()).expect("it can be");
        assert!(!has_sums(&store, "a/x"), "{change:?}");
        assert!(has_sums(&store, "a/y"), "{change:?}");
    }
}

#[test]
fn what_changes_nothing_leaves_the_sums() {
    let (_directory, store) = store();
    store_with_sums(&store, "x");
    for action in [
        DiskAction::Size,
        DiskAction::Sync,
        DiskAction::Read { extents: vec![Extent::between(0, 10)] },
        DiskAction::Create { truncate: false, exclusive: false, durable: true, owner: None },
    ] {
        perform(&store, "x", action.clone()).expect("it can be");
        assert!(has_sums(&store, "x"), "{action:?}");
    }
}

#[test]
fn a_rename_takes_the_sums_along_and_ends_those_that_were_there() {
    let (_directory, store) = store();
    let rename = |target: &str, replace| DiskAction::Rename { target: path(target), replace, durable: true };
    store_with_sums(&store, "x.part");
    perform(&store, "x.part", rename("b/x", false)).expect("it is free");
    assert!(has_sums(&store, "b/x") && !has_sums(&store, "x.part"));
    // One without sums takes the place of one that has some.
    create(&store, "plain").expect("it can be");
    assert_eq!(perform(&store, "plain", rename("b/x", false)), Err(ErrorKind::AlreadyExists));
    assert!(has_sums(&store, "b/x"), "nothing has changed");
    perform(&store, "plain", rename("b/x", true)).expect("it replaces");
    assert!(!has_sums(&store, "b/x"));
}

/// A subfile was removed on the I/O node by hand, its sums were not.
#[test]
fn sums_that_were_left_behind_do_not_belong_to_a_new_subfile() {
    let (directory, store) = store();
    store_with_sums(&store, "x");
    fs::remove_file(directory.path().join("export/x")).expect("it is there");
    let store_again = DiskStore::open(&directory.path().join("export")).expect("a right export root");
    create(&store_again, "x").expect("it can be");
    assert!(!has_sums(&store_again, "x"));
    drop(store);
}
