//! Work on codes beside the driver: a few jobs at a time, on threads of their own.

use std::io;
use std::sync::mpsc as queue;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, available_parallelism};

use tokio::sync::mpsc;

use crate::session::{Job, JobResult, limit_kernel};

/// How much nicer than the driver. Coding keeps a processor for milliseconds; a driver that waits for its turn so long
/// sees delay, and its paths slow down.
#[cfg(target_os = "linux")]
const NICENESS: i32 = 10;

/// The environment variable that, set to the name of a kernel of Reed–Solomon, keeps faster ones from being chosen: for
/// tests, and should a processor ever promise what it does not keep (docs/decisions/reed-solomon-kernels.md).
const KERNEL: &str = "FEC_TRANSPORT_KERNEL";

/// Runs jobs of the node; the others wait in the node. One processor is left to the driver, unless there is only one.
/// The threads end when this is dropped and their jobs are done.
#[derive(Debug)]
pub(super) struct CodecPool {
    running: usize,
    most: usize,
    jobs: queue::Sender<Job>,
    results: mpsc::UnboundedReceiver<JobResult>,
}

impl CodecPool {
    /// Starts the threads.
    ///
    /// # Errors
    /// If the system gives none.
    pub(super) fn new() -> io::Result<CodecPool> {
        if let Ok(name) = std::env::var(KERNEL) {
            limit_kernel(&name);
        }
        let processors = available_parallelism().map_or(1, usize::from);
        let most = processors.saturating_sub(1).max(1);
        let (done, results) = mpsc::unbounded_channel();
        let (jobs, waiting) = queue::channel();
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..most {
            let (waiting, done) = (Arc::clone(&waiting), done.clone());
            Builder::new().name("codec".into()).spawn(move || work(&waiting, &done))?;
        }
        Ok(CodecPool { running: 0, most, jobs, results })
    }

    /// Starts jobs while there is room for them; says whether it started any.
    pub(super) fn start(&mut self, mut next: impl FnMut() -> Option<Job>) -> bool {
        let before = self.running;
        while self.running < self.most {
            let Some(job) = next() else { break };
            self.running += 1;
            // The threads live as long as the queue does.
            let _ = self.jobs.send(job);
        }
        self.running > before
    }

    /// The next result; never, while nothing runs.
    pub(super) async fn next(&mut self) -> Option<JobResult> {
        let result = self.results.recv().await;
        self.running -= usize::from(result.is_some());
        result
    }
}

/// Works until there will be no more jobs, or nobody waits for results.
fn work(waiting: &Mutex<queue::Receiver<Job>>, done: &mpsc::UnboundedSender<JobResult>) {
    // On Linux that is the thread alone, elsewhere it would be the process.
    #[cfg(target_os = "linux")]
    let _ = rustix::process::nice(NICENESS);
    loop {
        let job = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(job) = job else { return };
        if done.send(job.run()).is_err() {
            return;
        }
    }
}
