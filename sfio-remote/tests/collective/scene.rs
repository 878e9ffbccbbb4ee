//! A parallel program that writes one file, each rank in a process of its own.

use std::cell::Cell;
use std::future::Future;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use sfio_remote::client::{Durability, OpenMode};
use sfio_remote::collective::{CollectiveConfig, CollectiveError, Rank, Report};
use sfio_remote::distribution::{Distribution, StripeUnit};
use sfio_remote::io::collective::{CollectiveFile, GroupMember};
use sfio_remote::io::sim::{Cluster, ClusterConfig, Process, run};
use sfio_remote::io::{OpenOptions, StripedFile};
use sfio_remote::name::FileName;
use sfio_remote::remote_error::{ErrorKind, RemoteError};
use sfio_remote::request::WriteList;
use sfio_remote::store::{Fault, SystemCall};
use tokio::time::{Instant, sleep};

use crate::link::delayed_group;

const UNIT: u64 = 64 << 10;

/// What is written, and how far away to.
#[derive(Debug, Clone)]
pub(crate) struct Scene {
    pub(crate) ranks: usize,
    pub(crate) io_nodes: usize,
    /// Bytes of a record, and how many each rank has.
    pub(crate) record: usize,
    pub(crate) records: usize,
    /// Whether the ranks take turns with their records; else each has a block.
    pub(crate) is_interleaved: bool,
    /// How long a message to an I/O node is on its way.
    pub(crate) network_ms: Range<usize>,
    pub(crate) seed: u64,
}

/// How the ranks write.
#[derive(Debug, Clone)]
pub(crate) enum How {
    /// Together.
    Collective(CollectiveConfig),
    /// Each its own list in one call.
    Lists,
    /// Each record by a call of its own, so many at once on each rank.
    Calls { at_once: usize },
}

/// What came of it.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// From when all have written once, so that there are sessions, until all have written again.
    pub(crate) took: Duration,
    pub(crate) sessions: usize,
    pub(crate) reports: Vec<Report>,
}

impl Scene {
    fn name(&self) -> FileName {
        let subfiles: Vec<String> = (1..=self.io_nodes).map(|node| format!("io{node},a")).collect();
        subfiles.join(";").parse().expect("a right name")
    }

    fn cluster(&self) -> Arc<Cluster> {
        let io_nodes: Vec<String> = (1..=self.io_nodes).map(|node| format!("io{node}")).collect();
        let members: Vec<&str> = io_nodes.iter().map(String::as_str).chain(["client"]).collect();
        let mut config =
            ClusterConfig { network_ms: self.network_ms.clone(), ..ClusterConfig::new(&members, self.seed) };
        // The ranks are processes of one member: 64 with 24 calls each would be refused with the usual 512.
        config.io_node.transfers_per_member = 1 << 16;
        config.io_node.request_bytes = 1 << 30;
        // With less on its way in each stream, three sessions would carry less than 192.
        config.stream_capacity = 32 << 20;
        let cluster = Cluster::start(config);
        for node in &io_nodes {
            cluster.world().serve(node).expect("a new root");
        }
        Arc::new(cluster)
    }

    fn pieces(&self, rank: usize) -> Vec<(u64, Bytes)> {
        let place =
            |i: usize| if self.is_interleaved { i * self.ranks + rank } else { rank * self.records + i };
        let piece =
            |i: usize| ((place(i) * self.record) as u64, Bytes::from(vec![rank as u8 + 1; self.record]));
        (0..self.records).map(piece).collect()
    }

    /// The file byte by byte, dealt out over its subfiles.
    fn subfiles(&self) -> Vec<Vec<u8>> {
        let unit = StripeUnit::new(UNIT).expect("in range");
        let distribution = Distribution::new(unit, self.io_nodes).expect("few");
        let mut subfiles = vec![Vec::new(); self.io_nodes];
        for offset in 0..self.ranks * self.records * self.record {
            let record = offset / self.record;
            let rank = if self.is_interleaved { record % self.ranks } else { record / self.records };
            subfiles[distribution.locate(offset as u64).subfile.index()].push(rank as u8 + 1);
        }
        subfiles
    }
}

/// Plays the program; every byte is where it should be, and no disk was read.
pub(crate) fn play(scene: &Scene, how: &How) -> Outcome {
    run(async {
        let cluster = scene.cluster();
        create(scene, &cluster).await;
        forbid_reads(scene, &cluster);
        let group = delayed_group(scene.ranks, 0..2, scene.seed);
        let tasks: Vec<_> = group
            .into_iter()
            .map(|member| {
                let (process, scene, how) = (cluster.process("client"), scene.clone(), how.clone());
                let work = rank(member, process.clone(), scene, how);
                process.spawn(work)
            })
            .collect();
        let (mut took, mut reports) = (Duration::ZERO, Vec::new());
        for task in tasks {
            let (time, report) = task.await.expect("no panic").expect("nobody is killed");
            took = took.max(time);
            reports.extend(report);
        }
        for (index, expected) in scene.subfiles().into_iter().enumerate() {
            let content = cluster.world().disk(&format!("io{}", index + 1)).inner().content("a");
            assert!(content == Some(expected), "subfile {index} of {scene:?}, {how:?}");
        }
        // The process that created the file has ended.
        let sessions = cluster.world().session_count();
        Outcome { took, sessions, reports }
    })
}

