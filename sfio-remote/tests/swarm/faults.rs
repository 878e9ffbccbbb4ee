//! What befalls a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fec_transport::overlay::Peer;
use sfio_remote::io::sim::World;
use sfio_remote::name::SubfilePath;
use sfio_remote::sim::Dice;
use sfio_remote::store::MemoryStore;

use crate::book::{Book, Damage};

/// What programs, faults and the audit share.
#[derive(Debug, Clone)]
pub(crate) struct Shared(Arc<Mutex<Scene>>);

/// The state of a play beside the cluster.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) book: Book,
    pub(crate) dice: Dice,
    pub(crate) io_nodes: Vec<String>,
    /// The writers that may still run, with their members.
    pub(crate) writers: Vec<(String, Peer)>,
    /// Disks as they were at some time.
    snapshots: BTreeMap<String, Vec<MemoryStore>>,
    /// What the machine of each member remembers.
    pub(crate) caches: BTreeMap<String, PathBuf>,
    /// Processes that stood still for longer than readers are waited for.
    pub(crate) slept: BTreeSet<Peer>,
    /// How far the wall clock of each member is off, in ms.
    pub(crate) clocks: BTreeMap<String, i64>,
    pub(crate) grace: Duration,
    pub(crate) story: String,
    pub(crate) faults: u64,
}

/// One thing that goes wrong, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A writer stands still, as a laptop does whose lid is closed.
    Stop,
    /// A writer is killed.
    Kill,
    /// The power of a member fails: its processes are gone, and its cache is as its disk happens to have it.
    ClientPowerLoss,
    /// Nothing travels between a member and an I/O node.
    Outage,
    /// Sessions end, and replies are lost.
    LostReplies,
    /// The process of an I/O node dies and is started again.
    IoNodeDies,
    /// The power of an I/O node fails.
    PowerLoss,
    /// A disk is full for a while.
    FullDisk,
    /// A wall clock jumps.
    ClockJump,
    /// An I/O node comes back with a disk that is empty.
    EmptyDisk,
    /// An I/O node comes back with a disk as it was before.
    OlderDisk,
    /// A bit flips on a disk.
    FlippedBit,
}

impl Fault {
    fn is_of_writer(self) -> bool {
        use Fault::{ClientPowerLoss, ClockJump, Kill, LostReplies, Outage, Stop};
        matches!(self, Stop | Kill | ClientPowerLoss | Outage | LostReplies | ClockJump)
    }
}

/// Those that take nothing from a disk that it had promised to keep.
pub(crate) const HARMLESS: [Fault; 9] = [
    Fault::Stop,
    Fault::Kill,
    Fault::ClientPowerLoss,
    Fault::Outage,
    Fault::LostReplies,
    Fault::IoNodeDies,
    Fault::PowerLoss,
    Fault::FullDisk,
    Fault::ClockJump,
];

/// Those that do.
pub(crate) const HARMFUL: [Fault; 3] = [Fault::EmptyDisk, Fault::OlderDisk, Fault::FlippedBit];

impl Shared {
    pub(crate) fn new(seed: u64, io_nodes: Vec<String>, grace: Duration) -> Shared {
        Shared(Arc::new(Mutex::new(Scene {
            book: Book::default(),
            dice: Dice::new(seed ^ 0xfa17),
            io_nodes,
            writers: Vec::new(),
            snapshots: BTreeMap::new(),
            caches: BTreeMap::new(),
            slept: BTreeSet::new(),
            clocks: BTreeMap::new(),
            grace,
            story: String::new(),
            faults: 0,
        })))
    }

    pub(crate) fn scene(&self) -> MutexGuard<'_, Scene> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more line of the story.
    pub(crate) fn tell(&self, at: Duration, line: &str) {
        self.scene().story.push_str(&format!("{:>10.3} s  {line}\n", at.as_secs_f64()));
    }

    /// Keeps the disks as they are now.
    pub(crate) fn take_snapshots(&self, world: &mut World) {
        let io_nodes = self.scene().io_nodes.clone();
        for name in io_nodes {
            let disk = world.disk(&name).inner().clone();
            self.scene().snapshots.entry(name).or_default().push(disk);
        }
    }

    /// Lets `fault` happen now, and end after a while.
    pub(crate) fn inject(&self, world: &mut World, fault: Fault) {
        let Drawn { io_node, writer, wait, mut dice } = self.scene().draw(fault);
        let at = world.now().since_epoch();
        let whom = match (fault, &writer) {
            (_, None) if fault.is_of_writer() => return,
            (Fault::Stop | Fault::Kill | Fault::ClockJump | Fault::ClientPowerLoss, Some((member, peer))) => {
                format!("{member} (process {})", peer.instance.0)
            }
            (Fault::Outage | Fault::LostReplies, Some((member, _))) => format!("{member} and {io_node}"),
            _ => io_node.clone(),
        };
        self.tell(at, &format!("*** {fault:?}: {whom}, for {wait:?}"));
        match writer {
            Some((member, peer)) if fault.is_of_writer() => {
                self.befall_writer(world, fault, Victim { member, peer, io_node, wait, whom }, &mut dice);
            }
            _ => self.befall_io_node(world, fault, io_node, wait, &mut dice),
        }
    }

