//! The same state machines in virtual time: nodes and the applications on top of them, on the network of netsim.
//!
//! A [`Scene`] lists members and links; a [`World`] runs one process of each member until something has happened or a
//! time has come. A simulation is a function of the seed: [`World::trace_hash`] is equal for equal seeds.

mod competitor;
pub(crate) mod cubic;
mod fabric;
mod onlookers;
mod pauses;
mod scene;
mod socket;
mod whereabouts;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use netsim::{Change, Simulator};

use crate::application::Application;
use crate::config::Config;
use crate::crypto::random::Randomness;
use crate::keys::Identity;
use crate::node::{Ingress, Node};
use crate::overlay::{
    Adjacency, InstanceId, LinkId, MemberId, Overlay, OverlayChange, Peer, SuccessionError,
};
use crate::time::Time;
use competitor::{CompetitorSpec, Competitors};
use fabric::Fabric;
use onlookers::Onlookers;
pub use pauses::Pauses;
use pauses::Pausing;
pub use scene::{LinkSpec, Scene};
use socket::Socket;
use whereabouts::Whereabouts;

/// Events at one point of virtual time after which a world counts as stuck: something wakes itself without end.
const MAX_EVENTS_AT_ONCE: u32 = 200_000;

type MakeApplication<A> = Box<dyn FnMut(&Overlay, MemberId) -> A>;

/// A whole overlay in virtual time.
pub struct World<A: Application> {
    simulator: Simulator,
    /// The simulator's names for the members and links, in the order of the overlay.
    nodes: Vec<netsim::NodeId>,
    links: Vec<netsim::LinkId>,
    overlay: Arc<Overlay>,
    config: Config,
    identities: Vec<Identity>,
    processes: Vec<Process<A>>,
    make_application: MakeApplication<A>,
    outcomes: Vec<(MemberId, A::Outcome)>,
    competitors: Competitors,
    pausing: Pausing,
    fabric: Fabric,
    onlookers: Onlookers,
    /// None if datagrams find their neighbours by the links alone.
    whereabouts: Option<Whereabouts>,
    events_at_once: (Duration, u32),
    seed: u64,
}

struct Process<A> {
    node: Node,
    application: A,
    /// Counts the starts of this member.
    instance: u64,
    is_up: bool,
    /// None if it takes whatever is sent.
    socket: Option<Socket>,
    /// The process to which the control pipe of each link leads, while it is up.
    connected: BTreeMap<LinkId, Peer>,
}

impl<A: Application> World<A> {
    /// Starts one process of each member of `scene`; `make_application` gives what runs on top of it, also after a
    /// crash.
    pub fn new(
        scene: &Scene,
        config: Config,
        seed: u64,
        make_application: impl FnMut(&Overlay, MemberId) -> A + 'static,
    ) -> World<A> {
        let (overlay, identities) = scene.overlay();
        let mut simulator = Simulator::new(seed);
        let nodes: Vec<_> =
            overlay.members().iter().map(|member| simulator.add_node(member.name.clone())).collect();
        let add_link = |(link, spec): (&crate::overlay::Link, &LinkSpec)| {
            let (a, b) = (nodes[usize::from(link.a.0)], nodes[usize::from(link.b.0)]);
            simulator.add_link(a, b, spec.a_to_b.clone(), spec.b_to_a.clone())
        };
        let links = overlay.links().iter().zip(scene.link_specs()).map(add_link).collect();
        let fabric = Fabric::lay(scene, &overlay, &mut simulator, &nodes);
        let mut world = World {
            simulator,
            nodes,
            links,
            overlay: Arc::new(overlay),
            config,
            identities,
            processes: Vec::new(),
            make_application: Box::new(make_application),
            outcomes: Vec::new(),
            competitors: Competitors::default(),
            pausing: Pausing::default(),
            fabric,
            onlookers: Onlookers::default(),
            whereabouts: None,
            events_at_once: (Duration::ZERO, 0),
            seed,
        };
        for index in 0..world.nodes.len() {
            let process = world.start(member(index), 1);
            world.processes.push(process);
        }
        world
    }

    /// Gives the ends of all links addresses, which their neighbours learn as on a real network. Links that go over
    /// cables have none. To be called before anything has happened.
    #[must_use]
    pub fn with_addresses(mut self) -> World<A> {
        self.whereabouts = Some(Whereabouts::new(&self.overlay, self.now()));
        self
    }

