//! The names of the nodes.

use std::fmt::Write as _;

use super::layout::{Layout, Point};
use super::{END_RADIUS, FONT_SIZE, INK, LETTER, NODE_RADIUS, escape};
use crate::routing::Routing;
use crate::topology::{NodeId, Topology};

/// A rectangle on the drawing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Area {
    pub(super) left: f64,
    pub(super) top: f64,
    pub(super) width: f64,
    pub(super) height: f64,
}

impl Area {
    pub(super) fn around(point: Point, radius: f64) -> Self {
        Self { left: point.x - radius, top: point.y - radius, width: 2.0 * radius, height: 2.0 * radius }
    }

    /// The smallest that has both in it.
    pub(super) fn joined(self, other: Self) -> Self {
        let (left, top) = (self.left.min(other.left), self.top.min(other.top));
        let right = (self.left + self.width).max(other.left + other.width);
        let bottom = (self.top + self.height).max(other.top + other.height);
        Self { left, top, width: right - left, height: bottom - top }
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

/// A node's name, and where it stands.
#[derive(Debug)]
pub(super) struct Label<'a> {
    text: &'a str,
    is_end: bool,
    pub(super) area: Area,
}

impl<'a> Label<'a> {
    /// Puts each label where it hides the least: beside its node, where neither nodes nor labels are and few links
    /// pass. The ends of the routing choose first, and always have one. A label that would cover another is left out;
    /// the node's title still tells its name.
    pub(super) fn place_all(
        topology: &'a Topology,
        routing: Option<&Routing>,
        layout: &Layout,
    ) -> Vec<Label<'a>> {
        let is_end = |node: NodeId| {
            routing.is_some_and(|routing| [routing.source(), routing.target()].contains(&node))
        };
        let radius = |node: NodeId| 1.0 + if is_end(node) { END_RADIUS } else { NODE_RADIUS };
        let mut taken: Vec<Area> =
            topology.nodes().map(|(id, _)| Area::around(layout.points[id.index()], radius(id))).collect();
        let points = |(_, from, to, _): (_, NodeId, NodeId, _)| {
            (layout.points[from.index()], layout.points[to.index()])
        };
        let links: Vec<(Point, Point)> = topology.links().map(points).collect();
        let (ends, others): (Vec<_>, Vec<_>) = topology.nodes().partition(|(id, _)| is_end(*id));
        let mut labels = Vec::new();
        for (id, node) in ends.into_iter().chain(others) {
            let places = places(layout.points[id.index()], radius(id) + 3.0, width(node.name(), is_end(id)));
            let free = places.iter().filter(|area| !taken.iter().any(|other| other.overlaps(area)));
            let best = free.min_by_key(|area| links.iter().filter(|link| crosses(area, link)).count());
            if let Some(area) = best.copied().or(is_end(id).then_some(places[0])) {
                taken.push(area);
                labels.push(Label { text: node.name(), is_end: is_end(id), area });
            }
        }
        labels
    }

    pub(super) fn draw(&self, out: &mut String) {
        let (x, y) = (self.area.left, self.area.top + self.area.height * 0.78);
        let weight = if self.is_end { " font-weight=\"bold\"" } else { "" };
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{INK}\"{weight} stroke=\"white\" stroke-width=\"3\" \
             paint-order=\"stroke\" stroke-linejoin=\"round\">{}</text>",
            escape(self.text)
        );
    }
}

/// How wide a text is, more or less.
pub(super) fn width(text: &str, is_bold: bool) -> f64 {
    text.chars().count() as f64 * FONT_SIZE * LETTER * if is_bold { 1.1 } else { 1.0 }
}

/// The places beside a node for a label of that width, the best first.
fn places(point: Point, gap: f64, width: f64) -> Vec<Area> {
    let height = FONT_SIZE * 1.15;
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
