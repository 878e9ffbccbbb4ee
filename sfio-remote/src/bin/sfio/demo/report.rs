//! What the demo tells at its end: for people and for machines.

use std::fmt::Write as _;
use std::time::Duration;

use fec_transport::PathStatus;
use fec_transport::overlay::Overlay;
use program::Table;
use serde::Serialize;

/// A replication that is over sooner says little about the links: half of its first two seconds goes into its start.
const SHORT_SECONDS: f64 = 5.0;

/// The result of a demo; `--json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Whether every byte came back equal.
    pub(crate) ok: bool,
    pub(crate) files: usize,
    pub(crate) bytes: u64,
    /// How long the replication took, without reading back.
    pub(crate) seconds: f64,
    /// Application bit/s while replicating.
    #[serde(rename = "goodput_bps")]
    pub(crate) goodput: f64,
    /// Application bit/s that the emulated links allow to all I/O nodes at once.
    #[serde(rename = "limit_bps")]
    pub(crate) limit: f64,
    pub(crate) goodput_ratio: f64,
    pub(crate) read_seconds: f64,
    #[serde(rename = "read_goodput_bps")]
    pub(crate) read_goodput: f64,
    /// Entries of the folder that are no files.
    pub(crate) skipped: usize,
    pub(crate) paths: Vec<PathReport>,
    pub(crate) kill: Option<KillReport>,
}

/// One path from the client to an I/O node while replicating.
#[derive(Debug, Serialize)]
pub(crate) struct PathReport {
    pub(crate) io_node: String,
    /// The members that it runs through.
    pub(crate) route: Vec<String>,
    pub(crate) links: Vec<String>,
    /// The route as people read it.
    #[serde(skip)]
    pub(crate) route_text: String,
    /// Shares of this I/O node's symbols.
    pub(crate) planned_share: f64,
    pub(crate) actual_share: f64,
    /// The share of its packets that was lost.
    pub(crate) loss: f64,
    pub(crate) symbols: u64,
    pub(crate) repair_symbols: u64,
    /// How often it left the schedule.
    pub(crate) deaths: u64,
}

/// The link that was killed.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct KillReport {
    pub(crate) link: String,
    /// The share of all symbols that it had carried in the last second before.
    pub(crate) share: f64,
    /// The longest time from the failure until two seconds after it in which an I/O node acknowledged no block while
    /// some were on their way to it.
    pub(crate) longest_gap_ms: f64,
    /// The same for the two seconds before the failure: blocks come one by one, so there are gaps without a failure,
    /// too.
    pub(crate) gap_before_ms: f64,
}

/// The rows of one session.
pub(crate) fn path_reports(overlay: &Overlay, io_node: &str, paths: &[PathStatus]) -> Vec<PathReport> {
    let symbols = |path: &PathStatus| path.counters.source_symbols + path.counters.repair_symbols;
    let all: u64 = paths.iter().map(symbols).sum();
    let row = |path: &PathStatus| PathReport {
        io_node: io_node.to_owned(),
        route: path.route.iter().map(|member| overlay.name(*member)).collect(),
        links: links_of(overlay, path),
        route_text: overlay.route_title(&path.route, &path.links),
        planned_share: path.planned_share,
        actual_share: symbols(path) as f64 / all.max(1) as f64,
        loss: path.counters.packets_lost as f64 / path.counters.packets_sent.max(1) as f64,
        symbols: symbols(path),
        repair_symbols: path.counters.repair_symbols,
        deaths: path.counters.deaths,
    };
    paths.iter().map(row).collect()
}

/// The links of a path, for people.
pub(crate) fn links_of(overlay: &Overlay, path: &PathStatus) -> Vec<String> {
    path.links.iter().map(|link| overlay.link_title(*link)).collect()
}

