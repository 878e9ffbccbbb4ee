//! What I/O nodes have lost of a data set is put back from what the others have.
//!
//! Records are the same on all I/O nodes, so each one can be copied. An object is on all of them together: the part of
//! a lost disk is gone, and an empty one takes its place, so that the records that name it can be put back. `verify`
//! then tells which files are damaged, and the next `sync` of an intact source sends them again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::error::{FailureKind, Outcome, ReplicationError, answer_of, is_refusal, temporary};
use super::holdings::Holdings;
use super::job::Job;
use super::manifests::{chunks_of, load_manifest, manifest_chunks};
use super::meter::Phase;
use super::objects::{Objects, Source};
use super::parts::Parts;
use super::publish::{amend, copy_to};
use super::reclaim::{reclaim_condemned, runs_at_rest};
use crate::client::{Durability, OpenMode};
use crate::io::FileError;
use crate::remote_error::ErrorKind;
use crate::replication::{ChunkRef, Deed, Record, RunId, SignedRecord};

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

/// Puts back what is missing of a data set's records, on all I/O nodes, and has removed what nothing needs.
///
/// # Errors
/// If the site fails, no I/O node has a record that can be used, or the newest one is older than what this machine has
/// seen.
pub async fn repair(job: &Job) -> Outcome<Repaired> {
    job.meter.enter(Phase::Connect);
    let mut repaired = Repaired::default();
    let holdings = job.persistently(async || Holdings::ask(job).await).await?;
    if holdings.newest() == 0 {
        // It may be one of format 1, or one that this machine has seen, which is said.
        let nothing = job.nothing_there(job.cache.seen(job)).await;
        return Err(nothing.err().unwrap_or(ReplicationError::NoDataSet));
    }
    job.meter.enter(Phase::Transfer);
    let mut before: Option<SignedRecord> = None;
    for number in 1..=holdings.newest() {
        let Some(record) = holdings.find(job, number, before.as_ref()).await? else {
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

/// Puts a record on the I/O nodes that do not have it, or have it damaged.
async fn put_back(
    job: &Job,
    holdings: &Holdings,
    record: &SignedRecord,
    before: Option<&SignedRecord>,
    repaired: &mut Repaired,
) -> Outcome<()> {
    for (io_node, has) in holdings.of(record.number) {
        if has {
            let read = async || job.clone().record_bytes(io_node.to_owned(), record.number).await;
            let there = job.patiently(read).await?;
            if there.as_ref() == Some(record.bytes()) {
                continue;
            }
        }
        for run in record.new_runs(before.map(SignedRecord::record)) {
            make_part(job, io_node, run).await?;
        }
        match copy_to(job, io_node, record).await {
            Ok(()) => *repaired.records.entry(io_node.to_owned()).or_default() += 1,
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
        if !parts.have_lost(record, chunk) {
            return;
        }
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
