//! The study's cluster in virtual time: computers with one connection of 100 Mbit/s each to a switch, of which some are
//! ranks and eight are I/O nodes. The ranks are the state machines of `sfio_remote::collective`.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use fec_transport::Time;
use sfio_remote::collective::{
    Arrival, CollectiveConfig, FileShape, FileWork, Group, Job, Participant, Rank, Report, Step, WorkDone,
    WorkId,
};
use sfio_remote::distribution::StripeUnit;
use sfio_remote::request::WriteList;

use crate::Kind;
use crate::codec::Lzo;

/// Fast Ethernet, in bytes per second: what TCP carries of 100 Mbit/s.
const RATE: f64 = 11.8e6;
/// What a message takes besides, in nanoseconds: MPI over TCP over a switch of that time.
const LATENCY: u64 = 100_000;
const IO_NODES: usize = 8;
/// The stripe unit; the lines of a rank take turns after so many bytes, too.
const STRIPE: u64 = 64 << 10;

/// How the messages of a rank leave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sending {
    /// Those to different ranks take turns, as connections of TCP do.
    InTurn,
    /// One after the other, as MPICH 1 writes them to its sockets.
    OneByOne,
}

/// What a rank sends one behind the other, beside its other lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Line {
    To(Rank),
    ToAll,
    File,
}

/// A computer's connection: until when it sends, and receives, what it has to.
#[derive(Debug, Clone, Copy, Default)]
struct Port {
    sends_until: u64,
    receives_until: u64,
}

/// A rank.
struct Node {
    participant: Participant,
    lzo: Lzo,
    mail: Mail,
    calls: VecDeque<Job>,
    reports: Vec<Report>,
    /// Until when its processor packs and unpacks.
    busy_until: u64,
}

/// The group as one rank sees it.
struct Mail {
    rank: Rank,
    size: usize,
    arrived: VecDeque<Arrival>,
    sent: Vec<(Rank, Bytes)>,
}

enum Event {
    /// A line of a rank may send its next bytes.
    Turn((usize, Line)),
    Arrive(Rank, Arrival),
    Done(Rank, WorkId),
    /// A processor has nothing to do any more.
    Free(Rank),
}

/// Bytes on their way from one computer to another: from when on, how many are left, and what happens when the last one
/// is there.
struct Transfer {
    from: u64,
    /// Where in the file the next byte belongs, if they are written.
    at: u64,
    left: u64,
    then: Event,
}

pub(crate) struct Cluster {
    sending: Sending,
    nodes: Vec<Node>,
    /// One for each rank, then one for each I/O node.
    ports: Vec<Port>,
    /// What each line of each rank carries, one behind the other.
    lines: BTreeMap<(usize, Line), VecDeque<Transfer>>,
    now: u64,
    events: BTreeMap<(u64, u64), Event>,
    number: u64,
}

impl Group for Mail {
    fn rank(&self) -> Rank {
        self.rank
    }

    fn size(&self) -> usize {
        self.size
    }

    fn send(&mut self, to: Rank, message: Bytes) {
        self.sent.push((to, message));
    }

    fn rate_bps(&self) -> Option<f64> {
        Some(8.0 * RATE)
    }

    fn poll(&mut self) -> Option<Arrival> {
        self.arrived.pop_front()
    }
}

/// The file that is written: eight subfiles with stripes of 64 KiB.
pub(crate) fn shape() -> Arc<FileShape> {
    let name: String = (1..=IO_NODES).map(|node| format!("io{node},mesh;")).collect();
    let unit = StripeUnit::new(STRIPE).expect("in range");
    Arc::new(FileShape::new(&name.parse().expect("a right name"), unit).expect("eight subfiles"))
}

impl Cluster {
    /// Every rank writes its list twice; gives what each rank reports of the second time, when the rule knows what it
    /// is about.
    pub(crate) fn write_twice(
        kind: Kind,
        sending: Sending,
        config: &CollectiveConfig,
        lists: Vec<Vec<(u64, Bytes)>>,
    ) -> Vec<Report> {
        let (size, shape) = (lists.len(), shape());
        let node = |(rank, pieces): (usize, Vec<(u64, Bytes)>)| {
            let list = || WriteList::new(pieces.iter().cloned()).expect("nodes of a mesh lie apart");
            let calls = [list(), list()].map(|list| Job::Write(Arc::clone(&shape), list)).into();
            let mail = Mail { rank: Rank(rank as u32), size, arrived: VecDeque::new(), sent: Vec::new() };
            let (participant, lzo) = (Participant::new(size), Lzo::new(kind));
            Node { participant, lzo, mail, calls, reports: Vec::new(), busy_until: 0 }
        };
        let nodes: Vec<Node> = lists.into_iter().enumerate().map(node).collect();
        let ports = vec![Port::default(); size + IO_NODES];
        let (lines, events) = (BTreeMap::new(), BTreeMap::new());
        let mut cluster = Cluster { sending, nodes, ports, lines, now: 0, events, number: 0 };
        (0..size).for_each(|rank| cluster.begin(rank, config));
        while let Some(((at, _), event)) = cluster.events.pop_first() {
            cluster.now = at;
            cluster.happen(event, config);
        }
        cluster.nodes.into_iter().map(|mut node| node.reports.pop().expect("all calls end")).collect()
    }

