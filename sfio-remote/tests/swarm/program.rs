//! What the processes of writers do.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use fec_transport::overlay::Peer;
use sfio_remote::io::sim::Cluster;
use sfio_remote::replication::SignedRecord;
use sfio_remote::sim::Dice;
use sfio_remote::store::MemoryStore;
use tokio::time::{Instant, sleep};

use crate::commands::{Failure, SyncOptions, User};
use crate::faults::Shared;
use crate::forger::Forgery;
use crate::trees::{TREES, Trees, folder, picture};
use crate::trespasser::Trespass;

/// What a process does, one after the other.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Errand {
    Sync { tree: usize, how: SyncOptions },
    Restore,
    Verify,
    Rollback,
    Forget,
    Remove,
    Repair,
    Forge(Forgery),
    Trespass(Trespass),
}

/// What no member may do, whatever its rights.
const MISDEEDS: [Errand; 11] = [
    Errand::Forge(Forgery::Stale),
    Errand::Forge(Forgery::Replaces),
    Errand::Forge(Forgery::ReusesNumber),
    Errand::Forge(Forgery::NamesCondemned),
    Errand::Forge(Forgery::NamesNothing),
    Errand::Trespass(Trespass::Overwrites),
    Errand::Trespass(Trespass::Truncates),
    Errand::Trespass(Trespass::Removes),
    Errand::Trespass(Trespass::Renames),
    Errand::Trespass(Trespass::Syncs),
    Errand::Trespass(Trespass::Reclaims),
];

/// An errand, and how long the process waits before it.
pub(crate) fn draw(dice: &mut Dice) -> (Duration, Errand) {
    let wait = Duration::from_millis([0, 0, 50, 700, 9_000][dice.below(5)]);
    let errand = match dice.below(16) {
        0 => Errand::Restore,
        1 => Errand::Verify,
        2 => Errand::Rollback,
        3 => Errand::Forget,
        4 => Errand::Repair,
        5 => dice.pick(&MISDEEDS),
        6 => Errand::Remove,
        _ => Errand::Sync {
            tree: dice.below(TREES),
            how: SyncOptions {
                keep: dice.pick(&[1, 2, 3, 10, 10, 10, 10]),
                checksum: dice.one_in(6),
                if_current: dice.one_in(8),
            },
        },
    };
    (wait, errand)
}

/// The paths of the records on a disk.
pub(crate) fn records_on(disk: &MemoryStore) -> Vec<String> {
    let paths = disk.paths().map(ToString::to_string);
    paths.filter(|path| path.starts_with("set/commits/")).collect()
}

/// A process of a writer.
pub(crate) struct Program {
    pub(crate) peer: Peer,
    pub(crate) user: User,
    pub(crate) may_only_append: bool,
    /// The cluster, which holds this program's task.
    pub(crate) cluster: Weak<Cluster>,
    pub(crate) shared: Shared,
    pub(crate) dice: Dice,
    pub(crate) began: Instant,
    pub(crate) runs: Arc<AtomicU64>,
    pub(crate) published: Arc<AtomicU64>,
}

impl Program {
    pub(crate) async fn run(mut self, errands: Vec<(Duration, Errand)>) -> Result<(), String> {
        for (wait, errand) in errands {
            sleep(wait).await;
            match errand {
                Errand::Sync { tree, how } => self.sync(tree, how).await?,
                Errand::Restore => self.restore().await?,
                Errand::Verify => {
                    let result = self.user.verify().await;
                    self.judge("verify", &result)?;
                }
                Errand::Rollback => self.roll_back().await?,
                Errand::Forget => self.forget().await?,
                Errand::Remove => self.remove().await?,
                Errand::Repair => {
                    let result = self.user.repair().await;
                    self.judge("repair", &result)?;
                }
                Errand::Forge(forgery) => self.forge(forgery).await?,
                Errand::Trespass(trespass) => self.trespass(trespass).await?,
            }
        }
        Ok(())
    }

    fn tell<T: fmt::Debug>(&self, what: &str, result: &T) {
        let who = format!("{} (process {})", self.user.member, self.peer.instance.0);
        self.shared.tell(self.began.elapsed(), &format!("{who}: {what}: {result:?}"));
    }

    /// Where no disk has lost anything, nobody says so.
    fn judge<T: fmt::Debug>(&self, what: &str, result: &Result<T, Failure>) -> Result<(), String> {
        self.tell(what, result);
        match result {
            Err(failure) if failure.code == 5 && self.shared.scene().book.damage().is_none() => {
                Err(format!("{what}: nothing is lost, but {} is told {failure:?}", self.user.member))
            }
            _ => Ok(()),
        }
    }

