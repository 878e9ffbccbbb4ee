//! `ror law`.

use std::path::PathBuf;

use ror::{BlockLaw, DEFAULT_DECODING_ERROR_RATE, DEFAULT_SOURCE_PACKETS};
use serde_json::{Value, json};

use crate::chart;
use crate::failure::Failure;
use crate::{Format, Printing};
use program::Table;
use program::quantity::share;

#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:\n  ror law --m 20 --der 1e-5 --p 0.01,0.05,0.2\n  \
                        ror law --m 1,2,5,10 --plot law.svg --plot law.png\n  \
                        ror law --m 20 --n 24,32,40        # the largest loss that so many packets bear")]
pub(crate) struct Law {
    /// M, the source packets of a block; one or several
    #[arg(long, value_name = "M,…", value_delimiter = ',', default_values_t = [DEFAULT_SOURCE_PACKETS])]
    m: Vec<u32>,
    /// The wanted decoding error rate
    #[arg(long, default_value_t = DEFAULT_DECODING_ERROR_RATE)]
    der: f64,
    /// The losses to tell block lengths for, in [0, 1)
    #[arg(
        long,
        value_name = "P,…",
        value_delimiter = ',',
        default_value = "0.01,0.02,0.05,0.1,0.15,0.2,0.25,0.3,0.4,0.5",
        value_parser = share
    )]
    p: Vec<f64>,
    /// The inverse: the block lengths to tell the largest bearable losses for
    #[arg(long, value_name = "N,…", value_delimiter = ',', conflicts_with_all = ["p", "plot"])]
    n: Vec<u32>,
    /// Draw FEC(M, p)/M up to the largest loss given, as .svg or .png
    #[arg(long, value_name = "FILE", value_parser = program::chart::file)]
    plot: Vec<PathBuf>,
    #[command(flatten)]
    printing: Printing,
}

/// One value of the function.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Point {
    pub(crate) m: u32,
    pub(crate) p: f64,
    pub(crate) n: u32,
}

impl Law {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let points = self.points()?;
        self.printing.put(&match self.printing.format() {
            Format::Table => self.table(&points).folded(self.printing.columns()),
            Format::Csv => self.table(&points).csv(),
            Format::Json => format!("{:#}\n", self.json(&points)),
        })?;
        if self.plot.is_empty() {
            return Ok(());
        }
        let largest = self.p.iter().copied().fold(0.0, f64::max);
        let curves = self.m.iter().map(|&m| Ok((m, steps(&BlockLaw::new(m, self.der)?, largest)?)));
        let chart = chart::law(&curves.collect::<Result<Vec<_>, Failure>>()?, self.der);
        self.plot.iter().try_for_each(|path| chart::draw(&chart, path))
    }

    fn points(&self) -> Result<Vec<Point>, Failure> {
        let mut points = Vec::new();
        for &m in &self.m {
            let law = BlockLaw::new(m, self.der)?;
            if self.n.is_empty() {
                for &p in &self.p {
                    points.push(Point { m, p, n: law.block_length(p)? });
                }
            } else {
                for &n in &self.n {
                    points.push(Point { m, p: law.largest_loss(n)?, n });
                }
            }
        }
        Ok(points)
    }

    fn table(&self, points: &[Point]) -> Table {
        let loss = if self.n.is_empty() { "p" } else { "largest p" };
        let mut table = Table::new(["M", loss, "DER", "N", "N/M", "1/(1-p)"]);
        for &Point { m, p, n } in points {
            let factor = format!("{:.4}", f64::from(n) / f64::from(m));
            let cells = [m.to_string(), p.to_string(), format!("{:e}", self.der), n.to_string(), factor];
            table.push(cells.into_iter().chain([format!("{:.4}", 1.0 / (1.0 - p))]).collect());
        }
        table
    }

    fn json(&self, points: &[Point]) -> Value {
        let row = |point: &Point| json!({ "m": point.m, "p": point.p, "der": self.der, "n": point.n });
        points.iter().map(row).collect()
    }
}

/// The steps of FEC(p): for each block length the largest loss that it bears, up to `largest`.
fn steps(law: &BlockLaw, largest: f64) -> Result<Vec<(f64, f64)>, Failure> {
    /// More steps than this are no longer seen one by one.
    const MOST: u32 = 2_000;
    let m = law.source_packets();
    let last = law.block_length(largest)?;
    let stride = (last - m) / MOST + 1;
    let mut corners = Vec::new();
    let mut from = 0.0;
    for n in (m..=last).step_by(stride as usize) {
        let to = law.largest_loss(n)?.min(largest);
        let factor = f64::from(n) / f64::from(m);
        corners.extend([(from, factor), (to, factor)]);
        from = to;
    }
    Ok(corners)
}
