//! The memory for what was written and the peer has not acknowledged: members share it, however many sessions each has.
//!
//! A peer that reads nothing, or acknowledges nothing, decides how much of it its sessions hold and for how long. So
//! writers of a member's sessions wait once the member has as much as it leaves free for others.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::overlay::MemberId;
use crate::shares::Shares;

/// What a session may hold however full the memory is, so that it gets on: some blocks.
const LEAST: u64 = 256 << 10;
/// The shares are counted in pieces of so many bytes, so that they are not looked at for each packet.
const GRAIN: u64 = 64 << 10;

/// The memory of all sessions of a node together.
#[derive(Debug, Clone)]
pub(crate) struct SendPool(Arc<Mutex<Shares<MemberId>>>);

impl SendPool {
    /// A memory of so many bytes.
    pub(crate) fn new(bytes: usize) -> SendPool {
        SendPool(Arc::new(Mutex::new(Shares::new(bytes as u64, 0))))
    }

    fn shares(&self) -> MutexGuard<'_, Shares<MemberId>> {
        // One thread drives all sessions of a node, so nobody waits; and no statement leaves a sum half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session's part of its peer's share.
#[derive(Debug)]
pub(super) struct Outgoing {
    pool: SendPool,
    peer: MemberId,
    taken: u64,
}

impl Outgoing {
    /// Nothing yet, for a session with a process of `peer`.
    pub(super) fn new(pool: SendPool, peer: MemberId) -> Outgoing {
        Outgoing { pool, peer, taken: 0 }
    }

    /// The session holds `held` bytes now.
    pub(super) fn settle(&mut self, held: usize) {
        let wanted = (held as u64).next_multiple_of(GRAIN);
        if wanted == self.taken {
            return;
        }
        let mut shares = self.pool.shares();
        shares.take(self.peer, wanted.saturating_sub(self.taken));
        shares.give_back(self.peer, self.taken.saturating_sub(wanted));
        self.taken = wanted;
    }

    /// How many bytes more a session that holds `held` may hold.
    pub(super) fn available(&mut self, held: usize) -> usize {
        self.settle(held);
        let available = self.pool.shares().available(self.peer).max(LEAST.saturating_sub(held as u64));
        usize::try_from(available).unwrap_or(usize::MAX)
    }
}

impl Drop for Outgoing {
    fn drop(&mut self) {
        self.pool.shares().give_back(self.peer, self.taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: usize = 1 << 20;

    /// Writes as much as it may, again and again; gives how much it holds then.
    fn fill(session: &mut Outgoing, mut held: usize) -> usize {
        for _ in 0..100 {
            held += session.available(held).min(MIB);
        }
        held
    }

    #[test]
    fn a_member_with_many_sessions_leaves_another_its_part() {
        let pool = SendPool::new(64 * MIB);
        let mut hogs: Vec<Outgoing> = (0..50).map(|_| Outgoing::new(pool.clone(), MemberId(1))).collect();
        let held: usize = hogs.iter_mut().map(|hog| fill(hog, 0)).sum();
        let least = 50 * LEAST as usize;
        assert!((31 * MIB..=32 * MIB + least).contains(&held), "{held}");
        let mut other = Outgoing::new(pool.clone(), MemberId(2));
        let part = fill(&mut other, 0);
        assert!(part >= 9 * MIB, "{part}");
        hogs.clear();
        assert!(fill(&mut other, part) >= 31 * MIB, "what ended gives everything back");
        drop(other);
        assert_eq!(pool.shares().used(), 0);
    }

    #[test]
    fn a_session_always_gets_on() {
        let pool = SendPool::new(MIB);
        let mut hog = Outgoing::new(pool.clone(), MemberId(1));
        hog.settle(10 * MIB);
        let mut other = Outgoing::new(pool, MemberId(1));
        assert_eq!(other.available(0), LEAST as usize);
        assert_eq!(other.available(LEAST as usize), 0);
        hog.settle(0);
        assert!(other.available(LEAST as usize) > 0);
    }
}