    /// From now on one end of a link has another address, as behind a translator that gives it another port. What is
    /// sent to the old one is lost.
    ///
    /// # Panics
    /// Without [addresses](Self::with_addresses).
    pub fn move_end(&mut self, member: MemberId, link: LinkId) {
        let now = self.now();
        self.whereabouts.as_mut().expect("the world has addresses").move_end(now, member, link);
    }

    /// The virtual time.
    pub fn now(&self) -> Time {
        Time::from_epoch(self.simulator.now())
    }

    /// The overlay of the scene.
    pub fn overlay(&self) -> &Overlay {
        &self.overlay
    }

    /// The config of every process.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The member of that name.
    ///
    /// # Panics
    /// If the scene has none.
    pub fn member(&self, name: &str) -> MemberId {
        self.overlay.find(name).unwrap_or_else(|| panic!("the scene has no member \"{name}\""))
    }

    /// The node of a member's process.
    pub fn node(&self, member: MemberId) -> &Node {
        &self.processes[usize::from(member.0)].node
    }

    /// When a member's node wants to act next.
    pub fn node_timeout(&mut self, member: MemberId) -> Option<Time> {
        self.processes[usize::from(member.0)].node.next_timeout()
    }

    /// The application of a member's process.
    pub fn application(&self, member: MemberId) -> &A {
        &self.processes[usize::from(member.0)].application
    }

    /// Whether a member's process is up.
    pub fn is_up(&self, member: MemberId) -> bool {
        self.processes[usize::from(member.0)].is_up
    }

    /// Lets a test act on a member's node and application.
    pub fn act<T>(&mut self, member: MemberId, act: impl FnOnce(Time, &mut Node, &mut A) -> T) -> T {
        let now = self.now();
        let process = &mut self.processes[usize::from(member.0)];
        let result = act(now, &mut process.node, &mut process.application);
        self.pump(member);
        result
    }

    /// Gives a member's application a command.
    pub fn command(&mut self, member: MemberId, command: A::Command) {
        self.act(member, |now, node, application| application.handle_command(now, node, command));
    }

    /// Gives a member's node a newer overlay file, whose members the scene has too.
    ///
    /// # Errors
    /// As [`Node::reload`].
    pub fn reload(&mut self, member: MemberId, newer: &Overlay) -> Result<OverlayChange, SuccessionError> {
        self.act(member, |now, node, _| node.reload(now, newer))
    }

    /// Whether the applications have told anything since [`take_outcomes`](Self::take_outcomes) was called.
    pub fn has_outcomes(&self) -> bool {
        !self.outcomes.is_empty()
    }

    /// What the applications have told since the last call.
    pub fn take_outcomes(&mut self) -> Vec<(MemberId, A::Outcome)> {
        std::mem::take(&mut self.outcomes)
    }

    /// Cuts all links between two members `after` some time from now.
    pub fn cut(&mut self, after: Duration, a: MemberId, b: MemberId) {
        let links = self.overlay.links_between(a, b).to_vec();
        links.into_iter().for_each(|link| self.cut_link(after, link));
    }

    /// Cuts a link `after` some time from now.
    pub fn cut_link(&mut self, after: Duration, link: LinkId) {
        let link = self.links[link.entry()];
        self.simulator.schedule(self.simulator.now() + after, Change::LinkDown(link));
    }

    /// Restores all links between two members `after` some time from now.
    pub fn restore(&mut self, after: Duration, a: MemberId, b: MemberId) {
        let links = self.overlay.links_between(a, b).to_vec();
        links.into_iter().for_each(|link| self.restore_link(after, link));
    }

    /// Restores a link `after` some time from now.
    pub fn restore_link(&mut self, after: Duration, link: LinkId) {
        let link = self.links[link.entry()];
        self.simulator.schedule(self.simulator.now() + after, Change::LinkUp(link));
    }

    /// Gives the direction from `a` to `b` of their link, of several the first, new parameters `after` some time from
    /// now.
    pub fn reshape(&mut self, after: Duration, a: MemberId, b: MemberId, model: netsim::LinkModel) {
        self.reshape_link(after, self.link_between(a, b), a, model);
    }

    /// Gives the direction of a link that leads away from `from` new parameters `after` some time from now.
    pub fn reshape_link(&mut self, after: Duration, link: LinkId, from: MemberId, model: netsim::LinkModel) {
        let (link, from) = (self.links[link.entry()], self.simulator_node(from));
        self.simulator.schedule(self.simulator.now() + after, Change::SetModel { link, from, model });
    }

    /// Crashes a member's process `after` some time from now: all that it knows is lost.
    pub fn crash(&mut self, after: Duration, member: MemberId) {
        let node = self.simulator_node(member);
        self.simulator.schedule(self.simulator.now() + after, Change::NodeDown(node));
    }

