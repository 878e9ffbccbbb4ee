//! What a seed plays.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sfio_remote::distribution::StripeUnit;
use sfio_remote::io::replication::ManifestCache;
use sfio_remote::io::sim::{Cluster, ClusterConfig, Process, run};
use sfio_remote::io_node::{AccessRules, Right, Rights};
use sfio_remote::sim::{Dice, identity_of};
use tempfile::TempDir;
use tokio::time::{Instant, sleep, timeout};

use crate::audit::{Audit, Findings};
use crate::book::Damage;
use crate::commands::{Failure, Place, SyncOptions, User};
use crate::faults::{Fault, HARMFUL, HARMLESS, Shared};
use crate::program::{Errand, Program, draw, records_on};
use crate::trees::{TREES, Trees, folder};

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

/// One seed's cluster, and who has to do with it.
struct Play {
    cluster: Arc<Cluster>,
    shared: Shared,
    place: Place,
    members: Vec<Member>,
    rounds: usize,
    /// In which round something is to be lost, and what.
    harm: Option<(usize, Fault)>,
    runs: Arc<AtomicU64>,
    published: Arc<AtomicU64>,
    restored: AtomicU64,
    /// What the machines remember of the one who only reads and the one who repairs.
    auditor: TempDir,
    auditor_unseen_from: AtomicU64,
    operator: TempDir,
    began: Instant,
    /// Whether processes of writers were copied while they ran, so that two draw the same random numbers.
    are_copied: bool,
    seed: u64,
}

/// A member that sends trees.
struct Member {
    name: String,
    may_only_append: bool,
    cache: Option<TempDir>,
}

/// Nobody looks at a run of the readers for so long.
const GRACE: Duration = Duration::from_secs(3_600);
/// Longer than a session lives on, and the grace of a claim.
const QUIET: Duration = Duration::from_secs(130);

