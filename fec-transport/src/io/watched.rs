//! A UDP socket whose owner is woken when there is something to receive, and not each time that something was sent.
//!
//! tokio's own socket asks the kernel to tell of both. Linux then says *writable* whenever a run of datagrams has left
//! the send buffer, and each time a thread of the runtime wakes up that has nothing to do: a tenth of what a fast
//! sender costs. So the kernel is asked about writing only while it refuses to take more.
#![allow(
    unsafe_code,
    reason = "tokio cannot see by itself that a descriptor stays open; the one use says why it does"
)]

use std::io;
use std::net::UdpSocket;
use std::task::{Context, Poll, ready};

use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// The socket.
pub(super) struct WatchedSocket(AsyncFd<UdpSocket>);

impl WatchedSocket {
    /// Takes over a socket that does not block.
    ///
    /// # Errors
    /// Those of the operating system, if it watches no more descriptors.
    ///
    /// # Panics
    /// Outside of a tokio runtime.
    pub(super) fn new(socket: UdpSocket) -> io::Result<WatchedSocket> {
        watch(socket, Interest::READABLE).map(WatchedSocket)
    }

    /// The socket itself, which may be sent through at any time.
    pub(super) fn get(&self) -> &UdpSocket {
        self.0.get_ref()
    }

    /// Whether there is something to receive; if not, the task is woken when there is.
    ///
    /// # Errors
    /// Only when the runtime shuts down.
    pub(super) fn poll_readable(&self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let ready = ready!(self.0.poll_read_ready(context));
        Poll::Ready(ready.map(|mut ready| ready.retain_ready()))
    }

    /// Receives by `receive`, whether or not the runtime has heard that there is something.
    ///
    /// # Errors
    /// Those of `receive`, [`WouldBlock`](io::ErrorKind::WouldBlock) among them if there is nothing.
    pub(super) fn receive<R>(&self, mut receive: impl FnMut(&UdpSocket) -> io::Result<R>) -> io::Result<R> {
        let mut was_tried = false;
        let result = self.0.try_io(Interest::READABLE, |socket| {
            was_tried = true;
            receive(socket)
        });
        if was_tried { result } else { receive(self.get()) }
    }

    /// Waits until the kernel takes something to send.
    ///
    /// # Errors
    /// Those of the operating system, if it has no more descriptors or watches no more of them.
    pub(super) async fn writable(&self) -> io::Result<()> {
        // A second descriptor of the same socket can be watched for something else.
        let twin = watch(self.get().try_clone()?, Interest::WRITABLE)?;
        twin.writable().await?.retain_ready();
        Ok(())
    }
}

/// Has the kernel tell what the socket is ready for, as far as there is `interest`.
fn watch(socket: UdpSocket, interest: Interest) -> io::Result<AsyncFd<UdpSocket>> {
    // SAFETY: a socket of the standard library owns its descriptor: it is open until the socket is dropped, which
    // `AsyncFd` does after it has ceased to watch it, and stays the same one, as nothing here replaces the socket.
    Ok(unsafe { AsyncFd::register_with_interest(socket, interest) }?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::io::testing::loopback;

    fn watched() -> WatchedSocket {
        let socket = loopback();
        socket.set_nonblocking(true).expect("possible");
        WatchedSocket::new(socket).expect("a runtime")
    }

    async fn readable(socket: &WatchedSocket) -> bool {
        let ready = std::future::poll_fn(|context| socket.poll_readable(context));
        timeout(Duration::from_millis(50), ready).await.is_ok()
    }

    #[tokio::test]
    async fn it_is_readable_while_there_is_something_and_writable_from_the_start() {
        let (socket, peer) = (watched(), loopback());
        assert!(!readable(&socket).await);
        socket.writable().await.expect("a descriptor");
        assert!(!readable(&socket).await, "room to send is nothing to receive");
        peer.send_to(&[7; 3], socket.get().local_addr().expect("bound")).expect("sent");
        assert!(readable(&socket).await);
        let mut buffer = [0; 9];
        assert_eq!(socket.receive(|socket| socket.recv(&mut buffer)).expect("three bytes"), 3);
        let nothing = socket.receive(|socket| socket.recv(&mut buffer)).expect_err("empty");
        assert_eq!(nothing.kind(), io::ErrorKind::WouldBlock);
        assert!(!readable(&socket).await);
    }

    /// How often a runtime's thread wakes up while twenty datagrams leave a socket that is watched with `interest`.
    #[cfg(target_os = "linux")]
    fn wakes(interest: Interest) -> usize {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicUsize, Ordering};

        let wakes = Arc::new(AtomicUsize::new(0));
        let counter = Arc::clone(&wakes);
        let count = move || {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let mut builder = tokio::runtime::Builder::new_current_thread();
        let runtime = builder.enable_all().on_thread_unpark(count).build().expect("a runtime");
        let (sink, socket) = (loopback(), loopback());
        let to = sink.local_addr().expect("bound");
        let sending = socket.try_clone().expect("a descriptor");
        runtime.block_on(async move {
            let _watched = watch(socket, interest).expect("a runtime");
            let send = move || {
                for _ in 0..20 {
                    sending.send_to(&[7], to).expect("sent");
                    std::thread::sleep(Duration::from_millis(5));
                }
            };
            tokio::task::spawn_blocking(send).await.expect("no panic");
        });
        wakes.load(Ordering::Relaxed)
    }

    /// What a socket is watched for here costs a sender nothing, which is not so of what tokio's own sockets are.
    #[cfg(target_os = "linux")]
    #[test]
    fn nobody_is_woken_because_something_was_sent() {
        let (ours, both) = (wakes(Interest::READABLE), wakes(Interest::READABLE | Interest::WRITABLE));
        assert!(ours + 5 < both, "{ours} wakes, and {both} where sending wakes somebody");
    }
}
