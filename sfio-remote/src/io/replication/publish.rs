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
    /// The record.
    pub(super) fn record(&self) -> &SignedRecord {
        &self.record
    }
}

impl Job {
    /// The first record of a new data set; it has no generation yet.
    pub(super) fn first_record(&self, token: Token) -> Record {
        Record {
            token,
            site: self.dataset.site().to_owned(),
            name: self.dataset.name().to_owned(),
            number: 1,
            predecessor: Hash::ZERO,
            run: self.draw(),
            signer: self.author.signer(),
            published_ms: (self.clock)(),
            deed: Deed::Publish,
            current: 0,
            generations: Vec::new(),
            next_generation: 1,
            objects: Vec::new(),
            next_object: 0,
            damaged: Vec::new(),
            healed: Vec::new(),
            condemned: Vec::new(),
        }
    }

    /// What a record has that follows `before`, or is the first one; its run is a new one.
    pub(super) fn successor(&self, before: &SignedRecord, deed: Deed) -> Record {
        Record {
            number: before.number + 1,
            predecessor: before.hash(),
            run: self.draw(),
            signer: self.author.signer(),
            published_ms: (self.clock)(),
            deed,
            ..before.record().clone()
        }
    }

    /// A run id that nobody else has.
    pub(super) fn draw(&self) -> RunId {
        RunId((self.random)())
    }

    /// Signs a record and begins to stage it on all I/O nodes.
    pub(super) fn stage(&self, record: Record) -> Outcome<Staged> {
        let id = record.run;
        let signed = SignedRecord::sign(record, &self.author.identity).map_err(ReplicationError::Unsigned)?;
        let record = Arc::new(signed);
        let stage = |io_node: &String| {
            let (job, io_node, bytes) = (self.clone(), io_node.clone(), record.bytes().clone());
            tokio::spawn(async move { job.stage_on(&io_node, id, bytes).await })
        };
        let errands = self.dataset.io_nodes().iter().map(stage).collect();
        Ok(Staged { record: Arc::clone(&record), id, errands, obsolete: Vec::new() })
    }

    async fn stage_on(&self, io_node: &str, id: RunId, bytes: Bytes) -> Result<(), FileError> {
        let name = self.dataset.staged(io_node, id);
        let file = self.dataset.opening(name, OpenMode::Exclusive, Durability::OnEveryCall);
        file.file().await?.write_at(0, bytes).await
    }

    /// Puts a staged record behind what was seen. Everything that it names is durable.
    ///
    /// # Errors
    /// If the record was refused, or is in the chain and not yet everywhere.
    pub(super) async fn publish(&self, mut staged: Staged, view: &View) -> Outcome<Race> {
        for errand in staged.errands.drain(..) {
            errand.await.expect("errands do not panic, and nobody aborts them")?;
        }
        self.bring_up_to_date(view).await?;
        let (first, others) = self.dataset.io_nodes().split_first().expect("a site has I/O nodes");
        if self.publish_on(first, staged.id, &staged.record).await? == Race::Lost {
            self.clear_up(staged.id).await;
            return Ok(Race::Lost);
        }
        // It counts from here on, whatever happens to the others.
        let mut errands = JoinSet::new();
        for name in staged.obsolete {
            let (client, first) = (self.dataset.client().clone(), first.clone());
            errands.spawn(async move {
                // What cannot be removed costs a little space. A member that may only append may not remove it.
                let _ = client.remove(&name, Durability::None).await;
                (Ok(Race::Won), first)
            });
        }
        for io_node in others {
            let (job, io_node, id) = (self.clone(), io_node.clone(), staged.id);
            let record = Arc::clone(&staged.record);
            errands.spawn(async move { (job.publish_on(&io_node, id, &record).await, io_node) });
        }
        let mut failure = None;
        while let Some(done) = errands.join_next().await {
            let (published, io_node) = done.expect("errands do not panic, and nobody aborts them");
            match published {
                Ok(Race::Won) => {}
                Ok(Race::Lost) => {
                    let what = format!("{io_node} has another record {}", staged.record.number);
                    return Err(ReplicationError::Disagreement(what));
                }
                Err(error) => failure = Some(error),
            }
        }
        self.cache.remember(self, &staged.record);
        match failure {
            None => Ok(Race::Won),
            Some(ReplicationError::Site(error) | ReplicationError::Unknown { error, .. }) => {
                Err(ReplicationError::Halfway { generation: staged.record.current, error })
            }
            Some(error) => Err(error),
        }
    }

