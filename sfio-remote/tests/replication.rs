//! Trees to data sets and back, over a store that may lose its power at any operation.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;

use sfio_remote::io::replication::{
    Attributes, Change, Deletion, Filter, ManifestCache, MemoryStore, MemoryStoreError, Meter,
    ReplicationError, RestoreOptions, SendOptions, Sent, fetch_manifest, load_commit, restore, send,
};
use sfio_remote::replication::{Compression, Token};
use tempfile::TempDir;

type Failure = ReplicationError<MemoryStoreError>;

fn send_options() -> SendOptions {
    SendOptions {
        member: "client".to_owned(),
        filter: Filter::new([]).expect("no patterns"),
        attributes: Attributes::Ignored,
        jobs: 3,
        compression: Compression::Auto,
        deletion: Deletion::AtMost(u64::MAX),
        distrusts_times: false,
        keep: 3,
        now_ms: 0,
        token: Token([5; 16]),
        is_dry_run: false,
    }
}

fn restore_options() -> RestoreOptions {
    RestoreOptions {
        filter: Filter::new([]).expect("no patterns"),
        attributes: Attributes::Ignored,
        deletes: true,
        distrusts_times: false,
        owners: false,
        is_dry_run: false,
    }
}

async fn send_with(store: &mut MemoryStore, source: &Path, options: &SendOptions) -> Result<Sent, Failure> {
    send(store, source, options, &ManifestCache::none(), &Arc::default(), |_, _| {}).await
}

async fn send_tree(store: &mut MemoryStore, source: &Path) -> Result<Sent, Failure> {
    send_with(store, source, &send_options()).await
}

/// Restores the current generation into a new folder.
async fn restored(store: &mut MemoryStore) -> TempDir {
    let target = tempfile::tempdir().expect("a folder");
    restore_to(store, target.path()).await;
    target
}

async fn restore_to(store: &mut MemoryStore, target: &Path) {
    restore_with(store, target, &restore_options()).await;
}

async fn restore_with(store: &mut MemoryStore, target: &Path, options: &RestoreOptions) {
    let commit = load_commit(store).await.expect("a record").expect("a data set");
    let generation = commit.current().expect("a current one");
    let objects = sfio_remote::io::replication::Store::objects(store);
    let meter = Arc::<Meter>::default();
    let manifest = fetch_manifest::<MemoryStore>(&objects, generation, &meter).await.expect("a manifest");
    let summary = restore(store, &manifest, &generation.top, target, options, &meter, |_, _| {})
        .await
        .expect("restored");
    assert_eq!(summary.problems, []);
}

/// Everything about a tree that is replicated: kind, mode, time and content by path.
fn picture(root: &Path) -> BTreeMap<String, String> {
    fn add(root: &Path, path: &Path, picture: &mut BTreeMap<String, String>) {
        for entry in fs::read_dir(path).expect("a folder") {
            let path = entry.expect("an entry").path();
            let metadata = path.symlink_metadata().expect("it is there");
            let (mode, time) = (metadata.mode(), (metadata.mtime(), metadata.mtime_nsec()));
            let content = if metadata.is_symlink() {
                format!("{:?}", fs::read_link(&path).expect("a link"))
            } else if metadata.is_file() {
                blake3::hash(&fs::read(&path).expect("readable")).to_string()
            } else {
                add(root, &path, picture);
                String::new()
            };
            let name = format!("{:?}", path.strip_prefix(root).expect("below"));
            picture.insert(name, format!("{mode:o} {time:?} {} {content}", metadata.nlink()));
        }
    }
    let top = root.metadata().expect("it is there");
    let mut all =
        BTreeMap::from([(".".to_owned(), format!("{:o} {:?}", top.mode(), (top.mtime(), top.mtime_nsec())))]);
    add(root, root, &mut all);
    all
}

fn noise(length: usize, seed: u8) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut bytes);
    bytes
}

