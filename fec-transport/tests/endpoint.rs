//! Endpoints on loopback, as a program would use them.
#![cfg(feature = "io")]

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use fec_transport::io::{BindError, Endpoint, EndpointConfig, EndpointEnded, EndpointError, Plane, Sockets};
use fec_transport::keys::{Identity, encode_key};
use fec_transport::overlay::{MemberId, Overlay};
use fec_transport::{Application, CloseReason, Event, Node, Read, SessionId, StreamId, Time};
use tokio::sync::mpsc;
use tokio::time::timeout;

/// Longer than anything here takes on a busy machine; only a failing test waits for it.
const PATIENCE: Duration = Duration::from_secs(30);

/// Asks with a message, and repeats what others ask: both on streams of their own.
#[derive(Debug, Default)]
struct Parrot {
    waiting: Vec<(SessionId, Vec<u8>)>,
    streams: BTreeMap<StreamId, Stream>,
    outcomes: VecDeque<Outcome>,
}

#[derive(Debug, Default)]
struct Stream {
    unsent: Vec<u8>,
    /// Of a stream that we opened.
    answer: Option<Vec<u8>>,
    finished: bool,
}

#[derive(Debug)]
struct Ask {
    whom: MemberId,
    message: Vec<u8>,
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Answer(Vec<u8>),
    Closed(CloseReason),
}

impl Parrot {
    fn ask(&mut self, now: Time, node: &mut Node, session: SessionId) {
        let (ready, waiting) = self.waiting.drain(..).partition(|(waits_for, _)| *waits_for == session);
        self.waiting = waiting;
        let ready: Vec<(SessionId, Vec<u8>)> = ready;
        for (_, message) in ready {
            let stream = node.open_stream(session).expect("the session is open");
            self.streams.insert(stream, Stream { unsent: message, answer: Some(vec![]), finished: false });
            self.pump(now, node, stream);
        }
    }

    /// Moves bytes until reading or writing gets stuck.
    fn pump(&mut self, now: Time, node: &mut Node, id: StreamId) {
        let Some(stream) = self.streams.get_mut(&id) else { return };
        loop {
            stream.write(now, node, id);
            if stream.answer.is_none() && !stream.unsent.is_empty() {
                return;
            }
            match node.read(now, id, 64 * 1024) {
                Ok(Read::Data { bytes, .. }) => {
                    stream.answer.as_mut().unwrap_or(&mut stream.unsent).extend_from_slice(&bytes);
                }
                Ok(Read::Finished) => break,
                Ok(Read::Blocked) | Err(_) => return,
            }
        }
        if stream.answer.is_none() {
            node.finish(now, id).expect("our direction is open");
        }
        let stream = self.streams.remove(&id).expect("it was just there");
        self.outcomes.extend(stream.answer.map(Outcome::Answer));
    }
}

impl Stream {
    fn write(&mut self, now: Time, node: &mut Node, id: StreamId) {
        let taken = node.write(now, id, &self.unsent).unwrap_or(0);
        self.unsent.drain(..taken);
        if self.unsent.is_empty() && self.answer.is_some() && !self.finished {
            node.finish(now, id).expect("our direction is open");
            self.finished = true;
        } else if !self.unsent.is_empty() || self.answer.is_none() {
            node.flush(now, id).expect("our direction is open");
        }
    }
}

impl Application for Parrot {
    type Command = Ask;
    type Outcome = Outcome;

    fn handle_event(&mut self, now: Time, node: &mut Node, event: Event) {
        match event {
            Event::SessionOpened { session, .. } => self.ask(now, node, session),
            Event::SessionClosed { reason, .. } => self.outcomes.push_back(Outcome::Closed(reason)),
            Event::StreamOpened { stream } => drop(self.streams.insert(stream, Stream::default())),
            Event::Readable { stream } | Event::Writable { stream } => self.pump(now, node, stream),
            _ => {}
        }
    }