    /// Starts a crashed member's process anew `after` some time from now.
    pub fn restart(&mut self, after: Duration, member: MemberId) {
        let node = self.simulator_node(member);
        self.simulator.schedule(self.simulator.now() + after, Change::NodeUp(node));
    }

    /// Adds a flow of somebody else, as TCP with CUBIC would be [RFC 9438], over the links between `over`, neighbours
    /// in order. Its round trip without queues is `round_trip`, or that of the links if it is longer.
    ///
    /// # Panics
    /// If `over` has fewer than two members, or two in a row are no neighbours.
    pub fn add_competitor(
        &mut self,
        over: &[MemberId],
        round_trip: Duration,
        start: Time,
        stop: Option<Time>,
    ) {
        assert!(over.len() >= 2, "a competitor crosses at least one link");
        let links = over.windows(2).map(|pair| self.simulator_link(pair[0], pair[1])).collect();
        let over = over.iter().map(|member| self.simulator_node(*member)).collect();
        let spec = CompetitorSpec { over, links, round_trip, start, stop };
        self.competitors.add(&mut self.simulator, spec);
    }

    /// Bytes that have arrived of all competing flows, IP and UDP headers counted.
    pub fn competitors_delivered_bytes(&self) -> u64 {
        self.competitors.delivered_bytes()
    }

    /// Lets a member's process pause again and again from now on, as on a busy machine.
    pub fn pause(&mut self, member: MemberId, pauses: Pauses) {
        let node = self.simulator_node(member);
        self.pausing.add(&mut self.simulator, node, pauses);
    }

    /// From now on a member's process, until it is restarted, sends so many bytes per second at most, UDP payload, over
    /// all of its links together: then its socket blocks.
    pub fn limit_socket(&mut self, member: MemberId, bytes_per_second: u64) {
        self.processes[usize::from(member.0)].socket = Some(Socket::new(bytes_per_second));
    }

    /// Puts a datagram onto the link between two members, of several the first, as somebody who sits on it could.
    pub fn inject(&mut self, from: MemberId, to: MemberId, datagram: Vec<u8>) {
        let link = self.link_between(from, to);
        self.put_on(from, link, datagram);
    }

    fn put_on(&mut self, from: MemberId, link: LinkId, datagram: Vec<u8>) {
        let node = self.simulator_node(from);
        match self.fabric.way(from, link) {
            Some(way) => self.simulator.send_along(node, way, datagram),
            None => self.simulator.send(node, self.links[link.entry()], datagram),
        }
    }

    /// Begins to record what `from` sends to its neighbour `to`.
    pub fn tap(&mut self, from: MemberId, to: MemberId) {
        self.onlookers.tap(from, to);
    }

    /// Stops recording and gives the datagrams.
    pub fn take_tapped(&mut self) -> Vec<Vec<u8>> {
        self.onlookers.take_tapped()
    }

    /// From now on what `forge` makes of each datagram from `from` to its neighbour `to` comes ahead of it.
    pub fn precede(&mut self, from: MemberId, to: MemberId, forge: fn(&[u8]) -> Vec<u8>) {
        self.onlookers.precede(from, to, forge);
    }

    /// Runs until `done` holds or `limit` has passed; gives whether it held.
    pub fn run_until(&mut self, limit: Duration, mut done: impl FnMut(&World<A>) -> bool) -> bool {
        let deadline = self.simulator.now() + limit;
        loop {
            if done(self) {
                return true;
            }
            let Some(event) = self.simulator.step_until(deadline) else { return false };
            self.handle(event);
        }
    }

    /// Runs for a while.
    pub fn run_for(&mut self, span: Duration) {
        self.run_until(span, |_| false);
    }

    /// A hash over everything that happened on the network.
    pub fn trace_hash(&self) -> String {
        self.simulator.trace_hash().to_hex().to_string()
    }

    /// The network itself, for its counters.
    pub fn simulator(&self) -> &Simulator {
        &self.simulator
    }

    /// The bytes that wait in the queue of a link's direction.
    pub fn queued_bytes(&mut self, link: netsim::LinkId, from: netsim::NodeId) -> u64 {
        self.simulator.queued_bytes(link, from)
    }

    /// The simulator's names for all links, in the order of the overlay.
    pub fn simulator_links(&self) -> &[netsim::LinkId] {
        &self.links
    }

