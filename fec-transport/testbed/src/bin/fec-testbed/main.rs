//! The program `fec-testbed`: what fec-transport is tried on. docs/scenarios.md is its manual.

mod failures;
mod in_order;
mod scenarios;
mod soak;
mod swarm;
mod wan;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use fec_testbed::processes::child::run_if_child;

/// The same as that of `sfio`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// What could not be done at all: a bad file, a value out of its range, a process that did not start.
const FAILED: u8 = 3;

/// Tries fec-transport: networks in virtual time, and processes on emulated links.
#[derive(Debug, Parser)]
#[command(
    name = "fec-testbed",
    version,
    after_help = "Example: fec-testbed scenarios --only \"8 paths\" --threads 2\n\nExit codes: 0 everything is as expected, 1 something is not, 2 usage, 3 a bad file or value, or the run failed."
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
        None => run(Arguments::parse().command),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(1),
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(FAILED)
        }
    }
}

/// Runs a subcommand; tells whether everything was as expected.
fn run(command: Command) -> anyhow::Result<bool> {
    match command {
        Command::Scenarios(arguments) => scenarios::run(&arguments),
        Command::Swarm(arguments) => Ok(swarm::run(&arguments)),
        Command::Failures(arguments) => failures::evaluate(&arguments),
        Command::Wan(arguments) => wan::run(&arguments),
        Command::Soak(arguments) => soak::run(&arguments),
    }
}
