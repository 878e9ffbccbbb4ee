//! `ror matrix`: what every demand of a traffic matrix asks for.

use std::num::NonZeroU32;
use std::path::PathBuf;

use capillary::baseline::{self, RANDOM_PATHS, RANDOM_SEED};
use capillary::cli::{TopologyFile, total_demand};
use capillary::format::read_traffic;
use capillary::matrix::{Demand, MatrixRouting, TrafficMatrix, solve};
use capillary::{NodeId, Routing, SolveError, Topology};
use program::Table;
use program::quantity::count;
use program::table::{Cell, counted, number};
use ror::CostTable;
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::rated::Rated;
use crate::source::{Coding, topology};
use crate::{Format, Printing};

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).args(["demands", "gravity"]))]
#[command(
    after_help = "Example:\n  ror matrix abilene.xml --capacity module_capacity --demands abilene.xml --json"
)]
pub(crate) struct Matrix {
    #[command(flatten)]
    file: TopologyFile,
    /// The demands: SNDlib (the network's own file or another), TopoHub's JSON, Repetita, or a table with the columns
    /// from, to and demand
    #[arg(long, value_name = "FILE")]
    demands: Option<PathBuf>,
    /// The same for demands that follow the capacities of the nodes' links (gravity) and are X in all
    #[arg(long, value_name = "X", value_parser = total_demand)]
    gravity: Option<f64>,
    /// Stop at this level of the matrix's routing
    #[arg(long, value_parser = count)]
    layers: Option<NonZeroU32>,
    #[command(flatten)]
    coding: Coding,
    #[command(flatten)]
    printing: Printing,
}

/// The routings that a demand is rated under; the matrix's own is the last.
const ROUTINGS: [&str; 5] =
    ["shortest path", "equal-cost multipath", "random multipath", "capillary, alone", "capillary, all"];

/// A demand with its ratings under each of [`ROUTINGS`].
struct Row {
    demand: Demand,
    rated: Vec<Rated>,
    /// The largest share of the demand on a link that is not critical, and the packets that a block needs while that
    /// link is down, under the matrix's routing; `None`: all of its links are critical.
    worst: Option<(f64, u32)>,
}

/// A rated matrix.
struct Answer<'a> {
    topology: &'a Topology,
    coding: &'a Coding,
    rows: Vec<Row>,
}

impl Matrix {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let topology = topology(&self.file)?;
        let traffic = self.traffic(&topology)?;
        let routing = solve(&topology, &traffic, self.layers)
            .map_err(|error| Failure::Input(self.file.path().into(), error.to_string()))?;
        let law = CostTable::new(self.coding.law()?);
        let row = |index| self.row(&topology, &routing, index, &law);
        let rows = (0..routing.demands().len()).map(row).collect::<Result<_, _>>()?;
        let answer = Answer { topology: &topology, coding: &self.coding, rows };
        let columns = self.printing.columns();
        self.printing.put(&match self.printing.format() {
            Format::Table => answer.text(columns),
            Format::Csv => answer.demands("").csv(),
            Format::Json => format!("{:#}\n", answer.json()),
        })
    }

    fn traffic(&self, topology: &Topology) -> Result<TrafficMatrix, Failure> {
        let Some(path) = &self.demands else {
            let total =
                self.gravity.ok_or_else(|| Failure::Usage("--demands or --gravity is needed".into()))?;
            return Ok(TrafficMatrix::gravity_of(topology, total));
        };
        let bytes = capillary::cli::read(path).map_err(|error| Failure::File(path.clone(), error))?;
        read_traffic(&bytes, topology).map_err(|error| Failure::Read(path.clone(), error))
    }

    fn row(
        &self,
        topology: &Topology,
        matrix: &MatrixRouting,
        index: usize,
        law: &CostTable,
    ) -> Result<Row, Failure> {
        let demand = matrix.demands()[index];
        let share = matrix.share(topology, index).map_err(SolveError::from)?;
        let largest = share.used_links().filter(|(_, link)| !link.is_critical());
        let largest = largest.map(|(_, link)| link.flow.abs()).reduce(f64::max);
        let packets = |loss: f64| Ok::<_, Failure>((loss, self.coding.law()?.block_length(loss)?));
        let worst = largest.map(packets).transpose()?;
        let routings = routings(topology, demand, share)?;
        let rate =
            |(name, routing): (&str, Routing)| Rated::of((name.into(), None, routing), &self.coding, law);
        let rated = ROUTINGS.into_iter().zip(routings).map(rate).collect::<Result<_, _>>()?;
        Ok(Row { demand, rated, worst })
    }
}

/// How a demand is routed, in the order of [`ROUTINGS`].
fn routings(topology: &Topology, demand: Demand, share: Routing) -> Result<[Routing; 5], SolveError> {
    let Demand { source, target, .. } = demand;
    Ok([
        baseline::shortest_path(topology, source, target)?,
        baseline::equal_cost_multipath(topology, source, target)?,
        baseline::random_multipath(topology, source, target, RANDOM_PATHS, RANDOM_SEED)?,
        capillary::solve(topology, source, target)?,
        share,
    ])
}

impl Row {
    fn of_matrix(&self) -> Option<&Rated> {
        self.rated.last()
    }
}