async fn create(scene: &Scene, cluster: &Cluster) {
    let process = cluster.process("client");
    let unit = StripeUnit::new(UNIT).expect("in range");
    drop(StripedFile::create(process.client(), &scene.name(), unit).await.expect("created"));
    cluster.world().kill(process.peer());
    sleep(Duration::from_secs(10)).await;
}

/// From now on every read of a disk fails.
fn forbid_reads(scene: &Scene, cluster: &Cluster) {
    for node in 1..=scene.io_nodes {
        for _ in 0..1_000 {
            let error = RemoteError::new(ErrorKind::Disk, "no collective write reads");
            cluster.world().disk(&format!("io{node}")).inject(Fault::Fail { call: SystemCall::Read, error });
        }
    }
}

async fn rank(member: GroupMember, process: Process, scene: Scene, how: How) -> (Duration, Option<Report>) {
    let (options, name) = (options(), scene.name());
    let pieces = scene.pieces(member.rank().index());
    if let How::Collective(config) = how {
        let opened = CollectiveFile::open(&member, process.client(), &options, &name, config).await;
        let file = opened.expect("it is there");
        let list = || WriteList::new(pieces.clone()).expect("possible");
        file.write_all(list()).await.expect("written");
        let began = Instant::now();
        let report = file.write_all(list()).await.expect("written");
        return (began.elapsed(), Some(report));
    }
    let file = options.open(process.client(), &name).await.expect("it is there");
    file.write_list(pieces.clone()).await.expect("written");
    member.barrier().await.expect("all are there");
    let began = Instant::now();
    match how {
        How::Calls { at_once } => one_by_one(&file, pieces, at_once).await,
        _ => file.write_list(pieces).await.expect("written"),
    }
    let took = began.elapsed();
    member.barrier().await.expect("all are there");
    (took, None)
}

async fn one_by_one(file: &StripedFile, pieces: Vec<(u64, Bytes)>, at_once: usize) {
    let mut running = std::collections::VecDeque::new();
    for piece in pieces {
        if running.len() >= at_once {
            let first: sfio_remote::io::Submission<()> = running.pop_front().expect("there are some");
            first.wait().await.expect("written");
        }
        running.push_back(file.submit_write(WriteList::new([piece]).expect("possible")));
    }
    for last in running {
        last.wait().await.expect("written");
    }
}

fn options() -> OpenOptions {
    let unit = StripeUnit::new(UNIT).expect("in range");
    OpenOptions::new().mode(OpenMode::Create).stripe_unit(unit).durability(Durability::OnFlush)
}

/// Plays a collective write of which one rank is killed at a moment behind its beginning; gives what the others say,
/// and how long after that the last of them does.
pub(crate) fn killed(
    scene: &Scene,
    victim: Rank,
    moment: Duration,
) -> (Vec<Result<(), CollectiveError>>, Duration) {
    run(async {
        let (cluster, killed_at) = (scene.cluster(), Rc::new(Cell::new(Instant::now())));
        let mut tasks = Vec::new();
        for member in delayed_group(scene.ranks, 0..20, scene.seed) {
            let (process, scene) = (cluster.process("client"), scene.clone());
            let (cluster, killed_at, is_victim) =
                (Arc::clone(&cluster), Rc::clone(&killed_at), member.rank() == victim);
            let task = process.clone().spawn(async move {
                let config = CollectiveConfig { buffer_bytes: 20_000, ..CollectiveConfig::default() };
                let file =
                    CollectiveFile::open(&member, process.client(), &options(), &scene.name(), config).await;
                let file = file.expect("all are there");
                member.barrier().await.expect("all are there");
                if is_victim {
                    let peer = process.peer();
                    killed_at.set(Instant::now() + moment);
                    cluster.world().after(moment, move |world| world.kill(peer));
                }
                let list = WriteList::new(scene.pieces(member.rank().index())).expect("possible");
                let result = file.write_all(list).await.map(drop);
                // Leaving the group is for the one that is killed: the others stay.
                (result, Instant::now(), member)
            });
            tasks.push((is_victim, task));
        }
        let (mut results, mut last, mut kept) = (Vec::new(), Instant::now(), Vec::new());
        for (is_victim, task) in tasks {
            let ended = task.await.expect("no panic");
            if let Some((result, at, member)) = ended {
                last = last.max(at);
                results.extend((!is_victim).then_some(result));
                kept.push(member);
            }
        }
        (results, last.saturating_duration_since(killed_at.get()))
    })
}

/// Runs `work` on each rank of a group whose processes share a cluster with two I/O nodes.
pub(crate) fn run_group<F>(size: usize, work: impl Fn(GroupMember, Process) -> F)
where
    F: Future<Output = ()> + 'static,
{
    let scene = Scene {
        ranks: size,
        io_nodes: 2,
        record: 1,
        records: 1,
        is_interleaved: true,
        network_ms: 1..5,
        seed: 3,
    };
    run(async {
        let cluster = scene.cluster();
        let tasks: Vec<_> = delayed_group(size, 0..3, 3)
            .into_iter()
            .map(|member| {
                let process = cluster.process("client");
                process.spawn(work(member, process.clone()))
            })
            .collect();
        for task in tasks {
            task.await.expect("no panic").expect("nobody is killed");
        }
    });
}

/// Opens a file over both I/O nodes.
pub(crate) async fn open(member: &GroupMember, process: &Process) -> CollectiveFile {
    let name = "io1,a;io2,a".parse().expect("a right name");
    let opened =
        CollectiveFile::open(member, process.client(), &options(), &name, CollectiveConfig::default()).await;
    opened.expect("created")
}
