//! What a matrix does to the links of a drawing: each direction of a link is the half of its line that begins at its
//! sender, as on weather maps of networks.

use std::fmt::Write as _;

use super::layout::{Layout, Point};
use super::{THICKEST, THINNEST, UNUSED, bends, middle, number};
use crate::matrix::ArcUse;
use crate::topology::Topology;

/// Colours of utilisations by their share of the largest, in equal steps from the largest down (ColorBrewer).
const STEPS: [&str; 5] = ["#b2182b", "#ef8a62", "#b8a400", "#5aae61", "#2166ac"];

/// The step of a utilisation; `None` for an arc that carries nothing.
fn step(utilisation: f64, largest: f64) -> Option<usize> {
    let share = utilisation / largest;
    (share > 1e-9).then(|| (((1.0 - share) * STEPS.len() as f64) as usize).min(STEPS.len() - 1))
}

fn stroke(utilisation: f64, largest: f64) -> (&'static str, f64) {
    match step(utilisation, largest) {
        Some(step) => (STEPS[step], THINNEST + (THICKEST - THINNEST) * utilisation / largest),
        None => (UNUSED, THINNEST),
    }
}

fn largest(arcs: &[ArcUse]) -> f64 {
    arcs.iter().map(|arc| arc.utilisation).fold(0.0, f64::max)
}

fn counted(arcs: usize) -> String {
    if arcs == 1 { "1 arc".into() } else { format!("{arcs} arcs") }
}

/// What a legend says of them: colour, width, text.
pub(super) fn legend(arcs: &[ArcUse]) -> Vec<(&'static str, f64, String)> {
    let largest = largest(arcs);
    let row = |index: usize| {
        let bound = |steps: usize| largest * (1.0 - steps as f64 / STEPS.len() as f64);
        let (high, low) = (bound(index), bound(index + 1));
        let members = arcs.iter().filter(|arc| step(arc.utilisation, largest) == Some(index)).count();
        let width = THINNEST + (THICKEST - THINNEST) * high / largest;
        let [low, high] = [low, high].map(|bound| number(bound, 3));
        (STEPS[index], width, format!("{low} to {high}: {}", counted(members)))
    };
    let unused = arcs.iter().filter(|arc| step(arc.utilisation, largest).is_none()).count();
    let mut rows: Vec<_> = (0..STEPS.len()).map(row).collect();
    rows.extend((unused > 0).then(|| (UNUSED, THINNEST, format!("unused: {}", counted(unused)))));
    rows
}

/// Draws the arcs, the fullest above the others.
pub(super) fn draw(out: &mut String, topology: &Topology, arcs: &[ArcUse], layout: &Layout) {
    let largest = largest(arcs);
    let bends = bends(topology);
    let mut order: Vec<&ArcUse> = arcs.iter().collect();
    order.sort_by(|a, b| a.utilisation.total_cmp(&b.utilisation));
    for arc in order {
        let (a, b) = (layout.points[arc.from.index()], layout.points[arc.to.index()]);
        // A bend is to the side of the link's own direction.
        let side = if topology.ends(arc.link).0 == arc.from { 1.0 } else { -1.0 };
        let bend = bends.get(&arc.link).copied().unwrap_or(0.0) * side;
        let (colour, width) = stroke(arc.utilisation, largest);
        let names = [arc.from, arc.to].map(|node| super::escape(topology.node_weight(node).name()));
        let [from, to] = names;
        let _ = writeln!(
            out,
            "<path d=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width:.2}\"><title>link {}, {from} to \
             {to}: utilisation {}, {} of {}</title></path>",
            half(a, b, bend),
            arc.link.0,
            number(arc.utilisation, 4),
            number(arc.load, 4),
            arc.capacity,
        );
    }
}

/// The first half of a link's line.
fn half(a: Point, b: Point, bend: f64) -> String {
    let end = middle(a, b, bend);
    if bend == 0.0 {
        return format!("M{:.1} {:.1}L{:.1} {:.1}", a.x, a.y, end.x, end.y);
    }
    // The first half of a quadratic curve is one whose control point is half-way to that of the whole.
    let control = middle(a, b, 2.0 * bend);
    let (x, y) = ((a.x + control.x) / 2.0, (a.y + control.y) / 2.0);
    format!("M{:.1} {:.1}Q{x:.1} {y:.1} {:.1} {:.1}", a.x, a.y, end.x, end.y)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_is_in_the_first_step_and_nothing_in_none() {
        assert_eq!(step(0.9, 0.9), Some(0));
        assert_eq!(step(0.5, 1.0), Some(2));
        assert_eq!(step(0.001, 1.0), Some(4));
        assert_eq!(step(0.0, 1.0), None);
    }
}
