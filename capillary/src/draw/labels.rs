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

/// Which point of a label is at its place whatever font is there: the one next to its node, since its width is known
/// more or less only.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Anchor {
    Start,
    Middle,
    End,
}

/// A place for a label.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Place {
    area: Area,
    anchor: Anchor,
}

impl Place {
    /// What an SVG has of it: where the text is put, and which point of it.
    fn anchored(&self) -> (f64, &'static str) {
        let Area { left, width, .. } = self.area;
        match self.anchor {
            Anchor::Start => (left, ""),
            Anchor::Middle => (left + width / 2.0, " text-anchor=\"middle\""),
            Anchor::End => (left + width, " text-anchor=\"end\""),
        }
    }
}

/// A node's name, and where it stands.
#[derive(Debug)]
pub(super) struct Label<'a> {
    text: &'a str,
    is_end: bool,
    place: Place,
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
            let free = places.iter().filter(|place| !taken.iter().any(|other| other.overlaps(&place.area)));
            let best =
                free.min_by_key(|place| links.iter().filter(|link| crosses(&place.area, link)).count());
            if let Some(place) = best.copied().or(is_end(id).then_some(places[0])) {
                taken.push(place.area);
                labels.push(Label { text: node.name(), is_end: is_end(id), place });
            }
        }
        labels
    }

    /// The room that it takes.
    pub(super) fn area(&self) -> Area {
        self.place.area
    }

    pub(super) fn draw(&self, out: &mut String) {
        let Area { top, height, .. } = self.area();
        let ((x, anchor), y) = (self.place.anchored(), top + height * 0.78);
        let weight = if self.is_end { " font-weight=\"bold\"" } else { "" };
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{y:.1}\" fill=\"{INK}\"{anchor}{weight} stroke=\"white\" stroke-width=\"3\" \
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
fn places(point: Point, gap: f64, width: f64) -> Vec<Place> {
    let height = FONT_SIZE * 1.15;
    let beside = [
        (point.x + gap, Anchor::Start),
        (point.x - gap - width, Anchor::End),
        (point.x - width / 2.0, Anchor::Middle),
    ];
    let level = [point.y - height / 2.0, point.y - gap - height, point.y + gap];
    let mut places = Vec::new();
    for (column, row) in [(0, 0), (1, 0), (2, 1), (2, 2), (0, 1), (0, 2), (1, 1), (1, 2)] {
        let (left, anchor) = beside[column];
        places.push(Place { area: Area { left, top: level[row], width, height }, anchor });
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Names to the left of their nodes began where an estimate of their width said, and ended on the nodes' circles.
    #[test]
    fn a_name_is_put_by_the_point_that_is_next_to_its_node() {
        let node = Point { x: 100.0, y: 50.0 };
        let places = places(node, 8.0, 30.0);
        let beside = |place: &Place| place.anchored();
        assert_eq!(beside(&places[0]), (108.0, ""));
        assert_eq!(beside(&places[1]), (92.0, " text-anchor=\"end\""));
        assert_eq!(beside(&places[2]), (100.0, " text-anchor=\"middle\""));
        assert!(places.iter().all(|place| !place.area.contains(node)));
    }
}
