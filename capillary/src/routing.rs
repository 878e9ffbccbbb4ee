//! What a route planner hands over: how much of the demand each link carries.

use thiserror::Error;

use crate::topology::{LinkId, NodeId, Orientation, Topology, TopologyError};

/// A flow of 1 within this is the whole demand; a flow within this of 0 is none.
pub(crate) const NEGLIGIBLE_FLOW: f64 = 1e-9;

/// Loads that differ by less than this, relative, are one layer: the smallest gap between distinct layers seen on
/// 300-node networks was 1.2e-6 [theory §1.4].
pub(crate) const EQUAL_LOADS: f64 = 1e-9;

/// What one link does in a [`Routing`].
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkUse {
    /// The first end, as in the topology.
    pub from: NodeId,
    /// The second end, as in the topology.
    pub to: NodeId,
    /// The share of the demand that the link carries, in [-1, 1]: negative if an undirected link is used from its
    /// second end to its first.
    pub flow: f64,
    /// |flow| · smallest capacity of the network / capacity of the link [theory §1].
    pub load: f64,
    /// The layer that fixed the load, counted from 1; `None` if the link is unused or belongs to no layer.
    pub layer: Option<u32>,
}

/// One layer of a capillary routing.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Layer {
    /// Counted from 1, by falling load.
    pub number: u32,
    /// The load of its links.
    pub load: f64,
    /// How many links it fixes.
    pub links: usize,
}

/// A unit flow from a source to a target: per link the share of the demand that it carries.
///
/// Flow conservation is checked when a routing is made. [`Routing::verify`] checks it against a topology, whoever
/// made it; that it is the *capillary* routing is what [`Certificate::prove`](crate::Certificate::prove) shows.
#[derive(Debug, Clone, PartialEq)]
pub struct Routing {
    source: NodeId,
    target: NodeId,
    orientation: Orientation,
    links: Vec<LinkUse>,
    layers: Vec<Layer>,
}

/// Why flows are no routing.
#[derive(Debug, Clone, PartialEq, Error)]
pub enum RoutingError {
    /// There is not exactly one flow for each link.
    #[error("{flows} flows for {links} links; there must be one for each")]
    WrongLength {
        /// How many flows were given.
        flows: usize,
        /// How many links the topology has.
        links: usize,
    },
    /// A flow that the link cannot have.
    #[error("{link} has flow {flow}; a flow lies in [-1, 1], and not below 0 on a directed link")]
    BadFlow {
        /// The link.
        link: LinkId,
        /// Its flow.
        flow: f64,
    },
    /// What leaves a node is not what enters it.
    #[error("at {node} outflow minus inflow is {actual}; it must be {expected}")]
    NotConserved {
        /// The node.
        node: NodeId,
        /// Outflow minus inflow.
        actual: f64,
        /// 1 at the source, -1 at the target, 0 elsewhere.
        expected: f64,
    },
    /// A load that does not belong to the flow.
    #[error("{link} has load {load}; its flow makes it {expected}")]
    WrongLoad {
        /// The link.
        link: LinkId,
        /// The load that stands in the routing.
        load: f64,
        /// The load that follows from the flow.
        expected: f64,
    },
    /// The routing's links are not those of the topology.
    #[error("{link} joins other nodes here than in the topology")]
    OtherTopology {
        /// The first link that differs.
        link: LinkId,
    },
    /// A source or a target that the topology does not have.
    #[error(transparent)]
    Topology(#[from] TopologyError),
}

impl Routing {
    /// A routing from one signed flow per link, in the order of the topology. The links belong to no layer.
    ///
    /// ```
    /// use capillary::{NodeId, Orientation, Routing, Topology};
    ///
    /// let links = [("s", "t", 1.0), ("t", "s", 1.0)];
    /// let topology = Topology::from_links(Orientation::Undirected, links)?;
    /// let routing = Routing::new(&topology, NodeId(0), NodeId(1), &[0.75, -0.25])?;
    /// assert_eq!(routing.links()[1].load, 0.25);
    /// assert!(Routing::new(&topology, NodeId(0), NodeId(1), &[0.75, 0.25]).is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn new(
        topology: &Topology,
        source: NodeId,
        target: NodeId,
        flows: &[f64],
    ) -> Result<Self, RoutingError> {
        if flows.len() != topology.link_count() {
            return Err(RoutingError::WrongLength { flows: flows.len(), links: topology.link_count() });
        }
        let unit = topology.smallest_capacity().unwrap_or(1.0);
        let links = topology.links().zip(flows).map(|((_, from, to, link), &flow)| LinkUse {
            from,
            to,
            flow,
            load: flow.abs() * unit / link.capacity,
            layer: None,
        });
        let orientation = topology.orientation();
        let routing = Self { source, target, orientation, links: links.collect(), layers: Vec::new() };
        routing.verify(topology)?;
        Ok(routing)
    }

