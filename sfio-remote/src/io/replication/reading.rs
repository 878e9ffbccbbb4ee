//! A command that reads a generation says so to the I/O nodes, so that nothing of it is removed meanwhile.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::sleep;

use super::error::{FailureKind, Outcome, ReplicationError};
use super::job::Job;
use super::manifests::load_manifest;
use super::objects::{Objects, Source};
use super::spool::ManifestFile;
use crate::replication::{Generation, SignedRecord};

/// How often a mark is renewed: the grace is much longer.
const RENEWAL: Duration = Duration::from_secs(60);

/// A data set that is being read, as its newest record was at the beginning. As long as this lives, its mark is
/// renewed.
#[derive(Debug)]
pub struct Reading {
    job: Job,
    /// The record.
    pub record: Arc<SignedRecord>,
    /// What the I/O nodes disagree in: some of them have lost something.
    pub disagreements: Vec<String>,
    marking: JoinHandle<()>,
}

impl Reading {
    /// Begins to read a data set.
    ///
    /// # Errors
    /// If there is none, or the site cannot be asked.
    pub async fn begin(job: &Job) -> Outcome<Reading> {
        let view = job.open().await?;
        let record = view.existing()?;
        let marker = job.clone();
        let marking = tokio::spawn(async move {
            loop {
                for io_node in marker.dataset.io_nodes() {
                    // A mark that does not arrive is made up for by the next one.
                    let _ = marker.dataset.client().mark(io_node, marker.dataset.path()).await;
                }
                sleep(RENEWAL).await;
            }
        });
        Ok(Reading { job: job.clone(), record, disagreements: view.disagreements, marking })
    }

    /// The generation of that number, or the current one.
    ///
    /// # Errors
    /// If it is not kept.
    pub fn generation(&self, number: Option<u64>) -> Outcome<&Generation> {
        let number = number.unwrap_or(self.record.current);
        self.record.generation(number).ok_or_else(|| {
            let kept: Vec<String> =
                self.record.generations.iter().map(|kept| kept.number.to_string()).collect();
            ReplicationError::NoGeneration { number, kept: kept.join(", ") }
        })
    }

    /// A generation's manifest, from this machine if it has been here before.
    ///
    /// # Errors
    /// If the site cannot be asked, or something is damaged.
    pub async fn manifest(&self, generation: &Generation) -> Outcome<ManifestFile> {
        let loaded = load_manifest(&self.job, &self.record, generation).await;
        self.unless_removed(generation, loaded).await
    }

    /// What chunks are read from.
    pub fn objects(&self, source: Source) -> Objects {
        Objects::new(&self.job, &self.record, source)
    }

    /// Whether a generation has been removed meanwhile.
    pub async fn has_removed(&self, generation: &Generation) -> bool {
        let view = self.job.open().await.ok();
        let newest = view.and_then(|view| view.newest);
        newest.is_some_and(|newest| newest.generation(generation.number).is_none())
    }

    /// What was read of a generation; if that is lost because the generation has been removed meanwhile, that is said.
    pub async fn unless_removed<T>(&self, generation: &Generation, read: Outcome<T>) -> Outcome<T> {
        let Err(error) = read else { return read };
        if error.kind() == FailureKind::Integrity && self.has_removed(generation).await {
            return Err(ReplicationError::Removed(generation.number));
        }
        Err(error)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.marking.abort();
    }
}