impl Report {
    /// Whether everything came back.
    pub(crate) fn verdict(&self) -> &'static str {
        if self.ok { "every byte came back equal (BLAKE3)" } else { "FILES CAME BACK DIFFERENT" }
    }

    /// The report for people, on a place with so many columns, if they are limited.
    pub(crate) fn to_text(&self, columns: Option<usize>) -> String {
        let mut text = String::new();
        self.write_text(columns, &mut text).expect("a string takes everything");
        text
    }

    fn write_text(&self, columns: Option<usize>, out: &mut String) -> std::fmt::Result {
        writeln!(out, "{} files, {}: {}", self.files, size(self.bytes), self.verdict())?;
        if self.skipped > 0 {
            writeln!(out, "left out: {} entries that are no files (such as symbolic links)", self.skipped)?;
        }
        writeln!(
            out,
            "replicated in {:.1} s at {}, {:.0} % of the {} that the links allow",
            self.seconds,
            rate(self.goodput),
            self.goodput_ratio * 100.0,
            rate(self.limit),
        )?;
        if self.seconds < SHORT_SECONDS {
            out.push_str("much of so short a time is opening files and finding the rates\n");
        }
        writeln!(out, "read back in {:.1} s at {}", self.read_seconds, rate(self.read_goodput))?;
        match &self.kill {
            Some(kill) => writeln!(
                out,
                "killed {}, which had carried {:.0} % of the symbols\nlongest gap in delivery {:.0} ms, and {:.0} ms \
                 before that",
                kill.link,
                kill.share * 100.0,
                kill.longest_gap_ms,
                kill.gap_before_ms
            )?,
            None => writeln!(out, "no link was killed")?,
        }
        write!(out, "\n{}", self.paths().folded(columns))
    }

    fn paths(&self) -> Table {
        let mut table =
            Table::new(["I/O node", "route", "planned", "actual", "loss", "symbols", "repair", "deaths"]);
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        for path in &self.paths {
            table.push(vec![
                path.io_node.clone(),
                path.route_text.clone(),
                percent(path.planned_share),
                percent(path.actual_share),
                percent(path.loss),
                path.symbols.to_string(),
                path.repair_symbols.to_string(),
                path.deaths.to_string(),
            ]);
        }
        table
    }
}

/// Bit/s of so many bytes in that time.
pub(crate) fn bits_per_second(bytes: u64, took: Duration) -> f64 {
    bytes as f64 * 8.0 / took.as_secs_f64().max(1e-9)
}

fn rate(bps: f64) -> String {
    format!("{:.1} Mbit/s", bps / 1e6)
}

fn size(bytes: u64) -> String {
    indicatif::BinaryBytes(bytes).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_names_what_matters() {
        let path = PathReport {
            io_node: "io1".into(),
            route: vec!["client".into(), "r1".into(), "io1".into()],
            links: vec!["client – r1".into(), "r1 – io1".into()],
            route_text: "client – r1 – io1".into(),
            planned_share: 0.5,
            actual_share: 0.4,
            loss: 0.02,
            symbols: 100,
            repair_symbols: 7,
            deaths: 1,
        };
        let kill = KillReport {
            link: "client – r1".into(),
            share: 0.31,
            longest_gap_ms: 120.0,
            gap_before_ms: 95.0,
        };
        let mut report = Report {
            ok: true,
            files: 3,
            bytes: 1 << 20,
            seconds: 2.0,
            goodput: 4e6,
            limit: 8e6,
            goodput_ratio: 0.5,
            read_seconds: 1.0,
            read_goodput: 8e6,
            skipped: 0,
            paths: vec![path],
            kill: Some(kill),
        };
        let text = report.to_text(None);
        for part in [
            "3 files, 1.00 MiB",
            "50 % of the 8.0 Mbit/s",
            "client – r1 – io1",
            "killed client – r1",
            "31 %",
            "120 ms, and 95 ms before",
            "of so short a time",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(report.to_text(Some(80)).lines().all(|line| line.chars().count() < 80), "{text}");
        report.seconds = 20.0;
        assert!(!report.to_text(None).contains("of so short a time"));
    }
}
