//! The data plane's socket: UDP with segmentation and receive offload.
//!
//! Per-packet cost decides the speed (design §6), so the kernel gets up to 64 datagrams in one call (GSO) and gives
//! back as many in one buffer (GRO), up to 32 buffers a call. Neither is needed: without GSO the datagrams go out one
//! by one, without GRO they come in one by one.

use std::array;
use std::io::{self, ErrorKind, IoSliceMut};
use std::net::{SocketAddr, UdpSocket as StdUdpSocket};

use quinn_udp::{BATCH_SIZE, RecvMeta, Transmit, UdpSocketState};
use tokio::io::Interest;
use tokio::net::UdpSocket;

use super::addresses::mapped;
use super::outbox::{Call, Outbox};

/// What is asked of the kernel for each direction: 20 ms at 3 Gbit/s, the longest that the driver's task may be kept
/// from running. The kernel gives what net.core.rmem_max and wmem_max allow, often less.
const SOCKET_BUFFER: usize = 8 * 1024 * 1024;

/// The largest datagram that can be received, alone or with its GRO companions.
const RECEIVE_BUFFER: usize = 65_536;

/// What has passed the data plane's socket, in datagrams.
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
}

/// The socket, and the datagrams that it has not taken yet.
pub(super) struct DataSocket {
    socket: UdpSocket,
    state: UdpSocketState,
    is_ipv6: bool,
    buffers: Vec<u8>,
    outbox: Outbox,
    counts: DataCounts,
}

impl DataSocket {
    /// Takes over a bound socket.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(super) fn new(socket: StdUdpSocket) -> io::Result<DataSocket> {
        let state = UdpSocketState::new((&socket).into())?;
        enlarge_buffers(&socket, &state);
        Ok(DataSocket {
            is_ipv6: socket.local_addr()?.is_ipv6(),
            socket: UdpSocket::from_std(socket)?,
            state,
            buffers: vec![0; BATCH_SIZE * RECEIVE_BUFFER],
            outbox: Outbox::default(),
            counts: DataCounts::default(),
        })
    }

    /// Where it is bound.
    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// What has passed so far.
    pub(super) fn counts(&self) -> DataCounts {
        self.counts
    }

    /// Waits until there is something to receive.
    pub(super) async fn readable(&self) {
        if let Err(error) = self.socket.readable().await {
            // Only when the runtime shuts down.
            tracing::debug!(%error, "the data socket will not be readable again");
            std::future::pending::<()>().await;
        }
    }

    /// Waits until a blocked socket takes datagrams again.
    pub(super) async fn writable(&self) {
        if let Err(error) = self.socket.writable().await {
            tracing::debug!(%error, "the data socket will not be writable again");
            std::future::pending::<()>().await;
        }
    }

    /// Takes one batch from the kernel and gives each datagram to `take`. Says whether there was anything.
    pub(super) fn receive(&mut self, mut take: impl FnMut(SocketAddr, &mut [u8])) -> bool {
        let mut metas = [RecvMeta::default(); BATCH_SIZE];
        let filled = match self.receive_into_buffers(&mut metas) {
            Ok(filled) => filled,
            Err(error) => {
                // ICMP's complaints about what was sent arrive here too; the datagrams are lost either way.
                if error.kind() != ErrorKind::WouldBlock {
                    tracing::debug!(%error, "receiving on the data plane");
                }
                return false;
            }
        };
        for (buffer, meta) in self.buffers.chunks_exact_mut(RECEIVE_BUFFER).zip(&metas[..filled]) {
            // An empty datagram has a stride of 0.
            for datagram in buffer[..meta.len.min(RECEIVE_BUFFER)].chunks_mut(meta.stride.max(1)) {
                self.counts.received += 1;
                take(meta.addr, datagram);
            }
        }
        filled > 0
    }

    fn receive_into_buffers(&mut self, metas: &mut [RecvMeta; BATCH_SIZE]) -> io::Result<usize> {
        let mut buffers = self.buffers.chunks_exact_mut(RECEIVE_BUFFER);
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            array::from_fn(|_| IoSliceMut::new(buffers.next().unwrap_or_default()));
        let (socket, state) = (&self.socket, &self.state);
        socket.try_io(Interest::READABLE, || state.recv(socket.into(), &mut slices, metas))
    }

    /// Whether datagrams wait until the socket is [`writable`](Self::writable).
    pub(super) fn is_blocked(&self) -> bool {
        !self.outbox.is_empty()
    }

    /// Queues datagrams of `segment_size` bytes each, of which the last may be shorter; without an address they are
    /// dropped.
    pub(super) fn queue(&mut self, to: Option<SocketAddr>, segment_size: usize, datagrams: &[u8]) {
        match to {
            Some(to) => self.outbox.push(mapped(to, self.is_ipv6), segment_size, datagrams),
            None => self.counts.without_address += datagrams.len().div_ceil(segment_size.max(1)) as u64,
        }
    }

    /// Sends what is queued, as far as the kernel takes it now.
    pub(super) fn flush(&mut self) {
        loop {
            let limit = self.state.max_gso_segments();
            let Some(call) = self.outbox.next(limit) else { return };
            match self.send(call) {
                Ok(()) => self.counts.sent += self.outbox.advance(limit),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                // The device does without GSO, as quinn-udp has just learned: try again one by one.
                Err(_) if self.state.max_gso_segments() < limit => {}
                Err(error) => {
                    tracing::debug!(to = %call.to, %error, "the kernel refused datagrams");
                    self.counts.refused += self.outbox.advance(limit);
                }
            }
        }
    }

    fn send(&self, Call { to, segment_size, bytes }: Call<'_>) -> io::Result<()> {
        let segment_size = (bytes.len() > segment_size).then_some(segment_size);
        let transmit = Transmit { destination: to, ecn: None, contents: bytes, segment_size, src_ip: None };
        let (socket, state) = (&self.socket, &self.state);
        socket.try_io(Interest::WRITABLE, || state.try_send(socket.into(), &transmit))
    }
}

