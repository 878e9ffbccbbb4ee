use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::*;
use crate::io::replication::Filter;

fn options() -> RestoreOptions {
    RestoreOptions {
        filter: Filter::default(),
        attributes: Attributes::Ignored,
        deletes: false,
        distrusts_times: false,
        owners: false,
        is_dry_run: false,
    }
}

fn entry(name: &str, kind: EntryKind) -> Entry {
    let metadata = Metadata {
        mode: 0o755,
        modified: Timestamp { seconds: 1, nanoseconds: 2 },
        owner: Owner { user: 0, group: 0 },
        attributes: Vec::new(),
    };
    Entry { path: TreePath::new(name.as_bytes().to_vec()).expect("a path"), kind, metadata }
}

fn task(step: Step) -> Task {
    Task { step, change: Some(Change::New) }
}

fn begin_file(planter: &mut Planter<'_>, name: &str) {
    let entry = entry(name, EntryKind::File { size: 0, pieces: Vec::new() });
    planter.begin(task(Step::File { entry, sources: Vec::new() })).expect("begun");
}

fn names(folder: &Path) -> Vec<String> {
    let name = |entry: io::Result<fs::DirEntry>| entry.expect("readable").file_name().into_string();
    fs::read_dir(folder).expect("a folder").map(|entry| name(entry).expect("text")).collect()
}

/// What the disk had not taken stayed in memory: the next run found it there, and gave it its name.
#[tokio::test]
async fn what_a_sync_did_not_make_safe_is_fetched_again() {
    let (folder, options) = (tempfile::tempdir().expect("a folder"), options());
    let mut planter = Planter::new(Tree::open(folder.path()).expect("a folder"), &options).expect("open");
    begin_file(&mut planter, "syncing");
    planter.finish().expect("written");
    let batch = std::mem::take(&mut planter.written);
    let failure = io::Error::from(rustix::io::Errno::NOSPC);
    planter.syncing = Some((batch, tokio::spawn(async { Err(failure) })));
    begin_file(&mut planter, "written");
    planter.finish().expect("written");
    begin_file(&mut planter, "given up");
    planter.give_up(&entry("given up", EntryKind::Directory).path, &Fault::from(io::Error::other("lost")));
    begin_file(&mut planter, "under way");
    assert_eq!(names(folder.path()).len(), 4);
    let error = planter.settle().await.expect_err("it did not work");
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(names(folder.path()), [""; 0]);
}

/// Only the file system of the top was synced, and files on others got their names before they were safe.
#[test]
fn a_file_system_that_is_mounted_below_the_top_is_synced_too() {
    let device = |path: &str| fs::metadata(path).map(|metadata| metadata.dev()).ok();
    let (top, below) = (device("/dev"), device("/dev/shm"));
    // Nobody can mount anything in a test; where nothing is mounted there is nothing to see.
    let (Some(top), Some(below)) = (top, below) else { return };
    let options = options();
    let mut planter = Planter::new(Tree::open(Path::new("/dev")).expect("a folder"), &options).expect("open");
    planter.begin(task(Step::Enter(entry("shm", EntryKind::Directory)))).expect("it is there");
    let expected: Vec<u64> = std::collections::BTreeSet::from([top, below]).into_iter().collect();
    assert_eq!(planter.file_systems.into_keys().collect::<Vec<_>>(), expected);
}
