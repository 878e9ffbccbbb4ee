//! The routings that capillary routing is compared with.

use std::collections::VecDeque;

use crate::cut::minimum_cut;
use crate::minimum_cost::MinimumCostFlow;
use crate::routing::Routing;
use crate::solver::{SolveError, check_pair, unreachable};
use crate::topology::{Link, LinkId, NodeId, Orientation, Topology};

/// Amounts below this, of a unit, are round-off.
const ROUND_OFF: f64 = 1e-12;

/// All of the demand on one path of fewest links; of several, the first by the order of the links.
///
/// ```
/// use capillary::{NodeId, Orientation, Topology, baseline};
///
/// let links = [("s", "a", 1.0), ("a", "t", 1.0), ("s", "t", 1.0)];
/// let topology = Topology::from_links(Orientation::Undirected, links)?;
/// let routing = baseline::shortest_path(&topology, NodeId(0), NodeId(2))?;
/// assert_eq!(routing.links()[2].flow, 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn shortest_path(topology: &Topology, source: NodeId, target: NodeId) -> Result<Routing, SolveError> {
    disjoint_paths(topology, source, target, 1)
}

/// Equal shares on `k` paths that have no link in common and as few links as possible in all; on fewer if there are no
/// more, and none if `k` is 0 is taken for 1.
pub fn disjoint_paths(
    topology: &Topology,
    source: NodeId,
    target: NodeId,
    k: u32,
) -> Result<Routing, SolveError> {
    check_pair(topology, source, target)?;
    let mut units = Topology::new(topology.orientation());
    for (_, node) in topology.nodes() {
        units.add_node(node.clone())?;
    }
    for (_, from, to, _) in topology.links() {
        units.add_link(from, to, Link::default())?;
    }
    let paths = minimum_cut(&units, source, target)?.capacity.min(f64::from(k.max(1)));
    cheapest(topology, source, target, paths, |_| 1.0)
}

/// A largest flow, of the fewest links that one can have, scaled to the demand.
pub fn maximum_flow_split(
    topology: &Topology,
    source: NodeId,
    target: NodeId,
) -> Result<Routing, SolveError> {
    let amount = minimum_cut(topology, source, target)?.capacity;
    cheapest(topology, source, target, amount, |link| topology.link_weight(link).capacity)
}

/// The flow of `amount` over the fewest links, scaled to 1.
fn cheapest(
    topology: &Topology,
    source: NodeId,
    target: NodeId,
    amount: f64,
    capacity: impl Fn(LinkId) -> f64,
) -> Result<Routing, SolveError> {
    if amount <= 0.0 {
        return Err(unreachable(topology, source, target));
    }
    let mut supply = vec![0.0; topology.node_count()];
    supply[source.index()] = amount;
    supply[target.index()] = -amount;
    let mut problem = MinimumCostFlow::new(supply, ROUND_OFF * amount);
    let mut arcs = Vec::new();
    for (link, from, to, _) in topology.links().filter(|(_, from, to, _)| from != to) {
        problem.add(from.0, to.0, capacity(link), 1.0);
        arcs.push((link, 1.0));
        if topology.orientation() == Orientation::Undirected {
            problem.add(to.0, from.0, capacity(link), 1.0);
            arcs.push((link, -1.0));
        }
    }
    let mut flows = vec![0.0; topology.link_count()];
    for ((link, sign), flow) in arcs.into_iter().zip(problem.solve()) {
        flows[link.index()] += sign * flow / amount;
    }
    Ok(Routing::new(topology, source, target, &flows)?)
}

