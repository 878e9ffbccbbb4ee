//! Records without a new generation: going back to an earlier one, and forgetting some.

use super::error::{Outcome, ReplicationError};
use super::job::Job;
use super::publish::amend;
use crate::replication::{Deed, Record};

/// Makes an earlier generation the current one; no data moves.
///
/// # Errors
/// If it is not kept, or the site fails.
pub async fn roll_back(job: &Job, number: u64) -> Outcome<()> {
    let change = |record: &mut Record| {
        is_kept(record, number)?;
        let is_change = record.current != number;
        record.current = number;
        Ok(is_change)
    };
    amend(job, Deed::RollBack, change).await.map(drop)
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
