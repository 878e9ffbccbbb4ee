//! `ror`: rates routings by the redundancy that they ask for, and sweeps such ratings over samples of mobile networks.

mod chart;
mod columns;
mod compare;
mod failure;
mod folder;
mod hunts;
mod item;
mod journal;
mod law;
mod merge;
mod pair;
mod picture;
mod plan;
mod plot;
mod preset;
mod rate;
mod rated;
mod ratings;
mod rows_file;
mod scenario;
mod source;
mod statistics;
mod sweep;

use std::io::Write as _;
use std::process::ExitCode;

use clap::{Parser, Subcommand, ValueEnum};
use failure::Failure;

/// Rates routings by the redundancy that they ask for when links fail one by one.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
#[command(after_help = "Example:\n  ror sweep --preset thesis-43 --out DIR && ror merge DIR && ror plot DIR")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// ROR of a pair by layer of capillary routing, with the baselines beside
    Rate(rate::Rate),
    /// The table of `capillary compare` with ROR
    Compare(compare::Compare),
    /// FEC(M, p): how many packets a block needs; as table, JSON or plot
    Law(law::Law),
    /// Measures all samples of a plan, or a shard of them
    Sweep(sweep::Sweep),
    /// Checks that a sweep is whole, and computes means with confidence intervals
    Merge(merge::Merge),
    /// Draws a sweep as SVG and PNG
    Plot(plot::Plot),
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// An aligned table
    Table,
    /// JSON
    Json,
    /// Comma-separated values
    Csv,
}

#[derive(Debug, clap::Args)]
struct Output {
    /// How to print
    #[arg(long, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// The same as --output json
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

impl Output {
    fn format(&self) -> Format {
        if self.json { Format::Json } else { self.output }
    }
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Rate(rate) => rate.run(),
        Command::Compare(compare) => compare.run(),
        Command::Law(law) => law.run(),
        Command::Sweep(sweep) => sweep.run(),
        Command::Merge(merge) => merge.run(),
        Command::Plot(plot) => plot.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read us has enough.
        Err(Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("ror: {failure}");
            failure.exit_code()
        }
    }
}

/// Writes a result to standard output.
fn put(text: &str) -> Result<(), Failure> {
    std::io::stdout().lock().write_all(text.as_bytes()).map_err(Failure::Output)
}
