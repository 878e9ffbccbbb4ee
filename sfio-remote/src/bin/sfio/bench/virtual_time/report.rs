//! What came of the placements, for people and for machines.

use std::path::{Path, PathBuf};
use std::time::Duration;

use program::Table;
use program::chart::{Chart, Curve, GREY, Label, Panel, Scale, distinct};
use serde::{Deserialize, Serialize};
use sfio_remote::sim::{Job, Machine, Measured};

use super::TrafficName;
use crate::exit::{Exit, Failure, OrFail as _};

/// All rows.
#[derive(Debug)]
pub(super) struct Report {
    pub(super) machine: String,
    pub(super) traffic: TrafficName,
    pub(super) rows: Vec<Row>,
}

/// All placements of one number of processes.
#[derive(Debug, Serialize, Deserialize)]
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

/// What `--json` prints.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Printed {
    machine: String,
    rows: Vec<Row>,
}

/// The rows of files that `--json` printed, in the order in which one run would have measured them.
pub(super) fn read(files: &[PathBuf], machine: &Machine) -> Result<Vec<Row>, Failure> {
    let mut rows = Vec::new();
    for file in files {
        rows.append(&mut read_file(file, machine)?);
    }
    rows.sort_by_key(|row| (row.stripe_unit_bytes, row.clients, row.io_nodes));
    Ok(rows)
}

fn read_file(file: &Path, machine: &Machine) -> Result<Vec<Row>, Failure> {
    let name = || file.display().to_string();
    let text = std::fs::read_to_string(file).or_fail(Exit::Input, name())?;
    let printed: Printed = serde_json::from_str(&text)
        .or_fail(Exit::Input, format!("{}: expected what bench --virtual --json prints", name()))?;
    match printed.machine == machine.name() {
        true => Ok(printed.rows),
        false => {
            let expected = machine.name();
            let found = printed.machine;
            Err(Failure::new(Exit::Input, format!("{}: rows of {found}; expected {expected}", name())))
        }
    }
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
    pub(super) fn printed(self) -> Printed {
        Printed { machine: self.machine, rows: self.rows }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn row(clients: usize, stripe_unit_bytes: u64) -> Row {
        Row {
            clients,
            io_nodes: clients,
            stripe_unit_bytes,
            bytes_per_client: 20_000_000,
            placements: 53,
            limit_bytes_per_s: 2e6,
            mean_bytes_per_s: 1.8e6,
            best_bytes_per_s: 1.9e6,
            together_bytes_per_s: 1.9e6,
            mean_of_limit: 0.9,
            best_of_limit: 0.95,
            least_of_limit: 0.85,
            together_mean_of_limit: 0.95,
            together_best_of_limit: 0.97,
            together_least_of_limit: 0.9,
            virtual_s: 1.5,
            took_s: 7.0,
            hash: "5f".repeat(32),
        }
    }

    fn machine(name: &str) -> Machine {
        Machine::named(name).expect("there is such a machine")
    }

    /// A file with these rows, of one machine.
    fn written(folder: &Path, name: &str, rows: Vec<Row>) -> PathBuf {
        let report = Report { machine: Machine::NAMES[0].to_owned(), traffic: TrafficName::AllToAll, rows };
        let text = serde_json::to_string(&report.printed()).expect("numbers and texts");
        let file = folder.join(name);
        std::fs::write(&file, text).expect("the folder can be written to");
        file
    }

    #[test]
    fn rows_of_several_files_stand_as_if_one_run_had_measured_them() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let files = [
            written(folder.path(), "second", vec![row(9, 200), row(3, 65_536)]),
            written(folder.path(), "first", vec![row(3, 200)]),
        ];
        let rows = read(&files, &machine(Machine::NAMES[0])).expect("two files that were just written");
        let found: Vec<(u64, usize)> = rows.iter().map(|row| (row.stripe_unit_bytes, row.clients)).collect();
        assert_eq!(found, [(200, 3), (200, 9), (65_536, 3)]);
        assert!((rows[0].best_of_limit - 0.95).abs() < 1e-12);
    }

    #[test]
    fn rows_of_another_machine_and_other_files_are_refused_by_name() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let file = written(folder.path(), "rows.json", vec![row(3, 200)]);
        let refused = |file: &Path, machine_name: &str| {
            let error = read(&[file.to_owned()], &machine(machine_name)).expect_err("it does not fit");
            format!("{error:?}")
        };
        let of_another = refused(&file, Machine::NAMES[1]);
        assert!(
            of_another.contains("rows.json: rows of swiss-t1-ethernet; expected swiss-t1-tnet"),
            "{of_another}"
        );
        std::fs::write(&file, "clients,io_nodes\n").expect("the folder can be written to");
        let of_no_rows = refused(&file, Machine::NAMES[0]);
        assert!(
            of_no_rows.contains("rows.json: expected what bench --virtual --json prints"),
            "{of_no_rows}"
        );
    }
}