    fn start(&mut self, member: MemberId, instance: u64) -> Process<A> {
        let identity = self.identities[usize::from(member.0)].clone();
        let overlay = Arc::clone(&self.overlay);
        let name = format!("{} {} {instance}", self.seed, self.overlay.name(member));
        let seed = blake3::derive_key("fec-transport 2026 seed of a simulated process", name.as_bytes());
        let id = InstanceId(instance);
        let random = Randomness::Seed(seed);
        let node = Node::new(overlay, identity, member, id, self.config.clone(), random, self.now())
            .expect("a right config");
        let application = (self.make_application)(&self.overlay, member);
        Process { node, application, instance, is_up: true, socket: None, connected: BTreeMap::new() }
    }

    fn handle(&mut self, event: netsim::Event) {
        self.refuse_to_spin();
        let Some(event) = self.competitors.take(&mut self.simulator, event) else { return };
        if self.fabric.is_of(&event) {
            return;
        }
        match self.pausing.take(&mut self.simulator, event) {
            Some(event) => self.see(event),
            None => {
                while let Some(event) = self.pausing.next_released() {
                    self.see(event);
                }
            }
        }
    }

    /// Lets a process that runs see what concerns it.
    fn see(&mut self, event: netsim::Event) {
        let now = self.now();
        match event {
            netsim::Event::Packet { node, link, packet } => self.receive(node, link, packet),
            netsim::Event::Wake { node } => self.on_process(node, |process| process.wake(now)),
            netsim::Event::ControlUp { node, link } => {
                let (peer, link) = (self.other_end(node, link), overlay_link(link));
                self.on_process(node, |process| process.control_up(now, Adjacency { peer, link }));
            }
            netsim::Event::ControlDown { node, link } => {
                self.on_process(node, |process| process.control_down(now, overlay_link(link)));
            }
            netsim::Event::ControlMessage { node, link, message } => {
                self.on_process(node, |process| process.control_message(now, overlay_link(link), &message));
                let process = &mut self.processes[node.index()];
                if let Some(whereabouts) = &mut self.whereabouts {
                    whereabouts.take_answers(&mut process.node);
                    self.pump(member(node.index()));
                }
            }
            netsim::Event::NodeDown { node } => self.on_process(node, |process| process.is_up = false),
            netsim::Event::NodeUp { node } => self.reincarnate(member(node.index())),
            _ => {}
        }
    }

    fn receive(&mut self, node: netsim::NodeId, link: netsim::LinkId, mut packet: Vec<u8>) {
        let (now, here) = (self.now(), member(node.index()));
        let process = &mut self.processes[node.index()];
        if !process.is_up {
            return;
        }
        let ingress = process.node.handle_datagram(now, &mut packet);
        match (&mut self.whereabouts, ingress) {
            (Some(whereabouts), ingress) => {
                let from = self.simulator.neighbour(link, node);
                let delay = self.simulator.model(link, from).delay;
                let challenge = whereabouts.on_ingress(now, &mut process.node, ingress, delay);
                if let Some((neighbour, challenge)) = challenge {
                    self.put_on(here, neighbour.link, challenge);
                }
            }
            (None, Ingress::Greeted(neighbour)) => process.node.confirm_greeting(neighbour),
            (None, _) => {}
        }
        self.pump(here);
    }

    fn on_process(&mut self, node: netsim::NodeId, act: impl FnOnce(&mut Process<A>)) {
        let process = &mut self.processes[node.index()];
        if process.is_up {
            act(process);
            self.pump(member(node.index()));
        }
    }

    fn reincarnate(&mut self, member: MemberId) {
        let instance = self.processes[usize::from(member.0)].instance + 1;
        self.processes[usize::from(member.0)] = self.start(member, instance);
        self.pump(member);
    }

    /// Passes on everything that a process has to say, and sets its alarm.
    fn pump(&mut self, member: MemberId) {
        let now = self.now();
        let index = usize::from(member.0);
        let mut datagram = Vec::new();
        loop {
            let process = &mut self.processes[index];
            if !process.is_up {
                return;
            }
            process.plan(now);
            while let Some(job) = process.node.poll_job() {
                process.node.handle_job(now, job.run());
            }
            while let Some(event) = process.node.poll_event() {
                process.application.handle_event(now, &mut process.node, event);
                process.plan(now);
            }
            while let Some(outcome) = process.application.poll_outcome() {
                self.outcomes.push((member, outcome));
            }
            while let Some((to, message)) = process.node.poll_control() {
                if process.connected.get(&to.link) == Some(&to.peer) {
                    let link = self.links[to.link.entry()];
                    self.simulator.send_control(self.nodes[index], link, message);
                }
            }
            if process.blocked_until(now).is_some() {
                break;
            }
            datagram.clear();
            let Some(transmit) = process.node.poll_transmit(now, &mut datagram) else { break };
            if let Some(socket) = &mut process.socket {
                socket.send(now, datagram.len());
            }
            for segment in datagram.chunks(transmit.segment_size) {
                self.transmit(member, transmit.to, segment.to_vec());
            }
        }
        let alarm = self.processes[index].next_timeout(now);
        let node = self.simulator_node(member);
        match alarm {
            Some(at) => self.simulator.wake_at(node, at.since_epoch()),
            None => self.simulator.cancel_wake(node),
        }
    }

