//! What came of the placements, for people and for machines.

use std::time::Duration;

use program::Table;
use program::chart::{Chart, Curve, GREY, Label, Panel, Scale, distinct};
use serde::Serialize;
use sfio_remote::sim::{Job, Measured};

use super::TrafficName;

/// All rows.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) machine: &'static str,
    pub(super) traffic: TrafficName,
    pub(super) rows: Vec<Row>,
}

/// All placements of one number of processes.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    clients: usize,
    io_nodes: usize,
    stripe_unit_bytes: u64,
    bytes_per_client: u64,
    placements: usize,
    /// What the network carries at most, on average over the placements.
    limit_bytes_per_s: f64,
    mean_bytes_per_s: f64,
    best_bytes_per_s: f64,
    /// Until the first compute process has written, where the others are until the last one has.
    together_bytes_per_s: f64,
    /// Each placement's rate over its own limit.
    mean_of_limit: f64,
    best_of_limit: f64,
    least_of_limit: f64,
    together_mean_of_limit: f64,
    together_best_of_limit: f64,
    together_least_of_limit: f64,
    virtual_s: f64,
    took_s: f64,
    hash: String,
}

#[derive(Serialize)]
struct Printed<'a> {
    machine: &'static str,
    rows: &'a [Row],
}

impl Row {
    pub(super) fn new(
        job: &Job,
        measured: &[Measured],
        (virtual_time, took): (Duration, Duration),
        hash: String,
    ) -> Row {
        let mean = |value: fn(&Measured) -> f64| {
            measured.iter().map(value).sum::<f64>() / measured.len().max(1) as f64
        };
        let most = |value: fn(&Measured) -> f64| measured.iter().map(value).fold(0.0, f64::max);
        let least = |value: fn(&Measured) -> f64| measured.iter().map(value).fold(f64::INFINITY, f64::min);
        let of_limit = |one: &Measured| one.bytes_per_second / one.limit;
        let together = |one: &Measured| one.together_bytes_per_second / one.limit;
        Row {
            clients: job.clients,
            io_nodes: job.io_nodes,
            stripe_unit_bytes: job.stripe_unit.bytes(),
            bytes_per_client: job.bytes,
            placements: measured.len(),
            limit_bytes_per_s: mean(|one| one.limit),
            mean_bytes_per_s: mean(|one| one.bytes_per_second),
            best_bytes_per_s: most(|one| one.bytes_per_second),
            together_bytes_per_s: mean(|one| one.together_bytes_per_second),
            mean_of_limit: mean(of_limit),
            best_of_limit: most(of_limit),
            least_of_limit: least(of_limit),
            together_mean_of_limit: mean(together),
            together_best_of_limit: most(together),
            together_least_of_limit: least(together),
            virtual_s: virtual_time.as_secs_f64(),
            took_s: took.as_secs_f64(),
            hash,
        }
    }
}

impl Report {
    /// What `--json` prints.
    pub(super) fn printed(&self) -> impl Serialize {
        Printed { machine: self.machine, rows: &self.rows }
    }

    pub(super) fn table(&self) -> Table {
        let header = [
            "clients",
            "I/O nodes",
            "stripe",
            "placements",
            "limit MB/s",
            "mean MB/s",
            "best MB/s",
            "mean/limit",
            "best/limit",
            "least/limit",
            "together: mean/limit",
            "best/limit",
            "least/limit",
            "virtual s",
            "took s",
            "hash",
        ];
        let mut table = Table::new(header);
        for row in &self.rows {
            let rates = [row.limit_bytes_per_s, row.mean_bytes_per_s, row.best_bytes_per_s];
            let to_the_last = [row.mean_of_limit, row.best_of_limit, row.least_of_limit];
            let together =
                [row.together_mean_of_limit, row.together_best_of_limit, row.together_least_of_limit];
            let shares = [to_the_last, together].concat();
            let times = [row.virtual_s, row.took_s];
            let counts = [row.clients, row.io_nodes, row.stripe_unit_bytes as usize, row.placements];
            let cells = counts.iter().map(usize::to_string);
            let cells = cells.chain(rates.iter().map(|rate| format!("{:.1}", rate / 1e6)));
            let cells = cells.chain(shares.iter().map(|share| format!("{share:.3}")));
            let cells = cells.chain(times.iter().map(|time| format!("{time:.1}")));
            table.push(cells.chain([row.hash.chars().take(12).collect()]).collect());
        }
        table
    }

    /// Limit, mean and best over the number of nodes; a pair of curves for each stripe unit.
    pub(super) fn chart(&self) -> Chart {
        let mut units: Vec<u64> = self.rows.iter().map(|row| row.stripe_unit_bytes).collect();
        units.dedup();
        let curve = |unit: Option<u64>, value: fn(&Row) -> f64, colour, dashed| {
            let rows = self.rows.iter().filter(|row| unit.is_none_or(|unit| row.stripe_unit_bytes == unit));
            let points = rows.map(|row| (self.place(row), value(row) / 1e6)).collect();
            Curve { points, colour, dashed, band: Vec::new() }
        };
        let mut curves = vec![curve(units.first().copied(), |row| row.limit_bytes_per_s, GREY, false)];
        let mut legend = vec![Label::solid("what the network carries", GREY)];
        for (index, unit) in units.iter().copied().enumerate() {
            let colour = distinct(index);
            curves.push(curve(Some(unit), |row| row.mean_bytes_per_s, colour, false));
            let is_drawn = self.rows.iter().any(|row| row.placements > 1);
            let of = if is_drawn { "mean, best dashed" } else { "measured" };
            if is_drawn {
                curves.push(curve(Some(unit), |row| row.best_bytes_per_s, colour, true));
            }
            legend.push(Label::solid(format!("stripe unit {unit} B: {of}"), colour));
        }
        let (x, what) = match self.traffic {
            TrafficName::AllToAll => ("nodes, each computing and serving", "all to all"),
            TrafficName::Pairs => ("pairs of nodes", "disjoint pairs"),
            TrafficName::Halves => {
                ("contributing nodes, half of them sending", "the first half to the second")
            }
        };
        Chart {
            title: format!("{}: {what}", self.machine),
            x: x.to_owned(),
            x_scale: Scale::Whole,
            y: "MB/s".to_owned(),
            panels: vec![Panel { title: String::new(), curves }],
            legend,
        }
    }

    /// Where a row stands on the horizontal axis.
    fn place(&self, row: &Row) -> f64 {
        match self.traffic {
            TrafficName::AllToAll => row.clients.max(row.io_nodes) as f64,
            TrafficName::Pairs => row.clients as f64,
            TrafficName::Halves => (row.clients + row.io_nodes) as f64,
        }
    }
}
