//! The link model on real UDP sockets on loopback, in real time, without root.
//!
//! Each end of a link is a member with fixed addresses or without (a client). For each fixed address there is a *port*
//! that faces the other end: what comes in at the port leaves toward the address as the model of the direction lets
//! it, and what the member there answers travels back through the model of the other direction. The control plane and
//! the data plane of a link have ports of their own and share its model: one queue, one rate, one fate.
//!
//! ```text
//!    a                     the link a–b                       b
//!  (client)        ┌────────────────────────────┐     (control, data)
//!     │  control ─▶│ port ╲              ╱ flow │─▶ b's control address
//!     │            │        a→b | b→a           │
//!     │  data ────▶│ port ╱              ╲ flow │─▶ b's data address
//!                  └────────────────────────────┘
//! ```
//!
//! A task per link turns every millisecond ([`TICK`]): it receives what has come, and releases what is due by the
//! model at the time that has really passed, so a late turn makes up for itself. Times are thus true to about a tick at
//! either side, and a queue should hold a few milliseconds. Not emulated: ECN marks, and packets larger than a
//! segment (offloaded ones are seen as what they are on the wire).
//!
//! ```
//! # use std::time::Duration;
//! # use netsim::emulator::{EmulatedLink, Emulator, Endpoint};
//! # use netsim::{LinkModel, Rate};
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let server = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
//! let client = tokio::net::UdpSocket::bind("127.0.0.1:0").await?;
//!
//! let model = LinkModel::new(Rate::from_mbit(100), Duration::from_millis(5));
//! let there = Endpoint { data: Some(server.local_addr()?), ..Endpoint::default() };
//! let link = EmulatedLink::new("client-server", Endpoint::default(), there, model.clone(), model);
//! let emulator = Emulator::start(vec![link], 42)?;
//!
//! let port = emulator.links()[0].ports().a_to_b.data.ok_or("no port")?;
//! client.send_to(b"hello", port).await?;
//! let mut packet = [0; 16];
//! let (bytes, _) = server.recv_from(&mut packet).await?;
//! assert_eq!(&packet[..bytes], b"hello");
//! # Ok(())
//! # }
//! ```

mod port;
mod shaper;
mod socket;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use thiserror::Error;
use tokio::runtime::{Handle, TryCurrentError};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

pub use self::port::{FLOW_EXPIRES_AFTER, MAX_FLOWS_PER_PORT};

use self::port::{Exit, MAX_PAYLOAD_BYTES, Port};
use self::shaper::Shaper;
use crate::link::{LinkCounters, LinkModel};
use crate::stream::random_stream;

/// How often a link looks at its sockets, the granularity of tokio's timers.
pub const TICK: Duration = Duration::from_millis(1);

/// Below this receive buffer, a turn that comes a few milliseconds late loses packets at some hundred Mbit/s.
const LEAST_RECEIVE_BUFFER_BYTES: usize = 1 << 20;

/// The addresses of the two planes of something; a plane without address is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Endpoint {
    /// Where control packets go.
    pub control: Option<SocketAddr>,
    /// Where data packets go.
    pub data: Option<SocketAddr>,
}

/// The ports of a link, by direction: `a_to_b` is where a sends in order to reach b.
///
/// There is a port for each address of the end behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LinkPorts {
    /// The ports that face a and lead to b.
    pub a_to_b: Endpoint,
    /// The ports that face b and lead to a.
    pub b_to_a: Endpoint,
}

/// A link to be emulated.
#[derive(Debug, Clone)]
pub struct EmulatedLink {
    /// Its name, which keys its random streams; no two links share one.
    pub name: String,
    /// The addresses of the member at one end. A client has none.
    pub a: Endpoint,
    /// The addresses of the member at the other end.
    pub b: Endpoint,
    /// The parameters of the direction from a to b.
    pub a_to_b: LinkModel,
    /// The parameters of the direction from b to a.
    pub b_to_a: LinkModel,
    /// Ports to use; where there is `None`, a free one is found.
    pub bind: LinkPorts,
}

impl EmulatedLink {
    /// A link on free ports.
    pub fn new(
        name: impl Into<String>,
        a: Endpoint,
        b: Endpoint,
        a_to_b: LinkModel,
        b_to_a: LinkModel,
    ) -> Self {
        Self { name: name.into(), a, b, a_to_b, b_to_a, bind: LinkPorts::default() }
    }
}

