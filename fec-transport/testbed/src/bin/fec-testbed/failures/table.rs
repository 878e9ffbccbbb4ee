//! The rows for people and for machines.

use fec_testbed::failures::{Row, Summary};
use fec_testbed::output::{Unwritten, line};

use super::Spread;

/// Late blocks may be lost at the decoding error rate; beyond it by so many as chance explains: three deviations.
const DEVIATIONS: f64 = 3.0;

pub(crate) fn print(rows: &[Row], spread: Spread) -> Result<(), Unwritten> {
    line(format_args!(
        "{:>6} {:>5} {:>6} {:>5} {:>7} {:>5} {:>6} {:>7} {:>7} {:>7} {:>6} {:>7} {:>9} {:>6} {:>8}",
        "sample",
        "layer",
        "t",
        "paths",
        "covered",
        "links",
        "failed",
        "ROR",
        "of plan",
        "sent",
        "ratio",
        "usual",
        "late",
        "lost",
        "repaired"
    ))?;
    for row in rows {
        let predicted = spread.predicted(row);
        let planned = if spread == Spread::Random { row.planned_ror } else { row.planned_ror_large };
        line(format_args!(
            "{:>6} {:>5} {:>6} {:>5} {:>7.3} {:>5} {:>6} {:>7.2} {:>7.2} {:>7.2} {:>6.2} {:>7.2} {:>9} {:>6} {:>8}",
            row.sample,
            row.layer,
            row.tolerance,
            row.paths,
            row.covered,
            row.links,
            row.failures,
            predicted,
            planned,
            row.sent,
            row.sent / predicted,
            row.usual_symbols,
            row.late_blocks,
            row.late_lost,
            row.late_repaired
        ))?;
    }
    Ok(())
}

pub(crate) fn summary(tolerance: f64, summary: &Summary) -> Result<(), Unwritten> {
    let number = |value: Option<f64>| value.map_or("–".to_owned(), |value| format!("{value:.3}"));
    let least = summary.correlations.iter().copied().reduce(f64::min);
    line(format_args!("\nt = {tolerance}: {} plans of {} samples", summary.rows, summary.samples))?;
    line(format_args!(
        "  correlation of sent and predicted within a sample: median {}, least {}",
        number(summary.median_correlation),
        number(least)
    ))?;
    if let Some([least, middle, greatest]) = summary.ratio {
        line(format_args!(
            "  sent over predicted: {least:.3} to {greatest:.3}, median {middle:.3}; {:.1} % within 0.7 to 1.3",
            100.0 * summary.within
        ))?;
    }
    line(format_args!(
        "  blocks that started later than 1 s after a failure: {}, of which {} lost and {} repaired",
        summary.late_blocks, summary.late_lost, summary.late_repaired
    ))
}

/// Whether the thesis's claim holds [issue 6].
pub(crate) fn holds(summary: &Summary, decoding_error_rate: f64) -> bool {
    let expected = summary.late_blocks as f64 * decoding_error_rate;
    let few_lost = summary.late_lost as f64 <= expected + DEVIATIONS * expected.sqrt();
    // A single plan has no correlation; then the ratio alone is looked at.
    summary.median_correlation.is_none_or(|median| median >= 0.9) && summary.within == 1.0 && few_lost
}

/// A row as JSON: its fields, how symbols were spread, and sent over predicted.
pub(crate) fn json(row: &Row, spread: Spread) -> serde_json::Value {
    let mut object = serde_json::json!(row);
    object["spread"] = spread.name().into();
    object["ratio"] = (row.sent / spread.predicted(row)).into();
    object
}
