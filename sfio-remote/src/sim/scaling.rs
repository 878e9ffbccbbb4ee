//! How much striped files move in a machine: N compute processes against N I/O processes.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;

use super::machine::{compute, io};
use super::{Cluster, ClusterConfig, Dice, DiskModel, DiskPace, Machine, ProcessorModel, Traffic};
use crate::client::operations::{Close, Open, Write};
use crate::client::{Durability, FileId, OpenMode, OperationError, Receipt};
use crate::compression::Compression;
use crate::distribution::StripeUnit;
use crate::name::FileName;
use crate::request::WriteList;

/// What a job of a parallel program may take, in virtual time.
const LIMIT: Duration = Duration::from_secs(600);

/// A parallel program that writes: each of its compute processes a part of its own of a common file.
#[derive(Debug, Clone, Copy)]
pub struct Job {
    /// Who writes to whom.
    pub traffic: Traffic,
    /// How many compute processes it has.
    pub clients: usize,
    /// How many I/O processes it has; of pairs as many as compute processes.
    pub io_nodes: usize,
    /// The stripe unit of its file; of [pairs](Traffic::Pairs) each has a file of one subfile.
    pub stripe_unit: StripeUnit,
    /// Bytes that each compute process writes before anything is measured, if some two processes have not met in an
    /// earlier job: the paths find their rates.
    pub warm_up_bytes: u64,
    /// Bytes that each compute process then writes.
    pub bytes: u64,
}

/// What came of a job.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Measured {
    /// Payload of all compute processes over the time until the last one had written, in bytes per second.
    pub bytes_per_second: f64,
    /// The same until the first one had written, in bytes per second: what had reached I/O processes by then, as the
    /// compute processes knew. A job of gigabytes is like that nearly to its end; a short one ends with a few streams
    /// that the others have left behind, on ports that stand idle.
    pub together_bytes_per_second: f64,
    /// What the network carries at most, in bytes per second: see [`Machine::limit`].
    pub limit: f64,
}

/// A machine whose members run, job after job.
pub struct Scaling {
    machine: Machine,
    cluster: Cluster,
    dice: Dice,
    /// Which compute process has written to which I/O process in some job.
    met: BTreeSet<(usize, usize)>,
}

impl Scaling {
    /// Starts the machine. Its disks are caches that take 500 MB/s, and its processors gather 1 GB/s: neither is the
    /// limit.
    pub fn new(machine: Machine, seed: u64) -> Scaling {
        let disk = DiskPace {
            bytes_per_second: 500e6,
            call: Duration::from_micros(20),
            sync: Duration::from_millis(8),
        };
        let processor = ProcessorModel { call: Duration::from_micros(50), bytes_per_second: 1e9 };
        let config = ClusterConfig { disk: DiskModel::InTurn(disk), processor, ..ClusterConfig::default() };
        let cluster = Cluster::new(&machine.scene(), config, seed);
        Scaling { machine, cluster, dice: Dice::new(seed), met: BTreeSet::new() }
    }

    /// Runs a job on nodes that chance chooses.
    ///
    /// # Errors
    /// If an operation fails.
    ///
    /// # Panics
    /// If the machine has too few nodes for it.
    pub fn run(&mut self, job: &Job) -> Result<Measured, OperationError> {
        let Job { traffic, clients, io_nodes, .. } = *job;
        let (computing, serving) = self.machine.place(traffic, clients, io_nodes, &mut self.dice);
        let flows = traffic.flows(&computing, &serving);
        let limit = self.machine.limit(&flows);
        let names: Vec<String> = computing.iter().map(|node| compute(*node)).collect();
        let ranks = self.cluster.ranks(&names);
        let files = ranks.all(&mut self.cluster, LIMIT, |rank| Open {
            name: file_name(traffic, &serving, rank),
            stripe_unit: job.stripe_unit,
            mode: OpenMode::Create,
            durability: Durability::None,
            compression: Compression::Never,
        })?;
        let files: Vec<FileId> = files.into_iter().map(|opened| opened.file).collect();
        let known = self.met.len();
        self.met.extend(flows);
        if self.met.len() > known && job.warm_up_bytes > 0 {
            self.write(job, &names, &files, job.warm_up_bytes)?;
        }
        let (took, together_bytes_per_second) = self.write(job, &names, &files, job.bytes)?;
        ranks.all(&mut self.cluster, LIMIT, |rank| Close { file: files[rank] })?;
        let bytes_per_second = (job.bytes * clients as u64) as f64 / took.as_secs_f64();
        Ok(Measured { bytes_per_second, together_bytes_per_second, limit })
    }

    /// Every compute process writes its part; gives how long that takes, and how fast all were until the first one had
    /// written.
    fn write(
        &mut self,
        job: &Job,
        names: &[String],
        files: &[FileId],
        bytes: u64,
    ) -> Result<(Duration, f64), OperationError> {
        let (began, before) = (self.cluster.world().now(), self.acknowledged(names));
        let data = Bytes::from(vec![0x5a; bytes as usize]);
        let start = |rank: usize| if job.traffic == Traffic::Pairs { 0 } else { rank as u64 * bytes };
        let begin = |(rank, name): (usize, &String)| {
            let list = WriteList::new([(start(rank), data.clone())]).expect("far below the limit");
            self.cluster.start(name, Write { file: files[rank], list, durable: false })
        };
        let receipts: Vec<Receipt<()>> = names.iter().enumerate().map(begin).collect();
        assert!(self.cluster.run_to_next(LIMIT), "nothing is written within {LIMIT:?}");
        let together = self.cluster.world().now().since(began).as_secs_f64();
        let arrived = self.acknowledged(names) - before;
        assert!(self.cluster.run_until_done(LIMIT), "not all is written within {LIMIT:?}");
        receipts.iter().try_for_each(|receipt| receipt.take().expect("all have ended"))?;
        Ok((self.cluster.world().now().since(began), arrived as f64 / together))
    }

    /// Bytes of streams that have reached I/O processes, as the compute processes know.
    fn acknowledged(&self, names: &[String]) -> u64 {
        let world = self.cluster.world();
        let of = |name: &String| {
            let node = world.node(world.member(name));
            let statuses = node.sessions().filter_map(|session| node.session_status(session));
            statuses.map(|status| status.acknowledged.bytes).sum::<u64>()
        };
        names.iter().map(of).sum()
    }

    /// The virtual time, since the machine was started.
    pub fn now(&self) -> Duration {
        self.cluster.world().now().since_epoch()
    }

    /// See [`Cluster::hash`].
    pub fn hash(&self) -> String {
        self.cluster.hash()
    }
}

/// The file of a compute process: one that is striped over all I/O processes, or its own at the one of its pair.
fn file_name(traffic: Traffic, serving: &[usize], rank: usize) -> FileName {
    let subfile = |node: &usize| format!("{},job", io(*node));
    let subfiles: Vec<String> = match traffic {
        Traffic::Pairs => vec![subfile(&serving[rank])],
        Traffic::AllToAll | Traffic::Halves => serving.iter().map(subfile).collect(),
    };
    subfiles.join(";").parse().expect("a right name")
}