/// A tree with something of everything.
fn tree() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let root = folder.path();
    fs::create_dir_all(root.join("deep/er/and/deeper")).expect("folders");
    fs::create_dir(root.join("empty")).expect("a folder");
    fs::write(root.join("nothing"), b"").expect("a file");
    fs::write(root.join("deep/large"), noise(3_000_000, 1)).expect("a file");
    fs::write(root.join("deep/text"), "all work and no play ".repeat(20_000)).expect("a file");
    for number in 0..40 {
        fs::write(root.join(format!("deep/er/small-{number}")), noise(4_096, number)).expect("a file");
    }
    let odd = std::ffi::OsStr::from_bytes(b"new\nline and \xff");
    fs::write(root.join(odd), b"odd").expect("a file");
    fs::write(root.join("n".repeat(255)), b"long").expect("a file");
    symlink("../nowhere", root.join("deep/link")).expect("a link");
    fs::hard_link(root.join("deep/large"), root.join("deep/other name")).expect("a link");
    let sparse = fs::File::create(root.join("sparse")).expect("a file");
    sparse.write_all_at(&noise(100_000, 9), 8 << 20).expect("written");
    sparse.set_len(20 << 20).expect("longer");
    fs::set_permissions(root.join("deep/text"), fs::Permissions::from_mode(0o640)).expect("ours");
    fs::set_permissions(root.join("deep/er"), fs::Permissions::from_mode(0o550)).expect("ours");
    folder
}

#[tokio::test]
async fn a_tree_comes_back_with_everything() {
    let (source, mut store) = (tree(), MemoryStore::default());
    let sent = send_tree(&mut store, source.path()).await.expect("sent");
    assert_eq!((sent.generation, sent.is_new, sent.summary.problems), (Some(1), true, vec![]));
    let target = restored(&mut store).await;
    assert_eq!(picture(target.path()), picture(source.path()));
    let sparse = target.path().join("sparse").metadata().expect("there");
    assert!(sparse.blocks() * 512 < 1 << 20, "the holes are holes: {} blocks", sparse.blocks());
}

#[tokio::test]
async fn what_is_there_already_neither_travels_nor_takes_space() {
    let (source, mut store) = (tree(), MemoryStore::default());
    send_tree(&mut store, source.path()).await.expect("sent");
    let first = store.appended();
    let target = restored(&mut store).await;
    let again = send_tree(&mut store, source.path()).await.expect("sent");
    assert_eq!((again.generation, again.is_new, store.appended()), (Some(1), false, first));

    // A byte more near the beginning of the largest file, and a copy of it.
    let mut large = noise(3_000_000, 1);
    large.insert(1_000, 7);
    fs::write(source.path().join("deep/large"), &large).expect("written");
    fs::write(source.path().join("copy"), &large).expect("written");
    let sent = send_tree(&mut store, source.path()).await.expect("sent");
    assert_eq!(
        (sent.generation, sent.summary.changed),
        (Some(2), 1),
        "the other name is still one of this file"
    );
    let travelled = store.appended() - first;
    assert!(travelled < 1_300_000, "{travelled} bytes for one byte more");
    restore_to(&mut store, target.path()).await;
    assert_eq!(picture(target.path()), picture(source.path()), "both names lead to the new content");
    assert_eq!(picture(restored(&mut store).await.path()), picture(source.path()));
}

#[tokio::test]
async fn what_is_gone_stays_unless_it_is_to_be_deleted() {
    let (source, mut store) = (tree(), MemoryStore::default());
    send_tree(&mut store, source.path()).await.expect("sent");
    let whole = picture(source.path());
    fs::set_permissions(source.path().join("deep/er"), fs::Permissions::from_mode(0o750)).expect("ours");
    fs::remove_dir_all(source.path().join("deep")).expect("removed");

    let careful = SendOptions { deletion: Deletion::AtMost(3), ..send_options() };
    let refusal = send_with(&mut store, source.path(), &careful).await.expect_err("too many");
    assert!(matches!(refusal, ReplicationError::TooManyDeletions { allowed: 3, .. }), "{refusal}");

    let keeping = SendOptions { deletion: Deletion::Never, ..send_options() };
    send_with(&mut store, source.path(), &keeping).await.expect("sent");
    // Of the folder itself the time has changed.
    let mut kept = whole;
    kept.extend(picture(source.path()).remove_entry("."));
    assert_eq!(picture(restored(&mut store).await.path()), kept);

    // A file where a directory was: what was in it cannot stay.
    fs::write(source.path().join("deep"), b"a file now").expect("written");
    send_with(&mut store, source.path(), &keeping).await.expect("sent");
    assert_eq!(picture(restored(&mut store).await.path()), picture(source.path()));
}