fn enlarge_buffers(socket: &StdUdpSocket, state: &UdpSocketState) {
    for asked in [
        state.set_send_buffer_size(socket.into(), SOCKET_BUFFER),
        state.set_recv_buffer_size(socket.into(), SOCKET_BUFFER),
    ] {
        if let Err(error) = asked {
            tracing::debug!(%error, "the kernel refuses larger socket buffers");
        }
    }
    tracing::info!(
        asked = SOCKET_BUFFER,
        send = ?state.send_buffer_size(socket.into()).ok(),
        receive = ?state.recv_buffer_size(socket.into()).ok(),
        gso = state.max_gso_segments(),
        gro = state.gro_segments(),
        "the data socket's buffers in bytes, and datagrams per call"
    );
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::io::testing::loopback;

    const PATIENCE: Duration = Duration::from_secs(20);

    /// As the driver does it: what is blocked goes on when the socket is writable. (To tokio each socket is blocked
    /// until its reactor has looked at it once.)
    async fn send(socket: &mut DataSocket, to: Option<SocketAddr>, segment_size: usize, bytes: &[u8]) {
        socket.queue(to, segment_size, bytes);
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
                socket.receive(|from, datagram| received.push((from, datagram.to_vec())));
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
        let mut sender = DataSocket::new(loopback()).expect("a socket");
        let mut receiver = DataSocket::new(loopback()).expect("a socket");
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

    /// The driver asks the clock while a batch is handed on: no datagram of it may have been sent later.
    #[tokio::test]
    async fn a_batch_is_handed_on_when_the_kernel_has_given_it() {
        let mut socket = DataSocket::new(loopback()).expect("a socket");
        let (to, peer) = (socket.local_addr().expect("bound"), loopback());
        peer.send_to(&[0], to).expect("sent");
        let batches = async {
            let mut batches = Vec::new();
            while batches.len() < 3 {
                socket.readable().await;
                let mut batch = Vec::new();
                socket.receive(|_, datagram| {
                    batch.push(datagram[0]);
                    peer.send_to(&[datagram[0] + 1], to).expect("sent");
                });
                batches.extend((!batch.is_empty()).then_some(batch));
            }
            batches
        };
        assert_eq!(timeout(PATIENCE, batches).await.expect("in time"), [[0], [1], [2]]);
    }

    #[tokio::test]
    async fn an_ipv6_socket_reaches_ipv4_neighbours() {
        let Ok(socket) = StdUdpSocket::bind("[::]:0") else {
            return; // a machine without IPv6
        };
        let mut sender = DataSocket::new(socket).expect("a socket");
        let mut receiver = DataSocket::new(loopback()).expect("a socket");
        send(&mut sender, receiver.local_addr().ok(), 10, &[7; 10]).await;
        assert_eq!(receive_until(&mut receiver, 1).await[0].1, [7; 10]);
    }

    #[tokio::test]
    async fn what_cannot_be_sent_is_counted_and_does_not_block() {
        let mut socket = DataSocket::new(loopback()).expect("a socket");
        send(&mut socket, None, 10, &[0; 25]).await;
        assert_eq!(socket.counts(), DataCounts { without_address: 3, ..DataCounts::default() });
        // The broadcast address without SO_BROADCAST: permission denied.
        send(&mut socket, "255.255.255.255:9".parse().ok(), 10, &[0; 20]).await;
        assert_eq!(socket.counts().refused, 2);
    }

    #[tokio::test]
    async fn an_empty_datagram_and_an_empty_buffer_are_harmless() {
        let mut socket = DataSocket::new(loopback()).expect("a socket");
        let to = socket.local_addr().expect("bound");
        send(&mut socket, Some(to), 0, &[]).await;
        let stranger = loopback();
        stranger.send_to(&[], to).expect("sent");
        stranger.send_to(&[1], to).expect("sent");
        let last = receive_until(&mut socket, 1).await.pop().expect("one");
        assert_eq!(last.1, [1]);
    }
}
