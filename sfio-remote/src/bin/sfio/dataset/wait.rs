//! `sfio wait`: until a generation is published.

use std::sync::Arc;
use std::time::Duration;

use program::quantity;
use serde_json::json;
use tokio::time::{Instant, sleep};

use super::address::Address;
use super::board::Board;
use super::care::Care;
use super::failure;
use crate::exit::{Exit, Failure};

/// How often the site is asked.
const LOOK: Duration = Duration::from_millis(500);

/// Wait until a data set has a generation, or the next one
///
/// Prints the number of the current generation as soon as it is at least the one that is waited for. Without
/// --generation that is the one after the current one: what is there when the command begins does not count.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  sfio wait --overlay try local:photos --generation 1    until there is any
  sfio wait --overlay try local:photos --timeout 1min    until there is a new one")]
pub(crate) struct Options {
    /// The data set: SITE:NAME
    dataset: Address,

    /// Which generation; without it, the next one after the current one
    #[arg(long, value_name = "NUMBER")]
    generation: Option<u64>,

    /// Give up after that time, as 90s, 10min or 2h, with exit code 1
    #[arg(long, value_name = "TIME", value_parser = quantity::duration)]
    timeout: Option<Duration>,

    /// Print a JSON object instead of the number alone
    #[arg(long)]
    json: bool,

    #[command(flatten)]
    care: Care,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    options.care.work(&options.dataset, async |_, job| {
        let (mut board, mut seen) = (Some(Board::of_waiting(Arc::clone(&job.meter))), None);
        let (began, mut wanted) = (Instant::now(), options.generation);
        loop {
            let view = job.open().await.map_err(|error| failure(&options.dataset, &error))?;
            let current = view.newest.map_or(0, |newest| newest.current);
            let wanted = *wanted.get_or_insert(current + 1);
            if current >= wanted {
                let dataset = options.dataset.to_string();
                return match options.json {
                    true => program::line!("{}", json!({ "dataset": dataset, "generation": current })),
                    false => program::line!("{current}"),
                };
            }
            if options.timeout.is_some_and(|timeout| began.elapsed() >= timeout) {
                let message =
                    format!("{} is still at generation {current}, not at {wanted}", options.dataset);
                return Err(Failure::new(Exit::Failed, message));
            }
            if seen.replace(current) != Some(current) {
                drop(board.take());
                let what = awaited(wanted, current, options);
                board = Some(Board::of_waiting_for(Arc::clone(&job.meter), &what));
            }
            sleep(LOOK).await;
        }
    })
}

/// What is waited for, in words.
fn awaited(wanted: u64, current: u64, options: &Options) -> String {
    let now = match current {
        0 => "there is none yet".to_owned(),
        current => format!("it is at {current}"),
    };
    format!("generation {wanted} of {}; {now}", options.dataset)
}
