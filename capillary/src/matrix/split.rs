//! The routing of a matrix as routers can take it: at each node, for each target, whole parts of what goes there.

use std::collections::BTreeMap;

use crate::matrix::arcs::Arcs;
use crate::matrix::{ArcUse, MatrixRouting};
use crate::split::whole_parts;
use crate::topology::{NodeId, Topology};

/// A share of what goes through a node to a target that is round-off.
const ROUND_OFF: f64 = 1e-9;

/// How one node splits what goes to one target.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TargetSplit {
    /// The node.
    pub node: NodeId,
    /// Where it goes.
    pub target: NodeId,
    /// The arcs, as positions in [`MatrixRouting::arcs`], with their parts, each at least 1.
    pub parts: Vec<(u32, u32)>,
}

/// The split ratios of a matrix's routing, in whole parts.
#[derive(Debug, Clone, PartialEq)]
pub struct TargetSplits {
    /// For each target the nodes from the farthest on: whoever sends to another one comes before it.
    splits: Vec<TargetSplit>,
    parts: u32,
}

impl TargetSplits {
    /// The ratios of a routing in multiples of 1/`parts`, by largest remainder; of equal remainders the earlier arc's
    /// is rounded up. Circles in the flow to a target, which a routing of all levels does not have, are taken out
    /// before.
    ///
    /// Paths that keep bounds do not keep them any more when nodes look at the target alone.
    pub fn of(topology: &Topology, routing: &MatrixRouting, parts: u32) -> Self {
        let arcs = Arcs::new(topology);
        let mut splits = Vec::new();
        for flow in routing.targets() {
            let mut left = flow.arcs.clone();
            let order = untangle(&arcs, &mut left);
            for node in order.into_iter().filter(|&node| node != flow.target.0) {
                let leaving: Vec<u32> = arcs.leaving(node).filter(|&arc| left[arc as usize] > 0.0).collect();
                let total: f64 = leaving.iter().map(|&arc| left[arc as usize]).sum();
                let shares: Vec<f64> = leaving.iter().map(|&arc| left[arc as usize] / total).collect();
                let counts = leaving.into_iter().zip(whole_parts(&shares, parts));
                let parts: Vec<(u32, u32)> = counts.filter(|(_, count)| *count > 0).collect();
                if !parts.is_empty() {
                    splits.push(TargetSplit { node: NodeId(node), target: flow.target, parts });
                }
            }
        }
        Self { splits, parts }
    }

    /// The splits, by target.
    pub fn splits(&self) -> &[TargetSplit] {
        &self.splits
    }

    /// How many parts a whole has.
    pub fn parts(&self) -> u32 {
        self.parts
    }

    /// What nodes with these ratios make of the routing's demands.
    pub fn arcs(&self, routing: &MatrixRouting) -> Vec<ArcUse> {
        let mut through: BTreeMap<(NodeId, NodeId), f64> = BTreeMap::new();
        for demand in routing.demands() {
            *through.entry((demand.target, demand.source)).or_insert(0.0) += demand.amount;
        }
        let mut arcs: Vec<ArcUse> = routing.arcs().to_vec();
        arcs.iter_mut().for_each(|arc| (arc.load, arc.level) = (0.0, None));
        for split in &self.splits {
            let amount = through.get(&(split.target, split.node)).copied().unwrap_or(0.0);
            for &(arc, parts) in &split.parts {
                let share = amount * f64::from(parts) / f64::from(self.parts);
                arcs[arc as usize].load += share;
                *through.entry((split.target, arcs[arc as usize].to)).or_insert(0.0) += share;
            }
        }
        arcs.iter_mut().for_each(|arc| arc.utilisation = arc.load / arc.capacity);
        arcs
    }
}

