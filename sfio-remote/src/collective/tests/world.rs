//! Ranks, messages between them and a file in memory; everything takes its time, in microseconds of virtual time.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use fec_transport::Time;

use super::super::exchange::whole_file;
use super::super::*;
use crate::compression::Coder;
use crate::distribution::{Distribution, SubfileIndex};
use crate::request::{Cursor, ReadBuffer, ReadList, RegionsRead, Staging, WriteList, gather};
use crate::sim::Dice;

pub(super) type Outcome = Result<(Answer, Report), CollectiveError>;

/// How long things take.
#[derive(Debug, Clone)]
pub(super) struct Pace {
    /// A message is on its way for so long, in µs.
    pub(super) latency: std::ops::Range<usize>,
    /// Bytes that a rank receives in a µs, and that its connection to the I/O nodes carries.
    pub(super) message_rate: f64,
    pub(super) file_rate: f64,
    /// What each piece of work at the file takes besides, in µs.
    pub(super) file_latency: std::ops::Range<usize>,
}

impl Default for Pace {
    fn default() -> Pace {
        Pace {
            latency: 1..500,
            message_rate: f64::INFINITY,
            file_rate: f64::INFINITY,
            file_latency: 1..2_000,
        }
    }
}

/// A striped file: the bytes of its subfiles.
#[derive(Debug, Clone)]
pub(super) struct File {
    pub(super) distribution: Distribution,
    pub(super) subfiles: Vec<Vec<u8>>,
}

struct Node {
    participant: Participant,
    port: Port,
    jobs: VecDeque<Job>,
    results: Vec<(Time, Outcome)>,
    is_alive: bool,
    /// When it has received, and written, what is on its way.
    receives_until: u64,
    writes_until: u64,
}

/// The group as one rank sees it.
struct Port {
    rank: Rank,
    size: usize,
    arrived: VecDeque<Arrival>,
    sent: Vec<(Rank, Bytes)>,
}

#[derive(Debug)]
enum Event {
    Begin(Rank),
    Arrive { from: Rank, to: Rank, message: Bytes },
    Lost { rank: Rank, to: Rank },
    Done { rank: Rank, id: WorkId, work: FileWork },
}

pub(super) struct World {
    nodes: Vec<Node>,
    pub(super) file: File,
    config: CollectiveConfig,
    pace: Pace,
    dice: Dice,
    now: u64,
    events: BTreeMap<(u64, u64), Event>,
    number: u64,
    last_arrival: BTreeMap<(Rank, Rank), u64>,
    /// How often the file was read, and written.
    pub(super) reads: usize,
    pub(super) writes: usize,
    /// The next pieces of work at the file that fail.
    pub(super) faults: usize,
}

impl Group for Port {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn send(&mut self, to: Rank, message: Bytes) {
        assert_ne!(to, self.rank, "nothing is sent to oneself");
        self.sent.push((to, message));
    }

    fn poll(&mut self) -> Option<Arrival> {
        self.arrived.pop_front()
    }
}

impl World {
    /// A group of as many ranks as there are lists of jobs.
    pub(super) fn new(
        seed: u64,
        pace: Pace,
        config: CollectiveConfig,
        file: File,
        jobs: Vec<Vec<Job>>,
    ) -> World {
        let size = jobs.len();
        let node = |(rank, jobs): (Rank, Vec<Job>)| Node {
            participant: Participant::new(size),
            port: Port { rank, size, arrived: VecDeque::new(), sent: Vec::new() },
            jobs: jobs.into(),
            results: Vec::new(),
            is_alive: true,
            receives_until: 0,
            writes_until: 0,
        };
        let nodes = Rank::all(size).zip(jobs).map(node).collect();
        let (events, last_arrival) = (BTreeMap::new(), BTreeMap::new());
        let mut world = World {
            nodes,
            file,
            config,
            pace,
            dice: Dice::new(seed),
            now: 0,
            events,
            number: 0,
            last_arrival,
            reads: 0,
            writes: 0,
            faults: 0,
        };
        for rank in Rank::all(size) {
            let at = world.draw(world.pace.latency.clone());
            world.schedule(at, Event::Begin(rank));
        }
        world
    }

    /// Lets everything happen; gives the results of each rank.
    pub(super) fn run(&mut self) -> Vec<Vec<Outcome>> {
        while self.step() {}
        self.nodes
            .iter()
            .map(|node| node.results.iter().map(|(_, result)| result.clone()).collect())
            .collect()
    }

