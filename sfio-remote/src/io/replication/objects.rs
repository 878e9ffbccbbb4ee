//! Reading what objects hold.

use std::sync::Arc;

use bytes::Bytes;

use super::dataset::DataSet;
use super::error::is_outage;
use super::job::{Job, Patience};
use crate::client::OperationError;
use crate::io::FileError;
use crate::replication::{ChunkRef, SignedRecord};

/// Whether a read is content with what an I/O node has in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// What it has in memory will do.
    Cache,
    /// What is read is on the disk, as far as the operating system can tell.
    Disk,
}

/// Reads objects as a record names them, and lives through outages. Clones share the record.
#[derive(Debug, Clone)]
pub struct Objects {
    dataset: DataSet,
    record: Arc<SignedRecord>,
    source: Source,
    patience: Patience,
}

impl Objects {
    /// The objects of that record.
    pub fn new(job: &Job, record: &Arc<SignedRecord>, source: Source) -> Objects {
        let (dataset, record) = (job.dataset.clone(), Arc::clone(record));
        Objects { dataset, record, source, patience: Patience::of(job) }
    }

    /// Where a chunk is by now.
    pub(super) fn place_of(&self, chunk: &ChunkRef) -> ChunkRef {
        self.record.place_of(chunk)
    }

    /// Where a chunk was before it was sent again, each place once, the last one first.
    pub(super) fn earlier_places_of(&self, chunk: &ChunkRef) -> Vec<ChunkRef> {
        let newest = self.record.place_of(chunk);
        let mut earlier = Vec::new();
        for place in self.record.places_of(chunk) {
            // A circle that somebody made up comes back to the same places.
            if place != newest && !earlier.contains(&place) {
                earlier.push(place);
            }
        }
        earlier.reverse();
        earlier
    }

    /// Reads exactly these bytes.
    pub(super) fn read(
        &self,
        object: u32,
        offset: u64,
        length: u64,
    ) -> impl Future<Output = Result<Bytes, FileError>> + Send + use<> {
        let Objects { dataset, record, source, patience } = self.clone();
        async move {
            dataset.throttle().pass(length).await;
            let missing = || OperationError::NotFound { name: format!("object {object}") };
            let name = dataset.object(record.run_of(object).ok_or_else(missing)?);
            let (client, unit) = (dataset.client(), dataset.stripe_unit());
            let mut waiting = patience.waiting();
            let bytes = loop {
                let read = match source {
                    Source::Cache => client.read_at(&name, unit, offset, length).await,
                    Source::Disk => client.read_from_disk(&name, unit, offset, length).await,
                };
                match read {
                    Err(error) if is_outage(&error) && waiting.lasts(&error).await => {}
                    read => break read?,
                }
            };
            match length - bytes.len() as u64 {
                0 => Ok(bytes),
                missing => Err(FileError::EndOfFile { offset, length, missing }),
            }
        }
    }
}
