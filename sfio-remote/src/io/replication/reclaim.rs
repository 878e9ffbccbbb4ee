//! What was condemned is removed, once nobody can be reading it any more.

use super::error::answer_of;
use super::job::Job;
use crate::io::FileError;
use crate::remote_error::ErrorKind;
use crate::replication::{Record, RunId};

/// How many runs are removed by one request.
const AT_ONCE: usize = 16;

/// Has all I/O nodes remove what the newest record condemns, the oldest first, until they say that it is too early.
/// Gives the runs of which nothing is left on any of them; what does not work is tried again by a later run.
pub(super) async fn reclaim_condemned(job: &Job, newest: &Record) -> Vec<RunId> {
    let mut gone = Vec::new();
    let mut left = newest.condemned.as_slice();
    let mut count = 1;
    while !left.is_empty() {
        let (some, rest) = left.split_at(count.min(left.len()));
        if reclaim(job, some, newest.number).await.is_err() {
            break;
        }
        gone.extend_from_slice(some);
        (left, count) = (rest, AT_ONCE);
    }
    gone
}

/// Has all I/O nodes remove these runs.
async fn reclaim(job: &Job, runs: &[RunId], number: u64) -> Result<(), FileError> {
    let removed = job.on_all_nodes(move |job, io_node| {
        let runs = runs.to_vec();
        async move {
            for run in runs {
                let client = job.dataset.client();
                match client.reclaim(&io_node, job.dataset.path(), run, number).await {
                    Err(error) if answer_of(&error) == Some(ErrorKind::NotFound) => {}
                    done => done?,
                }
            }
            Ok(())
        }
    });
    removed.await.map(drop)
}
