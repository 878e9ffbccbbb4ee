//! What I/O nodes have lost of a data set is put back from what the others have.
//!
//! Records are the same on all I/O nodes, so each one can be copied. An object is on all of them together: the part of
//! a lost disk is gone, and an empty one takes its place, so that the records that name it can be put back. `verify`
//! then tells which files are damaged, and the next `sync` of an intact source sends them again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::error::{FailureKind, Outcome, ReplicationError, answer_of, is_refusal, temporary};
use super::job::Job;
use super::manifests::{chunks_of, load_manifest, manifest_chunks};
use super::meter::Phase;
use super::objects::{Objects, Source};
use super::parts::Parts;
use super::publish::{amend, copy_to};
use super::reclaim::{reclaim_condemned, runs_at_rest};
use crate::client::{Durability, OpenMode};
use crate::dataset::record_number;
use crate::io::FileError;
use crate::remote_error::ErrorKind;
use crate::replication::{BadRecord, ChunkRef, Deed, Record, RunId, SignedRecord};

/// What a repair has done.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Repaired {
    /// Records that were put back, by I/O node.
    pub records: BTreeMap<String, u64>,
    /// Objects of which an I/O node has lost what generations need and nobody has sent again.
    pub lost_parts: BTreeMap<String, u64>,
    /// Runs that were condemned because nothing needs them.
    pub condemned: u64,
    /// What cannot be put back.
    pub lost: Vec<String>,
}

/// What the I/O nodes have, record by record.
pub(super) struct Holdings {
    /// The number of the newest record that anybody has.
    pub(super) newest: u64,
    /// Which numbers each I/O node has, in the order of the site.
    numbers: Vec<(String, BTreeSet<u64>)>,
}

/// Puts back what is missing of a data set's records, on all I/O nodes, and has removed what nothing needs.
///
/// # Errors
/// If the site fails, or no I/O node has a record that can be used.
pub async fn repair(job: &Job) -> Outcome<Repaired> {
    job.meter.enter(Phase::Connect);
    let mut repaired = Repaired::default();
    let holdings = job.persistently(async || holdings(job).await).await?;
    if holdings.newest == 0 {
        // It may be one of format 1, which is said.
        return Err(job.nothing_there(None).await.err().unwrap_or(ReplicationError::NoDataSet));
    }
    job.meter.enter(Phase::Transfer);
    let mut before: Option<SignedRecord> = None;
    for number in 1..=holdings.newest {
        let Some(record) = find_record(job, &holdings, number, before.as_ref()).await? else {
            repaired.lost.push(format!("record {number}: no I/O node has it whole"));
            before = None;
            continue;
        };
        if record.is_removed() {
            // Nobody needs what was before.
            repaired.lost.clear();
        }
        put_back(job, &holdings, &record, before.as_ref(), &mut repaired).await?;
        before = Some(record);
    }
    if before.is_none() {
        return Err(ReplicationError::NothingWhole(repaired.lost.join("; ")));
    }
    job.meter.enter(Phase::Publish);
    job.cache.forget(job);
    let newest = job.open().await?.newest_record()?;
    let parts = Parts::ask(job).await?;
    if !parts.losses(&newest).is_empty() {
        count_lost_parts(job, &parts, &newest, &mut repaired).await?;
    }
    if !newest.is_removed() {
        condemn_the_rest(job, &mut repaired).await?;
    }
    Ok(repaired)
}

pub(super) async fn holdings(job: &Job) -> Outcome<Holdings> {
    let numbers = job
        .on_all_nodes(|job, io_node| async move {
            let entries = job.list_all(&io_node, "commits", None, Durability::OnEveryCall).await?;
            let numbers: BTreeSet<u64> =
                entries.iter().filter_map(|entry| record_number(&entry.name)).collect();
            Ok((io_node, numbers))
        })
        .await?;
    let newest = numbers.iter().filter_map(|(_, numbers)| numbers.last().copied()).max().unwrap_or(0);
    Ok(Holdings { newest, numbers })
}

/// The record of that number, from the first I/O node that has one that follows the one before.
pub(super) async fn find_record(
    job: &Job,
    holdings: &Holdings,
    number: u64,
    before: Option<&SignedRecord>,
) -> Outcome<Option<SignedRecord>> {
    for (io_node, _) in holdings.numbers.iter().filter(|(_, numbers)| numbers.contains(&number)) {
        let bytes = job.patiently(async || job.clone().record_bytes(io_node.clone(), number).await).await?;
        match bytes.map(SignedRecord::parse) {
            Some(Err(error @ BadRecord::Version1)) => {
                return Err(ReplicationError::Record { number, io_node: io_node.clone(), error });
            }
            Some(Ok(record))
                if record.number == number
                    && (record.is_removed()
                        || before.is_none_or(|before| record.predecessor == before.hash())) =>
            {
                return Ok(Some(record));
            }
            _ => {}
        }
    }
    Ok(None)
}

