//! The figures of an analysis as pictures.

use std::path::Path;

use program::chart::{self, Chart, Curve, GREY, Panel, Scale, distinct};
use sfio_trace::analysis::{Axis, Figure, Report, Series};

use crate::exit::Failure;

/// Draws each figure into a file of the folder.
pub(super) fn draw(report: &Report, folder: &Path, ending: &str) -> Result<(), Failure> {
    report.figures().iter().try_for_each(|figure| {
        let path = folder.join(format!("{}.{ending}", figure.name));
        chart::draw(&drawn(figure), &path)
    })
}

/// A figure as a chart. A dashed curve belongs to the solid one before it, and has its colour.
fn drawn(figure: &Figure) -> Chart {
    let mut colours = Vec::new();
    for series in &figure.series {
        let shares = series.dashed && !colours.is_empty();
        let next = colours.last().map_or(0, |last: &usize| last + 1);
        colours.push(if shares { next - 1 } else { next });
    }
    let curve = |(series, colour): (&Series, &usize)| Curve {
        points: series.points.clone(),
        colour: distinct(*colour),
        dashed: series.dashed,
        band: Vec::new(),
    };
    let curves = figure.series.iter().zip(&colours).map(curve).collect();
    let named = figure.series.iter().zip(&colours);
    let mut legend: Vec<_> = named.map(|(series, colour)| (name(series), distinct(*colour))).collect();
    if figure.series.iter().any(|series| series.dashed) {
        legend.push(("(d) dashed".to_owned(), GREY));
    }
    Chart {
        title: figure.title.to_owned(),
        x: figure.x.to_owned(),
        x_scale: match figure.axis {
            Axis::Size => Scale::PowersOfTwo,
            Axis::Exponent | Axis::Percent => Scale::Linear,
        },
        y: figure.y.to_owned(),
        panels: vec![Panel { title: String::new(), curves }],
        legend,
    }
}

fn name(series: &Series) -> String {
    if series.dashed { format!("{} (d)", series.name) } else { series.name.to_owned() }
}
