//! `ror`: rates routings by the redundancy that they ask for, and sweeps such ratings over samples of mobile networks.

mod chart;
mod checksum;
mod columns;
mod compare;
mod failure;
mod folder;
mod hunts;
mod item;
mod journal;
mod law;
mod matrix;
mod merge;
mod new_file;
mod pair;
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

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand, ValueEnum};
use failure::Failure;
use program::{EXIT_CODES, arguments, install};

const EXAMPLE: &str =
    "Example:\n  ror sweep --preset thesis-43 --folder DIR && ror merge DIR && ror plot DIR";

/// Rates routings by the redundancy that they ask for when links fail one by one.
#[derive(Debug, Parser)]
#[command(version = program::VERSION, about, max_term_width = 100)]
#[command(after_help = format!("{EXAMPLE}\n\n{EXIT_CODES}"))]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// ROR of a pair by layer of capillary routing, with the baselines beside
    Rate(rate::Rate),
    /// ROR of every demand of a traffic matrix under the routing that `capillary plan` finds for all of them
    Matrix(matrix::Matrix),
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
    #[command(after_help = "Example:\n  ror manual ~/.local")]
    Manual(install::Options),
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

/// How results are printed, and where they go.
#[derive(Debug, clap::Args)]
struct Printing {
    /// How to print
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Format::Table)]
    format: Format,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// The file to write; standard output without it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Printing {
    fn format(&self) -> Format {
        if self.json { Format::Json } else { self.format }
    }

    /// How many columns a table may have, if that is limited.
    fn columns(&self) -> Option<usize> {
        program::output::columns(self.output.as_deref())
    }

    fn put(&self, text: &str) -> Result<(), Failure> {
        put(self.output.as_deref(), text)
    }
}

fn main() -> ExitCode {
    let outcome = match arguments::parse::<Arguments>().command {
        Command::Rate(rate) => rate.run(),
        Command::Matrix(matrix) => matrix.run(),
        Command::Compare(compare) => compare.run(),
        Command::Law(law) => law.run(),
        Command::Sweep(sweep) => sweep.run(),
        Command::Merge(merge) => merge.run(),
        Command::Plot(plot) => plot.run(),
        Command::Manual(manual) => manual.run(Arguments::command()).map_err(Failure::Output),
    };
    program::end("ror", outcome.map_err(Into::into))
}

/// Writes a result to a file, or to standard output.
fn put(path: Option<&Path>, text: &str) -> Result<(), Failure> {
    program::output::put(path, text).map_err(Failure::Output)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::CommandFactory as _;
    use program::manual;

    use super::Arguments;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/programs.md");

    #[test]
    fn the_page_of_all_programs_has_every_flag() {
        Arguments::command().debug_assert();
        manual::check(&Arguments::command(), Path::new(PAGE)).unwrap_or_else(|error| panic!("{error}"));
    }

    #[test]
    fn every_help_has_an_example() {
        manual::check_help(&Arguments::command()).unwrap_or_else(|error| panic!("{error}"));
    }
}
