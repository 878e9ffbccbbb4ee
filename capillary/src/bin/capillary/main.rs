//! `capillary`: plans routes. A topology in; loads, layers, weighted paths, split ratios, critical links and pictures
//! out.

mod batch;
mod compare;
mod convert;
mod inspect;
mod matrix;
mod plan;
mod schedule;
mod source;
mod what_if;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use capillary::draw::Drawing;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Arg, CommandFactory as _, Parser, Subcommand, ValueEnum};
use matrix::MatrixSource;
use program::quantity::count;
use program::table::{counted, number};
use program::{EXIT_CODES, Failure, arguments, install, picture};
use source::Source;

const EXAMPLE: &str = "Example:\n  capillary plan Abilene.gml --from Seattle --to \"New York\"";

/// Plans routes that load no link of a network more than they must.
#[derive(Debug, Parser)]
#[command(version = program::VERSION, about, max_term_width = 100)]
#[command(after_help = format!("{EXAMPLE}\n\n{EXIT_CODES}"))]
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
    /// A picture, as .svg or .png: line width is load, colour is layer, heads point where the flow goes
    Draw(Draw),
    /// The topology in another format
    Convert(convert::Convert),
    #[command(after_help = "Example:\n  capillary manual ~/.local")]
    Manual(install::Options),
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Print {
    /// An aligned table (batches: as csv)
    Table,
    /// One JSON object (batches: one per line)
    Json,
    /// Comma-separated values
    Csv,
    /// A Graphviz graph with loads
    Dot,
}

/// How results are printed, and where they go.
#[derive(Debug, clap::Args)]
struct Printing {
    /// How to print
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t = Print::Table)]
    format: Print,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// JSON without line breaks and blanks
    #[arg(long)]
    compact: bool,
    /// The file to write; standard output without it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The arguments of commands whose results are rows: --format has all but the graph.
fn of_rows(argument: Arg) -> Arg {
    let rows = [Print::Table, Print::Json, Print::Csv];
    let formats = PossibleValuesParser::new(rows.iter().filter_map(Print::to_possible_value));
    match argument.get_id() == "format" {
        true => argument.value_parser(formats.try_map(|name| Print::from_str(&name, false))),
        false => argument,
    }
}

impl Printing {
    /// An object as it is to be printed.
    fn json(&self, object: &serde_json::Value) -> String {
        if self.compact { format!("{object}\n") } else { format!("{object:#}\n") }
    }

    /// Prints an object that is too large to hold its text as a whole.
    fn put_json(&self, object: &impl serde::Serialize) -> Result<(), program::Failure> {
        let mut results = program::output::Results::open(self.path())?;
        results.json(object, self.compact)?;
        results.close()
    }

    fn format(&self) -> Print {
        if self.json { Print::Json } else { self.format }
    }

    fn path(&self) -> Option<&Path> {
        self.output.as_deref()
    }
}

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  capillary draw Abilene.gml --from Seattle --to \"New York\" -o abilene.svg\n  \
                        capillary draw abilene.xml --capacity module_capacity --demands abilene.xml -o load.png"
)]
#[command(mut_args(matrix::of_one_matrix))]
#[command(group = clap::ArgGroup::new("what").args(["from", "demands", "gravity"]))]
struct Draw {
    #[command(flatten)]
    source: Source,
    /// Where the demand comes from; with --to: draw the routing
    #[arg(long, requires = "to", conflicts_with = "MatrixSource")]
    from: Option<String>,
    /// Where the demand goes
    #[arg(long, requires = "from")]
    to: Option<String>,
    #[command(flatten)]
    matrix: MatrixSource,
    #[command(flatten)]
    bounds: matrix::Bounds,
    /// With --demands or --gravity: what is drawn
    #[arg(long, value_enum, default_value_t = Drawn::Capillary, requires = "MatrixSource")]
    routing: Drawn,
    /// Stop at this layer
    #[arg(long, requires = "what", value_parser = count)]
    layers: Option<std::num::NonZeroU32>,
    /// The file to write; standard output without it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The routings of a matrix that can be drawn, in the order of [`matrix::Compared::loads`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Drawn {
    /// Every demand on one shortest path
    ShortestPath,
    /// Equal-cost multipath
    Multipath,
    /// Random multipath
    Random,
    /// Capillary routing
    Capillary,
}

fn main() -> ExitCode {
    let outcome = match arguments::parse::<Arguments>().command {
        Command::Plan(plan) => plan.run(),
        Command::Inspect(inspect) => inspect.run(),
        Command::Compare(compare) => compare.run(),
        Command::WhatIf(what_if) => what_if.run(),
        Command::Schedule(schedule) => schedule.run(),
        Command::Draw(draw) => draw.run(),
        Command::Convert(convert) => convert.run(),
        Command::Manual(manual) => manual.run(Arguments::command()),
    };
    program::end("capillary", outcome)
}

impl Draw {
    fn run(&self) -> Result<(), Failure> {
        let network = self.source.load()?.named();
        if self.matrix.is_there() {
            return self.draw_matrix(&network);
        }
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
        picture::put(self.output.as_deref(), &capillary::draw::svg(&network.topology, routing.as_ref()))
    }

    /// What all demands together do to every arc, under one routing.
    fn draw_matrix(&self, network: &source::Network) -> Result<(), Failure> {
        let matrix = self.matrix.load_one(network, "draw")?;
        let compared = matrix::Compared::of(network, &matrix.traffic, self.layers, &self.bounds.paths())?;
        let loads = &compared.loads[self.routing as usize];
        let note = format!(
            "{}, {}, {} in all: largest utilisation {}",
            loads.routing,
            counted(compared.capillary.demands().len(), "demand"),
            matrix::amount(matrix.traffic.total()),
            number(loads.largest())
        );
        let drawing = Drawing::of(&network.topology).with_utilisations(&loads.arcs).with_note(note);
        let drawing = drawing.with_note("half a line is what the node at its end sends");
        picture::put(self.output.as_deref(), &drawing.svg())
    }
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
