//! `sfio generations` and `sfio rollback`.

use indicatif::{BinaryBytes, HumanCount, HumanDuration};
use sfio_remote::io::replication::{self, ReplicationError, roll_back};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::address::Address;
use super::board::Board;
use super::care::Care;
use super::{failure, warn};
use crate::exit::Failure;

/// List the generations of a data set
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sfio generations --overlay try local:photos")]
pub(crate) struct Options {
    /// The data set: SITE:NAME
    dataset: Address,

    /// Print JSON: an object for each generation
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    care: Care,
}

/// Make an earlier generation the current one
///
/// No data moves; later generations stay until newer ones push them out.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sfio rollback --overlay try local:photos 3")]
pub(crate) struct RollbackOptions {
    /// The data set: SITE:NAME
    dataset: Address,

    /// The number of the generation, as `sfio generations` lists it
    number: u64,

    #[command(flatten)]
    care: Care,
}

/// Drop generations of a data set
///
/// What no other generation needs is removed after a grace, which the I/O nodes' configs say, by later runs.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sfio forget --overlay try local:photos 1 2 3")]
pub(crate) struct ForgetOptions {
    /// The data set: SITE:NAME
    dataset: Address,

    /// The numbers of the generations, as `sfio generations` lists them
    #[arg(required = true)]
    numbers: Vec<u64>,

    #[command(flatten)]
    care: Care,
}

pub(super) fn list(options: &Options) -> Result<(), Failure> {
    options.care.work(&options.dataset, async |_, job| {
        let _waiting = Board::of_waiting(Arc::clone(&job.meter));
        let failed = |error: ReplicationError| failure(&options.dataset, &error);
        let view = job.open().await.map_err(failed)?;
        let record = view.existing().map_err(failed)?;
        warn(&view.disagreements, &options.dataset);
        if !options.json {
            println!("{:>10}  {:>14}  {:>12}  published", "generation", "entries", "size");
        }
        for generation in &record.generations {
            let is_current = generation.number == record.current;
            if options.json {
                let line = serde_json::json!({
                    "generation": generation.number, "current": is_current, "entries": generation.entries,
                    "bytes": generation.bytes, "published_ms": generation.published_ms,
                });
                println!("{line}");
            } else {
                let (mark, size) =
                    (if is_current { "*" } else { " " }, BinaryBytes(generation.bytes).to_string());
                let entries = HumanCount(generation.entries).to_string();
                println!(
                    "{mark}{:>9}  {entries:>14}  {size:>12}  {} ago",
                    generation.number,
                    age(generation.published_ms)
                );
            }
        }
        Ok(())
    })
}

pub(super) fn rollback(options: &RollbackOptions) -> Result<(), Failure> {
    options.care.work(&options.dataset, async |_, job| {
        let (address, number) = (&options.dataset, options.number);
        let _waiting = Board::of_waiting(Arc::clone(&job.meter));
        roll_back(&job, number).await.map_err(|error| failure(address, &error))?;
        println!("{address} is at generation {number} now");
        Ok(())
    })
}

pub(super) fn forget(options: &ForgetOptions) -> Result<(), Failure> {
    options.care.work(&options.dataset, async |_, job| {
        let address = &options.dataset;
        let _waiting = Board::of_waiting(Arc::clone(&job.meter));
        replication::forget(&job, &options.numbers).await.map_err(|error| failure(address, &error))?;
        println!(
            "{address} has forgotten {} generations; later runs remove what only they needed",
            options.numbers.len()
        );
        Ok(())
    })
}

/// How long ago that was.
fn age(published_ms: u64) -> HumanDuration {
    let published = UNIX_EPOCH + Duration::from_millis(published_ms);
    HumanDuration(SystemTime::now().duration_since(published).unwrap_or_default())
}
