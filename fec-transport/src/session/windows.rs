//! The memory that credit may promise, and what of it is used: windows grow out of pools that members share.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::config::Limits;
use crate::overlay::MemberId;
use crate::shares::Shares;

/// So many streams that are alike may come at once: the first of them leaves enough for the others.
const ALIKE: u64 = 8;

/// How the windows of a session grow, and what has arrived within them.
#[derive(Debug)]
pub(super) struct Windows {
    initial: u64,
    largest: u64,
    /// What is left for growth, after the initial windows of all streams that may be open at once.
    pool: u64,
    /// What is left for all sessions of the node, whose peer's this session's part of it is, and how much that is.
    shared: SharedPool,
    peer: MemberId,
    taken: u64,
    /// What the window of the latest stream had grown to in the end.
    usual: u64,
    /// Bytes that have arrived, or are announced to, and were not read.
    unread: u64,
}

/// The memory of all sessions of a node together.
#[derive(Debug, Clone)]
pub(crate) struct SharedPool(Arc<Mutex<Memory>>);

#[derive(Debug)]
struct Memory {
    /// Bytes by which windows have grown.
    growth: Shares<MemberId>,
    /// Bytes that nobody has read.
    unread: Shares<MemberId>,
}

impl SharedPool {
    /// Windows may grow by so many bytes, and as many may be unread.
    pub(crate) fn new(bytes: usize) -> SharedPool {
        let all = || Shares::new(bytes as u64, 0);
        SharedPool(Arc::new(Mutex::new(Memory { growth: all(), unread: all() })))
    }

    /// Bytes that nobody has read, in all sessions.
    #[cfg(test)]
    pub(super) fn unread(&self) -> u64 {
        self.memory().unread.used()
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        // One thread drives all sessions of a node, so nobody waits; and no statement leaves a sum half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Windows {
    fn drop(&mut self) {
        let mut memory = self.shared.memory();
        memory.growth.give_back(self.peer, self.taken);
        memory.unread.give_back(self.peer, self.unread);
    }
}

impl Windows {
    pub(super) fn new(limits: &Limits, shared: SharedPool, peer: MemberId) -> Windows {
        let initial = u64::from(limits.initial_window);
        // Both sides may have that many streams open.
        let set_aside = initial * u64::from(limits.streams) * 2;
        let pool = (limits.receive_memory as u64).saturating_sub(set_aside);
        Windows {
            initial,
            largest: u64::from(limits.max_window),
            pool,
            shared,
            peer,
            taken: 0,
            usual: 0,
            unread: 0,
        }
    }

    /// The window of a new stream.
    pub(super) fn initial(&self) -> u64 {
        self.initial
    }

    /// What a window may grow to, within its own limit and what the pools have left for the peer: twice its size, or at
    /// once what the latest stream needed, as streams of a session are often alike; but then no more than its part of
    /// what is left, as if [`ALIKE`] streams came at once.
    pub(super) fn grow(&mut self, window: u64) -> u64 {
        let to_usual = self.usual.saturating_sub(window).min(self.pool / ALIKE);
        let wanted = window.max(to_usual).min(self.largest.saturating_sub(window)).min(self.pool);
        let mut memory = self.shared.memory();
        let growth = wanted.min(memory.growth.available(self.peer));
        memory.growth.take(self.peer, growth);
        drop(memory);
        self.pool -= growth;
        self.taken += growth;
        window + growth
    }

    /// A stream with that window is gone.
    pub(super) fn release(&mut self, window: u64) {
        let grown = window.saturating_sub(self.initial).min(self.taken);
        if grown > 0 {
            self.usual = window;
        }
        self.pool += grown;
        self.taken -= grown;
        self.shared.memory().growth.give_back(self.peer, grown);
    }

    /// Whether more may arrive: not where the node has no memory left, and the peer's sessions hold more than an equal
    /// part of it. So each member has its part whatever others hold, and all together have twice what there is at
    /// most.
    pub(super) fn have_room(&self) -> bool {
        !self.shared.memory().unread.is_beyond_its_part(self.peer)
    }

