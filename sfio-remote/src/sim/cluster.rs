//! Whole clusters in virtual time.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

use fec_transport::overlay::{MemberId, Overlay};
use fec_transport::sim::{Scene, World};
use fec_transport::{Application, Config};

use super::hosted::Hosted;
use super::models::{DiskModel, ProcessorModel};
use crate::application::{Command, Outcome, SfioApplication};
use crate::client::{Action, ClientConfig, Operation, OperationError, OperationId, Receipt};
use crate::io_node::{AccessRules, IoNodeConfig, Right};
use crate::store::MemoryStore;

/// A disk that outlives the process that uses it.
pub type Disk = Rc<RefCell<MemoryStore>>;

/// What runs on a member of a cluster: [`SfioApplication`], or what stands in its place.
pub trait Host: Application<Command = Command, Outcome = Outcome> {}

impl<A: Application<Command = Command, Outcome = Outcome>> Host for A {}

/// What all members of a cluster have in common.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// The limits of every node of the transport.
    pub transport: Config,
    /// The limits of every client.
    pub client: ClientConfig,
    /// The limits of every I/O node. By default everybody may read and write everything.
    pub io_node: IoNodeConfig,
    /// What each disk is like. By default everything takes 2 ms.
    pub disk: DiskModel,
    /// What each processor is like. By default nothing takes time.
    pub processor: ProcessorModel,
}

impl Default for ClusterConfig {
    fn default() -> ClusterConfig {
        ClusterConfig {
            transport: Config::default(),
            client: ClientConfig::default(),
            io_node: IoNodeConfig {
                access: AccessRules::everyone(Right::ReadWrite),
                ..IoNodeConfig::default()
            },
            disk: DiskModel::Constant(Duration::from_millis(2)),
            processor: ProcessorModel::INSTANT,
        }
    }
}

/// Clients, relays and I/O nodes with disks, on a network of links; what happens is a function of the seed.
///
/// ```
/// use std::time::Duration;
/// use fec_transport::sim::{LinkSpec, Scene};
/// use sfio_remote::client::operations::{Open, Write};
/// use sfio_remote::client::{Durability, OpenMode};
/// use sfio_remote::compression::Compression;
/// use sfio_remote::request::WriteList;
/// use sfio_remote::sim::{Cluster, ClusterConfig};
///
/// let link = LinkSpec::new(20, Duration::from_millis(10)).with_loss(0.01);
/// let scene = Scene::new().client("a").client("b").relay("r").server("io1").server("io2");
/// let scene = ["a", "b", "io1", "io2"].into_iter().fold(scene, |scene, name| scene.link(name, "r", &link));
/// let mut cluster = Cluster::new(&scene, ClusterConfig::default(), 1);
/// let ranks = cluster.ranks(&["a", "b"]);
/// let limit = Duration::from_secs(60);
/// let open = |_| Open {
///     name: "io1,a.dat;io2,a.dat".parse().expect("a right name"),
///     stripe_unit: "5".parse().expect("a right size"),
///     mode: OpenMode::Create,
///     durability: Durability::OnFlush,
///     compression: Compression::Auto,
/// };
/// let files = ranks.all(&mut cluster, limit, open)?;
/// ranks.all(&mut cluster, limit, |rank| Write {
///     file: files[rank].file,
///     list: WriteList::new([(11 * rank as u64, "Hello World".into())]).expect("a possible list"),
///     durable: false,
/// })?;
/// assert_eq!(cluster.subfile("io1", "a.dat").as_deref(), Some(&b"HellodHellld"[..]));
/// # Ok::<(), sfio_remote::client::OperationError>(())
/// ```
pub struct Cluster<A: Host = SfioApplication> {
    world: World<Hosted<A>>,
    disks: BTreeMap<String, Disk>,
    next_operation: u64,
    running: BTreeSet<OperationId>,
}

/// Processes that do the same at the same time, as those of a parallel program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ranks {
    members: Vec<String>,
}

impl Cluster {
    /// Starts all members of `scene`: its servers serve subfiles, and everybody is a client.
    pub fn new(scene: &Scene, config: ClusterConfig, seed: u64) -> Cluster {
        let (client, io_node) = (config.client.clone(), config.io_node.clone());
        let servers: BTreeSet<String> = scene.servers().map(str::to_owned).collect();
        Cluster::with(scene, config, seed, move |name| match servers.contains(name) {
            true => SfioApplication::serving(client.clone(), io_node.clone()),
            false => SfioApplication::client(client.clone()),
        })
    }
}

