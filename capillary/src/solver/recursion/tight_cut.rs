//! Newton's method on cuts [theory §1.3].

use crate::solver::balance::Settled;
use crate::solver::recursion::{EPSILON, Part, Pending, Recursion, SAFETY};

/// The tight cut of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct TightCut {
    /// Its capacity over its supply: the largest λ for which λ·b can flow.
    pub(super) ratio: f64,
    /// Below this a residual or an excess is round-off.
    pub(super) tolerance: f64,
    /// A single node whose own arcs are the cut; `None`: the cut of [`Recursion::source_side`].
    single: Option<u32>,
}

impl Recursion {
    /// The smallest cut of the whole network: its capacity and, per node, whether it is on the source's side.
    pub(crate) fn first_cut(mut self) -> (f64, Vec<bool>) {
        let Some(Pending { part, .. }) = self.pending.pop() else { return (0.0, Vec::new()) };
        let cut = self.tight_cut(&part);
        let side = (0..self.supply.len() as u32).map(|node| self.is_on_source_side(&cut, node));
        (cut.ratio, side.collect())
    }

    /// Newton's method on cuts: from an upper bound of λ, a maximum flow either carries λ times the supplies, or
    /// leaves a cut whose ratio is the next, smaller λ.
    pub(super) fn tight_cut(&mut self, part: &Part) -> TightCut {
        let (mut cut, total_supply) = self.tightest_single_node(part);
        let mut ratio = 0.0;
        loop {
            // `excess` holds what is missing at the old ratio.
            for place in part.nodes.clone() {
                let node = self.order[place as usize] as usize;
                self.balance.excess[node] += (cut.ratio - ratio) * self.supply[node];
            }
            ratio = cut.ratio;
            cut.tolerance = SAFETY * ratio * (part.noise + EPSILON * total_supply);
            self.max_flows += 1;
            let nodes = &self.order[part.nodes.start as usize..part.nodes.end as usize];
            if self.balance.settle(nodes, cut.tolerance) == Settled::Balanced {
                return cut;
            }
            let next = self.ratio_of_cut_off(part);
            if next >= ratio * (1.0 - EPSILON) {
                return cut;
            }
            self.remember_source_side(part);
            cut = TightCut { ratio: next, single: None, ..cut };
            if next <= 0.0 {
                return cut;
            }
        }
    }

    /// The node whose own capacity allows the smallest λ, and the sum of the positive supplies. Sets every excess to
    /// what the flow in the network lacks or exceeds at λ = 0.
    fn tightest_single_node(&mut self, part: &Part) -> (TightCut, f64) {
        let mut cut = TightCut { ratio: f64::INFINITY, tolerance: 0.0, single: None };
        let mut total_supply = 0.0;
        for place in part.nodes.clone() {
            let node = self.order[place as usize];
            let network = &self.balance.network;
            let (mut out, mut into, mut net) = (0.0, 0.0, 0.0);
            for slot in network.slots(node) {
                let capacity = network.capacity(slot);
                out += capacity;
                into += network.capacity_back(slot);
                net += capacity - slot.residual;
            }
            self.balance.excess[node as usize] = -net;
            let supply = self.supply[node as usize];
            total_supply += supply.max(0.0);
            let ratio = if supply > 0.0 { out / supply } else { into / -supply };
            if supply != 0.0 && ratio < cut.ratio {
                cut = TightCut { ratio, single: Some(node), ..cut };
            }
        }
        (cut, total_supply)
    }

    /// The ratio of the cut around the nodes that the last flow left cut off.
    fn ratio_of_cut_off(&self, part: &Part) -> f64 {
        let (mut capacity, mut supply) = (0.0, 0.0);
        for &node in self.nodes(part).iter().filter(|&&node| self.balance.is_cut_off(node)) {
            supply += self.supply[node as usize];
            for slot in self.balance.network.slots(node) {
                if !self.balance.is_cut_off(slot.head) {
                    capacity += self.balance.network.capacity(slot);
                }
            }
        }
        // If no deficit is left anywhere, the excess that is stuck is the sum of many deficits too small to count, and
        // there is no cut. Neither is there one without a supply.
        let all = self.nodes(part).iter().all(|&node| self.balance.is_cut_off(node));
        if supply > 0.0 && !all { capacity / supply } else { f64::INFINITY }
    }

    fn remember_source_side(&mut self, part: &Part) {
        for place in part.nodes.clone() {
            let node = self.order[place as usize];
            self.source_side[node as usize] = self.balance.is_cut_off(node);
        }
    }

    pub(super) fn is_on_source_side(&self, cut: &TightCut, node: u32) -> bool {
        match cut.single {
            Some(single) => (node == single) == (self.supply[single as usize] > 0.0),
            None => self.source_side[node as usize],
        }
    }
}