impl Play {
    fn new(seed: u64) -> Play {
        let mut dice = Dice::new(seed);
        // The first numbers of small seeds are alike.
        (0..8).for_each(|_| _ = dice.below(2));
        let io_nodes: Vec<String> = (0..1 + dice.below(3)).map(|number| format!("io{number}")).collect();
        let members: Vec<Member> =
            (0..1 + dice.below(3)).map(|number| Member::draw(number, &mut dice)).collect();
        let names = members.iter().map(|member| member.name.as_str());
        let names: Vec<&str> =
            names.chain(io_nodes.iter().map(String::as_str)).chain(["auditor", "operator"]).collect();
        let mut config = ClusterConfig::new(&names, seed);
        config.network_ms = [1..6, 5..60, 50..300][dice.below(3)].clone();
        config.disk_ms = [0..4, 1..30][dice.below(2)].clone();
        config.work_ms = [0..0, 1..200, 500..9_000][dice.below(3)].clone();
        config.silence = Duration::from_secs(if dice.one_in(4) { 60 } else { 4 });
        config.io_node.access = access(&members);
        config.io_node.reclaim_after = GRACE;
        let stripe_unit = StripeUnit::new([64, 1_000, 4_096][dice.below(3)]).expect("in range");
        let rounds = 2 + dice.below(3);
        let harm = dice.one_in(3).then(|| (dice.below(rounds - 1), HARMFUL[dice.below(HARMFUL.len())]));
        let keys =
            names.iter().map(|name| ((*name).to_owned(), identity_of(name).public().ed25519)).collect();
        let cluster = Arc::new(Cluster::start(config));
        let shared = Shared::new(seed, io_nodes.clone(), GRACE);
        for member in &members {
            let cache = member.cache.as_ref().map(|cache| cache.path().to_owned());
            shared.scene().caches.extend(cache.map(|cache| (member.name.clone(), cache)));
        }
        Play {
            began: Instant::now() - cluster.elapsed(),
            cluster,
            shared,
            place: Place { io_nodes, stripe_unit, keys: Arc::new(keys) },
            members,
            rounds,
            harm,
            runs: Arc::default(),
            published: Arc::default(),
            restored: AtomicU64::new(0),
            auditor: folder(),
            auditor_unseen_from: AtomicU64::new(0),
            operator: folder(),
            are_copied: dice.one_in(10),
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
        for name in &self.place.io_nodes {
            self.cluster.world().serve(name).map_err(|refusal| refusal.to_string())?;
        }
        for round in 0..self.rounds {
            self.tell(&format!("round {round}"));
            self.round(round).await.map_err(|words| format!("round {round}: {words}"))?;
        }
        Ok(())
    }

    async fn round(&self, round: usize) -> Result<(), String> {
        let mut dice = Dice::new(self.seed.wrapping_mul(31).wrapping_add(round as u64));
        (0..8).for_each(|_| _ = dice.below(2));
        self.shared.take_snapshots(&mut self.cluster.world());
        self.let_programs_run(round, &mut dice).await?;
        self.heal().await;
        self.audit().await?;
        if self.shared.scene().book.damage().is_some() {
            self.operate(&mut dice).await?;
            self.audit().await?;
        } else {
            self.send_undisturbed(&mut dice).await?;
        }
        if dice.one_in(2) {
            // What was condemned may go now.
            sleep(GRACE + QUIET).await;
        }
        Ok(())
    }

    async fn let_programs_run(&self, round: usize, dice: &mut Dice) -> Result<(), String> {
        let mut programs = Vec::new();
        for (index, member) in self.members.iter().enumerate() {
            let count = if index == 0 { 1 + dice.below(3) } else { dice.below(4) };
            for _ in 0..count {
                programs.push(self.begin(member, dice));
            }
        }
        self.plan_faults(round, dice);
        for program in programs {
            match program.await {
                Ok(None) => {}
                Ok(Some(result)) => result?,
                Err(panic) => std::panic::resume_unwind(panic.into_panic()),
            }
        }
        Ok(())
    }

    fn plan_faults(&self, round: usize, dice: &mut Dice) {
        let harm = self.harm.filter(|(when, _)| *when == round).map(|(_, fault)| fault);
        let harmless = (0..dice.below(4)).map(|_| dice.pick(&HARMLESS)).collect::<Vec<_>>();
        for fault in harmless.into_iter().chain(harm) {
            // Runs begin and end near the first ones; some are in the middle of others' work.
            let within = dice.pick(&[20, 60, 200]);
            let (operations, earlier) = (dice.below(within) as u64, dice.below(within) as u64);
            let mut world = self.cluster.world();
            if fault == Fault::OlderDisk {
                let shared = self.shared.clone();
                world.after_operations(earlier, move |world| shared.take_snapshots(world));
            }
            let shared = self.shared.clone();
            world.after_operations(operations, move |world| shared.inject(world, fault));
        }
    }

    /// Starts a process that runs some commands.
    fn begin(&self, member: &Member, dice: &mut Dice) -> tokio::task::JoinHandle<Option<Result<(), String>>> {
        let process = self.cluster.process(&member.name);
        self.shared.scene().writers.push((member.name.clone(), process.peer()));
        let errands: Vec<(Duration, Errand)> = (0..1 + dice.below(3)).map(|_| draw(dice)).collect();
        let cache = member
            .cache
            .as_ref()
            .map_or_else(ManifestCache::none, |cache| ManifestCache::in_folder(cache.path()));
        let mut user = self.user(&process, &member.name, cache);
        user.accepts_older = dice.one_in(8);
        user.patience = Duration::from_secs(dice.pick(&[0, 600, 600, 10_000]) as u64);
        if self.are_copied {
            let seed = self.seed.wrapping_mul(0x9e37_79b9) ^ ((process.peer().instance.0 / 2) << 32);
            user.dice = Arc::new(Mutex::new(Dice::new(seed)));
        }
        let program = Program {
            peer: process.peer(),
            user,
            may_only_append: member.may_only_append,
            cluster: Arc::downgrade(&self.cluster),
            shared: self.shared.clone(),
            dice: Dice::new(self.seed.wrapping_mul(977) ^ process.peer().instance.0),
            began: self.began,
            runs: Arc::clone(&self.runs),
            published: Arc::clone(&self.published),
        };
        process.spawn(program.run(errands))
    }

    /// Somebody at the keyboard of a member.
    fn user(&self, process: &Process, member: &str, cache: ManifestCache) -> User {
        let (shared, began, name) = (self.shared.clone(), self.began, member.to_owned());
        let seed = self.seed.wrapping_mul(0x9e37_79b9) ^ (process.peer().instance.0 << 32);
        User {
            client: process.client().clone(),
            member: member.to_owned(),
            place: self.place.clone(),
            cache,
            accepts_older: false,
            patience: Duration::from_secs(600),
            dice: Arc::new(Mutex::new(Dice::new(seed))),
            clock: Arc::new(move || {
                let off = shared.scene().clocks.get(&name).copied().unwrap_or_default();
                (1_700_000_000_000 + began.elapsed().as_millis() as i64 + off) as u64
            }),
        }
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
            for io_node in &self.place.io_nodes {
                self.members.iter().for_each(|member| world.heal(&member.name, io_node));
                world.disk(io_node).inner_mut().set_capacity(u64::MAX);
                if world.serving(io_node).is_none() && world.serve(io_node).is_err() {
                    // Its operator has looked: the disk is lost.
                    if self.place.io_nodes.len() == 1 {
                        self.shared.scene().book.damaged(Damage::OnlyDisk);
                    }
                    world.forget_root(io_node);
                    world.serve(io_node).expect("a new root");
                }
            }
        }
        sleep(QUIET).await;
    }

    async fn audit(&self) -> Result<(), String> {
        let remembered = self.auditor_unseen_from.load(Ordering::Relaxed);
        self.audit_with(ManifestCache::none(), 0).await?;
        let found = self.audit_with(ManifestCache::in_folder(self.auditor.path()), remembered).await?;
        self.auditor_unseen_from.store(found.unseen_from, Ordering::Relaxed);
        Ok(())
    }