    async fn sync(&mut self, tree: usize, how: SyncOptions) -> Result<(), String> {
        self.runs.fetch_add(1, Ordering::Relaxed);
        let keep = if self.may_only_append { usize::MAX } else { how.keep };
        let attempt = self.shared.scene().book.begin(tree, keep);
        let what = format!("sync tree {tree}, keep {}", how.keep);
        self.tell(&what, &"begins");
        let result = self.user.sync(Trees::all().path(tree), how).await;
        self.judge(&what, &result)?;
        let Ok((generation, is_new)) = result else { return Ok(()) };
        self.published.fetch_add(u64::from(is_new), Ordering::Relaxed);
        self.shared.scene().book.acknowledged(attempt, generation, is_new)?;
        self.is_known_everywhere(generation)
    }

    /// What is acknowledged is in a record on each disk: none of them can take its name alone with it.
    fn is_known_everywhere(&self, generation: u64) -> Result<(), String> {
        let Some(cluster) = self.cluster.upgrade() else { return Ok(()) };
        let (mut world, scene) = (cluster.world(), self.shared.scene());
        let mut knows = |io_node: &String| {
            let disk = world.disk(io_node).inner();
            let paths = records_on(disk).into_iter();
            let parsed = paths.filter_map(|path| SignedRecord::parse(disk.content(&path)?.into()).ok());
            parsed.map(|record| record.next_generation).max() > Some(generation)
        };
        match scene.io_nodes.iter().find(|io_node| !knows(io_node)) {
            Some(io_node) if scene.book.damage().is_none() => {
                Err(format!("generation {generation} was acknowledged, and {io_node} has no record of it"))
            }
            _ => Ok(()),
        }
    }

    /// Restores a generation that was acknowledged before this began.
    async fn restore(&mut self) -> Result<(), String> {
        let Some((generation, tree)) = self.some_generation() else { return Ok(()) };
        let target = folder();
        let result = self.user.restore(generation, target.path()).await;
        self.tell(&format!("restore generation {generation}"), &result);
        let scene = self.shared.scene();
        let (is_damaged, slept) = (scene.book.damage().is_some(), scene.slept.contains(&self.peer));
        match result {
            Ok(()) if picture(target.path()) != *Trees::all().picture(tree) && !is_damaged => {
                Err(format!("{} restored generation {generation}; it is not tree {tree}", self.user.member))
            }
            Err(failure) if failure.code == 5 && !is_damaged && !slept => {
                Err(format!("{} was restoring generation {generation}: {failure:?}", self.user.member))
            }
            _ => Ok(()),
        }
    }

    async fn roll_back(&mut self) -> Result<(), String> {
        let Some((generation, _)) = self.some_generation() else { return Ok(()) };
        let result = self.user.roll_back(generation).await;
        self.judge(&format!("roll back to generation {generation}"), &result)
    }

    async fn forget(&mut self) -> Result<(), String> {
        let Some((generation, _)) = self.some_generation() else { return Ok(()) };
        if !self.may_only_append {
            self.shared.scene().book.begin_to_forget(generation);
        }
        let result = self.user.forget(generation).await;
        self.judge(&format!("forget generation {generation}"), &result)
    }

    async fn remove(&mut self) -> Result<(), String> {
        let removal = (!self.may_only_append).then(|| self.shared.scene().book.begin_to_remove());
        let result = self.user.remove().await;
        // Of one that failed nobody knows yet what its I/O nodes have.
        if let (Some(removal), Ok(_)) = (removal, &result) {
            self.shared.scene().book.removed(removal);
        }
        self.judge("remove the data set", &result)
    }

    /// Nothing that this member signs wrongly takes its place in the chain.
    async fn forge(&mut self, forgery: Forgery) -> Result<(), String> {
        let taken = self.user.forge(forgery, &mut self.dice).await;
        self.tell(&format!("forges a record ({forgery:?})"), &taken);
        // An I/O node whose record is damaged takes another one in its place, which is how it is repaired.
        let is_repaired = forgery == Forgery::Replaces && self.shared.scene().book.damage().is_some();
        match taken {
            Some(true) if !is_repaired => {
                Err(format!("a forged record of {} was published: {forgery:?}", self.user.member))
            }
            _ => Ok(()),
        }
    }

    /// Nothing that is published changes.
    async fn trespass(&mut self, trespass: Trespass) -> Result<(), String> {
        let allowed = self.user.trespass(trespass, &mut self.dice).await;
        self.tell(&format!("trespasses ({trespass:?})"), &allowed);
        match allowed {
            Some(true) => {
                Err(format!("{} did to an object of others what nobody may: {trespass:?}", self.user.member))
            }
            Some(false) | None => Ok(()),
        }
    }

    fn some_generation(&mut self) -> Option<(u64, usize)> {
        let all: Vec<(u64, usize)> = self.shared.scene().book.all().iter().map(|(g, t)| (*g, *t)).collect();
        (!all.is_empty()).then(|| all[self.dice.below(all.len())])
    }
}
