//! The routings that capillary routing is compared with.

use std::num::NonZeroU32;

use crate::cut::minimum_cut;
use crate::matrix::{self, ArcUse, Demand, MatrixError, TrafficMatrix};
use crate::minimum_cost::MinimumCostFlow;
use crate::routing::Routing;
use crate::solver::{SolveError, check_pair, unreachable};
use crate::topology::{Link, LinkId, NodeId, Orientation, Topology};

/// Random multipath as the programs show it: so many paths for each demand, and always the same.
pub const RANDOM_PATHS: NonZeroU32 = NonZeroU32::new(8).unwrap();
/// Where the dice of [`RANDOM_PATHS`] begin.
pub const RANDOM_SEED: u64 = 1;

/// Amounts below this, of a unit, are round-off.
const ROUND_OFF: f64 = 1e-12;

/// All of the demand on one shortest path by the metrics of the links, without metrics one of fewest links; of several,
/// the first by the order of the links.
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

/// Equal shares on `k` paths that have no link in common and are as short as possible in all, by the metrics of the
/// links; on fewer if there are no more. A `k` of 0 is taken for 1.
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

/// A largest flow, of the shortest paths by the metrics of the links that one can have, scaled to the demand.
pub fn maximum_flow_split(
    topology: &Topology,
    source: NodeId,
    target: NodeId,
) -> Result<Routing, SolveError> {
    let amount = minimum_cut(topology, source, target)?.capacity;
    cheapest(topology, source, target, amount, |link| topology.link_weight(link).capacity)
}

/// The flow of `amount` on the shortest paths, scaled to 1.
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
    for (link, from, to, weight) in topology.links().filter(|(_, from, to, _)| from != to) {
        problem.add(from.0, to.0, capacity(link), weight.length());
        arcs.push((link, 1.0));
        if topology.orientation() == Orientation::Undirected {
            problem.add(to.0, from.0, capacity(link), weight.length());
            arcs.push((link, -1.0));
        }
    }
    let mut flows = vec![0.0; topology.link_count()];
    for ((link, sign), flow) in arcs.into_iter().zip(problem.solve()) {
        flows[link.index()] += sign * flow / amount;
    }
    Ok(Routing::new(topology, source, target, &flows)?)
}

/// Equal-cost multipath as routers do it: at each node equal shares on all links that are on a shortest way, by the
/// metrics of the links; without metrics on a way of fewest links.
pub fn equal_cost_multipath(
    topology: &Topology,
    source: NodeId,
    target: NodeId,
) -> Result<Routing, SolveError> {
    let length = |link| topology.link_weight(link).length();
    of_unit(topology, source, target, |unit| matrix::equal_cost_multipath(topology, unit, length))
}

/// Equal shares on `paths` paths, each the shortest by lengths of the links that are drawn anew from an exponential
/// distribution: see [`matrix::random_multipath`]. The same `seed` gives the same paths on every machine.
///
/// ```
/// use capillary::baseline::{RANDOM_PATHS, RANDOM_SEED, random_multipath};
/// use capillary::{NodeId, Orientation, Topology};
///
/// let topology = Topology::from_links(Orientation::Directed, [("s", "t", 1.0); 3])?;
/// let routing = random_multipath(&topology, NodeId(0), NodeId(1), RANDOM_PATHS, RANDOM_SEED)?;
/// assert_eq!(routing.links().iter().map(|link| link.flow * 8.0).sum::<f64>(), 8.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn random_multipath(
    topology: &Topology,
    source: NodeId,
    target: NodeId,
    paths: NonZeroU32,
    seed: u64,
) -> Result<Routing, SolveError> {
    of_unit(topology, source, target, |unit| matrix::random_multipath(topology, unit, paths, seed))
}

/// How a matrix of one demand of 1 is routed.
fn of_unit(
    topology: &Topology,
    source: NodeId,
    target: NodeId,
    route: impl FnOnce(&TrafficMatrix) -> Result<Vec<ArcUse>, MatrixError>,
) -> Result<Routing, SolveError> {
    check_pair(topology, source, target)?;
    let unit = TrafficMatrix::new(vec![Demand::new(source, target, 1.0)]);
    let arcs = route(&unit).map_err(|_| unreachable(topology, source, target))?;
    let mut flows = vec![0.0; topology.link_count()];
    for arc in arcs {
        let is_forward = topology.ends(arc.link).0 == arc.from;
        flows[arc.link.index()] += if is_forward { arc.load } else { -arc.load };
    }
    Ok(Routing::new(topology, source, target, &flows)?)
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
    fn metrics_say_which_path_is_shortest() {
        let mut network = Topology::new(Orientation::Undirected);
        for name in ["s", "a", "b", "t"] {
            network.add_node(crate::Node::new(name)).unwrap();
        }
        for (from, to, metric) in [(0, 3, 9.0), (0, 1, 2.0), (1, 3, 2.0), (0, 2, 1.5), (2, 3, 2.5)] {
            let link = Link { metric: Some(metric), ..Link::default() };
            network.add_link(NodeId(from), NodeId(to), link).unwrap();
        }
        let (s, t) = (NodeId(0), NodeId(3));
        assert_eq!(flows(&shortest_path(&network, s, t).unwrap())[0], 0.0);
        assert_eq!(flows(&equal_cost_multipath(&network, s, t).unwrap()), [0.0, 0.5, 0.5, 0.5, 0.5]);
        assert_eq!(flows(&disjoint_paths(&network, s, t, 2).unwrap()), [0.0, 0.5, 0.5, 0.5, 0.5]);
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
