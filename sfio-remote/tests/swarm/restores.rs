//! A power cut at every operation of a restore: no file that has its final name is wrong, and the next restore mends
//! all.
//!
//! What a cut leaves is everything that was synced; of what came later, the names, lengths and times up to some moment,
//! as a journal of a file system keeps them in order, and of the bytes any part.

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes};
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, UNIX_EPOCH};

use sfio_remote::distribution::StripeUnit;
use sfio_remote::io::replication::{ManifestCache, TreeChange, changes_heard, hear_changes};
use sfio_remote::io::sim::{Cluster, ClusterConfig, run};
use sfio_remote::sim::{Dice, identity_of};

use crate::commands::{Place, SyncOptions, User};
use crate::trees::{Trees, folder, picture};

/// As names of unfinished files begin.
const PART: &[u8] = b".sfio-part-";

/// A disk with a tree.
#[derive(Debug, Clone, Default)]
struct Disk {
    files: BTreeMap<u64, Content>,
    names: BTreeMap<(u64, Vec<u8>), Entry>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Content {
    bytes: Vec<u8>,
    modified: (i64, u32),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    File(u64),
    Directory(u64),
    Link(Vec<u8>),
}

impl Disk {
    /// What is below a directory.
    fn read(directory: &Path) -> Disk {
        fn add(disk: &mut Disk, directory: &Path) {
            let within = directory.metadata().expect("a directory").ino();
            for entry in fs::read_dir(directory).expect("a directory") {
                let path = entry.expect("an entry").path();
                let metadata = path.symlink_metadata().expect("it is there");
                let name = path.file_name().expect("it has a name").as_encoded_bytes().to_vec();
                let entry = if metadata.is_dir() {
                    add(disk, &path);
                    Entry::Directory(metadata.ino())
                } else {
                    let modified = (metadata.mtime(), metadata.mtime_nsec() as u32);
                    let bytes = fs::read(&path).expect("readable");
                    disk.files.insert(metadata.ino(), Content { bytes, modified });
                    Entry::File(metadata.ino())
                };
                disk.names.insert((within, name), entry);
            }
        }
        let mut disk = Disk::default();
        add(&mut disk, directory);
        disk
    }

    /// Carries out a change; the bytes of a write are lost if they do not survive.
    fn change(&mut self, change: &TreeChange, survives: bool) {
        match change {
            TreeChange::File { within, name, node } => {
                let there = self.names.insert((*within, name.clone()), Entry::File(*node));
                if there != Some(Entry::File(*node)) {
                    self.files.insert(*node, Content::default());
                }
            }
            TreeChange::Directory { within, name, node } => {
                self.names.insert((*within, name.clone()), Entry::Directory(*node));
            }
            TreeChange::Write { node, offset, bytes } => {
                let content = &mut self.files.entry(*node).or_default().bytes;
                let end = *offset as usize + bytes.len();
                if survives {
                    content.resize(content.len().max(end), 0);
                    content[*offset as usize..end].copy_from_slice(bytes);
                }
            }
            TreeChange::Length { node, length } => {
                self.files.entry(*node).or_default().bytes.resize(*length as usize, 0);
            }
            TreeChange::Times { node, seconds, nanoseconds } => {
                self.files.entry(*node).or_default().modified = (*seconds, *nanoseconds);
            }
            TreeChange::Rename { within, from, to } => {
                if let Some(entry) = self.names.remove(&(*within, from.clone())) {
                    self.names.insert((*within, to.clone()), entry);
                }
            }
            TreeChange::Remove { within, name } => drop(self.names.remove(&(*within, name.clone()))),
            TreeChange::Link { within, name, node } => {
                self.names.insert((*within, name.clone()), Entry::File(*node));
            }
            TreeChange::SymbolicLink { within, name, target } => {
                self.names.insert((*within, name.clone()), Entry::Link(target.clone()));
            }
            TreeChange::Sync => {}
        }
    }

    /// What is left of this after the changes, if the power fails then.
    fn after_cut(&self, changes: &[TreeChange], dice: &mut Dice, keeps_all_names: bool) -> Disk {
        let mut disk = self.clone();
        let synced = changes.iter().rposition(|change| *change == TreeChange::Sync).map_or(0, |at| at + 1);
        let left = changes.len() - synced;
        let in_journal = if keeps_all_names { left } else { dice.below(left + 1) };
        changes[..synced].iter().for_each(|change| disk.change(change, true));
        for (index, change) in changes[synced..].iter().enumerate() {
            let is_write = matches!(change, TreeChange::Write { .. });
            if is_write || index < in_journal {
                disk.change(change, !keeps_all_names && dice.one_in(2));
            }
        }
        disk
    }