/// Equal-cost multipath as routers do it: at each node equal shares on all links that are on a way of fewest links.
pub fn equal_cost_multipath(
    topology: &Topology,
    source: NodeId,
    target: NodeId,
) -> Result<Routing, SolveError> {
    check_pair(topology, source, target)?;
    let links = Incidence::new(topology);
    let distance = links.distances_to(target);
    let Some(farthest) = distance[source.index()] else { return Err(unreachable(topology, source, target)) };
    let mut share = vec![0.0; topology.node_count()];
    share[source.index()] = 1.0;
    let mut flows = vec![0.0; topology.link_count()];
    let mut ring = vec![source];
    for left in (0..farthest).rev() {
        let mut next_ring = Vec::new();
        for node in ring {
            let nearer: Vec<_> = links.leaving[node.index()]
                .iter()
                .filter(|(_, head, _)| distance[head.index()] == Some(left))
                .collect();
            let each = share[node.index()] / nearer.len() as f64;
            for &&(link, head, sign) in &nearer {
                flows[link.index()] += sign * each;
                if share[head.index()] == 0.0 {
                    next_ring.push(head);
                }
                share[head.index()] += each;
            }
        }
        ring = next_ring;
    }
    Ok(Routing::new(topology, source, target, &flows)?)
}

/// The links by the node that they leave: link, other end, sign of a flow that way.
struct Incidence {
    leaving: Vec<Vec<(LinkId, NodeId, f64)>>,
    entering: Vec<Vec<NodeId>>,
}

impl Incidence {
    fn new(topology: &Topology) -> Self {
        let mut leaving = vec![Vec::new(); topology.node_count()];
        let mut entering = vec![Vec::new(); topology.node_count()];
        for (link, from, to, _) in topology.links().filter(|(_, from, to, _)| from != to) {
            leaving[from.index()].push((link, to, 1.0));
            entering[to.index()].push(from);
            if topology.orientation() == Orientation::Undirected {
                leaving[to.index()].push((link, from, -1.0));
                entering[from.index()].push(to);
            }
        }
        Self { leaving, entering }
    }

    /// Fewest links from each node to the target.
    fn distances_to(&self, target: NodeId) -> Vec<Option<u32>> {
        let mut distance = vec![None; self.leaving.len()];
        distance[target.index()] = Some(0);
        let mut queue = VecDeque::from([target]);
        while let Some(node) = queue.pop_front() {
            for &tail in &self.entering[node.index()] {
                if distance[tail.index()].is_none() {
                    distance[tail.index()] = distance[node.index()].map(|links: u32| links + 1);
                    queue.push_back(tail);
                }
            }
        }
        distance
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two ways of two links, one of three.
    fn network() -> Topology {
        let links =
            ["s a", "a t", "s b", "b t", "s c", "c d", "d t"].map(|ends| ends.split_once(' ').unwrap());
        let links = links.map(|(from, to)| (from, to, 1.0));
        Topology::from_links(Orientation::Undirected, links).unwrap()
    }

    fn flows(routing: &Routing) -> Vec<f64> {
        routing.links().iter().map(|link| link.flow).collect()
    }

    #[test]
    fn each_baseline_uses_the_paths_that_its_name_says() {
        let network = network();
        let (s, t) = (network.node("s").unwrap(), network.node("t").unwrap());
        assert_eq!(flows(&shortest_path(&network, s, t).unwrap()), [1.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(
            flows(&equal_cost_multipath(&network, s, t).unwrap()),
            [0.5, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0]
        );
        assert_eq!(flows(&disjoint_paths(&network, s, t, 2).unwrap()), [0.5, 0.5, 0.5, 0.5, 0.0, 0.0, 0.0]);
        let third = 1.0 / 3.0;
        assert_eq!(flows(&disjoint_paths(&network, s, t, 9).unwrap()), [third; 7]);
        assert_eq!(flows(&maximum_flow_split(&network, s, t).unwrap()), [third; 7]);
    }

    #[test]
    fn no_baseline_reaches_what_cannot_be_reached() {
        let apart = Topology::from_links(Orientation::Directed, [("a", "b", 1.0), ("c", "d", 1.0)]).unwrap();
        for baseline in [shortest_path, equal_cost_multipath, maximum_flow_split] {
            let error = baseline(&apart, NodeId(0), NodeId(3)).unwrap_err();
            assert!(matches!(error, SolveError::Unreachable { .. }), "{error}");
        }
    }
}