/// One of the two directions of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From a to b.
    AToB = 0,
    /// From b to a.
    BToA = 1,
}

impl Direction {
    /// The other direction.
    pub fn reverse(self) -> Self {
        match self {
            Self::AToB => Self::BToA,
            Self::BToA => Self::AToB,
        }
    }
}

/// Why an emulator does not start.
#[derive(Debug, Error)]
pub enum EmulatorError {
    /// It needs tokio's sockets and timers.
    #[error("the emulator must be started inside a tokio runtime")]
    NoRuntime(#[from] TryCurrentError),
    /// Two links have one name, and so would have one fate.
    #[error("two links are named {name}")]
    DuplicateName {
        /// The name.
        name: String,
    },
    /// It never leaves this host.
    #[error("link {link}: {address} is not on IPv4 loopback (127.0.0.0/8)")]
    NotLoopback {
        /// The name of the link.
        link: String,
        /// An address of an end, or one to bind.
        address: SocketAddr,
    },
    /// A port was asked for that would lead nowhere.
    #[error("link {link}: nothing is behind port {address}, because that end has no address on this plane")]
    NothingBehind {
        /// The name of the link.
        link: String,
        /// The address that was to be bound.
        address: SocketAddr,
    },
    /// A port is taken, or none is free.
    #[error("link {link}: cannot bind {address}")]
    Bind {
        /// The name of the link.
        link: String,
        /// The address; port 0 stands for any free one.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// Emulated links at work. When it is dropped they stop, and their ports close shortly after.
#[derive(Debug)]
pub struct Emulator {
    links: Vec<LinkHandle>,
    receive_buffer_bytes: usize,
    /// Aborts its tasks when dropped.
    _tasks: JoinSet<()>,
}

impl Emulator {
    /// Binds all ports and starts forwarding. The random streams are those of `seed` and the links' names.
    ///
    /// # Errors
    /// [`EmulatorError`]; nothing is left running then.
    pub fn start(links: Vec<EmulatedLink>, seed: u64) -> Result<Self, EmulatorError> {
        let runtime = Handle::try_current()?;
        let mut tasks = JoinSet::new();
        let mut handles = Vec::with_capacity(links.len());
        let mut names = BTreeSet::new();
        let mut receive_buffer_bytes = usize::MAX;
        for link in links {
            if !names.insert(link.name.clone()) {
                return Err(EmulatorError::DuplicateName { name: link.name });
            }
            let forwarder = Forwarder::bind(link, seed)?;
            receive_buffer_bytes = receive_buffer_bytes.min(forwarder.receive_buffer_bytes());
            handles.push(forwarder.handle.clone());
            tasks.spawn_on(forwarder.run(), &runtime);
        }
        if receive_buffer_bytes < LEAST_RECEIVE_BUFFER_BYTES {
            tracing::warn!(
                receive_buffer_bytes,
                "small socket buffers (net.core.rmem_max): expect extra loss"
            );
        }
        Ok(Self { links: handles, receive_buffer_bytes, _tasks: tasks })
    }

    /// The links, in the order in which they were given.
    pub fn links(&self) -> &[LinkHandle] {
        &self.links
    }

    /// The link of this name.
    pub fn link(&self, name: &str) -> Option<&LinkHandle> {
        self.links.iter().find(|link| link.name() == name)
    }

    /// The smallest receive buffer that the kernel gave to a port, in bytes of its own accounting (Linux charges a
    /// packet of 1,400 bytes with 2,304, and reports twice what one may ask for). What arrives while it is full is
    /// lost, and not counted.
    pub fn receive_buffer_bytes(&self) -> usize {
        self.receive_buffer_bytes
    }
}

/// What one does with an emulated link. Clones are the same link; after the end of the [`Emulator`] they do nothing.
#[derive(Debug, Clone)]
pub struct LinkHandle {
    name: Arc<str>,
    ports: LinkPorts,
    /// Indexed by [`Direction`].
    shapers: Arc<Mutex<[Shaper<Exit>; 2]>>,
}

impl LinkHandle {
    /// The name of the link.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where its ends send.
    pub fn ports(&self) -> &LinkPorts {
        &self.ports
    }

    /// The link dies, both directions and both planes, with everything that is on it.
    pub fn kill(&self) {
        self.shapers().iter_mut().for_each(|shaper| shaper.set_up(false));
    }

    /// The link is back.
    pub fn restore(&self) {
        self.shapers().iter_mut().for_each(|shaper| shaper.set_up(true));
    }

    /// Whether the link is up.
    pub fn is_up(&self) -> bool {
        self.shapers().iter().all(Shaper::is_up)
    }

    /// Changes the parameters of one direction for the packets to come.
    pub fn set_model(&self, direction: Direction, model: LinkModel) {
        self.shapers()[direction as usize].set_model(model);
    }

    /// What became of the packets of one direction, of both planes.
    pub fn counters(&self, direction: Direction) -> LinkCounters {
        self.shapers()[direction as usize].counters()
    }

    fn shapers(&self) -> MutexGuard<'_, [Shaper<Exit>; 2]> {
        // A panic elsewhere leaves a shaper at worst one packet short.
        self.shapers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The task of one link: its sockets, its clock.
struct Forwarder {
    handle: LinkHandle,
    ports: Vec<Port>,
    started: Instant,
}

impl Forwarder {
    fn bind(link: EmulatedLink, seed: u64) -> Result<Self, EmulatorError> {
        let mut ports = Vec::new();
        let LinkPorts { a_to_b, b_to_a } = link.bind;
        let bound = LinkPorts {
            a_to_b: bind_planes(&link.name, Direction::AToB, a_to_b, link.b, &mut ports)?,
            b_to_a: bind_planes(&link.name, Direction::BToA, b_to_a, link.a, &mut ports)?,
        };
        let shaper = |model, direction| Shaper::new(model, random_stream(seed, &[&link.name, direction]));
        let shapers = [shaper(link.a_to_b, "a to b"), shaper(link.b_to_a, "b to a")];
        let handle =
            LinkHandle { name: link.name.into(), ports: bound, shapers: Arc::new(Mutex::new(shapers)) };
        Ok(Self { handle, ports, started: present() })
    }

    fn receive_buffer_bytes(&self) -> usize {
        self.ports.iter().filter_map(|port| port.receive_buffer_bytes().ok()).min().unwrap_or(usize::MAX)
    }

    async fn run(mut self) {
        let mut tick = tokio::time::interval(TICK);
        tick.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut scratch = vec![0; MAX_PAYLOAD_BYTES];
        loop {
            tick.tick().await;
            self.turn(&mut scratch);
        }
    }

    /// Takes in what has come, lets out what is due.
    fn turn(&mut self, scratch: &mut [u8]) {
        let now = present().duration_since(self.started);
        let mut shapers = self.handle.shapers();
        for port in &mut self.ports {
            port.receive(now, scratch, |direction, packet, exit| {
                shapers[direction as usize].offer(now, packet, || exit);
            });
        }
        for shaper in shapers.iter_mut() {
            while let Some((packet, exit)) = shaper.take_arrived(now) {
                if let Err(error) = exit.send(&packet) {
                    tracing::debug!(link = %self.handle.name, %error, "a packet got lost on the way out");
                }
            }
        }
    }
}

/// Binds the ports of one direction, one per address of the end behind them.
fn bind_planes(
    link: &str,
    direction: Direction,
    wanted: Endpoint,
    target: Endpoint,
    ports: &mut Vec<Port>,
) -> Result<Endpoint, EmulatorError> {
    let mut plane = |wanted: Option<SocketAddr>, target: Option<SocketAddr>| {
        [wanted, target].into_iter().flatten().try_for_each(|address| check_loopback(link, address))?;
        match (wanted, target) {
            (None, None) => Ok(None),
            (Some(address), None) => Err(EmulatorError::NothingBehind { link: link.into(), address }),
            (_, Some(target)) => {
                let address = wanted.unwrap_or(socket::FREE_PORT);
                let failed = |source| EmulatorError::Bind { link: link.into(), address, source };
                let port = Port::bind(direction, address, target).map_err(failed)?;
                let bound = port.address().map_err(failed)?;
                ports.push(port);
                Ok(Some(bound))
            }
        }
    };
    Ok(Endpoint { control: plane(wanted.control, target.control)?, data: plane(wanted.data, target.data)? })
}

fn check_loopback(link: &str, address: SocketAddr) -> Result<(), EmulatorError> {
    if address.is_ipv4() && address.ip().is_loopback() {
        Ok(())
    } else {
        Err(EmulatorError::NotLoopback { link: link.into(), address })
    }
}

/// The real time, which the emulator is about.
#[allow(clippy::disallowed_methods, reason = "it emulates links in real time")]
fn present() -> Instant {
    Instant::now()
}