    fn befall_writer(&self, world: &mut World, fault: Fault, victim: Victim, dice: &mut Dice) {
        let Victim { member, peer, io_node, wait, whom } = victim;
        match fault {
            Fault::Stop => {
                if wait >= self.scene().grace {
                    self.scene().slept.insert(peer);
                }
                world.stop(peer);
                self.later(world, wait, format!("{whom} goes on"), move |world| world.go_on(peer));
            }
            Fault::Kill => world.kill(peer),
            Fault::ClientPowerLoss => {
                let all = self.scene().writers.clone();
                all.iter().filter(|(other, _)| *other == member).for_each(|(_, peer)| world.kill(*peer));
                let cache = self.scene().caches.get(&member).cloned();
                cache.iter().for_each(|cache| spoil(cache, dice));
            }
            Fault::Outage => {
                world.cut(&member, &io_node);
                self.later(world, wait, format!("{whom} reach each other"), move |world| {
                    world.heal(&member, &io_node);
                });
            }
            Fault::LostReplies => world.break_session(&member, &io_node),
            Fault::ClockJump => {
                let jump = dice.below(7_200_000_000) as i64 - 3_600_000_000;
                *self.scene().clocks.entry(member).or_default() += jump;
            }
            _ => {}
        }
    }

    fn befall_io_node(
        &self,
        world: &mut World,
        fault: Fault,
        io_node: String,
        wait: Duration,
        dice: &mut Dice,
    ) {
        let is_alone = self.scene().io_nodes.len() == 1;
        let damage = if is_alone { Damage::OnlyDisk } else { Damage::Disk };
        match fault {
            Fault::IoNodeDies => {
                world.stop_serving(&io_node);
                self.serve_later(world, wait, io_node);
            }
            Fault::PowerLoss => {
                world.lose_power(&io_node);
                self.serve_later(world, wait, io_node);
            }
            Fault::FullDisk => {
                let used = world.disk(&io_node).inner().used_bytes();
                world.disk(&io_node).inner_mut().set_capacity(used + 4_096 * dice.below(20) as u64);
                self.later(world, wait, format!("{io_node} has room"), move |world| {
                    world.disk(&io_node).inner_mut().set_capacity(u64::MAX);
                });
            }
            Fault::EmptyDisk => {
                // Nobody serves it before its operator says that the disk was replaced.
                self.scene().book.damaged(Damage::Disk);
                world.lose_power(&io_node);
                world.empty_disk(&io_node);
                self.serve_later(world, wait, io_node);
            }
            Fault::OlderDisk => {
                let older = {
                    let scene = self.scene();
                    let snapshots = scene.snapshots.get(&io_node);
                    snapshots.filter(|kept| !kept.is_empty()).map(|kept| kept[dice.below(kept.len())].clone())
                };
                let Some(older) = older else { return };
                self.scene().book.damaged(damage);
                world.lose_power(&io_node);
                *world.disk(&io_node).inner_mut() = older;
                self.serve_later(world, wait, io_node);
            }
            Fault::FlippedBit => {
                if let Some(path) = flip(world.disk(&io_node).inner_mut(), dice) {
                    self.scene().book.damaged(Damage::Bit);
                    self.tell(world.now().since_epoch(), &format!("    in {path}"));
                }
            }
            _ => {}
        }
    }

    fn serve_later(&self, world: &mut World, wait: Duration, io_node: String) {
        self.later(world, wait, format!("{io_node} serves again"), move |world| {
            if world.serving(&io_node).is_none() {
                // A disk without its identity is not served until somebody says that it was replaced.
                let _ = world.serve(&io_node);
            }
        });
    }

    fn later(
        &self,
        world: &mut World,
        wait: Duration,
        line: String,
        event: impl FnOnce(&mut World) + Send + 'static,
    ) {
        let shared = self.clone();
        world.after(wait, move |world| {
            shared.tell(world.now().since_epoch(), &line);
            event(world);
        });
    }
}

/// A writer whom a fault concerns.
struct Victim {
    member: String,
    peer: Peer,
    io_node: String,
    wait: Duration,
    whom: String,
}

/// Whom a fault concerns, and for how long.
struct Drawn {
    io_node: String,
    writer: Option<(String, Peer)>,
    wait: Duration,
    dice: Dice,
}

impl Scene {
    fn draw(&mut self, fault: Fault) -> Drawn {
        self.faults += 1;
        let io_node = self.io_nodes[self.dice.below(self.io_nodes.len())].clone();
        let writer = match self.writers.len() {
            0 => None,
            count => Some(self.writers[self.dice.below(count)].clone()),
        };
        let grace = self.grace.as_secs() as usize;
        let seconds = [1, 3, 6, 20, 100, 700, grace, 3 * grace];
        let choice = self.dice.below(if fault == Fault::Stop { seconds.len() } else { 5 });
        let dice = Dice::new(self.dice.below(1 << 30) as u64);
        Drawn { io_node, writer, wait: Duration::from_secs(seconds[choice] as u64), dice }
    }
}

/// Flips a bit of some file; says which.
fn flip(disk: &mut MemoryStore, dice: &mut Dice) -> Option<String> {
    let paths: Vec<String> = disk.paths().map(ToString::to_string).collect();
    if paths.is_empty() {
        return None;
    }
    let path = &paths[dice.below(paths.len())];
    let length = disk.content(path).map_or(0, |content| content.len());
    if length == 0 {
        return None;
    }
    let offset = dice.below(length);
    let subfile = SubfilePath::new(path).expect("it is there");
    disk.flip_bit(&subfile, offset as u64, dice.below(8) as u8);
    Some(format!("{path} at {offset} of {length}"))
}

/// Cuts files off as a power failure does that were written and not synced.
fn spoil(folder: &Path, dice: &mut Dice) {
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path()).collect();
    files.sort();
    for path in files {
        let length = path.metadata().map_or(0, |metadata| metadata.len() as usize);
        if dice.one_in(2)
            && let Ok(file) = File::options().write(true).open(&path)
        {
            file.set_len(dice.below(length + 1) as u64).expect("ours");
        }
    }
}