    /// Lets the next thing happen; false if nothing is left to happen.
    pub(super) fn step(&mut self) -> bool {
        let Some(((at, _), event)) = self.events.pop_first() else { return false };
        self.now = at;
        match event {
            Event::Begin(rank) => self.begin(rank),
            Event::Arrive { from, to, message } => self.arrive(to, Arrival::From(from, message)),
            Event::Lost { rank, to } => self.arrive(to, Arrival::Lost(rank)),
            Event::Done { rank, id, work } => {
                if self.nodes[rank.index()].is_alive {
                    let outcome = self.perform(rank, work);
                    self.nodes[rank.index()].participant.finish(id, outcome);
                    self.settle(rank);
                }
            }
        }
        true
    }

    /// A rank ends without a word: of what it has sent, each other rank gets a part.
    pub(super) fn kill(&mut self, rank: Rank) {
        self.nodes[rank.index()].is_alive = false;
        for to in Rank::all(self.nodes.len()).filter(|to| *to != rank) {
            let under_way = self.events.iter().filter(|(_, event)| {
                matches!(event, Event::Arrive { from, to: other, .. } if *from == rank && *other == to)
            });
            let keys: Vec<(u64, u64)> = under_way.map(|(key, _)| *key).collect();
            let kept = self.dice.below(keys.len() + 1);
            keys[kept..].iter().for_each(|key| drop(self.events.remove(key)));
            let at = self.last_arrival.get(&(rank, to)).copied().unwrap_or(0).max(self.now) + 1;
            self.schedule(at, Event::Lost { rank, to });
        }
    }

    /// When a rank has ended its last call, after the beginning.
    pub(super) fn ended_at(&self, rank: Rank) -> Duration {
        self.nodes[rank.index()].results.last().expect("it has ended").0.since(Time::ZERO)
    }

    /// How many calls a rank has ended.
    pub(super) fn ended(&self, rank: Rank) -> usize {
        self.nodes[rank.index()].results.len()
    }

    fn begin(&mut self, rank: Rank) {
        let node = &mut self.nodes[rank.index()];
        let Some(job) = node.jobs.pop_front().filter(|_| node.is_alive) else { return };
        let now = Time::from_epoch(Duration::from_micros(self.now));
        match node.participant.begin(now, &self.config, job) {
            Ok(()) => self.settle(rank),
            Err(error) => {
                node.results.push((now, Err(error)));
                self.begin(rank);
            }
        }
    }

    fn arrive(&mut self, to: Rank, arrival: Arrival) {
        if self.nodes[to.index()].is_alive {
            self.nodes[to.index()].port.arrived.push_back(arrival);
            self.settle(to);
        }
    }

    /// Lets a rank do what it can.
    fn settle(&mut self, rank: Rank) {
        let now = Time::from_epoch(Duration::from_micros(self.now));
        loop {
            let Node { participant, port, .. } = &mut self.nodes[rank.index()];
            let step = participant.step(now, port, &mut Coder::default());
            self.send(rank);
            match step {
                Step::Again => {}
                Step::Wait => return,
                Step::Work(id, work) => self.schedule_work(rank, id, work),
                Step::Done(result) => {
                    self.nodes[rank.index()].results.push((now, result));
                    let at = self.now + self.draw(self.pace.latency.clone());
                    return self.schedule(at, Event::Begin(rank));
                }
            }
        }
    }

    fn send(&mut self, from: Rank) {
        for (to, message) in std::mem::take(&mut self.nodes[from.index()].port.sent) {
            let takes = (message.len() as f64 / self.pace.message_rate) as u64;
            let latency = self.draw(self.pace.latency.clone());
            let receiver = &mut self.nodes[to.index()];
            receiver.receives_until = receiver.receives_until.max(self.now) + takes;
            let last = self.last_arrival.get(&(from, to)).copied().unwrap_or(0);
            let at = (receiver.receives_until + latency).max(last + 1);
            self.last_arrival.insert((from, to), at);
            self.schedule(at, Event::Arrive { from, to, message });
        }
    }

    fn schedule_work(&mut self, rank: Rank, id: WorkId, work: FileWork) {
        let bytes: u64 = match &work {
            FileWork::Write(list) => list.regions().iter().map(|region| region.length()).sum(),
            FileWork::Read(list) => list.regions().iter().map(|region| region.length()).sum(),
            FileWork::Perform | FileWork::Grow { .. } => 0,
        };
        let takes = (bytes as f64 / self.pace.file_rate) as u64;
        let latency = self.draw(self.pace.file_latency.clone());
        let node = &mut self.nodes[rank.index()];
        node.writes_until = node.writes_until.max(self.now) + takes;
        let at = node.writes_until + latency;
        self.schedule(at, Event::Done { rank, id, work });
    }