#[tokio::test]
async fn a_target_that_has_something_else_becomes_the_same() {
    let (source, mut store) = (tree(), MemoryStore::default());
    send_tree(&mut store, source.path()).await.expect("sent");
    let target = tempfile::tempdir().expect("a folder");
    let root = target.path();
    fs::create_dir_all(root.join("nothing/is/here")).expect("a folder where a file is to be");
    fs::write(root.join("empty"), b"a file where a folder is to be").expect("a file");
    fs::create_dir(root.join("deep")).expect("a folder");
    symlink("/etc", root.join("deep/er")).expect("a link that leads away");
    fs::write(root.join("deep/large"), noise(2_000_000, 1)).expect("a beginning");
    fs::write(root.join("too much"), b"").expect("a file");
    restore_to(&mut store, root).await;
    assert_eq!(picture(root), picture(source.path()));
}

#[tokio::test]
async fn a_damaged_chunk_spoils_one_file_and_is_named() {
    let source = tempfile::tempdir().expect("a folder");
    fs::write(source.path().join("a"), noise(50_000, 1)).expect("a file");
    fs::write(source.path().join("b"), noise(50_000, 2)).expect("a file");
    let mut store = MemoryStore::default();
    send_tree(&mut store, source.path()).await.expect("sent");
    store.damage(0, 60_000);
    let commit = load_commit(&store).await.expect("a record").expect("a data set");
    let objects = sfio_remote::io::replication::Store::objects(&store);
    let meter = Arc::<Meter>::default();
    let generation = commit.current().expect("one");
    let manifest = fetch_manifest::<MemoryStore>(&objects, generation, &meter).await.expect("a manifest");
    let target = tempfile::tempdir().expect("a folder");
    let summary =
        restore(&store, &manifest, &generation.top, target.path(), &restore_options(), &meter, |_, _| {})
            .await
            .expect("restored");
    let [problem] = &summary.problems[..] else { panic!("{:?}", summary.problems) };
    assert!(problem.to_string().starts_with("b: ") && problem.what.contains("BLAKE3"), "{problem}");
    assert!(target.path().join("a").exists() && !target.path().join("b").exists());
}

#[tokio::test]
async fn patterns_choose_and_protect() {
    let (source, mut store) = (tree(), MemoryStore::default());
    send_tree(&mut store, source.path()).await.expect("sent");
    let filter = Filter::new([(true, "*.log".to_owned())]).expect("a pattern");
    fs::write(source.path().join("a.log"), b"noise").expect("a file");
    let mut told = Vec::new();
    let options = SendOptions { filter, ..send_options() };
    let (to, from) = std::sync::mpsc::channel();
    let tell = move |change: Change, path: &sfio_remote::replication::TreePath| {
        to.send((change, path.to_string())).expect("somebody listens");
    };
    send(&mut store, source.path(), &options, &ManifestCache::none(), &Arc::default(), tell)
        .await
        .expect("sent");
    told.extend(from.try_iter());
    assert_eq!(told, [(Change::Touched, ".".to_owned())], "only the folder's time");
}

