//! `ror compare`.

use std::num::NonZeroU32;

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::rated::{Rated, mean_path_length, rated};
use crate::source::{Coding, Network, Source};
use crate::{Format, Printing};
use program::Table;
use program::quantity::count;
use program::table::Cell;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  ror compare Abilene.gml --from Seattle --to \"New York\" --tolerances 0.05"
)]
pub(crate) struct Compare {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    coding: Coding,
    /// The layers to stop capillary routing at, besides the whole; those that it does not have are left out
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
        let rated = rated(&network, self.k.get(), &self.layers, &self.coding)?;
        self.printing.put(&match self.printing.format() {
            Format::Table => self.table(&rated, "–").folded(self.printing.columns()),
            Format::Csv => self.table(&rated, "").csv(),
            Format::Json => format!("{:#}\n", self.json(&network, &rated)),
        })
    }

    /// The columns of `capillary compare`, then the ratings.
    fn table(&self, rated: &[Rated], none: &'static str) -> Table {
        let header =
            ["routing", "largest load", "links used", "critical", "mean path length"].map(String::from);
        let tolerances = self.coding.tolerances.iter();
        let ratings = tolerances.flat_map(|t| [format!("ROR t={t}"), format!("large blocks t={t}")]);
        let mut table = Table::new(header.into_iter().chain(ratings));
        for rated in rated {
            let routing = &rated.routing;
            let facts = [
                rated.name.as_str().into(),
                Cell::number(routing.largest_load()),
                routing.used_links().count().to_string().into(),
                routing.critical_links().count().to_string().into(),
                Cell::number(mean_path_length(routing)),
            ];
            table.push_cells(facts.into_iter().chain(rated.cells(none)).collect());
        }
        table
    }

    fn json(&self, network: &Network, rated: &[Rated]) -> Value {
        let ratings = |rated: &Rated| -> Vec<Value> {
            let rows = self.coding.tolerances.iter().zip(rated.short.iter().zip(&rated.large));
            rows.map(|(t, (short, large))| json!({ "tolerance": t, "short": short, "large": large }))
                .collect()
        };
        let row = |rated: &Rated| {
            json!({
                "routing": rated.name,
                "largest_load": rated.routing.largest_load(),
                "links_used": rated.routing.used_links().count(),
                "critical_links": rated.routing.critical_links().count(),
                "mean_path_length": mean_path_length(&rated.routing),
                "ror": ratings(rated),
            })
        };
        let routings: Vec<Value> = rated.iter().map(row).collect();
        let (m, der) = (self.coding.m, self.coding.der);
        json!({ "network": network.topology.name(), "m": m, "der": der, "routings": routings })
    }
}
