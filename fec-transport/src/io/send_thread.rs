//! A thread that completes runs and hands them to the kernel, beside the driver's task.
//!
//! Whatever touches each byte of a run is done in one place: copying the symbols, sealing, the system call. While there
//! is little to do the driver does it itself: waking a thread costs more. Once runs wait, they go to the thread, all of
//! them and in their order, so that no packet of a path overtakes another; the driver chooses the next symbols
//! meanwhile.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::Builder;
use std::time::Duration;

use quinn_udp::UdpSocketState;
use tokio::net::UdpSocket;
use tokio::sync::Notify;

use super::data::{DataCounts, send};
use super::outbox::Outbox;
use crate::run::{Ecn, RunSeal};

/// Bytes that may wait for the thread: some sixteen full runs, 0.8 ms at 10 Gbit/s.
const MAX_WAITING: usize = 1 << 20;
/// Bytes that the thread gathers before it calls the kernel: less than two full runs.
const MAX_GATHERED: usize = 64 << 10;
/// Buffers that are kept for later runs.
const MAX_SPARES: usize = 32;
/// The thread's socket takes nothing for so long, then it tries again.
const BLOCKED_PAUSE: Duration = Duration::from_micros(100);

/// A run on its way to the socket.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) to: SocketAddr,
    pub(super) segment_size: usize,
    pub(super) ecn: Ecn,
    pub(super) seal: Option<RunSeal>,
    /// The packets, or their headers if there is a `seal` to complete them.
    pub(super) bytes: Vec<u8>,
    /// Bytes of the complete packets.
    pub(super) length: usize,
}

impl Outgoing {
    /// Completes the packets in `packets`, which is empty and remains so, and puts them into `outbox`; gives a buffer
    /// for another run.
    pub(super) fn complete(self, packets: &mut Vec<u8>, outbox: &mut Outbox) -> Vec<u8> {
        let Outgoing { to, segment_size, ecn, seal, mut bytes, .. } = self;
        match seal {
            Some(seal) => {
                seal.complete(&bytes, packets);
                outbox.push(to, segment_size, ecn, packets);
                bytes.clear();
            }
            None => outbox.push(to, segment_size, ecn, &mut bytes),
        }
        bytes
    }
}

/// The thread, which ends when this is dropped and everything is sent.
#[derive(Debug)]
pub(super) struct SendThread {
    queue: Sender<Outgoing>,
    shared: Arc<Shared>,
}

/// What the driver and the thread both see.
#[derive(Debug, Default)]
struct Shared {
    /// Bytes that were handed over and are not sent.
    waiting: AtomicUsize,
    /// There is room again.
    room: Notify,
    /// Buffers of runs that were sent.
    spares: Mutex<Vec<Vec<u8>>>,
    sent: AtomicU64,
    refused: AtomicU64,
    send_calls: AtomicU64,
}

impl SendThread {
    /// Starts it.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn new(socket: Arc<UdpSocket>, state: Arc<UdpSocketState>) -> io::Result<SendThread> {
        let (queue, runs) = channel();
        let shared: Arc<Shared> = Arc::default();
        let worker = Worker { socket, state, shared: Arc::clone(&shared) };
        Builder::new().name("send".into()).spawn(move || worker.run(&runs))?;
        Ok(SendThread { queue, shared })
    }

    /// Whether everything that was handed over has been sent.
    pub(super) fn is_idle(&self) -> bool {
        self.shared.waiting.load(Ordering::Acquire) == 0
    }

    /// Whether there is room for more.
    pub(super) fn has_room(&self) -> bool {
        self.shared.waiting.load(Ordering::Acquire) < MAX_WAITING
    }

    /// Waits until half of the room is free, or everything has been sent.
    pub(super) async fn room(&self) {
        self.shared.room.notified().await;
    }

    /// Hands a run over; gives a buffer for the next one.
    pub(super) fn push(&mut self, outgoing: Outgoing) -> Vec<u8> {
        self.shared.waiting.fetch_add(outgoing.length, Ordering::AcqRel);
        // The thread lives as long as the queue does.
        let _ = self.queue.send(outgoing);
        self.shared.spares().pop().unwrap_or_default()
    }

    /// Adds what passed here.
    pub(super) fn add_to(&self, counts: &mut DataCounts) {
        counts.sent += self.shared.sent.load(Ordering::Relaxed);
        counts.refused += self.shared.refused.load(Ordering::Relaxed);
        counts.send_calls += self.shared.send_calls.load(Ordering::Relaxed);
    }
}

impl Shared {
    fn spares(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The thread's side.
struct Worker {
    socket: Arc<UdpSocket>,
    state: Arc<UdpSocketState>,
    shared: Arc<Shared>,
}

impl Worker {
    fn run(&self, runs: &Receiver<Outgoing>) {
        let (mut outbox, mut packets) = (Outbox::default(), Vec::new());
        while let Ok(first) = runs.recv() {
            let mut length = self.complete(first, &mut packets, &mut outbox);
            // Short runs to one neighbour leave together.
            while let Some(next) = (length < MAX_GATHERED).then(|| runs.try_recv().ok()).flatten() {
                length += self.complete(next, &mut packets, &mut outbox);
            }
            self.flush(&mut outbox);
            self.count_down(length);
        }
    }

    /// Completes a run in `outbox`; gives its length.
    fn complete(&self, outgoing: Outgoing, packets: &mut Vec<u8>, outbox: &mut Outbox) -> usize {
        let length = outgoing.length;
        let spare = outgoing.complete(packets, outbox);
        let mut spares = self.shared.spares();
        if spares.len() < MAX_SPARES {
            spares.push(spare);
        }
        length
    }

    /// Sends until all is sent: the queue behind it holds the driver back meanwhile.
    fn flush(&self, outbox: &mut Outbox) {
        let mut counts = DataCounts::default();
        while !outbox.flush(&self.state, &mut counts, |call| send(&self.socket, &self.state, call)) {
            std::thread::sleep(BLOCKED_PAUSE);
        }
        self.shared.sent.fetch_add(counts.sent, Ordering::Relaxed);
        self.shared.refused.fetch_add(counts.refused, Ordering::Relaxed);
        self.shared.send_calls.fetch_add(counts.send_calls, Ordering::Relaxed);
    }

    fn count_down(&self, length: usize) {
        let before = self.shared.waiting.fetch_sub(length, Ordering::AcqRel);
        let left = before - length;
        if left == 0 || before >= MAX_WAITING / 2 && left < MAX_WAITING / 2 {
            self.shared.room.notify_one();
        }
    }
}
