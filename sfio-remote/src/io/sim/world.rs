//! Everything but the programs: processes with their state machines, the network, the disks, and what befalls them.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::time::Duration;

use fec_transport::overlay::{InstanceId, MemberId, Peer};
use fec_transport::{Application as _, CloseReason, SessionId, Time};

use super::channels::Channels;
use super::cluster::ClusterConfig;
use super::process::{Gate, State};
use crate::application::{Command, Outcome, SfioApplication};
use crate::compression::CodecResult;
use crate::sim::{CodecModel, Dice, Network, Port, Side};
use crate::store::{Errand, FaultyStore, MemoryStore, RootId, Verdict, WrongRoot, judge};

type Event = Box<dyn FnOnce(&mut World) + Send>;

/// Everything but the programs.
pub struct World {
    config: ClusterConfig,
    now: Time,
    dice: Dice,
    network: Network,
    channels: Channels,
    processes: BTreeMap<Peer, Running>,
    disks: BTreeMap<MemberId, FaultyStore<MemoryStore>>,
    /// The identities that export roots have, and those that I/O nodes remember having served.
    roots: BTreeMap<MemberId, RootId>,
    remembered: BTreeMap<MemberId, RootId>,
    /// Pairs of members, the lower one first, between which nothing travels.
    cut: BTreeSet<(MemberId, MemberId)>,
    /// When an end of a session has heard nothing for too long.
    silent: BTreeMap<(SessionId, Side), Time>,
    planned: BTreeMap<(Time, u64), Event>,
    by_operation: BTreeMap<(u64, u64), Event>,
    operations: u64,
    next_number: u64,
    /// Every process has one like it.
    machine: CodecModel,
}

struct Running {
    app: SfioApplication,
    is_io_node: bool,
    gate: Gate,
    /// What was asked while it stood still.
    held: VecDeque<Command>,
    /// What the disk is doing, and when it is done.
    disk: Vec<(Time, Errand)>,
    /// What codec jobs have brought, and when that is known.
    coded: Vec<(Time, CodecResult)>,
}

impl Running {
    fn is_stopped(&self) -> bool {
        self.gate.state() == State::Stopped
    }
}

/// What happens next.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Next {
    Planned(u64),
    Signal((SessionId, Side)),
    Disk(Peer, usize),
    Coded(Peer, usize),
    Timeout(Peer),
    Silence((SessionId, Side)),
}

impl World {
    pub(super) fn new(config: ClusterConfig) -> World {
        let names: Vec<&str> = config.members.iter().map(String::as_str).collect();
        let mut network = Network::delayed(&names, config.seed);
        network.stream_capacity = config.stream_capacity;
        network.read_bytes = config.stream_capacity;
        network.max_streams = 256;
        network.flow.send_bps = 1e9;
        network.flow.round_trip = Duration::from_millis(2 * config.network_ms.end as u64);
        World {
            dice: Dice::new(config.seed ^ 0x5eed),
            config,
            now: Time::ZERO,
            network,
            channels: Channels::default(),
            processes: BTreeMap::new(),
            disks: BTreeMap::new(),
            roots: BTreeMap::new(),
            remembered: BTreeMap::new(),
            cut: BTreeSet::new(),
            silent: BTreeMap::new(),
            planned: BTreeMap::new(),
            by_operation: BTreeMap::new(),
            operations: 0,
            next_number: 1,
            machine: CodecModel::default(),
        }
    }

    /// The time since the cluster was started.
    pub fn now(&self) -> Time {
        self.now
    }

    /// What clients have asked for and disks have done, together, so far.
    pub fn operations(&self) -> u64 {
        self.operations
    }

    /// How many sessions there are.
    pub fn session_count(&self) -> usize {
        self.network.sessions().count()
    }

    /// Has something happen after a while.
    pub fn after(&mut self, wait: Duration, event: impl FnOnce(&mut World) + Send + 'static) {
        let number = self.number();
        self.planned.insert((self.now + wait, number), Box::new(event));
    }

    /// Has something happen once so many more operations were asked for or done.
    pub fn after_operations(&mut self, count: u64, event: impl FnOnce(&mut World) + Send + 'static) {
        let number = self.number();
        self.by_operation.insert((self.operations + count, number), Box::new(event));
    }

    /// Nothing happens any more that was to happen later.
    pub fn forget_plans(&mut self) {
        self.planned.clear();
        self.by_operation.clear();
    }

    /// The disk of an I/O node, to be changed behind its back.
    pub fn disk(&mut self, member: &str) -> &mut FaultyStore<MemoryStore> {
        let member = self.member(member);
        self.disks.entry(member).or_insert_with(|| FaultyStore::new(MemoryStore::default()))
    }

