//! The world as a task of the runtime, and the way into it.

use std::future::Future;
use std::ops::{Deref, DerefMut, Range};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fec_transport::Time;
use fec_transport::io::{Commands, Handle};
use fec_transport::overlay::Peer;
use tokio::sync::Notify;
use tokio::task::{JoinSet, LocalSet, yield_now};
use tokio::time::{Instant, sleep, sleep_until};

use super::process::{Gate, Process};
use super::world::World;
use crate::application::SfioApplication;
use crate::client::ClientConfig;
use crate::io::SfioClient;
use crate::io_node::{AccessRules, IoNodeConfig, Right};
use crate::sim::Dice;

/// What a cluster is made of.
#[derive(Debug, Clone)]
pub struct ClusterConfig {
    /// The names of the members.
    pub members: Vec<String>,
    /// What decides delays, orders and what a crash leaves.
    pub seed: u64,
    /// How long a signal is on its way, in ms.
    pub network_ms: Range<usize>,
    /// How long a disk takes for an operation, in ms.
    pub disk_ms: Range<usize>,
    /// How long a piece of a client's own work takes if it takes any time, in ms.
    pub work_ms: Range<usize>,
    /// After so long without a sign a session ends.
    pub silence: Duration,
    /// The most bytes on their way in one direction of a stream.
    pub stream_capacity: usize,
    /// The limits of every client.
    pub client: ClientConfig,
    /// The limits of every I/O node.
    pub io_node: IoNodeConfig,
}

impl ClusterConfig {
    /// These members, some milliseconds apart.
    pub fn new(members: &[&str], seed: u64) -> ClusterConfig {
        ClusterConfig {
            members: members.iter().map(|name| (*name).to_owned()).collect(),
            seed,
            network_ms: 1..6,
            disk_ms: 0..4,
            work_ms: 0..0,
            silence: Duration::from_secs(4),
            stream_capacity: 1 << 20,
            client: ClientConfig::default(),
            io_node: IoNodeConfig {
                access: AccessRules::everyone(Right::ReadWrite),
                ..IoNodeConfig::default()
            },
        }
    }
}

/// Members, a network and disks; it ends with this.
#[derive(Debug)]
pub struct Cluster {
    shared: Arc<Shared>,
    began: Instant,
    tasks: Mutex<JoinSet<()>>,
}

#[derive(Debug)]
struct Shared {
    world: Mutex<World>,
    changed: Notify,
}

/// Runs `work` on a runtime in whose virtual time a [`Cluster`] can live; what would block a thread runs in turn.
///
/// # Panics
/// If `work` does, or the runtime cannot be built.
pub fn run<T>(work: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    let runtime =
        builder.enable_time().start_paused(true).build().expect("a runtime needs nothing but memory");
    let _in_turn = crate::io::threads::in_turn();
    LocalSet::new().block_on(&runtime, work)
}

impl Cluster {
    /// Starts a cluster in which no process runs yet.
    ///
    /// # Panics
    /// Outside of [`run`].
    pub fn start(config: ClusterConfig) -> Cluster {
        crate::io::threads::take_time(Dice::new(config.seed), config.work_ms.clone());
        let shared = Arc::new(Shared { world: Mutex::new(World::new(config)), changed: Notify::new() });
        let (began, mut tasks) = (Instant::now(), JoinSet::new());
        tasks.spawn(drive(Arc::clone(&shared), began));
        Cluster { shared, began, tasks: Mutex::new(tasks) }
    }

    /// A new process of a client.
    ///
    /// # Panics
    /// If there is no such member.
    pub fn process(&self, member: &str) -> Process {
        let (handle, commands) = Handle::<SfioApplication>::simulated();
        let gate = Gate::default();
        let peer = self.world().start_client(member, gate.clone());
        let forward = forward(Arc::clone(&self.shared), self.began, peer, commands);
        self.tasks.lock().unwrap_or_else(PoisonError::into_inner).spawn(forward);
        Process { peer, client: SfioClient::new(handle, None), gate }
    }

    /// Looks at everything and changes it; not to be held while anything is waited for.
    pub fn world(&self) -> impl DerefMut<Target = World> + '_ {
        self.shared.world(self.began)
    }

    /// How long it has been running.
    pub fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

impl Shared {
    fn world(&self, began: Instant) -> Guard<'_> {
        let mut world = self.world.lock().unwrap_or_else(PoisonError::into_inner);
        world.set_now(Time::from_epoch(began.elapsed()));
        Guard { world, changed: &self.changed }
    }
}

struct Guard<'a> {
    world: MutexGuard<'a, World>,
    changed: &'a Notify,
}

impl Deref for Guard<'_> {
    type Target = World;

    fn deref(&self) -> &World {
        &self.world
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut World {
        &mut self.world
    }
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.changed.notify_one();
    }
}

