//! `sfio verify`: reads everything back from the disks and names what differs.

use std::sync::Arc;

use indicatif::BinaryBytes;
use program::output::Telling;
use sfio_remote::io::replication::{Finding, Verified, VerifyOptions, verify};

use super::address::Address;
use super::board::Board;
use super::care::Care;
use super::failure;
use super::rate::{Limit, Limiting};
use crate::exit::{Exit, Failure};

/// Read all of a data set from the disks and compare it with its checksums
///
/// All generations that are kept, and their manifests; whatever this machine or the I/O nodes have in memory does not
/// count. Exit code 5 if something differs; each file that does is named, and, if this member may publish, the data set
/// remembers it: the next `sfio sync` of an intact source sends it again. An interrupted run goes on where it was.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sfio verify --overlay try local:photos")]
pub(crate) struct Options {
    /// The data set: SITE:NAME
    dataset: Address,

    /// Only this generation
    #[arg(long, value_name = "NUMBER")]
    generation: Option<u64>,

    /// Begin anew, even if an earlier run was interrupted
    #[arg(long)]
    anew: bool,

    /// Read no faster than this: 100Mbit/s, 12MiB/s, none; a timetable or @FILE as for sync
    #[arg(long, value_name = "RATE")]
    bwlimit: Option<Limit>,

    /// Print JSON: an object for each damaged file, and one in the end
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    care: Care,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    options.care.work(&options.dataset, async |_, job| {
        let _limiting = Limiting::of(options.bwlimit.as_ref(), job.dataset.throttle());
        let board = Board::of_run("verifying", Arc::clone(&job.meter), None);
        let how = VerifyOptions { generation: options.generation, begins_anew: options.anew };
        let telling = Telling::default();
        let verified = verify(&job, how, |finding| say(finding, &telling, options.json)).await;
        drop(board);
        let verified = verified.map_err(|error| failure(&options.dataset, &error))?;
        report(&verified, &telling, options)
    })
}

fn report(verified: &Verified, telling: &Telling, options: &Options) -> Result<(), Failure> {
    let Verified { generations, entries, bytes, resumed_bytes, findings, recorded } = verified;
    let place = super::generations_of(generations);
    if options.json {
        let summary = serde_json::json!({
            "event": "summary", "generations": generations, "entries": entries, "bytes": bytes,
            "resumed_bytes": resumed_bytes, "damaged": findings, "record": recorded,
        });
        telling.line(summary);
    } else {
        if *resumed_bytes > 0 {
            telling.line(format_args!("{} were read by an interrupted run", BinaryBytes(*resumed_bytes)));
        }
        if *findings == 0 {
            let (entries, bytes) = (super::counted(*entries, "entry", "entries"), BinaryBytes(*bytes));
            telling.line(format_args!(
                "{place}: {entries}, {bytes} read from the disks: all as they were stored"
            ));
        }
        if let (Some(record), true) = (recorded, *findings > 0) {
            telling.line(format_args!(
                "record {record} tells of it: the next sync of an intact source sends it again"
            ));
        }
    }
    match findings {
        0 => telling.finish(),
        1 => Err(Failure::new(Exit::Integrity, format!("{place}: 1 thing is not as it was stored"))),
        count => {
            Err(Failure::new(Exit::Integrity, format!("{place}: {count} things are not as they were stored")))
        }
    }
}

fn say(finding: &Finding, telling: &Telling, json: bool) {
    let Finding { generation, path, what } = finding;
    let path = path.as_ref().map(ToString::to_string);
    if json {
        let event = serde_json::json!({
            "event": "damaged", "generation": generation, "path": path, "what": what,
        });
        telling.line(event);
    } else {
        let generation = generation.map(|number| format!("generation {number}: ")).unwrap_or_default();
        let path = path.map(|path| format!("{path}: ")).unwrap_or_default();
        telling.line(format_args!("{generation}{path}{what}"));
    }
}
