//! What came of each storage, and which one suits.

use program::{Table, output};
use serde::Serialize;
use sfio_trace::replay::{Pace, Work};

use super::{Calls, Played, Storage};

/// Rows that take so much longer than the fastest, as a share of it, are as good as that.
const AS_GOOD: f64 = 0.02;

/// All rows.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    processes: usize,
    calls: usize,
    read_bytes: u64,
    written_bytes: u64,
    pace: &'static str,
    rows: Vec<Row>,
    /// Which row, counted from 0.
    recommended: Option<usize>,
}

/// One storage.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    stripe_unit_bytes: u64,
    io_nodes: u16,
    calls: Calls,
    took_s: f64,
    /// The mean and the longest time of a call.
    call_mean_s: f64,
    call_longest_s: f64,
}

impl Row {
    pub(super) fn new(storage: &Storage, played: &Played) -> Row {
        let times: Vec<f64> =
            played.times.iter().map(|(start, end)| end.saturating_sub(*start) as f64 / 1e6).collect();
        Row {
            stripe_unit_bytes: storage.stripe_unit.bytes(),
            io_nodes: storage.io_nodes,
            calls: storage.calls,
            took_s: played.took().as_secs_f64(),
            call_mean_s: times.iter().sum::<f64>() / times.len().max(1) as f64,
            call_longest_s: times.iter().copied().fold(0.0, f64::max),
        }
    }
}

impl Report {
    pub(super) fn new(work: &Work, pace: Pace) -> Report {
        let processes: std::collections::BTreeSet<_> = work.calls().iter().map(|call| call.process).collect();
        let (read_bytes, written_bytes) = work.bytes();
        Report {
            processes: processes.len(),
            calls: work.calls().len(),
            read_bytes,
            written_bytes,
            pace: match pace {
                Pace::Fast => "fast",
                Pace::Think => "think",
                Pace::Recorded => "recorded",
            },
            rows: Vec::new(),
            recommended: None,
        }
    }

    /// One more row; the recommended one is the fastest, and among those as good as that the one with the fewest I/O
    /// nodes, then one with calls as the program makes them, then the one with the largest stripe unit.
    pub(super) fn push(&mut self, row: Row) {
        self.rows.push(row);
        let fastest = self.rows.iter().map(|row| row.took_s).fold(f64::INFINITY, f64::min);
        let good = self.rows.iter().enumerate().filter(|(_, row)| row.took_s <= fastest * (1.0 + AS_GOOD));
        let best =
            good.min_by_key(|(_, row)| (row.io_nodes, row.calls, std::cmp::Reverse(row.stripe_unit_bytes)));
        self.recommended = best.map(|(index, _)| index);
    }

    pub(super) fn text(&self, columns: Option<usize>) -> String {
        let header = ["stripe unit", "I/O nodes", "calls", "time s", "MB/s", "call ms", "longest ms", ""];
        let mut table = Table::new(header);
        let bytes = self.read_bytes as f64 + self.written_bytes as f64;
        for (index, row) in self.rows.iter().enumerate() {
            let mark = if self.recommended == Some(index) { "recommended" } else { "" };
            table.push(vec![
                row.stripe_unit_bytes.to_string(),
                row.io_nodes.to_string(),
                match row.calls {
                    Calls::Independent => "independent".to_owned(),
                    Calls::Collective => "collective".to_owned(),
                },
                format!("{:.3}", row.took_s),
                format!("{:.2}", bytes / row.took_s / 1e6),
                format!("{:.1}", row.call_mean_s * 1e3),
                format!("{:.1}", row.call_longest_s * 1e3),
                mark.to_owned(),
            ]);
        }
        let (read, written) = (self.read_bytes as f64 / 1e6, self.written_bytes as f64 / 1e6);
        let what = format!(
            "{} calls of {} processes, {read:.1} MB read, {written:.1} MB written",
            self.calls, self.processes
        );
        format!("{}\n\n{}", output::wrapped(&what, columns), table.folded(columns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_as_good_with_fewer_io_nodes_is_recommended() {
        let row = |io_nodes, stripe_unit_bytes, took_s| Row {
            stripe_unit_bytes,
            io_nodes,
            calls: Calls::Independent,
            took_s,
            call_mean_s: 0.0,
            call_longest_s: 0.0,
        };
        let mut report = Report::new(&Work::default(), Pace::Fast);
        let rows =
            [row(1, 200, 2.0), row(3, 200, 1.0), row(2, 200, 1.015), row(2, 65_536, 1.01), row(2, 75, 1.1)];
        rows.into_iter().for_each(|row| report.push(row));
        assert_eq!(report.recommended, Some(3));
        // What is no faster asks for no change of the program.
        report.push(Row { calls: Calls::Collective, ..row(2, 1 << 20, 1.0) });
        assert_eq!(report.recommended, Some(3));
    }
}
