//! `capillary plan`.

mod answer;
mod demands;

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use capillary::{
    Arithmetic, Certificate, CertificateError, NodeId, Routing, Solution, SolveError, Splits, Topology,
    exact, lp, solve_certified, solve_layers,
};
use serde_json::{Value, json};

use crate::matrix::{Bounds, MatrixSource};
use crate::source::{Network, Source};
use crate::{Print, Printing, batch};
use answer::Answer;
use program::quantity::{count, part};
use program::{Exit, Failure, OrFail as _, output};

/// Four kinds of plans; in one line it would be too wide.
const USAGE: &str = "\
capillary plan [OPTIONS] <FILE> --from <FROM> --to <TO>
       capillary plan [OPTIONS] <FILE> --pairs <FILE|all>
       capillary plan [OPTIONS] <FILE> --demands <FILE>
       capillary plan [OPTIONS] <FILE> --gravity <X>";

#[derive(Debug, clap::Args)]
#[command(override_usage = USAGE)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["from", "pairs", "demands", "gravity"]))]
#[command(
    after_help = "Examples:\n  capillary plan Abilene.gml --from Seattle --to \"New York\" --layers 2\n  \
                        capillary plan Abilene.gml --pairs all --json -o plans.jsonl\n  \
                        capillary plan abilene.xml --capacity module_capacity --demands abilene.xml --format csv"
)]
pub(crate) struct Plan {
    #[command(flatten)]
    pub(crate) source: Source,
    /// Where the demand comes from: an id, else a label; id:X and label:X force one
    #[arg(long, requires = "to")]
    from: Option<String>,
    /// Where the demand goes
    #[arg(long, requires = "from")]
    to: Option<String>,
    /// Many pairs: a file with two names a line (separated by a comma or a tab), or all
    #[arg(long, value_name = "FILE|all")]
    pub(crate) pairs: Option<PathBuf>,
    #[command(flatten)]
    matrix: MatrixSource,
    #[command(flatten)]
    bounds: Bounds,
    /// With --demands or --gravity: draw the utilisations of all arcs, sorted, beside those of the baselines (with
    /// several matrices the largest by matrix), as .svg or .png
    #[arg(long, value_name = "FILE", value_parser = program::chart::file, requires = "MatrixSource")]
    plot: Option<PathBuf>,
    /// Threads for many pairs; without it, as many as there are processors
    #[arg(long, requires = "pairs", value_parser = count)]
    pub(crate) threads: Option<NonZeroU32>,
    /// Stop at this layer; the rest of the flow takes the cheapest way
    #[arg(long, value_parser = count)]
    pub(crate) layers: Option<NonZeroU32>,
    /// Rational arithmetic: for small networks, flows and loads as p/q in JSON
    #[arg(long, conflicts_with_all = ["pairs", "MatrixSource"])]
    exact: bool,
    /// How to solve
    #[arg(long, value_enum, default_value_t = Solver::MaxFlow, conflicts_with_all = ["pairs", "exact", "MatrixSource"])]
    solver: Solver,
    /// At most so many paths
    #[arg(long, default_value = "16", value_parser = count)]
    max_paths: NonZeroU32,
    /// Enough paths to carry this share of the demand
    #[arg(long, default_value_t = 1.0, value_parser = part)]
    cover: f64,
    /// Split ratios in multiples of 1/N, and the load error that this costs; of a matrix for each node and destination
    #[arg(long, value_name = "N", value_parser = ["16", "32", "64"])]
    #[arg(conflicts_with_all = ["pairs", "max_hops", "max_delay", "max_stretch"])]
    quantize: Option<String>,
    #[command(flatten)]
    pub(crate) printing: Printing,
}

/// How far the loads of linear programs may be off for their proof, relative.
const LP_PRECISION: f64 = 1e-6;

/// The solvers to choose from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Solver {
    /// Maximum flows
    MaxFlow,
    /// The thesis's linear program, thousands of times slower: tells how the hunt for bottlenecks went
    Lp,
    /// The same linear program, solved by HiGHS
    #[cfg(feature = "highs")]
    Highs,
}

/// The routing with its certificate, stopped at a layer if one is given.
pub(crate) fn solve(
    topology: &Topology,
    from: NodeId,
    to: NodeId,
    layers: Option<NonZeroU32>,
) -> Result<Solution, SolveError> {
    match layers {
        Some(layers) => solve_layers(topology, from, to, layers),
        None => solve_certified(topology, from, to),
    }
}

