//! `capillary plan`.

use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use capillary::{
    LinkId, NodeId, Paths, Routing, Solution, SolveError, Splits, Topology, exact, lp, solve_certified,
    solve_layers,
};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::source::{Network, Source};
use crate::table::{Table, number};
use crate::{Output, batch, put};

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["from", "pairs"]))]
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
    /// Threads for many pairs; without it, as many as there are processors
    #[arg(long, requires = "pairs")]
    pub(crate) threads: Option<NonZeroU32>,
    /// Stop at this layer; the rest of the flow takes the cheapest way
    #[arg(long, conflicts_with = "exact")]
    pub(crate) layers: Option<NonZeroU32>,
    /// Rational arithmetic: for small networks, flows and loads as p/q in JSON
    #[arg(long, conflicts_with = "pairs")]
    exact: bool,
    /// How to solve
    #[arg(long, value_enum, default_value_t = Solver::MaxFlow, conflicts_with_all = ["pairs", "exact"])]
    solver: Solver,
    /// At most so many paths
    #[arg(long, default_value_t = 16)]
    max_paths: usize,
    /// Enough paths to carry this share of the demand
    #[arg(long, default_value_t = 1.0, value_parser = share)]
    cover: f64,
    /// Split ratios in multiples of 1/N, and the load error that this costs
    #[arg(long, value_name = "N", value_parser = ["16", "32", "64"], conflicts_with = "pairs")]
    quantize: Option<String>,
    /// How to print
    #[arg(long, value_enum, default_value_t = Output::Table)]
    pub(crate) output: Output,
    /// The same as --output json
    #[arg(long, conflicts_with = "output")]
    json: bool,
}

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

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse::<f64>().ok().filter(|share| *share > 0.0 && *share <= 1.0);
    share.ok_or_else(|| "expected a share above 0 and at most 1".into())
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

/// A solved pair with all that can be said of it.
struct Answer<'n> {
    network: &'n Network,
    routing: Routing,
    /// Flow and load of each link as p/q, with `--exact`.
    fractions: Option<Vec<(String, String)>>,
    solver: Value,
    paths: Paths,
    splits: Option<Splits>,
    /// The parts that ratios are counted in, the rounded ratios and what they do to the loads.
    quantized: Option<(u32, Splits, f64)>,
}

impl Plan {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let network = self.source.load()?;
        if let Some(pairs) = &self.pairs {
            return batch::run(self, &network, pairs);
        }
        let (Some(from), Some(to)) = (&self.from, &self.to) else {
            return Err(Failure::Usage("--from and --to are needed".into()));
        };
        let answer = self.answer(&network, network.find(from)?, network.find(to)?)?;
        let text = match self.output() {
            Output::Table => answer.table(),
            Output::Json => format!("{:#}\n", answer.json()),
            Output::Csv => answer.links().csv(),
            Output::Dot => answer.dot(),
        };
        put(None, &text)
    }

    pub(crate) fn output(&self) -> Output {
        if self.json { Output::Json } else { self.output }
    }

    fn answer<'n>(&self, network: &'n Network, from: NodeId, to: NodeId) -> Result<Answer<'n>, Failure> {
        let topology = &network.topology;
        let unsolvable = |error| network.unsolvable(error);
        let (routing, fractions, solver) = match self.solver {
            Solver::MaxFlow if self.exact => by_rationals(topology, from, to).map_err(unsolvable)?,
            Solver::MaxFlow => self.by_maximum_flow(network, from, to)?,
            Solver::Lp => self.by_linear_program(lp::Simplex::Microlp, network, from, to)?,
            #[cfg(feature = "highs")]
            Solver::Highs => self.by_linear_program(lp::Simplex::Highs, network, from, to)?,
        };
        let paths = routing.paths(self.max_paths, self.cover);
        let splits = Splits::of(&routing);
        let quantized = self.quantized(network, &routing, splits.as_ref())?;
        Ok(Answer { network, routing, fractions, solver, paths, splits, quantized })
    }

    fn by_maximum_flow(&self, network: &Network, from: NodeId, to: NodeId) -> Result<Solved, Failure> {
        let (solution, time) = timed(|| solve(&network.topology, from, to, self.layers));
        let Solution { routing, certificate, effort } =
            solution.map_err(|error| network.unsolvable(error))?;
        certificate.verify(&network.topology, &routing).map_err(Failure::Unproven)?;
        let (steps, max_flows, seconds) = (effort.steps, effort.max_flows, time.as_secs_f64());
        let solver =
            json!({ "name": "max-flow", "steps": steps, "max_flows": max_flows, "seconds": seconds });
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
        let suspects: Vec<&[usize]> = hunts.iter().map(|hunt| hunt.suspects.as_slice()).collect();
        let (name, steps, seconds) = (format!("{simplex:?}").to_lowercase(), hunts.len(), time.as_secs_f64());
        let solver = json!({
            "name": "lp", "simplex": name, "steps": steps, "max_flows": null, "seconds": seconds, "suspects": suspects
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
        let rerouted = rerouted.map_err(|error| Failure::Solve(error.into()))?;
        let errors = routing.links().iter().zip(rerouted.links()).map(|(a, b)| (a.load - b.load).abs());
        Ok(Some((parts, rounded, errors.fold(0.0, f64::max))))
    }
}

/// A routing; flow and load of each link as p/q, if they are known exactly; what is told of the solver.
type Solved = (Routing, Option<Vec<(String, String)>>, Value);

fn by_rationals(topology: &Topology, from: NodeId, to: NodeId) -> Result<Solved, SolveError> {
    let (exact, time) = timed(|| exact::solve(topology, from, to));
    let exact = exact?;
    let fractions =
        exact.flows.iter().zip(&exact.loads).map(|(flow, load)| (flow.to_string(), load.to_string()));
    let solver = json!({ "name": "exact", "steps": null, "max_flows": null, "seconds": time.as_secs_f64() });
    Ok((exact.routing, Some(fractions.collect()), solver))
}

#[allow(clippy::disallowed_methods, reason = "the program tells how long it took")]
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let start = Instant::now();
    let result = work();
    (result, start.elapsed())
}

fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

impl Answer<'_> {
    fn name(&self, node: NodeId) -> &str {
        self.network.name(node)
    }

    /// The used links by falling load.
    fn links(&self) -> Table {
        let mut table = Table::new(&["layer", "load", "flow", "link", "from", "to", ""]);
        let mut used: Vec<_> = self.routing.used_links().collect();
        used.sort_by(|a, b| b.1.load.total_cmp(&a.1.load).then(a.0.cmp(&b.0)));
        for (id, link) in used {
            let (from, to) = link.direction();
            let (layer, critical) =
                (link.layer.map_or(String::new(), |layer| layer.to_string()), link.is_critical());
            table.push(vec![
                layer,
                number(link.load),
                number(link.flow.abs()),
                id.0.to_string(),
                self.name(from).into(),
                self.name(to).into(),
                if critical { "critical".into() } else { String::new() },
            ]);
        }
        table
    }

    fn table(&self) -> String {
        let topology = &self.network.topology;
        let (from, to) = (self.name(self.routing.source()), self.name(self.routing.target()));
        let title = if topology.name().is_empty() { "Capillary routing" } else { topology.name() };
        let mut out = format!("{title}: {from} → {to}\n");
        let (layers, used) =
            (counted(self.routing.layers().len(), "layer"), self.routing.used_links().count());
        let critical = self.routing.critical_links().count();
        let _ = writeln!(
            out,
            "largest load {}, {layers}, {used} of {} links used, {critical} critical\n",
            number(self.routing.largest_load()),
            topology.link_count(),
        );
        let _ = writeln!(out, "{}", self.links());
        out += &self.path_table();
        out += &self.split_table();
        out
    }

    fn path_table(&self) -> String {
        let mut table = Table::new(&["weight", "path"]);
        for path in &self.paths.paths {
            let names: Vec<&str> = path.nodes.iter().map(|&node| self.name(node)).collect();
            table.push(vec![number(path.weight), names.join(" → ")]);
        }
        let (covered, error) = (self.paths.covered * 100.0, self.paths.load_error);
        let count = self.paths.paths.len();
        format!(
            "{table}{count} paths carry {covered:.1} % of the routing; largest load error {}\n\n",
            number(error)
        )
    }

    fn split_table(&self) -> String {
        let Some(splits) = &self.splits else { return String::new() };
        let mut table = Table::new(&["node", "sends"]);
        for split in splits.splits().iter().filter(|split| split.shares.len() > 1) {
            let shares: Vec<String> =
                split.shares.iter().map(|(link, share)| self.share(*link, *share)).collect();
            table.push(vec![self.name(split.node).into(), shares.join(", ")]);
        }
        let mut out = table.to_string();
        if let Some((parts, rounded, error)) = &self.quantized {
            let _ = writeln!(out, "\nratios in 1/{parts}: largest load error {}", number(*error));
            for split in rounded.splits().iter().filter(|split| split.shares.len() > 1) {
                let counts: Vec<String> = split
                    .shares
                    .iter()
                    .map(|(_, share)| format!("{:.0}", share * f64::from(*parts)))
                    .collect();
                let _ = writeln!(out, "  {}: {}", self.name(split.node), counts.join(" : "));
            }
        }
        out
    }

    fn share(&self, link: LinkId, share: f64) -> String {
        let (_, head) = self.routing.link(link).direction();
        format!("{:.2} % to {}", share * 100.0, self.name(head))
    }

    fn dot(&self) -> String {
        let mut out = format!("digraph {:?} {{\n", self.network.topology.name());
        for (id, link) in self.routing.used_links() {
            let (from, to) = link.direction();
            let (load, layer) = (link.load, link.layer.unwrap_or(0));
            let width = 0.5 + 5.0 * load / self.routing.largest_load();
            let ends = format!("{:?} -> {:?}", self.name(from), self.name(to));
            let _ = writeln!(
                out,
                "  {ends} [id=\"{}\", label=\"{load:.4}\", layer={layer}, penwidth={width:.2}];",
                id.0
            );
        }
        out + "}\n"
    }

    /// The stable form: see the documentation of the program.
    fn json(&self) -> Value {
        let topology = &self.network.topology;
        let id = |node: NodeId| &topology.node_weight(node).id;
        let links: Vec<Value> = (0..topology.link_count()).map(|index| self.link_json(index)).collect();
        let paths: Vec<Value> = self
            .paths
            .paths
            .iter()
            .map(|path| {
                let nodes: Vec<&String> = path.nodes.iter().map(|&node| id(node)).collect();
                let links: Vec<u32> = path.links.iter().map(|link| link.0).collect();
                json!({ "weight": path.weight, "nodes": nodes, "links": links })
            })
            .collect();
        let mut object = json!({
            "network": {
                "nodes": topology.node_count(),
                "links": topology.link_count(),
                "directed": topology.orientation() == capillary::Orientation::Directed,
            },
            "from": id(self.routing.source()),
            "to": id(self.routing.target()),
            "layers": self.layers_json(),
            "links": links,
            "critical_links": self.routing.critical_links().map(|link| link.0).collect::<Vec<_>>(),
            "paths": paths,
            "covered": self.paths.covered,
            "solver": self.solver,
        });
        if let Some((parts, _, error)) = &self.quantized {
            object["quantized"] = json!({ "parts": parts, "load_error": error });
        }
        object
    }

    fn layers_json(&self) -> Vec<Value> {
        let members = |number: u32| -> Vec<usize> {
            let links = self.routing.links().iter().enumerate();
            links.filter(|(_, link)| link.layer == Some(number)).map(|(index, _)| index).collect()
        };
        let layers = self.routing.layers().iter().map(|layer| {
            let links = members(layer.number);
            let load = match (&self.fractions, links.first()) {
                (Some(fractions), Some(&link)) => json!(fractions[link].1),
                _ => json!(layer.load),
            };
            json!({ "number": layer.number, "load": load, "links": links })
        });
        layers.collect()
    }

    fn link_json(&self, index: usize) -> Value {
        let link = &self.routing.links()[index];
        let id = |node: NodeId| &self.network.topology.node_weight(node).id;
        let (flow, load) = match &self.fractions {
            Some(fractions) => (json!(fractions[index].0), json!(fractions[index].1)),
            None => (json!(link.flow), json!(link.load)),
        };
        json!({
            "index": index,
            "from": id(link.from),
            "to": id(link.to),
            "flow": flow,
            "load": load,
            "layer": link.layer,
            "critical": link.is_critical(),
        })
    }
}
