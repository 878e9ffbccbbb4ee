//! `netsim`: networks to try things on. Today: mobile ad-hoc networks, frame by frame.

mod failure;
mod manet;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use program::EXIT_CODES;

/// Networks to try things on.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100, after_help = EXIT_CODES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Mobile ad-hoc networks: statistics, frames as topologies, traces
    ///
    /// Nodes move, those within range of each other are linked, and each frame is a row; the last lines sum up. A link's
    /// mean duration is the time for which links were watched, over the number that broke.
    Manet(manet::Manet),
}

fn main() -> ExitCode {
    let Command::Manet(manet) = Arguments::parse().command;
    program::end("netsim", manet.run().map_err(Into::into))
}
