//! A thread whose tasks run until they are told to stop.

use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;

use tokio::sync::oneshot;

/// A thread whose tasks run until they are told to stop. Dropping it tells them so, and does not wait.
pub(super) struct TaskThread(Mutex<Option<(oneshot::Sender<()>, JoinHandle<()>)>>);

impl TaskThread {
    /// Runs `run` on a thread of that name; what `run` gets is ready once the thread is to stop.
    ///
    /// # Errors
    /// If the operating system gives no thread.
    pub(super) fn start(
        name: &str,
        run: impl FnOnce(oneshot::Receiver<()>) + Send + 'static,
    ) -> io::Result<TaskThread> {
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::Builder::new().name(name.to_owned()).spawn(move || run(stopped))?;
        Ok(TaskThread(Mutex::new(Some((stop, thread)))))
    }

    /// Tells the tasks to stop, and waits until they have.
    pub(super) fn end(&self) {
        let thread = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((stop, thread)) = thread {
            drop(stop);
            // A panic of the thread was shown when it happened.
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for TaskThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskThread").finish_non_exhaustive()
    }
}
