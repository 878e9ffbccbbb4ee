//! Newton's method on cuts [theory §1.3].

use crate::solver::balance::{Balance, Settled};
use crate::solver::recursion::{EPSILON, SAFETY};

/// The tight cut of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct TightCut {
    /// Its capacity over its supply: the largest λ for which λ·b can flow.
    pub(super) ratio: f64,
    /// Below this a residual or an excess is round-off.
    pub(super) tolerance: f64,
    /// A single node whose own arcs are the cut; `None`: the cut of [`Newton::source_side`].
    single: Option<u32>,
}

/// A part in which a tight cut is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) nodes: &'a [u32],
    /// What each node of the network must send (negative: receive). Index: node.
    pub(super) supply: &'a [f64],
    /// What round-off may have done to a supply so far.
    pub(super) noise: f64,
}

/// Newton's method, and what it remembers of the last cut.
#[derive(Debug)]
pub(super) struct Newton {
    /// Whether the node is on the source side of the last cut that a flow was stuck at. Index: node.
    source_side: Vec<bool>,
    /// Flows so far.
    pub(super) max_flows: usize,
}

impl Newton {
    pub(super) fn new(nodes: usize) -> Newton {
        Newton { source_side: vec![false; nodes], max_flows: 0 }
    }

    /// From an upper bound of λ, a maximum flow either carries λ times the supplies, or leaves a cut whose ratio is the
    /// next, smaller λ.
    pub(super) fn tight_cut(&mut self, balance: &mut Balance, part: Problem<'_>) -> TightCut {
        let Problem { nodes, supply, noise } = part;
        let (mut cut, total_supply) = tightest_single_node(balance, part);
        let mut ratio = 0.0;
        loop {
            // `excess` holds what is missing at the old ratio.
            for &node in nodes {
                balance.excess[node as usize] += (cut.ratio - ratio) * supply[node as usize];
            }
            ratio = cut.ratio;
            cut.tolerance = SAFETY * ratio * (noise + EPSILON * total_supply);
            self.max_flows += 1;
            if balance.settle(nodes, cut.tolerance) == Settled::Balanced {
                return cut;
            }
            let next = ratio_of_cut_off(balance, part);
            if next >= ratio * (1.0 - EPSILON) {
                return cut;
            }
            for &node in nodes {
                self.source_side[node as usize] = balance.is_cut_off(node);
            }
            cut = TightCut { ratio: next, single: None, ..cut };
            if next <= 0.0 {
                return cut;
            }
        }
    }

    /// Whether a node is on the source side of the last cut; `supply` is that of all nodes.
    pub(super) fn is_on_source_side(&self, cut: &TightCut, supply: &[f64], node: u32) -> bool {
        match cut.single {
            Some(single) => (node == single) == (supply[single as usize] > 0.0),
            None => self.source_side[node as usize],
        }
    }
}

/// The node whose own capacity allows the smallest λ, and the sum of the positive supplies. Sets every excess to what
/// the flow in the network lacks or exceeds at λ = 0.
fn tightest_single_node(balance: &mut Balance, part: Problem<'_>) -> (TightCut, f64) {
    let mut cut = TightCut { ratio: f64::INFINITY, tolerance: 0.0, single: None };
    let mut total_supply = 0.0;
    for &node in part.nodes {
        let network = &balance.network;
        let (mut out, mut into, mut net) = (0.0, 0.0, 0.0);
        for slot in network.slots(node) {
            let capacity = network.capacity(slot);
            out += capacity;
            into += network.capacity_back(slot);
            net += capacity - slot.residual;
        }
        balance.excess[node as usize] = -net;
        let supply = part.supply[node as usize];
        total_supply += supply.max(0.0);
        let ratio = if supply > 0.0 { out / supply } else { into / -supply };
        if supply != 0.0 && ratio < cut.ratio {
            cut = TightCut { ratio, single: Some(node), ..cut };
        }
    }
    (cut, total_supply)
}

/// The ratio of the cut around the nodes that the last flow left cut off.
fn ratio_of_cut_off(balance: &Balance, part: Problem<'_>) -> f64 {
    let (mut capacity, mut supply) = (0.0, 0.0);
    for &node in part.nodes.iter().filter(|&&node| balance.is_cut_off(node)) {
        supply += part.supply[node as usize];
        for slot in balance.network.slots(node) {
            if !balance.is_cut_off(slot.head) {
                capacity += balance.network.capacity(slot);
            }
        }
    }
    // If no deficit is left anywhere, the excess that is stuck is the sum of many deficits too small to count, and
    // there is no cut. Neither is there one without a supply.
    let all = part.nodes.iter().all(|&node| balance.is_cut_off(node));
    if supply > 0.0 && !all { capacity / supply } else { f64::INFINITY }
}