    /// Makes a tree of what is below one of the directories.
    fn write(&self, node: u64, to: &Path) {
        fs::create_dir_all(to).expect("a folder");
        for ((within, name), entry) in self.names.range((node, Vec::new())..) {
            if *within != node {
                break;
            }
            let path = to.join(std::str::from_utf8(name).expect("ours"));
            match entry {
                Entry::Directory(node) => self.write(*node, &path),
                Entry::Link(target) => {
                    symlink(std::str::from_utf8(target).expect("ours"), path).expect("a link");
                }
                Entry::File(node) => {
                    let content = &self.files[node];
                    fs::write(&path, &content.bytes).expect("written");
                    let (seconds, nanoseconds) = content.modified;
                    let modified = UNIX_EPOCH + Duration::new(seconds as u64, nanoseconds);
                    let file = File::open(&path).expect("ours");
                    file.set_times(FileTimes::new().set_modified(modified)).expect("ours");
                }
            }
        }
    }

    /// The contents by path, without files that are not finished.
    fn finished(&self, node: u64, before: &str, all: &mut BTreeMap<String, Vec<u8>>) {
        for ((within, name), entry) in self.names.range((node, Vec::new())..) {
            if *within != node {
                break;
            }
            let path = format!("{before}{}", String::from_utf8_lossy(name));
            match entry {
                Entry::Directory(node) => self.finished(*node, &format!("{path}/"), all),
                Entry::File(node) if !name.starts_with(PART) => {
                    all.insert(path, self.files[node].bytes.clone());
                }
                Entry::File(_) | Entry::Link(_) => {}
            }
        }
    }
}

/// Somebody who sends and restores on an undisturbed cluster.
fn user(cluster: &Cluster) -> User {
    User {
        client: cluster.process("client").client().clone(),
        member: "client".to_owned(),
        place: Place {
            io_nodes: vec!["io".to_owned()],
            stripe_unit: StripeUnit::new(4_096).expect("in range"),
            keys: Arc::new([("client".to_owned(), identity_of("client").public().ed25519)].into()),
        },
        cache: ManifestCache::none(),
        accepts_older: false,
        patience: Duration::ZERO,
        dice: Arc::new(Mutex::new(Dice::new(1))),
        clock: Arc::new(|| 0),
    }
}

fn copy(tree: usize, to: &Path) {
    let trees = Trees::all();
    let top = trees.path(tree).metadata().expect("a folder").ino();
    Disk::read(trees.path(tree)).write(top, to);
}

/// Restores the tree `new` over the tree `old`, or over nothing, and cuts the power after each change. Gives the number
/// of cuts.
async fn cut_everywhere(old: Option<usize>, new: usize) -> usize {
    let cluster = Cluster::start(ClusterConfig::new(&["client", "io"], 5));
    cluster.world().serve("io").expect("a new root");
    let user = user(&cluster);
    let how = SyncOptions { keep: 10, checksum: false, if_current: false };
    user.sync(Trees::all().path(new), how).await.expect("nothing disturbs");
    let target = folder();
    if let Some(old) = old {
        copy(old, target.path());
    }
    let (before, top) = (Disk::read(target.path()), target.path().metadata().expect("a folder").ino());
    hear_changes();
    user.restore(1, target.path()).await.expect("nothing disturbs");
    let changes = changes_heard();
    assert_eq!(picture(target.path()), *Trees::all().picture(new));
    let allowed: Vec<BTreeMap<String, Vec<u8>>> =
        [Some(new), old].into_iter().flatten().map(contents).collect();
    let mut dice = Dice::new(new as u64);
    for cut in 0..=changes.len() {
        for keeps_all_names in [true, false] {
            let left = before.after_cut(&changes[..cut], &mut dice, keeps_all_names);
            let mut finished = BTreeMap::new();
            left.finished(top, "", &mut finished);
            for (path, bytes) in &finished {
                let is_right = allowed.iter().any(|tree| tree.get(path) == Some(bytes));
                assert!(
                    is_right,
                    "{path} is wrong after a cut behind {:?}",
                    cut.checked_sub(1).map(|at| &changes[at])
                );
            }
            let again = folder();
            left.write(top, again.path());
            user.restore(1, again.path()).await.expect("nothing disturbs");
            assert_eq!(picture(again.path()), *Trees::all().picture(new), "mended after cut {cut}");
        }
    }
    changes.len()
}

fn contents(tree: usize) -> BTreeMap<String, Vec<u8>> {
    let path = Trees::all().path(tree);
    let mut all = BTreeMap::new();
    Disk::read(path).finished(path.metadata().expect("a folder").ino(), "", &mut all);
    all
}

#[test]
fn no_power_cut_at_any_operation_of_a_restore_leaves_a_wrong_file() {
    let cuts = run(async {
        let mut cuts = 0;
        for (old, new) in [(None, 1), (Some(1), 2), (Some(3), 5), (None, 10)] {
            cuts += cut_everywhere(old, new).await;
        }
        cuts
    });
    assert!(cuts > 100, "only {cuts} changes were heard of");
}
