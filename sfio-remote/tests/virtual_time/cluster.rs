//! A whole cluster in virtual time: clients, relays and I/O nodes with disks, over links that lose packets.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use std::time::Duration;

use bytes::Bytes;
use fec_transport::node::Node;
use fec_transport::overlay::{MemberId, Overlay};
use fec_transport::sim::{LinkSpec, Scene, World};
use fec_transport::{Application, Config, Event, Time};
use sfio_remote::application::{Command, Outcome, SfioApplication};
use sfio_remote::client::operations::{Open, Read, Stat, Write};
use sfio_remote::client::{
    Action, ClientConfig, Completion, Durability, FileId, FileStat, OpenMode, Operation, OperationError,
    OperationId, Receipt,
};
use sfio_remote::compression::Compression;
use sfio_remote::distribution::StripeUnit;
use sfio_remote::io_node::{AccessRules, IoNode, IoNodeConfig, Right};
use sfio_remote::request::{ReadList, WriteList};
use sfio_remote::sim::Machine;
use sfio_remote::store::{DiskAction, DiskOperation, DiskResult, MemoryStore};

use crate::hostile::Hostile;

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// How long a disk operation takes.
const DISK: Duration = Duration::from_millis(2);

/// A disk that outlives the process that uses it.
pub(crate) type Disk = Rc<RefCell<MemoryStore>>;

/// How long a disk takes that moves one thing after the other. What needs no disk, such as a size, takes as long as a
/// system call.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    pub(crate) bytes_per_second: f64,
    pub(crate) call: Duration,
    /// What waits for the disk itself.
    pub(crate) sync: Duration,
}

impl Pace {
    /// How long the disk is busy with an operation that ended so.
    fn of(self, operation: &DiskOperation, result: &DiskResult) -> Duration {
        let of_bytes = |bytes: u64| Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
        match &operation.action {
            _ if result.outcome.is_err() => Duration::ZERO,
            DiskAction::Read { extents } | DiskAction::Write { extents, .. } => {
                self.call + of_bytes(extents.iter().map(|extent| extent.length()).sum())
            }
            DiskAction::Sync | DiskAction::Create { durable: true, .. } => self.sync,
            _ => Duration::ZERO,
        }
    }
}

/// A member's application together with its disk, which takes its time.
pub(crate) struct Hosted {
    application: SfioApplication,
    /// What it does instead, if it is hostile.
    hostile: Option<Hostile>,
    disk: Disk,
    /// How fast that is; none: everything takes 2 ms, however much there is to do.
    pace: Option<Pace>,
    free_at: Time,
    results: VecDeque<(Time, Command)>,
    machine: Machine,
    completions: VecDeque<Completion>,
}

fn open_to_all() -> IoNodeConfig {
    IoNodeConfig { access: AccessRules::everyone(Right::ReadWrite), ..IoNodeConfig::default() }
}

impl Hosted {
    /// Members whose names begin with `io` serve; those whose names begin with `h` are hostile.
    fn new(name: &str, disk: Disk, pace: Option<Pace>) -> Hosted {
        let config = ClientConfig::default();
        let application = match name.starts_with("io") {
            true => SfioApplication::serving(config, open_to_all()),
            false => SfioApplication::client(config),
        };
        Hosted {
            application,
            hostile: name.starts_with('h').then(Hostile::default),
            disk,
            pace,
            free_at: Time::ZERO,
            results: VecDeque::new(),
            machine: Machine::default(),
            completions: VecDeque::new(),
        }
    }

    pub(crate) fn io_node(&self) -> Option<&IoNode> {
        self.application.io_node()
    }

    pub(crate) fn hostile(&mut self) -> &mut Hostile {
        self.hostile.as_mut().expect("its name begins with h")
    }

    /// When the disk has done these operations.
    fn due(&mut self, now: Time, operations: &[DiskOperation], results: &[DiskResult]) -> Time {
        let Some(pace) = self.pace else { return now + DISK };
        let busy: Duration = operations.iter().zip(results).map(|(done, result)| pace.of(done, result)).sum();
        if busy.is_zero() {
            return now + pace.call;
        }
        self.free_at = self.free_at.max(now) + busy;
        self.free_at
    }

