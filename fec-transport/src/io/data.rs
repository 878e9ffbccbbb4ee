//! The data plane's socket: UDP with segmentation and receive offload.
//!
//! Per-packet cost decides the speed (design §6), so the kernel gets up to 64 datagrams in one call (GSO) and gives
//! back as many in one buffer (GRO), up to 32 buffers a call. Neither is needed: without GSO the datagrams go out one
//! by one, without GRO they come in one by one.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, UdpSocket};
use std::task::{Context, Poll};

#[cfg(target_os = "linux")]
use nix::sys::socket::{setsockopt, sockopt};
use quinn_udp::{EcnCodepoint, UdpSocketState};

use super::arrivals::Arrivals;
use super::outbox::{Call, MAX_SEND, Outbox};
use super::sockets::mapped;
use super::watched::WatchedSocket;
use crate::transmit::Transmit;

/// What is asked of the kernel for each direction: 20 ms at 3 Gbit/s, the longest that the driver's task may be kept
/// from running. The kernel gives what net.core.rmem_max and wmem_max allow, often less.
const SOCKET_BUFFER: usize = 8 * 1024 * 1024;
/// Of what a system says that a socket holds, its own bookkeeping takes as much as the packets.
const KERNELS_SHARE: usize = 2;

/// What has passed the data plane's sockets, in datagrams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DataCounts {
    /// Handed to the kernel.
    pub sent: u64,
    /// Dropped because the neighbour's address is not known: it has not greeted yet.
    pub without_address: u64,
    /// Dropped because the kernel refused them: no route, too large.
    pub refused: u64,
    /// Taken from the kernel.
    pub received: u64,
    /// Calls of the kernel that took datagrams: `sent / send_calls` is the mean run.
    pub send_calls: u64,
    /// Calls of the kernel that gave datagrams.
    pub receive_calls: u64,
    /// Thrown away on arrival because [`EndpointConfig::arrival_loss`](super::EndpointConfig::arrival_loss) says so.
    pub thrown_away: u64,
}

impl DataCounts {
    /// With what has passed another socket.
    pub(super) fn plus(self, other: DataCounts) -> DataCounts {
        DataCounts {
            sent: self.sent + other.sent,
            without_address: self.without_address + other.without_address,
            refused: self.refused + other.refused,
            received: self.received + other.received,
            send_calls: self.send_calls + other.send_calls,
            receive_calls: self.receive_calls + other.receive_calls,
            thrown_away: self.thrown_away + other.thrown_away,
        }
    }
}

/// The socket, and the datagrams that it has not taken yet.
pub(super) struct DataSocket {
    socket: WatchedSocket,
    state: UdpSocketState,
    is_ipv6: bool,
    outbox: Outbox,
    counts: DataCounts,
    /// Bytes of packets that it holds until somebody reads, if that is known.
    holds: Option<usize>,
}

