//! The arcs of a topology: one of a directed link, two of an undirected one.

use crate::topology::{LinkId, Orientation, Topology};

/// One direction of a link.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Arc {
    pub(crate) tail: u32,
    pub(crate) head: u32,
    pub(crate) capacity: f64,
    pub(crate) link: LinkId,
    /// Whether the arc leads from the first end of its link to the second.
    pub(crate) forward: bool,
}

/// All arcs, and those that enter each node. Self-loops carry nothing and are left out.
#[derive(Debug, Clone)]
pub(crate) struct Arcs {
    arcs: Vec<Arc>,
    /// The arcs into node v: `entering[first[v]..first[v + 1]]`.
    first: Vec<u32>,
    entering: Vec<u32>,
    /// The arcs out of each node. Index: node.
    leaving: Vec<Vec<u32>>,
}

impl Arcs {
    pub(crate) fn new(topology: &Topology) -> Self {
        let mut arcs = Vec::new();
        for (link, from, to, weight) in topology.links().filter(|(_, from, to, _)| from != to) {
            let there = Arc { tail: from.0, head: to.0, capacity: weight.capacity, link, forward: true };
            arcs.push(there);
            if topology.orientation() == Orientation::Undirected {
                arcs.push(Arc { tail: to.0, head: from.0, forward: false, ..there });
            }
        }
        let mut first = vec![0; topology.node_count() + 1];
        for arc in &arcs {
            first[arc.head as usize + 1] += 1;
        }
        for node in 0..topology.node_count() {
            first[node + 1] += first[node];
        }
        let mut next = first.clone();
        let mut entering = vec![0; arcs.len()];
        for (index, arc) in arcs.iter().enumerate() {
            let place = &mut next[arc.head as usize];
            entering[*place as usize] = index as u32;
            *place += 1;
        }
        let mut leaving = vec![Vec::new(); topology.node_count()];
        for (index, arc) in arcs.iter().enumerate() {
            leaving[arc.tail as usize].push(index as u32);
        }
        Self { arcs, first, entering, leaving }
    }

    pub(crate) fn len(&self) -> usize {
        self.arcs.len()
    }

    pub(crate) fn nodes(&self) -> usize {
        self.first.len() - 1
    }

    pub(crate) fn arc(&self, index: u32) -> &Arc {
        &self.arcs[index as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, &Arc)> {
        (0..).zip(&self.arcs)
    }

    /// The arcs out of a node.
    pub(crate) fn leaving(&self, node: u32) -> impl Iterator<Item = u32> + '_ {
        self.leaving[node as usize].iter().copied()
    }

    /// The arcs into a node.
    pub(crate) fn entering(&self, node: u32) -> &[u32] {
        &self.entering[self.first[node as usize] as usize..self.first[node as usize + 1] as usize]
    }
}