/// Owners need root; extended attributes a file system that has them.
#[tokio::test]
async fn owners_and_extended_attributes_come_back_where_they_can_be_set() {
    use rustix::fs::{XattrFlags, getxattr, setxattr};
    let (source, mut store) = (tree(), MemoryStore::default());
    let set = |path: &Path, value: &[u8]| setxattr(path, "user.colour", value, XattrFlags::empty());
    if let Err(error) = set(source.path(), b"green") {
        eprintln!("skipped: no extended attributes here: {error}");
        return;
    }
    set(&source.path().join("deep/text"), b"red\n\0").expect("there are attributes");
    let is_root = rustix::process::geteuid().is_root();
    if is_root {
        std::os::unix::fs::lchown(source.path().join("deep/link"), Some(1_234), Some(5_678))
            .expect("root may");
        std::os::unix::fs::chown(source.path().join("deep/text"), Some(12), Some(34)).expect("root may");
    } else {
        eprintln!("owners are skipped: not root");
    }
    let options = SendOptions { attributes: Attributes::Kept, ..send_options() };
    send_with(&mut store, source.path(), &options).await.expect("sent");
    let target = tempfile::tempdir().expect("a folder");
    let options = RestoreOptions { attributes: Attributes::Kept, owners: is_root, ..restore_options() };
    restore_with(&mut store, target.path(), &options).await;
    // One that is gone from the source goes from the target, too.
    rustix::fs::removexattr(source.path().join("deep/text"), "user.colour").expect("it was set");
    set(&source.path().join("deep/large"), b"blue").expect("there are attributes");
    let again = SendOptions { attributes: Attributes::Kept, ..send_options() };
    send_with(&mut store, source.path(), &again).await.expect("sent");
    let value = |path: &str| {
        let mut value = vec![0; 64];
        let length =
            getxattr(target.path().join(path), "user.colour", value.as_mut_slice()).expect("it is there");
        value.truncate(length);
        value
    };
    assert_eq!((value("."), value("deep/text")), (b"green".to_vec(), b"red\n\0".to_vec()));
    restore_with(&mut store, target.path(), &options).await;
    assert_eq!(value("deep/large"), b"blue");
    assert!(getxattr(target.path().join("deep/text"), "user.colour", &mut [0_u8; 64][..]).is_err());
    let owner = |root: &Path, path: &str| {
        let metadata = root.join(path).symlink_metadata().expect("it is there");
        (metadata.uid(), metadata.gid())
    };
    for path in [".", "deep/link", "deep/text", "deep/large"] {
        assert_eq!(owner(target.path(), path), owner(source.path(), path), "{path}");
    }
}

/// The power fails at every single operation in turn. Whatever of the unsynced writes survives, the current generation
/// is the old or the new one, whole; and the next run finishes the work without sending again what the journal has.
#[tokio::test]
async fn wherever_the_power_fails_there_is_one_whole_generation() {
    let old_tree = tree();
    let new_tree = tree();
    fs::write(new_tree.path().join("deep/large"), noise(4_000_000, 77)).expect("written");
    fs::write(new_tree.path().join("new"), noise(1_500_000, 78)).expect("written");
    fs::remove_file(new_tree.path().join("nothing")).expect("removed");
    let (before, after) = (picture(old_tree.path()), picture(new_tree.path()));
    let mut failures = 0;
    // Every third one suffices for each kind of operation to fail; all of them take a minute without optimisation.
    for operations in (0..).step_by(if cfg!(debug_assertions) { 3 } else { 1 }) {
        let mut store = MemoryStore::default();
        send_tree(&mut store, old_tree.path()).await.expect("sent");
        let appended = store.appended();
        store.fail_after(operations);
        let outcome = send_tree(&mut store, new_tree.path()).await;
        let mut coin = operations.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        store.restart(|| {
            coin = coin.rotate_left(7).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            coin & 1 == 1
        });
        if outcome.is_ok() {
            break;
        }
        failures += 1;
        let found = picture(restored(&mut store).await.path());
        assert!(found == before || found == after, "after {operations} operations there is a mixture");
        let sent = send_tree(&mut store, new_tree.path()).await.expect("sent at last");
        assert_eq!(picture(restored(&mut store).await.path()), after, "after {operations} operations");
        // 5.5 MB are new; beyond them travels again what eight chunks of a checkpoint hold, and the manifest.
        let travelled = store.appended() - appended;
        assert!(travelled < 5_500_000 + 2 * 8 * (1 << 20), "{travelled} after {operations}; {sent:?}");
    }
    assert!(failures > 10, "{failures} operations");
}