impl DataSocket {
    /// Takes over a bound socket.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(super) fn new(socket: UdpSocket) -> io::Result<DataSocket> {
        let state = UdpSocketState::new((&socket).into())?;
        let holds = enlarge_buffers(&socket, &state);
        #[cfg(target_os = "linux")]
        forgo_destinations(&socket)?;
        let is_ipv6 = socket.local_addr()?.is_ipv6();
        let socket = WatchedSocket::new(socket)?;
        let (outbox, counts) = (Outbox::default(), DataCounts::default());
        Ok(DataSocket { socket, state, is_ipv6, outbox, counts, holds })
    }

    /// Where it is bound.
    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.get().local_addr()
    }

    /// Bytes of packets that it holds until somebody reads, if that is known.
    pub(super) fn holds(&self) -> Option<usize> {
        self.holds
    }

    /// What has passed so far.
    pub(super) fn counts(&self) -> DataCounts {
        self.counts
    }

    /// Waits until there is something to receive.
    #[cfg(test)]
    pub(super) async fn readable(&self) {
        std::future::poll_fn(|context| self.poll_readable(context)).await;
    }

    /// Waits until a blocked socket takes datagrams again.
    pub(super) async fn writable(&self) {
        if let Err(error) = self.socket.writable().await {
            tracing::debug!(%error, "the data socket cannot be watched; it is tried again after a pause");
            std::future::pending::<()>().await;
        }
    }

    /// Whether there is something to receive; if not, the task is woken when there is.
    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<()> {
        self.socket.poll_readable(context).map(|ready| {
            // Only when the runtime shuts down.
            ready.unwrap_or_else(
                |error| tracing::debug!(%error, "the data socket will not be readable again"),
            );
        })
    }

    /// Takes one batch from the kernel.
    pub(super) fn receive(&mut self, arrivals: &mut Arrivals) {
        let (socket, state) = (&self.socket, &self.state);
        let received = arrivals
            .fill(|buffers, metas| socket.receive(|socket| state.recv(socket.into(), buffers, metas)));
        match received {
            Ok(datagrams) => {
                self.counts.received += datagrams;
                self.counts.receive_calls += 1;
            }
            // ICMP's complaints about what was sent arrive here too; the datagrams are lost either way.
            Err(error) if error.kind() != ErrorKind::WouldBlock => {
                tracing::debug!(%error, "receiving on the data plane");
            }
            Err(_) => {}
        }
    }

    /// Whether datagrams wait until the socket is [`writable`](Self::writable).
    pub(super) fn is_blocked(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Whether more may be queued.
    pub(super) fn has_room(&self) -> bool {
        self.outbox.has_room()
    }

    /// Queues datagrams; without an address they are dropped. Leaves an empty buffer.
    pub(super) fn queue(&mut self, to: Option<SocketAddr>, transmit: Transmit, datagrams: &mut Vec<u8>) {
        let Transmit { segment_size, ecn, .. } = transmit;
        let Some(to) = to.map(|to| mapped(to, self.is_ipv6)) else {
            self.counts.without_address += datagrams.len().div_ceil(segment_size.max(1)) as u64;
            return datagrams.clear();
        };
        self.outbox.push(to, segment_size, ecn, datagrams);
        if !self.has_room() {
            self.flush();
        }
    }

    /// Sends datagrams from where they lie, if nothing waits that must go before them and the kernel takes them now, in
    /// one call. Says whether they are gone; if not, they may be [queued](Self::queue).
    pub(super) fn pass(&mut self, to: SocketAddr, transmit: Transmit, bytes: &[u8]) -> bool {
        let Transmit { segment_size, ecn, .. } = transmit;
        let datagrams = bytes.len().div_ceil(segment_size.max(1));
        if self.is_blocked() || bytes.len() > MAX_SEND || datagrams > self.state.max_gso_segments() {
            return false;
        }
        let call = Call { to: mapped(to, self.is_ipv6), segment_size, ecn, bytes };
        let is_gone = send(self.socket.get(), &self.state, call).is_ok();
        if is_gone {
            self.counts.sent += datagrams as u64;
            self.counts.send_calls += 1;
        }
        is_gone
    }

    /// Sends what is queued here, as far as the kernel takes it now.
    pub(super) fn flush(&mut self) {
        let (socket, state) = (self.socket.get(), &self.state);
        self.outbox.flush(state, &mut self.counts, |call| send(socket, state, call));
    }
}

/// One call of the kernel.
fn send(socket: &UdpSocket, state: &UdpSocketState, call: Call<'_>) -> io::Result<()> {
    let Call { to, segment_size, ecn, bytes } = call;
    let segment_size = (bytes.len() > segment_size).then_some(segment_size);
    let ecn = EcnCodepoint::from_bits(ecn.bits());
    let transmit = quinn_udp::Transmit { destination: to, ecn, contents: bytes, segment_size, src_ip: None };
    state.try_send(socket.into(), &transmit)
}

