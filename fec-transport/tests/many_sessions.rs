//! 10,000 sessions against one node, 1,000 at once, from as many processes of one member: nothing stays behind.
//!
//! Here there is no network: what a node sends arrives one step later, whatever it is.

#[path = "common/two_members.rs"]
mod two_members;

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use fec_transport::overlay::{Adjacency, InstanceId, LinkId, MemberId, Overlay, Peer};
use fec_transport::{Config, Event, Ingress, Node, Randomness, Read, SessionId, Time};
use peak_alloc::PeakAlloc;
use two_members::{identity, overlay};

#[global_allocator]
static ALLOCATED: PeakAlloc = PeakAlloc;

const AT_ONCE: usize = 1_000;
const WAVES: usize = 10;
const STEP: Duration = Duration::from_millis(5);
/// Longer than a neighbour's process that has gone is remembered.
const FORGOTTEN: Duration = Duration::from_secs(90);
/// What the allocator's own tables may differ by; a session takes more than 10 kB.
const SLACK_BYTES: usize = 200_000;

/// What a session may take that has carried a message over one path and then rests, with its circuit and its part of
/// all tables.
const RESTING_SESSION_BYTES: usize = 16 << 10;

const CLIENT: MemberId = MemberId(0);
const SERVER: Peer = Peer { member: MemberId(1), instance: InstanceId(0) };

fn node(overlay: &Arc<Overlay>, name: &str, own: Peer, now: Time) -> Node {
    let seed = *blake3::hash(format!("{name} {}", own.instance.0).as_bytes()).as_bytes();
    let (overlay, config) = (Arc::clone(overlay), Config::default());
    Node::new(overlay, identity(name), own.member, own.instance, config, Randomness::Seed(seed), now)
        .expect("a right config")
}

/// One client process.
struct Client {
    node: Node,
    own: Peer,
    session: Option<SessionId>,
    delivered: bool,
    closed: bool,
}

enum Parcel {
    Control(Vec<u8>),
    Datagram(Vec<u8>),
}

struct Scene {
    overlay: Arc<Overlay>,
    now: Time,
    server: Node,
    opened: usize,
    received: usize,
    closed: usize,
    clients: Vec<Client>,
    /// From a client to the server, and back.
    to_server: VecDeque<(Peer, Parcel)>,
    to_clients: VecDeque<(Peer, Parcel)>,
    first_instance: u64,
}

impl Scene {
    fn new() -> Scene {
        let (overlay, now) = (overlay(), Time::from_epoch(Duration::from_secs(1_000)));
        Scene {
            server: node(&overlay, "server", SERVER, now),
            overlay,
            now,
            opened: 0,
            received: 0,
            closed: 0,
            clients: Vec::new(),
            to_server: VecDeque::new(),
            to_clients: VecDeque::new(),
            first_instance: 1,
        }
    }

    /// New processes of the client, each of which opens a session.
    fn connect(&mut self) {
        for number in 0..AT_ONCE as u64 {
            let own = Peer { member: CLIENT, instance: InstanceId(self.first_instance + number) };
            let mut node = node(&self.overlay, "client", own, self.now);
            self.server.neighbour_up(self.now, over_link(own));
            node.neighbour_up(self.now, over_link(SERVER));
            node.connect(self.now, SERVER.member).expect("there is a path");
            self.clients.push(Client { node, own, session: None, delivered: false, closed: false });
        }
    }

    /// They end.
    fn disconnect(&mut self) {
        for client in self.clients.drain(..) {
            self.server.neighbour_down(self.now, over_link(client.own));
        }
        self.first_instance += AT_ONCE as u64;
        self.to_clients.clear();
    }

    fn step(&mut self) {
        self.now += STEP;
        let now = self.now;
        for (from, parcel) in std::mem::take(&mut self.to_server) {
            match parcel {
                Parcel::Control(message) => self.server.handle_control(now, over_link(from), &message),
                Parcel::Datagram(mut datagram) => {
                    if let Ingress::Greeted(peer) = self.server.handle_datagram(now, &mut datagram) {
                        self.server.confirm_greeting(peer);
                    }
                }
            }
        }
        for (to, parcel) in std::mem::take(&mut self.to_clients) {
            let place = to.instance.0.checked_sub(self.first_instance).map(|place| place as usize);
            let Some(client) = place.and_then(|place| self.clients.get_mut(place)) else { continue };
            match parcel {
                Parcel::Control(message) => client.node.handle_control(now, over_link(SERVER), &message),
                Parcel::Datagram(mut datagram) => drop(client.node.handle_datagram(now, &mut datagram)),
            }
        }
        for client in &mut self.clients {
            client.act(now);
            drain(&mut client.node, now, |_, parcel| self.to_server.push_back((client.own, parcel)));
        }
        self.serve();
        drain(&mut self.server, now, |to, parcel| self.to_clients.push_back((to, parcel)));
    }

