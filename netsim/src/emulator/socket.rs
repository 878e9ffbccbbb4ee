//! UDP sockets on 127.0.0.1.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use socket2::{Domain, Protocol, SockAddr, SockRef, Socket, Type};
use tokio::net::UdpSocket;

/// What is asked of the kernel for each socket and direction: 30 ms at 1 Gbit/s, in case a turn comes late.
const WANTED_BUFFER_BYTES: usize = 4 << 20;

/// Any free port.
pub(super) const FREE_PORT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);

/// A socket bound to `address`, with buffers as large as the kernel gives.
pub(super) fn bind(address: SocketAddr) -> io::Result<UdpSocket> {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, Some(Protocol::UDP))?;
    socket.set_nonblocking(true)?;
    // A smaller buffer is no failure: the kernel grants what its limits allow, and `receive_buffer_bytes` tells.
    let _ = socket.set_recv_buffer_size(WANTED_BUFFER_BYTES);
    let _ = socket.set_send_buffer_size(WANTED_BUFFER_BYTES);
    socket.bind(&address.into())?;
    UdpSocket::from_std(socket.into())
}

/// A socket on a free port that exchanges packets with `peer` only.
pub(super) fn connect(peer: SocketAddr) -> io::Result<UdpSocket> {
    let socket = bind(FREE_PORT)?;
    SockRef::from(&socket).connect(&peer.into())?;
    Ok(socket)
}

/// The receive buffer that the kernel gave, in bytes of its own accounting.
pub(super) fn receive_buffer_bytes(socket: &UdpSocket) -> io::Result<usize> {
    SockRef::from(socket).recv_buffer_size()
}

/// Sends by a connected socket.
///
/// It goes past tokio, whose idea of a fresh socket is that it cannot send yet. A refusal by the peer's host is
/// about an earlier packet, so this one gets another try.
pub(super) fn send(socket: &UdpSocket, packet: &[u8]) -> io::Result<()> {
    let socket = SockRef::from(socket);
    match socket.send(packet) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => socket.send(packet),
        result => result,
    }
    .map(|_| ())
}

/// Sends to `target` by an unconnected socket.
pub(super) fn send_to(socket: &UdpSocket, packet: &[u8], target: SocketAddr) -> io::Result<()> {
    SockRef::from(socket).send_to(packet, &SockAddr::from(target)).map(|_| ())
}
