//! What the kernel keeps for a UDP socket in each direction.

use std::io;
use std::net::UdpSocket;

use socket2::SockRef;

/// What is asked of the kernel for each direction: 20 ms at 3 Gbit/s, the longest that the driver's task may be kept
/// from running. The kernel gives what net.core.rmem_max and wmem_max allow, often less.
const SOCKET_BUFFER: usize = 8 * 1024 * 1024;

/// Asks for large buffers, and says what to do where the kernel gives small ones. Linux gives 208 KiB unless it is
/// asked, of which 150 full packets fit: what a sender on a fast network says at once is more.
pub(super) fn enlarge(socket: &UdpSocket) {
    let socket = SockRef::from(socket);
    let asked = [socket.set_send_buffer_size(SOCKET_BUFFER), socket.set_recv_buffer_size(SOCKET_BUFFER)];
    for error in asked.into_iter().filter_map(Result::err) {
        tracing::debug!(%error, "the kernel refuses larger socket buffers");
    }
    tell("send", "net.core.wmem_max", socket.send_buffer_size());
    tell("receive", "net.core.rmem_max", socket.recv_buffer_size());
}

fn tell(direction: &str, sysctl: &str, given: io::Result<usize>) {
    match given {
        Ok(bytes) if is_small(bytes) => tracing::warn!(
            bytes,
            "the kernel gives a small {direction} buffer; above some 100 Mbit/s packets may be lost here: sysctl -w \
             {sysctl}={SOCKET_BUFFER}"
        ),
        given => {
            tracing::info!(asked = SOCKET_BUFFER, given = ?given.ok(), "a socket's {direction} buffer in bytes");
        }
    }
}

/// Whether the kernel gave less than half of what was asked for. Linux reports twice what it grants, for its own
/// bookkeeping.
fn is_small(given: usize) -> bool {
    given < SOCKET_BUFFER / 2
}
