//! The minimum cut between two nodes.

use crate::solver::{Recursion, SolveError, check_pair};
use crate::topology::{LinkId, NodeId, Orientation, Topology};

/// The links whose loss separates two nodes at the least total capacity.
#[derive(Debug, Clone, PartialEq)]
pub struct MinimumCut {
    /// The sum of the links' capacities: the largest flow between the two nodes.
    pub capacity: f64,
    /// The links that lead out of the source's side.
    pub links: Vec<LinkId>,
    /// The nodes on the source's side.
    pub source_side: Vec<NodeId>,
}

/// The minimum cut between two nodes; of capacity 0 and without links if there is no way from one to the other.
///
/// ```
/// use capillary::{NodeId, Orientation, Topology};
///
/// let links = [("a", "b", 3.0), ("b", "c", 1.0), ("b", "c", 1.0)];
/// let topology = Topology::from_links(Orientation::Undirected, links)?;
/// let cut = capillary::minimum_cut(&topology, NodeId(0), NodeId(2))?;
/// assert_eq!((cut.capacity, cut.links.len()), (2.0, 2));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn minimum_cut(topology: &Topology, source: NodeId, target: NodeId) -> Result<MinimumCut, SolveError> {
    check_pair(topology, source, target)?;
    let (capacity, side) = Recursion::new(topology, source, target).first_cut();
    let crosses = |from: NodeId, to: NodeId| match topology.orientation() {
        Orientation::Directed => side[from.index()] && !side[to.index()],
        Orientation::Undirected => side[from.index()] != side[to.index()],
    };
    let links = topology.links().filter(|&(_, from, to, _)| crosses(from, to)).map(|(id, ..)| id).collect();
    let source_side = topology.nodes().map(|(id, _)| id).filter(|id| side[id.index()]).collect();
    Ok(MinimumCut { capacity, links, source_side })
}
