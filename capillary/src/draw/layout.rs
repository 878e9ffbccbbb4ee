//! Where the nodes of a drawing stand.

use crate::topology::{Position, Topology};

/// The longer side of a drawing, for a small and for a large network.
const SMALLEST_SIDE: f64 = 720.0;
const LARGEST_SIDE: f64 = 2_400.0;

/// Rounds of the spring layout; it has settled long before on networks that can be read at all.
const ROUNDS: u32 = 300;

/// Beyond so many nodes the springs, which look at every pair, would take too long: the nodes go on a circle.
const MOST_SPRUNG: usize = 1_500;

/// How near two nodes may stand.
const NEAREST: f64 = 16.0;

#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Point {
    pub(super) x: f64,
    pub(super) y: f64,
}

/// Points in the units of the drawing, y downwards.
#[derive(Debug)]
pub(super) struct Layout {
    /// One per node.
    pub(super) points: Vec<Point>,
    /// Units of the drawing for one of the topology's positions.
    pub(super) scale: f64,
}

impl Layout {
    /// Places from the topology if any node has one, otherwise by springs. Places that look like degrees are taken for
    /// degrees unless they are lengths.
    pub(super) fn of(topology: &Topology, are_lengths: bool) -> Self {
        let known: Vec<Option<Position>> = topology.nodes().map(|(_, node)| node.position).collect();
        let points = if known.iter().any(Option::is_some) {
            let wide = if are_lengths { 1.0 } else { width_of_a_degree(&known) };
            let place = |at: Option<Position>| at.map(|at| Point { x: at.x * wide, y: -at.y });
            fill_unknown(topology, known.into_iter().map(place).collect())
        } else if topology.node_count() <= MOST_SPRUNG {
            springs(topology)
        } else {
            circle(topology.node_count())
        };
        Self::scaled(points)
    }

    /// Scales the points into the drawing, and pushes apart those that are too near to tell apart.
    fn scaled(mut points: Vec<Point>) -> Self {
        let (left, right) = extent(points.iter().map(|point| point.x));
        let (top, bottom) = extent(points.iter().map(|point| point.y));
        let side = (SMALLEST_SIDE * (points.len() as f64 / 40.0).sqrt()).clamp(SMALLEST_SIDE, LARGEST_SIDE);
        let extent = (right - left).max(bottom - top);
        // Nodes that are all at one place are pushed apart all the same.
        let scale = if extent > 0.0 { side / extent } else { 1.0 };
        for point in &mut points {
            *point = Point { x: (point.x - left) * scale, y: (point.y - top) * scale };
        }
        push_apart(&mut points);
        Self { points, scale }
    }
}

/// How wide a degree of longitude is against one of latitude, where the network lies; 1 if places are not geographic.
fn width_of_a_degree(places: &[Option<Position>]) -> f64 {
    let (west, east) = extent(places.iter().flatten().map(|at| at.x));
    let (south, north) = extent(places.iter().flatten().map(|at| at.y));
    let is_geographic = west >= -180.0 && east <= 180.0 && south >= -90.0 && north <= 90.0;
    if is_geographic { libm::cos(((south + north) / 2.0).to_radians()).max(0.2) } else { 1.0 }
}

fn extent(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(f64::NEG_INFINITY, f64::max);
    if least <= most { (least, most) } else { (0.0, 0.0) }
}

