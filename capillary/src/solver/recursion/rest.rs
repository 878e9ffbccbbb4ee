//! What the layers have left free when the solver stops early [theory §1.5].

use crate::minimum_cost::MinimumCostFlow;
use crate::solver::recursion::{Part, Recursion, SAFETY};

impl Recursion {
    /// Gives the links that no layer has fixed the cheapest flow that keeps their loads within that of the last layer
    /// [theory §1.5].
    pub(crate) fn fill_rest(&mut self) {
        let mut rest: Vec<Part> =
            std::mem::take(&mut self.pending).into_iter().map(|pending| pending.part).collect();
        rest.sort_by_key(|part| part.nodes.start);
        let mut number = vec![0; self.supply.len()];
        for part in &rest {
            let problem = self.rest_of(part, &mut number);
            self.take_rest(part, problem.solve());
        }
    }

    fn rest_of(&self, part: &Part, number: &mut [u32]) -> MinimumCostFlow {
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
        let network = &self.balance.network;
        for index in arcs {
            let (tail, slot) = (network.tail(index as usize), network.slot(index as usize));
            let capacity = network.capacity(slot);
            problem.add(number[tail as usize], number[slot.head as usize], capacity * room, 1.0 / capacity);
        }
        problem
    }

    fn take_rest(&mut self, part: &Part, arc_flows: Vec<f64>) {
        for (index, flow) in self.live_arcs(part).into_iter().zip(arc_flows) {
            let slot = self.balance.network.slot(index as usize);
            let signed = if slot.is_forward() { flow } else { -flow };
            self.flows[slot.link() as usize] += signed / part.scale;
        }
    }

    /// The arcs of a part, as positions of their slots, by the number of the link.
    fn live_arcs(&self, part: &Part) -> Vec<u32> {
        let network = &self.balance.network;
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