    /// Starts the process of an I/O node on its disk, if that is the one that it has served before; the process before
    /// is killed.
    ///
    /// # Errors
    /// If its export root is not served.
    pub fn serve(&mut self, name: &str) -> Result<(), WrongRoot> {
        let member = self.member(name);
        self.stop_serving(name);
        let root = match judge(self.remembered.get(&member).copied(), self.roots.get(&member).copied())? {
            Verdict::Serve => self.roots[&member],
            Verdict::Remember(root) => root,
            Verdict::New => RootId(u128::from(self.number()).to_be_bytes()),
        };
        self.roots.insert(member, root);
        self.remembered.insert(member, root);
        self.disk(name);
        let peer = Peer { member, instance: InstanceId(self.number()) };
        let app = SfioApplication::serving(self.config.client.clone(), self.config.io_node.clone());
        self.enter(peer, app, true, Gate::default());
        self.network.set_answering(member, Some(peer.instance));
        Ok(())
    }

    /// Puts an empty disk in the place of an I/O node's.
    pub fn empty_disk(&mut self, name: &str) {
        let member = self.member(name);
        self.roots.remove(&member);
        self.disks.insert(member, FaultyStore::new(MemoryStore::default()));
    }

    /// Its operator says that the disk was replaced: from now on it serves what is there.
    pub fn forget_root(&mut self, name: &str) {
        let member = self.member(name);
        self.remembered.remove(&member);
    }

    /// Kills the process of an I/O node, if there is one. What it has written is in the memory of its machine.
    pub fn stop_serving(&mut self, name: &str) {
        if let Some(peer) = self.serving(name) {
            self.kill(peer);
        }
    }

    /// Kills the process of an I/O node, and its machine forgets what was not synced.
    pub fn lose_power(&mut self, name: &str) {
        self.stop_serving(name);
        let mut dice = self.dice.clone();
        self.disk(name).inner_mut().crash(|| dice.one_in(2));
        self.dice = dice;
    }

    /// The process of an I/O node.
    pub fn serving(&self, name: &str) -> Option<Peer> {
        let member = self.member(name);
        let is_it = |(peer, running): &(&Peer, &Running)| peer.member == member && running.is_io_node;
        self.processes.iter().find(is_it).map(|(peer, _)| *peer)
    }

    /// Whether a process runs, or is stopped.
    pub fn is_alive(&self, peer: Peer) -> bool {
        self.processes.contains_key(&peer)
    }

    /// A process ends without a word.
    pub fn kill(&mut self, peer: Peer) {
        let Some(running) = self.processes.remove(&peer) else { return };
        for (_, errand) in running.disk {
            // What the process has asked of its machine may be done all the same, or the first half of it.
            let Some(disk) = self.disks.get_mut(&peer.member) else { continue };
            match (self.dice.one_in(2), self.dice.one_in(2)) {
                (true, true) => drop(errand.perform(|operation| operation.perform_on(disk))),
                (true, false) => drop(errand.perform(|operation| operation.unsynced().perform_on(disk))),
                (false, _) => {}
            }
        }
        let sessions: Vec<(SessionId, Side)> = self.network.sessions_of(peer).collect();
        for (session, side) in sessions {
            self.channels.clear((session, side));
            self.channels.cut((session, 1 - side), &mut self.dice);
            self.network.close(session, side, CloseReason::Local);
            if self.network.ends(session).is_some_and(|ends| !self.processes.contains_key(&ends[1 - side])) {
                self.forget(session, 1 - side);
            }
        }
        while self.network.poll_event_of(peer).is_some() {}
        if running.is_io_node {
            self.network.set_answering(peer.member, None);
        }
        running.gate.set(State::Dead);
        self.note_silence();
    }

    /// A process stands still, as after SIGSTOP.
    pub fn stop(&mut self, peer: Peer) {
        if let Some(running) = self.processes.get(&peer) {
            running.gate.set(State::Stopped);
            self.note_silence();
        }
    }

    /// It goes on: what it was about to send goes out, and only then does it hear what has happened meanwhile.
    pub fn go_on(&mut self, peer: Peer) {
        let Some(running) = self.processes.get_mut(&peer).filter(|running| running.is_stopped()) else {
            return;
        };
        running.gate.set(State::Running);
        let held = std::mem::take(&mut running.held);
        for command in held {
            self.command(peer, command);
        }
        self.hear(peer);
        self.note_silence();
    }

    /// Nothing travels between two members any more.
    pub fn cut(&mut self, one: &str, other: &str) {
        let pair = self.pair(one, other);
        self.cut.insert(pair);
        self.note_silence();
    }

