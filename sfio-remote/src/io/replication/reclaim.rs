//! What was condemned is removed, once nobody can be reading it any more.

use std::collections::{BTreeMap, BTreeSet};

use super::error::{Outcome, answer_of};
use super::job::Job;
use crate::client::Durability;
use crate::io::FileError;
use crate::remote_error::ErrorKind;
use crate::replication::{Record, RunId};

/// How many runs are removed by one request.
const AT_ONCE: usize = 16;

/// The runs, of all members, that have left something on an I/O node, and of which no session that lives is writing.
pub(super) async fn runs_at_rest(job: &Job) -> Outcome<BTreeSet<RunId>> {
    let mut found: BTreeMap<RunId, bool> = BTreeMap::new();
    // A command that was killed may have left nothing but the record that it had staged.
    for folder in ["objects", "journals", "staged"] {
        let lists = job
            .on_all_nodes(move |job, io_node| async move {
                job.list_all(&io_node, folder, None, Durability::None).await
            })
            .await?;
        for entry in lists.into_iter().flatten() {
            if let Ok(run) = entry.name.as_str().parse() {
                *found.entry(run).or_default() |= entry.is_being_written;
            }
        }
    }
    Ok(found.into_iter().filter(|(_, is_written)| !is_written).map(|(run, _)| run).collect())
}

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

/// Has all I/O nodes remove these runs, whatever else the newest record, of that number, condemns. Gives those of which
/// nothing is left.
pub(super) async fn reclaim_each(job: &Job, runs: &BTreeSet<RunId>, number: u64) -> BTreeSet<RunId> {
    let mut gone = BTreeSet::new();
    for run in runs {
        if reclaim(job, &[*run], number).await.is_ok() {
            gone.insert(*run);
        }
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