    /// The server reads each stream to its end.
    fn serve(&mut self) {
        while let Some(event) = self.server.poll_event() {
            match event {
                Event::SessionOpened { .. } => self.opened += 1,
                Event::SessionClosed { .. } => self.closed += 1,
                Event::Readable { stream } => {
                    while let Ok(Read::Data { bytes, .. }) = self.server.read(self.now, stream, usize::MAX) {
                        self.received += bytes.len();
                    }
                    let _ = self.server.finish(self.now, stream);
                }
                _ => {}
            }
        }
    }

    fn run_until(&mut self, limit: Duration, done: impl Fn(&Scene) -> bool) {
        let deadline = self.now + limit;
        while !done(self) {
            assert!(self.now < deadline, "{} opened, {} closed", self.opened, self.closed);
            self.step();
        }
    }
}

impl Client {
    /// Sends a message on a stream as soon as the session is open.
    fn act(&mut self, now: Time) {
        while let Some(event) = self.node.poll_event() {
            match event {
                Event::SessionOpened { session, .. } => {
                    self.session = Some(session);
                    let stream = self.node.open_stream(session).expect("a new session has room");
                    self.node.write(now, stream, &[7; 1_000]).expect("the stream is open");
                    self.node.finish(now, stream).expect("the stream is open");
                }
                Event::Delivered { .. } => self.delivered = true,
                Event::SessionClosed { .. } => self.closed = true,
                _ => {}
            }
        }
    }
}

/// A process as the other one sees it over the only link.
fn over_link(peer: Peer) -> Adjacency {
    Adjacency { peer, link: LinkId(0) }
}

/// Everything that a node has to say.
fn drain(node: &mut Node, now: Time, mut send: impl FnMut(Peer, Parcel)) {
    if node.next_timeout().is_some_and(|due| due <= now) {
        node.handle_timeout(now);
    }
    while let Some(job) = node.poll_job() {
        node.handle_job(now, job.run());
    }
    while let Some(job) = node.poll_plan() {
        node.handle_plan(now, job.run());
    }
    while let Some((to, message)) = node.poll_control() {
        send(to.peer, Parcel::Control(message));
    }
    let mut buffer = Vec::new();
    while let Some(transmit) = node.poll_transmit(now, &mut buffer) {
        buffer
            .chunks(transmit.segment_size)
            .for_each(|one| send(transmit.to.peer, Parcel::Datagram(one.to_vec())));
        buffer.clear();
    }
}

#[test]
fn ten_thousand_sessions_leave_nothing_behind() {
    let mut scene = Scene::new();
    let mut after_first_wave = 0;
    for wave in 1..=WAVES {
        scene.connect();
        let all = wave * AT_ONCE;
        scene.run_until(Duration::from_secs(10), |scene| scene.clients.iter().all(|client| client.delivered));
        assert_eq!((scene.opened, scene.received), (all, all * 1_000));
        assert_eq!(scene.server.sessions().count(), AT_ONCE, "all of them at once");
        let now = scene.now;
        for client in &mut scene.clients {
            let session = client.session.expect("it is open");
            client.node.close(now, session, "done");
        }
        scene.run_until(Duration::from_secs(10), |scene| scene.closed == all);
        scene.run_until(Duration::from_secs(10), |scene| scene.clients.iter().all(|client| client.closed));
        scene.disconnect();
        scene.now += FORGOTTEN;
        scene.step();
        assert_eq!(scene.server.sessions().count(), 0);
        assert_eq!((scene.server.table_sizes(), scene.server.neighbour_count()), ((0, 0), 0));
        let allocated = ALLOCATED.current_usage();
        println!("after {all} sessions: {allocated} bytes");
        match wave {
            1 => after_first_wave = allocated,
            _ => assert!(allocated < after_first_wave + SLACK_BYTES, "{allocated}, {after_first_wave}"),
        }
    }
    drop(scene);
    resting_sessions_take_little();
}

/// It is no test of its own, because the allocator counts for all tests of this program that run at the time.
fn resting_sessions_take_little() {
    let mut scene = Scene::new();
    scene.connect();
    scene.run_until(Duration::from_secs(10), |scene| scene.clients.iter().all(|client| client.delivered));
    (0..200).for_each(|_| scene.step());
    assert_eq!(scene.server.sessions().count(), AT_ONCE);
    let before = ALLOCATED.current_usage();
    drop(scene.server);
    let session = (before - ALLOCATED.current_usage()) / AT_ONCE;
    println!("a resting session takes {session} bytes");
    assert!(session <= RESTING_SESSION_BYTES, "{session} bytes");
}
