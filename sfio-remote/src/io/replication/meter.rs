//! How far a run is, for whoever watches.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

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

/// Counters, read from any thread. What is to be done is known better with every file that is read, and becomes less
/// where a file has holes.
#[derive(Debug, Default)]
pub struct Meter {
    phase: AtomicU8,
    /// Entries walked.
    pub walked: AtomicU64,
    /// Files to be read, fetched or verified, once that is known.
    pub files: AtomicU64,
    /// Files that are done with.
    pub files_done: AtomicU64,
    /// Bytes to be read or fetched, without holes, once that is known.
    pub bytes: AtomicU64,
    /// Bytes read, or written to files.
    pub bytes_done: AtomicU64,
    /// Bytes that went to the site or came from there, after compression and without those that were there.
    pub moved: AtomicU64,
    /// Bytes that were known to be there already although their files were new or changed.
    pub known: AtomicU64,
    waiting: Mutex<Waiting>,
    /// What a session waits for, of which nothing is heard.
    silence: Mutex<Option<Wait>>,
}

/// The parts of a command that wait; several may wait for the same.
#[derive(Debug, Default)]
struct Waiting {
    parts: usize,
    /// What one of them waits for, and how many bytes had moved when it said so.
    last: Option<(Wait, u64)>,
}

/// What a command waits for.
#[derive(Debug, Clone)]
pub struct Wait {
    /// Who or what has to move.
    pub awaited: Awaited,
    /// What went wrong last.
    pub what: String,
    /// Since when.
    pub since: Instant,
    /// How long it is going to wait in all.
    pub limit: Duration,
}

/// Who or what has to move before a command goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Awaited {
    /// The network, or an I/O node.
    Network,
    /// Another run that writes to the same data set.
    AnotherRun,
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

    /// What the command waits for, if it does: since a part has said so, nothing has moved.
    pub fn waiting(&self) -> Option<Wait> {
        let last = lock(&self.waiting).last.clone();
        let stands_still = last.filter(|(_, moved)| *moved == Meter::get(&self.moved));
        stands_still.map(|(wait, _)| wait).or_else(|| lock(&self.silence).clone())
    }

    /// Nothing is heard of an I/O node, and its session waits; none: all of them are heard.
    pub fn set_silence(&self, wait: Option<Wait>) {
        *lock(&self.silence) = wait;
    }

    /// A part of the command begins to wait.
    pub(super) fn begin_to_wait(&self) {
        lock(&self.waiting).parts += 1;
    }

    /// A part of the command that waits has tried again in vain.
    pub(super) fn wait_for(&self, awaited: Awaited, what: String, since: Instant, limit: Duration) {
        let wait = Wait { awaited, what, since, limit };
        lock(&self.waiting).last = Some((wait, Meter::get(&self.moved)));
    }

    /// A part of the command does not wait any more.
    pub(super) fn go_on(&self) {
        let mut waiting = lock(&self.waiting);
        waiting.parts -= 1;
        if waiting.parts == 0 {
            waiting.last = None;
        }
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

fn lock<T>(wait: &Mutex<T>) -> MutexGuard<'_, T> {
    // No panic can leave it half changed.
    wait.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One part that got on made it look as if all of them did.
    #[test]
    fn a_command_waits_as_long_as_any_part_of_it_does_and_nothing_moves() {
        let meter = Meter::default();
        let fail = || meter.wait_for(Awaited::Network, "io1".into(), Instant::now(), Duration::from_secs(9));
        [(), ()].iter().for_each(|()| meter.begin_to_wait());
        fail();
        meter.go_on();
        assert!(meter.waiting().is_some());
        Meter::add(&meter.moved, 1);
        assert!(meter.waiting().is_none(), "it got on");
        fail();
        assert!(meter.waiting().is_some());
        meter.go_on();
        assert!(meter.waiting().is_none());
    }
}
