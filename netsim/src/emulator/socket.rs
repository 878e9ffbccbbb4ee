//! UDP sockets on 127.0.0.1 that receive and send many packets per system call, with their ECN bits.
//!
//! Segmentation and receive offload (quinn-udp) make it fast: a burst that its sender handed to the kernel as one comes
//! in as one, and a burst of packets of one size to one receiver goes out as one. The model in between sees each packet
//! by itself, as on a wire.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant, SystemTime};

#[cfg(target_os = "linux")]
use nix::sys::socket::{setsockopt, sockopt};
use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use socket2::{Domain, Protocol, SockRef, Socket as RawSocket, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;

/// What is asked of the kernel for each socket and direction: 30 ms at 1 Gbit/s, in case a turn comes late.
const WANTED_BUFFER_BYTES: usize = 4 << 20;

/// Any free port.
pub(super) const FREE_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// What one buffer receives at most: the largest payload that UDP can carry, or a burst as large.
const BUFFER_BYTES: usize = 1 << 16;

/// The largest burst that is sent as one. The kernel counts headers, too.
const MAX_BURST_BYTES: usize = 65_000;

/// A packet with its congestion bits.
#[derive(Debug, Clone, Copy)]
pub(super) struct Received<'a> {
    pub(super) payload: &'a [u8],
    pub(super) source: SocketAddr,
    pub(super) ecn: Option<EcnCodepoint>,
    /// When it came, as far as the kernel tells, and never before that.
    pub(super) came: Instant,
}

/// Where packets are received: buffers for one system call.
#[derive(Debug)]
pub(super) struct Inbox {
    buffers: Vec<u8>,
    metas: [RecvMeta; BATCH_SIZE],
}

impl Inbox {
    pub(super) fn new() -> Self {
        Self { buffers: vec![0; BATCH_SIZE * BUFFER_BYTES], metas: [RecvMeta::default(); BATCH_SIZE] }
    }
}

/// Packets that leave together: equally long, but for the last, with equal ECN bits, for one receiver.
#[derive(Debug, Default)]
pub(super) struct Burst {
    payloads: Vec<u8>,
    /// The size of the first packet.
    segment_bytes: usize,
    packets: usize,
    /// A shorter packet ends a burst.
    is_closed: bool,
    ecn: Option<EcnCodepoint>,
}

impl Burst {
    pub(super) fn is_empty(&self) -> bool {
        self.packets == 0
    }

    /// Whether the packet may go with those that are there, as far as sizes and bits tell.
    pub(super) fn takes(&self, packet: &[u8], ecn: Option<EcnCodepoint>, most_packets: usize) -> bool {
        self.is_empty()
            || (!self.is_closed
                && ecn == self.ecn
                && (1..=self.segment_bytes).contains(&packet.len())
                && self.packets < most_packets
                && self.payloads.len() + packet.len() <= MAX_BURST_BYTES)
    }

    pub(super) fn push(&mut self, packet: &[u8], ecn: Option<EcnCodepoint>) {
        if self.is_empty() {
            (self.segment_bytes, self.ecn) = (packet.len(), ecn);
        }
        self.is_closed = packet.len() < self.segment_bytes;
        self.packets += 1;
        self.payloads.extend_from_slice(packet);
    }

    pub(super) fn clear(&mut self) {
        self.payloads.clear();
        (self.packets, self.is_closed) = (0, false);
    }
}

/// A socket on loopback.
#[derive(Debug)]
pub(super) struct Socket {
    io: UdpSocket,
    state: UdpSocketState,
    /// The only peer, if the socket is connected.
    peer: Option<SocketAddr>,
}

