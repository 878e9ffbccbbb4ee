//! Traffic matrices.

use std::collections::BTreeMap;

use crate::matrix::MatrixError;
use crate::matrix::arcs::Arcs;
use crate::matrix::tree::Tree;
use crate::topology::{NodeId, Topology};

/// What one node has to send to another, in the unit of the capacities.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// Where it comes from.
    pub source: NodeId,
    /// Where it goes.
    pub target: NodeId,
    /// How much it is.
    pub amount: f64,
}

/// The demands of a network at one time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrafficMatrix {
    demands: Vec<Demand>,
}

impl TrafficMatrix {
    /// A matrix of these demands; those between the same two nodes add up.
    pub fn new(demands: Vec<Demand>) -> Self {
        Self { demands }
    }

    /// The demands as they were given.
    pub fn demands(&self) -> &[Demand] {
        &self.demands
    }

    /// A gravity matrix in which each node weighs the capacities of its links: see [`TrafficMatrix::gravity`].
    pub fn gravity_of(topology: &Topology, total: f64) -> Self {
        let mut weights = vec![0.0; topology.node_count()];
        for (_, from, to, link) in topology.links().filter(|(_, from, to, _)| from != to) {
            weights[from.index()] += link.capacity;
            weights[to.index()] += link.capacity;
        }
        Self::gravity(&weights, total)
    }

    /// A gravity matrix: the demand of each two nodes is in proportion to the product of their weights (one a node),
    /// and all together are `total`.
    pub fn gravity(weights: &[f64], total: f64) -> Self {
        let nodes = || (0..weights.len()).map(|node| (NodeId(node as u32), weights[node]));
        let pairs =
            || nodes().flat_map(|from| nodes().filter(move |to| to.0 != from.0).map(move |to| (from, to)));
        let sum: f64 = pairs().map(|(from, to)| from.1 * to.1).sum();
        let demand = |((source, a), (target, b))| Demand { source, target, amount: total * a * b / sum };
        Self { demands: pairs().map(demand).filter(|demand| demand.amount > 0.0).collect() }
    }

    /// The demands whose targets can be reached, and those whose cannot, as after a failure.
    ///
    /// # Errors
    /// [`MatrixError`] names a node that the topology does not have.
    pub fn by_reach(&self, topology: &Topology) -> Result<(Self, Self), MatrixError> {
        let arcs = Arcs::new(topology);
        let mut tree = Tree::new(arcs.nodes());
        let mut demands = self.demands.clone();
        demands.sort_by_key(|demand| (demand.target, demand.source));
        let (mut reached, mut cut) = (Self::default(), Self::default());
        for same_target in demands.chunk_by(|a, b| a.target == b.target) {
            topology.check_node(same_target[0].target)?;
            tree.search(&arcs, same_target[0].target.0, |_| Some(1.0), |_| 1.0);
            for demand in same_target {
                topology.check_node(demand.source)?;
                let part = if tree.distance(demand.source.0).is_finite() { &mut reached } else { &mut cut };
                part.demands.push(*demand);
            }
        }
        Ok((reached, cut))
    }

    /// The sum of all demands between two different nodes.
    pub fn total(&self) -> f64 {
        let between = self.demands.iter().filter(|demand| demand.source != demand.target);
        between.map(|demand| demand.amount).fold(0.0, |sum, amount| sum + amount)
    }

    /// The demands by target and source, those between the same two nodes as one, those of a node to itself left out.
    pub(super) fn checked(&self, topology: &Topology) -> Result<Vec<Demand>, MatrixError> {
        let mut merged: BTreeMap<(NodeId, NodeId), f64> = BTreeMap::new();
        for demand in &self.demands {
            topology.check_node(demand.source)?;
            topology.check_node(demand.target)?;
            if !(demand.amount.is_finite() && demand.amount >= 0.0) {
                let name = |node| topology.node_weight(node).name().to_string();
                let (source_name, target) = (name(demand.source), name(demand.target));
                return Err(MatrixError::BadAmount { source_name, target, amount: demand.amount });
            }
            if demand.source != demand.target && demand.amount > 0.0 {
                *merged.entry((demand.target, demand.source)).or_insert(0.0) += demand.amount;
            }
        }
        if merged.is_empty() {
            return Err(MatrixError::Empty);
        }
        let demand = |((target, source), amount)| Demand { source, target, amount };
        Ok(merged.into_iter().map(demand).collect())
    }
}