impl Answer<'_> {
    fn total(&self) -> f64 {
        self.rows.iter().map(|row| row.demand.amount).sum()
    }

    /// The mean rating of the demands by their amounts under a routing, at a tolerance, with short and with large
    /// blocks; `None` if no demand has one.
    fn mean(&self, routing: usize, tolerance: usize) -> [Option<f64>; 2] {
        let mean = |rating: &dyn Fn(&Rated) -> Option<f64>| {
            let rated =
                self.rows.iter().filter_map(|row| Some((row.demand.amount, rating(&row.rated[routing])?)));
            let (sum, weight) = rated
                .fold((0.0, 0.0), |(sum, weight), (amount, rating)| (sum + amount * rating, weight + amount));
            (weight > 0.0).then(|| sum / weight)
        };
        [mean(&|rated| rated.short[tolerance]), mean(&|rated| rated.large[tolerance])]
    }

    /// How many demands have a critical link under a routing, and how many have no other.
    fn critical(&self, routing: usize) -> [usize; 2] {
        let rated = |row: &&Row| row.rated[routing].routing.critical_links().next().is_some();
        let unrated =
            |row: &&Row| row.rated[routing].routing.used_links().all(|(_, link)| link.is_critical());
        [self.rows.iter().filter(rated).count(), self.rows.iter().filter(unrated).count()]
    }

    fn ratings(&self) -> impl Iterator<Item = String> {
        self.coding.tolerances.iter().flat_map(|t| [format!("short t={t}"), format!("large t={t}")])
    }

    /// The routings beside each other.
    fn means(&self) -> Table {
        let header = ["routing", "with critical links", "not rated"].map(String::from);
        let mut table = Table::new(header.into_iter().chain(self.ratings()));
        for (index, name) in ROUTINGS.into_iter().enumerate() {
            let mut cells = vec![Cell::from(name)];
            cells.extend(self.critical(index).map(|count| count.to_string().into()));
            for tolerance in 0..self.coding.tolerances.len() {
                let cell = |mean: Option<f64>| mean.map_or("–".into(), Cell::fixed);
                cells.extend(self.mean(index, tolerance).map(cell));
            }
            table.push_cells(cells);
        }
        table
    }

    /// A row for each demand under the matrix's routing.
    fn demands(&self, none: &'static str) -> Table {
        let header =
            ["from", "to", "demand", "links", "critical", "largest share", "block"].map(String::from);
        let mut table = Table::new(header.into_iter().chain(self.ratings()));
        for row in &self.rows {
            let Some(rated) = row.of_matrix() else { continue };
            let name = |node: NodeId| Cell::from(self.topology.node_weight(node).name());
            let mut cells =
                vec![name(row.demand.source), name(row.demand.target), Cell::number(row.demand.amount)];
            let counts = [rated.routing.used_links().count(), rated.routing.critical_links().count()];
            cells.extend(counts.map(|count| count.to_string().into()));
            cells.extend(match row.worst {
                Some((share, packets)) => [Cell::number(share), packets.to_string().into()],
                None => [none, none].map(Cell::from),
            });
            cells.extend(rated.cells(none));
            table.push_cells(cells);
        }
        table
    }

    fn text(&self, columns: Option<usize>) -> String {
        let legend = format!(
            "\nROR at the static tolerance t: with blocks of {} source packets (decoding error rate {:e}), and with very \
             large ones; above the mean of the demands by their amounts. Block: the packets of a block while the link with \
             the largest share of the demand is down. Critical links carry all of a demand and are not in the sum; a demand \
             without any other link is not rated.\n",
            self.coding.m, self.coding.der
        );
        let [means, demands] = [self.means(), self.demands("–")].map(|table| table.folded(columns));
        let count = counted(self.rows.len(), "demand");
        let total = number(self.total());
        let legend = program::output::wrapped(&legend, columns);
        format!("{count}, {total} in all\n\n{means}\n{demands}{legend}")
    }

    fn json(&self) -> Value {
        let tolerances = || self.coding.tolerances.iter().enumerate();
        let mean = |(index, name): (usize, &str)| {
            let [critical, unrated] = self.critical(index);
            let means: Vec<Value> = tolerances()
                .map(|(position, tolerance)| {
                    let [short, large] = self.mean(index, position);
                    json!({ "tolerance": tolerance, "ror_short": short, "ror_large": large })
                })
                .collect();
            json!({ "routing": name, "with_critical_links": critical, "not_rated": unrated, "means": means })
        };
        let routings: Vec<Value> = ROUTINGS.into_iter().enumerate().map(mean).collect();
        let rows: Vec<Value> = self.rows.iter().map(|row| self.row_json(row)).collect();
        json!({
            "network": self.topology.name(), "m": self.coding.m, "der": self.coding.der,
            "demands": self.rows.len(), "total": self.total(), "routings": routings, "rows": rows,
        })
    }

    fn row_json(&self, row: &Row) -> Value {
        let node = |node: NodeId| self.topology.node_weight(node);
        let (from, to) = (node(row.demand.source), node(row.demand.target));
        let ratings = |rated: &Rated| -> Vec<Value> {
            let rows = self.coding.tolerances.iter().zip(rated.short.iter().zip(&rated.large));
            rows.map(|(t, (short, large))| json!({ "tolerance": t, "ror_short": short, "ror_large": large }))
                .collect()
        };
        let routings: Vec<Value> = row
            .rated
            .iter()
            .map(|rated| {
                let critical: Vec<u32> = rated.routing.critical_links().map(|link| link.0).collect();
                json!({
                    "routing": rated.name, "links_used": rated.routing.used_links().count(),
                    "critical_links": critical, "ratings": ratings(rated),
                })
            })
            .collect();
        json!({
            "from": from.id, "to": to.id, "from_name": from.name(), "to_name": to.name(),
            "demand": row.demand.amount, "largest_share": row.worst.map(|(share, _)| share),
            "block": row.worst.map(|(_, packets)| packets), "routings": routings,
        })
    }
}