    /// Everything travels again, and what was under way arrives, if its session lives.
    pub fn heal(&mut self, one: &str, other: &str) {
        let pair = self.pair(one, other);
        self.cut.remove(&pair);
        self.note_silence();
    }

    /// Ends a session between two members at both ends; replies that were under way are lost.
    pub fn break_session(&mut self, one: &str, other: &str) {
        let members = [self.member(one), self.member(other)];
        let concerned = |ends: [Peer; 2]| {
            ends.iter().all(|end| members.contains(&end.member)) && ends[0].member != ends[1].member
        };
        let broken: Vec<SessionId> =
            self.network.sessions().filter(|(_, ends)| concerned(*ends)).map(|(id, _)| id).collect();
        for session in broken {
            [0, 1].into_iter().for_each(|side| self.close(session, side));
        }
    }

    pub(super) fn start_client(&mut self, name: &str, gate: Gate) -> Peer {
        let peer = Peer { member: self.member(name), instance: InstanceId(self.number()) };
        let app = SfioApplication::client(self.config.client.clone());
        self.enter(peer, app, false, gate);
        peer
    }

    pub(super) fn set_now(&mut self, now: Time) {
        self.now = now;
    }

    /// A command of a process's callers; false if the process has ended.
    pub(super) fn command(&mut self, peer: Peer, command: Command) -> bool {
        let Some(running) = self.processes.get_mut(&peer) else { return false };
        if running.is_stopped() {
            running.held.push_back(command);
            return true;
        }
        self.act(peer, |app, now, port| app.obey(now, port, command));
        self.count_operation();
        true
    }

    /// When something happens next.
    pub(super) fn next_time(&self) -> Option<Time> {
        self.next().map(|(at, _)| at)
    }

    /// Lets the next thing happen, if it is due.
    pub(super) fn step(&mut self) {
        let Some((_, next)) = self.next().filter(|(at, _)| *at <= self.now) else { return };
        match next {
            Next::Planned(number) => {
                let key = self.planned.keys().find(|(_, other)| *other == number).copied();
                if let Some(event) = key.and_then(|key| self.planned.remove(&key)) {
                    event(self);
                }
            }
            Next::Signal(key) => {
                let heard = self.channels.take(key).and_then(|signal| self.network.deliver(signal));
                self.send_signals();
                if let Some(peer) = heard {
                    self.hear(peer);
                }
            }
            Next::Disk(peer, index) => self.end_disk_operation(peer, index),
            Next::Coded(peer, index) => {
                let coded = self.processes.get_mut(&peer).map(|running| running.coded.swap_remove(index).1);
                if let Some(result) = coded {
                    self.act(peer, |app, now, port| app.obey(now, port, Command::Codec(result)));
                }
            }
            Next::Timeout(peer) => self.act(peer, |app, now, port| app.wake(now, port)),
            Next::Silence((session, side)) => self.close(session, side),
        }
    }

    fn next(&self) -> Option<(Time, Next)> {
        let planned = self.planned.first_key_value().map(|((at, number), _)| (*at, Next::Planned(*number)));
        let may_arrive = |session, side: Side| {
            self.network.ends(session).is_some_and(|ends| self.goes_on(ends[side]) && !self.is_cut(ends))
        };
        let signal = self.channels.next(may_arrive).map(|(at, key)| (at, Next::Signal(key)));
        let silence = self.silent.iter().map(|(key, at)| (*at, Next::Silence(*key))).min();
        let going = || self.processes.iter().filter(|(_, running)| !running.is_stopped());
        let disk = going().flat_map(|(peer, running)| {
            running.disk.iter().enumerate().map(|(index, (at, _))| (*at, Next::Disk(*peer, index)))
        });
        let coded = going().flat_map(|(peer, running)| {
            running.coded.iter().enumerate().map(|(index, (at, _))| (*at, Next::Coded(*peer, index)))
        });
        let timeout =
            going().filter_map(|(peer, running)| Some((running.app.next_timeout()?, Next::Timeout(*peer))));
        [planned, signal, silence, disk.min(), coded.min(), timeout.min()].into_iter().flatten().min()
    }

    fn end_disk_operation(&mut self, peer: Peer, index: usize) {
        let Some(running) = self.processes.get_mut(&peer) else { return };
        let (_, errand) = running.disk.swap_remove(index);
        let Some(disk) = self.disks.get_mut(&peer.member) else { return };
        for result in errand.perform(|operation| operation.perform_on(disk)) {
            self.act(peer, |app, now, port| app.obey(now, port, Command::Disk(result)));
            self.count_operation();
        }
    }

