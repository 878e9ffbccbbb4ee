//! `capillary`: plans routes. A topology in; loads, layers, weighted paths, split ratios, critical links and pictures out.

mod batch;
mod compare;
mod failure;
mod inspect;
mod plan;
mod schedule;
mod source;
mod what_if;

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use capillary::format::{self, Format};
use clap::{Parser, Subcommand, ValueEnum};
use failure::Failure;
use source::Source;

/// Plans routes that load no link of a network more than they must.
#[derive(Debug, Parser)]
#[command(version, about, max_term_width = 100)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The capillary routing between two nodes, or between many pairs
    Plan(plan::Plan),
    /// What there is in a topology file
    Inspect(inspect::Inspect),
    /// Capillary routing beside shortest path, equal-cost multipath, disjoint paths and a maximum flow
    Compare(compare::Compare),
    /// The routing after links or nodes have failed
    WhatIf(what_if::WhatIf),
    /// Liquid schedules: many transfers of one size in as few frames as the fullest link allows
    Schedule(schedule::Schedule),
    /// A picture (SVG): line width is load, colour is layer
    Draw(Draw),
    /// The topology in another format
    Convert(Convert),
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    /// An aligned table
    Table,
    /// One JSON object (batches: one per line)
    Json,
    /// Comma-separated values
    Csv,
    /// A Graphviz graph with loads
    Dot,
}

#[derive(Debug, clap::Args)]
struct Draw {
    #[command(flatten)]
    source: Source,
    /// Where the demand comes from; with --to: draw the routing
    #[arg(long, requires = "to")]
    from: Option<String>,
    /// Where the demand goes
    #[arg(long, requires = "from")]
    to: Option<String>,
    /// Stop at this layer
    #[arg(long, requires = "from")]
    layers: Option<std::num::NonZeroU32>,
    /// The file to write; standard output without it
    #[arg(short, long)]
    output: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct Convert {
    #[command(flatten)]
    source: Source,
    /// The format to write
    #[arg(long, default_value = "json")]
    into: Format,
    /// The file to write; standard output without it
    #[arg(short, long)]
    output: Option<PathBuf>,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Plan(plan) => plan.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Compare(compare) => compare.run(),
        Command::WhatIf(what_if) => what_if.run(),
        Command::Schedule(schedule) => schedule.run(),
        Command::Draw(draw) => draw.run(),
        Command::Convert(convert) => convert.run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever read us has enough.
        Err(Failure::Output(error)) if error.kind() == std::io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("capillary: {failure}");
            failure.exit_code()
        }
    }
}

impl Draw {
    fn run(&self) -> Result<(), Failure> {
        let network = self.source.load()?;
        let routing = match (&self.from, &self.to) {
            (Some(from), Some(to)) => {
                let (from, to) = (network.find(from)?, network.find(to)?);
                let topology = &network.topology;
                Some(
                    plan::solve(topology, from, to, self.layers)
                        .map_err(|error| network.unsolvable(error))?
                        .routing,
                )
            }
            _ => None,
        };
        put(self.output.as_ref(), &capillary::draw::svg(&network.topology, routing.as_ref()))
    }
}

impl Convert {
    fn run(&self) -> Result<(), Failure> {
        let network = self.source.load()?;
        put(self.output.as_ref(), &format::write(&network.topology, self.into))
    }
}

/// Writes a result to a file or to standard output.
fn put(path: Option<&PathBuf>, text: &str) -> Result<(), Failure> {
    match path {
        Some(path) => std::fs::write(path, text).map_err(|error| Failure::File(path.clone(), error)),
        None => std::io::stdout().lock().write_all(text.as_bytes()).map_err(Failure::Output),
    }
}
