//! A bulk transfer over three paths at once, and what each of them carried.
//!
//! ```text
//! cargo run --release -p fec-transport --example bulk -- 256
//! ```
//!
//! It sends so many MiB from a client through three relays to a server, five processes of the library in one program,
//! on loopback. It shows how to write as fast as the transport takes it (`write_bytes` and `Event::Writable`), how to
//! take blocks as they are decoded, in whatever order that is (`read_block`), and how to look at the paths of a
//! session.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, UdpSocket};
use std::sync::Arc;

use bytes::Bytes;
use fec_transport::io::{Endpoint, EndpointConfig, Sockets};
use fec_transport::keys::{Identity, encode_key};
use fec_transport::overlay::{MemberId, Overlay};
use fec_transport::{Application, CloseReason, Event, Node, Read, SessionId, StreamId, Time};

const RELAYS: [&str; 3] = ["r1", "r2", "r3"];
/// What is written at once; it is sent again and again.
const PIECE: usize = 1 << 20;

/// What is to be sent: to whom, and how many bytes.
struct Order {
    to: MemberId,
    bytes: u64,
}

enum Outcome {
    /// A stream has arrived whole.
    Arrived { bytes: u64 },
    /// A session has ended or could not be opened.
    Closed(String),
}

/// Sends what it is told to, and counts what arrives.
struct Bulk {
    piece: Bytes,
    /// How many bytes each session that is being opened is for.
    waiting: BTreeMap<SessionId, u64>,
    /// How many bytes each stream has still to take.
    sending: BTreeMap<StreamId, u64>,
    received: BTreeMap<StreamId, u64>,
    outcomes: VecDeque<Outcome>,
}

impl Bulk {
    fn new() -> Bulk {
        let piece = (0..PIECE).map(|index| index as u8).collect::<Vec<u8>>().into();
        Bulk {
            piece,
            waiting: BTreeMap::new(),
            sending: BTreeMap::new(),
            received: BTreeMap::new(),
            outcomes: VecDeque::new(),
        }
    }

    /// Writes until the stream takes no more; `Event::Writable` tells when it does again.
    fn write(&mut self, now: Time, node: &mut Node, stream: StreamId) {
        let Some(left) = self.sending.get_mut(&stream) else { return };
        while *left > 0 {
            let data = self.piece.slice(..PIECE.min(*left as usize));
            let taken = node.write_bytes(now, stream, &data).unwrap_or(0);
            *left -= taken as u64;
            if taken < data.len() {
                return;
            }
        }
        self.sending.remove(&stream);
        // Without a session there is nobody left to tell that this was all.
        let _ = node.finish(now, stream);
    }

    fn read(&mut self, now: Time, node: &mut Node, stream: StreamId) {
        let received = self.received.entry(stream).or_default();
        loop {
            match node.read_block(now, stream) {
                // A program that stores data would write `bytes` at `offset`.
                Ok(Read::Data { bytes, .. }) => *received += bytes.len() as u64,
                Ok(Read::Finished) => {
                    let bytes = *received;
                    self.received.remove(&stream);
                    return self.outcomes.push_back(Outcome::Arrived { bytes });
                }
                _ => return,
            }
        }
    }
}

impl Application for Bulk {
    type Command = Order;
    type Outcome = Outcome;

    fn handle_event(&mut self, now: Time, node: &mut Node, event: Event) {
        match event {
            Event::SessionOpened { session, incoming: false, .. } => {
                let Some(bytes) = self.waiting.remove(&session) else { return };
                let stream = node.open_stream(session).expect("a new session has room for a stream");
                self.sending.insert(stream, bytes);
                self.write(now, node, stream);
            }
            Event::Writable { stream } => self.write(now, node, stream),
            Event::Readable { stream } => self.read(now, node, stream),
            Event::SessionClosed { reason, .. } if reason != CloseReason::Local => {
                self.outcomes.push_back(Outcome::Closed(reason.to_string()));
            }
            _ => {}
        }
    }

