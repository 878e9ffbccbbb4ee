//! Flows by balancing: every node has an excess (what it must still send, negative: receive), and rounds of pushes
//! carry excesses along shortest residual paths to where they are missing.
//!
//! The flow to start from is arbitrary within the capacities. That is what makes warm starts cheap: a change of the
//! supplies is a change of a few excesses, not a new flow.

use crate::network::Network;

/// The distance of nodes from which no deficit can be reached.
const UNREACHED: u32 = u32::MAX;

/// How [`Balance::settle`] ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Settled {
    /// Every supply is met.
    Balanced,
    /// Some nodes have more to send than the arcs around them can carry: a cut that is too small for its supply.
    CutOff,
}

/// A residual network with the excess of each node.
#[derive(Debug)]
pub(crate) struct Balance {
    pub(crate) network: Network,
    /// What node v must still send so that its net outflow is its supply. Index: node.
    pub(crate) excess: Vec<f64>,
    /// Fewest residual arcs from node v to a deficit. Index: node.
    distance: Vec<u32>,
    /// Nodes by increasing distance.
    queue: Vec<u32>,
    /// How many times distances were found anew, in all.
    pub(crate) rounds: usize,
}

impl Balance {
    pub(crate) fn new(network: Network, nodes: usize) -> Self {
        Self {
            network,
            excess: vec![0.0; nodes],
            distance: vec![UNREACHED; nodes],
            queue: Vec::with_capacity(nodes),
            rounds: 0,
        }
    }

    /// Carries excesses to deficits until none above `tolerance` is left, or until some are cut off from every deficit:
    /// what is cut off is then told by [`Balance::is_cut_off`]. `part` must be closed: no residual arc leaves it.
    ///
    /// Each round is a breadth-first search from the deficits and one sweep of pushes towards them, the farthest
    /// node first. A node that keeps an excess has filled all of its arcs towards nearer nodes, so that its distance
    /// grows with every round: push–relabel with exact labels.
    pub(crate) fn settle(&mut self, part: &[u32], tolerance: f64) -> Settled {
        loop {
            match self.find_distances(part, tolerance) {
                (0, 0) => return Settled::Balanced,
                (_, 0) => {}
                (_, _) => return Settled::CutOff,
            }
            for place in (0..self.queue.len()).rev() {
                self.discharge(self.queue[place], tolerance);
            }
        }
    }

    /// Whether the node is on the source side of the cut that the last [`Balance::settle`] ended with.
    pub(crate) fn is_cut_off(&self, node: u32) -> bool {
        self.distance[node as usize] == UNREACHED
    }

    /// Finds how far each node is from a deficit. Returns how many nodes have an excess, and how many of them cannot
    /// reach a deficit.
    fn find_distances(&mut self, part: &[u32], tolerance: f64) -> (usize, usize) {
        self.rounds += 1;
        self.queue.clear();
        let mut excesses = 0;
        for &node in part {
            let excess = self.excess[node as usize];
            excesses += usize::from(excess > tolerance);
            if excess < -tolerance {
                self.distance[node as usize] = 0;
                self.queue.push(node);
            } else {
                self.distance[node as usize] = UNREACHED;
            }
        }
        let mut reached = 0;
        let mut next = 0;
        while let Some(&node) = self.queue.get(next) {
            next += 1;
            reached += usize::from(self.excess[node as usize] > tolerance);
            let beyond = self.distance[node as usize] + 1;
            for slot in self.network.slots(node) {
                if slot.reverse > tolerance && self.distance[slot.head as usize] == UNREACHED {
                    self.distance[slot.head as usize] = beyond;
                    self.queue.push(slot.head);
                }
            }
        }
        (excesses, excesses - reached)
    }

    /// Pushes the excess of a node to nodes that are one arc nearer to a deficit.
    fn discharge(&mut self, node: u32, tolerance: f64) {
        let mut excess = self.excess[node as usize];
        if excess <= tolerance {
            return;
        }
        let distance = self.distance[node as usize];
        for index in self.network.range(node) {
            let slot = *self.network.slot(index);
            // A node at distance 0 has nowhere nearer to push to: no distance is -1.
            if slot.residual > tolerance && self.distance[slot.head as usize].wrapping_add(1) == distance {
                let amount = excess.min(slot.residual);
                self.network.push(index, amount);
                self.excess[slot.head as usize] += amount;
                excess -= amount;
                if excess <= tolerance {
                    break;
                }
            }
        }
        self.excess[node as usize] = excess;
    }
}