    /// What the application is told then.
    fn later(&mut self, due: Time, commands: Vec<Command>) {
        let place = self.results.partition_point(|(other, _)| *other <= due);
        commands.into_iter().rev().for_each(|command| self.results.insert(place, (due, command)));
    }

    fn collect(&mut self, now: Time) {
        while let Some(outcome) = self.application.poll_outcome() {
            match outcome {
                Outcome::Completion(completion) => self.completions.push_back(completion),
                Outcome::Codec(job) => {
                    let (result, takes) = self.machine.perform(job);
                    self.later(now + takes, vec![Command::Codec(result)]);
                }
                Outcome::Disk(errand) => {
                    let (operations, mut disk) = (errand.operations().to_vec(), self.disk.borrow_mut());
                    let results = errand.perform(|operation| operation.perform_on(&mut *disk));
                    drop(disk);
                    let due = self.due(now, &operations, &results);
                    self.later(due, results.into_iter().map(Command::Disk).collect());
                }
            }
        }
    }
}

impl Application for Hosted {
    type Command = Command;
    type Outcome = Completion;

    fn handle_event(&mut self, now: Time, node: &mut Node, event: Event) {
        match &mut self.hostile {
            Some(hostile) => hostile.handle_event(now, node, &event),
            None => self.application.handle_event(now, node, event),
        }
        self.collect(now);
    }

    fn handle_command(&mut self, now: Time, node: &mut Node, command: Command) {
        self.application.handle_command(now, node, command);
        self.collect(now);
    }

    fn handle_timeout(&mut self, now: Time, node: &mut Node) {
        while self.results.front().is_some_and(|(due, _)| *due <= now) {
            let Some((_, result)) = self.results.pop_front() else { break };
            self.application.handle_command(now, node, result);
        }
        self.application.handle_timeout(now, node);
        self.collect(now);
    }

    fn next_timeout(&self) -> Option<Time> {
        self.results.front().map(|(due, _)| *due).into_iter().chain(self.application.next_timeout()).min()
    }

    fn poll_outcome(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }
}

/// The world with its disks, and what has come of the operations.
pub(crate) struct Cluster {
    pub(crate) world: World<Hosted>,
    pub(crate) disks: BTreeMap<String, Disk>,
    next_operation: u64,
}

impl Cluster {
    /// Disks that do everything within 2 ms; see [`Hosted::new`] for what members do.
    pub(crate) fn new(scene: &Scene, seed: u64) -> Cluster {
        Cluster::with_pace(scene, seed, None)
    }

    pub(crate) fn with_pace(scene: &Scene, seed: u64, pace: Option<Pace>) -> Cluster {
        let names = scene.overlay().0;
        let disks: BTreeMap<String, Disk> =
            names.members().iter().map(|member| (member.name.clone(), Disk::default())).collect();
        let theirs = disks.clone();
        let make = move |overlay: &Overlay, member: MemberId| {
            let name = overlay.name(member);
            Hosted::new(&name, Rc::clone(&theirs[&name]), pace)
        };
        let world = World::new(scene, Config::default(), seed, make);
        Cluster { world, disks, next_operation: 1 }
    }

    pub(crate) fn start<O: Operation>(&mut self, member: &str, operation: O) -> Receipt<O::Answer> {
        let id = OperationId(self.next_operation);
        self.next_operation += 1;
        let (action, receipt) = Action::with_receipt(operation);
        let member = self.world.member(member);
        self.world.command(member, Command::Start(id, action));
        receipt
    }

    /// Runs until the operation has ended.
    pub(crate) fn result<A>(
        &mut self,
        receipt: &Receipt<A>,
        limit: Duration,
    ) -> Option<Result<A, OperationError>> {
        let deadline = self.world.now() + limit;
        while self.world.now() < deadline {
            self.world.take_outcomes().into_iter().for_each(|(_, completion)| completion.deliver());
            if let Some(result) = receipt.take() {
                return Some(result);
            }
            self.world.run_for(MS);
        }
        None
    }

