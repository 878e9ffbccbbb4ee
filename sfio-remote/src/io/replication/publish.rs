//! A record takes its place in the chain, on every I/O node.
//!
//! ```text
//! stage on all I/O nodes ─▶ all durable ─▶ publish on the first one ─▶ publish on the others ─▶ acknowledged
//!                                                │ the number is taken: lost, look again
//! ```

use std::sync::Arc;

use bytes::Bytes;
use tokio::task::{JoinHandle, JoinSet};

use super::chain::View;
use super::error::{Outcome, ReplicationError, answer_of, is_outage};
use super::holdings::Holdings;
use super::job::{Job, Patience};
use crate::client::{Durability, OpenMode};
use crate::io::FileError;
use crate::name::FileName;
use crate::remote_error::ErrorKind;
use crate::replication::{Deed, Hash, Record, RunId, SignedRecord, Token};

/// A record on its way to all I/O nodes.
#[derive(Debug)]
pub(super) struct Staged {
    record: Arc<SignedRecord>,
    /// Under which name it is staged.
    id: RunId,
    errands: Vec<JoinHandle<Result<(), FileError>>>,
    /// What nobody needs any more once the record counts.
    pub(super) obsolete: Vec<FileName>,
}

/// What became of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Race {
    /// It is in the chain, on all I/O nodes.
    Won,
    /// Another one has its number.
    Lost,
}

impl Staged {
    /// Signs a record and begins to stage it on all I/O nodes.
    pub(super) fn begin(job: &Job, record: Record) -> Outcome<Staged> {
        let id = record.run;
        let signed = SignedRecord::sign(record, &job.author.identity).map_err(ReplicationError::Unsigned)?;
        let record = Arc::new(signed);
        let stage = |io_node: &String| {
            let (job, io_node, bytes) = (job.clone(), io_node.clone(), record.bytes().clone());
            tokio::spawn(async move { stage_on(&job, &io_node, id, bytes).await })
        };
        let errands = job.dataset.io_nodes().iter().map(stage).collect();
        Ok(Staged { record: Arc::clone(&record), id, errands, obsolete: Vec::new() })
    }

    /// The record.
    pub(super) fn record(&self) -> &SignedRecord {
        &self.record
    }

    /// Puts it behind what was seen. Everything that it names is durable.
    ///
    /// # Errors
    /// If the record was refused, or is in the chain and not yet everywhere.
    pub(super) async fn publish(mut self, job: &Job, view: &View) -> Outcome<Race> {
        for errand in self.errands.drain(..) {
            errand.await.expect("errands do not panic, and nobody aborts them")?;
        }
        bring_up_to_date(job, view).await?;
        let (first, others) = job.dataset.io_nodes().split_first().expect("a site has I/O nodes");
        if publish_on(job, first, self.id, &self.record).await? == Race::Lost {
            clear_up(job, self.id).await;
            return Ok(Race::Lost);
        }
        // It counts from here on, whatever happens to the others.
        let mut errands = JoinSet::new();
        for name in self.obsolete {
            let (client, first) = (job.dataset.client().clone(), first.clone());
            errands.spawn(async move {
                // What cannot be removed costs a little space. A member that may only append may not remove it.
                let _ = client.remove(&name, Durability::None).await;
                (Ok(Race::Won), first)
            });
        }
        for io_node in others {
            let (job, io_node, id) = (job.clone(), io_node.clone(), self.id);
            let record = Arc::clone(&self.record);
            errands.spawn(async move { (publish_on(&job, &io_node, id, &record).await, io_node) });
        }
        let mut failure = None;
        while let Some(done) = errands.join_next().await {
            let (published, io_node) = done.expect("errands do not panic, and nobody aborts them");
            match published {
                Ok(Race::Won) => {}
                Ok(Race::Lost) => {
                    let what = format!("{io_node} has another record {}", self.record.number);
                    return Err(ReplicationError::Disagreement(what));
                }
                Err(error) => failure = Some(error),
            }
        }
        job.cache.remember(job, &self.record);
        match failure {
            None => Ok(Race::Won),
            Some(ReplicationError::Site(error) | ReplicationError::Unknown { error, .. }) => {
                Err(ReplicationError::Halfway { generation: self.record.current, error })
            }
            Some(error) => Err(error),
        }
    }
}

async fn stage_on(job: &Job, io_node: &str, id: RunId, bytes: Bytes) -> Result<(), FileError> {
    let name = job.dataset.staged(io_node, id);
    let file = job.dataset.opening(name, OpenMode::Exclusive, Durability::OnEveryCall);
    file.file().await?.write_at(0, bytes).await
}

/// Has an I/O node move a record from where it is staged to its number; also if that has happened already, and
/// whatever replies were lost. What an I/O node has under that number counts only once it outlives a power loss.
async fn publish_on(job: &Job, io_node: &str, id: RunId, record: &SignedRecord) -> Outcome<Race> {
    let (client, path, number) = (job.dataset.client(), job.dataset.path(), record.number);
    let mut waiting = Patience::of(job).waiting();
    loop {
        let Err(error) = client.publish(io_node, path, id, number).await else { return Ok(Race::Won) };
        let there = match job.clone().durable_record_bytes(io_node.to_owned(), number).await {
            Ok(there) => there,
            Err(again) if is_outage(&again) && waiting.lasts(&again).await => continue,
            Err(_) => return Err(ReplicationError::Unknown { number, error }),
        };
        match there.map(|there| (Hash::of(&there) == record.hash(), SignedRecord::parse(there).is_ok())) {
            Some((true, _)) => return Ok(Race::Won),
            Some((false, true)) => return Ok(Race::Lost),
            // Nothing is there, or nothing that can be read: this was refused, or has not arrived.
            _ if is_outage(&error) && waiting.lasts(&error).await => {}
            _ => return Err(error.into()),
        }
    }
}

