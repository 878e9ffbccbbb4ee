//! Overlays on loopback; ports are bound before the overlay file names them.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

use fec_transport::Config;
use fec_transport::io::{Endpoint, EndpointConfig, Sockets};
use fec_transport::keys::{Identity, encode_key};
use fec_transport::overlay::{MemberId, Overlay};
use netsim::LinkModel;
use netsim::emulator::{self, Direction, EmulatedLink, Emulator, LinkHandle};
use tokio::sync::mpsc;
use tokio::time::timeout;

use crate::parrot::{Ask, Outcome, Parrot};

/// Longer than anything here takes on a busy machine; only a failing test waits for it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// An overlay with a client, a server and relays between them.
pub(crate) struct Scene {
    overlay: Arc<Overlay>,
    bound: BTreeMap<&'static str, Sockets>,
    emulator: Option<Emulator>,
}

/// A process of a member, and what its application tells.
pub(crate) struct Process {
    pub(crate) endpoint: Endpoint<Parrot>,
    pub(crate) outcomes: mpsc::UnboundedReceiver<Outcome>,
}

impl Scene {
    /// client – relay – server, without anything between.
    pub(crate) fn line() -> Scene {
        Scene::new(&["relay", "server"], &[("client", "relay"), ("relay", "server")], None)
    }

    /// client – server, without anything between.
    pub(crate) fn pair() -> Scene {
        Scene::new(&["server"], &[("client", "server")], None)
    }

    /// client – r1 – server and client – r2 – server, over emulated links.
    pub(crate) fn diamond(model: &LinkModel) -> Scene {
        let links = [("client", "r1"), ("client", "r2"), ("r1", "server"), ("r2", "server")];
        Scene::new(&["r1", "r2", "server"], &links, Some(model))
    }

    fn new(
        listening: &[&'static str],
        links: &[(&'static str, &'static str)],
        model: Option<&LinkModel>,
    ) -> Scene {
        let (mut text, mut bound) = (member("client", ""), BTreeMap::new());
        for name in listening {
            let sockets = Sockets { control: loopback(), data: loopback() };
            let emulator::Endpoint { control, data } = addresses(&sockets);
            let [control, data] = [control, data].map(|address| address.expect("bound"));
            let rest = format!("control = \"{control}\"\ndata = \"{data}\"\nrelay_for = [\"*\"]");
            text += &member(name, &rest);
            bound.insert(*name, sockets);
        }
        let emulator = model.map(|model| emulate(links, &bound, model));
        for (a, b) in links {
            writeln!(text, "[[link]]\na = \"{a}\"\nb = \"{b}\"").expect("into a string");
            text += &emulator.as_ref().map(|emulator| ways(emulator, a, b)).unwrap_or_default();
        }
        Scene { overlay: Arc::new(Overlay::parse(&text).expect("a right overlay")), bound, emulator }
    }

    /// A process of a member: of one that listens, on its sockets, which a later process may have again.
    pub(crate) async fn start(&self, name: &str) -> Process {
        self.start_with(name, Config::default()).await
    }

    pub(crate) async fn start_with(&self, name: &str, config: Config) -> Process {
        let (tell, outcomes) = mpsc::unbounded_channel();
        let host = move |outcome| drop(tell.send(outcome));
        Process { endpoint: self.start_for(name, config, host).await, outcomes }
    }

    /// The same, for a `host` that is told its outcomes.
    pub(crate) async fn start_for(
        &self,
        name: &str,
        config: Config,
        host: impl FnMut(Outcome) + Send + 'static,
    ) -> Endpoint<Parrot> {
        let share = |socket: &UdpSocket| socket.try_clone().expect("a second handle");
        let share = |own: &Sockets| Sockets { control: share(&own.control), data: share(&own.data) };
        let sockets = self.bound.get(name).map(share);
        let config = EndpointConfig {
            sockets,
            config,
            ..EndpointConfig::new(Arc::clone(&self.overlay), identity(name))
        };
        Endpoint::start(config, Parrot::default(), host).await.expect("an endpoint")
    }

    /// Where the member of that name is dialled on the control plane.
    pub(crate) fn address_of(&self, name: &str) -> SocketAddr {
        self.overlay.member(self.member(name)).control.expect("it listens")
    }

    /// The member of that name.
    pub(crate) fn member(&self, name: &str) -> MemberId {
        self.overlay.find(name).expect("a member of the scene")
    }

    /// Waits until one of the emulated links to the server has passed that many more bytes; gives that link.
    pub(crate) async fn busiest_link(&self, bytes: u64) -> &LinkHandle {
        let links = self.emulator.iter().flat_map(|emulator| emulator.links());
        let passed = |link: &LinkHandle| link.counters(Direction::AToB).delivered_bytes;
        let to_server: Vec<_> = links.filter(|link| link.name().ends_with("server")).collect();
        let before: Vec<u64> = to_server.iter().map(|link| passed(link)).collect();
        let passing = async {
            loop {
                let mut grown = to_server.iter().zip(&before);
                if let Some((link, _)) = grown.find(|(link, before)| passed(link) >= *before + bytes) {
                    return *link;
                }
                tokio::task::yield_now().await;
            }
        };
        timeout(PATIENCE, passing).await.expect("traffic in time")
    }
}

impl Process {
    pub(crate) fn new(endpoint: Endpoint<Parrot>, outcomes: mpsc::UnboundedReceiver<Outcome>) -> Process {
        Process { endpoint, outcomes }
    }

