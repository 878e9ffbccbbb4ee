//! Nodes and links in virtual time.

mod event;
mod item;
mod pipe;
mod trace;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use rand_chacha::ChaCha8Rng;

pub use self::event::{Change, Event, LinkId, NodeId};
pub use self::pipe::CONTROL_BREAKS_AFTER;

use self::event::End;
use self::item::{Item, Onward, Schedule};
use self::pipe::{Notice, Pipe};
use self::trace::Trace;
use crate::link::{Link, LinkCounters, LinkModel, Passage, Transit};
use crate::stream::random_stream;

/// A network in virtual time: a function of its seed and of what it is told.
///
/// The owner adds nodes and links, sends, and asks [`step`](Self::step) what happens next; the clock advances in no
/// other way. Things happen in the order of (time, sequence number), so what is asked for first happens first at
/// equal times.
///
/// Each link has two planes. *Data*: [`send`](Self::send), packets through the [`Link`] of the direction. *Control*:
/// [`send_control`](Self::send_control), a reliable ordered pipe with the delay of the link, which stalls while the
/// link is down and breaks after [`CONTROL_BREAKS_AFTER`]; both ends learn of it at the same time. It opens when the
/// link is added, and again one delay after link and nodes are back. A node that crashes is noticed by its
/// neighbours after the same time, or when it returns if that is earlier.
///
/// # Panics
/// Ids come from this simulator, and a node sends only on its own links; anything else is a bug of the caller and
/// panics.
#[derive(Debug)]
pub struct Simulator {
    seed: u64,
    now: Duration,
    agenda: Schedule,
    /// Events of the present instant that the owner has not fetched.
    ready: VecDeque<Event>,
    nodes: Vec<Node>,
    links: Vec<SimulatedLink>,
    names: BTreeSet<String>,
    /// How many links lead from one node to another: their random streams are numbered.
    parallels: BTreeMap<(NodeId, NodeId), u32>,
    trace: Trace,
}

#[derive(Debug)]
struct Node {
    name: String,
    up: bool,
    links: Vec<LinkId>,
    wake: WakeUp,
}

/// The wake-up of a node. Machines move theirs at every packet, mostly to later; the agenda hears of it only when the
/// new time is earlier than its first entry.
#[derive(Debug, Default)]
struct WakeUp {
    due: Option<Duration>,
    /// The earliest live entry on the agenda.
    on_agenda: Option<Duration>,
}

#[derive(Debug)]
struct SimulatedLink {
    ends: [NodeId; 2],
    up: bool,
    /// Indexed by the end they lead to.
    directions: [Direction; 2],
    pipe: Pipe,
}

#[derive(Debug)]
struct Direction {
    link: Link,
    rng: ChaCha8Rng,
}