impl Plan {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        self.check_format()?;
        let network = self.source.load()?;
        if let Some(pairs) = &self.pairs {
            return batch::run(self, &network, pairs);
        }
        if self.matrix.is_there() {
            let matrices = self.matrix.load(&network)?;
            return self.request(&network).run(&matrices);
        }
        let (Some(from), Some(to)) = (&self.from, &self.to) else {
            return Err(Failure::usage("--from and --to are needed"));
        };
        let answer = self.answer(&network, network.find(from)?, network.find(to)?)?;
        let text = match self.printing.format() {
            Print::Table => answer.table(output::columns(self.printing.path())),
            Print::Json => return self.printing.put_json(&answer.document()),
            Print::Csv => answer.links().csv(),
            Print::Dot => answer.dot(),
        };
        output::put(self.printing.path(), &text)
    }

    /// A graph is one of a single pair.
    fn check_format(&self) -> Result<(), Failure> {
        let what = match (&self.pairs, self.matrix.is_there()) {
            _ if self.printing.format() != Print::Dot => return Ok(()),
            (Some(_), _) => "--pairs has no --format dot; expected csv or json",
            (None, true) => return Err(demands::no_graph()),
            (None, false) => return Ok(()),
        };
        Err(Failure::usage(what))
    }

    /// What is asked for of matrices.
    fn request<'a>(&'a self, network: &'a Network) -> demands::Request<'a> {
        demands::Request {
            network,
            levels: self.layers,
            bounds: self.bounds.paths(),
            parts: self.quantize.as_ref().and_then(|parts| parts.parse().ok()),
            plot: self.plot.as_deref(),
            printing: &self.printing,
        }
    }

    fn answer<'n>(&self, network: &'n Network, from: NodeId, to: NodeId) -> Result<Answer<'n>, Failure> {
        let (routing, fractions, solver) = match self.solver {
            Solver::MaxFlow if self.exact => by_rationals(network, from, to, self.layers)?,
            Solver::MaxFlow => self.by_maximum_flow(network, from, to)?,
            Solver::Lp => self.by_linear_program(lp::Simplex::Microlp, network, from, to)?,
            #[cfg(feature = "highs")]
            Solver::Highs => self.by_linear_program(lp::Simplex::Highs, network, from, to)?,
        };
        let paths = routing.paths(self.max_paths.get() as usize, self.cover);
        let splits = Splits::of(&routing);
        let quantized = self.quantized(network, &routing, splits.as_ref())?;
        Ok(Answer { network, routing, fractions, solver, paths, splits, quantized })
    }

    fn by_maximum_flow(&self, network: &Network, from: NodeId, to: NodeId) -> Result<Solved, Failure> {
        let (solution, time) = timed(|| solve(&network.topology, from, to, self.layers));
        let Solution { routing, certificate, effort, arithmetic } =
            solution.map_err(|error| network.unsolvable(error))?;
        if arithmetic == Arithmetic::Rational {
            program::output::note(format_args!(
                "capillary: note: the capacities are beyond floating point; solved in rational numbers"
            ));
        } else {
            certificate.verify(&network.topology, &routing).map_err(unproven)?;
        }
        let (steps, max_flows, seconds) = (effort.steps, effort.max_flows, time.as_secs_f64());
        let solver = json!({
            "name": "max-flow", "steps": steps, "max_flows": max_flows, "seconds": seconds, "proved": true,
            "arithmetic": arithmetic.to_string()
        });
        Ok((routing, None, solver))
    }

    fn by_linear_program(
        &self,
        simplex: lp::Simplex,
        network: &Network,
        from: NodeId,
        to: NodeId,
    ) -> Result<Solved, Failure> {
        let (solution, time) = timed(|| lp::solve_by(simplex, &network.topology, from, to, self.layers));
        let lp::LpSolution { routing, hunts } = solution.map_err(|error| network.unsolvable(error))?;
        let proof = Certificate::prove(&network.topology, &routing, LP_PRECISION);
        if let Err(error) = &proof {
            program::output::note(format_args!(
                "capillary: warning: the linear program came out imprecise: {error}"
            ));
        }
        let suspects: Vec<&[usize]> = hunts.iter().map(|hunt| hunt.suspects.as_slice()).collect();
        let (name, steps, seconds) = (format!("{simplex:?}").to_lowercase(), hunts.len(), time.as_secs_f64());
        let solver = json!({
            "name": "lp", "simplex": name, "steps": steps, "max_flows": null, "seconds": seconds,
            "proved": proof.is_ok(), "suspects": suspects
        });
        Ok((routing, None, solver))
    }

    fn quantized(
        &self,
        network: &Network,
        routing: &Routing,
        splits: Option<&Splits>,
    ) -> Result<Option<(u32, Splits, f64)>, Failure> {
        let parts = self.quantize.as_ref().and_then(|parts| parts.parse::<u32>().ok());
        let (Some(parts), Some(splits)) = (parts, splits) else { return Ok(None) };
        let rounded = splits.quantized(parts);
        let rerouted = rounded.routing(&network.topology, routing.source(), routing.target());
        let rerouted = rerouted.or_exit(Exit::Failed)?;
        let errors = routing.links().iter().zip(rerouted.links()).map(|(a, b)| (a.load - b.load).abs());
        Ok(Some((parts, rounded, errors.fold(0.0, f64::max))))
    }
}

/// A fault of ours, which the solver's certificate brought to light.
fn unproven(error: CertificateError) -> Failure {
    Failure::new(Exit::Failed, format!("the result fails its own proof: {error}"))
}

/// A routing; flow and load of each link as p/q, if they are known exactly; what is told of the solver.
type Solved = (Routing, Option<Vec<(String, String)>>, Value);

fn by_rationals(
    network: &Network,
    from: NodeId,
    to: NodeId,
    layers: Option<NonZeroU32>,
) -> Result<Solved, Failure> {
    let topology = &network.topology;
    let (exact, time) = timed(|| exact::solve(topology, from, to));
    let mut exact = exact.map_err(|error| network.unsolvable(error))?;
    exact.certificate(topology).map_err(unproven)?;
    if let Some(layers) = layers {
        exact = exact.stopped_at(topology, layers).map_err(|error| network.unsolvable(error))?;
    }
    let fractions =
        exact.flows.iter().zip(&exact.loads).map(|(flow, load)| (flow.to_string(), load.to_string()));
    let seconds = time.as_secs_f64();
    let solver =
        json!({ "name": "exact", "steps": null, "max_flows": null, "seconds": seconds, "proved": true });
    Ok((exact.routing, Some(fractions.collect()), solver))
}

#[allow(clippy::disallowed_methods, reason = "the program tells how long it took")]
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}