    /// The next thing that the application tells.
    pub(crate) async fn next(&mut self) -> Outcome {
        timeout(PATIENCE, self.outcomes.recv()).await.expect("in time").expect("the application lives")
    }

    /// Waits for the next thing that the application tells, which is to be the answer `expected`.
    pub(crate) async fn expect_answer(&mut self, expected: &[u8]) {
        match self.next().await {
            // Not assert_eq: nobody wants to read megabytes.
            Outcome::Answer(answer) => {
                assert!(answer == expected, "another answer, of {} bytes", answer.len());
            }
            Outcome::Closed(reason) => panic!("the session was closed: {reason}"),
        }
    }

    /// Has the application send a message to be repeated.
    pub(crate) async fn ask(&mut self, whom: MemberId, message: Vec<u8>) {
        self.endpoint.handle().command(Ask { whom, message }).await.expect("the endpoint lives");
    }
}

fn addresses(sockets: &Sockets) -> emulator::Endpoint {
    let [control, data] = [&sockets.control, &sockets.data].map(|socket| socket.local_addr().ok());
    emulator::Endpoint { control, data }
}

fn emulate(
    links: &[(&'static str, &'static str)],
    bound: &BTreeMap<&'static str, Sockets>,
    model: &LinkModel,
) -> Emulator {
    let end = |name: &str| bound.get(name).map(addresses).unwrap_or_default();
    let link = |(a, b): &(&str, &str)| {
        EmulatedLink::new(format!("{a} - {b}"), end(a), end(b), model.clone(), model.clone())
    };
    Emulator::start(links.iter().map(link).collect(), 1).expect("an emulator")
}

/// How the two ends of an emulated link reach each other, as the overlay file says it.
fn ways(emulator: &Emulator, a: &str, b: &str) -> String {
    let ports = emulator.link(&format!("{a} - {b}")).expect("it is emulated").ports();
    let way = |direction: &str, to: emulator::Endpoint| match (to.control, to.data) {
        (Some(control), Some(data)) => {
            format!("{direction} = {{ control = \"{control}\", data = \"{data}\" }}\n")
        }
        _ => String::new(),
    };
    way("a_to_b", ports.a_to_b) + &way("b_to_a", ports.b_to_a)
}

/// The keys of the member of that name.
pub(crate) fn identity(name: &str) -> Identity {
    Identity::from_seed(*blake3::hash(name.as_bytes()).as_bytes())
}

/// A socket on a free port.
pub(crate) fn loopback() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port on loopback")
}

/// A member's entry in the overlay file.
pub(crate) fn member(name: &str, rest: &str) -> String {
    let keys = identity(name).public();
    let (ed25519, x25519) = (encode_key(&keys.ed25519), encode_key(&keys.x25519));
    format!("[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n{rest}\n")
}