/// Paths of 20,000 bytes cannot be given to the system, which takes 4,096.
#[tokio::test]
async fn a_tree_may_be_deeper_than_the_longest_path() {
    let shell = |folder: &Path, work: &str| {
        let script = format!("for i in $(seq 200); do n=$(printf '%0100d' $i); {work}; done");
        let output = std::process::Command::new("sh").args(["-ec", &script]).current_dir(folder).output();
        let output = output.expect("there is a shell");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let source = tempfile::tempdir().expect("a folder");
    shell(source.path(), "mkdir $n; cd -P $n; echo $i > file");
    let mut store = MemoryStore::default();
    let sent = send_tree(&mut store, source.path()).await.expect("sent");
    assert_eq!((sent.summary.new, sent.summary.problems), (400, vec![]));
    let target = restored(&mut store).await;
    let numbers: String = (1..=200).map(|number| format!("{number}\n")).collect();
    assert_eq!(String::from_utf8(shell(target.path(), "cd -P $n; cat file")).expect("text"), numbers);
}

#[tokio::test]
async fn what_cannot_be_read_is_named_and_everything_else_is_sent() {
    let (source, mut store) = (tree(), MemoryStore::default());
    send_tree(&mut store, source.path()).await.expect("sent");
    let status = std::process::Command::new("mkfifo").arg(source.path().join("pipe")).status();
    assert!(status.expect("there is a mkfifo").success());
    fs::write(source.path().join("zz"), b"later").expect("a file");
    // A file that vanishes between the walk and the reading: told by the walk itself, which comes before.
    let vanishing = source.path().join("vanishing");
    fs::write(&vanishing, noise(10_000, 3)).expect("a file");
    let tell = move |_: Change, path: &sfio_remote::replication::TreePath| {
        if path.to_string() == "zz" {
            fs::remove_file(&vanishing).expect("it was there");
        }
    };
    let sent =
        send(&mut store, source.path(), &send_options(), &ManifestCache::none(), &Arc::default(), tell).await;
    let sent = sent.expect("sent");
    let problems: Vec<String> = sent.summary.problems.iter().map(ToString::to_string).collect();
    assert_eq!(problems, ["pipe: a pipe is not replicated", "vanishing: No such file or directory"]);
    assert_eq!(sent.generation, Some(2));
    fs::remove_file(source.path().join("pipe")).expect("it is there");
    let pictures = [restored(&mut store).await.path(), source.path()].map(|root| {
        let mut picture = picture(root);
        picture.remove(".");
        picture
    });
    assert_eq!(pictures[0], pictures[1]);
}

/// Who could publish could plant a program that runs as root.
#[tokio::test]
async fn set_uid_bits_come_back_on_demand_only() {
    let source = tempfile::tempdir().expect("a folder");
    let file = source.path().join("program");
    fs::write(&file, b"#!").expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o6755)).expect("ours");
    let mut store = MemoryStore::default();
    send_tree(&mut store, source.path()).await.expect("sent");
    let mode = |root: &Path| root.join("program").metadata().expect("there").mode() & 0o7777;
    let target = restored(&mut store).await;
    assert_eq!(mode(target.path()), 0o755);
    let owners = RestoreOptions { owners: true, ..restore_options() };
    restore_with(&mut store, target.path(), &owners).await;
    assert_eq!(mode(target.path()), 0o6755);
    restore_to(&mut store, target.path()).await;
    assert_eq!(mode(target.path()), 0o755, "without the option the bits go");
}

/// Files get their names only after a sync, and none is longer than what was written to it.
#[tokio::test]
async fn wherever_a_restore_ends_what_has_its_name_is_whole() {
    let (source, mut store) = (tree(), MemoryStore::default());
    send_tree(&mut store, source.path()).await.expect("sent");
    let whole = picture(source.path());
    let commit = load_commit(&store).await.expect("a record").expect("a data set");
    let generation = commit.current().expect("a current one");
    let objects = sfio_remote::io::replication::Store::objects(&store);
    let meter = Arc::<Meter>::default();
    let manifest = fetch_manifest::<MemoryStore>(&objects, generation, &meter).await.expect("a manifest");
    let target = tempfile::tempdir().expect("a folder");
    let (mut interrupted, root) = (0, target.path());
    for operations in 0.. {
        store.fail_after(operations);
        let options = restore_options();
        let restored =
            restore(&store, &manifest, &generation.top, root, &options, &Arc::default(), |_, _| {}).await;
        store.restart(|| true);
        for (path, content) in
            picture(root).iter().filter(|(path, _)| *path != "." && !path.contains(".sfio-part-"))
        {
            let hash = |content: &str| content.rsplit(' ').next().map(str::to_owned);
            assert_eq!(
                hash(content),
                whole.get(path).and_then(|whole| hash(whole)),
                "{path} after {operations}"
            );
        }
        if restored.is_ok() {
            break;
        }
        interrupted += 1;
    }
    assert!(interrupted > 0);
    assert_eq!(picture(root), whole);
}
