//! `sfio repair`: puts back what an I/O node has lost, from what the others have.

use std::sync::Arc;

use sfio_remote::io::replication::{Repaired, repair};

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

    #[command(flatten)]
    care: Care,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    options.care.work(&options.dataset, async |_, job| {
        let waiting = Board::of_waiting(Arc::clone(&job.meter));
        let repaired = repair(&job).await;
        drop(waiting);
        let Repaired { records, lost_parts, condemned, lost } =
            repaired.map_err(|error| failure(&options.dataset, &error))?;
        if records.is_empty() && lost_parts.is_empty() && lost.is_empty() {
            println!("{}: no I/O node lacks a record", options.dataset);
        }
        for (io_node, count) in &records {
            println!("{io_node}: {count} {} put back", if *count == 1 { "record" } else { "records" });
        }
        for (io_node, count) in &lost_parts {
            println!(
                "{io_node}: its parts of {count} objects are lost; `sfio verify {}` tells of what",
                options.dataset
            );
        }
        if condemned > 0 {
            println!("{condemned} runs that left nothing of use are removed after the grace");
        }
        for what in &lost {
            println!("lost: {what}");
        }
        match lost_parts.is_empty() && lost.is_empty() {
            true => Ok(()),
            false => {
                Err(Failure::new(Exit::Integrity, format!("{}: not all can be put back", options.dataset)))
            }
        }
    })
}
