//! Traffic matrices.

use std::collections::BTreeMap;

use crate::matrix::arcs::Arcs;
use crate::matrix::bounds::{Budgets, Ways};
use crate::matrix::{LARGEST_AMOUNT, MatrixError, PathBounds};
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
    /// What each of its paths must keep, beside the bounds of all.
    pub bounds: PathBounds,
}

impl Demand {
    /// A demand without bounds of its own.
    pub fn new(source: NodeId, target: NodeId, amount: f64) -> Self {
        Self { source, target, amount, bounds: PathBounds::default() }
    }
}

/// The demands of a network at one time.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TrafficMatrix {
    demands: Vec<Demand>,
}

impl TrafficMatrix {
    /// A matrix of these demands; those between the same two nodes with the same bounds add up.
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
        let demand = |((source, a), (target, b))| Demand::new(source, target, total * a * b / sum);
        Self { demands: pairs().map(demand).filter(|demand| demand.amount > 0.0).collect() }
    }

    /// The demands whose targets can be reached within their bounds, and those whose cannot, as after a failure.
    ///
    /// # Errors
    /// [`MatrixError`] names a node that the topology does not have, or a link without a delay where one is bounded.
    pub fn by_reach(&self, topology: &Topology) -> Result<(Self, Self), MatrixError> {
        let arcs = Arcs::new(topology);
        let mut demands = self.demands.clone();
        for demand in &demands {
            topology.check_node(demand.source)?;
            topology.check_node(demand.target)?;
        }
        demands.sort_by_key(|demand| (demand.target, demand.source));
        let budgets = Budgets::new(topology, &arcs, &demands, &PathBounds::default())?;
        let mut ways = Ways::new(arcs.nodes(), budgets);
        let (mut reached, mut cut) = (Self::default(), Self::default());
        let mut begin = 0;
        for same_target in demands.chunk_by(|a, b| a.target == b.target) {
            let range = begin..begin + same_target.len();
            ways.search(&arcs, same_target[0].target.0, range.clone(), |_| Some(1.0), |_| 1.0);
            for (index, demand) in range.clone().zip(same_target) {
                let is_reached = ways.distance(index, demand.source.0).is_finite();
                let part = if is_reached { &mut reached } else { &mut cut };
                part.demands.push(*demand);
            }
            begin = range.end;
        }
        Ok((reached, cut))
    }

    /// The sum of all demands between two different nodes.
    pub fn total(&self) -> f64 {
        let between = self.demands.iter().filter(|demand| demand.source != demand.target);
        between.map(|demand| demand.amount).fold(0.0, |sum, amount| sum + amount)
    }

    /// The demands by target and source, those between the same two nodes with the same bounds as one, those of a node
    /// to itself left out.
    pub(super) fn checked(&self, topology: &Topology) -> Result<Vec<Demand>, MatrixError> {
        let mut merged: BTreeMap<_, Demand> = BTreeMap::new();
        for demand in &self.demands {
            topology.check_node(demand.source)?;
            topology.check_node(demand.target)?;
            if !(0.0..=LARGEST_AMOUNT).contains(&demand.amount) {
                let name = |node| topology.node_weight(node).name().to_string();
                let (source_name, target) = (name(demand.source), name(demand.target));
                return Err(MatrixError::BadAmount { source_name, target, amount: demand.amount });
            }
            if demand.source != demand.target && demand.amount > 0.0 {
                let key = (demand.target, demand.source, demand.bounds.key());
                merged.entry(key).or_insert(Demand { amount: 0.0, ..*demand }).amount += demand.amount;
            }
        }
        if merged.is_empty() {
            return Err(MatrixError::Empty);
        }
        Ok(merged.into_values().collect())
    }
}
