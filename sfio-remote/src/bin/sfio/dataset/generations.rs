//! `sfio generations` and `sfio rollback`.

use indicatif::{BinaryBytes, HumanCount, HumanDuration};
use program::Table;
use program::output::{self, Results};
use serde_json::json;
use sfio_remote::io::replication::{ReplicationError, RolledBack, roll_back};
use sfio_remote::replication::{Origin, Record};
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
/// No data moves; later generations stay until newer ones push them out. A generation whose manifest is damaged is
/// refused, with code 5; of one in which files are known to be damaged that is said.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sfio rollback --overlay try local:photos 3")]
pub(crate) struct RollbackOptions {
    /// The data set: SITE:NAME
    dataset: Address,

    /// The number of the generation, as `sfio generations` lists it
    number: u64,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

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
        match options.json {
            true => print_json(&record),
            false => output::print(table(&record).folded(output::columns(None))),
        }
    })
}

fn print_json(record: &Record) -> Result<(), Failure> {
    let mut results = Results::open(None)?;
    for generation in &record.generations {
        let origin = record.origin(generation.number);
        results.line(json!({
            "generation": generation.number, "current": generation.number == record.current,
            "entries": generation.entries, "bytes": generation.bytes, "published_ms": generation.published_ms,
            "member": origin.map(|origin| &origin.member), "host": origin.map(|origin| &origin.host),
            "tag": origin.map(|origin| &origin.tag),
        }))?;
    }
    results.close()
}

fn table(record: &Record) -> Table {
    let mut table = Table::new(["generation", "entries", "size", "published", "sent by", "tag"]);
    for generation in &record.generations {
        let origin = record.origin(generation.number);
        let current = if generation.number == record.current { ", current" } else { "" };
        table.push(vec![
            generation.number.to_string(),
            HumanCount(generation.entries).to_string(),
            BinaryBytes(generation.bytes).to_string(),
            format!("{} ago{current}", age(generation.published_ms)),
            origin.map_or_else(|| "-".to_owned(), sender),
            origin.map_or_else(String::new, |origin| origin.tag.clone()),
        ]);
    }
    table
}

/// The member and its machine.
fn sender(Origin { member, host, .. }: &Origin) -> String {
    match host.as_str() {
        "" => member.clone(),
        host => format!("{member}@{host}"),
    }
}

pub(super) fn rollback(options: &RollbackOptions) -> Result<(), Failure> {
    options.care.work(&options.dataset, async |_, job| {
        let (address, number) = (&options.dataset, options.number);
        let _waiting = Board::of_waiting(Arc::clone(&job.meter));
        let rolled_back = roll_back(&job, number).await.map_err(|error| failure(address, &error))?;
        let RolledBack { damaged, first } = rolled_back;
        if let Some(first) = first {
            output::note(format_args!(
                "sfio: {address}: {damaged} of the entries of generation {number} are damaged, {first} the first of \
                 them; `sfio verify` names all"
            ));
        }
        match options.json {
            true => output::json(&json!({ "generation": number, "damaged": damaged })),
            false => program::line!("{address} is at generation {number} now"),
        }
    })
}

/// How long ago that was.
pub(super) fn age(published_ms: u64) -> HumanDuration {
    let published = UNIX_EPOCH + Duration::from_millis(published_ms);
    HumanDuration(SystemTime::now().duration_since(published).unwrap_or_default())
}