    /// So many bytes are announced. Most symbols bring nothing new, and then the memory of all sessions is not locked:
    /// a lock waits until the symbol has come to the block's memory, which stands in no cache where sessions are many.
    pub(super) fn arrived(&mut self, bytes: u64) {
        if bytes > 0 {
            self.unread += bytes;
            self.shared.memory().unread.take(self.peer, bytes);
        }
    }

    /// So many were read, or nobody will read them.
    pub(super) fn was_read(&mut self, bytes: u64) {
        self.unread -= bytes;
        self.shared.memory().unread.give_back(self.peer, bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: MemberId = MemberId(1);
    const TWO: MemberId = MemberId(2);

    fn limits() -> Limits {
        Limits { receive_memory: 4 << 20, initial_window: 1 << 20, streams: 1, ..Limits::default() }
    }

    #[test]
    fn windows_grow_out_of_a_bounded_pool() {
        let shared = SharedPool::new(1 << 30);
        let mut windows = Windows::new(&limits(), shared.clone(), ONE);
        assert_eq!(windows.grow(1 << 20), 2 << 20);
        assert_eq!(windows.grow(1 << 20), 2 << 20);
        assert_eq!(windows.grow(1 << 20), 1 << 20);
        windows.release(2 << 20);
        assert_eq!(windows.grow(1 << 20), 2 << 20);
        windows.arrived(5);
        drop(windows);
        let memory = shared.memory();
        assert_eq!((memory.growth.used(), memory.unread.used()), (0, 0), "what a session had is free again");
    }

    #[test]
    fn a_window_grows_at_once_to_what_the_latest_stream_needed_or_to_its_part_of_what_is_left() {
        let limits =
            Limits { receive_memory: 9 << 20, initial_window: 128 << 10, streams: 4, ..Limits::default() };
        let mut windows = Windows::new(&limits, SharedPool::new(1 << 30), ONE);
        let grown = (0..2).fold(128 << 10, |window, _| windows.grow(window));
        assert_eq!(grown, 512 << 10, "nothing is known: each window doubles");
        windows.release(grown);
        assert_eq!(windows.grow(128 << 10), 512 << 10);
        assert_eq!(windows.grow(512 << 10), 1 << 20, "beyond it, windows double as before");
        windows.release(128 << 10);
        windows.release((8 << 20) + (128 << 10));
        let left = windows.pool;
        assert_eq!(windows.grow(128 << 10), (128 << 10) + left / ALIKE, "others may need as much");
    }

    #[test]
    fn sessions_of_one_node_share_what_windows_may_grow_by_and_no_member_takes_it_all() {
        let limits = Limits { initial_window: 1 << 20, streams: 1, ..Limits::default() };
        let shared = SharedPool::new(16 << 20);
        let [mut one, mut again] = [(); 2].map(|()| Windows::new(&limits, shared.clone(), ONE));
        // However many sessions it has, and however often it asks.
        let grown: u64 =
            (0..50).flat_map(|_| [&mut one, &mut again].map(|all| all.grow(4 << 20) - (4 << 20))).sum();
        assert!((7 << 20..=8 << 20).contains(&grown), "{grown}");
        let mut other = Windows::new(&limits, shared, TWO);
        assert_eq!(other.grow(2 << 20), 4 << 20);
        drop((one, again));
        assert_eq!(other.grow(4 << 20), 8 << 20);
    }

    #[test]
    fn who_holds_more_than_its_part_of_a_full_memory_gets_no_more() {
        let shared = SharedPool::new(1_000);
        let [mut hog, mut again, mut other] =
            [ONE, ONE, TWO].map(|peer| Windows::new(&limits(), shared.clone(), peer));
        hog.arrived(900);
        again.arrived(200);
        other.arrived(1);
        assert_eq!([&hog, &again, &other].map(Windows::have_room), [false, false, true]);
        other.arrived(499);
        assert!(other.have_room());
        other.arrived(1);
        assert!(!other.have_room());
        hog.was_read(900);
        assert!([&hog, &again, &other].into_iter().all(Windows::have_room));
    }
}
