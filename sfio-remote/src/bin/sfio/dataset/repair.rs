//! `sfio repair`: puts back what an I/O node has lost, from what the others have.

use std::sync::Arc;

use sfio_remote::io::replication::{Repaired, repair};

use program::output::{self, Telling};
use serde_json::json;

use super::address::Address;
use super::board::Board;
use super::care::Care;
use super::failure;
use crate::exit::{Exit, Failure};

/// Put back what I/O nodes have lost of a data set's records
///
/// For an I/O node that has been replaced, or whose disk is an older one: records are copied from the others. The data
/// of a lost disk is on no other one: `sfio verify` then tells which files are damaged, and the next `sfio sync` of an
/// intact source sends them again. What interrupted runs have left is removed after the grace. Exit code 5 if something
/// is lost.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sfio repair --overlay try local:photos")]
pub(crate) struct Options {
    /// The data set: SITE:NAME
    dataset: Address,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    care: Care,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    options.care.work(&options.dataset, async |_, job| {
        let waiting = Board::of_waiting(Arc::clone(&job.meter));
        let repaired = repair(&job).await;
        drop(waiting);
        let repaired = repaired.map_err(|error| failure(&options.dataset, &error))?;
        let said = say(&repaired, options);
        match repaired.lost_parts.is_empty() && repaired.lost.is_empty() {
            true => said,
            false => Err(Failure::new(Exit::Integrity, verdict(&repaired, &options.dataset))),
        }
    })
}

/// What is left to do. Data is sent again; a record that no I/O node has whole is lost for good.
fn verdict(repaired: &Repaired, dataset: &Address) -> String {
    let way_out = match repaired.lost.is_empty() {
        true => String::new(),
        false => format!(
            "; what can be read can be fetched, and `sfio forget {dataset} --all` then gives the data set up, so that \
             its name is free"
        ),
    };
    format!("{dataset}: not all can be put back{way_out}")
}

fn say(repaired: &Repaired, options: &Options) -> Result<(), Failure> {
    let Repaired { records, lost_parts, condemned, lost } = repaired;
    let dataset = &options.dataset;
    if options.json {
        return output::json(&json!({
            "records": records, "lost_parts": lost_parts, "condemned_runs": condemned, "lost": lost,
        }));
    }
    let telling = Telling::default();
    if records.is_empty() && lost_parts.is_empty() && lost.is_empty() {
        telling.line(format_args!("{dataset}: no I/O node lacks a record"));
    }
    for (io_node, count) in records {
        let word = if *count == 1 { "record" } else { "records" };
        telling.line(format_args!("{io_node}: {count} {word} put back"));
    }
    for (io_node, count) in lost_parts {
        let what = if *count == 1 { "part of 1 object is" } else { &format!("parts of {count} objects are") };
        telling.line(format_args!("{io_node}: its {what} lost; `sfio verify {dataset}` tells of what"));
    }
    if *condemned > 0 {
        let runs = super::counted(
            *condemned,
            "run that left nothing of use is",
            "runs that left nothing of use are",
        );
        telling.line(format_args!("{runs} removed after the grace"));
    }
    lost.iter().for_each(|what| telling.line(format_args!("lost: {what}")));
    telling.finish()
}
