//! Removing a data set: a record without generations, and what they held is removed after the grace. And removing what
//! runs have left that were never published, which nobody can be reading.

use std::collections::BTreeSet;

use super::chain::View;
use super::error::{Outcome, ReplicationError};
use super::job::Job;
use super::publish::{amend, amend_or_begin, give_up};
use super::reclaim::{reclaim_condemned, reclaim_each, runs_at_rest};
use super::records::are_lost_for_good;
use crate::replication::{BadRecord, Deed, Record, RunId};

/// Removes a data set, or goes on with that: all generations are dropped, and everything that was ever sent is
/// condemned. That is also the way out where records are lost for good, so that nothing else can be published. Gives
/// how many runs have left bytes that are not removed yet, because readers may still need them; who asks again after
/// the grace has them removed. The records stay, and a later run publishes behind them.
///
/// # Errors
/// If there is no data set and never was one, this member may not remove it, or the site fails.
pub async fn remove(job: &Job) -> Outcome<usize> {
    let (gone, is_beyond_repair) = match job.open().await {
        Ok(View { newest: Some(newest), disagreements, .. }) => {
            let is_beyond_repair = !disagreements.is_empty() && are_lost_for_good(job, &newest).await?;
            (reclaim_condemned(job, &newest).await, is_beyond_repair)
        }
        Ok(View { newest: None, .. }) => (Vec::new(), false),
        // No I/O node has the newest record whole.
        Err(ReplicationError::Record { error, .. }) if error != BadRecord::Version1 => (Vec::new(), true),
        Err(error) => return Err(error),
    };
    let gone: BTreeSet<RunId> = gone.into_iter().collect();
    let at_rest = job.persistently(async || runs_at_rest(job).await).await?;
    let change = |record: &mut Record| {
        let before = (record.current, record.condemned.clone());
        record.current = 0;
        record.generations.clear();
        record.condemn_unneeded();
        record.condemn_strangers(&at_rest);
        record.condemned.retain(|run| !gone.contains(run));
        Ok(before != (0, record.condemned.clone()))
    };
    let removed = match is_beyond_repair {
        true => give_up(job, change).await?,
        false => amend(job, Deed::Remove, change).await?,
    };
    let freed = reclaim_condemned(job, &removed).await;
    Ok(removed.condemned.len() - freed.len())
}

/// Removes what runs have left that have not published anything, and that no process goes on with: a run that has
/// filled a disk leaves what it has sent to the next run, which may never come. Gives how many runs these were, and how
/// many of them have left bytes that are not removed yet.
///
/// # Errors
/// If there is neither a data set nor such a run, this member may not remove it, or the site fails.
pub async fn remove_unfinished(job: &Job) -> Outcome<(usize, usize)> {
    let at_rest = job.persistently(async || runs_at_rest(job).await).await?;
    let mut unfinished = BTreeSet::new();
    let change = |record: &mut Record| {
        let named: BTreeSet<RunId> = record.objects.iter().map(|entry| entry.run).collect();
        unfinished = at_rest.difference(&named).copied().collect();
        if record.generations.is_empty() {
            // Only a removed data set has none.
            record.deed = Deed::Remove;
        }
        Ok(record.condemn_strangers(&at_rest) > 0)
    };
    let newest = amend_or_begin(job, Deed::Forget, change).await?;
    let gone = reclaim_each(job, &unfinished, newest.number).await;
    Ok((unfinished.len(), unfinished.difference(&gone).count()))
}
