//! What pictures show.

use std::path::Path;

use program::chart::{Chart, Curve, GREY, Panel, Scale, graded};

use crate::failure::Failure;
use crate::hunts::Hunts;
use crate::law::Point;
use crate::ratings::{Blocks, Ratings};

/// M and the corners of FEC(M, p)/M against p.
pub(crate) type Steps = (u32, Vec<(f64, f64)>);

/// Writes a chart to a file.
pub(crate) fn draw(chart: &Chart, path: &Path) -> Result<(), Failure> {
    program::chart::draw(chart, path).map_err(Failure::Picture)
}

/// ROR against the layer, a curve for each tolerance; a panel for each set, if there are several (figures 43, 44).
pub(crate) fn ratings(ratings: &Ratings, blocks: &[Blocks]) -> Chart {
    let count = ratings.tolerances.len();
    let sets: Vec<Option<usize>> =
        if ratings.sets > 1 { (0..ratings.sets).map(Some).chain([None]).collect() } else { vec![None] };
    let panel = |&set: &Option<usize>| {
        let rows = ratings.rows(set);
        let curve = |blocks: Blocks, index: usize| {
            let rows =
                rows.iter().filter(|row| row.blocks == blocks && row.tolerance == ratings.tolerances[index]);
            let points = rows.map(|row| (f64::from(row.layer), row.rating.mean)).collect();
            Curve { points, colour: graded(index, count), dashed: blocks == Blocks::Large }
        };
        let curves = blocks.iter().flat_map(|&blocks| (0..count).map(move |index| (blocks, index)));
        let samples = rows.first().map_or(0, |row| row.rating.samples);
        let title = set.map_or("all sets".into(), |set| format!("set {}", set + 1));
        Panel {
            title: format!("{title}: {samples} samples"),
            curves: curves.map(|(blocks, index)| curve(blocks, index)).collect(),
        }
    };
    let kinds = match blocks {
        [Blocks::Short] => "short blocks",
        [Blocks::Large] => "large blocks",
        _ => "solid: short blocks, dashed: large blocks",
    };
    let legend = ratings.tolerances.iter().enumerate();
    let label = |(index, t): (usize, &f64)| (format!("t = {:.1} %", t * 100.0), graded(index, count));
    Chart {
        title: format!("Average ROR against the layer of capillary routing ({kinds})"),
        x: "layer".into(),
        x_scale: Scale::Linear,
        y: "ROR".into(),
        panels: sets.iter().map(panel).collect(),
        legend: legend.map(label).collect(),
    }
}

/// Mean suspects against the iteration of the hunt, a curve for each layer (figure 41).
pub(crate) fn hunts(hunts: &Hunts) -> Chart {
    let curves = hunts.curves();
    let count = curves.len();
    let curve = |(index, means): (usize, &Vec<f64>)| Curve {
        points: means.iter().enumerate().map(|(iteration, &mean)| (iteration as f64, mean)).collect(),
        colour: graded(index, count),
        dashed: false,
    };
    Chart {
        title: "Suspected links during the bottleneck hunting loop, mean over all samples".into(),
        x: "iteration".into(),
        x_scale: Scale::Linear,
        y: "suspects".into(),
        panels: vec![Panel { title: String::new(), curves: curves.iter().enumerate().map(curve).collect() }],
        legend: (0..count).map(|index| (format!("layer {}", index + 1), graded(index, count))).collect(),
    }
}

/// FEC(M, p)/M against p, a curve for each M, and the bound 1/(1 − p) of very large blocks (figure 42).
pub(crate) fn law(curves: &[Steps], der: f64) -> Chart {
    let count = curves.len();
    let last = curves.iter().flat_map(|(_, points)| points).map(|point| point.0).fold(0.0, f64::max);
    let bound = (0..=200).map(|step| last * f64::from(step) / 200.0).map(|p| (p, 1.0 / (1.0 - p))).collect();
    let curve = |(index, (_, points)): (usize, &Steps)| Curve {
        points: points.clone(),
        colour: graded(index, count),
        dashed: false,
    };
    let label = |(index, (m, _)): (usize, &Steps)| (format!("M = {m}"), graded(index, count));
    let limit = Curve { points: bound, colour: GREY, dashed: true };
    Chart {
        title: format!("Transmission rate increase FEC(M, p)/M at a decoding error rate of {der:e}"),
        x: "packet loss rate p".into(),
        x_scale: Scale::Linear,
        y: "FEC(M, p)/M".into(),
        panels: vec![Panel {
            title: String::new(),
            curves: curves.iter().enumerate().map(curve).chain([limit]).collect(),
        }],
        legend: curves.iter().enumerate().map(label).chain([("1/(1 − p)".into(), GREY)]).collect(),
    }
}

/// The points of a sweep over the law, by M, as steps: a length holds up to the loss that it was asked for.
pub(crate) fn steps(points: &[Point]) -> Vec<Steps> {
    let curve = |points: &[Point]| {
        let mut corners = Vec::new();
        let mut from = points.first().map_or(0.0, |point| point.p);
        for point in points {
            let factor = f64::from(point.n) / f64::from(point.m);
            corners.extend([(from, factor), (point.p, factor)]);
            from = point.p;
        }
        (points[0].m, corners)
    };
    points.chunk_by(|a, b| a.m == b.m).map(curve).collect()
}
