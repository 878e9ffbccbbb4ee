//! `capillary plan --demands`: all demands of a traffic matrix at once.

use std::fmt::Write as _;
use std::num::NonZeroU32;
use std::path::Path;

use capillary::matrix::{ArcUse, DemandPath, PathBounds, TargetSplits};
use program::table::{Cell, counted, number};
use program::{Failure, Table, output};
use serde_json::{Value, json};

use crate::matrix::{Compared, Loads, Matrix, amount, curves};
use crate::source::Network;
use crate::{Print, Printing};

/// What is to be planned.
pub(super) struct Request<'a> {
    pub(super) network: &'a Network,
    pub(super) levels: Option<NonZeroU32>,
    pub(super) bounds: PathBounds,
    /// Split ratios in so many parts.
    pub(super) parts: Option<u32>,
    /// Where curves are drawn.
    pub(super) plot: Option<&'a Path>,
    pub(super) printing: &'a Printing,
}

/// A routed matrix beside its baselines.
struct Answer<'a> {
    network: &'a Network,
    compared: Compared,
    quantized: Option<(TargetSplits, Loads)>,
    total: f64,
}

impl Request<'_> {
    /// Plans one matrix and prints all of it, or several and prints a row of each.
    pub(super) fn run(&self, matrices: &[Matrix]) -> Result<(), Failure> {
        match matrices {
            [matrix] => self.one(matrix),
            matrices => self.several(matrices),
        }
    }

    /// The network's name, or if it has none that of a matrix.
    fn title<'s>(&'s self, matrix: &'s Matrix) -> &'s str {
        let name = self.network.topology.name();
        if name.is_empty() { &matrix.name } else { name }
    }

    fn answer(&self, matrix: &Matrix) -> Result<Answer<'_>, Failure> {
        let (network, traffic) = (self.network, &matrix.traffic);
        if self.parts.is_some()
            && let Some(demand) = traffic.demands().iter().find(|demand| !demand.bounds.is_none())
        {
            let [from, to] = [demand.source, demand.target].map(|node| network.name(node));
            return Err(Failure::usage(format!(
                "--quantize keeps no bounds on paths; {} bounds those from {from:?} to {to:?}",
                matrix.name
            )));
        }
        let compared = Compared::of(network, traffic, self.levels, &self.bounds)?;
        let quantized = self.parts.map(|parts| {
            let splits = TargetSplits::of(&network.topology, &compared.capillary, parts);
            let arcs = splits.arcs(&compared.capillary);
            (splits, Loads { routing: "capillary, whole parts", arcs })
        });
        Ok(Answer { network, compared, quantized, total: traffic.total() })
    }

    fn one(&self, matrix: &Matrix) -> Result<(), Failure> {
        let answer = self.answer(matrix)?;
        if let Some(path) = self.plot {
            curves::sorted(&answer.compared, self.title(matrix), path)?;
        }
        let text = match self.printing.format() {
            Print::Table => answer.table(self.title(matrix), output::columns(self.printing.path())),
            Print::Csv => answer.arcs().csv(),
            Print::Json => self.printing.json(&answer.json()),
            Print::Dot => return Err(no_graph()),
        };
        output::put(self.printing.path(), &text)
    }

    /// A row for each matrix, as they come.
    fn several(&self, matrices: &[Matrix]) -> Result<(), Failure> {
        let mut table = Table::new(["matrix", "demands", "total", "routing", "largest", "mean"]);
        let (mut lines, mut largest) = (Vec::new(), Vec::new());
        for matrix in matrices {
            let answer = self.answer(matrix)?;
            let demands = answer.compared.capillary.demands().len();
            for loads in answer.loads() {
                let numbers = [answer.total, loads.largest(), loads.mean()].map(Cell::number);
                let [total, most, mean] = numbers;
                let (name, demands) = (matrix.name.as_str().into(), demands.to_string().into());
                table.push_cells(vec![name, demands, total, loads.routing.into(), most, mean]);
            }
            let routings = answer.routings_json();
            let object = json!({
                "matrix": matrix.name, "demands": demands, "total": answer.total, "routings": routings,
            });
            lines.push(object.to_string());
            largest.push(answer.loads().map(|loads| (loads.routing, loads.largest())).collect::<Vec<_>>());
        }
        if let Some(path) = self.plot {
            let title = matrices.first().map_or("", |matrix| self.title(matrix));
            curves::over_time(&largest, title, path)?;
        }
        let text = match self.printing.format() {
            Print::Table => table.folded(output::columns(self.printing.path())),
            Print::Csv => table.csv(),
            Print::Json => lines.join("\n") + "\n",
            Print::Dot => return Err(no_graph()),
        };
        output::put(self.printing.path(), &text)
    }
}

