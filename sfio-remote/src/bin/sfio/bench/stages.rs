//! The stages of collective writes as a picture, as figure 1 of the study has them: how much of the time each takes.

use program::chart::{Chart, Curve, Label, Panel, Scale, distinct};
use sfio_remote::collective::Stage;

/// Half of the width of a bar, where stages are 1 apart.
const HALF: f64 = 0.35;

/// A write with a panel of its own: its title, and how long it was in each stage.
pub(super) type Write = (String, [f64; 7]);

/// A panel of bars for each write.
pub(super) fn chart(writes: &[Write]) -> Chart {
    let panel = |(title, stages): &Write| {
        let whole: f64 = stages.iter().sum();
        let share = |seconds: f64| if whole > 0.0 { 100.0 * seconds / whole } else { 0.0 };
        let bar = |(index, seconds): (usize, &f64)| Curve {
            points: bar(index as f64 + 1.0, share(*seconds)),
            colour: distinct(index),
            dashed: false,
            band: Vec::new(),
        };
        Panel { title: title.clone(), curves: stages.iter().enumerate().map(bar).collect() }
    };
    let stages = Stage::ALL.into_iter().enumerate();
    let legend = stages
        .map(|(index, stage)| Label::solid(format!("{}: {}", stage.name(), stage.words()), distinct(index)));
    Chart {
        title: "Stages of a collective write, on average over the ranks".to_owned(),
        x: "stage".to_owned(),
        x_scale: Scale::Whole,
        y: "share of the time in %".to_owned(),
        panels: writes.iter().map(panel).collect(),
        legend: legend.collect(),
    }
}

/// The outline of a bar.
fn bar(at: f64, height: f64) -> Vec<(f64, f64)> {
    let (left, right) = (at - HALF, at + HALF);
    vec![(left, 0.0), (left, height), (right, height), (right, 0.0), (left, 0.0)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_as_high_as_the_share_of_its_stage() {
        let chart = chart(&[("8 ranks".to_owned(), [0.0, 0.1, 0.0, 0.0, 0.1, 0.6, 0.2])]);
        let heights = chart.panels[0].curves.iter().map(|curve| curve.points[1].1.round());
        assert_eq!(heights.collect::<Vec<_>>(), [0.0, 10.0, 0.0, 0.0, 10.0, 60.0, 20.0]);
    }
}
