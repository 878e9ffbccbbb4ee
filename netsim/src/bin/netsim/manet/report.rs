//! Rows and their summary, for people or for machines.

use std::time::Duration;

use netsim::mobility::{FrameStatistics, LinkChanges, LinkWatch};
use program::output::Results;
use program::table::counted;
use serde_json::json;

use super::View;
use super::motion::Source;
use crate::failure::Failure;

/// What is said of a frame.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) number: u64,
    pub(super) time: Duration,
    pub(super) statistics: FrameStatistics,
    /// Since the frame before.
    pub(super) changes: Option<LinkChanges>,
    pub(super) minimum_cut: Option<usize>,
}

/// Prints rows and adds them up.
#[derive(Debug)]
pub(super) struct Report<'a> {
    view: &'a View,
    extent: [f64; 2],
    nodes: usize,
    frames: u64,
    sums: Sums,
}

#[derive(Debug, Default)]
struct Sums {
    degree: f64,
    components: f64,
    connected_share: f64,
    minimum_cut: f64,
}

impl<'a> Report<'a> {
    pub(super) fn new(view: &'a View, source: &Source) -> Self {
        Self { view, extent: source.extent(), nodes: source.nodes(), frames: 0, sums: Sums::default() }
    }

    pub(super) fn head(&self, out: &mut Results) -> Result<(), Failure> {
        if self.view.json || self.view.summary {
            return Ok(());
        }
        let cut = if self.view.pair.is_some() { " cut" } else { "" };
        let head = "frame  time links degree isolated components largest connected formed broken";
        out.line(format_args!("{head}{cut}")).map_err(Failure::Output)
    }

    pub(super) fn row(&mut self, row: &Row, out: &mut Results) -> Result<(), Failure> {
        self.frames += 1;
        self.sums.degree += row.statistics.mean_degree();
        self.sums.components += row.statistics.components as f64;
        self.sums.connected_share += row.statistics.connected_share;
        self.sums.minimum_cut += row.minimum_cut.unwrap_or(0) as f64;
        if self.view.summary {
            return Ok(());
        }
        let line = if self.view.json { row.json().to_string() } else { row.text() };
        out.line(line).map_err(Failure::Output)
    }

    pub(super) fn summary(&self, watch: &LinkWatch, out: &mut Results) -> Result<(), Failure> {
        let text = if self.view.json { self.summary_json(watch) } else { self.summary_text(watch) };
        out.print(text).map_err(Failure::Output)
    }

    fn mean(&self, sum: f64) -> f64 {
        sum / self.frames.max(1) as f64
    }

    fn duration_s(&self, watch: &LinkWatch) -> Option<f64> {
        watch.mean_duration(self.view.interval).map(|duration| duration.as_secs_f64())
    }

    fn summary_json(&self, watch: &LinkWatch) -> String {
        let LinkChanges { formed, broken } = watch.changes();
        let summary = json!({
            "frames": self.frames,
            "nodes": self.nodes,
            "extent_m": self.extent,
            "range_m": self.view.range.metres(),
            "interval_s": self.view.interval.as_secs_f64(),
            "mean_degree": self.mean(self.sums.degree),
            "mean_components": self.mean(self.sums.components),
            "mean_connected_share": self.mean(self.sums.connected_share),
            "mean_minimum_cut": self.view.pair.map(|_| self.mean(self.sums.minimum_cut)),
            "links_formed": formed,
            "links_broken": broken,
            "mean_link_duration_s": self.duration_s(watch),
        });
        format!("{}\n", json!({ "summary": summary }))
    }

    fn summary_text(&self, watch: &LinkWatch) -> String {
        let LinkChanges { formed, broken } = watch.changes();
        let [width, height] = self.extent;
        let duration = match self.duration_s(watch) {
            Some(seconds) => format!("{seconds:.1} s ({formed} formed, {broken} broken)"),
            None => "none has broken".into(),
        };
        let nodes = counted(self.nodes, "node");
        let mut lines = vec![
            ("frames", format!("{} of {nodes} in {width:.1} m x {height:.1} m", self.frames)),
            ("mean degree", format!("{:.3}", self.mean(self.sums.degree))),
            ("components", format!("{:.2}", self.mean(self.sums.components))),
            ("connected pairs", format!("{:.2} %", 100.0 * self.mean(self.sums.connected_share))),
            ("link duration", duration),
        ];
        if let Some((a, b)) = self.view.pair {
            let cut = self.mean(self.sums.minimum_cut);
            lines.push(("minimum cut", format!("{cut:.2} between nodes {a} and {b}")));
        }
        let gap = if self.view.summary { "" } else { "\n" };
        lines.into_iter().fold(gap.into(), |text, (name, value)| text + &format!("  {name:<16}  {value}\n"))
    }
}

impl Row {
    fn json(&self) -> serde_json::Value {
        let statistics = &self.statistics;
        json!({
            "frame": self.number,
            "time_s": self.time.as_secs_f64(),
            "nodes": statistics.nodes,
            "links": statistics.links,
            "mean_degree": statistics.mean_degree(),
            "isolated": statistics.isolated,
            "components": statistics.components,
            "largest_component": statistics.largest_component,
            "connected_share": statistics.connected_share,
            "formed": self.changes.map(|changes| changes.formed),
            "broken": self.changes.map(|changes| changes.broken),
            "minimum_cut": self.minimum_cut,
        })
    }

    fn text(&self) -> String {
        let statistics = &self.statistics;
        let change = |count: fn(LinkChanges) -> u64| match self.changes {
            Some(changes) => count(changes).to_string(),
            None => "-".into(),
        };
        let mut text = format!(
            "{:>5} {:>4}s {:>5} {:>6.3} {:>8} {:>10} {:>7} {:>8.2}% {:>6} {:>6}",
            self.number,
            rounded(self.time),
            statistics.links,
            statistics.mean_degree(),
            statistics.isolated,
            statistics.components,
            statistics.largest_component,
            100.0 * statistics.connected_share,
            change(|changes| changes.formed),
            change(|changes| changes.broken),
        );
        if let Some(cut) = self.minimum_cut {
            text += &format!(" {cut:>3}");
        }
        text
    }
}

/// Seconds to the millisecond, without zeros at the end.
fn rounded(time: Duration) -> String {
    let text = format!("{:.3}", time.as_secs_f64());
    text.trim_end_matches('0').trim_end_matches('.').into()
}
