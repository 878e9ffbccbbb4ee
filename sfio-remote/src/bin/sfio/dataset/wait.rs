//! `sfio wait`: until a generation is published.

use std::time::Duration;

use sfio_remote::io::replication::load_commit;
use tokio::time::{Instant, sleep};

use super::address::Address;
use super::failure;
use crate::client::Identification;
use crate::exit::{Exit, Failure};

/// How often the site is asked.
const LOOK: Duration = Duration::from_millis(500);

/// Wait until a data set has a generation
///
/// Prints the number of the current generation as soon as it is at least the one that is waited for.
#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  sfio wait --overlay try local:photos --generation 4 --timeout 60")]
pub(crate) struct Options {
    /// The data set: SITE:NAME
    dataset: Address,

    /// Which generation; without it, the next one after the current one
    #[arg(long, value_name = "NUMBER")]
    generation: Option<u64>,

    /// Give up after so many seconds, with exit code 1
    #[arg(long, value_name = "SECONDS")]
    timeout: Option<u64>,

    #[command(flatten)]
    identification: Identification,
}

pub(super) fn run(options: &Options) -> Result<(), Failure> {
    options.identification.work(async |session| {
        let store = options.dataset.reading(session)?;
        let (began, mut wanted) = (Instant::now(), options.generation);
        loop {
            let commit = load_commit(&store).await.map_err(|error| failure(&options.dataset, &error))?;
            let current = commit.map_or(0, |commit| commit.current);
            let wanted = *wanted.get_or_insert(current + 1);
            if current >= wanted {
                println!("{current}");
                return Ok(());
            }
            if options.timeout.is_some_and(|timeout| began.elapsed() >= Duration::from_secs(timeout)) {
                let message =
                    format!("{} is still at generation {current}, not at {wanted}", options.dataset);
                return Err(Failure::new(Exit::Failed, message));
            }
            sleep(LOOK).await;
        }
    })
}
