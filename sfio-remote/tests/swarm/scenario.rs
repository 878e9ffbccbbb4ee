//! What a seed plays.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sfio_remote::distribution::StripeUnit;
use sfio_remote::io::replication::ManifestCache;
use sfio_remote::io::sim::{Cluster, ClusterConfig, Process, run};
use sfio_remote::sim::Dice;
use tokio::time::{sleep, timeout};

use crate::audit::audit;
use crate::commands::{Failure, Site, Sync, restore, rollback, sync, verify};
use crate::faults::{Fault, HARMFUL, HARMLESS, Shared};
use crate::trees::{TREES, Trees, folder, picture};

/// What came of a seed.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) story: String,
    pub(crate) failure: Option<String>,
    runs: u64,
    published: u64,
    faults: u64,
    restored: u64,
    virtual_ms: u64,
}

/// What all seeds together have shown.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    seeds: AtomicU64,
    runs: AtomicU64,
    published: AtomicU64,
    faults: AtomicU64,
    restored: AtomicU64,
    virtual_ms: AtomicU64,
}

impl Tally {
    pub(crate) fn add(&self, outcome: &Outcome) {
        let add = |to: &AtomicU64, count| _ = to.fetch_add(count, Ordering::Relaxed);
        add(&self.seeds, 1);
        add(&self.runs, outcome.runs);
        add(&self.published, outcome.published);
        add(&self.faults, outcome.faults);
        add(&self.restored, outcome.restored);
        add(&self.virtual_ms, outcome.virtual_ms);
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let get = |of: &AtomicU64| of.load(Ordering::Relaxed);
        write!(
            f,
            "{} seeds, {} runs, {} generations acknowledged, {} faults, {} generations restored and equal, \
             {} h of virtual time",
            get(&self.seeds),
            get(&self.runs),
            get(&self.published),
            get(&self.faults),
            get(&self.restored),
            get(&self.virtual_ms) / 3_600_000
        )
    }
}

/// Plays a seed.
pub(crate) fn play(seed: u64) -> Outcome {
    run(async {
        let play = Play::new(seed);
        let failure = match timeout(Duration::from_secs(100 * 24 * 3_600), play.run()).await {
            Ok(result) => result.err(),
            Err(_) => Some("it hangs".to_owned()),
        };
        let scene = play.shared.scene();
        Outcome {
            story: scene.story.clone(),
            failure,
            runs: play.count(&play.runs),
            published: play.count(&play.published),
            faults: scene.faults,
            restored: play.count(&play.restored),
            virtual_ms: play.cluster.elapsed().as_millis() as u64,
        }
    })
}

struct Play {
    cluster: Cluster,
    shared: Shared,
    site: Site,
    members: Vec<String>,
    rounds: usize,
    /// In which round something is to be lost, and what.
    harm: Option<(usize, Fault)>,
    runs: std::sync::Arc<AtomicU64>,
    published: std::sync::Arc<AtomicU64>,
    restored: AtomicU64,
    seed: u64,
}

/// What a process does, one after the other.
#[derive(Debug, Clone, Copy)]
enum Errand {
    Sync { tree: usize, keep: usize, checksum: bool },
    Restore,
    Verify,
    Rollback,
}

impl Play {
    fn new(seed: u64) -> Play {
        let mut dice = Dice::new(seed);
        // The first numbers of small seeds are alike.
        (0..8).for_each(|_| _ = dice.below(2));
        let io_nodes: Vec<String> = (0..1 + dice.below(3)).map(|number| format!("io{number}")).collect();
        let members: Vec<String> = (0..1 + dice.below(3)).map(|number| format!("w{number}")).collect();
        let names = members.iter().chain(&io_nodes).map(String::as_str).chain(["auditor"]);
        let mut config = ClusterConfig::new(&names.collect::<Vec<_>>(), seed);
        config.network_ms = [1..6, 5..60, 50..300][dice.below(3)].clone();
        config.disk_ms = [0..4, 1..30][dice.below(2)].clone();
        config.work_ms = [0..0, 1..200, 500..9_000][dice.below(3)].clone();
        config.silence = Duration::from_secs(if dice.one_in(4) { 60 } else { 4 });
        let stripe_unit = StripeUnit::new([64, 1_000, 4_096][dice.below(3)]).expect("in range");
        let rounds = 2 + dice.below(3);
        let harm = dice.one_in(3).then(|| (dice.below(rounds - 1), HARMFUL[dice.below(HARMFUL.len())]));
        let cluster = Cluster::start(config);
        Play {
            cluster,
            shared: Shared::new(seed, io_nodes.clone(), Duration::from_secs(3_600)),
            site: Site { io_nodes, stripe_unit },
            members,
            rounds,
            harm,
            runs: Default::default(),
            published: Default::default(),
            restored: AtomicU64::new(0),
            seed,
        }
    }