    async fn audit_with(&self, cache: ManifestCache, unseen_from: u64) -> Result<Findings, String> {
        let process = self.cluster.process("auditor");
        let user = self.user(&process, "auditor", cache);
        let found = Audit { user, shared: &self.shared, unseen_from }.run().await?;
        self.restored.fetch_add(found.restored, Ordering::Relaxed);
        self.cluster.world().kill(process.peer());
        Ok(found)
    }

    /// Where nothing is lost and nobody disturbs, a run comes to its end, and its words are true.
    async fn send_undisturbed(&self, dice: &mut Dice) -> Result<(), String> {
        let process = self.cluster.process("operator");
        let user = self.user(&process, "operator", ManifestCache::in_folder(self.operator.path()));
        let tree = dice.below(TREES);
        let sent = self.send(&user, tree).await;
        self.cluster.world().kill(process.peer());
        match sent {
            Ok(()) => Ok(()),
            Err(failure) => Err(format!("an undisturbed run ends with {failure:?}")),
        }
    }

    /// What an operator does who is told that something is lost: has it repaired and recorded, and has an intact tree
    /// sent. What one disk of several has lost the sizes of objects tell as well, so not every operator verifies.
    async fn operate(&self, dice: &mut Dice) -> Result<(), String> {
        let process = self.cluster.process("operator");
        let mut user = self.user(&process, "operator", ManifestCache::in_folder(self.operator.path()));
        user.accepts_older = true;
        self.send_in_disagreement(&user).await?;
        let repaired = user.repair().await;
        self.tell(&format!("operator: repair: {repaired:?}"));
        says_so_if_it_fails("repair", &repaired)?;
        let is_seen_by_readers_only = self.shared.scene().book.damage() == Some(Damage::Bit);
        if is_seen_by_readers_only || dice.one_in(2) {
            let verified = user.verify().await;
            self.tell(&format!("operator: verify: {verified:?}"));
            says_so_if_it_fails("verify", &verified)?;
            self.shared.scene().book.damage_is_known();
        }
        let current = user.generations().await.ok().map(|listed| listed.current);
        let tree = current.and_then(|current| self.shared.scene().book.all().get(&current).copied());
        let sent = self.send(&user, tree.unwrap_or(0)).await;
        self.tell(&format!("operator: sync: {sent:?}"));
        self.cluster.world().kill(process.peer());
        says_so_if_it_fails("sync after a repair", &sent)
    }

    /// While I/O nodes disagree a run says so, and adds to the records of none of them.
    async fn send_in_disagreement(&self, user: &User) -> Result<(), String> {
        let disagreements = user.disagreements().await;
        if disagreements.is_empty() {
            return Ok(());
        }
        let before = self.records();
        let how = SyncOptions { keep: 100, checksum: false, if_current: false };
        match user.sync(Trees::all().path(0), how).await {
            Err(failure) if failure.says_so() && self.records() == before => Ok(()),
            sent => Err(format!("{disagreements:?}, and a sync publishes or does not say so: {sent:?}")),
        }
    }

    /// The paths of all records, disk by disk.
    fn records(&self) -> Vec<Vec<String>> {
        let mut world = self.cluster.world();
        self.place.io_nodes.iter().map(|io_node| records_on(world.disk(io_node).inner())).collect()
    }

    async fn send(&self, user: &User, tree: usize) -> Result<(), Failure> {
        let keep = 100;
        let attempt = self.shared.scene().book.begin(tree, keep);
        let how = SyncOptions { keep, checksum: false, if_current: false };
        let (generation, is_new) = user.sync(Trees::all().path(tree), how).await?;
        let said = self.shared.scene().book.acknowledged(attempt, generation, is_new);
        said.map_err(|words| Failure { code: 0, words })
    }
}

/// What a command may say of a cluster of which a disk has lost something.
fn says_so_if_it_fails(command: &str, done: &Result<(), Failure>) -> Result<(), String> {
    match done {
        Err(failure) if !failure.says_so() => Err(format!("{command} of a damaged disk: {failure:?}")),
        _ => Ok(()),
    }
}

impl Member {
    fn draw(number: usize, dice: &mut Dice) -> Member {
        Member {
            name: format!("w{number}"),
            may_only_append: number > 0 && dice.one_in(3),
            cache: (!dice.one_in(3)).then(folder),
        }
    }
}

fn access(members: &[Member]) -> AccessRules {
    let of = |member: &Member| if member.may_only_append { Right::Append } else { Right::ReadWrite };
    let rules = AccessRules::default()
        .with("auditor", Rights::everywhere(Right::Read))
        .with("operator", Rights::everywhere(Right::ReadWrite));
    members.iter().fold(rules, |rules, member| rules.with(&member.name, Rights::everywhere(of(member))))
}
