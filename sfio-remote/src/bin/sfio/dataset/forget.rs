//! `sfio forget`: drops generations, or all of a data set.

use std::sync::Arc;

use clap::ArgGroup;
use program::output;
use serde_json::json;
use sfio_remote::io::replication::{self, Job};

use super::address::Address;
use super::board::Board;
use super::care::Care;
use super::failure;
use crate::exit::Failure;

/// Drop generations of a data set, or the data set as a whole
///
/// What no other generation needs is removed after a grace, which the I/O nodes' configs say (an hour, if they say
/// nothing), by later runs. With --all there need not be any: the same command again, after the grace, removes it.
#[derive(Debug, clap::Args)]
#[command(group = ArgGroup::new("which").required(true))]
#[command(override_usage = "sfio forget [OPTIONS] <DATASET> <NUMBERS...|--all>")]
#[command(after_help = "Examples:
  sfio forget --overlay try local:photos 1 2 3
  sfio forget --overlay try local:photos --all
  sfio forget --overlay try local:photos --unfinished")]
pub(crate) struct Options {
    /// The data set: SITE:NAME
    dataset: Address,

    /// The numbers of the generations, as `sfio generations` lists them
    #[arg(group = "which")]
    numbers: Vec<u64>,

    /// Drop all generations: the data set is gone, until it is sent again
    #[arg(long, group = "which")]
    all: bool,

    /// Drop what runs have left that did not end well, and go on nowhere: a run that has filled a disk has sent
    /// something that no generation names
    #[arg(long, group = "which")]
    unfinished: bool,

    /// Print one JSON object
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    care: Care,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    options.care.work(&options.dataset, async |_, job| {
        let waiting = Board::of_waiting(Arc::clone(&job.meter));
        let done = if options.all {
            remove(&job, options).await
        } else if options.unfinished {
            remove_unfinished(&job, options).await
        } else {
            forget(&job, options).await
        };
        drop(waiting);
        done
    })
}

async fn forget(job: &Job, options: &Options) -> Result<(), Failure> {
    let Options { dataset, numbers, .. } = options;
    replication::forget(job, numbers).await.map_err(|error| failure(dataset, &error))?;
    match options.json {
        true => output::json(&json!({ "forgotten": numbers })),
        false => output::prose(format_args!(
            "{dataset} has forgotten {}; later runs remove what nothing else needs",
            super::generations_of(numbers)
        )),
    }
}

async fn remove(job: &Job, options: &Options) -> Result<(), Failure> {
    let dataset = &options.dataset;
    let left = replication::remove(job).await.map_err(|error| failure(dataset, &error))?;
    match (options.json, left) {
        (true, left) => output::json(&json!({ "forgotten": "all", "runs_left": left })),
        (false, 0) => program::line!("{dataset} is gone, and so is everything that it held"),
        (false, _) => output::prose(format_args!(
            "{dataset} is gone; readers may still need what it held: \
             the same command removes that an hour after the last of them"
        )),
    }
}

async fn remove_unfinished(job: &Job, options: &Options) -> Result<(), Failure> {
    let dataset = &options.dataset;
    let (runs, left) = replication::remove_unfinished(job).await.map_err(|error| failure(dataset, &error))?;
    if options.json {
        return output::json(&json!({ "forgotten": "unfinished", "runs": runs, "runs_left": left }));
    }
    let of_runs = match runs {
        1 => "1 run that did not end well".to_owned(),
        runs => format!("{runs} runs that did not end well"),
    };
    match (runs, left) {
        (0, _) => program::line!("no run has left anything in {dataset} that no generation names"),
        (_, 0) => program::line!("what {of_runs} had sent to {dataset} is removed"),
        _ => output::prose(format_args!(
            "what {of_runs} had sent to {dataset} is condemned, and that of {left} is not removed yet: \
             the same command removes it an hour after the I/O nodes were started"
        )),
    }
}
