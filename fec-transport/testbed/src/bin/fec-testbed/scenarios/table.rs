//! The table that people see.

use std::time::Duration;

use fec_testbed::output::{Unwritten, line};
use fec_testbed::{Outcome, Scenario};

/// The columns: heading, metric, digits behind the point.
const COLUMNS: [(&str, &str, usize); 7] = [
    ("goodput", "goodput_mbit", 2),
    ("limit", "limit_mbit", 2),
    ("ratio", "ratio", 3),
    ("overhead", "overhead", 3),
    ("stall ms", "stall_ms", 0),
    ("queue ms", "queue_ms", 1),
    ("wire", "wire_ratio", 3),
];

pub(crate) struct Table {
    name_width: usize,
}

impl Table {
    pub(crate) fn new(scenarios: &[Scenario]) -> Table {
        let widths = scenarios.iter().map(|scenario| scenario.name().chars().count());
        Table { name_width: widths.max().unwrap_or(0) }
    }

    /// Prints one scenario; the first one brings the headings.
    pub(crate) fn print(
        &self,
        index: usize,
        outcome: &Outcome,
        mask_overhead: Option<f64>,
        took: Duration,
    ) -> Result<(), Unwritten> {
        if index == 0 {
            let headings: String = COLUMNS.iter().map(|(heading, _, _)| format!(" {heading:>8}")).collect();
            let width = self.name_width;
            line(format_args!("{:4} {:<width$}{headings} {:>6}  also", "", "scenario", "took"))?;
        }
        let verdict = if outcome.passes() { "PASS" } else { "FAIL" };
        let cell = |(_, metric, digits): &(&str, &str, usize)| match outcome.metric(metric) {
            Some(value) if value.is_finite() => format!(" {value:>8.digits$}"),
            _ => format!(" {:>8}", "–"),
        };
        let cells: String = COLUMNS.iter().map(cell).collect();
        let took = took.as_secs_f64();
        let also = Table::also(outcome, mask_overhead);
        line(format_args!("{verdict} {:<1$}{cells} {took:>5.1}s  {also}", outcome.name, self.name_width))
    }

    /// What was expected of metrics without a column, everything that does not hold, what masking costs, and which
    /// links it does not cover.
    fn also(outcome: &Outcome, mask_overhead: Option<f64>) -> String {
        let has_column =
            |metric: &str| metric == "wrong_bytes" || COLUMNS.iter().any(|(_, column, _)| *column == metric);
        let relevant = outcome.checks.iter().filter(|check| !check.holds || !has_column(&check.metric));
        let texts = relevant.map(|check| match check.value {
            None => format!("{}: no such metric", check.metric),
            Some(value) if check.holds => format!("{} {value:.4}", check.metric),
            Some(value) => format!("{} {value:.4}, must be {}", check.metric, check.bound),
        });
        let mut texts: Vec<String> = texts.collect();
        texts.dedup();
        texts.extend(mask_overhead.map(|overhead| format!("masking costs {overhead:.3}")));
        let unmasked = outcome.unmasked_links();
        if !unmasked.is_empty() {
            texts.push(format!("not masked: {}", unmasked.join(", ")));
        }
        texts.join("; ")
    }
}
