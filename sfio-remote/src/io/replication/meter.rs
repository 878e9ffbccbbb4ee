//! How far a run is, for whoever watches.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

/// What a run is doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Phase {
    /// Asking the site what it has.
    #[default]
    Connect,
    /// Walking the tree and comparing it with the last generation.
    Compare,
    /// Reading what has changed, and sending what is new of it; or fetching it.
    Transfer,
    /// Waiting until everything is safe on the disks.
    Drain,
    /// Making the new generation current; or setting times and modes.
    Publish,
}

/// Counters that only grow; read from any thread.
#[derive(Debug, Default)]
pub struct Meter {
    phase: AtomicU8,
    /// Entries walked.
    pub walked: AtomicU64,
    /// Files to be read or fetched, once that is known.
    pub files: AtomicU64,
    /// Files read or fetched.
    pub files_done: AtomicU64,
    /// Bytes to be read or fetched, once that is known.
    pub bytes: AtomicU64,
    /// Bytes read, or written to files.
    pub bytes_done: AtomicU64,
    /// Bytes that went to the site or came from there, after compression and without those that were there.
    pub moved: AtomicU64,
    /// Bytes that were known to be there already although their files were new or changed.
    pub known: AtomicU64,
}

impl Meter {
    /// What the run is doing.
    pub fn phase(&self) -> Phase {
        let phases = [Phase::Connect, Phase::Compare, Phase::Transfer, Phase::Drain, Phase::Publish];
        phases[usize::from(self.phase.load(Ordering::Relaxed))]
    }

    /// Begins a phase.
    pub fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::Relaxed);
    }

    pub(super) fn add(counter: &AtomicU64, amount: u64) {
        counter.fetch_add(amount, Ordering::Relaxed);
    }

    pub(super) fn set(counter: &AtomicU64, amount: u64) {
        counter.store(amount, Ordering::Relaxed);
    }

    /// A counter's value.
    pub fn get(counter: &AtomicU64) -> u64 {
        counter.load(Ordering::Relaxed)
    }
}
