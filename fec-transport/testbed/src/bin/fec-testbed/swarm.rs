//! `fec-testbed swarm`: runs many seeds of the swarm; [`fec_testbed::swarm`] says what must hold.

use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use clap::Args;
use fec_testbed::output::{Unwritten, line, prose};
use fec_testbed::swarm;

use crate::in_order::in_order;

/// Random overlays with random limits, traffic and faults: nothing wrong is delivered, and in the end everything is.
#[derive(Debug, Args)]
#[command(
    after_help = "Example: fec-testbed swarm --seeds 10000 --threads 2\n\nExit codes: 0 every seed is as it must be, 1 some are not, 2 usage."
)]
pub(crate) struct Arguments {
    /// How many seeds.
    #[arg(long, default_value_t = 1_000, value_name = "N")]
    seeds: u64,
    /// The first seed.
    #[arg(long, default_value_t = 0, value_name = "S")]
    from: u64,
    /// How many run at once.
    #[arg(long, default_value_t = 1, value_name = "N")]
    threads: usize,
    /// One JSON object at the end instead of words.
    #[arg(long)]
    json: bool,
    /// Only the trace hash of each seed. The hashes of two versions are equal if they send the same packets at the same
    /// times.
    #[arg(long, conflicts_with = "json")]
    hashes: bool,
}

/// What all seeds together have shown.
#[derive(Debug, Default)]
struct Sum {
    seeds: u64,
    bytes: u64,
    parcels: usize,
    sessions_lost: u64,
    virtual_time: Duration,
    failures: Vec<u64>,
}

/// A seed's result, if it did not panic.
type Played = std::thread::Result<Result<swarm::Report, swarm::Failure>>;

/// Runs all seeds; tells whether each is as it must be.
pub(crate) fn run(arguments: &Arguments) -> anyhow::Result<bool> {
    #[allow(clippy::disallowed_methods, reason = "how long a run takes is the program's affair")]
    let start = Instant::now();
    let mut sum = Sum::default();
    let seed = |index: usize| arguments.from.saturating_add(index as u64);
    let work = |index| -> Played { catch_unwind(AssertUnwindSafe(|| swarm::run(seed(index)))) };
    let mut printed = Ok(());
    let take = |index, result: Played| {
        if let (true, Ok(Ok(report))) = (arguments.hashes, &result) {
            printed = line(format_args!("{}  {}", report.trace_hash, seed(index)));
        }
        note(&mut sum, seed(index), result);
        if printed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    };
    in_order((arguments.seeds as usize, "seeds"), arguments.threads, work, take);
    printed?;
    if !arguments.hashes {
        print(arguments, &sum, start.elapsed())?;
    }
    Ok(sum.failures.is_empty())
}

fn note(sum: &mut Sum, seed: u64, result: Played) {
    sum.seeds += 1;
    match result {
        Ok(Ok(report)) => {
            sum.bytes += report.bytes;
            sum.parcels += report.parcels;
            sum.sessions_lost += u64::from(report.sessions_lost);
            sum.virtual_time += report.virtual_time;
            return;
        }
        Ok(Err(failure)) => program::output::note(format_args!("{failure}")),
        Err(_) => {
            program::output::note(format_args!(
                "seed {seed}: it panicked\n  {}",
                swarm::replay_command(seed)
            ));
        }
    }
    sum.failures.push(seed);
}

fn print(arguments: &Arguments, sum: &Sum, took: Duration) -> Result<(), Unwritten> {
    let seconds = took.as_secs_f64();
    if arguments.json {
        let failures = &sum.failures;
        let object = serde_json::json!({
            "from": arguments.from, "seeds": sum.seeds, "failures": failures, "parcels": sum.parcels,
            "bytes": sum.bytes, "sessions_lost": sum.sessions_lost,
            "virtual_s": sum.virtual_time.as_secs_f64(), "seconds": seconds,
        });
        return line(object);
    }
    prose(format_args!(
        "{} seeds, {} failures; {} parcels, {:.1} MB, {} sessions lost and opened anew; {:.0} s of virtual time in \
         {seconds:.1} s, {:.1} seeds/s",
        sum.seeds,
        sum.failures.len(),
        sum.parcels,
        sum.bytes as f64 / 1e6,
        sum.sessions_lost,
        sum.virtual_time.as_secs_f64(),
        sum.seeds as f64 / seconds
    ))
}