    fn perform(&mut self, rank: Rank, work: FileWork) -> Result<WorkDone, String> {
        if self.faults > 0 {
            self.faults -= 1;
            return Err(format!("the disk of {rank} fails"));
        }
        match work {
            FileWork::Write(list) => {
                self.writes += 1;
                self.file.write(list);
                Ok(WorkDone::Written)
            }
            FileWork::Read(list) => {
                self.reads += 1;
                Ok(WorkDone::Read(self.file.read(list)))
            }
            FileWork::Perform => Ok(WorkDone::Performed(Bytes::from(vec![rank.0 as u8 + 1]))),
            FileWork::Grow { subfiles, length } => {
                self.file.grow(&subfiles, length);
                Ok(WorkDone::Grown)
            }
        }
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.number += 1;
        self.events.insert((at, self.number), event);
    }

    fn draw(&mut self, range: std::ops::Range<usize>) -> u64 {
        (range.start + self.dice.below(range.len().max(1))) as u64
    }
}

impl File {
    /// A file with that content.
    pub(super) fn new(distribution: Distribution, content: &[u8]) -> File {
        let mut file = File { subfiles: vec![Vec::new(); distribution.subfile_count()], distribution };
        content.iter().enumerate().for_each(|(offset, byte)| file.put(offset as u64, *byte));
        file
    }

    pub(super) fn sizes(&self) -> Vec<u64> {
        self.subfiles.iter().map(|subfile| subfile.len() as u64).collect()
    }

    /// The byte at an offset; none if the file does not have it.
    pub(super) fn get(&self, offset: u64) -> Option<u8> {
        let location = self.distribution.locate(offset);
        self.subfiles[location.subfile.index()].get(location.offset as usize).copied()
    }

    fn put(&mut self, offset: u64, byte: u8) {
        let location = self.distribution.locate(offset);
        let (subfile, at) = (&mut self.subfiles[location.subfile.index()], location.offset as usize);
        subfile.resize(subfile.len().max(at + 1), 0);
        subfile[at] = byte;
    }

    fn write(&mut self, list: WriteList) {
        for (offset, bytes) in written(list) {
            bytes.into_iter().enumerate().for_each(|(i, byte)| self.put(offset + i as u64, byte));
        }
    }

    fn read(&self, mut list: ReadList) -> RegionsRead {
        let (one, holders) = whole_file();
        let access = list.take_accesses(one, &holders).pop();
        let mut buffer = ReadBuffer::new(list, 1 << 30).expect("small");
        if let Some(access) = access {
            let mut cursor = Cursor::default();
            while let Some(batch) = access.next_batch(&mut cursor, u64::MAX) {
                for extent in batch.runs.runs().flat_map(|run| run.extents()) {
                    let bytes: Vec<u8> = (extent.offset()..extent.end())
                        .map(|offset| self.get(offset).unwrap_or(0xee))
                        .collect();
                    access.scatter(&mut buffer, &mut access.cursor_at(extent.offset()), &bytes);
                }
            }
            access.fill_overlaps(&mut buffer);
        }
        buffer.finish(|region| {
            (region.offset()..region.end()).take_while(|at| self.get(*at).is_some()).count() as u64
        })
    }

    fn grow(&mut self, subfiles: &[SubfileIndex], length: u64) {
        for subfile in subfiles {
            let size = self.distribution.subfile_size(*subfile, length) as usize;
            let bytes = &mut self.subfiles[subfile.index()];
            bytes.resize(bytes.len().max(size), 0);
        }
    }
}

/// What a list writes, piece by piece.
pub(super) fn written(mut list: WriteList) -> Vec<(u64, Vec<u8>)> {
    let (one, holders) = whole_file();
    let Some(access) = list.take_accesses(one, &holders).pop() else { return Vec::new() };
    let (mut cursor, mut staging, mut pieces) = (Cursor::default(), Staging::default(), Vec::new());
    while let Some(batch) = access.next_batch(&mut cursor, u64::MAX) {
        for extent in batch.runs.runs().flat_map(|run| run.extents()) {
            let (mut at, mut bytes) = (access.cursor_at(extent.offset()), Vec::new());
            while (bytes.len() as u64) < extent.length() {
                let left = extent.length() - bytes.len() as u64;
                let some = gather(&access, &list, at, left, &mut staging);
                bytes.extend_from_slice(some);
                access.advance(&mut at, some.len() as u64);
            }
            pieces.push((extent.offset(), bytes));
        }
    }
    pieces
}