impl Simulator {
    /// An empty network at time zero.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            now: Duration::ZERO,
            agenda: Schedule::new(),
            ready: VecDeque::new(),
            nodes: Vec::new(),
            links: Vec::new(),
            names: BTreeSet::new(),
            parallels: BTreeMap::new(),
            trace: Trace::new(seed),
        }
    }

    /// The seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The virtual time since the start.
    pub fn now(&self) -> Duration {
        self.now
    }

    /// Adds a node, which is up.
    ///
    /// # Panics
    /// If there is one of this name already: names key the random streams.
    pub fn add_node(&mut self, name: impl Into<String>) -> NodeId {
        let name = name.into();
        assert!(self.names.insert(name.clone()), "a second node named {name}");
        let id = NodeId(u32::try_from(self.nodes.len()).expect("nodes are fewer than 2^32"));
        self.nodes.push(Node { name, up: true, links: Vec::new(), wake: WakeUp::default() });
        id
    }

    /// Adds a link, which is up; its control pipe opens at once. Parallel links are fine.
    ///
    /// # Panics
    /// If both ends are one node.
    pub fn add_link(&mut self, a: NodeId, b: NodeId, a_to_b: LinkModel, b_to_a: LinkModel) -> LinkId {
        assert_ne!(a, b, "a link from {} to itself", self.node_name(a));
        let id = LinkId(u32::try_from(self.links.len()).expect("links are fewer than 2^32"));
        let directions = [self.direction(b, a, b_to_a), self.direction(a, b, a_to_b)];
        self.links.push(SimulatedLink { ends: [a, b], up: true, directions, pipe: Pipe::new(id) });
        for node in [a, b] {
            self.nodes[node.index()].links.push(id);
        }
        if self.is_clear(id) {
            self.links[id.index()].pipe.path_clear(self.now, [Duration::ZERO; 2], &mut self.agenda);
        }
        id
    }

    fn direction(&mut self, from: NodeId, to: NodeId, model: LinkModel) -> Direction {
        let parallel = self.parallels.entry((from, to)).or_default();
        let number = parallel.to_string();
        *parallel += 1;
        let name = ["link", self.node_name(from), self.node_name(to), &number];
        Direction { rng: random_stream(self.seed, &name), link: Link::new(model) }
    }

    /// Sends a packet into the link, which delivers it or not. A node that is down sends nothing.
    pub fn send(&mut self, from: NodeId, link: LinkId, packet: Vec<u8>) {
        self.offer(from, link, packet, None);
    }

    /// Sends a packet over several links, one behind the other. The nodes between them pass it on as switches do: they
    /// see nothing of it, and lose it while they are down. It arrives by the last link.
    ///
    /// # Panics
    /// If there is no link.
    pub fn send_along(&mut self, from: NodeId, route: &Arc<[LinkId]>, packet: Vec<u8>) {
        self.offer(from, route[0], packet, Onward::behind_first(route));
    }

    fn offer(&mut self, from: NodeId, link: LinkId, packet: Vec<u8>, onward: Option<Onward>) {
        if !self.node_is_up(from) {
            return;
        }
        let simulated = &mut self.links[link.index()];
        let toward = simulated.end_of(from).other();
        let Direction { link: model, rng } = &mut simulated.directions[toward as usize];
        let outcome = model.offer(self.now, packet.len(), rng);
        self.trace.offer(self.now, from, link, outcome);
        if let Ok(Passage { transit, copy }) = outcome {
            if let Some(copy) = copy {
                self.put_on_the_way(link, toward, copy, (packet.clone(), onward.clone()));
            }
            self.put_on_the_way(link, toward, transit, (packet, onward));
        }
    }

    fn put_on_the_way(
        &mut self,
        link: LinkId,
        toward: End,
        transit: Transit,
        (mut packet, onward): (Vec<u8>, Option<Onward>),
    ) {
        transit.corrupt(&mut packet);
        let arrival = Item::PacketArrives { link, toward, transit, packet, onward };
        self.agenda.add(transit.arrives_at, arrival);
    }

    /// Sends a message into the control pipe of the link. Without an open pipe it vanishes, as what one writes to a
    /// connection that has closed.
    pub fn send_control(&mut self, from: NodeId, link: LinkId, message: Vec<u8>) {
        if !self.node_is_up(from) {
            return;
        }
        let simulated = &mut self.links[link.index()];
        let from = simulated.end_of(from);
        let delay = simulated.directions[from.other() as usize].link.model().delay;
        simulated.pipe.send(from, message, self.now, delay, &mut self.agenda);
    }

    /// Wakes the node at `at`, or now if that is past, instead of at the time that it asked for before. A node that
    /// is down is not woken, and forgets its wake-up when it crashes.
    pub fn wake_at(&mut self, node: NodeId, at: Duration) {
        let at = at.max(self.now);
        let Node { up: true, wake, .. } = &mut self.nodes[node.index()] else { return };
        wake.due = Some(at);
        wake.put_on_agenda(node, at, &mut self.agenda);
    }

    /// Forgets the wake-up of the node.
    pub fn cancel_wake(&mut self, node: NodeId) {
        self.nodes[node.index()].wake.due = None;
    }

    /// Lets something happen to the network at `at`, or now if that is past. What changes nothing (the death of what
    /// is dead) gives no event.
    pub fn schedule(&mut self, at: Duration, change: Change) {
        self.agenda.add(at.max(self.now), Item::Change(Box::new(change)));
    }

    /// Advances the clock to the next event and takes it; `None` when nothing is left to happen.
    pub fn step(&mut self) -> Option<Event> {
        self.step_until(Duration::MAX)
    }

    /// Takes the next event that happens by `deadline`; `None` when there is none, the clock then showing the
    /// deadline.
    pub fn step_until(&mut self, deadline: Duration) -> Option<Event> {
        while self.ready.is_empty() {
            let Some((at, item)) = self.agenda.take_due(deadline) else {
                if deadline != Duration::MAX {
                    self.now = self.now.max(deadline);
                }
                return None;
            };
            self.now = at;
            self.execute(item);
        }
        let event = self.ready.pop_front()?;
        self.trace.event(self.now, &event);
        Some(event)
    }

    fn execute(&mut self, item: Item) {
        match item {
            Item::PacketArrives { link, toward, transit, packet, onward } => {
                self.packet_arrives(link, toward, transit, (packet, onward));
            }
            Item::MessageArrives { link, toward, life } => {
                let simulated = &mut self.links[link.index()];
                let node = simulated.ends[toward as usize];
                let message = simulated.pipe.message_arrives(toward, life);
                self.ready.extend(message.map(|message| Event::ControlMessage { node, link, message }));
            }
            Item::PipeOpens { link, toward, life } => self.pipe_opens(link, toward, life),
            Item::PipeBreaks { link, interruption } => {
                let simulated = &mut self.links[link.index()];
                let told = simulated.pipe.breaks(interruption).map(|end| simulated.ends[end as usize]);
                self.ready.extend(told.map(|node| Event::ControlDown { node, link }));
            }
            Item::Wake { node } => self.wake(node),
            Item::Change(change) => self.change(*change),
        }
    }

    fn packet_arrives(
        &mut self,
        link: LinkId,
        toward: End,
        transit: Transit,
        (packet, onward): (Vec<u8>, Option<Onward>),
    ) {
        let simulated = &mut self.links[link.index()];
        let node = simulated.ends[toward as usize];
        let direction = &mut simulated.directions[toward as usize].link;
        if !self.nodes[node.index()].up {
            direction.discard(transit);
        } else if direction.deliver(transit) {
            match onward.map(Onward::step) {
                Some((next, onward)) => self.offer(node, next, packet, onward),
                None => self.ready.push_back(Event::Packet { node, link, packet }),
            }
        }
    }

    fn pipe_opens(&mut self, link: LinkId, toward: End, life: u32) {
        let simulated = &mut self.links[link.index()];
        let node = simulated.ends[toward as usize];
        self.ready.extend(simulated.pipe.opens(toward, life).iter().map(|notice| match notice {
            Notice::Up => Event::ControlUp { node, link },
            Notice::Down => Event::ControlDown { node, link },
        }));
    }

    fn wake(&mut self, node: NodeId) {
        if self.nodes[node.index()].wake.fires(node, self.now, &mut self.agenda) {
            self.ready.push_back(Event::Wake { node });
        }
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::LinkDown(link) => self.link_down(link),
            Change::LinkUp(link) => self.link_up(link),
            Change::NodeDown(node) => self.node_down(node),
            Change::NodeUp(node) => self.node_up(node),
            Change::SetModel { link, from, model } => {
                let simulated = &mut self.links[link.index()];
                let toward = simulated.end_of(from).other();
                simulated.directions[toward as usize].link.set_model(model);
            }
        }
    }

    fn link_down(&mut self, link: LinkId) {
        let simulated = &mut self.links[link.index()];
        if std::mem::replace(&mut simulated.up, false) {
            simulated.directions.iter_mut().for_each(|direction| direction.link.set_down());
            simulated.pipe.link_down(self.now, &mut self.agenda);
            self.ready.push_back(Event::LinkDown { link });
        }
    }

    fn link_up(&mut self, link: LinkId) {
        let simulated = &mut self.links[link.index()];
        if !std::mem::replace(&mut simulated.up, true) {
            simulated.directions.iter_mut().for_each(|direction| direction.link.set_up());
            self.clear_pipe(link);
            self.ready.push_back(Event::LinkUp { link });
        }
    }

    fn node_down(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        if std::mem::replace(&mut node.up, false) {
            node.wake.due = None;
            for link in &node.links {
                let simulated = &mut self.links[link.index()];
                let end = simulated.end_of(id);
                simulated.pipe.node_down(end, self.now, &mut self.agenda);
            }
            self.ready.push_back(Event::NodeDown { node: id });
        }
    }

    fn node_up(&mut self, id: NodeId) {
        let node = &mut self.nodes[id.index()];
        if !std::mem::replace(&mut node.up, true) {
            for index in 0..node.links.len() {
                self.clear_pipe(self.nodes[id.index()].links[index]);
            }
            self.ready.push_back(Event::NodeUp { node: id });
        }
    }

    /// Tells the pipe that nothing is in its way, if so.
    fn clear_pipe(&mut self, link: LinkId) {
        if self.is_clear(link) {
            let simulated = &mut self.links[link.index()];
            let delays = [0, 1].map(|end: usize| simulated.directions[end].link.model().delay);
            simulated.pipe.path_clear(self.now, delays, &mut self.agenda);
        }
    }

    fn is_clear(&self, link: LinkId) -> bool {
        let simulated = &self.links[link.index()];
        simulated.up && simulated.ends.iter().all(|node| self.node_is_up(*node))
    }

    /// The BLAKE3 of the whole trace so far: every event taken, with its time and payload, and every packet offered,
    /// with its outcome. Equal seeds and equal calls give equal hashes on every machine.
    pub fn trace_hash(&self) -> blake3::Hash {
        self.trace.hash()
    }

    /// What became of the packets that `from` sent into the link.
    pub fn counters(&self, link: LinkId, from: NodeId) -> &LinkCounters {
        let simulated = &self.links[link.index()];
        simulated.directions[simulated.end_of(from).other() as usize].link.counters()
    }

    /// How many bytes of `from` wait for the link now, headers counted.
    pub fn queued_bytes(&mut self, link: LinkId, from: NodeId) -> u64 {
        let simulated = &mut self.links[link.index()];
        let toward = simulated.end_of(from).other();
        simulated.directions[toward as usize].link.queued_bytes(self.now)
    }

    /// The parameters of the direction that leads away from `from`.
    pub fn model(&self, link: LinkId, from: NodeId) -> &LinkModel {
        let simulated = &self.links[link.index()];
        simulated.directions[simulated.end_of(from).other() as usize].link.model()
    }

    /// The two nodes of the link, as they were given.
    pub fn ends(&self, link: LinkId) -> [NodeId; 2] {
        self.links[link.index()].ends
    }

    /// The links of the node, in the order in which they were added.
    pub fn links_of(&self, node: NodeId) -> &[LinkId] {
        &self.nodes[node.index()].links
    }

    /// The node at the other end of the link.
    pub fn neighbour(&self, link: LinkId, node: NodeId) -> NodeId {
        let simulated = &self.links[link.index()];
        simulated.ends[simulated.end_of(node).other() as usize]
    }

    /// The name of the node.
    pub fn node_name(&self, node: NodeId) -> &str {
        &self.nodes[node.index()].name
    }

    /// Whether the node is up.
    pub fn node_is_up(&self, node: NodeId) -> bool {
        self.nodes[node.index()].up
    }

    /// Whether the link is up.
    pub fn link_is_up(&self, link: LinkId) -> bool {
        self.links[link.index()].up
    }
}

impl SimulatedLink {
    fn end_of(&self, node: NodeId) -> End {
        match self.ends {
            [a, _] if a == node => End::A,
            [_, b] if b == node => End::B,
            [a, b] => panic!("{node:?} is no end of the link between {a:?} and {b:?}"),
        }
    }
}

impl WakeUp {
    fn put_on_agenda(&mut self, node: NodeId, at: Duration, agenda: &mut Schedule) {
        if self.on_agenda.is_none_or(|earliest| at < earliest) {
            agenda.add(at, Item::Wake { node });
            self.on_agenda = Some(at);
        }
    }

    /// An entry of the agenda is due: whether the node wakes. If its time has moved to later, it goes on the agenda
    /// again.
    fn fires(&mut self, node: NodeId, now: Duration, agenda: &mut Schedule) -> bool {
        if self.on_agenda != Some(now) {
            return false;
        }
        self.on_agenda = None;
        let fires = self.due.is_some_and(|due| due <= now);
        if fires {
            self.due = None;
        } else if let Some(due) = self.due {
            self.put_on_agenda(node, due, agenda);
        }
        fires
    }
}
