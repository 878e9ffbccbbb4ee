//! A routing as a few weighted paths, which is what a transport sends along [theory §1.6].

mod fit;

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::routing::{NEGLIGIBLE_FLOW, Routing};
use crate::topology::{LinkId, NodeId};

/// A path from the source to the target and its share of the traffic.
#[derive(Debug, Clone, PartialEq)]
pub struct WeightedPath {
    /// The share of the demand; the weights of all paths sum to 1.
    pub weight: f64,
    /// The nodes from the source to the target: one more than links.
    pub nodes: Vec<NodeId>,
    /// The links in order.
    pub links: Vec<LinkId>,
}

/// Weighted paths that stand for a routing, and how well they do.
///
/// ```
/// use capillary::{Orientation, Topology};
///
/// let links = [("s", "a", 1.0), ("a", "t", 1.0), ("s", "t", 1.0)];
/// let topology = Topology::from_links(Orientation::Directed, links)?;
/// let (source, target) = (topology.node("s").unwrap(), topology.node("t").unwrap());
/// let paths = capillary::solve(&topology, source, target)?.paths(8, 1.0);
/// assert_eq!(paths.paths.len(), 2);
/// assert_eq!(paths.paths[0].weight, 0.5);
/// assert_eq!(paths.covered, 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Paths {
    /// The paths, the widest first.
    pub paths: Vec<WeightedPath>,
    /// The share of the demand that the paths carry in the routing itself.
    pub covered: f64,
    /// The largest difference on any link between the load under these paths and the load in the routing.
    pub load_error: f64,
}

impl Routing {
    /// Weighted paths that carry the flow, the widest first: at most `max_paths`, and no more once they carry the
    /// share `cover` of the demand (1: all of it). See [`Paths`].
    pub fn paths(&self, max_paths: usize, cover: f64) -> Paths {
        Paths::peel(self, max_paths, cover)
    }
}

impl Paths {
    /// Peels the widest path off the flow, again and again. The paths also carry what is left of the flow then: in
    /// proportion to what they have, or by the weights that come nearest to the routing's loads, if the largest error
    /// of these is no larger.
    pub(crate) fn peel(routing: &Routing, max_paths: usize, cover: f64) -> Self {
        let mut rest = Rest::new(routing);
        let mut paths = Vec::new();
        let mut covered = 0.0;
        while paths.len() < max_paths && covered < cover - NEGLIGIBLE_FLOW {
            let Some(path) = rest.take_widest(routing) else { break };
            covered += path.weight;
            paths.push(path);
        }
        for path in &mut paths {
            path.weight /= covered;
        }
        let load_error = largest_load_error(routing, &paths);
        let scaled = Self { paths, covered: covered.min(1.0), load_error };
        if covered > 1.0 - NEGLIGIBLE_FLOW { scaled } else { scaled.fitted(routing) }
    }

    /// The same paths with the weights that come nearest to the routing's loads, unless these make the largest error
    /// larger.
    fn fitted(self, routing: &Routing) -> Self {
        let scaled = self.paths.iter().map(|path| path.weight).collect();
        let Some(weights) = fit::weights(routing, &self.paths, scaled) else { return self };
        let mut paths = self.paths.clone();
        paths.iter_mut().zip(weights).for_each(|(path, weight)| path.weight = weight);
        paths.retain(|path| path.weight > 0.0);
        paths.sort_by(|a, b| b.weight.total_cmp(&a.weight));
        let load_error = largest_load_error(routing, &paths);
        if load_error > self.load_error { self } else { Self { paths, load_error, ..self } }
    }
}

/// How far the loads under weighted paths are from those of the routing they came from.
fn largest_load_error(routing: &Routing, paths: &[WeightedPath]) -> f64 {
    let mut flows = vec![0.0; routing.links().len()];
    for path in paths {
        for link in &path.links {
            flows[link.index()] += path.weight;
        }
    }
    // On a used link load / |flow| is the smallest capacity over the link's own; the paths use no others.
    let errors = routing.used_links().map(|(id, link)| {
        let unit = link.load / link.flow.abs();
        (flows[id.index()] * unit - link.load).abs()
    });
    errors.fold(0.0, f64::max)
}

/// The flow that no path has taken yet.
struct Rest {
    /// Flow left per link, without sign.
    flow: Vec<f64>,
    /// The used links by the node that they leave.
    outgoing: Vec<Vec<LinkId>>,
}

impl Rest {
    fn new(routing: &Routing) -> Self {
        let ends = routing.links().iter().flat_map(|link| [link.from, link.to]);
        let nodes = ends.map(NodeId::index).max().map_or(0, |last| last + 1);
        let mut outgoing = vec![Vec::new(); nodes];
        for (id, link) in routing.used_links() {
            outgoing[link.direction().0.index()].push(id);
        }
        Self { flow: routing.links().iter().map(|link| link.flow.abs()).collect(), outgoing }
    }

    /// Takes the widest path off: weight = the smallest flow along it.
    fn take_widest(&mut self, routing: &Routing) -> Option<WeightedPath> {
        let arrived_by = self.widest_tree(routing);
        let (mut nodes, mut links) = (vec![routing.target()], Vec::new());
        let mut node = routing.target();
        while node != routing.source() {
            let link = arrived_by[node.index()]?;
            node = routing.link(link).direction().0;
            nodes.push(node);
            links.push(link);
        }
        nodes.reverse();
        links.reverse();
        let weight = links.iter().map(|link| self.flow[link.index()]).fold(f64::INFINITY, f64::min);
        for link in &links {
            self.flow[link.index()] -= weight;
        }
        Some(WeightedPath { weight, nodes, links })
    }

    /// Dijkstra's algorithm with widths instead of lengths: by which link the widest path arrives at each node.
    /// Of equally wide paths the one with fewer links wins, then the one over smaller node numbers.
    fn widest_tree(&self, routing: &Routing) -> Vec<Option<LinkId>> {
        let mut arrived_by = vec![None; self.outgoing.len()];
        let mut best: Vec<Option<Reach>> = vec![None; self.outgoing.len()];
        let start = Reach { width: f64::INFINITY, hops: 0, node: routing.source() };
        let mut queue = BinaryHeap::from([start]);
        best[routing.source().index()] = Some(start);
        while let Some(reach) = queue.pop() {
            if reach.node == routing.target() {
                break;
            }
            if best[reach.node.index()] != Some(reach) {
                continue;
            }
            for &link in &self.outgoing[reach.node.index()] {
                let width = reach.width.min(self.flow[link.index()]);
                let node = routing.link(link).direction().1;
                let next = Reach { width, hops: reach.hops + 1, node };
                if width > NEGLIGIBLE_FLOW && best[node.index()].is_none_or(|known| next > known) {
                    best[node.index()] = Some(next);
                    arrived_by[node.index()] = Some(link);
                    queue.push(next);
                }
            }
        }
        arrived_by
    }
}

/// How well a node can be reached; greater is better.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Reach {
    width: f64,
    hops: u32,
    node: NodeId,
}

impl Eq for Reach {}

impl Ord for Reach {
    fn cmp(&self, other: &Self) -> Ordering {
        let by_width = self.width.total_cmp(&other.width);
        by_width.then(other.hops.cmp(&self.hops)).then(other.node.cmp(&self.node))
    }
}

impl PartialOrd for Reach {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
