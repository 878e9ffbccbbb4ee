//! The rates as a picture: one line for each pattern over the stripe units, or for each stripe unit over the fragments.

use program::chart::{Chart, Curve, GREY, Label, Panel, Scale, distinct};

use super::report::{Report, Row};

/// A line of the picture: its name, and its points as size in bytes and rate in bytes per second.
type Line = (String, Vec<(f64, f64)>);

/// The report as a chart: written rates as lines, read rates dashed.
pub(super) fn chart(report: &Report) -> Chart {
    let (written, read) = (lines(report, Row::write_rate), lines(report, Row::read_rate));
    let curves = |lines: &[Line], dashed| {
        let curve = |(index, (_, points)): (usize, &Line)| Curve {
            points: in_order(points),
            colour: distinct(index),
            dashed,
            band: Vec::new(),
        };
        lines.iter().enumerate().map(curve).collect::<Vec<_>>()
    };
    let has_fragments = report.rows.iter().any(|row| row.variant.fragment.is_some());
    let what = if has_fragments { "fragment or stripe unit" } else { "stripe unit" };
    let names = written.iter().enumerate().map(|(index, (name, _))| Label::solid(name, distinct(index)));
    let title = String::new();
    Chart {
        title: "Rates by access pattern".to_owned(),
        x: format!("{what} in bytes"),
        x_scale: Scale::PowersOfTwo,
        y: "MB/s (higher is better)".to_owned(),
        panels: vec![Panel { title, curves: [curves(&written, false), curves(&read, true)].concat() }],
        legend: names.chain([Label::solid("written", GREY), Label::dashed("read", GREY)]).collect(),
    }
}

/// The points from left to right, rates in MB/s.
fn in_order(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let mut points: Vec<_> = points.iter().map(|(size, rate)| (*size, rate / 1e6)).collect();
    points.sort_by(|one, other| one.0.total_cmp(&other.0));
    points
}

fn lines(report: &Report, rate: impl Fn(&Row) -> f64) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in &report.rows {
        let (name, size) = match row.variant.fragment {
            Some(bytes) => (format!("fragments, stripe {}", row.stripe_unit), bytes),
            None => (row.variant.name(), row.stripe_unit.bytes()),
        };
        let point = (size as f64, rate(row));
        match lines.iter_mut().find(|(other, _)| *other == name) {
            Some((_, points)) => points.push(point),
            None => lines.push((name, vec![point])),
        }
    }
    lines
}