    /// The same for a solver that knows the layers: ranks the loads of the links it `fixed`, largest first.
    pub(crate) fn with_layers(
        topology: &Topology,
        source: NodeId,
        target: NodeId,
        flows: &[f64],
        fixed: impl Fn(LinkId) -> bool,
    ) -> Result<Self, RoutingError> {
        let mut routing = Self::new(topology, source, target, flows)?;
        let mut ranked: Vec<LinkId> =
            (0..topology.link_count() as u32).map(LinkId).filter(|&id| fixed(id)).collect();
        ranked.sort_by(|a, b| routing.link(*b).load.total_cmp(&routing.link(*a).load));
        for id in ranked {
            let load = routing.link(id).load;
            match routing.layers.last_mut() {
                Some(layer) if load >= layer.load * (1.0 - EQUAL_LOADS) => layer.links += 1,
                _ => routing.layers.push(Layer { number: routing.layers.len() as u32 + 1, load, links: 1 }),
            }
            routing.links[id.index()].layer = Some(routing.layers.len() as u32);
        }
        Ok(routing)
    }

    /// Where the demand comes from.
    pub fn source(&self) -> NodeId {
        self.source
    }

    /// Where the demand goes.
    pub fn target(&self) -> NodeId {
        self.target
    }

    /// Whether a link may be used in one direction only.
    pub fn orientation(&self) -> Orientation {
        self.orientation
    }

    /// What each link does; index: the link's id.
    pub fn links(&self) -> &[LinkUse] {
        &self.links
    }

    /// What a link does.
    ///
    /// # Panics
    /// If the id belongs to another topology.
    pub fn link(&self, link: LinkId) -> &LinkUse {
        &self.links[link.index()]
    }

    /// The layers by falling load; none if the routing was not made layer by layer.
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// The largest load of any link.
    pub fn largest_load(&self) -> f64 {
        self.links.iter().map(|link| link.load).fold(0.0, f64::max)
    }

    /// The links that carry the whole demand, whatever their load: no routing survives their failure alone.
    pub fn critical_links(&self) -> impl Iterator<Item = LinkId> {
        self.used_links().filter(|(_, link)| link.is_critical()).map(|(id, _)| id)
    }

    /// The links that carry something.
    pub fn used_links(&self) -> impl Iterator<Item = (LinkId, &LinkUse)> {
        let numbered = self.links.iter().enumerate().map(|(index, link)| (LinkId(index as u32), link));
        numbered.filter(|(_, link)| link.flow.abs() > NEGLIGIBLE_FLOW)
    }

    /// The load with the sign of the flow.
    pub(crate) fn signed_load(&self, link: LinkId) -> f64 {
        let link = self.link(link);
        link.load.copysign(link.flow)
    }

    /// Checks that this is a unit flow in `topology` from the source to the target, and that the loads are those of
    /// the flows, to 1e-9 of the demand.
    ///
    /// Complexity: O(nodes + links).
    pub fn verify(&self, topology: &Topology) -> Result<(), RoutingError> {
        topology.check_node(self.source)?;
        topology.check_node(self.target)?;
        if self.links.len() != topology.link_count() {
            return Err(RoutingError::WrongLength { flows: self.links.len(), links: topology.link_count() });
        }
        self.verify_links(topology)?;
        self.verify_conservation(topology.node_count())
    }

    fn verify_links(&self, topology: &Topology) -> Result<(), RoutingError> {
        let unit = topology.smallest_capacity().unwrap_or(1.0);
        let least = match topology.orientation() {
            Orientation::Directed => 0.0,
            Orientation::Undirected => -1.0 - NEGLIGIBLE_FLOW,
        };
        for ((id, from, to, weight), link) in topology.links().zip(&self.links) {
            if (from, to) != (link.from, link.to) {
                return Err(RoutingError::OtherTopology { link: id });
            }
            if !(least..=1.0 + NEGLIGIBLE_FLOW).contains(&link.flow) {
                return Err(RoutingError::BadFlow { link: id, flow: link.flow });
            }
            let expected = link.flow.abs() * unit / weight.capacity;
            if (link.load - expected).abs() > NEGLIGIBLE_FLOW {
                return Err(RoutingError::WrongLoad { link: id, load: link.load, expected });
            }
        }
        Ok(())
    }

    fn verify_conservation(&self, nodes: usize) -> Result<(), RoutingError> {
        let mut outflow = vec![0.0; nodes];
        for link in &self.links {
            outflow[link.from.index()] += link.flow;
            outflow[link.to.index()] -= link.flow;
        }
        for (index, actual) in outflow.into_iter().enumerate() {
            let node = NodeId(index as u32);
            let expected = f64::from(node == self.source) - f64::from(node == self.target);
            if (actual - expected).abs() > NEGLIGIBLE_FLOW {
                return Err(RoutingError::NotConserved { node, actual, expected });
            }
        }
        Ok(())
    }
}

impl LinkUse {
    /// Whether the link carries the whole demand.
    pub fn is_critical(&self) -> bool {
        self.flow.abs() >= 1.0 - NEGLIGIBLE_FLOW
    }

    /// The ends in the direction in which the link is used.
    pub fn direction(&self) -> (NodeId, NodeId) {
        if self.flow < 0.0 { (self.to, self.from) } else { (self.from, self.to) }
    }
}
