//! Topologies from petgraph's graphs and back.

use petgraph::EdgeType;
use petgraph::graph::{DiGraph, Graph, UnGraph};

use crate::topology::{Link, Node, NodeId, Orientation, Topology, TopologyError};

impl<Ty: EdgeType> TryFrom<Graph<Node, Link, Ty>> for Topology {
    type Error = TopologyError;

    /// A directed graph becomes a directed network, an undirected one an undirected; the indices stay.
    ///
    /// ```
    /// use capillary::{Link, Node, Orientation, Topology};
    /// use petgraph::graph::UnGraph;
    ///
    /// let mut graph = UnGraph::new_undirected();
    /// let (a, b) = (graph.add_node(Node::new("a")), graph.add_node(Node::new("b")));
    /// graph.add_edge(a, b, Link::with_capacity(10.0));
    /// let topology = Topology::try_from(graph)?;
    /// assert_eq!(topology.orientation(), Orientation::Undirected);
    /// assert_eq!(UnGraph::from(topology).edge_count(), 1);
    /// # Ok::<(), capillary::TopologyError>(())
    /// ```
    fn try_from(graph: Graph<Node, Link, Ty>) -> Result<Self, TopologyError> {
        let orientation = if Ty::is_directed() { Orientation::Directed } else { Orientation::Undirected };
        let mut topology = Self::new(orientation);
        let (nodes, edges) = graph.into_nodes_edges();
        for node in nodes {
            topology.add_node(node.weight)?;
        }
        for edge in edges {
            let end = |index: petgraph::graph::NodeIndex| NodeId(index.index() as u32);
            topology.add_link(end(edge.source()), end(edge.target()), edge.weight)?;
        }
        Ok(topology)
    }
}

impl From<Topology> for DiGraph<Node, Link> {
    /// Each link becomes one edge from its first end to its second, in undirected networks too.
    fn from(topology: Topology) -> Self {
        topology.graph().clone()
    }
}

impl From<Topology> for UnGraph<Node, Link> {
    fn from(topology: Topology) -> Self {
        topology.graph().clone().into_edge_type()
    }
}
