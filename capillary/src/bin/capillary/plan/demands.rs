//! `capillary plan --demands`: all demands of a traffic matrix at once.

use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::path::Path;

use capillary::format::read_traffic;
use capillary::matrix::{ArcUse, MatrixError, MatrixRouting, TrafficMatrix, equal_cost_multipath, solve};
use program::table::number;
use program::{Failure, Table, output};
use serde_json::{Value, json};

use crate::source::Network;
use crate::{Print, Printing};

/// What is to be planned.
pub(super) struct Request<'a> {
    pub(super) traffic: TrafficMatrix,
    pub(super) layers: Option<NonZeroU32>,
    pub(super) printing: &'a Printing,
    pub(super) network: &'a Network,
}

/// A routed matrix beside what equal-cost multipath makes of it.
struct Answer<'a> {
    network: &'a Network,
    routing: MatrixRouting,
    baseline: Vec<ArcUse>,
    seconds: f64,
}

/// The demands of a file.
pub(super) fn read(network: &Network, path: &Path) -> Result<TrafficMatrix, Failure> {
    let bytes = capillary::cli::read(path).map_err(|error| Failure::file(path, &error))?;
    read_traffic(&bytes, &network.topology).map_err(|error| Failure::input(path, error))
}

/// A gravity matrix: each node sends and gets in proportion to the capacity of its links.
pub(super) fn gravity(network: &Network, total: f64) -> TrafficMatrix {
    let mut weights = vec![0.0; network.topology.node_count()];
    for (_, from, to, link) in network.topology.links().filter(|(_, from, to, _)| from != to) {
        weights[from.index()] += link.capacity;
        weights[to.index()] += link.capacity;
    }
    TrafficMatrix::gravity(&weights, total)
}

pub(super) fn run(request: &Request<'_>) -> Result<(), Failure> {
    let (network, topology) = (request.network, &request.network.topology);
    let unsolvable = |error: MatrixError| network.unroutable(&error);
    let (routing, time) = super::timed(|| solve(topology, &request.traffic, request.layers));
    let routing = routing.map_err(unsolvable)?;
    let baseline =
        equal_cost_multipath(topology, &request.traffic, |link| topology.link_weight(link).length())
            .map_err(unsolvable)?;
    let answer = Answer { network, routing, baseline, seconds: time.as_secs_f64() };
    let text = match request.printing.format() {
        Print::Table => answer.table(),
        Print::Csv => answer.arcs().csv(),
        Print::Json => format!("{:#}\n", answer.json()),
        Print::Dot => return Err(Failure::usage("plan --demands has no --format dot")),
    };
    output::put(request.printing.path(), &text)
}

fn mean(arcs: &[ArcUse]) -> f64 {
    arcs.iter().map(|arc| arc.utilisation).sum::<f64>() / arcs.len().max(1) as f64
}

fn largest(arcs: &[ArcUse]) -> f64 {
    arcs.iter().map(|arc| arc.utilisation).fold(0.0, f64::max)
}

impl Answer<'_> {
    fn table(&self) -> String {
        let (routing, topology) = (&self.routing, &self.network.topology);
        let title = if topology.name().is_empty() { "Traffic matrix" } else { topology.name() };
        let total: f64 = routing.demands().iter().map(|demand| demand.amount).sum();
        let mut out = format!("{title}: {} demands, {total} in all\n", routing.demands().len());
        let _ = writeln!(
            out,
            "{} levels, proved; split between paths: {} demands\n",
            routing.levels().len(),
            routing.paths().chunk_by(|a, b| a.demand == b.demand).filter(|paths| paths.len() > 1).count(),
        );
        let mut sums = Table::new(["routing", "largest utilisation", "mean utilisation"]);
        for (name, arcs) in [("equal-cost multipath", &self.baseline[..]), ("capillary", routing.arcs())] {
            sums.push(vec![name.into(), number(largest(arcs)), number(mean(arcs))]);
        }
        let mut levels = Table::new(["level", "utilisation", "arcs"]);
        for level in routing.levels() {
            levels.push(vec![level.number.to_string(), number(level.utilisation), level.arcs.to_string()]);
        }
        let _ = write!(out, "{sums}\n{levels}\n{}", self.arcs());
        out
    }

    /// The arcs that carry something, by falling utilisation.
    fn arcs(&self) -> Table {
        let header = ["level", "utilisation", "multipath", "load", "capacity", "link", "from", "to"];
        let mut table = Table::new(header);
        let mut used: Vec<(&ArcUse, &ArcUse)> = self.routing.arcs().iter().zip(&self.baseline).collect();
        used.retain(|(arc, before)| arc.level.is_some() || arc.load > 0.0 || before.load > 0.0);
        used.sort_by(|a, b| b.0.utilisation.total_cmp(&a.0.utilisation).then(a.0.link.cmp(&b.0.link)));
        for (arc, before) in used {
            table.push(vec![
                arc.level.map_or(String::new(), |level| level.to_string()),
                number(arc.utilisation),
                number(before.utilisation),
                number(arc.load),
                number(arc.capacity),
                arc.link.0.to_string(),
                self.network.name(arc.from).into(),
                self.network.name(arc.to).into(),
            ]);
        }
        table
    }

    fn json(&self) -> Value {
        let (routing, topology) = (&self.routing, &self.network.topology);
        let id = |node| topology.node_weight(node).id.as_str();
        let arcs: Vec<Value> = routing
            .arcs()
            .iter()
            .zip(&self.baseline)
            .map(|(arc, before)| {
                json!({
                    "link": arc.link.0, "from": id(arc.from), "to": id(arc.to), "capacity": arc.capacity,
                    "load": arc.load, "utilisation": arc.utilisation, "level": arc.level,
                    "multipath": before.utilisation,
                })
            })
            .collect();
        let levels: Vec<Value> = routing
            .levels()
            .iter()
            .map(|level| json!({ "number": level.number, "utilisation": level.utilisation, "arcs": level.arcs }))
            .collect();
        let effort = routing.effort();
        json!({
            "demands": routing.demands().len(),
            "levels": levels,
            "arcs": arcs,
            "paths": self.paths_json(),
            "certificate": self.certificate_json(),
            "solver": {
                "name": "path-simplex", "steps": effort.steps, "pivots": effort.pivots, "trees": effort.trees,
                "seconds": self.seconds, "proved": true,
            },
        })
    }

    /// Each path with its demand's ends.
    fn paths_json(&self) -> Vec<Value> {
        let id = |node| self.network.topology.node_weight(node).id.as_str();
        let paths = self.routing.paths().iter().map(|path| {
            let demand = self.routing.demands()[path.demand];
            let (from, to) = (id(demand.source), id(demand.target));
            json!({ "from": from, "to": to, "demand": demand.amount, "amount": path.amount, "arcs": path.arcs })
        });
        paths.collect()
    }

    fn certificate_json(&self) -> Vec<Value> {
        let bounds = self.routing.certificate().bounds().iter();
        bounds
            .map(|bound| json!({ "level": bound.level, "prices": bound.prices, "settled": bound.settled }))
            .collect()
    }
}
