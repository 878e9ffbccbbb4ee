//! Pairs of nodes that are worth a measurement: those that no single link separates.

use capillary::{NodeId, Topology};
use petgraph::graph::UnGraph;
use petgraph::unionfind::UnionFind;
use petgraph::visit::EdgeRef as _;
use rand_core::RngCore;

/// The classes of nodes of an undirected network without parallel links that are joined by two or more disjoint ways:
/// a minimum cut of at least 2 between any two of one class, and of at most 1 between nodes of different ones.
#[derive(Debug)]
pub(crate) struct Classes {
    classes: Vec<Vec<NodeId>>,
}

impl Classes {
    /// Takes the bridges out; what still hangs together is a class.
    pub(crate) fn of(topology: &Topology) -> Self {
        let mut graph = UnGraph::<(), ()>::default();
        let nodes: Vec<_> = topology.nodes().map(|_| graph.add_node(())).collect();
        for (_, from, to, _) in topology.links().filter(|(_, from, to, _)| from != to) {
            graph.add_edge(nodes[from.index()], nodes[to.index()], ());
        }
        let mut is_bridge = vec![false; graph.edge_count()];
        for bridge in petgraph::algo::bridges::bridges(&graph) {
            is_bridge[bridge.id().index()] = true;
        }
        let mut joined = UnionFind::<usize>::new(graph.node_count());
        for edge in graph.edge_references().filter(|edge| !is_bridge[edge.id().index()]) {
            joined.union(edge.source().index(), edge.target().index());
        }
        let mut classes = vec![Vec::new(); graph.node_count()];
        for (node, class) in joined.into_labeling().into_iter().enumerate() {
            classes[class].push(NodeId(node as u32));
        }
        classes.retain(|class| class.len() > 1);
        Self { classes }
    }

    /// How many ordered pairs lie within classes.
    fn pairs(&self) -> u64 {
        self.classes.iter().map(|class| ordered_pairs(class)).sum()
    }

    /// One of the ordered pairs with a minimum cut of at least 2, each as likely; `None` if there are none.
    pub(crate) fn draw(&self, random: &mut impl RngCore) -> Option<(NodeId, NodeId)> {
        let pairs = self.pairs();
        let mut place = (pairs > 0).then(|| below(random, pairs))?;
        for class in &self.classes {
            if place < ordered_pairs(class) {
                let others = class.len() as u64 - 1;
                let (from, to) = ((place / others) as usize, (place % others) as usize);
                return Some((class[from], class[if to < from { to } else { to + 1 }]));
            }
            place -= ordered_pairs(class);
        }
        None
    }
}

fn ordered_pairs(class: &[NodeId]) -> u64 {
    class.len() as u64 * (class.len() as u64 - 1)
}

/// A number below `bound`, each as likely: draws from the incomplete last multiple of the bound are thrown away.
fn below(random: &mut impl RngCore, bound: u64) -> u64 {
    let limit = u64::MAX - u64::MAX % bound;
    loop {
        let drawn = random.next_u64();
        if drawn < limit {
            return drawn % bound;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use capillary::{Orientation, minimum_cut};

    use super::*;

    /// Two triangles joined by a bridge, a tail, and a lone link.
    fn network() -> Topology {
        let ends = ["a b", "b c", "c a", "c d", "d e", "e f", "f d", "f g", "x y"];
        let links = ends.map(|ends| ends.split_once(' ').unwrap()).map(|(a, b)| (a, b, 1.0));
        Topology::from_links(Orientation::Undirected, links).unwrap()
    }

    #[test]
    fn all_pairs_with_a_minimum_cut_of_two_are_drawn_and_equally_often() {
        let network = network();
        let classes = Classes::of(&network);
        let mut random = netsim::random_stream(1, &["pairs"]);
        let mut drawn = BTreeMap::new();
        for _ in 0..12_000 {
            *drawn.entry(classes.draw(&mut random).unwrap()).or_insert(0) += 1;
        }
        let nodes = || network.nodes().map(|(id, _)| id);
        let pairs = nodes().flat_map(|a| nodes().filter(move |&b| b != a).map(move |b| (a, b)));
        let expected: Vec<_> =
            pairs.filter(|&(a, b)| minimum_cut(&network, a, b).unwrap().capacity >= 2.0).collect();
        assert_eq!(drawn.keys().copied().collect::<Vec<_>>(), expected);
        assert_eq!(expected.len(), 12);
        // Each 1,000 times but for chance: 5 deviations of 30.
        assert!(drawn.values().all(|&count| (850..1_150).contains(&count)), "{drawn:?}");
    }

    #[test]
    fn a_tree_has_no_such_pair() {
        let tree = Topology::from_links(Orientation::Undirected, [("a", "b", 1.0), ("b", "c", 1.0)]).unwrap();
        assert_eq!(Classes::of(&tree).draw(&mut netsim::random_stream(1, &[])), None);
    }
}
