//! `ror rate`.

use std::num::NonZeroU32;

use serde_json::{Value, json};

use crate::failure::Failure;
use crate::rated::{Rated, rated};
use crate::source::{Coding, Network, Source};
use crate::{Format, Printing};
use program::Table;
use program::quantity::count;
use program::table::Cell;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  ror rate Abilene.gml --from Seattle --to \"New York\" --tolerances 0,0.05 --json"
)]
pub(crate) struct Rate {
    #[command(flatten)]
    source: Source,
    #[command(flatten)]
    coding: Coding,
    /// The layers of capillary routing to rate, besides the whole; those that it does not have are left out
    #[arg(long, value_name = "LAYER,…", value_delimiter = ',', default_value = "1,2,3,4,5,6,7,8,9,10", value_parser = count)]
    layers: Vec<NonZeroU32>,
    /// How many disjoint paths
    #[arg(short, default_value = "3", value_parser = count)]
    k: NonZeroU32,
    #[command(flatten)]
    printing: Printing,
}

impl Rate {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let network = self.source.load()?;
        let rated = rated(&network, self.k.get(), &self.layers, &self.coding)?;
        self.printing.put(&match self.printing.format() {
            Format::Table => self.table(&rated, "–").folded(self.printing.columns()) + &self.legend(),
            Format::Csv => self.table(&rated, "").csv(),
            Format::Json => format!("{:#}\n", self.json(&network, &rated)),
        })
    }

    fn table(&self, rated: &[Rated], none: &'static str) -> Table {
        let header = ["routing", "links used", "critical"].map(String::from);
        let ratings =
            self.coding.tolerances.iter().flat_map(|t| [format!("short t={t}"), format!("large t={t}")]);
        let mut table = Table::new(header.into_iter().chain(ratings));
        for rated in rated {
            let routing = &rated.routing;
            let counts =
                [routing.used_links().count(), routing.critical_links().count()].map(|n| n.to_string());
            let facts = [rated.name.clone()].into_iter().chain(counts).map(Cell::from);
            table.push_cells(facts.chain(rated.cells(none)).collect());
        }
        table
    }

    fn legend(&self) -> String {
        let text = format!(
            "\nROR at the static tolerance t: with blocks of {} source packets (decoding error rate {:e}), and with very \
             large ones.\nCritical links are not in the sum: no redundancy makes up for them. A routing without any other has \
             no rating.\n",
            self.coding.m, self.coding.der
        );
        program::output::wrapped(&text, self.printing.columns())
    }

    fn json(&self, network: &Network, rated: &[Rated]) -> Value {
        let row = |rated: &Rated, index: usize| {
            json!({
                "routing": rated.name,
                "layer": rated.layer,
                "tolerance": self.coding.tolerances[index],
                "ror_short": rated.short[index],
                "ror_large": rated.large[index],
                "critical_links": rated.routing.critical_links().map(|link| link.0).collect::<Vec<_>>(),
                "links_used": rated.routing.used_links().count(),
            })
        };
        let tolerances = 0..self.coding.tolerances.len();
        let rows: Vec<Value> =
            rated.iter().flat_map(|rated| tolerances.clone().map(move |index| row(rated, index))).collect();
        let (from, to) = (network.id(network.from), network.id(network.to));
        let name = network.topology.name();
        json!({ "network": name, "from": from, "to": to, "m": self.coding.m, "der": self.coding.der, "rows": rows })
    }
}