    fn handle_command(&mut self, now: Time, node: &mut Node, Ask { whom, message }: Ask) {
        let session = node.connect(now, whom).expect("there is a path");
        self.waiting.push((session, message));
        if node.peer(session).is_some() {
            self.ask(now, node, session);
        }
    }

    fn handle_timeout(&mut self, _now: Time, _node: &mut Node) {}

    fn next_timeout(&self) -> Option<Time> {
        None
    }

    fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }
}

fn identity(name: &str) -> Identity {
    Identity::from_seed(*blake3::hash(name.as_bytes()).as_bytes())
}

fn loopback() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port on loopback")
}

fn member(name: &str, rest: &str) -> String {
    let keys = identity(name).public();
    let (ed25519, x25519) = (encode_key(&keys.ed25519), encode_key(&keys.x25519));
    format!("[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n{rest}\n")
}

/// A client and a server with a relay between them; ports are bound before the overlay names them.
struct Line {
    overlay: Arc<Overlay>,
    bound: BTreeMap<&'static str, Sockets>,
}

/// A process of a member, and what its application tells.
struct Process {
    endpoint: Endpoint<Parrot>,
    outcomes: mpsc::UnboundedReceiver<Outcome>,
}

impl Line {
    fn new() -> Line {
        let (mut text, mut bound) = (member("client", ""), BTreeMap::new());
        for name in ["relay", "server"] {
            let sockets = Sockets { control: loopback(), data: loopback() };
            let [control, data] = [&sockets.control, &sockets.data].map(|it| it.local_addr().expect("bound"));
            let rest = format!("control = \"{control}\"\ndata = \"{data}\"\nrelay_for = [\"*\"]");
            text += &member(name, &rest);
            bound.insert(name, sockets);
        }
        text += "[[link]]\na = \"client\"\nb = \"relay\"\n[[link]]\na = \"relay\"\nb = \"server\"\n";
        Line { overlay: Arc::new(Overlay::parse(&text).expect("a right overlay")), bound }
    }

    async fn start(&self, name: &str) -> Process {
        let share = |socket: &UdpSocket| socket.try_clone().expect("a second handle");
        let sockets =
            self.bound.get(name).map(|own| Sockets { control: share(&own.control), data: share(&own.data) });
        let config =
            EndpointConfig { sockets, ..EndpointConfig::new(Arc::clone(&self.overlay), identity(name)) };
        let (tell, outcomes) = mpsc::unbounded_channel();
        let host = move |outcome| drop(tell.send(outcome));
        let endpoint = Endpoint::start(config, Parrot::default(), host).await.expect("an endpoint");
        Process { endpoint, outcomes }
    }

    fn member(&self, name: &str) -> MemberId {
        self.overlay.find(name).expect("a member of the line")
    }
}

impl Process {
    async fn next(&mut self) -> Outcome {
        timeout(PATIENCE, self.outcomes.recv()).await.expect("in time").expect("the application lives")
    }

    async fn ask(&mut self, whom: MemberId, message: Vec<u8>) {
        self.endpoint.handle().command(Ask { whom, message }).await.expect("the endpoint lives");
    }
}

