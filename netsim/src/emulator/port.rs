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
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::Direction;
use super::socket::{Burst, Inbox, Received, Socket};

/// A port has so many flows at most, and a socket for each: a few busy ports fit into the 1,024 file descriptors
/// that a process has by default.
pub const MAX_FLOWS_PER_PORT: usize = 256;

/// A flow without a packet for this long is over: RFC 4787 asks at least this of a NAT.
pub const FLOW_EXPIRES_AFTER: Duration = Duration::from_secs(120);

/// When there is no room, a flow that has been idle for this long makes room for another, the longest idle one
/// first; if there is none, packets of further sources are dropped. TCP waits as long for a first answer.
pub const FLOW_YIELDS_AFTER: Duration = Duration::from_secs(1);

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
    /// Refusals come with each packet of a source, so only the first is worth a warning.
    has_warned: bool,
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
        Ok(Self { direction, socket, target, flows: BTreeMap::new(), has_warned: false })
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
        if let Some(flow) = self.flows.get_mut(&source) {
            flow.last_used = now;
            return Some(Arc::clone(&flow.socket));
        }
        let target = self.target;
        match self.new_socket(now, || Socket::connect(target)) {
            Ok(socket) => {
                let socket = Arc::new(socket);
                self.flows.insert(source, Flow { socket: Arc::clone(&socket), last_used: now });
                Some(socket)
            }
            Err(error) => {
                self.refuse(source, &error);
                None
            }
        }
    }

    /// A socket for one more flow. When there is no room for it, or the process may not open another socket, the
    /// flow that has been idle longest makes room.
    fn new_socket(&mut self, now: Duration, connect: impl Fn() -> io::Result<Socket>) -> io::Result<Socket> {
        self.flows.retain(|_, flow| now.saturating_sub(flow.last_used) < FLOW_EXPIRES_AFTER);
        if self.flows.len() >= MAX_FLOWS_PER_PORT && !self.give_up_idlest(now) {
            return Err(io::Error::other(format!("all {MAX_FLOWS_PER_PORT} flows of the port are in use")));
        }
        connect().or_else(|error| if self.give_up_idlest(now) { connect() } else { Err(error) })
    }

    /// Gives up the flow that has been idle longest; false if all are in use.
    fn give_up_idlest(&mut self, now: Duration) -> bool {
        let idle = |flow: &Flow| now.saturating_sub(flow.last_used) >= FLOW_YIELDS_AFTER;
        let idlest = self.flows.iter().min_by_key(|(_, flow)| flow.last_used);
        let Some(source) = idlest.filter(|(_, flow)| idle(flow)).map(|(source, _)| *source) else {
            return false;
        };
        self.flows.remove(&source).is_some()
    }

    fn refuse(&mut self, source: SocketAddr, error: &io::Error) {
        if self.has_warned {
            tracing::debug!(%source, target = %self.target, %error, "no room for a new flow");
        } else {
            tracing::warn!(%source, target = %self.target, %error, "no room for a new flow");
            self.has_warned = true;
        }
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

    const SECOND: Duration = Duration::from_secs(1);

    fn port() -> Port {
        Port::bind(Direction::AToB, FREE_PORT, TARGET).unwrap()
    }

    #[tokio::test]
    async fn flows_in_use_are_bounded_and_idle_ones_expire() {
        let mut port = port();
        for number in 0..MAX_FLOWS_PER_PORT {
            assert!(port.flow(source(number), Duration::ZERO).is_some());
        }
        let soon = FLOW_YIELDS_AFTER - Duration::from_millis(1);
        assert!(port.flow(source(MAX_FLOWS_PER_PORT), soon).is_none(), "no flow in use makes room");
        assert!(port.has_warned);
        assert!(port.flow(source(0), FLOW_EXPIRES_AFTER / 2).is_some());
        assert!(port.flow(source(MAX_FLOWS_PER_PORT), FLOW_EXPIRES_AFTER).is_some());
        assert_eq!(port.flows.len(), 2, "the one in use and the new one");
    }

    /// Commands one after another come from a source each; after the 64th of two minutes none was answered.
    #[tokio::test]
    async fn the_flow_that_has_been_idle_longest_makes_room() {
        let mut port = port();
        let mut now = Duration::ZERO;
        for number in 0..2 * MAX_FLOWS_PER_PORT {
            now += SECOND / 100;
            assert!(port.flow(source(0), now).is_some(), "a flow that goes on");
            assert!(port.flow(source(number), now).is_some(), "source {number}");
            assert!(port.flows.len() <= MAX_FLOWS_PER_PORT);
        }
        let kept = |number| port.flows.contains_key(&source(number));
        assert!(kept(0) && !kept(1) && !kept(MAX_FLOWS_PER_PORT));
        assert!((MAX_FLOWS_PER_PORT + 1..2 * MAX_FLOWS_PER_PORT).all(kept), "the latest");
        assert!(!port.has_warned);
    }

    #[tokio::test]
    async fn a_process_that_may_open_no_more_sockets_gives_up_an_idle_flow() {
        let mut port = port();
        let (first, second) = (port.flow(source(1), Duration::ZERO), port.flow(source(2), SECOND));
        let sockets = [first.unwrap(), second.unwrap()].map(|socket| Arc::downgrade(&socket));
        let open = || sockets.iter().filter(|socket| socket.strong_count() > 0).count();
        let connect = || match open() {
            2 => Err(io::Error::other("too many open files")),
            _ => Socket::connect(TARGET),
        };
        assert!(port.new_socket(SECOND / 2, connect).is_err(), "both are in use");
        assert!(port.new_socket(SECOND, connect).is_ok());
        assert!(port.flows.contains_key(&source(2)) && port.flows.len() == 1);
    }
}