/// Puts a record on the I/O nodes that do not have it, or have it damaged.
async fn put_back(
    job: &Job,
    holdings: &Holdings,
    record: &SignedRecord,
    before: Option<&SignedRecord>,
    repaired: &mut Repaired,
) -> Outcome<()> {
    for (io_node, numbers) in &holdings.numbers {
        if numbers.contains(&record.number) {
            let read = async || job.clone().record_bytes(io_node.clone(), record.number).await;
            let there = job.patiently(read).await?;
            if there.as_ref() == Some(record.bytes()) {
                continue;
            }
        }
        for run in record.new_runs(before.map(SignedRecord::record)) {
            make_part(job, io_node, run).await?;
        }
        match copy_to(job, io_node, record).await {
            Ok(()) => *repaired.records.entry(io_node.clone()).or_default() += 1,
            Err(error) if error.outage().is_some() => return Err(error),
            // What the error advises is what is being done here.
            Err(ReplicationError::Disagreement(what)) => repaired.lost.push(what),
            Err(error) => repaired.lost.push(format!("record {} on {io_node}: {error}", record.number)),
        }
    }
    Ok(())
}

/// Sees to it that an I/O node has a part of an object, if only an empty one.
async fn make_part(job: &Job, io_node: &str, run: RunId) -> Result<(), FileError> {
    let name = job.dataset.object_part(io_node, run);
    let made = job
        .patiently(async || {
            let part = job.dataset.opening(name.clone(), OpenMode::Exclusive, Durability::OnEveryCall);
            part.file().await?.sync_all().await
        })
        .await;
    match made {
        Err(error) if answer_of(&error) == Some(ErrorKind::AlreadyExists) => Ok(()),
        made => made,
    }
}

/// Counts the objects of which I/O nodes have lost what generations need. A lost part stays lost; what a later run has
/// sent again is needed at its new place, as `verify` reads it.
async fn count_lost_parts(
    job: &Job,
    parts: &Parts,
    record: &Arc<SignedRecord>,
    repaired: &mut Repaired,
) -> Outcome<()> {
    let objects = Objects::new(job, record, Source::Cache);
    let mut lost: BTreeSet<(&str, u32)> = BTreeSet::new();
    let mut note = |chunk: &ChunkRef| {
        let needed = record.place_of(chunk).reach();
        let Some(run) = record.run_of(needed.object) else { return };
        lost.extend(parts.losers(run, &needed).map(|io_node| (io_node, needed.object)));
    };
    for generation in &record.generations {
        generation.index.iter().for_each(&mut note);
        match load_manifest(job, record, generation).await {
            Ok(manifest) => chunks_of(&manifest, &mut note).map_err(temporary)?,
            Err(error) if error.kind() == FailureKind::Integrity => {
                // Where not even the list of the manifest's chunks can be read, the index has told of the loss.
                match manifest_chunks(&objects, generation).await {
                    Err(error) if error.kind() != FailureKind::Integrity => return Err(error),
                    list => list.unwrap_or_default().iter().for_each(&mut note),
                }
            }
            Err(error) => return Err(error),
        }
    }
    for (io_node, _) in lost {
        *repaired.lost_parts.entry(io_node.to_owned()).or_default() += 1;
    }
    Ok(())
}

/// Condemns the sync runs that no record names and nobody writes, of all members, and has those removed that may be.
async fn condemn_the_rest(job: &Job, repaired: &mut Repaired) -> Outcome<()> {
    let found = runs_at_rest(job).await?;
    let mut count = 0;
    let change = |record: &mut Record| {
        count = record.condemn_strangers(&found);
        Ok(count > 0)
    };
    match amend(job, Deed::Forget, change).await {
        Ok(newest) => {
            reclaim_condemned(job, &newest).await;
            repaired.condemned = count as u64;
            Ok(())
        }
        // A member that may only append puts back, and removes nothing.
        Err(ReplicationError::Site(error)) if is_refusal(&error) => Ok(()),
        Err(ReplicationError::Disagreement(what)) => {
            repaired.lost.push(what);
            Ok(())
        }
        Err(error) => Err(error),
    }
}
