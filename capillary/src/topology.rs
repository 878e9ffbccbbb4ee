//! A network: nodes with names and positions, links with capacity, delay and loss.

mod element;

use std::collections::BTreeMap;

use petgraph::graph::{DiGraph, EdgeIndex, NodeIndex};
use petgraph::visit::EdgeRef;
use thiserror::Error;

pub use element::{Link, LinkId, Node, NodeId, Orientation, Position};

/// What cannot be part of a topology.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum TopologyError {
    /// Two nodes with one id.
    #[error("there are two nodes with the id {id:?}; ids must be unique")]
    DuplicateNode {
        /// The id that stands twice.
        id: String,
    },
    /// A link end, source or target that is no node of the topology.
    #[error("{node} does not exist; the topology has {nodes} nodes, counted from 0")]
    UnknownNode {
        /// The number that was given.
        node: NodeId,
        /// How many nodes there are.
        nodes: usize,
    },
    /// A capacity that is zero, negative, infinite or not a number.
    #[error("{link} has capacity {capacity}; a capacity must be positive and finite")]
    BadCapacity {
        /// The link, by its position.
        link: LinkId,
        /// The capacity that was given.
        capacity: f64,
    },
    /// A loss outside [0, 1].
    #[error("{link} has loss {loss}; a loss must lie in [0, 1]")]
    BadLoss {
        /// The link, by its position.
        link: LinkId,
        /// The loss that was given.
        loss: f64,
    },
    /// A metric that is zero, negative, infinite or not a number.
    #[error("{link} has metric {metric}; a metric must be positive and finite")]
    BadMetric {
        /// The link, by its position.
        link: LinkId,
        /// The metric that was given.
        metric: f64,
    },
    /// More nodes or links than ids.
    #[error("a topology has at most {} nodes and as many links", u32::MAX / 4)]
    TooLarge,
}

/// A network to route in: a multigraph on petgraph, whose links are all directed or all undirected.
///
/// Parallel links stay separate links. Self-loops are kept, so that a link's id is its position in the file, and
/// carry nothing.
///
/// ```
/// use capillary::{Link, Node, Orientation, Topology};
///
/// let mut topology = Topology::new(Orientation::Undirected);
/// let client = topology.add_node(Node::new("client"))?;
/// let relay = topology.add_node(Node::new("relay"))?;
/// let link = topology.add_link(client, relay, Link::with_capacity(200e6))?;
/// assert_eq!(topology.ends(link), (client, relay));
/// assert_eq!(topology.node("relay"), Some(relay));
/// # Ok::<(), capillary::TopologyError>(())
/// ```
#[derive(Debug, Clone)]
pub struct Topology {
    name: String,
    orientation: Orientation,
    graph: DiGraph<Node, Link, u32>,
    by_id: BTreeMap<String, NodeId>,
}

impl Topology {
    /// A network without nodes.
    pub fn new(orientation: Orientation) -> Self {
        Self { name: String::new(), orientation, graph: DiGraph::default(), by_id: BTreeMap::new() }
    }

