//! Records without a new generation: going back to an earlier one, and forgetting some.

use std::sync::Arc;

use super::error::{Outcome, ReplicationError, temporary};
use super::job::Job;
use super::manifests::{load_manifest, manifest_chunks, of_manifest};
use super::objects::{Objects, Source};
use super::parts::Parts;
use super::publish::amend;
use crate::replication::{BadManifest, ChunkRef, Deed, Generation, Record, SignedRecord, TreePath};

/// What is wrong with a generation that became the current one, as far as it is known without reading all of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RolledBack {
    /// How many of its entries are damaged.
    pub damaged: u64,
    /// The first of them.
    pub first: Option<TreePath>,
}

/// Makes an earlier generation the current one; no data moves.
///
/// # Errors
/// If it is not kept, its manifest is damaged, or the site fails.
pub async fn roll_back(job: &Job, number: u64) -> Outcome<RolledBack> {
    let record = job.open().await?.existing()?;
    is_kept(&record, number)?;
    let generation = record.generation(number).expect("it is kept");
    let rolled_back = look_at(job, &record, generation).await?;
    let change = |record: &mut Record| {
        is_kept(record, number)?;
        let is_change = record.current != number;
        record.current = number;
        Ok(is_change)
    };
    amend(job, Deed::RollBack, change).await?;
    Ok(rolled_back)
}

/// Which entries of a generation are damaged, as the record and the sizes of objects tell.
///
/// # Errors
/// If its manifest is damaged: then it is of no use to anybody.
async fn look_at(job: &Job, record: &Arc<SignedRecord>, generation: &Generation) -> Outcome<RolledBack> {
    let parts = job.persistently(async || Parts::ask(job).await).await?;
    let is_damaged = |chunk: &ChunkRef| parts.have_lost(record, chunk);
    let mut list = generation.index.clone();
    if !list.iter().any(is_damaged) {
        let objects = Objects::new(job, record, Source::Cache);
        list = manifest_chunks(&objects, generation).await.map_err(|error| of_manifest(generation, error))?;
    }
    if let Some(chunk) = list.iter().find(|chunk| is_damaged(chunk)) {
        let what = format!("object {} at {} is damaged", chunk.object, chunk.offset);
        return Err(ReplicationError::Manifest { generation: generation.number, error: what.into() });
    }
    if record.damaged.is_empty() && parts.losses(record).is_empty() {
        return Ok(RolledBack::default());
    }
    let mut found = RolledBack::default();
    let manifest = load_manifest(job, record, generation).await?;
    let mut entries = manifest.entries().map_err(temporary)?;
    let damaged = |error: BadManifest| ReplicationError::Manifest {
        generation: generation.number,
        error: error.into(),
    };
    while let Some(entry) = entries.read().map_err(damaged)? {
        if entry.chunks().any(is_damaged) {
            found.damaged += 1;
            found.first.get_or_insert(entry.path);
        }
    }
    Ok(found)
}

/// Drops generations, of which none may be the current one. What nothing else needs is removed after the grace.
///
/// # Errors
/// If one of them is not kept, or is the current one, or the site fails.
pub async fn forget(job: &Job, numbers: &[u64]) -> Outcome<()> {
    let change = |record: &mut Record| {
        for number in numbers {
            is_kept(record, *number)?;
            if *number == record.current {
                return Err(ReplicationError::IsCurrent(*number));
            }
        }
        record.generations.retain(|generation| !numbers.contains(&generation.number));
        record.condemn_unneeded();
        Ok(!numbers.is_empty())
    };
    amend(job, Deed::Forget, change).await.map(drop)
}

fn is_kept(record: &Record, number: u64) -> Outcome<()> {
    if record.generation(number).is_some() {
        return Ok(());
    }
    let kept: Vec<String> = record.generations.iter().map(|kept| kept.number.to_string()).collect();
    Err(ReplicationError::NoGeneration { number, kept: kept.join(", ") })
}
