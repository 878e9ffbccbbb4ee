//! Work on codes beside the driver: a few jobs at a time on tokio's blocking threads.

use std::thread::available_parallelism;

use tokio::sync::mpsc;
use tokio::task::spawn_blocking;

use crate::session::{Job, JobResult};

/// Runs jobs of the node; the others wait in the node. One processor is left to the driver, unless there is only one: a
/// driver that is kept waiting sees delay, and its paths slow down.
#[derive(Debug)]
pub(super) struct CodecPool {
    running: usize,
    most: usize,
    done: mpsc::UnboundedSender<JobResult>,
    results: mpsc::UnboundedReceiver<JobResult>,
}

impl CodecPool {
    pub(super) fn new() -> CodecPool {
        let (done, results) = mpsc::unbounded_channel();
        let processors = available_parallelism().map_or(1, usize::from);
        CodecPool { running: 0, most: processors.saturating_sub(1).max(1), done, results }
    }

    /// Starts jobs while there is room for them; says whether it started any.
    pub(super) fn start(&mut self, mut next: impl FnMut() -> Option<Job>) -> bool {
        let before = self.running;
        while self.running < self.most {
            let Some(job) = next() else { break };
            self.running += 1;
            let done = self.done.clone();
            // If nobody waits any more, the endpoint has ended.
            spawn_blocking(move || drop(done.send(job.run())));
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