    /// Has an I/O node move a record from where it is staged to its number; also if that has happened already, and
    /// whatever replies were lost.
    pub(super) async fn publish_on(&self, io_node: &str, id: RunId, record: &SignedRecord) -> Outcome<Race> {
        let (client, path, number) = (self.dataset.client(), self.dataset.path(), record.number);
        let mut waiting = Patience::of(self).waiting();
        loop {
            let Err(error) = client.publish(io_node, path, id, number).await else { return Ok(Race::Won) };
            let there = match self.clone().record_bytes(io_node.to_owned(), number).await {
                Ok(there) => there,
                Err(again) if is_outage(&again) && waiting.lasts(again.to_string()).await => continue,
                Err(_) => return Err(ReplicationError::Unknown { number, error }),
            };
            match there.map(|there| (Hash::of(&there) == record.hash(), SignedRecord::parse(there).is_ok())) {
                Some((true, _)) => return Ok(Race::Won),
                Some((false, true)) => return Ok(Race::Lost),
                // Nothing is there, or nothing that can be read: this was refused, or has not arrived.
                _ if is_outage(&error) && waiting.lasts(error.to_string()).await => {}
                _ => return Err(error.into()),
            }
        }
    }

    /// Copies the newest record to the I/O nodes that lack it: before the next one is published, all have it.
    pub(super) async fn bring_up_to_date(&self, view: &View) -> Outcome<()> {
        let Some(newest) = &view.newest else { return Ok(()) };
        for io_node in &view.behind {
            match self.copy_to(io_node, newest).await {
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
    pub(super) async fn copy_to(&self, io_node: &str, record: &SignedRecord) -> Outcome<()> {
        let id = self.draw();
        self.stage_on(io_node, id, record.bytes().clone()).await?;
        match self.publish_on(io_node, id, record).await? {
            Race::Won => Ok(()),
            Race::Lost => {
                let what = format!("{io_node} has another record {}", record.number);
                Err(ReplicationError::Disagreement(what))
            }
        }
    }

    /// Removes what was staged and lost. What stays is removed with the run.
    async fn clear_up(&self, id: RunId) {
        for io_node in self.dataset.io_nodes() {
            // A member that may only append may not.
            let _ = self.dataset.client().remove(&self.dataset.staged(io_node, id), Durability::None).await;
        }
    }

    /// Publishes a record without a new generation. `change` gets the next record as it would be without a change, and
    /// says whether there is one; it is asked again if somebody else was faster.
    pub(super) async fn amend(
        &self,
        deed: Deed,
        mut change: impl FnMut(&mut Record) -> Outcome<bool>,
    ) -> Outcome<Arc<SignedRecord>> {
        self.persistently(async || {
            loop {
                let view = self.look_around().await?;
                let newest = view.existing()?;
                let mut record = self.successor(&newest, deed);
                if !change(&mut record)? {
                    return Ok(newest);
                }
                view.writable()?;
                let staged = self.stage(record)?;
                let published = Arc::clone(&staged.record);
                if self.publish(staged, &view).await? == Race::Won {
                    return Ok(published);
                }
            }
        })
        .await
    }

    /// The records from `from` on to the one before `to`, from the first I/O node, each checked to follow the one
    /// before.
    pub(super) async fn records_between(
        &self,
        from: Option<&SignedRecord>,
        to: &SignedRecord,
    ) -> Outcome<Vec<SignedRecord>> {
        let io_node = &self.dataset.io_nodes()[0];
        let mut records = Vec::new();
        let (first, mut before) = from.map_or((1, Hash::ZERO), |from| (from.number + 1, from.hash()));
        for number in first..to.number {
            let bytes =
                self.patiently(async || self.clone().record_bytes(io_node.clone(), number).await).await?;
            let bytes = bytes.unwrap_or_default();
            let record = SignedRecord::parse(bytes).map_err(|error| ReplicationError::Record {
                number,
                io_node: io_node.clone(),
                error,
            })?;
            if record.number != number || record.predecessor != before {
                let what = format!("record {number} on {io_node} does not follow record {}", number - 1);
                return Err(ReplicationError::Disagreement(what));
            }
            before = record.hash();
            records.push(record);
        }
        if to.number >= first && to.predecessor != before {
            let what = format!("record {} on {io_node} does not follow record {}", to.number, to.number - 1);
            return Err(ReplicationError::Disagreement(what));
        }
        Ok(records)
    }
}
