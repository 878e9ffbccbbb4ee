//! How much of each object the I/O nodes have. A disk that was set back, or lost something, has less than records say.

use std::collections::BTreeMap;

use super::dataset::DataSet;
use super::error::Outcome;
use super::job::Job;
use crate::client::Durability;
use crate::replication::{ChunkRef, Extent, Record, RunId};

/// A record is told of so many lost places of an object at most; of more it is told as one, which takes in what is
/// between them. Stripes of 64 KiB of 800 MB on three I/O nodes, of which one has lost its disk, are as many.
const MOST_PLACES: usize = 4_096;

/// The sizes of the parts of objects: for each I/O node, in the order of the site, by run.
#[derive(Debug)]
pub(super) struct Parts {
    dataset: DataSet,
    sizes: Vec<BTreeMap<RunId, u64>>,
}

impl Parts {
    /// Asks all I/O nodes of a job's site at once.
    pub(super) async fn ask(job: &Job) -> Outcome<Parts> {
        let list = |job: Job, io_node: String| async move {
            job.list_all(&io_node, "objects", None, Durability::None).await
        };
        let listed = job.on_all_nodes(list).await?;
        let by_run = |entries: Vec<crate::store::Entry>| {
            let sized =
                entries.iter().filter_map(|entry| Some((entry.name.as_str().parse().ok()?, entry.size)));
            sized.collect()
        };
        Ok(Parts { dataset: job.dataset.clone(), sizes: listed.into_iter().map(by_run).collect() })
    }

    /// The offset up to which all I/O nodes have the object of a run.
    pub(super) fn reach(&self, run: RunId) -> u64 {
        self.dataset.reach(run, &self.sizes_of(run))
    }

    fn sizes_of(&self, run: RunId) -> Vec<u64> {
        self.sizes.iter().map(|of| of.get(&run).copied().unwrap_or(0)).collect()
    }

    /// What is missing of the objects that a record names.
    pub(super) fn losses(&self, record: &Record) -> Vec<Extent> {
        let mut losses = Vec::new();
        for entry in &record.objects {
            let missing =
                self.dataset.missing(entry.run, &self.sizes_of(entry.run), entry.length, MOST_PLACES);
            let object = entry.number;
            losses.extend(missing.iter().map(|it| Extent {
                object,
                offset: it.logical_offset,
                length: it.length,
            }));
        }
        losses
    }

    /// Whether I/O nodes have lost something of what a chunk is read from in one of its places.
    pub(super) fn have_lost_at(&self, record: &Record, place: &ChunkRef) -> bool {
        let needed = place.reach();
        record.run_of(needed.object).is_some_and(|run| self.losers(run, &needed).next().is_some())
    }

    /// Whether a chunk cannot be read from any of its places, as far as the record and the sizes of objects tell.
    pub(super) fn have_lost(&self, record: &Record, chunk: &ChunkRef) -> bool {
        let mut places = record.places_of(chunk);
        places.all(|place| record.is_damaged_at(&place) || self.have_lost_at(record, &place))
    }

    /// The I/O nodes that have lost something of a part of a run's object.
    pub(super) fn losers(&self, run: RunId, part: &Extent) -> impl Iterator<Item = &str> {
        let before = self.dataset.part_sizes(run, part.offset);
        let needed = self.dataset.part_sizes(run, part.offset + part.length);
        let there = self.sizes_of(run);
        let of_each = self.dataset.io_nodes().iter().zip(there).zip(before.into_iter().zip(needed));
        of_each
            .filter(|((_, there), (before, needed))| needed > there.max(before))
            .map(|((io_node, _), _)| io_node.as_str())
    }
}