/// Asks the kernel not to tell to which address of ours a datagram was sent, which nobody here wants to know. In
/// quinn-udp's buffer for what it tells (96 bytes in 0.6.3), that leaves no room for the mark of a run of datagrams,
/// beside the run's size and the time of its arrival, which other systems do not tell.
#[cfg(target_os = "linux")]
fn forgo_destinations(socket: &UdpSocket) -> io::Result<()> {
    match socket.local_addr()? {
        SocketAddr::V4(_) => setsockopt(socket, sockopt::Ipv4PacketInfo, &false)?,
        SocketAddr::V6(_) => setsockopt(socket, sockopt::Ipv6RecvPacketInfo, &false)?,
    }
    Ok(())
}

/// Asks for large buffers, and says what to do where the kernel gives small ones. Gives how many bytes of packets the
/// socket holds, if that is known.
fn enlarge_buffers(socket: &UdpSocket, state: &UdpSocketState) -> Option<usize> {
    let asked = [
        state.set_send_buffer_size(socket.into(), SOCKET_BUFFER),
        state.set_recv_buffer_size(socket.into(), SOCKET_BUFFER),
    ];
    for error in asked.into_iter().filter_map(Result::err) {
        tracing::debug!(%error, "the kernel refuses larger socket buffers");
    }
    let given = [state.send_buffer_size(socket.into()), state.recv_buffer_size(socket.into())];
    let received = "peers send more slowly above some Gbit/s, and packets that are relayed here may be lost";
    for (given, direction, effect, sysctl) in [
        (&given[0], "send", "above some Gbit/s packets wait for it", "net.core.wmem_max"),
        (&given[1], "receive", received, "net.core.rmem_max"),
    ] {
        if let Some(bytes) = given.as_ref().ok().filter(|bytes| is_small(**bytes)) {
            let larger = format_args!("sysctl -w {sysctl}={SOCKET_BUFFER}");
            tracing::warn!(bytes, "the kernel gives a small {direction} buffer; {effect}: {larger}");
        }
    }
    tracing::info!(
        asked = SOCKET_BUFFER,
        send = ?given[0].as_ref().ok(),
        receive = ?given[1].as_ref().ok(),
        gso = state.max_gso_segments(),
        gro = state.gro_segments(),
        "the data socket's buffers in bytes, and datagrams per call"
    );
    let [_, receive] = given;
    receive.ok().map(|bytes| bytes / KERNELS_SHARE)
}

