//! Traffic matrices on the command line: where the demands come from, what every path must keep, and how the routing
//! compares with what networks do without a plan.

pub(crate) mod curves;

use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use capillary::baseline::{RANDOM_PATHS, RANDOM_SEED};
use capillary::cli::total_demand;
use capillary::format::read_traffic;
use capillary::matrix::{
    ArcUse, MatrixError, MatrixRouting, PathBounds, TrafficMatrix, equal_cost_multipath, random_multipath,
    shortest_paths, solve_within,
};
use clap::Arg;
use program::Failure;
use program::table::number;

use crate::source::Network;

/// The arguments of commands that take one matrix: `--demands` is no folder, and stands there once.
pub(crate) fn of_one_matrix(argument: Arg) -> Arg {
    const HELP: &str = "All demands of a traffic matrix at once: SNDlib (the network's own file or another), \
        TopoHub's JSON, Repetita, or a table with the columns from, to and demand";
    if argument.get_id() == "demands" { argument.help(HELP) } else { argument }
}

/// Where demands come from.
#[derive(Debug, clap::Args)]
pub(crate) struct MatrixSource {
    /// All demands of a traffic matrix at once: SNDlib (the network's own file or another), TopoHub's JSON, Repetita,
    /// or a table with the columns from, to and demand. Several times, or with a folder: a matrix for each file
    #[arg(long, value_name = "FILE")]
    demands: Vec<PathBuf>,
    /// The same for demands that follow the capacities of the nodes' links (gravity) and are X in all
    #[arg(long, value_name = "X", value_parser = total_demand, conflicts_with = "demands")]
    gravity: Option<f64>,
}

/// What every path of every demand must keep.
#[derive(Debug, clap::Args)]
pub(crate) struct Bounds {
    /// With --demands or --gravity: no path of any demand has more links. Bounds hold path by path, so that routers
    /// must pin paths; split ratios by destination do not keep them
    #[arg(long, value_name = "N", value_parser = program::quantity::count, requires = "MatrixSource")]
    max_hops: Option<NonZeroU32>,
    /// The same for the propagation delay of a path, as 30ms: each link must have a delay (see --delay)
    #[arg(long, value_name = "TIME", value_parser = program::quantity::duration, requires = "MatrixSource")]
    max_delay: Option<std::time::Duration>,
    /// The same for a path's length by --metric: at most X times that of its demand's shortest path
    #[arg(long, value_name = "X", value_parser = stretch, requires = "MatrixSource")]
    max_stretch: Option<f64>,
}

/// A matrix with the name of its file.
pub(crate) struct Matrix {
    pub(crate) name: String,
    pub(crate) traffic: TrafficMatrix,
}

fn stretch(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 1.0);
    value.ok_or_else(|| "expected a number of at least 1: how many times as long as the shortest path".into())
}

impl MatrixSource {
    /// Whether there are any demands.
    pub(crate) fn is_there(&self) -> bool {
        self.gravity.is_some() || !self.demands.is_empty()
    }

    /// The matrices by the order of their files.
    pub(crate) fn load(&self, network: &Network) -> Result<Vec<Matrix>, Failure> {
        if let Some(total) = self.gravity {
            return Ok(vec![Matrix {
                name: "gravity".into(),
                traffic: TrafficMatrix::gravity_of(&network.topology, total),
            }]);
        }
        let mut files = Vec::new();
        for path in &self.demands {
            files.extend(if path.is_dir() { files_in(path)? } else { vec![path.clone()] });
        }
        files.iter().map(|path| read(network, path)).collect()
    }

    /// The only matrix, for commands that take one.
    pub(crate) fn load_one(&self, network: &Network, command: &str) -> Result<Matrix, Failure> {
        let mut matrices = self.load(network)?;
        match (matrices.pop(), matrices.len()) {
            (Some(matrix), 0) => Ok(matrix),
            (_, more) => {
                let message = format!("{command} takes one matrix; --demands names {}", more + 1);
                Err(Failure::usage(message))
            }
        }
    }
}

