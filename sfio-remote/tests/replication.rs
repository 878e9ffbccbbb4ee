//! Trees to data sets and back, over I/O nodes in virtual time that may lose their power at any operation.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use bytes::Bytes;
use sfio_remote::client::{Durability, OpenMode};
use sfio_remote::dataset::DatasetPath;
use sfio_remote::distribution::StripeUnit;
use sfio_remote::io::replication::{
    Attributes, Author, Catalog, Change, DataSet, Deletion, FailureKind, Filter, Finding, Job, ManifestCache,
    Meter, Phase, Reading, ReplicationError, RestoreOptions, SendOptions, Sent, Site, Source, Summary,
    VerifyOptions, View, Wanted, forget, open_all, remove, remove_unfinished, repair, restore, roll_back,
    send, verify,
};
use sfio_remote::io::sim::{Cluster, ClusterConfig, Process, run};
use sfio_remote::io::{OpenOptions, Patience};
use sfio_remote::name::{FileName, SubfileName, SubfilePath};
use sfio_remote::replication::{
    Compression, Deed, Extent, Form, Hash, Healed, Right, RunId, SignedRecord, TreePath,
};
use sfio_remote::sim::identity_of;
use sfio_remote::store::{DiskAction, Store as _};
use tempfile::TempDir;

fn send_options() -> SendOptions {
    SendOptions {
        filter: Filter::default(),
        obeys_ignore_files: false,
        at: None,
        attributes: Attributes::Ignored,
        jobs: 3,
        compression: Compression::Auto,
        deletion: Deletion::AtMost(u64::MAX),
        distrusts_times: false,
        keep: 3,
        is_dry_run: false,
        ends_when_overtaken: false,
        wants_something: true,
        is_on_one_file_system: false,
        host: "here".to_owned(),
        tag: None,
    }
}

fn restore_options() -> RestoreOptions {
    RestoreOptions {
        filter: Filter::default(),
        attributes: Attributes::Ignored,
        deletes: true,
        distrusts_times: false,
        owners: false,
        is_dry_run: false,
    }
}

fn path_of(name: &str) -> TreePath {
    TreePath::new(name.as_bytes().to_vec()).expect("a path")
}

/// I/O nodes, and a client that has the data set "set" on them.
struct Bench {
    cluster: Cluster,
    client: Process,
    io_nodes: Vec<String>,
    /// How many run ids were drawn.
    drawn: Arc<AtomicU64>,
}

impl Bench {
    fn new() -> Bench {
        Bench::with_io_nodes(&["io1", "io2"])
    }

    fn with_io_nodes(io_nodes: &[&str]) -> Bench {
        Bench::by_chance(io_nodes, 5)
    }

    fn by_chance(io_nodes: &[&str], seed: u64) -> Bench {
        let members = [&["client"], io_nodes].concat();
        let cluster = Cluster::start(ClusterConfig::new(&members, seed));
        for io_node in io_nodes {
            cluster.world().serve(io_node).expect("a new export root");
        }
        let client = cluster.process("client");
        let io_nodes = io_nodes.iter().map(|name| (*name).to_owned()).collect();
        Bench { cluster, client, io_nodes, drawn: Arc::default() }
    }

    /// Of somebody who gives up at the first failure.
    fn impatient_job(&self) -> Job {
        Job { patience: Duration::ZERO, ..self.job() }
    }

    fn site(&self) -> Site {
        let stripe_unit = StripeUnit::new(64 << 10).expect("in range");
        Site { name: "site".to_owned(), io_nodes: self.io_nodes.clone(), stripe_unit }
    }

    /// Of somebody without a memory.
    fn job(&self) -> Job {
        self.job_of("set")
    }

    fn job_of(&self, name: &str) -> Job {
        let site = self.site();
        let name = SubfilePath::new(name).expect("a name");
        let identity = identity_of("client");
        let drawn = Arc::clone(&self.drawn);
        Job {
            dataset: DataSet::new(self.client.client(), &site, name).expect("a free name"),
            keys: Arc::new(BTreeMap::from([("client".to_owned(), identity.public().ed25519)])),
            author: Author { member: "client".to_owned(), identity },
            cache: ManifestCache::none(),
            accepts_older: false,
            patience: Duration::from_secs(60),
            meter: Arc::default(),
            random: Arc::new(move || {
                let number = drawn.fetch_add(1, Ordering::Relaxed);
                *blake3::hash(&number.to_le_bytes()).as_bytes().first_chunk().expect("it is longer")
            }),
            clock: Arc::new(|| 0),
        }
    }

    async fn send_with(&self, source: &Path, options: &SendOptions) -> Result<Sent, ReplicationError> {
        send(&self.job(), source, options, |_, _| {}).await
    }

    async fn send_tree(&self, source: &Path) -> Result<Sent, ReplicationError> {
        self.send_with(source, &send_options()).await
    }

    /// Sends a tree; gives how many operations of the client and of disks that takes.
    async fn operations_of_sending(&self, source: &Path) -> u64 {
        let before = self.cluster.world().operations();
        self.send_tree(source).await.expect("sent");
        self.cluster.world().operations() - before
    }

    /// Restores the current generation into a new folder.
    async fn restored(&self) -> TempDir {
        let target = tempfile::tempdir().expect("a folder");
        self.restore_to(target.path()).await;
        target
    }

    async fn restore_to(&self, target: &Path) {
        self.restore_with(target, &restore_options()).await;
    }

    async fn restore_with(&self, target: &Path, options: &RestoreOptions) {
        let summary = self.try_to_restore(self.job(), target, options).await.expect("restored");
        assert_eq!(summary.problems, []);
    }

    async fn try_to_restore(
        &self,
        job: Job,
        target: &Path,
        options: &RestoreOptions,
    ) -> Result<Summary, ReplicationError> {
        let reading = Reading::begin(&job).await?;
        let generation = reading.generation(None)?;
        let manifest = reading.manifest(generation).await?;
        let wanted =
            Wanted { top: &generation.top, manifest: &manifest, objects: reading.objects(Source::Cache) };
        restore(&wanted, target, options, &job.meter, |_, _| {}).await
    }

    /// The subfiles of objects on an I/O node.
    fn objects(&self, io_node: &str) -> Vec<SubfilePath> {
        let mut world = self.cluster.world();
        let paths = world.disk(io_node).inner().paths();
        paths.filter(|path| path.as_str().starts_with("set/objects/")).cloned().collect()
    }

    /// An I/O node's disk loses a file.
    fn lose(&self, io_node: &str, path: &SubfilePath) {
        let removal = DiskAction::Remove { durable: true };
        self.cluster.world().disk(io_node).inner_mut().perform(path, &removal).expect("it is there");
    }

    /// Bytes of objects on all I/O nodes.
    fn stored(&self) -> u64 {
        let size = |io_node: &String, path: &SubfilePath| {
            let mut world = self.cluster.world();
            world.disk(io_node).inner().content(path.as_str()).map_or(0, |content| content.len() as u64)
        };
        let stored = self
            .io_nodes
            .iter()
            .map(|io_node| self.objects(io_node).iter().map(|path| size(io_node, path)).sum::<u64>());
        stored.sum()
    }

    /// Publishes a record, as whoever may append can, that says that all of the first object is in the second one now.
    async fn forge_healing(&self, leads_behind_the_end: bool) {
        let before = Reading::begin(&self.job()).await.expect("it is there").record.clone();
        let lengths: Vec<u64> = before.objects.iter().map(|object| object.length).collect();
        let mut record = before.record().clone();
        (record.number, record.predecessor) = (before.number + 1, before.hash());
        (record.run, record.deed) = (RunId([7; 16]), Deed::Heal);
        let from = Extent { object: 0, offset: 0, length: lengths[0] };
        let offset = if leads_behind_the_end { lengths[1] } else { 0 };
        record.healed = vec![Healed { from, object: 1, offset, form: Form::Same }];
        let record = SignedRecord::sign(record, &identity_of("client")).expect("it is sound");
        assert_eq!(record.check_successor(Some(&before), Right::Append), Ok(()));
        for io_node in &self.io_nodes {
            self.stage(io_node, record.run, record.bytes()).await;
            let (client, dataset) = (self.client.client(), dataset());
            client.publish(io_node, &dataset, record.run, record.number).await.expect("published");
        }
    }

    /// Puts on an I/O node what is to become a record.
    async fn stage(&self, io_node: &str, run: RunId, bytes: &Bytes) {
        self.write_new(io_node, &dataset().staged(run), bytes).await;
    }

    /// Puts a new file on an I/O node.
    async fn write_new(&self, io_node: &str, path: &SubfilePath, bytes: &Bytes) {
        let options = OpenOptions::new().mode(OpenMode::Exclusive).durability(Durability::OnEveryCall);
        let options = options.stripe_unit(self.site().stripe_unit);
        let name = SubfileName::new(io_node, path.as_str()).expect("a name");
        let name = FileName::new(vec![name]).expect("one");
        let file = options.open(self.client.client(), &name).await.expect("new");
        file.write_at(0, bytes.clone()).await.expect("written");
    }