impl Socket {
    /// A socket bound to `address`, with buffers as large as the kernel gives.
    pub(super) fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = RawSocket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
        socket.set_nonblocking(true)?;
        // A smaller buffer is no failure: the kernel grants what its limits allow, and `receive_buffer_bytes` tells.
        let _ = socket.set_recv_buffer_size(WANTED_BUFFER_BYTES);
        let _ = socket.set_send_buffer_size(WANTED_BUFFER_BYTES);
        socket.bind(&address.into())?;
        let state = UdpSocketState::new((&socket).into())?;
        #[cfg(target_os = "linux")]
        forgo_destinations(&socket)?;
        Ok(Self { io: UdpSocket::from_std(socket.into())?, state, peer: None })
    }

    /// A socket on a free port that exchanges packets with `peer` only.
    pub(super) fn connect(peer: SocketAddr) -> io::Result<Self> {
        let socket = Self::bind(FREE_PORT)?;
        SockRef::from(&socket.io).connect(&peer.into())?;
        Ok(Self { peer: Some(peer), ..socket })
    }

    pub(super) fn address(&self) -> io::Result<SocketAddr> {
        self.io.local_addr()
    }

    /// The receive buffer that the kernel gave, in bytes of its own accounting.
    pub(super) fn receive_buffer_bytes(&self) -> io::Result<usize> {
        SockRef::from(&self.io).recv_buffer_size()
    }

    /// How many packets may leave in one burst.
    pub(super) fn most_packets(&self) -> usize {
        self.state.max_gso_segments()
    }

    /// Receives with one system call and hands each packet on; says how many there were.
    pub(super) fn receive(&self, inbox: &mut Inbox, mut take: impl FnMut(Received<'_>)) -> io::Result<usize> {
        let Inbox { buffers, metas } = inbox;
        let mut rest = buffers.chunks_exact_mut(BUFFER_BYTES);
        let mut slices = [(); BATCH_SIZE].map(|()| IoSliceMut::new(rest.next().unwrap_or_default()));
        let receive = || self.state.recv((&self.io).into(), &mut slices, metas);
        let filled = self.io.try_io(Interest::READABLE, receive)?;
        // In this order: whatever time passes between the two makes packets come later, and never earlier.
        let (taken, present) = (since_epoch(), present());
        let mut packets = 0;
        for (buffer, meta) in buffers.chunks_exact(BUFFER_BYTES).zip(&*metas).take(filled) {
            // A packet may be empty, and then has no stride.
            let payloads = buffer[..meta.len].chunks(meta.stride.max(1));
            let empty: Option<&[u8]> = (meta.len == 0).then_some(&[]);
            let age = meta.timestamp.map_or(Duration::ZERO, |noted| taken.saturating_sub(noted));
            let came = present.checked_sub(age).unwrap_or(present);
            for payload in payloads.chain(empty) {
                take(Received { payload, source: meta.addr, ecn: meta.ecn, came });
                packets += 1;
            }
        }
        Ok(packets)
    }

    /// Sends a burst, to the peer of a connected socket or else to `target`.
    ///
    /// It goes past tokio, whose idea of a fresh socket is that it cannot send yet. A refusal by the peer's host is
    /// about an earlier packet, so this one gets another try.
    pub(super) fn send(&self, burst: &Burst, target: SocketAddr) -> io::Result<()> {
        let transmit = Transmit {
            destination: self.peer.unwrap_or(target),
            ecn: burst.ecn,
            contents: &burst.payloads,
            segment_size: (burst.packets > 1).then_some(burst.segment_bytes),
            src_ip: None,
        };
        match self.state.try_send((&self.io).into(), &transmit) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                self.state.try_send((&self.io).into(), &transmit)
            }
            result => result,
        }
    }
}

/// Asks the kernel not to tell to which address a packet was sent: in quinn-udp's buffer for what it tells (96 bytes in
/// 0.6.3), that leaves no room for the ECN bits of a burst, beside the burst's size and the time of its arrival.
#[cfg(target_os = "linux")]
fn forgo_destinations(socket: &RawSocket) -> io::Result<()> {
    setsockopt(socket, sockopt::Ipv4PacketInfo, &false).map_err(io::Error::from)
}

/// The real time, which the emulator is about.
#[allow(clippy::disallowed_methods, reason = "it emulates links in real time")]
pub(super) fn present() -> Instant {
    Instant::now()
}

/// The time by which the kernel notes arrivals.
#[allow(clippy::disallowed_methods, reason = "the kernel notes arrivals by the system's clock")]
fn since_epoch() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Puts packets into bursts as the forwarder does; says how many each has.
    fn bursts(packets: &[(&[u8], Option<EcnCodepoint>)], most_packets: usize) -> Vec<usize> {
        let (mut burst, mut sizes) = (Burst::default(), Vec::new());
        for &(packet, ecn) in packets {
            if !burst.takes(packet, ecn, most_packets) {
                sizes.push(burst.packets);
                burst.clear();
            }
            burst.push(packet, ecn);
        }
        sizes.push(burst.packets);
        sizes
    }

    #[test]
    fn what_the_kernel_could_not_take_apart_again_does_not_go_together() {
        let (long, short, ce): (&[u8], &[u8], _) = (&[1; 1_000], &[1; 999], Some(EcnCodepoint::Ce));
        let plain = |payload| (payload, None);
        assert_eq!(bursts(&[plain(long), plain(long), plain(short)], 64), [3]);
        assert_eq!(
            bursts(&[plain(long), plain(short), plain(short)], 64),
            [2, 1],
            "only the last is shorter"
        );
        assert_eq!(bursts(&[plain(short), plain(long)], 64), [1, 1]);
        assert_eq!(bursts(&[plain(long), (long, ce), (long, ce)], 64), [1, 2]);
        assert_eq!(bursts(&[plain(long); 5], 2), [2, 2, 1]);
        assert_eq!(bursts(&[plain(&[][..]), plain(&[][..]), plain(long), plain(&[][..])], 64), [1, 1, 1, 1]);
        assert_eq!(bursts(&[plain(&[1; 60_000][..]); 3], 64), [1, 1, 1], "no more than a datagram holds");
    }
}