/// Lets happen what is due, one thing after the other; the processes that it concerns have their turn in between.
async fn drive(shared: Arc<Shared>, began: Instant) {
    loop {
        let next = {
            let mut world = shared.world.lock().unwrap_or_else(PoisonError::into_inner);
            world.set_now(Time::from_epoch(began.elapsed()));
            world.step();
            world.next_time()
        };
        let elapsed = Time::from_epoch(began.elapsed());
        match next {
            Some(next) if next <= elapsed => yield_now().await,
            next => {
                // A cluster in which nothing is under way waits for its users.
                let wait = next.map_or(Duration::from_secs(3_600), |next| next.since(Time::ZERO));
                let until = if next.is_some() { began + wait } else { Instant::now() + wait };
                tokio::select! {
                    biased;
                    () = shared.changed.notified() => {}
                    () = sleep_until(until) => {}
                }
            }
        }
    }
}

/// Carries the commands of a process to its application.
async fn forward(shared: Arc<Shared>, began: Instant, peer: Peer, mut commands: Commands<SfioApplication>) {
    while let Some(command) = commands.next().await {
        if !shared.world(began).command(peer, command) {
            return;
        }
    }
    // Nobody can reach the process any more; it says nothing more, and is missed after a while.
    sleep(Duration::from_secs(1)).await;
    shared.world(began).kill(peer);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::{OpenMode, OperationError};
    use crate::distribution::StripeUnit;
    use crate::io::{FileError, OpenOptions, StripedFile};
    use crate::name::FileName;
    use crate::request::WriteList;

    fn name() -> FileName {
        "io1,a;io2,a;".parse().expect("a right name")
    }

    fn cluster(seed: u64) -> Cluster {
        let cluster = Cluster::start(ClusterConfig::new(&["client", "other", "io1", "io2"], seed));
        cluster.world().serve("io1").expect("a new root");
        cluster.world().serve("io2").expect("a new root");
        cluster
    }

    async fn create(client: &SfioClient) -> StripedFile {
        StripedFile::create(client, &name(), StripeUnit::new(100).expect("in range")).await.expect("created")
    }

    fn write_list(offset: u64, bytes: Vec<u8>) -> WriteList {
        WriteList::new([(offset, bytes.into())]).expect("in range")
    }

    fn is_closed<T>(result: Result<T, FileError>) -> bool {
        matches!(result, Err(FileError::Operation(OperationError::SessionClosed { .. })))
    }

    #[test]
    fn equal_seeds_give_equal_runs() {
        let play = |seed| {
            run(async {
                let cluster = cluster(seed);
                let process = cluster.process("client");
                let file = create(process.client()).await;
                let writes = (0..20).map(|i| file.submit_write(write_list(i * 1_000, vec![i as u8; 1_000])));
                for write in writes.collect::<Vec<_>>() {
                    write.wait().await.expect("written");
                }
                assert_eq!(file.read_at(19_000, 2_000).await.expect("read"), vec![19; 1_000]);
                (cluster.elapsed(), cluster.world().operations())
            })
        };
        assert_eq!(play(1), play(1));
        assert_ne!(play(1).0, play(2).0);
    }

    #[test]
    fn what_was_synced_survives_a_power_loss_and_a_cut_link_ends_sessions_in_time() {
        run(async {
            let cluster = cluster(3);
            let process = cluster.process("client");
            let file = create(process.client()).await;
            file.write_at(0, vec![1; 5_000]).await.expect("written");
            file.sync_all().await.expect("synced");
            cluster.world().lose_power("io2");
            assert!(is_closed(file.write_at(0, vec![2; 5_000]).await));
            cluster.world().serve("io2").expect("the same root");
            assert_eq!(file.len().await.expect("there again"), 5_000);
            cluster.world().cut("client", "io1");
            let began = cluster.elapsed();
            assert!(is_closed(file.read_at(0, 5_000).await));
            assert!((cluster.elapsed() - began).as_secs() >= 4);
            cluster.world().heal("client", "io1");
            assert_eq!(file.read_at(0, 5_000).await.expect("there again").len(), 5_000);
        });
    }

    /// What SIGSTOP does to a process, longer than its sessions live, and shorter.
    #[test]
    fn a_process_that_was_stopped_finds_its_sessions_gone_and_its_claims_with_them() {
        run(async {
            let cluster = cluster(4);
            let (one, other) = (cluster.process("client"), cluster.process("other"));
            let claim = OpenOptions::new().mode(OpenMode::Claim);
            let held = claim.open(one.client(), &name()).await.expect("nobody has it");
            assert!(claim.open(other.client(), &name()).await.is_err());
            for (seconds, is_free) in [(2, false), (6, true)] {
                cluster.world().stop(one.peer());
                let (held, peer) = (held.clone(), one.peer());
                let late = one.spawn(async move { held.write_at(0, "late").await });
                sleep(Duration::from_secs(seconds)).await;
                assert_eq!(claim.open(other.client(), &name()).await.is_ok(), is_free, "after {seconds} s");
                assert!(!late.is_finished());
                cluster.world().go_on(peer);
                assert_eq!(late.await.expect("no panic").expect("alive").is_ok(), !is_free);
            }
            let work = one.spawn(sleep(Duration::from_secs(60)));
            cluster.world().kill(one.peer());
            assert_eq!(work.await.expect("no panic"), None);
        });
    }
}