/// What is refused before anything is planned.
pub(super) fn no_graph() -> Failure {
    Failure::usage("plan --demands has no --format dot; expected table, csv or json")
}

impl Answer<'_> {
    fn loads(&self) -> impl Iterator<Item = &Loads> {
        self.compared.loads.iter().chain(self.quantized.as_ref().map(|(_, loads)| loads))
    }

    fn table(&self, title: &str, columns: Option<usize>) -> String {
        let routing = &self.compared.capillary;
        let (demands, total) = (routing.demands().len(), amount(self.total));
        let title = output::shown(title);
        let mut out = format!("{title}: {}, {total} in all\n", counted(demands, "demand"));
        let split =
            routing.paths().chunk_by(|a, b| a.demand == b.demand).filter(|paths| paths.len() > 1).count();
        let _ = writeln!(
            out,
            "{}, proved; split between paths: {}; longest path {}\n",
            counted(routing.levels().len(), "level"),
            counted(split, "demand"),
            self.longest(),
        );
        let mut levels = Table::new(["level", "utilisation", "arcs"]);
        for level in routing.levels() {
            levels.push(vec![level.number.to_string(), number(level.utilisation), level.arcs.to_string()]);
        }
        let folded = |table: Table| table.folded(columns);
        let _ = write!(out, "{}\n{}\n{}", folded(self.sums()), folded(levels), folded(self.arcs()));
        if let Some((splits, _)) = &self.quantized {
            let _ = write!(out, "\nsplits in 1/{}\n{}", splits.parts(), folded(self.splits(splits)));
        }
        out
    }

    /// The most links and the longest delay of a path.
    fn longest(&self) -> String {
        let paths = self.compared.capillary.paths();
        let links = paths.iter().map(|path| path.arcs.len()).max().unwrap_or(0);
        let delay = paths.iter().map(|path| self.delay_ms(path)).collect::<Option<Vec<f64>>>();
        let delay = delay.map(|delays| delays.into_iter().fold(0.0, f64::max));
        let delay = delay.map_or(String::new(), |delay| format!(", {delay:.2} ms"));
        format!("{}{delay}", counted(links, "link"))
    }

    /// The routings beside each other: the price of small utilisations.
    fn sums(&self) -> Table {
        let mut header = vec!["routing", "largest utilisation", "mean utilisation", "links a unit"];
        let has_delay = self.compared.loads[0].mean_delay_ms(self.network, self.total).is_some();
        header.extend(has_delay.then_some("ms a unit"));
        let mut sums = Table::new(header);
        for loads in self.loads() {
            let mut row = vec![loads.routing.to_string(), number(loads.largest()), number(loads.mean())];
            row.push(format!("{:.2}", loads.mean_links(self.total)));
            let delay = loads.mean_delay_ms(self.network, self.total);
            row.extend(delay.map(|delay| format!("{delay:.2}")));
            sums.push(row);
        }
        sums
    }

    /// Where a node splits what goes to a target.
    fn splits(&self, splits: &TargetSplits) -> Table {
        let arcs = self.compared.capillary.arcs();
        let mut table = Table::new(["at", "to", "parts"]);
        for split in splits.splits().iter().filter(|split| split.parts.len() > 1) {
            let parts: Vec<String> = split
                .parts
                .iter()
                .map(|&(arc, parts)| format!("{parts} {}", self.network.name(arcs[arc as usize].to)))
                .collect();
            let [node, target] = [split.node, split.target].map(|node| self.network.name(node).to_string());
            table.push(vec![node, target, parts.join(", ")]);
        }
        table
    }

    /// The arcs that carry something, by falling utilisation.
    fn arcs(&self) -> Table {
        let header = ["level", "utilisation", "multipath", "load", "capacity", "link", "from", "to"];
        let mut table = Table::new(header);
        let arcs = self.compared.capillary.arcs().iter();
        let mut used: Vec<(&ArcUse, &ArcUse)> = arcs.zip(self.compared.multipath()).collect();
        used.retain(|(arc, before)| arc.level.is_some() || arc.load > 0.0 || before.load > 0.0);
        used.sort_by(|a, b| b.0.utilisation.total_cmp(&a.0.utilisation).then(a.0.link.cmp(&b.0.link)));
        for (arc, before) in used {
            table.push_cells(vec![
                arc.level.map_or(String::new(), |level| level.to_string()).into(),
                Cell::number(arc.utilisation),
                Cell::number(before.utilisation),
                Cell::number(arc.load),
                Cell::number(arc.capacity),
                arc.link.0.to_string().into(),
                self.network.name(arc.from).into(),
                self.network.name(arc.to).into(),
            ]);
        }
        table
    }

    fn json(&self) -> Value {
        let routing = &self.compared.capillary;
        let levels: Vec<Value> = routing
            .levels()
            .iter()
            .map(|level| json!({ "number": level.number, "utilisation": level.utilisation, "arcs": level.arcs }))
            .collect();
        let effort = routing.effort();
        let mut object = json!({
            "demands": routing.demands().len(),
            "total": self.total,
            "routings": self.routings_json(),
            "levels": levels,
            "arcs": self.arcs_json(),
            "paths": self.paths_json(),
            "certificate": self.certificate_json(),
            "solver": {
                "name": "path-simplex", "steps": effort.steps, "pivots": effort.pivots, "trees": effort.trees,
                "seconds": self.compared.seconds, "proved": true,
            },
        });
        if let Some((splits, _)) = &self.quantized {
            object["quantized"] = json!({ "parts": splits.parts(), "splits": self.splits_json(splits) });
        }
        object
    }

    fn routings_json(&self) -> Vec<Value> {
        let row = |loads: &Loads| {
            json!({
                "routing": loads.routing, "largest_utilisation": loads.largest(),
                "mean_utilisation": loads.mean(), "mean_links": loads.mean_links(self.total),
                "mean_delay_ms": loads.mean_delay_ms(self.network, self.total),
            })
        };
        self.loads().map(row).collect()
    }

    fn arcs_json(&self) -> Vec<Value> {
        let arcs = self.compared.capillary.arcs().iter().zip(self.compared.multipath());
        let arc = |(arc, before): (&ArcUse, &ArcUse)| {
            let ([from, to], [from_name, to_name]) = self.ends(arc.from, arc.to);
            json!({
                "link": arc.link.0, "from": from, "to": to, "from_name": from_name, "to_name": to_name,
                "capacity": arc.capacity, "load": arc.load, "utilisation": arc.utilisation,
                "level": arc.level, "multipath": before.utilisation,
            })
        };
        arcs.map(arc).collect()
    }

    /// The ids of two nodes, and their names.
    fn ends(&self, from: capillary::NodeId, to: capillary::NodeId) -> ([&str; 2], [&str; 2]) {
        let id = |node| self.network.topology.node_weight(node).id.as_str();
        ([from, to].map(id), [from, to].map(|node| self.network.name(node)))
    }

    /// Each path with its demand's ends.
    fn paths_json(&self) -> Vec<Value> {
        let routing = &self.compared.capillary;
        let paths = routing.paths().iter().map(|path| {
            let demand = routing.demands()[path.demand];
            let ([from, to], [from_name, to_name]) = self.ends(demand.source, demand.target);
            json!({
                "from": from, "to": to, "from_name": from_name, "to_name": to_name, "demand": demand.amount,
                "amount": path.amount, "arcs": path.arcs, "delay_ms": self.delay_ms(path),
            })
        });
        paths.collect()
    }

    /// The delay of a path, if each of its links has one.
    fn delay_ms(&self, path: &DemandPath) -> Option<f64> {
        let arcs = self.compared.capillary.arcs();
        let delay = |&arc: &u32| self.network.topology.link_weight(arcs[arc as usize].link).delay;
        path.arcs.iter().map(|arc| Some(delay(arc)?.as_secs_f64() * 1e3)).sum()
    }

    fn splits_json(&self, splits: &TargetSplits) -> Vec<Value> {
        let split = |split: &capillary::matrix::TargetSplit| {
            let ([at, to], [at_name, to_name]) = self.ends(split.node, split.target);
            json!({ "at": at, "to": to, "at_name": at_name, "to_name": to_name, "arcs": split.parts })
        };
        splits.splits().iter().map(split).collect()
    }

    fn certificate_json(&self) -> Vec<Value> {
        let bounds = self.compared.capillary.certificate().bounds().iter();
        bounds
            .map(|bound| json!({ "level": bound.level, "prices": bound.prices, "settled": bound.settled }))
            .collect()
    }
}
