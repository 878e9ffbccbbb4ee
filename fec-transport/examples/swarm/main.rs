//! Runs many seeds of the swarm; `fec_transport::sim::swarm` says what must hold.
//!
//! ```text
//! cargo run --release -p fec-transport --features sim --example swarm -- --seeds 10000 --threads 2
//! ```

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use fec_transport::sim::swarm;
use indicatif::{ProgressBar, ProgressStyle};

/// Random overlays with random limits, traffic and faults: nothing wrong is delivered, and in the end everything is.
#[derive(Debug, Parser)]
#[command(
    name = "swarm",
    after_help = "Example: swarm --seeds 10000 --threads 2\n\nExit codes: 0 every seed is as it must be, 1 some are not."
)]
struct Arguments {
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

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    #[allow(clippy::disallowed_methods, reason = "how long a run takes is the program's affair")]
    let start = Instant::now();
    let sum = run(&arguments);
    print(&arguments, &sum, start.elapsed());
    if sum.failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn run(arguments: &Arguments) -> Sum {
    let next = AtomicU64::new(arguments.from);
    let end = arguments.from.saturating_add(arguments.seeds);
    let sum = Mutex::new(Sum::default());
    let style = ProgressStyle::with_template("{bar:30} {pos} of {len} seeds, {per_sec}, {eta} left");
    let progress = ProgressBar::new(arguments.seeds).with_style(style.expect("a right template"));
    std::thread::scope(|scope| {
        for _ in 0..arguments.threads.max(1) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= end {
                        return;
                    }
                    let result = catch_unwind(AssertUnwindSafe(|| swarm::run(seed)));
                    let mut sum = sum.lock().expect("no thread panics with the lock");
                    progress.suspend(|| note(&mut sum, seed, result));
                    progress.inc(1);
                }
            });
        }
    });
    progress.finish_and_clear();
    sum.into_inner().expect("no thread panics with the lock")
}

fn note(sum: &mut Sum, seed: u64, result: std::thread::Result<Result<swarm::Report, swarm::Failure>>) {
    sum.seeds += 1;
    match result {
        Ok(Ok(report)) => {
            sum.bytes += report.bytes;
            sum.parcels += report.parcels;
            sum.sessions_lost += u64::from(report.sessions_lost);
            sum.virtual_time += report.virtual_time;
            return;
        }
        Ok(Err(failure)) => eprintln!("{failure}"),
        Err(_) => eprintln!("seed {seed}: it panicked\n  {}", swarm::replay_command(seed)),
    }
    sum.failures.push(seed);
}

fn print(arguments: &Arguments, sum: &Sum, took: Duration) {
    let seconds = took.as_secs_f64();
    if arguments.json {
        let failures = &sum.failures;
        let object = serde_json::json!({
            "from": arguments.from, "seeds": sum.seeds, "failures": failures, "parcels": sum.parcels,
            "bytes": sum.bytes, "sessions_lost": sum.sessions_lost,
            "virtual_s": sum.virtual_time.as_secs_f64(), "seconds": seconds,
        });
        println!("{object}");
        return;
    }
    println!(
        "{} seeds, {} failures; {} parcels, {:.1} MB, {} sessions lost and opened anew; {:.0} s of virtual time in \
         {seconds:.1} s, {:.1} seeds/s",
        sum.seeds,
        sum.failures.len(),
        sum.parcels,
        sum.bytes as f64 / 1e6,
        sum.sessions_lost,
        sum.virtual_time.as_secs_f64(),
        sum.seeds as f64 / seconds
    );
}
