//! What pictures show.

use std::ops::Range;
use std::path::Path;

use program::chart::{Chart, Colour, Curve, GREY, Label, Panel, Scale, graded};
use program::table::counted;

use crate::failure::Failure;
use crate::hunts::Hunts;
use crate::law::Point;
use crate::ratings::{Blocks, Ratings, Row};

/// M and the corners of FEC(M, p)/M against p.
pub(crate) type Steps = (u32, Vec<(f64, f64)>);

/// Writes a chart to a file.
pub(crate) fn draw(chart: &Chart, path: &Path) -> Result<(), Failure> {
    program::chart::draw(chart, path).map_err(Failure::Picture)
}

/// Curves that differ in no panel by more than this share of the highest point are one line to the eye.
const EQUAL: f64 = 0.006;

/// ROR against the layer, a curve for each tolerance; a panel for each set, if there are several (figures 43, 44).
/// Tolerances whose curves are the same have one colour and one name.
pub(crate) fn ratings(ratings: &Ratings, blocks: &[Blocks]) -> Chart {
    let several = (0..ratings.sets).map(Some).filter(|_| ratings.sets > 1);
    let sets: Vec<Set> = several.chain([None]).map(|number| (number, ratings.rows(number))).collect();
    let means = |&tolerance: &f64| -> Vec<f64> {
        let kinds = sets.iter().flat_map(|set| blocks.iter().map(move |&kind| rows(set, kind, tolerance)));
        kinds.flatten().map(|row| row.rating.mean).collect()
    };
    let lines: Vec<Vec<f64>> = ratings.tolerances.iter().map(means).collect();
    let tolerances = Tolerances { values: &ratings.tolerances, groups: groups(&lines) };
    let has_bands = sets.iter().flat_map(|(_, rows)| rows).any(|row| row.rating.ci95.is_some());
    Chart {
        title: format!("Average ROR against the layer of capillary routing ({})", kinds(blocks, has_bands)),
        x: "layer".into(),
        x_scale: Scale::Whole,
        y: "ROR (lower is better)".into(),
        panels: sets.iter().map(|set| tolerances.panel(set, blocks)).collect(),
        legend: tolerances.groups.iter().map(|group| tolerances.name(group)).collect(),
    }
}

/// All rows of one set, or of all sets together.
type Set = (Option<usize>, Vec<Row>);

/// The rows of a set for one line.
fn rows((_, all): &Set, kind: Blocks, tolerance: f64) -> Vec<Row> {
    all.iter().filter(|row| row.blocks == kind && row.tolerance == tolerance).copied().collect()
}

/// The tolerances, and which neighbours are one line to the eye.
struct Tolerances<'a> {
    values: &'a [f64],
    groups: Vec<Range<usize>>,
}

impl Tolerances<'_> {
    fn colour(&self, index: usize) -> Colour {
        let group = self.groups.iter().position(|group| group.contains(&index));
        graded(group.unwrap_or_default(), self.groups.len())
    }

    /// What the legend says of a group.
    fn name(&self, group: &Range<usize>) -> Label {
        let percent = |index: usize| format!("{:.1}", self.values[index] * 100.0);
        let (first, last) = (percent(group.start), percent(group.end - 1));
        let which = if group.len() > 1 { format!("{first}–{last}") } else { first };
        Label::solid(format!("t = {which} %"), self.colour(group.start))
    }

    fn panel(&self, set: &Set, blocks: &[Blocks]) -> Panel {
        let lines = blocks.iter().flat_map(|&kind| (0..self.values.len()).map(move |index| (kind, index)));
        let samples = set.1.first().map_or(0, |row| row.rating.samples as usize);
        let title = set.0.map_or("all sets".into(), |number| format!("set {}", number + 1));
        Panel {
            title: format!("{title}: {}", counted(samples, "sample")),
            curves: lines.map(|(kind, index)| self.curve(set, kind, index)).collect(),
        }
    }

    fn curve(&self, set: &Set, kind: Blocks, index: usize) -> Curve {
        let rows = rows(set, kind, self.values[index]);
        // One band for all lines that look the same: several would be darker.
        let is_first = self.groups.iter().any(|group| group.start == index);
        let band = rows.iter().map_while(|row| row.rating.ci95.filter(|_| is_first)).collect();
        let points = rows.iter().map(|row| (f64::from(row.layer), row.rating.mean)).collect();
        Curve { points, colour: self.colour(index), dashed: kind == Blocks::Large, band }
    }
}

/// What the strokes mean.
fn kinds(blocks: &[Blocks], has_bands: bool) -> String {
    let kinds = match blocks {
        [Blocks::Short] => "short blocks",
        [Blocks::Large] => "large blocks",
        _ => "solid: short blocks, dashed: large blocks",
    };
    if has_bands { format!("{kinds}; band: 95 % confidence") } else { kinds.to_owned() }
}

/// Which neighbours are one line to the eye, from the heights of each line's points.
fn groups(lines: &[Vec<f64>]) -> Vec<Range<usize>> {
    let highest = lines.iter().flatten().copied().fold(0.0, f64::max);
    let are_equal = |a: &Vec<f64>, b: &Vec<f64>| {
        a.len() == b.len() && a.iter().zip(b).all(|(a, b)| (a - b).abs() <= EQUAL * highest)
    };
    let mut groups: Vec<Range<usize>> = Vec::new();
    for index in 0..lines.len() {
        match groups.last_mut() {
            // With the first of the group, so that small differences do not add up.
            Some(group) if are_equal(&lines[group.start], &lines[index]) => group.end = index + 1,
            _ => groups.push(index..index + 1),
        }
    }
    groups
}

/// Mean suspects against the iteration of the hunt, a curve for each layer (figure 41).
pub(crate) fn hunts(hunts: &Hunts) -> Chart {
    let curves = hunts.curves();
    let count = curves.len();
    let curve = |(index, means): (usize, &Vec<f64>)| Curve {
        points: means.iter().enumerate().map(|(iteration, &mean)| (iteration as f64, mean)).collect(),
        colour: graded(index, count),
        dashed: false,
        band: Vec::new(),
    };
    Chart {
        title: "Suspected links during the bottleneck hunting loop, mean over all samples".into(),
        x: "iteration".into(),
        x_scale: Scale::Whole,
        y: "suspects".into(),
        panels: vec![Panel { title: String::new(), curves: curves.iter().enumerate().map(curve).collect() }],
        legend: (0..count)
            .map(|index| Label::solid(format!("layer {}", index + 1), graded(index, count)))
            .collect(),
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
        band: Vec::new(),
    };
    let label = |(index, (m, _)): (usize, &Steps)| Label::solid(format!("M = {m}"), graded(index, count));
    let limit = Curve { points: bound, colour: GREY, dashed: true, band: Vec::new() };
    Chart {
        title: format!("Transmission rate increase FEC(M, p)/M at a decoding error rate of {der:e}"),
        x: "packet loss rate p".into(),
        x_scale: Scale::Linear,
        y: "FEC(M, p)/M (lower is better)".into(),
        panels: vec![Panel {
            title: String::new(),
            curves: curves.iter().enumerate().map(curve).chain([limit]).collect(),
        }],
        legend: curves.iter().enumerate().map(label).chain([Label::dashed("1/(1 − p)", GREY)]).collect(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_lines_are_one_group_and_small_differences_do_not_add_up() {
        let line = |height: f64| vec![10.0, height];
        assert_eq!(groups(&[line(5.0), line(5.0), line(5.05), line(5.1), line(9.0)]), [0..3, 3..4, 4..5]);
        assert_eq!(groups(&[]), []);
    }
}