impl Bounds {
    pub(crate) fn paths(&self) -> PathBounds {
        PathBounds { hops: self.max_hops, delay: self.max_delay, stretch: self.max_stretch }
    }
}

/// The files of a folder by name.
fn files_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let failed = |error: std::io::Error| Failure::file(folder, &error);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(Failure::input(folder, "the folder has no files; expected a matrix in each"));
    }
    files.sort();
    Ok(files)
}

/// The demands of a file.
fn read(network: &Network, path: &Path) -> Result<Matrix, Failure> {
    let bytes = capillary::cli::read(path).map_err(|error| Failure::file(path, &error))?;
    let traffic = read_traffic(&bytes, &network.topology).map_err(|error| Failure::input(path, error))?;
    let name = path.file_stem().map_or("-".into(), |stem| stem.to_string_lossy().into_owned());
    Ok(Matrix { name, traffic })
}

/// An amount to read: what is round-off of a sum is not shown.
pub(crate) fn amount(value: f64) -> String {
    let text = number(value);
    // The zeros of an exponent are none that tell nothing.
    if text.contains('e') { text } else { text.trim_end_matches('0').trim_end_matches('.').into() }
}

/// What each arc carries under one routing, with its name.
pub(crate) struct Loads {
    pub(crate) routing: &'static str,
    pub(crate) arcs: Vec<ArcUse>,
}

/// A planned matrix beside its baselines.
pub(crate) struct Compared {
    pub(crate) capillary: MatrixRouting,
    /// The baselines first, equal-cost multipath as the second of them, capillary routing last.
    pub(crate) loads: Vec<Loads>,
    /// How long capillary routing took, and nothing else.
    pub(crate) seconds: f64,
}

impl Compared {
    pub(crate) fn of(
        network: &Network,
        traffic: &TrafficMatrix,
        levels: Option<NonZeroU32>,
        bounds: &PathBounds,
    ) -> Result<Self, Failure> {
        let topology = &network.topology;
        let length = |link| topology.link_weight(link).length();
        let unsolvable = |error: MatrixError| network.unroutable(&error);
        let (capillary, time) = crate::plan::timed(|| solve_within(topology, traffic, levels, bounds));
        let (capillary, seconds) = (capillary.map_err(unsolvable)?, time.as_secs_f64());
        let loads = [
            ("shortest path", shortest_paths(topology, traffic, length)),
            ("equal-cost multipath", equal_cost_multipath(topology, traffic, length)),
            ("random multipath", random_multipath(topology, traffic, RANDOM_PATHS, RANDOM_SEED)),
            ("capillary", Ok(capillary.arcs().to_vec())),
        ];
        let loads = loads.map(|(routing, arcs)| Ok(Loads { routing, arcs: arcs.map_err(unsolvable)? }));
        Ok(Self { capillary, loads: loads.into_iter().collect::<Result<_, Failure>>()?, seconds })
    }

    /// What each arc carries under equal-cost multipath.
    pub(crate) fn multipath(&self) -> &[ArcUse] {
        &self.loads[1].arcs
    }
}

impl Loads {
    pub(crate) fn largest(&self) -> f64 {
        self.arcs.iter().map(|arc| arc.utilisation).fold(0.0, f64::max)
    }

    pub(crate) fn mean(&self) -> f64 {
        self.arcs.iter().map(|arc| arc.utilisation).sum::<f64>() / self.arcs.len().max(1) as f64
    }

    /// How many links a unit of the demands crosses on average.
    pub(crate) fn mean_links(&self, total: f64) -> f64 {
        self.arcs.iter().map(|arc| arc.load).sum::<f64>() / total
    }

    /// How long a unit of the demands is on its way on average, in milliseconds, if every link has a delay.
    pub(crate) fn mean_delay_ms(&self, network: &Network, total: f64) -> Option<f64> {
        let delay = |arc: &ArcUse| network.topology.link_weight(arc.link).delay;
        let sum = self.arcs.iter().map(|arc| Some(arc.load * delay(arc)?.as_secs_f64() * 1e3));
        Some(sum.sum::<Option<f64>>()? / total)
    }
}