    /// A network from (end, end, capacity) triples; a node is added where its name first stands.
    ///
    /// ```
    /// use capillary::{Orientation, Topology};
    /// let square = [("a", "b", 1.0), ("b", "d", 1.0), ("a", "c", 1.0), ("c", "d", 1.0)];
    /// let topology = Topology::from_links(Orientation::Undirected, square)?;
    /// assert_eq!((topology.node_count(), topology.link_count()), (4, 4));
    /// # Ok::<(), capillary::TopologyError>(())
    /// ```
    pub fn from_links<'a>(
        orientation: Orientation,
        links: impl IntoIterator<Item = (&'a str, &'a str, f64)>,
    ) -> Result<Self, TopologyError> {
        let mut topology = Self::new(orientation);
        for (from, to, capacity) in links {
            let from = topology.node_or_add(from)?;
            let to = topology.node_or_add(to)?;
            topology.add_link(from, to, Link::with_capacity(capacity))?;
        }
        Ok(topology)
    }

    /// The name of the network; empty if it has none.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gives the network a name.
    pub fn set_name(&mut self, name: impl Into<String>) {
        self.name = name.into();
    }

    /// Whether links carry one way or both.
    pub fn orientation(&self) -> Orientation {
        self.orientation
    }

    /// Reads the links as directed or as undirected from now on.
    pub fn set_orientation(&mut self, orientation: Orientation) {
        self.orientation = orientation;
    }

    /// Adds a node.
    pub fn add_node(&mut self, node: Node) -> Result<NodeId, TopologyError> {
        let id = next_id(self.graph.node_count()).map(NodeId)?;
        if self.by_id.contains_key(&node.id) {
            return Err(TopologyError::DuplicateNode { id: node.id });
        }
        self.by_id.insert(node.id.clone(), id);
        self.graph.add_node(node);
        Ok(id)
    }

    /// Adds a link between two nodes; in a directed network it carries from `from` to `to`.
    pub fn add_link(&mut self, from: NodeId, to: NodeId, link: Link) -> Result<LinkId, TopologyError> {
        self.check_node(from)?;
        self.check_node(to)?;
        let id = next_id(self.graph.edge_count()).map(LinkId)?;
        link.check(id)?;
        self.graph.add_edge(NodeIndex::new(from.index()), NodeIndex::new(to.index()), link);
        Ok(id)
    }

    fn node_or_add(&mut self, id: &str) -> Result<NodeId, TopologyError> {
        match self.node(id) {
            Some(node) => Ok(node),
            None => self.add_node(Node::new(id)),
        }
    }

    /// Whether the node exists, as an error that says what does.
    pub(crate) fn check_node(&self, node: NodeId) -> Result<(), TopologyError> {
        if node.index() < self.node_count() {
            Ok(())
        } else {
            Err(TopologyError::UnknownNode { node, nodes: self.node_count() })
        }
    }

    /// The node with this id.
    pub fn node(&self, id: &str) -> Option<NodeId> {
        self.by_id.get(id).copied()
    }

    /// What is known of a node.
    ///
    /// # Panics
    /// If the id belongs to another topology.
    pub fn node_weight(&self, node: NodeId) -> &Node {
        &self.graph[NodeIndex::new(node.index())]
    }

    /// What is known of a link.
    ///
    /// # Panics
    /// If the id belongs to another topology.
    pub fn link_weight(&self, link: LinkId) -> &Link {
        &self.graph[EdgeIndex::new(link.index())]
    }

    /// The ends of a link, as they were given.
    ///
    /// # Panics
    /// If the id belongs to another topology.
    pub fn ends(&self, link: LinkId) -> (NodeId, NodeId) {
        let edge = &self.graph.raw_edges()[link.index()];
        (node_id(edge.source()), node_id(edge.target()))
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.graph.node_count()
    }

    /// How many links there are, self-loops included; an undirected link counts once.
    pub fn link_count(&self) -> usize {
        self.graph.edge_count()
    }

    /// The nodes in order.
    pub fn nodes(&self) -> impl Iterator<Item = (NodeId, &Node)> {
        self.graph.node_indices().map(|index| (node_id(index), &self.graph[index]))
    }

    /// The links in order: id, ends as given, what is known.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, NodeId, NodeId, &Link)> {
        self.graph.edge_references().map(|edge| {
            (LinkId(edge.id().index() as u32), node_id(edge.source()), node_id(edge.target()), edge.weight())
        })
    }

    /// The same nodes with the links that `keep` tells to, and which of these links each one was. Renumbers the links.
    ///
    /// ```
    /// use capillary::{LinkId, Orientation, Topology};
    /// let topology = Topology::from_links(Orientation::Directed, [("a", "b", 1.0), ("b", "c", 2.0)])?;
    /// let (rest, were) = topology.filter_links(|link| link != LinkId(0));
    /// assert_eq!((rest.link_count(), were), (1, vec![LinkId(1)]));
    /// # Ok::<(), capillary::TopologyError>(())
    /// ```
    pub fn filter_links(&self, keep: impl Fn(LinkId) -> bool) -> (Self, Vec<LinkId>) {
        let mut rest = self.clone();
        rest.graph.clear_edges();
        let mut were = Vec::new();
        for (id, from, to, link) in self.links().filter(|(id, ..)| keep(*id)) {
            rest.graph.add_edge(NodeIndex::new(from.index()), NodeIndex::new(to.index()), link.clone());
            were.push(id);
        }
        (rest, were)
    }

    /// The smallest capacity of any link that is no self-loop: the unit of loads [theory §1].
    pub fn smallest_capacity(&self) -> Option<f64> {
        let carrying = self.links().filter(|(_, from, to, _)| from != to);
        carrying.map(|(.., link)| link.capacity).min_by(f64::total_cmp)
    }

    /// The graph beneath, for petgraph's algorithms. Its edges point from the first end of each link to the
    /// second, in undirected networks too.
    pub fn graph(&self) -> &DiGraph<Node, Link, u32> {
        &self.graph
    }
}

fn node_id(index: NodeIndex<u32>) -> NodeId {
    NodeId(index.index() as u32)
}

/// Ids stop early, so that the solvers can number the two arcs of every link in 32 bits.
fn next_id(count: usize) -> Result<u32, TopologyError> {
    u32::try_from(count).ok().filter(|&id| id < u32::MAX / 4).ok_or(TopologyError::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_a_link_is_named_with_its_value() {
        let mut topology = Topology::new(Orientation::Directed);
        let a = topology.add_node(Node::new("a")).unwrap();
        for capacity in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            let error = topology.add_link(a, a, Link::with_capacity(capacity)).unwrap_err();
            assert!(matches!(error, TopologyError::BadCapacity { link: LinkId(0), .. }), "{error}");
        }
        let lossy = Link { loss: Some(1.5), ..Link::default() };
        assert_eq!(
            topology.add_link(a, a, lossy).unwrap_err().to_string(),
            "link 0 has loss 1.5; a loss must lie in [0, 1]"
        );
        let error = topology.add_link(a, NodeId(7), Link::default()).unwrap_err();
        assert_eq!(error, TopologyError::UnknownNode { node: NodeId(7), nodes: 1 });
    }

    #[test]
    fn node_ids_are_unique_and_labels_need_not_be() {
        let mut topology = Topology::new(Orientation::Undirected);
        let label = Some("GEANT".to_string());
        let first = Node { label: label.clone(), ..Node::new("1") };
        topology.add_node(first.clone()).unwrap();
        topology.add_node(Node { label, ..Node::new("2") }).unwrap();
        assert_eq!(topology.add_node(first), Err(TopologyError::DuplicateNode { id: "1".into() }));
    }

    #[test]
    fn parallel_links_and_self_loops_keep_their_positions() {
        let links = [("a", "b", 1.0), ("b", "b", 0.5), ("a", "b", 2.0)];
        let topology = Topology::from_links(Orientation::Directed, links).unwrap();
        let listed: Vec<_> = topology.links().map(|(id, from, to, _)| (id.0, from.0, to.0)).collect();
        assert_eq!(listed, [(0, 0, 1), (1, 1, 1), (2, 0, 1)]);
        assert_eq!(topology.smallest_capacity(), Some(1.0));
    }
}