/// Takes round-off and circles out of a flow (index: arc). Returns the nodes that it leaves, in its order.
fn untangle(arcs: &Arcs, flow: &mut [f64]) -> Vec<u32> {
    for node in 0..arcs.nodes() as u32 {
        let total: f64 = arcs.leaving(node).map(|arc| flow[arc as usize]).sum();
        for arc in arcs.leaving(node) {
            if flow[arc as usize] <= ROUND_OFF * total {
                flow[arc as usize] = 0.0;
            }
        }
    }
    loop {
        let (order, circle) = order(arcs, flow);
        let least = circle.iter().map(|&arc| flow[arc as usize]).fold(f64::INFINITY, f64::min);
        if circle.is_empty() {
            return order;
        }
        // What is as small as the least but for round-off goes with it, or the circle would stay.
        circle.iter().for_each(|&arc| {
            let rest = flow[arc as usize] - least;
            flow[arc as usize] = if rest <= ROUND_OFF * least { 0.0 } else { rest };
        });
    }
}

/// The nodes in the order of a flow, or a circle of it.
fn order(arcs: &Arcs, flow: &[f64]) -> (Vec<u32>, Vec<u32>) {
    let used = |node: u32| arcs.leaving(node).filter(|&arc| flow[arc as usize] > 0.0);
    let mut entering = vec![0_usize; arcs.nodes()];
    for node in 0..arcs.nodes() as u32 {
        used(node).for_each(|arc| entering[arcs.arc(arc).head as usize] += 1);
    }
    let mut ready: Vec<u32> = (0..arcs.nodes() as u32).filter(|&node| entering[node as usize] == 0).collect();
    let mut order = Vec::with_capacity(arcs.nodes());
    while let Some(node) = ready.pop() {
        order.push(node);
        for arc in used(node) {
            let head = arcs.arc(arc).head;
            entering[head as usize] -= 1;
            if entering[head as usize] == 0 {
                ready.push(head);
            }
        }
    }
    if order.len() == arcs.nodes() {
        return (order, Vec::new());
    }
    (Vec::new(), circle(arcs, flow, &entering))
}

/// A circle among the nodes that something still enters: back from one of them, until a node comes again.
fn circle(arcs: &Arcs, flow: &[f64], entering: &[usize]) -> Vec<u32> {
    let is_left = |node: u32| entering[node as usize] > 0;
    let into = |node: u32| {
        let mut candidates = arcs.entering(node).iter().copied();
        candidates.find(|&arc| flow[arc as usize] > 0.0 && is_left(arcs.arc(arc).tail))
    };
    let Some(mut node) = (0..arcs.nodes() as u32).find(|&node| is_left(node)) else { return Vec::new() };
    let mut seen = vec![None; arcs.nodes()];
    let mut path = Vec::new();
    while seen[node as usize].is_none() {
        seen[node as usize] = Some(path.len());
        let Some(arc) = into(node) else { return Vec::new() };
        path.push(arc);
        node = arcs.arc(arc).tail;
    }
    path.split_off(seen[node as usize].unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::{Demand, TrafficMatrix, solve};
    use crate::topology::Orientation;

    #[test]
    fn thirds_in_sixteenths_are_six_five_and_five() {
        let links = [("s", "t", 1.0), ("s", "t", 1.0), ("s", "t", 1.0)];
        let topology = Topology::from_links(Orientation::Directed, links).unwrap();
        let traffic = TrafficMatrix::new(vec![Demand::new(NodeId(0), NodeId(1), 3.0)]);
        let routing = solve(&topology, &traffic, None).unwrap();
        let splits = TargetSplits::of(&topology, &routing, 16);
        assert_eq!(splits.splits().len(), 1);
        let mut counts: Vec<u32> = splits.splits()[0].parts.iter().map(|(_, count)| *count).collect();
        counts.sort_unstable();
        assert_eq!(counts, [5, 5, 6]);
        let loads: f64 = splits.arcs(&routing).iter().map(|arc| arc.load).sum();
        assert!((loads - 3.0).abs() < 1e-12);
    }

    #[test]
    fn circles_are_taken_out() {
        let links = [("s", "a", 1.0), ("a", "b", 1.0), ("b", "a", 1.0), ("b", "t", 1.0)];
        let arcs = Arcs::new(&Topology::from_links(Orientation::Directed, links).unwrap());
        let mut flow = vec![1.0, 3.0, 2.0, 1.0];
        assert_eq!(untangle(&arcs, &mut flow).len(), 4);
        assert_eq!(flow, [1.0, 1.0, 0.0, 1.0]);
    }
}
