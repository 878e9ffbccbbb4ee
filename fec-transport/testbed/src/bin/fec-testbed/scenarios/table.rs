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
    /// The columns of the terminal, if that is where the table goes.
    columns: Option<usize>,
}

impl Table {
    pub(crate) fn new(scenarios: &[Scenario]) -> Table {
        let widths = scenarios.iter().map(|scenario| scenario.name().chars().count());
        Table { name_width: widths.max().unwrap_or(0), columns: program::output::columns(None) }
    }

    /// A row; where it does not fit, the name has a line of its own, and words go on below.
    fn row(&self, verdict: &str, name: &str, numbers: &str, also: &str) -> String {
        let row = format!("{verdict:4} {name:<0$}{numbers}  {also}", self.name_width);
        let Some(columns) = self.columns.filter(|columns| row.chars().count() > *columns) else { return row };
        let folded = |text: &str| program::output::wrapped(text, Some(columns));
        let also = if also.is_empty() { String::new() } else { folded(&format!("\n     {also}")) };
        format!("{}\n    {numbers}{also}", folded(&format!("{verdict:4} {name}")))
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
            line(self.row("", "scenario", &format!("{headings} {:>6}", "took"), "also"))?;
        }
        let verdict = if outcome.passes() { "PASS" } else { "FAIL" };
        let cell = |(_, metric, digits): &(&str, &str, usize)| match outcome.metric(metric) {
            Some(value) if value.is_finite() => format!(" {value:>8.digits$}"),
            _ => format!(" {:>8}", "–"),
        };
        let cells: String = COLUMNS.iter().map(cell).collect();
        let took = took.as_secs_f64();
        let also = Table::also(outcome, mask_overhead);
        line(self.row(verdict, &outcome.name, &format!("{cells} {took:>5.1}s"), &also))
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
