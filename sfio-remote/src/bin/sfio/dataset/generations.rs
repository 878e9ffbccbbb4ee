//! `sfio generations` and `sfio rollback`.

use indicatif::{BinaryBytes, HumanCount, HumanDuration};
use sfio_remote::io::replication::{ReplicationError, SiteStore, Store as _};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::address::Address;
use super::{choose, existing, failure};
use crate::client::Identification;
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
    identification: Identification,
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
    identification: Identification,
}

pub(super) fn list(options: &Options) -> Result<(), Failure> {
    options.identification.work(async |session| {
        let store = options.dataset.reading(session)?;
        let commit = existing(&store, &options.dataset).await?;
        if !options.json {
            println!("{:>10}  {:>14}  {:>12}  published", "generation", "entries", "size");
        }
        for generation in &commit.generations {
            let is_current = generation.number == commit.current;
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
    options.identification.work(async |session| {
        let (address, number) = (&options.dataset, options.number);
        let mut store = address.writing(session)?;
        let rolled_back = roll_back(&mut store, address, number).await;
        store.close().await;
        rolled_back?;
        println!("{address} is at generation {number} now");
        Ok(())
    })
}

async fn roll_back(store: &mut SiteStore, address: &Address, number: u64) -> Result<(), Failure> {
    let refused = |error| failure(address, &ReplicationError::Store(error));
    store.lock().await.map_err(refused)?;
    let mut commit = existing(store, address).await?;
    choose(&commit, Some(number)).map_err(|error| failure(address, &error))?;
    commit.current = number;
    store.stage(commit.emit().into()).await.map_err(refused)?;
    store.publish().await.map_err(refused)
}

/// How long ago that was.
fn age(published_ms: u64) -> HumanDuration {
    let published = UNIX_EPOCH + Duration::from_millis(published_ms);
    HumanDuration(SystemTime::now().duration_since(published).unwrap_or_default())
}
