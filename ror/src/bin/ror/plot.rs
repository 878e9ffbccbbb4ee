//! `ror plot`.

use std::path::PathBuf;

use crate::chart;
use crate::failure::Failure;
use crate::folder::Folder;
use crate::merge::{Merged, merged};
use crate::plan::Plan;
use crate::ratings::Blocks;
use program::chart::Chart;

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  ror plot DIR                    # writes DIR/plot.svg and DIR/plot.png\n  \
                        ror plot DIR --blocks short -o figure-43.svg -o figure-43.png"
)]
pub(crate) struct Plot {
    /// The folder of a sweep whose shards are all finished
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The kinds of blocks to draw ROR for
    #[arg(long, value_enum, value_name = "KIND,…", value_delimiter = ',', default_value = "short,large")]
    blocks: Vec<Blocks>,
    /// The files to write, .svg or .png; without it plot.svg and plot.png in the folder
    #[arg(short, long, value_name = "FILE", value_parser = program::chart::file)]
    output: Vec<PathBuf>,
}

impl Plot {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let (folder, plan) = Folder::open(&self.folder)?;
        let chart = self.chart(&plan, merged(&folder, &plan, |_| Ok(()))?);
        let own = ["plot.svg", "plot.png"].map(|name| folder.path().join(name));
        let files = if self.output.is_empty() { own.to_vec() } else { self.output.clone() };
        files.iter().try_for_each(|path| chart::draw(&chart, path))
    }

    fn chart(&self, plan: &Plan, merged: Merged) -> Chart {
        match merged {
            Merged::Ratings(ratings) => chart::ratings(&ratings, &self.blocks),
            Merged::Hunts(hunts) => chart::hunts(&hunts),
            Merged::Law(points) => {
                let der =
                    if let Plan::Law(plan) = plan { plan.der } else { ror::DEFAULT_DECODING_ERROR_RATE };
                chart::law(&chart::steps(&points), der)
            }
        }
    }
}
