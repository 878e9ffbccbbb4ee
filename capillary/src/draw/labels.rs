//! The names of the nodes.

use std::fmt::Write as _;

use super::layout::{Layout, Point};
use super::{END_RADIUS, FONT_SIZE, LETTER, NODE_RADIUS, escape};
use crate::routing::Routing;
use crate::topology::{NodeId, Topology};

/// A rectangle on the drawing.
#[derive(Debug, Clone, Copy)]
struct Area {
    left: f64,
    top: f64,
    width: f64,
    height: f64,
}

impl Area {
    fn around(point: Point, radius: f64) -> Self {
        Self { left: point.x - radius, top: point.y - radius, width: 2.0 * radius, height: 2.0 * radius }
    }

    fn overlaps(&self, other: &Self) -> bool {
        let apart = |a: f64, size_a: f64, b: f64, size_b: f64| a + size_a <= b || b + size_b <= a;
        !apart(self.left, self.width, other.left, other.width)
            && !apart(self.top, self.height, other.top, other.height)
    }

    fn contains(&self, point: Point) -> bool {
        (self.left..self.left + self.width).contains(&point.x)
            && (self.top..self.top + self.height).contains(&point.y)
    }
}

/// Puts each label where it hides the least: beside its node, where neither nodes nor labels are and few links pass.
/// A label that would cover another is left out; the node's title still tells its name.
pub(super) fn draw_labels(out: &mut String, topology: &Topology, routing: Option<&Routing>, layout: &Layout) {
    let is_end =
        |node: NodeId| routing.is_some_and(|routing| [routing.source(), routing.target()].contains(&node));
    let radius = |node: NodeId| 1.0 + if is_end(node) { END_RADIUS } else { NODE_RADIUS };
    let dot = |(id, _)| Area::around(layout.points[NodeId::index(id)], radius(id));
    let mut taken: Vec<Area> = topology.nodes().map(dot).collect();
    let links: Vec<(Point, Point)> = topology
        .links()
        .map(|(_, from, to, _)| (layout.points[from.index()], layout.points[to.index()]))
        .collect();
    for (id, node) in topology.nodes() {
        let places = label_places(layout.points[id.index()], radius(id) + 3.0, node.name());
        let inside = |area: &&Area| {
            area.left >= 0.0
                && area.top >= 0.0
                && area.left + area.width <= layout.width
                && area.top + area.height <= layout.height
        };
        let free =
            places.iter().filter(inside).filter(|area| !taken.iter().any(|other| other.overlaps(area)));
        let Some(best) = free.min_by_key(|area| links.iter().filter(|link| crosses(area, link)).count())
        else {
            continue;
        };
        taken.push(*best);
        let (x, y) = (best.left, best.top + best.height * 0.78);
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"#111827\" stroke=\"white\" stroke-width=\"3\" \
             paint-order=\"stroke\" stroke-linejoin=\"round\">{}</text>",
            escape(node.name())
        );
    }
}

fn label_places(point: Point, gap: f64, text: &str) -> Vec<Area> {
    let (width, height) = (text.chars().count() as f64 * FONT_SIZE * LETTER, FONT_SIZE * 1.15);
    let beside = [point.x + gap, point.x - gap - width, point.x - width / 2.0];
    let level = [point.y - height / 2.0, point.y - gap - height, point.y + gap];
    let mut places = Vec::new();
    for (column, row) in [(0, 0), (1, 0), (2, 1), (2, 2), (0, 1), (0, 2), (1, 1), (1, 2)] {
        places.push(Area { left: beside[column], top: level[row], width, height });
    }
    places
}

/// Whether a link passes through an area, looked at in steps of a few units.
fn crosses(area: &Area, (a, b): &(Point, Point)) -> bool {
    let steps = ((b.x - a.x).hypot(b.y - a.y) / 4.0).ceil().max(1.0) as u32;
    (0..=steps).any(|step| {
        let part = f64::from(step) / f64::from(steps);
        area.contains(Point { x: a.x + (b.x - a.x) * part, y: a.y + (b.y - a.y) * part })
    })
}
