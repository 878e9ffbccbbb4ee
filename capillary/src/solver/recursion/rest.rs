//! What the layers have left free when the solver stops early [theory §1.5].

use crate::minimum_cost::MinimumCostFlow;
use crate::network::Network;
use crate::solver::recursion::{Part, SAFETY};

/// What has no layer: parts whose links get the cheapest flow that keeps their loads within that of the last layer.
#[derive(Debug)]
pub(super) struct Rest<'r> {
    pub(super) network: &'r Network,
    /// What each node must send (negative: receive). Index: node.
    pub(super) supply: &'r [f64],
    /// The nodes; each part is a range of it.
    pub(super) order: &'r [u32],
    /// Capacity over flow of the links of the last layer.
    pub(super) last_scale: f64,
}

impl Rest<'_> {
    /// Adds the flow of a part to `flows` (index: link). `number` is working space (index: node).
    pub(super) fn fill(&self, part: &Part, number: &mut [u32], flows: &mut [f64]) {
        let arc_flows = self.problem(part, number).solve();
        for (index, flow) in self.live_arcs(part).into_iter().zip(arc_flows) {
            let slot = self.network.slot(index as usize);
            let signed = if slot.is_forward() { flow } else { -flow };
            flows[slot.link() as usize] += signed / part.scale;
        }
    }

    fn problem(&self, part: &Part, number: &mut [u32]) -> MinimumCostFlow {
        let nodes = self.nodes(part);
        let supply = nodes.iter().map(|&node| self.supply[node as usize]).collect();
        let mut problem = MinimumCostFlow::new(supply, SAFETY * part.noise);
        for (index, &node) in nodes.iter().enumerate() {
            number[node as usize] = index as u32;
        }
        // Flows here are flows in the original problem times the part's scale.
        let room = part.scale / self.last_scale;
        let arcs = self.live_arcs(part);
        problem.reserve(arcs.len());
        for index in arcs {
            let (tail, slot) = (self.network.tail(index as usize), self.network.slot(index as usize));
            let capacity = self.network.capacity(slot);
            problem.add(number[tail as usize], number[slot.head as usize], capacity * room, 1.0 / capacity);
        }
        problem
    }

    fn nodes(&self, part: &Part) -> &[u32] {
        &self.order[part.nodes.start as usize..part.nodes.end as usize]
    }

    /// The arcs of a part, as positions of their slots, by the number of the link.
    fn live_arcs(&self, part: &Part) -> Vec<u32> {
        let network = self.network;
        let slots = self.nodes(part).iter().flat_map(|&node| network.range(node));
        let arcs = slots.filter(|&index| network.capacity(network.slot(index)) > 0.0);
        let mut arcs: Vec<u32> = arcs.map(|index| index as u32).collect();
        arcs.sort_unstable_by_key(|&index| {
            let slot = network.slot(index as usize);
            (slot.link(), !slot.is_forward())
        });
        arcs
    }
}
