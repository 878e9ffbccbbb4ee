//! Wakes those who wait for something to come.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

/// Rung when there may be something to take. Whoever waits looks first how often it has rung, then whether there is
/// something, and then waits for it to ring again: so no ring is missed.
#[derive(Debug, Default)]
pub(super) struct Bell {
    state: Mutex<State>,
    threads: Condvar,
    tasks: Notify,
}

#[derive(Debug, Default)]
struct State {
    rung: u64,
    /// Threads that wait: waking nobody is a system call, too.
    threads: usize,
}

impl Bell {
    /// There may be something.
    pub(super) fn ring(&self) {
        let mut state = self.lock();
        state.rung += 1;
        let has_threads = state.threads > 0;
        drop(state);
        if has_threads {
            self.threads.notify_all();
        }
        self.tasks.notify_waiters();
    }

    /// How often it has rung.
    pub(super) fn count(&self) -> u64 {
        self.lock().rung
    }

    /// Keeps the thread until it has rung more often than that, at most for `wait`.
    pub(super) fn wait(&self, rung: u64, wait: Duration) {
        let mut state = self.lock();
        state.threads += 1;
        // A wait that is longer than the clock can tell is one without end.
        let wait = wait.min(Duration::from_secs(24 * 60 * 60));
        let woken = self.threads.wait_timeout_while(state, wait, |state| state.rung == rung);
        woken.unwrap_or_else(PoisonError::into_inner).0.threads -= 1;
    }

    /// Ends once it has rung more often than that.
    pub(super) async fn after(&self, rung: u64) {
        loop {
            // From here on no ring is missed, whether this has been polled or not.
            let next = self.tasks.notified();
            if self.count() != rung {
                return;
            }
            next.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