/// Nodes without a place go to the middle of their neighbours, round by round; those without any to the middle of all.
fn fill_unknown(topology: &Topology, mut known: Vec<Option<Point>>) -> Vec<Point> {
    loop {
        let mut sums = vec![(0.0, 0.0, 0.0); known.len()];
        for (_, from, to, _) in topology.links() {
            for (node, neighbour) in [(from, to), (to, from)] {
                if let (None, Some(point)) = (known[node.index()], known[neighbour.index()]) {
                    let sum = &mut sums[node.index()];
                    *sum = (sum.0 + point.x, sum.1 + point.y, sum.2 + 1.0);
                }
            }
        }
        let mut changed = false;
        for (place, (x, y, count)) in known.iter_mut().zip(sums) {
            if count > 0.0 {
                *place = Some(Point { x: x / count, y: y / count });
                changed = true;
            }
        }
        if !changed {
            break;
        }
    }
    let (x, y) = (extent(known.iter().flatten().map(|p| p.x)), extent(known.iter().flatten().map(|p| p.y)));
    let middle = Point { x: (x.0 + x.1) / 2.0, y: (y.0 + y.1) / 2.0 };
    known.into_iter().map(|place| place.unwrap_or(middle)).collect()
}

fn circle(nodes: usize) -> Vec<Point> {
    let angle = |node: usize| std::f64::consts::TAU * node as f64 / nodes as f64;
    (0..nodes).map(|node| Point { x: libm::cos(angle(node)), y: libm::sin(angle(node)) }).collect()
}

/// Fruchterman and Reingold 1991, from a circle: links pull, all pairs push, and steps shrink.
fn springs(topology: &Topology) -> Vec<Point> {
    let mut points = circle(topology.node_count());
    let ideal = (4.0 / topology.node_count().max(1) as f64).sqrt();
    for round in 0..ROUNDS {
        let mut moves = vec![(0.0, 0.0); points.len()];
        for a in 0..points.len() {
            for b in a + 1..points.len() {
                add_force(&mut moves, &points, a, b, |distance| -ideal * ideal / distance);
            }
        }
        for (_, from, to, _) in topology.links().filter(|(_, from, to, _)| from != to) {
            add_force(&mut moves, &points, from.index(), to.index(), |distance| distance * distance / ideal);
        }
        let longest = 0.1 * (1.0 - f64::from(round) / f64::from(ROUNDS));
        for (point, (dx, dy)) in points.iter_mut().zip(moves) {
            let length = f64::hypot(dx, dy).max(f64::MIN_POSITIVE);
            let step = length.min(longest) / length;
            *point = Point { x: point.x + dx * step, y: point.y + dy * step };
        }
    }
    points
}

/// Adds a force between two points; positive pulls.
fn add_force(moves: &mut [(f64, f64)], points: &[Point], a: usize, b: usize, force: impl Fn(f64) -> f64) {
    let (dx, dy) = (points[b].x - points[a].x, points[b].y - points[a].y);
    let distance = dx.hypot(dy).max(1e-6);
    let (fx, fy) = (dx / distance * force(distance), dy / distance * force(distance));
    moves[a] = (moves[a].0 + fx, moves[a].1 + fy);
    moves[b] = (moves[b].0 - fx, moves[b].1 - fy);
}

/// Moves points apart that stand too near, a little each round; points at one place go different ways.
fn push_apart(points: &mut [Point]) {
    if points.len() > MOST_SPRUNG {
        return;
    }
    for _ in 0..60 {
        let mut moved = false;
        for a in 0..points.len() {
            for b in a + 1..points.len() {
                let (dx, dy) = (points[b].x - points[a].x, points[b].y - points[a].y);
                let distance = dx.hypot(dy);
                if distance >= NEAREST {
                    continue;
                }
                let (ux, uy) = if distance > 1e-9 { (dx / distance, dy / distance) } else { direction(b) };
                let step = (NEAREST - distance) / 2.0 + 0.01;
                points[a] = Point { x: points[a].x - ux * step, y: points[a].y - uy * step };
                points[b] = Point { x: points[b].x + ux * step, y: points[b].y + uy * step };
                moved = true;
            }
        }
        if !moved {
            return;
        }
    }
}

/// A direction of its own for each node: turned by the golden angle.
fn direction(node: usize) -> (f64, f64) {
    let angle = 2.399_963_229_728_653 * node as f64;
    (libm::cos(angle), libm::sin(angle))
}