/// Copies the newest record to the I/O nodes that lack it: before the next one is published, all have it.
pub(super) async fn bring_up_to_date(job: &Job, view: &View) -> Outcome<()> {
    let Some(newest) = &view.newest else { return Ok(()) };
    for io_node in &view.behind {
        match copy_to(job, io_node, newest).await {
            // It lacks an object that the record names, so it is not merely behind.
            Err(ReplicationError::Site(error)) if answer_of(&error) == Some(ErrorKind::BadRecord) => {
                return Err(ReplicationError::Disagreement(error.to_string()));
            }
            copied => copied?,
        }
    }
    Ok(())
}

/// Puts a record that others have on an I/O node that has its predecessor.
pub(super) async fn copy_to(job: &Job, io_node: &str, record: &SignedRecord) -> Outcome<()> {
    let id = job.draw();
    stage_on(job, io_node, id, record.bytes().clone()).await?;
    match publish_on(job, io_node, id, record).await? {
        Race::Won => Ok(()),
        Race::Lost => {
            let what = format!("{io_node} has another record {}", record.number);
            Err(ReplicationError::Disagreement(what))
        }
    }
}

/// Removes what was staged and lost. What stays is removed with the run.
async fn clear_up(job: &Job, id: RunId) {
    for io_node in job.dataset.io_nodes() {
        // A member that may only append may not.
        let _ = job.dataset.client().remove(&job.dataset.staged(io_node, id), Durability::None).await;
    }
}

/// Publishes a record without a new generation. `change` gets the next record as it would be without a change, and
/// says whether there is one; it is asked again if somebody else was faster.
pub(super) async fn amend(
    job: &Job,
    deed: Deed,
    change: impl FnMut(&mut Record) -> Outcome<bool>,
) -> Outcome<Arc<SignedRecord>> {
    let before = |view: &View| match deed {
        Deed::Remove => view.newest_record().map(Some),
        _ => view.existing().map(Some),
    };
    amend_behind(job, deed, before, change).await
}

/// Publishes a removal behind the newest record that can be read, where others are lost for good: I/O nodes that have
/// lost records take it all the same, and what comes later follows it.
///
/// # Errors
/// If no record can be read, this member may not remove the data set, or the site fails.
pub(super) async fn give_up(
    job: &Job,
    mut change: impl FnMut(&mut Record) -> Outcome<bool>,
) -> Outcome<Arc<SignedRecord>> {
    job.persistently(async || {
        loop {
            let (base, newest) = newest_whole(job).await?;
            let mut record = job.successor(&base, Deed::Remove);
            record.number = newest.saturating_add(1);
            // Each record that cannot be read may have given a number to a generation.
            record.next_generation = record.next_generation.saturating_add(newest - base.number);
            change(&mut record)?;
            let staged = Staged::begin(job, record)?;
            let published = Arc::clone(&staged.record);
            let view = View { newest: Some(base), behind: Vec::new(), disagreements: Vec::new() };
            if staged.publish(job, &view).await? == Race::Won {
                return Ok(published);
            }
        }
    })
    .await
}

/// The newest record that any I/O node has whole, and the number of the newest one that there is.
async fn newest_whole(job: &Job) -> Outcome<(Arc<SignedRecord>, u64)> {
    let holdings = Holdings::ask(job).await?;
    for number in (1..=holdings.newest()).rev() {
        if let Some(record) = holdings.find(job, number, None).await? {
            job.check(number, &job.dataset.io_nodes()[0], &record)?;
            return Ok((Arc::new(record), holdings.newest()));
        }
    }
    Err(ReplicationError::NoDataSet)
}

/// The same, also where there is no record yet.
///
/// # Errors
/// [`ReplicationError::NoDataSet`] if there is none, and nothing to change either.
pub(super) async fn amend_or_begin(
    job: &Job,
    deed: Deed,
    change: impl FnMut(&mut Record) -> Outcome<bool>,
) -> Outcome<Arc<SignedRecord>> {
    amend_behind(job, deed, |view| Ok(view.newest.clone()), change).await
}

async fn amend_behind(
    job: &Job,
    deed: Deed,
    before: impl Fn(&View) -> Outcome<Option<Arc<SignedRecord>>>,
    mut change: impl FnMut(&mut Record) -> Outcome<bool>,
) -> Outcome<Arc<SignedRecord>> {
    job.persistently(async || {
        loop {
            let view = job.look_around(Durability::OnEveryCall).await?;
            let newest = before(&view)?;
            let mut record = match &newest {
                Some(newest) => job.successor(newest, deed),
                None => Record { deed, ..job.first_record(Token((job.random)())) },
            };
            if !change(&mut record)? {
                return newest.ok_or(ReplicationError::NoDataSet);
            }
            view.writable()?;
            let staged = Staged::begin(job, record)?;
            let published = Arc::clone(&staged.record);
            if staged.publish(job, &view).await? == Race::Won {
                return Ok(published);
            }
        }
    })
    .await
}
