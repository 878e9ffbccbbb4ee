//! A whole cluster in virtual time: clients, relays and I/O nodes with disks, over links that lose packets.

use std::time::Duration;

use bytes::Bytes;
use fec_transport::node::Node;
use fec_transport::sim::{LinkSpec, Scene, World};
use fec_transport::{Application, Event, Time};
use sfio_remote::application::{Command, Outcome, SfioApplication};
use sfio_remote::client::operations::{Open, Read, Stat, Write};
use sfio_remote::client::{
    ClientConfig, Durability, FileId, FileStat, OpenMode, Operation, OperationError, Receipt,
};
use sfio_remote::compression::Compression;
use sfio_remote::distribution::StripeUnit;
use sfio_remote::io_node::{AccessRules, IoNode, IoNodeConfig, Right};
use sfio_remote::request::{ReadList, WriteList};
use sfio_remote::sim::{self, ClusterConfig, DiskModel, DiskPace, Hosted};

use crate::hostile::Hostile;

pub(crate) const MS: Duration = Duration::from_millis(1);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// A member's application, or what a hostile member does in its place.
pub(crate) struct Member {
    application: SfioApplication,
    hostile: Option<Hostile>,
}

impl Member {
    /// Members whose names begin with `io` serve; those whose names begin with `h` are hostile.
    fn new(name: &str) -> Member {
        let config = ClientConfig::default();
        let access = AccessRules::everyone(Right::ReadWrite);
        let application = match name.starts_with("io") {
            true => SfioApplication::serving(config, IoNodeConfig { access, ..IoNodeConfig::default() }),
            false => SfioApplication::client(config),
        };
        Member { application, hostile: name.starts_with('h').then(Hostile::default) }
    }

    pub(crate) fn io_node(&self) -> Option<&IoNode> {
        self.application.io_node()
    }

    pub(crate) fn hostile(&mut self) -> &mut Hostile {
        self.hostile.as_mut().expect("its name begins with h")
    }
}

impl Application for Member {
    type Command = Command;
    type Outcome = Outcome;

    fn handle_event(&mut self, now: Time, node: &mut Node, event: Event) {
        match &mut self.hostile {
            Some(hostile) => hostile.handle_event(now, node, &event),
            None => self.application.handle_event(now, node, event),
        }
    }

    fn handle_command(&mut self, now: Time, node: &mut Node, command: Command) {
        self.application.handle_command(now, node, command);
    }

    fn handle_timeout(&mut self, now: Time, node: &mut Node) {
        self.application.handle_timeout(now, node);
    }

    fn next_timeout(&self) -> Option<Time> {
        self.application.next_timeout()
    }

    fn poll_outcome(&mut self) -> Option<Outcome> {
        self.application.poll_outcome()
    }
}

/// A cluster, and operations of which a test expects that they succeed.
pub(crate) struct Cluster(sim::Cluster<Member>);

impl Cluster {
    /// Disks that do everything within 2 ms; see [`Member::new`] for what members do.
    pub(crate) fn new(scene: &Scene, seed: u64) -> Cluster {
        Cluster(sim::Cluster::with(scene, ClusterConfig::default(), seed, Member::new))
    }

    pub(crate) fn with_pace(scene: &Scene, seed: u64, pace: DiskPace) -> Cluster {
        let config = ClusterConfig { disk: DiskModel::InTurn(pace), ..ClusterConfig::default() };
        Cluster(sim::Cluster::with(scene, config, seed, Member::new))
    }

    pub(crate) fn world(&self) -> &World<Hosted<Member>> {
        self.0.world()
    }

    pub(crate) fn world_mut(&mut self) -> &mut World<Hosted<Member>> {
        self.0.world_mut()
    }

    pub(crate) fn start<O: Operation>(&mut self, member: &str, operation: O) -> Receipt<O::Answer> {
        self.0.start(member, operation)
    }

    /// Runs until the operation has ended.
    pub(crate) fn result<A>(
        &mut self,
        receipt: &Receipt<A>,
        limit: Duration,
    ) -> Option<Result<A, OperationError>> {
        self.0.result(receipt, limit)
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
        let world = self.0.world_mut();
        let member = world.member(name);
        world.crash(MS, member);
        world.run_for(2 * MS);
        let mut page = 0_u32;
        self.0.disk(name).borrow_mut().crash(|| {
            page += 1;
            survives.rotate_right(page) & 1 == 1
        });
        let world = self.0.world_mut();
        world.restart(MS, member);
        world.run_for(10 * SECOND);
    }

    pub(crate) fn subfile(&self, member: &str, path: &str) -> Option<Vec<u8>> {
        self.0.subfile(member, path)
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