    /// One operation of `member`, which must succeed within 60 s.
    pub(crate) fn call<O: Operation>(&mut self, member: &str, operation: O) -> O::Answer {
        let receipt = self.start(member, operation);
        self.result(&receipt, 60 * SECOND).expect("it ends in time").expect("it succeeds")
    }

    /// Opens a file whose bytes travel as they are: what is measured is the network.
    pub(crate) fn open(&mut self, member: &str, name: &str, unit: u64, mode: OpenMode) -> FileId {
        self.open_compressing(member, (name, unit), mode, Compression::Never)
    }

    pub(crate) fn open_compressing(
        &mut self,
        member: &str,
        (name, unit): (&str, u64),
        mode: OpenMode,
        compression: Compression,
    ) -> FileId {
        let name = name.parse().expect("a right name");
        let stripe_unit = StripeUnit::new(unit).expect("in range");
        self.call(member, Open { name, stripe_unit, mode, durability: Durability::OnFlush, compression }).file
    }

    pub(crate) fn write(&mut self, member: &str, file: FileId, pieces: Vec<(u64, Bytes)>) {
        let list = WriteList::new(pieces).expect("a possible list");
        self.call(member, Write { file, list, durable: false });
    }

    pub(crate) fn read(&mut self, member: &str, file: FileId, regions: Vec<(u64, u64)>) -> Vec<Bytes> {
        let list = ReadList::new(regions).expect("a possible list");
        self.call(member, Read { file, list }).into_vec()
    }

    pub(crate) fn stat(&mut self, member: &str, file: FileId) -> FileStat {
        self.call(member, Stat { file })
    }

    /// An I/O node loses its power and comes back: of its unsynced pages those survive that the bits of `survives` say,
    /// turn by turn. Then everybody has time to notice.
    pub(crate) fn lose_power(&mut self, name: &str, survives: u64) {
        let member = self.world.member(name);
        self.world.crash(MS, member);
        self.world.run_for(2 * MS);
        let mut page = 0_u32;
        self.disks[name].borrow_mut().crash(|| {
            page += 1;
            survives.rotate_right(page) & 1 == 1
        });
        self.world.restart(MS, member);
        self.world.run_for(10 * SECOND);
    }

    pub(crate) fn subfile(&self, member: &str, path: &str) -> Option<Vec<u8>> {
        self.disks[member].borrow().content(path)
    }
}

/// Three clients, four relays, three I/O nodes. Every client reaches every I/O node over two disjoint routes or more;
/// the links lose 1 to 3 % and have delays of 5 to 20 ms.
pub(crate) fn overlay(rate_mbit: u64) -> Scene {
    let mut scene = Scene::new();
    for client in ["c1", "c2", "c3"] {
        scene = scene.client(client);
    }
    for relay in ["r1", "r2", "r3", "r4"] {
        scene = scene.relay(relay);
    }
    for io_node in ["io1", "io2", "io3"] {
        scene = scene.server(io_node);
    }
    let spec = |index: u64| {
        let loss = [0.01, 0.02, 0.03][index as usize % 3];
        LinkSpec::new(rate_mbit, (5 + 3 * (index as u32 % 6)) * MS).with_loss(loss)
    };
    let ends = ["c1", "c2", "c3", "io1", "io2", "io3"];
    let links = ends.iter().flat_map(|end| ["r1", "r2", "r3", "r4"].map(|relay| (*end, relay)));
    // Each end leaves one relay out.
    let links = links.enumerate().filter(|(index, _)| index % 5 != 0);
    links.fold(scene, |scene, (index, (end, relay))| scene.link(end, relay, &spec(index as u64)))
}

/// A sequence of bytes that does not repeat soon.
pub(crate) fn pattern(length: u64, seed: u64) -> Vec<u8> {
    let byte = |i: u64| ((i + seed * 1_000_003).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as u8;
    (0..length).map(byte).collect()
}