/// Whether the kernel gave less than half of what was asked for. Linux reports twice what it grants, for its own
/// bookkeeping.
fn is_small(given: usize) -> bool {
    given < SOCKET_BUFFER / 2
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::io::arrivals::{ArrivalLoss, Received};
    use crate::io::clock::Clock;
    use crate::io::testing::loopback;
    use crate::overlay::{Adjacency, InstanceId, LinkId, MemberId, Peer};
    use crate::transmit::Ecn;

    const PATIENCE: Duration = Duration::from_secs(20);

    fn open(socket: UdpSocket) -> io::Result<DataSocket> {
        DataSocket::new(socket)
    }

    /// One batch of what has come, datagram by datagram.
    fn receive(socket: &mut DataSocket, mut take: impl FnMut(Received<'_>)) {
        let mut arrivals = Arrivals::new(ArrivalLoss::default());
        socket.receive(&mut arrivals);
        arrivals.each(|Received { from, ecn, noted, stride, datagrams }| {
            for datagrams in datagrams.chunks_mut(stride) {
                take(Received { from, ecn, noted, stride, datagrams });
            }
        });
    }

    fn run(segment_size: usize) -> Transmit {
        let peer = Peer { member: MemberId(1), instance: InstanceId(1) };
        Transmit::unmarked(Adjacency { peer, link: LinkId(0) }, segment_size)
    }

    /// As the driver does it: what is blocked goes on when the socket is writable.
    async fn send(socket: &mut DataSocket, to: Option<SocketAddr>, segment_size: usize, bytes: &[u8]) {
        socket.queue(to, run(segment_size), &mut bytes.to_vec());
        socket.flush();
        while socket.is_blocked() {
            timeout(PATIENCE, socket.writable()).await.expect("writable in time");
            socket.flush();
        }
    }

    async fn receive_until(socket: &mut DataSocket, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
        let mut received = Vec::new();
        let all = async {
            while received.len() < count {
                socket.readable().await;
                receive(socket, |one| received.push((one.from, one.datagrams.to_vec())));
            }
        };
        timeout(PATIENCE, all).await.expect("all datagrams in time");
        received
    }

    fn numbered(count: usize, size: usize, last: usize) -> Vec<Vec<u8>> {
        let datagram = |index| vec![index as u8; if index + 1 == count { last } else { size }];
        (0..count).map(datagram).collect()
    }

    #[tokio::test]
    async fn a_run_of_datagrams_arrives_as_the_same_datagrams() {
        let mut sender = open(loopback()).expect("a socket");
        let mut receiver = open(loopback()).expect("a socket");
        let to = receiver.local_addr().expect("bound");
        let from = sender.local_addr().expect("bound");
        for (count, size, last) in
            [(1, 1400, 1400), (44, 1400, 3), (100, 1200, 1200), (3, 1, 1), (2, 40_000, 9)]
        {
            let datagrams = numbered(count, size, last);
            send(&mut sender, Some(to), size, &datagrams.concat()).await;
            let received = receive_until(&mut receiver, count).await;
            assert!(received.iter().all(|(address, _)| *address == from));
            assert_eq!(received.into_iter().map(|(_, datagram)| datagram).collect::<Vec<_>>(), datagrams);
        }
        assert_eq!((sender.counts().sent, receiver.counts().received), (150, 150));
    }

    /// Where a process was kept from running, the kernel tells how long a datagram has waited for it.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_socket_holds_as_many_bytes_of_full_packets_as_it_says() {
        let mut sender = open(loopback()).expect("a socket");
        let mut receiver = open(loopback()).expect("a socket");
        let to = receiver.local_addr().expect("bound");
        let holds = receiver.holds().expect("the system tells");
        let (size, of_a_run) = (1_448, 44);
        let runs = holds / (size * of_a_run);
        for _ in 0..runs {
            send(&mut sender, Some(to), size, &vec![7; size * of_a_run]).await;
        }
        assert_eq!(receive_until(&mut receiver, runs * of_a_run).await.len(), runs * of_a_run);
    }

    #[tokio::test]
    async fn the_kernel_notes_when_a_datagram_came() {
        let mut socket = open(loopback()).expect("a socket");
        let peer = loopback();
        for waits in [Duration::from_millis(50), Duration::ZERO] {
            peer.send_to(&[0], socket.local_addr().expect("bound")).expect("sent");
            std::thread::sleep(waits);
            let mut arrival = None;
            while arrival.is_none() {
                socket.readable().await;
                receive(&mut socket, |received| arrival = received.noted);
            }
            let clock = Clock::start();
            let (batch, now) = (clock.batch(), clock.now());
            assert!(batch.arrival(arrival) + waits <= now, "it waited for {waits:?}");
        }
    }

    /// The driver asks the clocks while a batch is handed on: no datagram of it may have been sent later.
    #[tokio::test]
    async fn a_batch_is_handed_on_when_the_kernel_has_given_it() {
        let mut socket = open(loopback()).expect("a socket");
        let (to, peer) = (socket.local_addr().expect("bound"), loopback());
        peer.send_to(&[0], to).expect("sent");
        let batches = async {
            let mut batches = Vec::new();
            while batches.len() < 3 {
                socket.readable().await;
                let mut batch = Vec::new();
                receive(&mut socket, |Received { datagrams, .. }| {
                    batch.push(datagrams[0]);
                    peer.send_to(&[datagrams[0] + 1], to).expect("sent");
                });
                batches.extend((!batch.is_empty()).then_some(batch));
            }
            batches
        };
        assert_eq!(timeout(PATIENCE, batches).await.expect("in time"), [[0], [1], [2]]);
    }

    #[tokio::test]
    async fn what_is_passed_on_from_where_it_lies_arrives_and_overtakes_nothing() {
        let mut sender = open(loopback()).expect("a socket");
        let mut receiver = open(loopback()).expect("a socket");
        let to = receiver.local_addr().expect("bound");
        let all = numbered(60, 900, 900);
        let [first, second] = [&all[..20], &all[20..40]].map(<[Vec<u8>]>::concat);
        let transmit = run(900);
        sender.queue(Some(to), run(900), &mut first.clone());
        assert!(!sender.pass(to, transmit, &second), "something waits");
        sender.flush();
        assert!(sender.pass(to, transmit, &second));
        send(&mut sender, Some(to), 900, &all[40..].concat()).await;
        let received = receive_until(&mut receiver, 60).await;
        assert_eq!(received.into_iter().map(|(_, datagram)| datagram).collect::<Vec<_>>(), all);
        assert!(!sender.pass(to, transmit, &vec![0; 900 * 65]), "more than a call takes");
        assert_eq!((sender.counts().sent, sender.counts().send_calls), (60, 3));
    }

    /// All that the kernel tells of a run has room beside its mark, whatever the family of the addresses.
    #[tokio::test]
    async fn marks_go_out_and_come_in() {
        for address in ["127.0.0.1:0", "[::1]:0"] {
            let Ok(socket) = UdpSocket::bind(address) else {
                continue; // a machine without IPv6
            };
            let (mut sender, mut receiver) = (
                open(socket).expect("a socket"),
                open(UdpSocket::bind(address).expect("bound")).expect("a socket"),
            );
            let mut marked = run(4);
            marked.ecn = Ecn::from_bits(3);
            sender.queue(receiver.local_addr().ok(), marked, &mut vec![1; 400]);
            sender.flush();
            let mut marks = Vec::new();
            while marks.len() < 100 {
                timeout(PATIENCE, receiver.readable()).await.expect("readable in time");
                receive(&mut receiver, |received| marks.push(received.ecn.bits()));
            }
            assert_eq!(marks, [3; 100], "over {address}");
        }
    }

    #[tokio::test]
    async fn an_ipv6_socket_reaches_ipv4_neighbours() {
        let Ok(socket) = UdpSocket::bind("[::]:0") else {
            return; // a machine without IPv6
        };
        let mut sender = open(socket).expect("a socket");
        let mut receiver = open(loopback()).expect("a socket");
        send(&mut sender, receiver.local_addr().ok(), 10, &[7; 10]).await;
        assert_eq!(receive_until(&mut receiver, 1).await[0].1, [7; 10]);
    }

    #[tokio::test]
    async fn what_cannot_be_sent_is_counted_and_does_not_block() {
        let mut socket = open(loopback()).expect("a socket");
        send(&mut socket, None, 10, &[0; 25]).await;
        assert_eq!(socket.counts(), DataCounts { without_address: 3, ..DataCounts::default() });
        // The broadcast address without SO_BROADCAST: permission denied.
        send(&mut socket, "255.255.255.255:9".parse().ok(), 10, &[0; 20]).await;
        assert_eq!(socket.counts().refused, 2);
    }

    #[tokio::test]
    async fn an_empty_datagram_and_an_empty_buffer_are_harmless() {
        let mut socket = open(loopback()).expect("a socket");
        let to = socket.local_addr().expect("bound");
        send(&mut socket, Some(to), 0, &[]).await;
        let stranger = loopback();
        stranger.send_to(&[], to).expect("sent");
        stranger.send_to(&[1], to).expect("sent");
        let last = receive_until(&mut socket, 1).await.pop().expect("one");
        assert_eq!(last.1, [1]);
    }
}