    fn happen(&mut self, event: Event, config: &CollectiveConfig) {
        let rank = match event {
            Event::Turn(line) => return self.turn(line),
            Event::Arrive(rank, arrival) => {
                self.nodes[rank.index()].mail.arrived.push_back(arrival);
                rank
            }
            Event::Done(rank, work) => {
                self.nodes[rank.index()].participant.finish(work, Ok(WorkDone::Written));
                rank
            }
            Event::Free(rank) => rank,
        };
        // Who packs hears of it when that is done.
        if self.nodes[rank.index()].busy_until <= self.now {
            self.settle(rank.index(), config);
        }
    }

    fn begin(&mut self, rank: usize, config: &CollectiveConfig) {
        let (now, node) = (self.time(), &mut self.nodes[rank]);
        if let Some(job) = node.calls.pop_front() {
            node.participant.begin(now, config, job).expect("no rank is lost");
            self.settle(rank, config);
        }
    }

    /// Lets a rank do what it can until its processor has worked, or it waits.
    fn settle(&mut self, rank: usize, config: &CollectiveConfig) {
        loop {
            let now = self.time();
            let Node { participant, lzo, mail, .. } = &mut self.nodes[rank];
            let step = participant.step(now, mail, lzo);
            let worked = std::mem::take(&mut lzo.worked).as_nanos() as u64;
            let until = self.now + worked;
            for (to, message) in std::mem::take(&mut self.nodes[rank].mail.sent) {
                let left = message.len() as u64;
                let then = Event::Arrive(to, Arrival::From(Rank(rank as u32), message));
                let line = if self.sending == Sending::InTurn { Line::To(to) } else { Line::ToAll };
                self.carry((rank, line), Transfer { from: until, at: 0, left, then });
            }
            match step {
                Step::Wait => return,
                Step::Again => {}
                Step::Work(id, work) => self.write(until, rank, id, &work),
                Step::Done(result) => {
                    let (_, report) = result.expect("nothing fails");
                    self.nodes[rank].reports.push(report);
                    return self.begin(rank, config);
                }
            }
            if worked > 0 {
                self.nodes[rank].busy_until = until;
                return self.schedule(until, Event::Free(Rank(rank as u32)));
            }
        }
    }

    /// What is to be done at the file, from a moment on: stripe after stripe goes over the rank's port to the I/O
    /// nodes in turn, as PVFS's library writes, and is done when it is in their memory.
    fn write(&mut self, from: u64, rank: usize, id: WorkId, work: &FileWork) {
        let then = Event::Done(Rank(rank as u32), id);
        let regions = if let FileWork::Write(list) = work { list.regions() } else { &[] };
        let left = regions.iter().map(|region| region.length()).sum();
        let Some(first) = regions.first() else { return self.schedule(from, then) };
        self.carry((rank, Line::File), Transfer { from, at: first.offset(), left, then });
    }

    /// Bytes are to be sent over a line of a rank behind all that it carries.
    fn carry(&mut self, line: (usize, Line), transfer: Transfer) {
        let (from, queue) = (transfer.from, self.lines.entry(line).or_default());
        queue.push_back(transfer);
        if queue.len() == 1 {
            self.schedule(from, Event::Turn(line));
        }
    }

    /// A line sends its next bytes; both ports carry them one behind the other.
    fn turn(&mut self, line: (usize, Line)) {
        let sender = line.0;
        let Some(transfer) = self.lines.get_mut(&line).and_then(VecDeque::front_mut) else {
            return;
        };
        if transfer.from > self.now {
            let from = transfer.from;
            return self.schedule(from, Event::Turn(line));
        }
        let bytes = transfer.left.min(STRIPE - transfer.at % STRIPE);
        let receiver = match &transfer.then {
            Event::Arrive(rank, _) => rank.index(),
            _ => self.nodes.len() + (transfer.at / STRIPE) as usize % IO_NODES,
        };
        (transfer.left, transfer.at) = (transfer.left - bytes, transfer.at + bytes);
        let is_whole = transfer.left == 0;
        let takes = (bytes as f64 / RATE * 1e9) as u64;
        let begins = self.ports[sender].sends_until.max(self.now);
        self.ports[sender].sends_until = begins + takes;
        let receives_until = &mut self.ports[receiver].receives_until;
        *receives_until = begins.max(*receives_until) + takes;
        let there = *receives_until;
        // TCP does not send faster than the receiver takes it.
        let next = there.saturating_sub(takes).max(begins + takes);
        if is_whole {
            let queue = self.lines.get_mut(&line).expect("it carries something");
            let then = queue.pop_front().expect("it carries something").then;
            let goes_on = !queue.is_empty();
            self.schedule(there + LATENCY, then);
            if !goes_on {
                return;
            }
        }
        self.schedule(next, Event::Turn(line));
    }

    fn schedule(&mut self, at: u64, event: Event) {
        self.number += 1;
        self.events.insert((at, self.number), event);
    }

    fn time(&self) -> Time {
        Time::from_epoch(Duration::from_nanos(self.now))
    }
}