    fn handle_command(&mut self, now: Time, node: &mut Node, order: Order) {
        match node.connect(now, order.to) {
            Ok(session) => drop(self.waiting.insert(session, order.bytes)),
            Err(error) => self.outcomes.push_back(Outcome::Closed(error.to_string())),
        }
    }

    fn handle_timeout(&mut self, _: Time, _: &mut Node) {}

    fn next_timeout(&self) -> Option<Time> {
        None
    }

    fn poll_outcome(&mut self) -> Option<Outcome> {
        self.outcomes.pop_front()
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mebibytes: u64 = std::env::args().nth(1).map_or(Ok(64), |text| text.parse())?;
    let (overlay, mut sockets) = overlay()?;
    let (tell, mut outcomes) = tokio::sync::mpsc::unbounded_channel();
    let mut endpoints = BTreeMap::new();
    for name in ["server", "client"].into_iter().chain(RELAYS) {
        let config = EndpointConfig {
            sockets: sockets.remove(name),
            ..EndpointConfig::new(Arc::clone(&overlay), identity(name))
        };
        let tell = tell.clone();
        let endpoint = Endpoint::start(config, Bulk::new(), move |outcome| drop(tell.send(outcome))).await?;
        endpoints.insert(name, endpoint);
    }
    let client = endpoints["client"].handle();
    let to = overlay.find("server").ok_or("the overlay has a server")?;
    client.command(Order { to, bytes: mebibytes << 20 }).await?;
    match outcomes.recv().await.ok_or("the endpoints have ended")? {
        Outcome::Arrived { bytes } => println!("{} MiB have arrived", bytes >> 20),
        Outcome::Closed(reason) => return Err(reason.into()),
    }
    let look = |node: &Node, _: &Bulk| node.sessions().filter_map(|id| node.session_status(id)).collect();
    let sessions: Vec<fec_transport::SessionStatus> = client.inspect(look).await?;
    for path in sessions.iter().flat_map(|session| &session.paths) {
        let route: Vec<String> = path.route.iter().map(|member| overlay.name(*member)).collect();
        let sent = path.counters.source_symbols + path.counters.repair_symbols;
        println!("{}: {sent} symbols, {} packets lost", route.join(" – "), path.counters.packets_lost);
    }
    Ok(())
}

/// The sockets of each member that listens.
type Bound = BTreeMap<&'static str, Sockets>;

/// client – each relay – server, and the sockets of all who listen.
fn overlay() -> Result<(Arc<Overlay>, Bound), Box<dyn std::error::Error>> {
    let mut text = member("client", "");
    let mut all = BTreeMap::new();
    for name in RELAYS.into_iter().chain(["server"]) {
        let bind = || UdpSocket::bind((Ipv4Addr::LOCALHOST, 0));
        let sockets = Sockets { control: bind()?, data: bind()? };
        let (control, data) = (sockets.control.local_addr()?, sockets.data.local_addr()?);
        text += &member(name, &format!("control = \"{control}\"\ndata = \"{data}\"\nrelay_for = [\"*\"]\n"));
        all.insert(name, sockets);
    }
    for relay in RELAYS {
        text += &format!(
            "[[link]]\na = \"client\"\nb = \"{relay}\"\n[[link]]\na = \"{relay}\"\nb = \"server\"\n"
        );
    }
    Ok((Arc::new(Overlay::parse(&text)?), all))
}

/// A member's entry of the overlay file.
fn member(name: &str, rest: &str) -> String {
    let keys = identity(name).public();
    let (ed25519, x25519) = (encode_key(&keys.ed25519), encode_key(&keys.x25519));
    format!("[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n{rest}")
}

/// The keys of this example; a real member draws its own (`sfio keygen`).
fn identity(name: &str) -> Identity {
    let mut seed = [0; 32];
    seed[..name.len()].copy_from_slice(name.as_bytes());
    Identity::from_seed(seed)
}