    fn transmit(&mut self, from: MemberId, to: Adjacency, datagram: Vec<u8>) {
        if self.whereabouts.as_ref().is_some_and(|whereabouts| !whereabouts.reaches(from, to)) {
            return;
        }
        let forged = self.onlookers.see(from, to.peer.member, &datagram);
        forged.into_iter().for_each(|copy| self.put_on(from, to.link, copy));
        self.put_on(from, to.link, datagram);
    }

    /// The process at the other end of a control pipe.
    fn other_end(&self, node: netsim::NodeId, link: netsim::LinkId) -> Peer {
        let other = member(self.simulator.neighbour(link, node).index());
        Peer { member: other, instance: InstanceId(self.processes[usize::from(other.0)].instance) }
    }

    fn refuse_to_spin(&mut self) {
        let now = self.simulator.now();
        let (at, count) = &mut self.events_at_once;
        (*at, *count) = if *at == now { (now, *count + 1) } else { (now, 0) };
        assert!(*count < MAX_EVENTS_AT_ONCE, "stuck at {now:?}: a process wakes itself without end");
    }

    /// The simulator's name for a member.
    pub fn simulator_node(&self, member: MemberId) -> netsim::NodeId {
        self.nodes[usize::from(member.0)]
    }

    /// The simulator's name for the link between two members, of several the first.
    ///
    /// # Panics
    /// If the two are no neighbours.
    pub fn simulator_link(&self, a: MemberId, b: MemberId) -> netsim::LinkId {
        self.links[self.link_between(a, b).entry()]
    }

    fn link_between(&self, a: MemberId, b: MemberId) -> LinkId {
        *self.overlay.links_between(a, b).first().expect("the members are neighbours")
    }
}

impl<A: Application> Process<A> {
    fn blocked_until(&self, now: Time) -> Option<Time> {
        self.socket.as_ref().and_then(|socket| socket.blocked_until(now))
    }

    /// While the socket is blocked, the node's timer only asks for what cannot be sent.
    fn next_timeout(&mut self, now: Time) -> Option<Time> {
        let earliest =
            [self.node.next_timeout(), self.application.next_timeout()].into_iter().flatten().min()?;
        Some(earliest.max(self.blocked_until(now).unwrap_or(earliest)))
    }

    fn wake(&mut self, now: Time) {
        let is_due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        if is_due(self.node.next_timeout()) {
            self.node.handle_timeout(now);
            // Plans take no virtual time. The node acts on its other timers once it has them.
            if self.plan(now) {
                self.node.handle_timeout(now);
            }
        }
        if is_due(self.application.next_timeout()) {
            self.application.handle_timeout(now, &mut self.node);
        }
    }

    /// Computes the plans that the node asks for. Says whether there were any.
    fn plan(&mut self, now: Time) -> bool {
        let mut any = false;
        while let Some(job) = self.node.poll_plan() {
            self.node.handle_plan(now, job.run());
            any = true;
        }
        any
    }

    fn control_up(&mut self, now: Time, neighbour: Adjacency) {
        self.connected.insert(neighbour.link, neighbour.peer);
        self.node.neighbour_up(now, neighbour);
    }

    fn control_down(&mut self, now: Time, link: LinkId) {
        if let Some(peer) = self.connected.remove(&link) {
            self.node.neighbour_down(now, Adjacency { peer, link });
        }
    }

    fn control_message(&mut self, now: Time, link: LinkId, message: &[u8]) {
        if let Some(peer) = self.connected.get(&link).copied() {
            self.node.handle_control(now, Adjacency { peer, link }, message);
        }
    }
}

/// The overlay's links are the simulator's first ones, in their order; cables come behind them.
fn overlay_link(link: netsim::LinkId) -> LinkId {
    LinkId(u32::try_from(link.index()).expect("control pipes of cables were passed over"))
}

fn member(index: usize) -> MemberId {
    MemberId(u16::try_from(index).expect("the simulator has as many nodes as the overlay members"))
}
