//! A port that faces one end of a link and leads to the other, like a NAT.
//!
//! ```text
//!   source 1 ──▶ ┌──────┐ ◀─▶ flow socket 1 ◀─▶ ┌────────┐
//!                │ port │                       │ target │
//!   source 2 ──▶ └──────┘ ◀─▶ flow socket 2 ◀─▶ └────────┘
//! ```
//!
//! The target sees a source of its own for each process that uses the link, and its answers find their way back.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::Direction;
use super::socket::{Burst, Inbox, Received, Socket};

/// As many sources may use one port at a time; packets of further ones are dropped.
pub const MAX_FLOWS_PER_PORT: usize = 64;

/// A flow without a packet for this long makes room for another: RFC 4787 asks at least this of a NAT.
pub const FLOW_EXPIRES_AFTER: Duration = Duration::from_secs(120);

/// A socket gives way to the others of its link after so many packets: 11 Gbit/s of 1,400 bytes each, more than one
/// task can carry, so it only bounds how long a turn takes.
const MAX_PACKETS_PER_TURN: usize = 1_024;

/// Where a packet leaves the emulator.
#[derive(Debug, Clone)]
pub(super) struct Exit {
    /// The socket of its flow; or, for an answer, the port.
    socket: Arc<Socket>,
    /// The port's target; or, for an answer, the source of its flow.
    target: SocketAddr,
}

impl Exit {
    /// Whether packets for both may leave in one burst.
    pub(super) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.socket, &other.socket) && self.target == other.target
    }

    /// How many packets may leave in one burst.
    pub(super) fn most_packets(&self) -> usize {
        self.socket.most_packets()
    }

    pub(super) fn send(&self, burst: &Burst) -> io::Result<()> {
        self.socket.send(burst, self.target)
    }
}

/// One port of one plane of one direction.
#[derive(Debug)]
pub(super) struct Port {
    /// The way that packets take which come in here; answers take the other.
    pub(super) direction: Direction,
    socket: Arc<Socket>,
    target: SocketAddr,
    flows: BTreeMap<SocketAddr, Flow>,
}

#[derive(Debug)]
struct Flow {
    socket: Arc<Socket>,
    last_used: Duration,
}

impl Port {
    /// A port at `address` that leads to `target`.
    pub(super) fn bind(direction: Direction, address: SocketAddr, target: SocketAddr) -> io::Result<Self> {
        let socket = Arc::new(Socket::bind(address)?);
        Ok(Self { direction, socket, target, flows: BTreeMap::new() })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.socket.address()
    }

    pub(super) fn receive_buffer_bytes(&self) -> io::Result<usize> {
        self.socket.receive_buffer_bytes()
    }

    /// Receives what has come in and hands each packet on, with its direction and its exit.
    pub(super) fn receive(
        &mut self,
        now: Duration,
        inbox: &mut Inbox,
        mut take: impl FnMut(Direction, Received<'_>, Exit),
    ) {
        let (socket, target) = (Arc::clone(&self.socket), self.target);
        drain(&socket, inbox, |packet| {
            if let Some(socket) = self.flow(packet.source, now) {
                take(self.direction, packet, Exit { socket, target });
            }
        });
        for (source, flow) in &mut self.flows {
            drain(&flow.socket, inbox, |packet| {
                flow.last_used = now;
                let exit = Exit { socket: Arc::clone(&self.socket), target: *source };
                take(self.direction.reverse(), packet, exit);
            });
        }
    }

    /// The socket of the flow of `source`, a new one if need be; `None` when there is no room or no socket for it.
    fn flow(&mut self, source: SocketAddr, now: Duration) -> Option<Arc<Socket>> {
        if !self.flows.contains_key(&source) {
            self.flows.retain(|_, flow| now.saturating_sub(flow.last_used) < FLOW_EXPIRES_AFTER);
        }
        let has_room = self.flows.len() < MAX_FLOWS_PER_PORT;
        let flow = match self.flows.entry(source) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) if has_room => match Socket::connect(self.target) {
                Ok(socket) => new.insert(Flow { socket: Arc::new(socket), last_used: now }),
                Err(error) => {
                    tracing::warn!(%source, target = %self.target, %error, "no socket for a new flow");
                    return None;
                }
            },
            Entry::Vacant(_) => {
                tracing::debug!(%source, target = %self.target, "too many flows");
                return None;
            }
        };
        flow.last_used = now;
        Some(Arc::clone(&flow.socket))
    }
}

/// Receives all that has come in by a socket, up to the bound of a turn.
fn drain(socket: &Socket, inbox: &mut Inbox, mut take: impl FnMut(Received<'_>)) {
    let mut received = 0;
    for _ in 0..MAX_PACKETS_PER_TURN {
        if received >= MAX_PACKETS_PER_TURN {
            break;
        }
        match socket.receive(inbox, &mut take) {
            Ok(packets) => received += packets,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
            // The target's host refused an earlier packet: nobody listens there now.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            Err(error) => tracing::debug!(%error, "a socket cannot receive"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::socket::FREE_PORT;
    use super::*;

    const TARGET: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9);

    fn source(number: usize) -> SocketAddr {
        SocketAddr::new(TARGET.ip(), 10_000 + number as u16)
    }

    #[tokio::test]
    async fn flows_are_bounded_and_idle_ones_expire() {
        let mut port = Port::bind(Direction::AToB, FREE_PORT, TARGET).unwrap();
        for number in 0..MAX_FLOWS_PER_PORT {
            assert!(port.flow(source(number), Duration::ZERO).is_some());
        }
        assert!(port.flow(source(MAX_FLOWS_PER_PORT), Duration::ZERO).is_none());
        assert!(port.flow(source(0), FLOW_EXPIRES_AFTER / 2).is_some());
        assert!(port.flow(source(MAX_FLOWS_PER_PORT), FLOW_EXPIRES_AFTER).is_some());
        assert_eq!(port.flows.len(), 2, "the one in use and the new one");
    }
}