    fn count_operation(&mut self) {
        self.operations += 1;
        while let Some(first) =
            self.by_operation.first_entry().filter(|first| first.key().0 <= self.operations)
        {
            let event = first.remove();
            event(self);
        }
    }

    /// Lets an application do something, and carries out what it wants then.
    fn act(&mut self, peer: Peer, does: impl FnOnce(&mut SfioApplication, Time, &mut Port<'_>)) {
        let Some(running) = self.processes.get_mut(&peer) else { return };
        does(&mut running.app, self.now, &mut self.network.port_of(peer));
        while let Some(outcome) = running.app.poll_outcome() {
            match outcome {
                Outcome::Disk(errand) => {
                    let wait = self.config.disk_ms.start + self.dice.below(self.config.disk_ms.len().max(1));
                    running.disk.push((self.now + Duration::from_millis(wait as u64), errand));
                }
                Outcome::Codec(job) => {
                    let (result, takes) = self.machine.perform(job);
                    running.coded.push((self.now + takes, result));
                }
                Outcome::Completion(completion) => completion.deliver(),
            }
        }
        self.send_signals();
        self.note_silence();
    }

    fn send_signals(&mut self) {
        for signal in self.network.take_signals() {
            let wait = self.config.network_ms.start + self.dice.below(self.config.network_ms.len().max(1));
            self.channels.send(self.now + Duration::from_millis(wait as u64), signal);
        }
    }

    /// Tells a process what the network has for it.
    fn hear(&mut self, peer: Peer) {
        while self.goes_on(peer)
            && let Some(event) = self.network.poll_event_of(peer)
        {
            self.act(peer, |app, now, port| app.handle(now, port, &event));
        }
    }

    fn close(&mut self, session: SessionId, side: Side) {
        let Some(ends) = self.network.ends(session) else {
            self.silent.remove(&(session, side));
            return;
        };
        self.channels.clear((session, side));
        self.silent.remove(&(session, side));
        self.network.close(
            session,
            side,
            CloseReason::Silent { time: self.config.silence, probes: 0, paths: 1 },
        );
        if !self.processes.contains_key(&ends[1 - side]) {
            self.forget(session, 1 - side);
        }
        self.hear(ends[side]);
        self.note_silence();
    }

    /// Ends a session at an end where nobody is: else those of somebody who calls in vain again and again pile up.
    fn forget(&mut self, session: SessionId, side: Side) {
        let Some(ends) = self.network.ends(session) else { return };
        self.channels.clear((session, side));
        self.network.close(session, side, CloseReason::Local);
        // Nobody hears of it.
        while self.network.poll_event_of(ends[side]).is_some() {}
    }

    /// Begins, or ends, to count the time for which sessions are silent.
    fn note_silence(&mut self) {
        let mut silent = BTreeMap::new();
        for (session, ends) in self.network.sessions() {
            let is_silent = self.is_cut(ends)
                || !ends.iter().all(|end| self.goes_on(*end))
                || self.network.is_half_closed(session);
            for side in [0, 1] {
                if is_silent
                    && self.processes.contains_key(&ends[side])
                    && self.network.is_open_at(session, side)
                {
                    let later = Duration::from_millis(self.dice.below(500) as u64);
                    let at = self.silent.get(&(session, side)).copied();
                    silent.insert((session, side), at.unwrap_or(self.now + self.config.silence + later));
                }
            }
        }
        self.silent = silent;
    }

    fn goes_on(&self, peer: Peer) -> bool {
        self.processes.get(&peer).is_some_and(|running| !running.is_stopped())
    }

    fn is_cut(&self, ends: [Peer; 2]) -> bool {
        let (one, other) = (ends[0].member, ends[1].member);
        self.cut.contains(&(one.min(other), one.max(other)))
    }

    fn enter(&mut self, peer: Peer, app: SfioApplication, is_io_node: bool, gate: Gate) {
        let running =
            Running { app, is_io_node, gate, held: VecDeque::new(), disk: Vec::new(), coded: Vec::new() };
        self.processes.insert(peer, running);
    }

    fn pair(&self, one: &str, other: &str) -> (MemberId, MemberId) {
        let (one, other) = (self.member(one), self.member(other));
        (one.min(other), one.max(other))
    }

    fn member(&self, name: &str) -> MemberId {
        let index = self.config.members.iter().position(|member| member == name);
        MemberId(index.unwrap_or_else(|| panic!("there is no member {name}")) as u16)
    }

    fn number(&mut self) -> u64 {
        self.next_number += 1;
        self.next_number
    }
}

impl fmt::Debug for World {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("World")
            .field("now", &self.now)
            .field("operations", &self.operations)
            .finish_non_exhaustive()
    }
}