fn message(length: usize) -> Vec<u8> {
    (0..length).map(|index| (index * index / 7) as u8).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_come_back_through_the_relay_unchanged() {
    let line = Line::new();
    let (_relay, _server) = (line.start("relay").await, line.start("server").await);
    let mut client = line.start("client").await;
    for length in [5, 0, 3 << 20] {
        client.ask(line.member("server"), message(length)).await;
        assert_eq!(client.next().await, Outcome::Answer(message(length)));
    }
    let counts = client.endpoint.handle().data_counts().await.expect("the endpoint lives");
    assert!(counts.sent > (3 << 20) / 1408 && counts.received > (3 << 20) / 1408, "{counts:?}");
    assert_eq!((counts.without_address, counts.refused), (0, 0));
}

#[tokio::test]
async fn a_strangers_datagrams_are_counted_and_never_answered() {
    let line = Line::new();
    let (relay, _server) = (line.start("relay").await, line.start("server").await);
    let mut client = line.start("client").await;
    let stranger = loopback();
    stranger.set_nonblocking(true).expect("supported");
    for length in [0, 1, 24, 64, 1400] {
        stranger.send_to(&message(length), relay.endpoint.addresses().data).expect("sent");
    }
    client.ask(line.member("server"), message(1000)).await;
    assert_eq!(client.next().await, Outcome::Answer(message(1000)));
    assert!(stranger.recv(&mut [0; 2048]).is_err(), "an answer");
    let received = relay.endpoint.handle().data_counts().await.expect("the endpoint lives").received;
    assert!(received >= 4, "{received}");
}

#[tokio::test]
async fn a_shutdown_is_told_to_the_peers_and_gives_the_application_back() {
    let line = Line::new();
    let (_relay, mut server) = (line.start("relay").await, line.start("server").await);
    let mut client = line.start("client").await;
    client.ask(line.member("server"), message(10)).await;
    assert_eq!(client.next().await, Outcome::Answer(message(10)));
    let handle = client.endpoint.handle().clone();
    let parrot = timeout(PATIENCE, client.endpoint.shutdown()).await.expect("in time").expect("no panic");
    assert!(parrot.streams.is_empty() && parrot.waiting.is_empty());
    assert_eq!(server.next().await, Outcome::Closed(CloseReason::ByPeer("shutting down".to_owned())));
    assert_eq!(handle.inspect(|_, _| ()).await, Err(EndpointEnded));
}

#[tokio::test]
async fn a_restarted_relay_is_used_again() {
    let line = Line::new();
    let (relay, _server) = (line.start("relay").await, line.start("server").await);
    let mut client = line.start("client").await;
    client.ask(line.member("server"), message(100)).await;
    assert_eq!(client.next().await, Outcome::Answer(message(100)));
    relay.endpoint.shutdown().await.expect("no panic");
    let _relay = line.start("relay").await;
    client.ask(line.member("server"), message(200)).await;
    assert_eq!(client.next().await, Outcome::Answer(message(200)));
}

#[tokio::test]
async fn dropped_endpoints_leave_no_tasks_behind() {
    let line = Line::new();
    let (relay, server) = (line.start("relay").await, line.start("server").await);
    let mut client = line.start("client").await;
    client.ask(line.member("server"), message(10)).await;
    client.next().await;
    drop((relay, server, client));
    let metrics = tokio::runtime::Handle::current().metrics();
    let ended = async {
        while metrics.num_alive_tasks() > 0 {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, ended).await.expect("all tasks end");
}

async fn start_error(overlay: &str, identity: Identity) -> EndpointError {
    let overlay = Arc::new(Overlay::parse(overlay).expect("a right overlay"));
    let config = EndpointConfig::new(overlay, identity);
    Endpoint::start(config, Parrot::default(), |_| {}).await.expect_err("it should not start")
}

#[tokio::test]
async fn a_key_that_is_none_of_the_overlays_is_named() {
    let error = start_error(&member("relay", ""), identity("stranger")).await;
    let key = encode_key(&identity("stranger").public().ed25519);
    assert_eq!(error.to_string(), format!("no member of the overlay has this process's key (Ed25519 {key})"));
}

#[tokio::test]
async fn an_x25519_key_of_another_seed_is_noticed_before_any_handshake() {
    let [right, wrong] = ["relay", "other"].map(|name| encode_key(&identity(name).public().x25519));
    let error = start_error(&member("relay", "").replace(&right, &wrong), identity("relay")).await;
    assert!(matches!(&error, EndpointError::WrongX25519 { expected, .. } if *expected == right), "{error}");
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let taken = loopback();
    let address = taken.local_addr().expect("bound");
    let addresses = format!("control = \"127.0.0.1:0\"\ndata = \"{address}\"");
    let error = start_error(&member("relay", &addresses), identity("relay")).await;
    let is_named = matches!(
        &error,
        EndpointError::Bind(BindError::InUse { plane: Plane::Data, address: named }) if *named == address
    );
    assert!(is_named, "{error}");
}
