//! `netsim`: networks to try things on: mobile ad-hoc networks, frame by frame, and links between devices.

#[cfg(unix)]
mod cable;
mod failure;
mod manet;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};
use program::{EXIT_CODES, arguments, install};

const EXAMPLE: &str =
    "Example:\n  netsim manet walk --nodes 115 --degree 7 --range 100 --speed 5..15 --frames 300";

/// Networks to try things on.
#[derive(Debug, Parser)]
#[command(version = program::VERSION, about, max_term_width = 100)]
#[command(after_help = format!("{EXAMPLE}\n\n{EXIT_CODES}"))]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Mobile ad-hoc networks: statistics, frames as topologies, traces
    ///
    /// Nodes move, those within range of each other are linked, and each frame is a row; the last lines sum up. A
    /// link's mean duration is the time for which links were watched, over the number that broke.
    Manet(Box<manet::Manet>),
    /// A link between two devices: standard input and standard output, as TUN devices are
    ///
    /// Each gives and takes one IP packet a call. What comes from one leaves at the other, and the other way round: at
    /// that rate, after that delay, unless it is lost, the queue is full, or the link is dead. It runs until it is
    /// killed, or a device gives no more.
    #[cfg(unix)]
    Cable(cable::Cable),
    #[command(after_help = "Example:\n  netsim manual ~/.local")]
    Manual(install::Options),
}

fn main() -> ExitCode {
    let outcome = match arguments::parse::<Arguments>().command {
        Command::Manet(manet) => manet.run().map_err(Into::into),
        #[cfg(unix)]
        Command::Cable(cable) => cable.run().map_err(Into::into),
        Command::Manual(manual) => manual.run(Arguments::command()),
    };
    program::end("netsim", outcome)
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
