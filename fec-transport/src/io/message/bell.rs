//! Wakes those who wait for something to come.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::sync::futures::Notified;

/// Rung when there may be something to take. Whoever waits looks first how often it has rung, then whether there is
/// something, and then waits for it to ring again: so no ring is missed.
#[derive(Debug, Default)]
pub(super) struct Bell {
    rung: Mutex<u64>,
    threads: Condvar,
    tasks: Notify,
}

impl Bell {
    /// There may be something.
    pub(super) fn ring(&self) {
        *self.lock() += 1;
        self.threads.notify_all();
        self.tasks.notify_waiters();
    }

    /// How often it has rung.
    pub(super) fn count(&self) -> u64 {
        *self.lock()
    }

    /// Keeps the thread until it has rung more often than that, at most for `wait`.
    pub(super) fn wait(&self, rung: u64, wait: Duration) {
        let count = self.lock();
        // A wait that is longer than the clock can tell is one without end.
        let wait = wait.min(Duration::from_secs(24 * 60 * 60));
        drop(self.threads.wait_timeout_while(count, wait, |count| *count == rung));
    }

    /// Ends when it rings the next time.
    pub(super) fn rung(&self) -> Notified<'_> {
        self.tasks.notified()
    }

    fn lock(&self) -> MutexGuard<'_, u64> {
        self.rung.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
