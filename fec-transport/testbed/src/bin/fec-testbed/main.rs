//! The program `fec-testbed`: what fec-transport is tried on. docs/scenarios.md is its manual.

mod failures;
mod in_order;
mod scenarios;
mod soak;
mod swarm;
mod wan;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fec_testbed::output;
use fec_testbed::processes::child::run_if_child;
use program::{EXIT_CODES, arguments};

/// The same as that of `sfio`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Tries fec-transport: networks in virtual time, and processes on emulated links.
#[derive(Debug, Parser)]
#[command(
    name = "fec-testbed",
    version,
    max_term_width = 100,
    after_help = format!("Example:\n  fec-testbed scenarios --only \"8 paths\" --threads 2\n\n{EXIT_CODES}")
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Scenarios(scenarios::Arguments),
    Swarm(swarm::Arguments),
    Failures(failures::Arguments),
    Wan(wan::Arguments),
    Soak(soak::Arguments),
}

fn main() -> ExitCode {
    let result = match run_if_child() {
        Some(result) => result.map(|()| true),
        None => run(arguments::parse::<Arguments>().command),
    };
    output::end("fec-testbed", result)
}

/// Runs a subcommand; tells whether everything was as expected.
fn run(command: Command) -> anyhow::Result<bool> {
    match command {
        Command::Scenarios(arguments) => scenarios::run(&arguments),
        Command::Swarm(arguments) => swarm::run(&arguments),
        Command::Failures(arguments) => failures::evaluate(&arguments),
        Command::Wan(arguments) => wan::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use clap::CommandFactory as _;
    use program::manual;

    use super::Arguments;

    const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/programs.md");

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
