//! Utilisations as curves: of all arcs from the fullest down, or the largest over time or after each failure.

use std::path::Path;

use program::Failure;
use program::chart::{Chart, Curve, Label, Panel, Scale, distinct, draw};

use super::{Compared, Loads};

/// The points of a curve with its name.
type Named<'a> = (&'a str, Vec<(f64, f64)>);

/// The curves of one matrix: for each routing the utilisations of all arcs, from the largest down.
pub(crate) fn sorted(compared: &Compared, title: &str, path: &Path) -> Result<(), Failure> {
    let points = |loads: &Loads| {
        let mut utilisations: Vec<f64> = loads.arcs.iter().map(|arc| arc.utilisation).collect();
        utilisations.sort_by(|a, b| b.total_cmp(a));
        (1..).map(f64::from).zip(utilisations).collect()
    };
    let curves: Vec<Named<'_>> = compared.loads.iter().map(|loads| (loads.routing, points(loads))).collect();
    put(title, "arcs, from the fullest down", "utilisation", curves, path)
}

/// The largest utilisation of each routing, by matrix.
pub(crate) fn over_time(rows: &[Vec<(&'static str, f64)>], title: &str, path: &Path) -> Result<(), Failure> {
    let names = rows.first().map_or(0, Vec::len);
    let curve = |place: usize| {
        let points = rows.iter().zip(1..).map(|(row, time)| (f64::from(time), row[place].1)).collect();
        (rows[0][place].0, points)
    };
    put(title, "matrix", "largest utilisation", (0..names).map(curve).collect(), path)
}

/// The largest utilisation after each failure, from the worst down: of the routing planned anew and of equal-cost
/// multipath. Failures that leave nothing to carry have none.
pub(crate) fn after_failures(after: &[(f64, f64)], title: &str, path: &Path) -> Result<(), Failure> {
    let sorted = |of: fn(&(f64, f64)) -> f64| {
        let mut largest: Vec<f64> = after.iter().map(of).collect();
        largest.sort_by(|a, b| b.total_cmp(a));
        (1..).map(f64::from).zip(largest).collect()
    };
    let curves =
        vec![("capillary", sorted(|after| after.0)), ("equal-cost multipath", sorted(|after| after.1))];
    put(title, "failures, from the worst down", "largest utilisation after", curves, path)
}

fn put(title: &str, x: &str, y: &str, curves: Vec<Named<'_>>, path: &Path) -> Result<(), Failure> {
    let legend = curves.iter().enumerate().map(|(index, (name, _))| Label::solid(*name, distinct(index)));
    let legend = legend.collect();
    let curve = |(index, (_, points)): (usize, Named<'_>)| Curve {
        points,
        colour: distinct(index),
        dashed: false,
        band: Vec::new(),
    };
    let panel = Panel { title: String::new(), curves: curves.into_iter().enumerate().map(curve).collect() };
    let chart = Chart {
        title: title.into(),
        x: x.into(),
        x_scale: Scale::Whole,
        y: y.into(),
        panels: vec![panel],
        legend,
    };
    draw(&chart, path)
}
