//! `capillary compare`.

use std::num::NonZeroU32;

use capillary::baseline::{RANDOM_PATHS, RANDOM_SEED, random_multipath};
use capillary::{NodeId, Routing, SolveError, Topology, baseline, solve, solve_layers};
use serde_json::json;

use crate::source::{Network, Source};
use crate::{Print, Printing, of_rows};
use program::quantity::count;
use program::table::Cell;
use program::{Failure, Table, output};

#[derive(Debug, clap::Args)]
#[command(mut_args(of_rows))]
#[command(
    after_help = "Example:\n  capillary compare Abilene.gml --from Seattle --to \"New York\" --layers 1,2"
)]
pub(crate) struct Compare {
    #[command(flatten)]
    source: Source,
    /// Where the demand comes from
    #[arg(long)]
    from: String,
    /// Where the demand goes
    #[arg(long)]
    to: String,
    /// The layers to stop capillary routing at, besides the whole
    #[arg(long, value_name = "LAYER,…", value_delimiter = ',', default_value = "1,2,3", value_parser = count)]
    layers: Vec<NonZeroU32>,
    /// How many disjoint paths
    #[arg(short, default_value = "3", value_parser = count)]
    k: NonZeroU32,
    #[command(flatten)]
    printing: Printing,
}

impl Compare {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let network = self.source.load()?;
        let (from, to) = (network.find(&self.from)?, network.find(&self.to)?);
        let routings =
            self.routings(&network.topology, from, to).map_err(|error| network.unsolvable(error))?;
        let text = match self.printing.format() {
            Print::Table => table(&routings).to_string(),
            Print::Csv => table(&routings).csv(),
            Print::Json => self.printing.json(&json(&network, &routings)),
            Print::Dot => {
                return Err(Failure::usage("compare has no --format dot"));
            }
        };
        output::put(self.printing.path(), &text)
    }

    fn routings(
        &self,
        topology: &Topology,
        from: NodeId,
        to: NodeId,
    ) -> Result<Vec<(String, Routing)>, SolveError> {
        let k = self.k.get();
        let mut routings = vec![
            ("shortest path".to_string(), baseline::shortest_path(topology, from, to)?),
            ("equal-cost multipath".into(), baseline::equal_cost_multipath(topology, from, to)?),
            ("random multipath".into(), random_multipath(topology, from, to, RANDOM_PATHS, RANDOM_SEED)?),
            (format!("{k} disjoint paths"), baseline::disjoint_paths(topology, from, to, k)?),
            ("maximum flow".into(), baseline::maximum_flow_split(topology, from, to)?),
        ];
        for &layers in &self.layers {
            let pattern = solve_layers(topology, from, to, layers)?.routing;
            routings.push((format!("capillary, layer {layers}"), pattern));
        }
        routings.push(("capillary".into(), solve(topology, from, to)?));
        Ok(routings)
    }
}

/// Σ |flow|: how many links a unit of the demand crosses on average.
fn mean_path_length(routing: &Routing) -> f64 {
    routing.links().iter().map(|link| link.flow.abs()).sum()
}

fn table(routings: &[(String, Routing)]) -> Table {
    let mut table = Table::new(["routing", "largest load", "links used", "critical", "mean path length"]);
    for (name, routing) in routings {
        table.push_cells(vec![
            name.as_str().into(),
            Cell::number(routing.largest_load()),
            routing.used_links().count().to_string().into(),
            routing.critical_links().count().to_string().into(),
            Cell::number(mean_path_length(routing)),
        ]);
    }
    table
}

fn json(network: &Network, routings: &[(String, Routing)]) -> serde_json::Value {
    let rows: Vec<_> = routings
        .iter()
        .map(|(name, routing)| {
            json!({
                "routing": name,
                "largest_load": routing.largest_load(),
                "links_used": routing.used_links().count(),
                "critical_links": routing.critical_links().count(),
                "mean_path_length": mean_path_length(routing),
            })
        })
        .collect();
    json!({ "network": network.topology.name(), "routings": rows })
}