    fn count(&self, of: &AtomicU64) -> u64 {
        of.load(Ordering::Relaxed)
    }

    fn tell(&self, line: &str) {
        self.shared.tell(self.cluster.elapsed(), line);
    }

    async fn run(&self) -> Result<(), String> {
        let memory = folder();
        let remembering = ManifestCache::in_folder(memory.path());
        for name in &self.site.io_nodes {
            self.cluster.world().serve(name).map_err(|refusal| refusal.to_string())?;
        }
        for round in 0..self.rounds {
            self.tell(&format!("round {round}"));
            self.shared.take_snapshots(&mut self.cluster.world());
            self.play_round(round).await?;
            self.heal().await;
            for (cache, remembers) in [(&ManifestCache::none(), false), (&remembering, true)] {
                let restored = audit(&self.cluster, &self.shared, &self.site, cache, remembers).await;
                let restored = restored.map_err(|words| format!("round {round}: {words}"))?;
                self.restored.fetch_add(restored, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    async fn play_round(&self, round: usize) -> Result<(), String> {
        let mut dice = Dice::new(self.seed.wrapping_mul(31).wrapping_add(round as u64));
        (0..8).for_each(|_| _ = dice.below(2));
        let mut programs = Vec::new();
        for (index, member) in self.members.iter().enumerate() {
            let count = if index == 0 { 1 + dice.below(3) } else { dice.below(3) };
            for _ in 0..count {
                programs.push(self.begin(member, &mut dice));
            }
        }
        self.plan_faults(round, &mut dice);
        for program in programs {
            match program.await {
                Ok(None) => {}
                Ok(Some(result)) => result.map_err(|words| format!("round {round}: {words}"))?,
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            }
        }
        Ok(())
    }

    fn plan_faults(&self, round: usize, dice: &mut Dice) {
        let harm = self.harm.filter(|(when, _)| *when == round).map(|(_, fault)| fault);
        let harmless = (0..dice.below(4)).map(|_| dice.pick(&HARMLESS)).collect::<Vec<_>>();
        for fault in harmless.into_iter().chain(harm) {
            let shared = self.shared.clone();
            // Runs begin and end near the first ones; some are in the middle of others' work.
            let within = dice.pick(&[20, 60, 200]);
            let operations = dice.below(within) as u64;
            let mut world = self.cluster.world();
            world.after_operations(operations, move |world| shared.inject(world, fault));
        }
    }

    /// Starts a process that runs some commands.
    fn begin(&self, member: &str, dice: &mut Dice) -> tokio::task::JoinHandle<Option<Result<(), String>>> {
        let process = self.cluster.process(member);
        self.shared.scene().writers.push((member.to_owned(), process.peer()));
        let errands: Vec<(Duration, Errand)> = (0..1 + dice.below(3)).map(|_| draw(dice)).collect();
        let folder = folder();
        let program = Program {
            process: process.clone(),
            member: member.to_owned(),
            shared: self.shared.clone(),
            site: self.site.clone(),
            cache: if dice.one_in(3) {
                ManifestCache::none()
            } else {
                ManifestCache::in_folder(folder.path())
            },
            dice: Dice::new(self.seed ^ u64::from(process.peer().instance.0 as u32)),
            began: tokio::time::Instant::now() - self.cluster.elapsed(),
            runs: self.runs.clone(),
            published: self.published.clone(),
        };
        process.spawn(async move {
            let _folder = folder;
            program.run(errands).await
        })
    }

    /// Ends all faults, and waits until nothing of them is left.
    async fn heal(&self) {
        let writers = std::mem::take(&mut self.shared.scene().writers);
        {
            let mut world = self.cluster.world();
            world.forget_plans();
            for (_, peer) in &writers {
                world.go_on(*peer);
                world.kill(*peer);
            }
            for io_node in &self.site.io_nodes {
                self.members.iter().for_each(|member| world.heal(member, io_node));
                world.disk(io_node).inner_mut().set_capacity(u64::MAX);
                if world.serving(io_node).is_none() && world.serve(io_node).is_err() {
                    // Its operator has looked: the disk is lost.
                    world.forget_root(io_node);
                    world.serve(io_node).expect("a new root");
                }
            }
        }
        sleep(Duration::from_secs(130)).await;
    }
}

fn draw(dice: &mut Dice) -> (Duration, Errand) {
    let wait = Duration::from_millis([0, 0, 50, 700, 9_000][dice.below(5)]);
    let errand = match dice.below(10) {
        0 => Errand::Restore,
        1 => Errand::Verify,
        2 => Errand::Rollback,
        _ => Errand::Sync {
            tree: dice.below(TREES),
            keep: dice.pick(&[1, 2, 3, 10, 10, 10, 10]),
            checksum: dice.one_in(6),
        },
    };
    (wait, errand)
}

/// A process of a writer.
struct Program {
    process: Process,
    member: String,
    shared: Shared,
    site: Site,
    cache: ManifestCache,
    dice: Dice,
    began: tokio::time::Instant,
    runs: std::sync::Arc<AtomicU64>,
    published: std::sync::Arc<AtomicU64>,
}

impl Program {
    async fn run(mut self, errands: Vec<(Duration, Errand)>) -> Result<(), String> {
        for (wait, errand) in errands {
            sleep(wait).await;
            match errand {
                Errand::Sync { tree, keep, checksum } => self.sync(tree, keep, checksum).await?,
                Errand::Restore => self.restore().await?,
                Errand::Verify => {
                    let result = verify(self.process.client(), &self.site, &self.cache).await;
                    self.tell("verify", &result);
                }
                Errand::Rollback => self.rollback().await,
            }
        }
        Ok(())
    }

    fn tell<T: fmt::Debug>(&self, what: &str, result: &T) {
        let who = format!("{} (process {})", self.member, self.process.peer().instance.0);
        self.shared.tell(self.began.elapsed(), &format!("{who}: {what}: {result:?}"));
    }

    async fn sync(&mut self, tree: usize, keep: usize, checksum: bool) -> Result<(), String> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let attempt = self.shared.scene().book.begin(tree, keep);
        let off = self.shared.scene().clocks.get(&self.member).copied().unwrap_or_default();
        let now = 1_700_000_000_000 + self.began.elapsed().as_millis() as i64;
        let mut random = [0; 16];
        random.iter_mut().for_each(|byte| *byte = self.dice.below(256) as u8);
        let how = Sync { member: self.member.clone(), keep, checksum, now_ms: (now + off) as u64, random };
        self.tell(&format!("sync tree {tree}, keep {keep}"), &"begins");
        let result =
            sync(self.process.client(), &self.site, &self.cache, Trees::all().path(tree), &how).await;
        self.tell(&format!("sync tree {tree}, keep {keep}"), &result);
        let Ok((generation, is_new)) = result else { return Ok(()) };
        self.published.fetch_add(u64::from(is_new), Ordering::Relaxed);
        self.shared.scene().book.acknowledged(attempt, generation, is_new)
    }

    /// Restores a generation that was acknowledged before this began.
    async fn restore(&mut self) -> Result<(), String> {
        let all: Vec<(u64, usize)> = self.shared.scene().book.all().iter().map(|(g, t)| (*g, *t)).collect();
        if all.is_empty() {
            return Ok(());
        }
        let (generation, tree) = all[self.dice.below(all.len())];
        let target = folder();
        let restored: Result<(), Failure> =
            restore(self.process.client(), &self.site, &self.cache, generation, target.path()).await;
        self.tell(&format!("restore generation {generation}"), &restored);
        if restored.is_ok() && picture(target.path()) != *Trees::all().picture(tree) {
            return Err(format!(
                "{} restored generation {generation} with code 0; it is not tree {tree}",
                self.member
            ));
        }
        Ok(())
    }

    async fn rollback(&mut self) {
        let all: Vec<u64> = self.shared.scene().book.all().keys().copied().collect();
        if !all.is_empty() {
            let generation = all[self.dice.below(all.len())];
            let result = rollback(self.process.client(), &self.site, generation).await;
            self.tell(&format!("roll back to generation {generation}"), &result);
        }
    }
}
