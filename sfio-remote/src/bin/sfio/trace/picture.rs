//! The figures of an analysis as pictures.

use std::path::Path;

use program::chart::{self, Chart, Colour, Curve, Label, Panel, Scale, distinct};
use sfio_trace::analysis::{Axis, Figure, Report, Series, figures};

use crate::exit::Failure;

/// Draws each figure into a file of the folder.
pub(super) fn draw(report: &Report, folder: &Path, ending: &str) -> Result<(), Failure> {
    figures(report).iter().try_for_each(|figure| {
        let path = folder.join(format!("{}.{ending}", figure.name));
        chart::draw(&drawn(figure), &path)
    })
}

/// A figure as a chart, without the curves of which there is nothing. A dashed curve belongs to the solid one before
/// it, and has its colour.
fn drawn(figure: &Figure) -> Chart {
    let mut next = 0;
    let colours = figure.series.iter().map(|series| {
        next += usize::from(!series.dashed);
        distinct(next.max(1) - 1)
    });
    let coloured = figure.series.iter().zip(colours).filter(|(series, _)| !series.points.is_empty());
    let (curves, legend) =
        coloured.map(|(series, colour)| (curve(series, colour), label(series, colour))).unzip();
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

fn curve(series: &Series, colour: Colour) -> Curve {
    Curve { points: series.points.clone(), colour, dashed: series.dashed, band: Vec::new() }
}

fn label(series: &Series, colour: Colour) -> Label {
    if series.dashed { Label::dashed(series.name, colour) } else { Label::solid(series.name, colour) }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The legend had curves that were not there, and dashed ones in solid lines.
    #[test]
    fn the_legend_has_the_curves_that_are_drawn() {
        let series = |name, count, dashed| Series { name, points: vec![(1.0, 1.0); count], dashed };
        let figure = Figure {
            name: "sharing",
            title: "",
            x: "",
            axis: Axis::Percent,
            y: "",
            series: vec![
                series("read", 0, false),
                series("read, blocks", 0, true),
                series("written", 3, false),
                series("written, blocks", 3, true),
            ],
        };
        let colour = distinct(1);
        let chart = drawn(&figure);
        assert_eq!(chart.legend, [Label::solid("written", colour), Label::dashed("written, blocks", colour)]);
        let curves = chart.panels[0].curves.iter().map(|curve| (curve.colour, curve.dashed));
        assert_eq!(curves.collect::<Vec<_>>(), [(colour, false), (colour, true)]);
    }
}
