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
//! model at the time that has really passed. A packet is on the link from when it came (Linux notes that; elsewhere
//! from the turn that receives it), so a late turn takes nothing of what the link can carry. A packet thus never
//! comes earlier than its model says, and about 1 ms later; a queue should hold a few milliseconds. Where other
//! tasks compute for long, give the emulator a runtime of its own (enter it, then start);
//! [`LinkHandle::longest_pause`] tells whether it came to its turns. Each packet keeps its ECN bits; no link marks
//! any. Bursts that travel through the kernel as one (segmentation offload) are seen as the packets that they are
//! on a wire.
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

mod forwarder;
mod port;
mod shaper;
mod socket;
mod traffic;

use std::collections::BTreeSet;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use thiserror::Error;
use tokio::runtime::{Handle, TryCurrentError};
use tokio::task::JoinSet;

pub use self::forwarder::TICK;
pub use self::port::{FLOW_EXPIRES_AFTER, FLOW_YIELDS_AFTER, MAX_FLOWS_PER_PORT};

use self::forwarder::Forwarder;
use self::shaper::Shaper;
use self::traffic::SharedTraffic;
use crate::link::{LinkCounters, LinkModel};

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
            let (forwarder, handle) = Forwarder::bind(link, seed)?;
            receive_buffer_bytes = receive_buffer_bytes.min(forwarder.receive_buffer_bytes());
            handles.push(handle);
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
    traffic: SharedTraffic,
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
        self.traffic.lock().shapers.iter_mut().for_each(Shaper::kill);
    }

    /// The link is back.
    pub fn restore(&self) {
        self.traffic.lock().shapers.iter_mut().for_each(Shaper::restore);
    }

    /// Whether the link is up.
    pub fn is_up(&self) -> bool {
        self.traffic.lock().shapers.iter().all(Shaper::is_up)
    }

    /// Changes the parameters of one direction for the packets to come.
    pub fn set_model(&self, direction: Direction, model: LinkModel) {
        self.traffic.lock().shapers[direction as usize].set_model(model);
    }

    /// What became of the packets of one direction, of both planes.
    pub fn counters(&self, direction: Direction) -> LinkCounters {
        self.traffic.lock().shapers[direction as usize].counters()
    }

    /// The longest time between two turns so far: a tick when the machine keeps up; a hole in the traffic, and
    /// perhaps packets lost in full socket buffers, when it does not.
    pub fn longest_pause(&self) -> Duration {
        self.traffic.lock().longest_pause
    }
}