    /// Whether an I/O node has something that was staged.
    fn has_staged(&self, io_node: &str) -> bool {
        let mut world = self.cluster.world();
        world.disk(io_node).inner().paths().any(|path| path.as_str().starts_with("set/staged/"))
    }

    /// After so many more operations of the client and of disks all I/O nodes lose their power, and have it again.
    fn power_fails_after(&self, operations: u64) {
        let io_nodes = self.io_nodes.clone();
        self.cluster.world().after_operations(operations, move |world| {
            for io_node in &io_nodes {
                world.lose_power(io_node);
                world.serve(io_node).expect("its own export root");
            }
        });
    }
}

/// The data set "set".
fn dataset() -> DatasetPath {
    DatasetPath::new(SubfilePath::new("set").expect("a name")).expect("a free name")
}

/// Where an I/O node has a record of the data set "set".
fn record(number: u64) -> SubfilePath {
    SubfilePath::new(&format!("set/commits/{number:020}")).expect("a path")
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

#[test]
fn a_tree_comes_back_with_everything() {
    run(async {
        let (source, bench) = (tree(), Bench::new());
        let sent = bench.send_tree(source.path()).await.expect("sent");
        assert_eq!((sent.generation, sent.is_new, sent.summary.problems), (Some(1), true, vec![]));
        let target = bench.restored().await;
        assert_eq!(picture(target.path()), picture(source.path()));
        let sparse = target.path().join("sparse").metadata().expect("there");
        assert!(sparse.blocks() * 512 < 1 << 20, "the holes are holes: {} blocks", sparse.blocks());
    });
}

#[test]
fn what_is_there_already_neither_travels_nor_takes_space() {
    run(async {
        let (source, bench) = (tree(), Bench::new());
        bench.send_tree(source.path()).await.expect("sent");
        let first = bench.stored();
        let target = bench.restored().await;
        let again = bench.send_tree(source.path()).await.expect("sent");
        assert_eq!((again.generation, again.is_new, bench.stored()), (Some(1), false, first));

        // A byte more near the beginning of the largest file, and a copy of it.
        let mut large = noise(3_000_000, 1);
        large.insert(1_000, 7);
        fs::write(source.path().join("deep/large"), &large).expect("written");
        fs::write(source.path().join("copy"), &large).expect("written");
        let sent = bench.send_tree(source.path()).await.expect("sent");
        assert_eq!(
            (sent.generation, sent.summary.changed),
            (Some(2), 1),
            "the other name is still one of this file"
        );
        let travelled = bench.stored() - first;
        assert!(travelled < 1_300_000, "{travelled} bytes for one byte more");
        bench.restore_to(target.path()).await;
        assert_eq!(picture(target.path()), picture(source.path()), "both names lead to the new content");
        assert_eq!(picture(bench.restored().await.path()), picture(source.path()));
    });
}

#[test]
fn what_is_gone_stays_unless_it_is_to_be_deleted() {
    run(async {
        let (source, bench) = (tree(), Bench::new());
        bench.send_tree(source.path()).await.expect("sent");
        let whole = picture(source.path());
        fs::set_permissions(source.path().join("deep/er"), fs::Permissions::from_mode(0o750)).expect("ours");
        fs::remove_dir_all(source.path().join("deep")).expect("removed");

        let careful = SendOptions { deletion: Deletion::AtMost(3), ..send_options() };
        let refusal = bench.send_with(source.path(), &careful).await.expect_err("too many");
        assert!(matches!(refusal, ReplicationError::TooManyDeletions { allowed: 3, .. }), "{refusal}");

        let keeping = SendOptions { deletion: Deletion::Never, ..send_options() };
        bench.send_with(source.path(), &keeping).await.expect("sent");
        // Of the folder itself the time has changed.
        let mut kept = whole;
        kept.extend(picture(source.path()).remove_entry("."));
        assert_eq!(picture(bench.restored().await.path()), kept);

        // A file where a directory was: what was in it cannot stay.
        fs::write(source.path().join("deep"), b"a file now").expect("written");
        bench.send_with(source.path(), &keeping).await.expect("sent");
        assert_eq!(picture(bench.restored().await.path()), picture(source.path()));
    });
}

#[test]
fn a_target_that_has_something_else_becomes_the_same() {
    run(async {
        let (source, bench) = (tree(), Bench::new());
        bench.send_tree(source.path()).await.expect("sent");
        let target = tempfile::tempdir().expect("a folder");
        let root = target.path();
        fs::create_dir_all(root.join("nothing/is/here")).expect("a folder where a file is to be");
        fs::write(root.join("empty"), b"a file where a folder is to be").expect("a file");
        fs::create_dir(root.join("deep")).expect("a folder");
        symlink("/etc", root.join("deep/er")).expect("a link that leads away");
        fs::write(root.join("deep/large"), noise(2_000_000, 1)).expect("a beginning");
        fs::write(root.join("too much"), b"").expect("a file");
        bench.restore_to(root).await;
        assert_eq!(picture(root), picture(source.path()));
    });
}

/// In a directory where others may make files, somebody could make the part first, as a further name of a file of ours:
/// the restore wrote into that. Or as a file that stays writable for others: they changed it once it had its name.
#[test]
fn a_part_that_somebody_else_may_have_made_is_not_written_to() {
    run(async {
        let (source, bench) = (tempfile::tempdir().expect("a folder"), Bench::new());
        let content = noise(300_000, 3);
        fs::write(source.path().join("file"), &content).expect("a file");
        bench.send_tree(source.path()).await.expect("sent");
        let (target, outside) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let part = target.path().join(format!(".sfio-part-{}", Hash::of(b"file")));
        let (other, of_all) = (outside.path().join("other"), target.path().join("file"));
        fs::write(&other, b"precious").expect("a file");
        fs::hard_link(&other, &part).expect("a further name");
        bench.restore_to(target.path()).await;
        assert_eq!(fs::read(&other).expect("it is there"), b"precious");
        assert_eq!(fs::read(&of_all).expect("it was restored"), content);
        fs::remove_file(&other).expect("it is there");

        fs::remove_file(&of_all).expect("it is there");
        fs::write(&part, &content).expect("a file with what is to be there");
        fs::set_permissions(&part, fs::Permissions::from_mode(0o666)).expect("it is ours");
        // Held open, so that its number is not given to another one.
        let held = fs::File::open(&part).expect("it is there");
        let planted = held.metadata().expect("it is open").ino();
        bench.restore_to(target.path()).await;
        let restored = fs::metadata(&of_all).expect("it was restored");
        assert_ne!(restored.ino(), planted, "whoever has it open can write to it");
    });
}

#[test]
fn a_damaged_chunk_spoils_one_file_and_is_named() {
    run(async {
        let source = tempfile::tempdir().expect("a folder");
        fs::write(source.path().join("a"), noise(50_000, 1)).expect("a file");
        fs::write(source.path().join("b"), noise(50_000, 2)).expect("a file");
        let bench = Bench::with_io_nodes(&["io1"]);
        bench.send_tree(source.path()).await.expect("sent");
        let object = bench.objects("io1").pop().expect("one object");
        assert!(bench.cluster.world().disk("io1").inner_mut().flip_bit(&object, 60_000, 3));
        let target = tempfile::tempdir().expect("a folder");
        let summary =
            bench.try_to_restore(bench.job(), target.path(), &restore_options()).await.expect("restored");
        let [problem] = &summary.problems[..] else { panic!("{:?}", summary.problems) };
        assert!(problem.to_string().starts_with("b: ") && problem.what.contains("BLAKE3"), "{problem}");
        assert!(target.path().join("a").exists() && !target.path().join("b").exists());
        // The other one was counted and announced, too.
        let counted = (summary.new, summary.files, summary.bytes, summary.damaged);
        assert_eq!(counted, (1, 1, 50_000, 1));
    });
}

/// A file with another time was called changed, though its content is the same.
#[test]
fn what_has_the_same_content_is_touched_and_not_changed() {
    run(async {
        let (source, bench) = (tempfile::tempdir().expect("a folder"), Bench::new());
        for name in ["a", "empty", "same"] {
            fs::write(source.path().join(name), vec![7; if name == "empty" { 0 } else { 50_000 }])
                .expect("a file");
        }
        let sparse = fs::File::create(source.path().join("sparse")).expect("a file");
        sparse.set_len(9_000_000).expect("a hole");
        sparse.write_all_at(&[1; 5_000], 4_000_000).expect("written");
        bench.send_tree(source.path()).await.expect("sent");
        let target = bench.restored().await;
        let touch = |folder: &Path| {
            for name in ["a", "empty", "sparse"] {
                let file = fs::File::options().write(true).open(folder.join(name)).expect("it is there");
                file.set_modified(std::time::UNIX_EPOCH).expect("ours");
            }
        };
        touch(target.path());
        let counts = |summary: &Summary| (summary.changed, summary.touched, summary.unchanged);
        let fetched = bench.try_to_restore(bench.job(), target.path(), &restore_options()).await;
        assert_eq!(counts(&fetched.expect("restored")), (0, 3, 1));
        assert_eq!(picture(target.path()), picture(source.path()));
        touch(source.path());
        let (to, from) = mpsc::channel();
        let tell = move |change: Change, path: &TreePath| {
            to.send((change, path.to_string())).expect("somebody listens");
        };
        let sent = send(&bench.job(), source.path(), &send_options(), tell).await.expect("sent");
        assert_eq!(counts(&sent.summary), (0, 3, 1));
        let touched = ["a", "empty", "sparse"].map(|name| (Change::Touched, name.to_owned()));
        assert_eq!(from.try_iter().collect::<Vec<_>>(), touched);
        let distrustful = SendOptions { distrusts_times: true, ..send_options() };
        let sent = bench.send_with(source.path(), &distrustful).await.expect("sent");
        assert_eq!((counts(&sent.summary), sent.is_new), ((0, 0, 4), false));
    });
}

/// Holes were among what is to be read, and of verifications among nothing else: a bar ended far from its end.
#[test]
fn progress_counts_what_is_read_and_ends_where_it_is_to() {
    run(async {
        let (source, bench) = (tempfile::tempdir().expect("a folder"), Bench::new());
        let sparse = fs::File::create(source.path().join("sparse")).expect("a file");
        sparse.set_len(90_000_000).expect("a hole");
        sparse.write_all_at(&noise(500_000, 1), 40_000_000).expect("written");
        fs::write(source.path().join("whole"), noise(700_000, 2)).expect("a file");
        let counts = |meter: &Meter| {
            [&meter.files_done, &meter.files, &meter.bytes_done, &meter.bytes].map(Meter::get)
        };
        let job = bench.job();
        send(&job, source.path(), &send_options(), |_, _| {}).await.expect("sent");
        let [files_done, files, done, all] = counts(&job.meter);
        assert_eq!((files_done, files, done), (2, 2, all));
        assert!((1_200_000..1_400_000).contains(&all), "{all}: a file system has whole blocks");
        // A second generation has the same chunks and two more.
        fs::write(source.path().join("another"), noise(9_000, 3)).expect("a file");
        bench.send_tree(source.path()).await.expect("sent");
        let job = bench.job();
        verify(&job, VerifyOptions::default(), |_| {}).await.expect("verified");
        assert_eq!(counts(&job.meter), [5, 5, all + 9_000, all + 9_000]);
        let target = tempfile::tempdir().expect("a folder");
        let job = bench.job();
        bench.try_to_restore(job.clone(), target.path(), &restore_options()).await.expect("restored");
        assert_eq!(counts(&job.meter), [3, 3, all + 9_000, all + 9_000]);
    });
}

/// Files of text share frames. What is behind the damage is read from the damaged place, also once that is healed; and
/// each file is whole again in all generations when it has come by, whatever of the others is still there.
#[test]
fn damage_in_a_solid_frame_is_found_and_healed_in_all_generations() {
    run(async {
        let text = |number: usize| -> String {
            (0..4_000).map(|line| format!("{} ", line * line % (500 + number))).collect()
        };
        let (source, first) =
            (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        let names = ["a", "b", "c", "d"];
        for (number, name) in names.iter().enumerate() {
            fs::write(source.path().join(name), text(number)).expect("a file");
            fs::copy(source.path().join(name), first.path().join(name)).expect("a copy");
        }
        let bench = Bench::with_io_nodes(&["io1"]);
        let options = SendOptions { compression: "zstd".parse().expect("a codec"), ..send_options() };
        let sent = bench.send_with(source.path(), &options).await.expect("sent");
        let object = bench.objects("io1").pop().expect("one object");
        let plain: u64 = (0..4).map(|number| text(number).len() as u64).sum();
        assert!(bench.stored() < plain / 4, "{sent:?}");
        // In the second file: the third begins behind a third of what is stored.
        let part = bench.stored() / 4;
        assert!(bench.cluster.world().disk("io1").inner_mut().flip_bit(&object, part + 500, 3));
        let damaged = async || {
            let mut found = Vec::new();
            verify(&bench.job(), VerifyOptions::default(), |finding| found.push(finding.clone()))
                .await
                .expect("read");
            let paths = found
                .into_iter()
                .filter_map(|finding| Some((finding.generation?, finding.path?.to_string())));
            paths.collect::<BTreeSet<_>>()
        };
        let found = damaged().await;
        assert!(!found.is_empty() && !found.contains(&(1, "a".to_owned())), "{found:?}");
        // One file has become another one: it stays lost where it was damaged.
        fs::write(source.path().join("d"), text(9)).expect("a file");
        bench.send_with(source.path(), &options).await.expect("sent");
        let left = damaged().await;
        assert!(left.iter().all(|(generation, path)| (*generation, path.as_str()) == (1, "d")), "{left:?}");
        assert_eq!(picture(bench.restored().await.path()), picture(source.path()));
        fs::copy(first.path().join("d"), source.path().join("d")).expect("it comes back");
        bench.send_with(source.path(), &options).await.expect("sent");
        assert_eq!(damaged().await, BTreeSet::new());
        for generation in [1, 3] {
            let (job, target) = (bench.job(), tempfile::tempdir().expect("a folder"));
            let reading = Reading::begin(&job).await.expect("there");
            let generation = reading.generation(Some(generation)).expect("kept");
            let manifest = reading.manifest(generation).await.expect("whole");
            let objects = reading.objects(Source::Cache);
            let wanted = Wanted { top: &generation.top, manifest: &manifest, objects };
            let summary = restore(&wanted, target.path(), &restore_options(), &job.meter, |_, _| {}).await;
            assert_eq!(summary.expect("restored").problems, []);
            for name in names {
                let of = |folder: &Path| fs::read(folder.join(name)).expect("readable");
                assert_eq!(of(target.path()), of(first.path()), "{name}");
            }
        }
    });
}

#[test]
fn patterns_choose_and_protect() {
    run(async {
        let (source, bench) = (tree(), Bench::new());
        bench.send_tree(source.path()).await.expect("sent");
        let filter = Filter::new([(true, "*.log".to_owned())]).expect("a pattern");
        fs::write(source.path().join("a.log"), b"noise").expect("a file");
        let mut told = Vec::new();
        let options = SendOptions { filter, ..send_options() };
        let (to, from) = mpsc::channel();
        let tell = move |change: Change, path: &TreePath| {
            to.send((change, path.to_string())).expect("somebody listens");
        };
        send(&bench.job(), source.path(), &options, tell).await.expect("sent");
        told.extend(from.try_iter());
        assert_eq!(told, [(Change::Touched, ".".to_owned())], "only the folder's time");
    });
}

/// With a list, or patterns, a directory that the generation does not have was removed with all that was in it.
#[test]
fn a_restore_deletes_nothing_that_does_not_take_part() {
    run(async {
        let (source, bench) = (tree(), Bench::new());
        bench.send_tree(source.path()).await.expect("sent");
        let target = tempfile::tempdir().expect("a folder");
        let root = target.path();
        fs::create_dir_all(root.join("extra/deeper")).expect("folders");
        fs::create_dir_all(root.join("build")).expect("a folder");
        for name in ["extra/a", "extra/keep.o", "extra/deeper/b", "build/c"] {
            fs::write(root.join(name), "mine").expect("a file");
        }
        let there = || {
            let names = picture(root).into_keys().map(|name| name.trim_matches('"').to_owned());
            names.filter(|name| name.starts_with("extra") || name.starts_with("build")).collect::<Vec<_>>()
        };
        let filter = Filter::new([(true, "*.o".to_owned())]).expect("a pattern");
        let some = ["extra", "deep"].map(path_of);
        bench
            .restore_with(root, &RestoreOptions { filter: filter.only(some.into()), ..restore_options() })
            .await;
        assert_eq!(there(), ["build", "build/c", "extra", "extra/keep.o"]);
        assert!(root.join("deep").exists() && !root.join("empty").exists(), "the list, and nothing else");
    });
}

/// What was in it was once deleted without a word.
#[test]
fn a_directory_in_the_place_of_a_file_stays_if_something_in_it_is_to_stay() {
    run(async {
        let (source, bench) = (tree(), Bench::new());
        bench.send_tree(source.path()).await.expect("sent");
        let target = tempfile::tempdir().expect("a folder");
        let place = target.path().join("nothing");
        fs::create_dir(&place).expect("a folder where a file is to be");
        fs::write(place.join("mine.o"), "mine").expect("a file");
        let filter = Filter::new([(true, "*.o".to_owned())]).expect("a pattern");
        let careful = RestoreOptions { deletes: false, ..restore_options() };
        let choosy = RestoreOptions { filter, ..restore_options() };
        for (options, why) in [
            (&careful, "that is not empty and only goes if what is too much is deleted (--delete)"),
            (&choosy, "something in that does not take part"),
        ] {
            let summary = bench.try_to_restore(bench.job(), target.path(), options).await.expect("the rest");
            let problems: Vec<String> = summary.problems.iter().map(ToString::to_string).collect();
            assert_eq!(problems, [format!("nothing: a directory is in its place, and {why}")]);
            assert_eq!(fs::read(place.join("mine.o")).expect("it is there"), b"mine");
        }
        fs::remove_file(place.join("mine.o")).expect("mine");
        bench.restore_with(target.path(), &careful).await;
        assert!(place.is_file());
    });
}

/// Such a name was linked to whatever the target had under the other name, or was a problem.
#[test]
fn a_name_is_a_file_of_its_own_where_the_first_name_does_not_take_part() {
    run(async {
        let (source, bench) = (tempfile::tempdir().expect("a folder"), Bench::new());
        fs::write(source.path().join("a"), "ours").expect("a file");
        for name in ["b", "c"] {
            fs::hard_link(source.path().join("a"), source.path().join(name)).expect("a link");
        }
        bench.send_tree(source.path()).await.expect("sent");
        let target = tempfile::tempdir().expect("a folder");
        fs::write(target.path().join("a"), "something else").expect("a file");
        let options = RestoreOptions {
            filter: Filter::default().only(["b", "c"].map(path_of).into()),
            ..restore_options()
        };
        bench.restore_with(target.path(), &options).await;
        let read = |name| fs::read_to_string(target.path().join(name)).expect("a file");
        assert_eq!(["a", "b", "c"].map(read), ["something else", "ours", "ours"]);
        let number = |name| fs::metadata(target.path().join(name)).expect("it is there").ino();
        assert!(number("b") == number("c"), "they are one file still");
        bench.restore_with(target.path(), &options).await;
    });
}

/// Nothing of the list is there any more, which was taken for a mistake.
#[test]
fn what_is_listed_and_gone_is_deleted() {
    run(async {
        let (source, bench) = (tree(), Bench::new());
        bench.send_tree(source.path()).await.expect("sent");
        fs::remove_dir_all(source.path().join("deep")).expect("ours");
        let listed =
            |name| SendOptions { filter: Filter::default().only([path_of(name)].into()), ..send_options() };
        let sent = bench.send_with(source.path(), &listed("deep")).await.expect("sent");
        assert!(sent.is_new && sent.summary.deleted > 1 && sent.summary.problems.is_empty(), "{sent:?}");
        assert!(!bench.restored().await.path().join("deep").exists());
        let typo = bench.send_with(source.path(), &listed("deeep")).await.expect_err("there never was one");
        assert!(matches!(typo, ReplicationError::NothingTakesPart(_)), "{typo}");
    });
}

/// Somebody who watches a tree remembers the directory of the data set that it goes to.
#[test]
fn a_directory_does_not_bring_back_a_data_set_that_was_removed() {
    run(async {
        let (source, bench) = (tree(), Bench::new());
        bench.send_tree(source.path()).await.expect("sent");
        let inside = SendOptions { at: Some(path_of("deep")), ..send_options() };
        bench.send_with(source.path(), &inside).await.expect("sent");
        remove(&bench.job()).await.expect("removed");
        let refusal = bench.send_with(source.path(), &inside).await.expect_err("there is no data set");
        assert!(matches!(refusal, ReplicationError::NoDataSet), "{refusal}");
    });
}

/// Owners need root; extended attributes a file system that has them.
#[test]
fn owners_and_extended_attributes_come_back_where_they_can_be_set() {
    run(async {
        use rustix::fs::{XattrFlags, getxattr, setxattr};
        let (source, bench) = (tree(), Bench::new());
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
        bench.send_with(source.path(), &options).await.expect("sent");
        let target = tempfile::tempdir().expect("a folder");
        let options = RestoreOptions { attributes: Attributes::Kept, owners: is_root, ..restore_options() };
        bench.restore_with(target.path(), &options).await;
        // One that is gone from the source goes from the target, too.
        rustix::fs::removexattr(source.path().join("deep/text"), "user.colour").expect("it was set");
        set(&source.path().join("deep/large"), b"blue").expect("there are attributes");
        let again = SendOptions { attributes: Attributes::Kept, ..send_options() };
        bench.send_with(source.path(), &again).await.expect("sent");
        let value = |path: &str| {
            let mut value = vec![0; 64];
            let length =
                getxattr(target.path().join(path), "user.colour", value.as_mut_slice()).expect("it is there");
            value.truncate(length);
            value
        };
        assert_eq!((value("."), value("deep/text")), (b"green".to_vec(), b"red\n\0".to_vec()));
        bench.restore_with(target.path(), &options).await;
        assert_eq!(value("deep/large"), b"blue");
        assert!(getxattr(target.path().join("deep/text"), "user.colour", &mut [0_u8; 64][..]).is_err());
        let owner = |root: &Path, path: &str| {
            let metadata = root.join(path).symlink_metadata().expect("it is there");
            (metadata.uid(), metadata.gid())
        };
        for path in [".", "deep/link", "deep/text", "deep/large"] {
            assert_eq!(owner(target.path(), path), owner(source.path(), path), "{path}");
        }
    });
}

/// What the I/O nodes keep for readers after the last sign of life of one.
const GRACE: Duration = Duration::from_secs(3_600);

#[test]
fn a_removed_data_set_is_gone_its_bytes_follow_and_it_may_come_back() {
    run(async {
        let (source, bench) = (tree(), Bench::new());
        bench.send_tree(source.path()).await.expect("sent");
        fs::write(source.path().join("second"), noise(100_000, 50)).expect("a file");
        bench.send_tree(source.path()).await.expect("sent");
        let job = bench.job();
        let reading = Reading::begin(&job).await.expect("it is there");
        let generation = reading.generation(None).expect("it is there").clone();

        assert_eq!(
            remove(&bench.job()).await.expect("removed"),
            2,
            "of two runs something is kept for readers"
        );
        let refusal = bench.try_to_restore(bench.job(), &source.path().join("x"), &restore_options()).await;
        assert!(matches!(refusal, Err(ReplicationError::NoDataSet)), "{refusal:?}");
        let refusal = forget(&bench.job(), &[1]).await;
        assert!(matches!(refusal, Err(ReplicationError::NoDataSet)), "{refusal:?}");

        // Somebody who had begun to read before reads to the end.
        let manifest = reading.manifest(&generation).await.expect("its bytes are kept");
        let objects = reading.objects(Source::Disk);
        let wanted = Wanted { top: &generation.top, manifest: &manifest, objects };
        let target = tempfile::tempdir().expect("a folder");
        let summary = restore(&wanted, target.path(), &restore_options(), &job.meter, |_, _| {}).await;
        assert_eq!(summary.expect("restored").problems, []);
        assert_eq!(picture(target.path()), picture(source.path()));
        drop((wanted, reading, job));

        tokio::time::sleep(GRACE + Duration::from_secs(60)).await;
        assert_eq!(remove(&bench.job()).await.expect("again"), 0);
        assert_eq!((bench.stored(), bench.objects("io1")), (0, vec![]));
        assert_eq!(remove(&bench.job()).await.expect("again"), 0, "there is nothing left to do");

        // An empty tree is one, although it has nothing that the removed data set had not.
        let empty = tempfile::tempdir().expect("a folder");
        let sent = bench.send_tree(empty.path()).await.expect("sent");
        assert_eq!((sent.generation, sent.is_new), (Some(3), true), "its numbers go on");
        let sent = bench.send_tree(source.path()).await.expect("sent");
        assert_eq!((sent.generation, sent.is_new), (Some(4), true));
        assert_eq!(picture(bench.restored().await.path()), picture(source.path()));
    });
}

/// A run that was killed left bytes that no record names.
#[test]
fn with_a_data_set_goes_what_killed_runs_have_left() {
    run(async {
        let (source, bench) = (tree(), Bench::new());
        bench.send_tree(source.path()).await.expect("sent");
        fs::write(source.path().join("second"), noise(1_000_000, 50)).expect("a file");
        bench.power_fails_after(48);
        send(&bench.impatient_job(), source.path(), &send_options(), |_, _| {}).await.expect_err("no power");
        bench.cluster.world().forget_plans();
        assert_eq!(bench.objects("io1").len(), 2, "of two runs there is something");

        // The run may still live, as far as the I/O nodes know, until its session is over.
        tokio::time::sleep(GRACE).await;
        remove(&bench.job()).await.expect("removed");
        tokio::time::sleep(GRACE + Duration::from_secs(60)).await;
        assert_eq!(remove(&bench.job()).await.expect("again"), 0);
        assert_eq!((bench.stored(), bench.objects("io1")), (0, vec![]));
    });
}

/// A command that was killed before it could publish left the record that it had staged, for good.
#[test]
fn with_a_data_set_goes_what_killed_commands_have_staged() {
    run(async {
        let (source, bench) = (tree(), Bench::new());
        bench.send_tree(source.path()).await.expect("sent");
        bench.stage("io1", RunId([8; 16]), &Bytes::from_static(b"a record")).await;
        assert!(bench.has_staged("io1"));
        // Nobody has a session there any more.
        bench.cluster.world().lose_power("io1");
        bench.cluster.world().serve("io1").expect("its own export root");
        remove(&bench.job()).await.expect("removed");
        tokio::time::sleep(GRACE + Duration::from_secs(60)).await;
        assert_eq!(remove(&bench.job()).await.expect("again"), 0);
        assert!(!bench.has_staged("io1"));
    });
}

/// A first run that filled a disk blocked the whole site: nothing that could be forgotten named what it had sent.
#[test]
fn what_a_run_has_left_that_filled_a_disk_is_removed_at_once() {
    run(async {
        let (source, bench) = (tree(), Bench::new());
        let nothing = remove_unfinished(&bench.job()).await;
        assert!(matches!(nothing, Err(ReplicationError::NoDataSet)), "{nothing:?}");
        let fill = async || {
            bench.cluster.world().disk("io1").inner_mut().set_capacity(600_000);
            let full = send(&bench.impatient_job(), source.path(), &send_options(), |_, _| {}).await;
            bench.cluster.world().disk("io1").inner_mut().set_capacity(u64::MAX);
            assert_eq!(full.expect_err("it is full").kind(), FailureKind::NoSpace);
            // What a process still writes is not touched: this one ends.
            let kept = remove_unfinished(&bench.job()).await.map_or(0, |(runs, _)| runs);
            assert_eq!(kept, 0, "it may go on, as far as the I/O nodes know");
            bench.io_nodes.iter().for_each(|it| bench.cluster.world().break_session("client", it));
        };
        fs::write(source.path().join("second"), noise(2_000_000, 50)).expect("a file");
        fill().await;
        assert_ne!(bench.stored(), 0);
        assert_eq!(remove_unfinished(&bench.job()).await.expect("removed"), (1, 0));
        assert_eq!((bench.stored(), bench.objects("io1")), (0, vec![]));
        assert_eq!(remove_unfinished(&bench.job()).await.expect("there is nothing left to do"), (0, 0));

        // What was published is not touched, and what another run has dropped stays for readers.
        bench.send_tree(source.path()).await.expect("sent");
        let published = bench.stored();
        fs::write(source.path().join("third"), noise(2_000_000, 51)).expect("a file");
        fill().await;
        assert_ne!(bench.stored(), published);
        assert_eq!(remove_unfinished(&bench.job()).await.expect("removed"), (1, 0));
        assert_eq!(bench.stored(), published);
        assert!(remove(&bench.job()).await.expect("removed") > 0);
        assert_eq!(bench.stored(), published);
    });
}

/// Behind the first place that was missing all was sent again, and called damaged.
#[test]
fn what_an_io_node_has_lost_is_mended_and_nothing_else() {
    run(async {
        let source = tempfile::tempdir().expect("a folder");
        for number in 0..200 {
            fs::write(source.path().join(format!("{number:03}")), noise(3_000, number)).expect("a file");
        }
        for is_verified in [false, true] {
            let bench = Bench::with_io_nodes(&["io1", "io2"]);
            let memory = tempfile::tempdir().expect("a folder");
            let job = || Job { cache: ManifestCache::in_folder(memory.path()), ..bench.job() };
            let send = async || send(&job(), source.path(), &send_options(), |_, _| {}).await.expect("sent");
            send().await;
            let object = bench.objects("io2").pop().expect("one object");
            let lost = DiskAction::Remove { durable: true };
            bench.cluster.world().disk("io2").inner_mut().perform(&object, &lost).expect("it is there");
            // Runs of 64 KiB are there and are not, in turn, so half of the files are damaged.
            let target = tempfile::tempdir().expect("a folder");
            let summary = bench.try_to_restore(job(), target.path(), &restore_options()).await;
            let damaged = summary.expect("restored").damaged;
            assert!((80..130).contains(&damaged), "{damaged}");
            if is_verified {
                let mut paths = BTreeSet::new();
                let note = |finding: &Finding| paths.extend(finding.path.clone());
                verify(&job(), VerifyOptions::default(), note).await.expect("verified");
                assert_eq!(paths.len() as u64, damaged);
            }
            assert_eq!(send().await.summary.mended, damaged, "verified: {is_verified}");
            assert_eq!(picture(bench.restored().await.path()), picture(source.path()));
        }
    });
}

/// A lost part stays lost when its chunks were sent again to another place: `repair` told of it for ever.
#[test]
fn repair_tells_of_no_loss_that_was_mended() {
    run(async {
        let (source, bench) =
            (tempfile::tempdir().expect("a folder"), Bench::with_io_nodes(&["io1", "io2", "io3"]));
        fs::write(source.path().join("file"), noise(1_000_000, 1)).expect("a file");
        bench.send_tree(source.path()).await.expect("sent");
        let object = bench.objects("io3").pop().expect("one object");
        bench.lose("io3", &object);
        let losses = async || {
            let repaired = repair(&bench.job()).await.expect("there is nothing to put back");
            assert_eq!(repaired.lost, [""; 0]);
            repaired.lost_parts
        };
        assert_eq!(losses().await, BTreeMap::from([("io3".to_owned(), 1)]));
        assert!(bench.send_tree(source.path()).await.expect("sent").mended.chunks > 0);
        assert_eq!(losses().await, BTreeMap::new());
        let note = |finding: &Finding| panic!("{finding:?}");
        verify(&bench.job(), VerifyOptions::default(), note).await.expect("verified");
    });
}

/// A member that could only append could say that what others had sent was elsewhere now, where it was not: it was lost
/// to all readers, although its bytes were there.
#[test]
fn a_healing_that_is_none_takes_nothing_away() {
    for leads_behind_the_end in [false, true] {
        run(async {
            let (source, bench) = (tree(), Bench::new());
            bench.send_tree(source.path()).await.expect("sent");
            fs::write(source.path().join("new"), noise(900_000, 77)).expect("a file");
            bench.send_tree(source.path()).await.expect("sent");
            let whole = picture(source.path());
            bench.forge_healing(leads_behind_the_end).await;
            assert_eq!(picture(bench.restored().await.path()), whole);
            let verified = async || {
                let note = |finding: &Finding| panic!("{finding:?}");
                verify(&bench.job(), VerifyOptions::default(), note).await.expect("verified").recorded
            };
            let recorded = verified().await;
            assert!(!leads_behind_the_end || recorded == Some(4), "the next run is to send it again");
            assert_eq!(repair(&bench.job()).await.expect("nothing to repair").lost_parts, BTreeMap::new());
            roll_back(&bench.job(), 1).await.expect("it can be read");
            roll_back(&bench.job(), 2).await.expect("it can be read");
            if leads_behind_the_end {
                let mended = bench.send_tree(source.path()).await.expect("sent").mended;
                // Nobody has the first generation's manifest any more: that is read from where it was.
                assert!(mended.chunks > 0 && mended.left <= 1, "{mended:?}");
                assert_eq!(verified().await, None);
            }
            assert_eq!(picture(bench.restored().await.path()), whole);
        });
    }
}

/// The data set knew of the damage, and the generation became the current one without a word.
#[test]
fn a_generation_without_manifest_is_not_rolled_back_to_and_damaged_files_are_told_of() {
    run(async {
        let (source, bench) = (tempfile::tempdir().expect("a folder"), Bench::with_io_nodes(&["io1"]));
        fs::write(source.path().join("a"), noise(50_000, 1)).expect("a file");
        bench.send_tree(source.path()).await.expect("sent");
        let first = bench.objects("io1").pop().expect("one object");
        fs::write(source.path().join("a"), noise(50_000, 2)).expect("a file");
        bench.send_tree(source.path()).await.expect("sent");
        let flip = |at| assert!(bench.cluster.world().disk("io1").inner_mut().flip_bit(&first, at, 3));
        let verified =
            async || verify(&bench.job(), VerifyOptions::default(), |_| {}).await.expect("verified");

        flip(10_000);
        assert_eq!(verified().await.findings, 1);
        let rolled_back = roll_back(&bench.job(), 1).await.expect("it can be read");
        assert_eq!((rolled_back.damaged, rolled_back.first), (1, Some(path_of("a"))));
        assert_eq!(roll_back(&bench.job(), 2).await.expect("it is whole").damaged, 0);

        // The manifest lies behind the file.
        flip(50_010);
        assert!(verified().await.findings > 0);
        let refusal = roll_back(&bench.job(), 1).await.expect_err("nothing of it can be read");
        assert_eq!(refusal.kind(), FailureKind::Integrity);
        assert!(
            refusal.to_string().starts_with("the manifest of generation 1 cannot be read: object "),
            "{refusal}"
        );
        assert_eq!(Reading::begin(&bench.job()).await.expect("it is there").record.current, 2);
        let reading = Reading::begin(&bench.job()).await.expect("it is there");
        let unread = reading.manifest(reading.generation(Some(1)).expect("it is kept")).await;
        let words = unread.expect_err("it is damaged").to_string();
        assert!(words.starts_with("the manifest of generation 1 cannot be read: object "), "{words}");
    });
}

/// A lost disk takes manifests, too. What is lost of them is told as lost parts are: no record is beyond repair.
#[test]
fn a_lost_manifest_is_no_lost_record() {
    run(async {
        let (source, bench) = (tempfile::tempdir().expect("a folder"), Bench::with_io_nodes(&["io1"]));
        fs::write(source.path().join("file"), noise(100_000, 1)).expect("a file");
        bench.send_tree(source.path()).await.expect("sent");
        let object = bench.objects("io1").pop().expect("one object");
        bench.lose("io1", &object);
        let repaired = repair(&bench.job()).await.expect("there is nothing to put back");
        let lost_parts = BTreeMap::from([("io1".to_owned(), 1)]);
        assert_eq!((repaired.lost, repaired.lost_parts), (Vec::new(), lost_parts));
    });
}

/// Only the newest record was looked at: of the others each could be lost or damaged, and all was as it was stored.
#[test]
fn verify_names_every_record_that_is_lost_or_damaged() {
    run(async {
        let (source, bench) =
            (tempfile::tempdir().expect("a folder"), Bench::with_io_nodes(&["io1", "io2", "io3"]));
        for content in 0..20 {
            fs::write(source.path().join("file"), [content]).expect("a file");
            bench.send_tree(source.path()).await.expect("sent");
        }
        let found = async || {
            let mut found = Vec::new();
            let note = |finding: &Finding| found.push(finding.what.clone());
            let verified = verify(&bench.job(), VerifyOptions::default(), note).await.expect("verified");
            assert_eq!(verified.findings, found.len() as u64);
            found
        };
        assert_eq!(found().await, [""; 0]);

        bench.lose("io1", &record(2));
        bench.lose("io1", &record(3));
        bench.lose("io3", &record(20));
        assert!(bench.cluster.world().disk("io2").inner_mut().flip_bit(&record(2), 99, 3));
        assert_eq!(
            found().await,
            [
                "io1: records 2 to 3 are lost; `sfio repair` puts them back",
                "io2: record 2 is damaged; `sfio repair` puts it back",
                "io3: record 20 is lost; `sfio repair` puts it back",
            ]
        );
        let repaired = repair(&bench.job()).await.expect("repaired");
        assert_eq!(repaired.records.values().sum::<u64>(), 4, "{repaired:?}");
        assert_eq!(found().await, [""; 0]);

        bench.io_nodes.iter().for_each(|io_node| bench.lose(io_node, &record(1)));
        assert_eq!(found().await, ["record 1: no I/O node has it whole"]);
    });
}

/// Where the member that publishes does not come so far the next one brings the record: nothing is lost.
#[test]
fn a_record_that_is_on_its_way_is_not_lost() {
    run(async {
        let (source, bench) = (tempfile::tempdir().expect("a folder"), Bench::new());
        fs::write(source.path().join("file"), "one").expect("a file");
        bench.send_tree(source.path()).await.expect("sent");
        fs::write(source.path().join("file"), "two").expect("a file");
        for operations in 1.. {
            bench.cluster.world().after_operations(operations, |world| world.lose_power("io2"));
            let sent = send(&bench.impatient_job(), source.path(), &send_options(), |_, _| {}).await;
            bench.cluster.world().forget_plans();
            bench.cluster.world().serve("io2").expect("its own export root");
            match sent {
                Err(ReplicationError::Halfway { .. }) => break,
                sent => assert!(sent.is_err(), "a power failure is never between the two I/O nodes"),
            }
        }
        let note = |finding: &Finding| panic!("{finding:?}");
        verify(&bench.job(), VerifyOptions::default(), note).await.expect("verified");
    });
}

/// Each of the files that were left was tried, and told of in a line.
#[test]
fn a_restore_ends_at_the_first_file_that_has_no_room() {
    run(async {
        let (source, bench) = (tempfile::tempdir().expect("a folder"), Bench::new());
        for number in 0..50 {
            fs::write(source.path().join(format!("{number:02}")), noise(20_000, number)).expect("a file");
        }
        bench.send_tree(source.path()).await.expect("sent");
        let target = tempfile::tempdir().expect("a folder");
        let mount = |arguments: &[&str]| {
            let mounted = std::process::Command::new("mount").args(arguments).arg(target.path()).output();
            mounted.is_ok_and(|output| output.status.success())
        };
        if !mount(&["-t", "tmpfs", "-o", "size=256k", "tmpfs"]) {
            // Only a superuser has a disk that is full at will.
            return;
        }
        fs::write(target.path().join("too much"), noise(30_000, 99)).expect("a file");
        let restored = bench.try_to_restore(bench.job(), target.path(), &restore_options()).await;
        let summary = restored.expect("some of it is there");
        assert_eq!((summary.problems.len(), summary.without_space), (1, 1), "{:?}", summary.problems);
        assert!(target.path().join("05").exists(), "what had room is there");
        assert!(!target.path().join("too much").exists(), "what is to go has gone");
        assert!(mount(&["-o", "remount,size=4m"]));
        let restored = bench.try_to_restore(bench.job(), target.path(), &restore_options()).await;
        assert_eq!(restored.expect("there is room").problems, []);
        assert_eq!(picture(target.path()), picture(source.path()));
        std::process::Command::new("umount").arg(target.path()).status().expect("it is mounted");
    });
}

/// A further name of a damaged file was "No such file or directory", or became one of what had the first name before.
#[test]
fn a_further_name_of_a_damaged_file_is_left_out_with_it() {
    run(async {
        let (source, bench) = (tempfile::tempdir().expect("a folder"), Bench::with_io_nodes(&["io1"]));
        fs::write(source.path().join("a"), noise(50_000, 1)).expect("a file");
        fs::hard_link(source.path().join("a"), source.path().join("b")).expect("a further name");
        bench.send_tree(source.path()).await.expect("sent");
        let object = bench.objects("io1").pop().expect("one object");
        assert!(bench.cluster.world().disk("io1").inner_mut().flip_bit(&object, 10_000, 3));
        for has_old in [false, true] {
            let target = tempfile::tempdir().expect("a folder");
            if has_old {
                fs::write(target.path().join("a"), "an older one").expect("a file");
            }
            let restored = bench.try_to_restore(bench.job(), target.path(), &restore_options()).await;
            let summary = restored.expect("the rest is restored");
            assert_eq!((summary.problems.len(), summary.damaged), (2, 2), "{:?}", summary.problems);
            let words = summary.problems[1].to_string();
            assert!(words.starts_with("b: another name of a, which is left out: object"), "{words}");
            assert!(!target.path().join("b").exists(), "it would be another file");
        }
    });
}

/// `repair` advised to give the command that had just been given.
#[test]
fn repair_does_not_advise_to_repair() {
    run(async {
        let (source, bench) = (tempfile::tempdir().expect("a folder"), Bench::new());
        fs::write(source.path().join("file"), "something").expect("a file");
        bench.send_tree(source.path()).await.expect("sent");
        for io_node in &bench.io_nodes {
            assert!(bench.cluster.world().disk(io_node).inner_mut().flip_bit(&record(1), 99, 3));
        }
        let error = repair(&bench.job()).await.expect_err("there is nothing to put back");
        assert_eq!(error.kind(), FailureKind::Integrity);
        assert_eq!(
            error.to_string(),
            "record 1: no I/O node has it whole: nothing can be put back; `sfio forget --all` gives the data set up, \
             and its name is free"
        );
    });
}

/// `repair` made the machine forget what it had seen, and ended with 0: from then on every command took the older
/// records for all that there ever was.
#[test]
fn repair_does_not_make_a_machine_forget_what_it_has_seen() {
    for all_are_lost in [false, true] {
        run(async {
            let (source, cache) =
                (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
            let bench = Bench::new();
            let job = |accepts_older| {
                let cache = ManifestCache::in_folder(cache.path());
                Job { cache, accepts_older, ..bench.job() }
            };
            for content in 1..3 {
                fs::write(source.path().join("file"), noise(1_000, content)).expect("a file");
                bench.send_tree(source.path()).await.expect("sent");
            }
            job(false).open().await.expect("it has seen record 2");
            for io_node in &bench.io_nodes {
                (if all_are_lost { 1 } else { 2 }..3).for_each(|number| bench.lose(io_node, &record(number)));
            }
            for _ in 0..2 {
                let refusal = repair(&job(false)).await.expect_err("it has gone back");
                assert!(matches!(refusal, ReplicationError::WentBack { seen: 2, .. }), "{refusal}");
            }
            if !all_are_lost {
                repair(&job(true)).await.expect("the older record is accepted");
                job(false).open().await.expect("it is what was seen last");
            }
        });
    }
}

/// They took away each other's parts: thousands of files were "No such file or directory".
#[test]
fn two_restores_to_one_directory_are_one_too_many() {
    run(async {
        let (source, bench) = (tree(), Bench::new());
        bench.send_tree(source.path()).await.expect("sent");
        for is_there in [true, false] {
            let folder = tempfile::tempdir().expect("a folder");
            let target = folder.path().join("target");
            if is_there {
                fs::create_dir(&target).expect("a folder");
            }
            let options = restore_options();
            let restored = async || bench.try_to_restore(bench.job(), &target, &options).await;
            let (one, other) = tokio::join!(restored(), restored());
            let (done, refused) = if one.is_ok() { (one, other) } else { (other, one) };
            assert_eq!(done.expect("restored").problems, []);
            let refusal = refused.expect_err("the other one is at it");
            assert_eq!(refusal.kind(), FailureKind::Locked);
            assert!(
                refusal.to_string().ends_with("another run is fetching into this directory"),
                "{refusal}"
            );
            assert_eq!(picture(&target), picture(source.path()));
        }
    });
}

/// One record was damaged on one I/O node, and the other one lost its disk: no command could do anything any more.
#[test]
fn a_data_set_whose_records_are_lost_for_good_can_be_given_up() {
    for loses_newest in [false, true] {
        run(async {
            let (source, bench) = (tempfile::tempdir().expect("a folder"), Bench::new());
            for content in 1..5 {
                fs::write(source.path().join("file"), noise(100_000, content)).expect("a file");
                bench.send_tree(source.path()).await.expect("sent");
            }
            let damaged = record(if loses_newest { 4 } else { 2 });
            assert!(bench.cluster.world().disk("io1").inner_mut().flip_bit(&damaged, 99, 3));
            bench.cluster.world().stop_serving("io2");
            bench.cluster.world().empty_disk("io2");
            bench.cluster.world().forget_root("io2");
            bench.cluster.world().serve("io2").expect("a new export root");

            if !loses_newest {
                let repaired = repair(&bench.job()).await.expect("the newest one is whole");
                assert!(
                    repaired.lost.contains(&"record 2: no I/O node has it whole".to_owned()),
                    "{repaired:?}"
                );
            }
            let refusal = bench.send_tree(source.path()).await.expect_err("records are lost");
            assert_eq!(refusal.kind(), FailureKind::Integrity);

            remove(&bench.job()).await.expect("given up");
            assert_eq!(repair(&bench.job()).await.expect("nobody needs what was before").lost, [""; 0]);
            let view = bench.job().open().await.expect("its records can be read");
            assert!(view.existing().is_err() && view.disagreements.is_empty(), "{view:?}");

            let sent = bench.send_tree(source.path()).await.expect("the name is free");
            assert_eq!((sent.generation, sent.is_new), (Some(5), true), "numbers go on");
            assert_eq!(picture(bench.restored().await.path()), picture(source.path()));
            let note = |finding: &Finding| panic!("{finding:?}");
            verify(&bench.job(), VerifyOptions::default(), note).await.expect("verified");
            assert_eq!(repair(&bench.job()).await.expect("nothing is to be repaired").lost, [""; 0]);
        });
    }
}

/// What can be put back is put back first: a removal is not the way to go on.
#[test]
fn a_data_set_that_can_be_repaired_is_not_given_up() {
    run(async {
        let (source, bench) = (tempfile::tempdir().expect("a folder"), Bench::new());
        for content in 1..5 {
            fs::write(source.path().join("file"), noise(100_000, content)).expect("a file");
            bench.send_tree(source.path()).await.expect("sent");
        }
        (3..5).for_each(|number| bench.lose("io2", &record(number)));
        let refusal = remove(&bench.job()).await.expect_err("io2 has lost records");
        assert!(matches!(refusal, ReplicationError::Disagreement(_)), "{refusal}");
        assert_eq!(repair(&bench.job()).await.expect("repaired").records.values().sum::<u64>(), 2);
        remove(&bench.job()).await.expect("removed");
    });
}

#[test]
fn a_site_lists_its_data_sets_wherever_they_are() {
    run(async {
        let (source, bench) = (tempfile::tempdir().expect("a folder"), Bench::new());
        fs::write(source.path().join("x"), b"something").expect("a file");
        let names = ["set", "trees/a", "trees/a/inner", "trees/deep/er/b"];
        for name in names {
            send(&bench.job_of(name), source.path(), &send_options(), |_, _| {}).await.expect("sent");
        }
        let found = async |top: SubfilePath| {
            let patience = Arc::new(Patience::new(Duration::from_secs(60)));
            let catalog = Catalog::look_through(bench.client.client(), &bench.site(), &top, &patience).await;
            let catalog = catalog.expect("it may look everywhere");
            assert_eq!(catalog.closed, BTreeSet::new());
            catalog.datasets.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(found(SubfilePath::root()).await, names);
        assert_eq!(found(SubfilePath::new("trees").expect("a path")).await, names[1..]);
        assert_eq!(found(SubfilePath::new("nowhere").expect("a path")).await, [""; 0]);

        remove(&bench.job_of("trees/a")).await.expect("removed");
        let jobs = found(SubfilePath::root()).await.into_iter().map(|name| bench.job_of(&name));
        let views = open_all(jobs).await;
        let is_there =
            |view: &Result<View, ReplicationError>| view.as_ref().expect("opened").existing().is_ok();
        assert_eq!(views.values().map(is_there).collect::<Vec<_>>(), [true, false, true, true]);
    });
}

/// Whose a journal is tells its beginning. Those of other members were read whole once, up to 256 MiB of them in all,
/// and what they took was taken from this member's own.
#[test]
fn of_a_journal_that_is_not_ours_the_beginning_is_read_and_no_more() {
    let source = tempfile::tempdir().expect("a folder");
    fs::write(source.path().join("x"), b"something").expect("written");
    let operations = |length: usize| {
        run(async {
            let bench = Bench::new();
            bench.send_tree(source.path()).await.expect("sent");
            let journal = dataset().journal(RunId([9; 16]));
            bench.write_new("io1", &journal, &Bytes::from(noise(length, 3))).await;
            fs::write(source.path().join("x"), length.to_string()).expect("written");
            bench.operations_of_sending(source.path()).await
        })
    };
    let (short, long) = (operations(1 << 10), operations(32 << 20));
    assert!(long < short + 16, "{long} operations instead of {short}");
}

/// The power of all I/O nodes fails at one operation after the other. Whatever of the unsynced writes survives, the
/// current generation is the old or the new one, whole; and the next run finishes the work without sending again what
/// the journal has.
#[test]
fn wherever_the_power_fails_there_is_one_whole_generation() {
    let (old_tree, new_tree) = (tree(), tree());
    fs::write(new_tree.path().join("deep/large"), noise(4_000_000, 77)).expect("written");
    fs::write(new_tree.path().join("new"), noise(1_500_000, 78)).expect("written");
    fs::remove_file(new_tree.path().join("nothing")).expect("removed");
    let (old_tree, new_tree) = (old_tree.path(), new_tree.path());
    let (before, after) = (picture(old_tree), picture(new_tree));
    let undisturbed = run(async {
        let bench = Bench::new();
        bench.send_tree(old_tree).await.expect("sent");
        bench.operations_of_sending(new_tree).await
    });
    // Some forty moments suffice for each kind of operation to fail; all of them take minutes without optimisation.
    let step = if cfg!(debug_assertions) { undisturbed / 40 } else { 1 };
    let mut failures = 0;
    for operations in (1..undisturbed).step_by(step.max(1) as usize) {
        failures += u64::from(run(async {
            let bench = Bench::new();
            bench.send_tree(old_tree).await.expect("sent");
            bench.power_fails_after(operations);
            let job = bench.impatient_job();
            let outcome = send(&job, new_tree, &send_options(), |_, _| {}).await;
            bench.cluster.world().forget_plans();
            let found = picture(bench.restored().await.path());
            assert!(found == before || found == after, "after {operations} operations there is a mixture");
            assert!(outcome.is_err() || found == after, "after {operations}: it was acknowledged");
            let job = bench.job();
            let sent = send(&job, new_tree, &send_options(), |_, _| {}).await.expect("sent at last");
            assert_eq!(picture(bench.restored().await.path()), after, "after {operations} operations");
            let travelled = Meter::get(&job.meter.moved) + sent.resumed_bytes;
            assert!(travelled < 5_900_000, "{travelled} after {operations}; {sent:?}");
            outcome.is_err()
        }));
    }
    assert!(failures > 10, "{failures} operations");
}

/// What a small run stores is one write, and two of three I/O nodes get none of its bytes: they have empty parts of its
/// object. A power loss once took such a part's name, and the I/O node refused every record until a repair.
#[test]
fn a_small_run_needs_no_repair_whichever_io_node_loses_its_power() {
    let source = tempfile::tempdir().expect("a folder");
    fs::write(source.path().join("x"), b"something").expect("written");
    let whole = picture(source.path());
    let io_nodes = ["io1", "io2", "io3"];
    let mut disturbed = 0;
    for (io_node, seed) in io_nodes.into_iter().flat_map(|io_node| (0..3).map(move |seed| (io_node, seed))) {
        let undisturbed =
            run(async { Bench::by_chance(&io_nodes, seed).operations_of_sending(source.path()).await });
        for operations in 1..=undisturbed {
            run(async {
                let bench = Bench::by_chance(&io_nodes, seed);
                bench.cluster.world().after_operations(operations, move |world| {
                    world.lose_power(io_node);
                    world.serve(io_node).expect("its own export root");
                });
                let first = send(&bench.impatient_job(), source.path(), &send_options(), |_, _| {}).await;
                bench.cluster.world().forget_plans();
                let place = format!("{io_node}, after {operations} operations, seed {seed}");
                if let Err(error) = first {
                    assert_eq!(error.kind(), FailureKind::Network, "{error}: {place}");
                    disturbed += 1;
                }
                bench.send_tree(source.path()).await.unwrap_or_else(|error| panic!("{error}: {place}"));
                assert_eq!(picture(bench.restored().await.path()), whole, "{place}");
            });
        }
    }
    assert!(disturbed > 100, "{disturbed} runs were disturbed");
}

/// The process of an I/O node is killed at one operation after the other, and started again. Its machine has in memory
/// what the process had done; a record may have its name there, and not on the disk. Then a run ends well, or finds
/// that there is nothing to do, and only then the power fails. A record that could be read once counted as published.
#[test]
fn what_is_acknowledged_after_a_kill_outlives_the_power_of_the_machine() {
    let source = tempfile::tempdir().expect("a folder");
    fs::write(source.path().join("x"), b"something").expect("written");
    let whole = picture(source.path());
    let (mut killed, seeds) = (0, if cfg!(debug_assertions) { 3 } else { 40 });
    for io_nodes in [&["io1"][..], &["io1", "io2"]] {
        for (operations, seed) in
            (1..40).flat_map(|operations| (0..seeds).map(move |seed| (operations, seed)))
        {
            run(async {
                let bench = Bench::by_chance(io_nodes, seed);
                bench.cluster.world().after_operations(operations, |world| {
                    world.stop_serving("io1");
                    world.serve("io1").expect("its own export root");
                });
                let job = if seed % 2 == 0 { bench.job() } else { bench.impatient_job() };
                let first = send(&job, source.path(), &send_options(), |_, _| {}).await;
                bench.cluster.world().forget_plans();
                killed += u64::from(first.is_err());
                if first.is_err() {
                    bench.send_tree(source.path()).await.expect("sent at last");
                }
                bench.power_fails_after(0);
                tokio::time::sleep(Duration::from_secs(1)).await;
                let found = picture(bench.restored().await.path());
                assert_eq!(found, whole, "{io_nodes:?}, after {operations} operations, seed {seed}");
            });
        }
    }
    assert!(killed > 10, "{killed} runs failed");
}

/// Paths of 20,000 bytes cannot be given to the system, which takes 4,096.
#[test]
fn a_tree_may_be_deeper_than_the_longest_path() {
    run(async {
        let shell = |folder: &Path, work: &str| {
            let script = format!("for i in $(seq 200); do n=$(printf '%0100d' $i); {work}; done");
            let output = std::process::Command::new("sh").args(["-ec", &script]).current_dir(folder).output();
            let output = output.expect("there is a shell");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            output.stdout
        };
        let source = tempfile::tempdir().expect("a folder");
        shell(source.path(), "mkdir $n; cd -P $n; echo $i > file");
        let bench = Bench::new();
        let sent = bench.send_tree(source.path()).await.expect("sent");
        assert_eq!((sent.summary.new, sent.summary.problems), (400, vec![]));
        let target = bench.restored().await;
        let numbers: String = (1..=200).map(|number| format!("{number}\n")).collect();
        assert_eq!(String::from_utf8(shell(target.path(), "cd -P $n; cat file")).expect("text"), numbers);
    });
}

#[test]
fn what_cannot_be_read_is_named_and_everything_else_is_sent() {
    run(async {
        let (source, bench) = (tree(), Bench::new());
        bench.send_tree(source.path()).await.expect("sent");
        let status = std::process::Command::new("mkfifo").arg(source.path().join("pipe")).status();
        assert!(status.expect("there is a mkfifo").success());
        fs::write(source.path().join("zz"), b"later").expect("a file");
        // A file that vanishes between the walk and the reading, which begins with a name that is drawn.
        let vanishing = source.path().join("vanishing");
        fs::write(&vanishing, noise(10_000, 3)).expect("a file");
        let job = bench.job();
        let (random, meter) = (Arc::clone(&job.random), Arc::clone(&job.meter));
        let draw = move || {
            if meter.phase() == Phase::Transfer && vanishing.exists() {
                fs::remove_file(&vanishing).expect("ours");
            }
            random()
        };
        let (to, told) = mpsc::channel();
        let tell = move |_: Change, path: &TreePath| to.send(path.to_string()).expect("somebody listens");
        let job = Job { random: Arc::new(draw), ..job };
        let sent = send(&job, source.path(), &send_options(), tell).await.expect("sent");
        assert_eq!(told.try_iter().collect::<Vec<_>>(), [".", "zz"], "and nothing of what is not there");
        assert_eq!((sent.summary.new, sent.summary.files), (1, 1));
        let problems: Vec<String> = sent.summary.problems.iter().map(ToString::to_string).collect();
        assert_eq!(problems, ["vanishing: No such file or directory"]);
        let specials: Vec<String> = sent.summary.specials.iter().map(ToString::to_string).collect();
        assert_eq!(specials, ["pipe: a pipe"]);
        assert_eq!(sent.generation, Some(2));
        fs::remove_file(source.path().join("pipe")).expect("it is there");
        let pictures = [bench.restored().await.path(), source.path()].map(|root| {
            let mut picture = picture(root);
            picture.remove(".");
            picture
        });
        assert_eq!(pictures[0], pictures[1]);
    });
}

/// A member that may publish must not be able to plant a program that runs as root.
#[test]
fn set_uid_bits_come_back_on_demand_only() {
    run(async {
        let source = tempfile::tempdir().expect("a folder");
        let file = source.path().join("program");
        fs::write(&file, b"#!").expect("a file");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o6755)).expect("ours");
        let bench = Bench::new();
        bench.send_tree(source.path()).await.expect("sent");
        let mode = |root: &Path| root.join("program").metadata().expect("there").mode() & 0o7777;
        let target = bench.restored().await;
        assert_eq!(mode(target.path()), 0o755);
        let owners = RestoreOptions { owners: true, ..restore_options() };
        bench.restore_with(target.path(), &owners).await;
        assert_eq!(mode(target.path()), 0o6755);
        bench.restore_to(target.path()).await;
        assert_eq!(mode(target.path()), 0o755, "without the option the bits go");
    });
}

/// Files get their names only after a sync, and what an interrupted restore has left is used, or goes. The names of
/// some come before those of all parts: their parts were removed while they were in use.
#[test]
fn wherever_a_restore_ends_what_has_its_name_is_whole() {
    run(async {
        let (source, bench) = (tree(), Bench::new());
        for (number, name) in [" a", "!b", "#c", "deep/+d"].into_iter().enumerate() {
            fs::write(source.path().join(name), noise(200_000, 100 + number as u8)).expect("a file");
        }
        bench.send_tree(source.path()).await.expect("sent");
        let whole = picture(source.path());
        let content = |entry: &str| entry.rsplit(' ').next().map(str::to_owned);
        let target = tempfile::tempdir().expect("a folder");
        let (mut interrupted, root) = (0, target.path());
        for operations in 1.. {
            bench.power_fails_after(operations);
            let restored = bench.try_to_restore(bench.impatient_job(), root, &restore_options()).await;
            bench.cluster.world().forget_plans();
            let found = picture(root);
            for (path, entry) in
                found.iter().filter(|(path, _)| *path != "." && !path.contains(".sfio-part-"))
            {
                let expected = whole.get(path).and_then(|whole| content(whole));
                assert_eq!(content(entry), expected, "{path} after {operations}");
            }
            if let Ok(summary) = restored {
                assert_eq!(summary.problems, [], "after {operations}");
                break;
            }
            interrupted += 1;
        }
        assert!(interrupted > 0);
        assert_eq!(picture(root), whole);
    });
}