impl<A: Host> Cluster<A> {
    /// The same with applications of the caller's: `make` gives that of the member of a name, also after a crash.
    pub fn with(
        scene: &Scene,
        config: ClusterConfig,
        seed: u64,
        mut make: impl FnMut(&str) -> A + 'static,
    ) -> Cluster<A> {
        let (overlay, _) = scene.overlay();
        let disks: BTreeMap<String, Disk> =
            overlay.members().iter().map(|member| (member.name.clone(), Disk::default())).collect();
        let theirs = disks.clone();
        let models = (config.disk, config.processor);
        let host = move |overlay: &Overlay, member: MemberId| {
            let name = overlay.name(member);
            Hosted::new(make(&name), Rc::clone(&theirs[&name]), models)
        };
        let world = World::new(scene, config.transport, seed, host);
        Cluster { world, disks, next_operation: 1, running: BTreeSet::new() }
    }

    /// The network and the nodes.
    pub fn world(&self) -> &World<Hosted<A>> {
        &self.world
    }

    /// The network and the nodes, for who cuts links or crashes processes.
    pub fn world_mut(&mut self) -> &mut World<Hosted<A>> {
        &mut self.world
    }

    /// The disk of a member.
    ///
    /// # Panics
    /// If there is no member of that name.
    pub fn disk(&self, member: &str) -> &Disk {
        &self.disks[member]
    }

    /// What a member has in a subfile, if it has it.
    ///
    /// # Panics
    /// If there is no member of that name.
    pub fn subfile(&self, member: &str, path: &str) -> Option<Vec<u8>> {
        self.disks[member].borrow().content(path)
    }

    /// A member begins an operation.
    ///
    /// # Panics
    /// If there is no member of that name.
    pub fn start<O: Operation>(&mut self, member: &str, operation: O) -> Receipt<O::Answer> {
        let id = OperationId(self.next_operation);
        self.next_operation += 1;
        self.running.insert(id);
        let (action, receipt) = Action::with_receipt(operation);
        let member = self.world.member(member);
        self.world.command(member, Command::Start(id, action));
        receipt
    }

    /// Runs until all operations that were started have ended, or `limit` has passed; gives whether they have. The
    /// operations of a process that crashes end when `limit` has passed.
    pub fn run_until_done(&mut self, limit: Duration) -> bool {
        let deadline = self.world.now() + limit;
        while !self.running.is_empty() {
            if !self.run_to_next(deadline.since(self.world.now())) {
                return false;
            }
        }
        true
    }

    /// Runs until the operation has ended; none if it has not when `limit` has passed.
    pub fn result<T>(&mut self, receipt: &Receipt<T>, limit: Duration) -> Option<Result<T, OperationError>> {
        let deadline = self.world.now() + limit;
        loop {
            self.deliver();
            if let Some(result) = receipt.take() {
                return Some(result);
            }
            if !self.run_to_next(deadline.since(self.world.now())) {
                return receipt.take();
            }
        }
    }

    /// These members, as the processes of a parallel program.
    ///
    /// # Panics
    /// If there is no member of one of the names.
    pub fn ranks<S: AsRef<str>>(&self, members: &[S]) -> Ranks {
        let name = |member: &S| {
            self.world.member(member.as_ref());
            member.as_ref().to_owned()
        };
        Ranks { members: members.iter().map(name).collect() }
    }

    /// A hash over everything that happened on the network: equal for equal scenes, configs, seeds and calls.
    pub fn hash(&self) -> String {
        self.world.trace_hash()
    }

    /// Runs until some operation has ended, or `limit` has passed; gives whether one has.
    pub fn run_to_next(&mut self, limit: Duration) -> bool {
        let any = self.world.run_until(limit, World::has_outcomes);
        self.deliver();
        any
    }

    fn deliver(&mut self) {
        for (_, completion) in self.world.take_outcomes() {
            self.running.remove(&completion.operation());
            completion.deliver();
        }
    }
}

impl Ranks {
    /// How many there are.
    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// Each rank begins its operation now; gives what came of all of them, in the order of the ranks, when the last one
    /// has ended.
    ///
    /// # Errors
    /// That of the first rank that fails.
    ///
    /// # Panics
    /// If they have not ended when `limit` has passed.
    pub fn all<A: Host, O: Operation>(
        &self,
        cluster: &mut Cluster<A>,
        limit: Duration,
        operation: impl Fn(usize) -> O,
    ) -> Result<Vec<O::Answer>, OperationError> {
        let starts = self.members.iter().enumerate();
        let receipts: Vec<_> = starts.map(|(rank, member)| cluster.start(member, operation(rank))).collect();
        assert!(cluster.run_until_done(limit), "the operations have not ended after {limit:?}");
        let ended = |receipt: Receipt<O::Answer>| receipt.take().expect("all have ended");
        receipts.into_iter().map(ended).collect()
    }
}
