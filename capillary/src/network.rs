//! The residual network that the layer solver works on: flows that may be out of balance, and what can still move.
//!
//! The network starts whole and falls apart: [`Network::cut_off`] takes arcs out for good, so that a traversal from
//! a node stays within its part. All of the arrays are indexed by node or by slot; nothing is allocated after the
//! construction.

use crate::topology::{Orientation, Topology};

/// Marks the slot that leads from the second end of a link to the first.
const BACKWARD: u32 = 1 << 31;

/// One arc of the residual network, seen from its tail.
///
/// An undirected link is one edge whose flow may have either sign: two slots with the link's capacity each. Pushing
/// against a flow first takes the flow back, which is why a capillary routing never uses both directions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Slot {
    pub(crate) head: u32,
    /// Where the opposite slot is, in the list of `head`.
    twin: u32,
    /// The link, and in the top bit [`BACKWARD`].
    link: u32,
    /// How much more can be pushed from the tail to the head.
    pub(crate) residual: f64,
    /// The same for the opposite slot: a copy, so that a search against the arcs reads one list only.
    pub(crate) reverse: f64,
}

/// The arcs of a topology with a flow on them, in compressed rows by tail.
#[derive(Debug)]
pub(crate) struct Network {
    /// Slots of node v: `slots[first[v]..first[v + 1]]`, of which those before `live[v]` are still there.
    first: Vec<u32>,
    live: Vec<u32>,
    slots: Vec<Slot>,
    /// Capacity per link of the topology.
    capacities: Vec<f64>,
    /// Whether links carry backwards, too.
    undirected: bool,
}

impl Network {
    /// The network without flow. Self-loops carry nothing and are left out.
    pub(crate) fn new(topology: &Topology) -> Self {
        let links = || topology.links().map(|(_, from, to, link)| (from.0, to.0, link.capacity));
        Self::of_links(topology.node_count(), links, topology.orientation())
    }

    /// The network of links (ends and capacity), which are called by their positions.
    pub(crate) fn of_links<I: Iterator<Item = (u32, u32, f64)>>(
        nodes: usize,
        links: impl Fn() -> I,
        orientation: Orientation,
    ) -> Self {
        let numbered = || links().zip(0_u32..).filter(|((from, to, _), _)| from != to);
        let first = row_starts(nodes, numbered().map(|((from, to, _), _)| (from, to)));
        let mut live: Vec<u32> = first[..nodes].to_vec();
        let empty = Slot { head: 0, twin: 0, link: 0, residual: 0.0, reverse: 0.0 };
        let mut slots = vec![empty; first[nodes] as usize];
        let undirected = orientation == Orientation::Undirected;
        for ((from, to, capacity), link) in numbered() {
            let back_capacity = if undirected { capacity } else { 0.0 };
            let (there, back) = (live[from as usize], live[to as usize]);
            slots[there as usize] =
                Slot { head: to, twin: back, link, residual: capacity, reverse: back_capacity };
            slots[back as usize] = Slot {
                head: from,
                twin: there,
                link: link | BACKWARD,
                residual: back_capacity,
                reverse: capacity,
            };
            live[from as usize] += 1;
            live[to as usize] += 1;
        }
        let capacities = links().map(|(.., capacity)| capacity).collect();
        Self { first, live, slots, capacities, undirected }
    }

    /// Whether links carry one way or both.
    pub(crate) fn orientation(&self) -> Orientation {
        if self.undirected { Orientation::Undirected } else { Orientation::Directed }
    }

    /// The slots of a node that are still there.
    pub(crate) fn slots(&self, node: u32) -> &[Slot] {
        &self.slots[self.range(node)]
    }

    /// Where the slots of a node that are still there lie.
    pub(crate) fn range(&self, node: u32) -> std::ops::Range<usize> {
        self.first[node as usize] as usize..self.live[node as usize] as usize
    }

    pub(crate) fn slot(&self, index: usize) -> &Slot {
        &self.slots[index]
    }

    /// The node that a slot leaves.
    pub(crate) fn tail(&self, index: usize) -> u32 {
        self.slots[self.slots[index].twin as usize].head
    }

    /// What the slot can carry from tail to head when there is no flow.
    pub(crate) fn capacity(&self, slot: &Slot) -> f64 {
        if self.undirected || slot.is_forward() { self.capacities[slot.link() as usize] } else { 0.0 }
    }

    /// What the opposite slot can carry when there is no flow.
    pub(crate) fn capacity_back(&self, slot: &Slot) -> f64 {
        if self.undirected || !slot.is_forward() { self.capacities[slot.link() as usize] } else { 0.0 }
    }

    /// Moves `amount` along a slot.
    pub(crate) fn push(&mut self, index: usize, amount: f64) {
        let slot = &mut self.slots[index];
        slot.residual -= amount;
        slot.reverse += amount;
        let (twin, residual, reverse) = (slot.twin as usize, slot.residual, slot.reverse);
        self.slots[twin].residual = reverse;
        self.slots[twin].reverse = residual;
    }

    /// Takes the slots of `node` out that `leaves` tells to, and gives each to `taken`.
    pub(crate) fn cut_off(
        &mut self,
        node: u32,
        mut leaves: impl FnMut(&Slot) -> bool,
        mut taken: impl FnMut(&Slot, f64),
    ) {
        let mut index = self.first[node as usize] as usize;
        while index < self.live[node as usize] as usize {
            if leaves(&self.slots[index]) {
                let slot = self.slots[index];
                taken(&slot, self.capacity(&slot));
                self.live[node as usize] -= 1;
                self.swap(index, self.live[node as usize] as usize);
            } else {
                index += 1;
            }
        }
    }

    /// Takes a slot and its twin out.
    pub(crate) fn take_out(&mut self, index: usize) -> Slot {
        let slot = self.slots[index];
        let tail = self.slots[slot.twin as usize].head;
        for (node, index) in [(tail, index), (slot.head, slot.twin as usize)] {
            self.live[node as usize] -= 1;
            self.swap(index, self.live[node as usize] as usize);
        }
        slot
    }

    /// Puts the slot and its twin back that were taken out last of all that are out, between these two nodes.
    pub(crate) fn put_back(&mut self, tail: u32, head: u32) {
        self.live[tail as usize] += 1;
        self.live[head as usize] += 1;
    }

    /// Swaps two slots of one list. Their twins lie in other lists, since there are no self-loops.
    fn swap(&mut self, a: usize, b: usize) {
        self.slots.swap(a, b);
        for index in [a, b] {
            let twin = self.slots[index].twin as usize;
            self.slots[twin].twin = index as u32;
        }
    }
}

impl Slot {
    /// The link's position in the topology.
    pub(crate) fn link(&self) -> u32 {
        self.link & !BACKWARD
    }

    /// Whether the slot leads from the first end of its link to the second.
    pub(crate) fn is_forward(&self) -> bool {
        self.link & BACKWARD == 0
    }
}

/// Where each node's slots start; one more entry for the end of the last.
fn row_starts(nodes: usize, links: impl Iterator<Item = (u32, u32)>) -> Vec<u32> {
    let mut first = vec![0; nodes + 1];
    for (from, to) in links {
        first[from as usize + 1] += 1;
        first[to as usize + 1] += 1;
    }
    for node in 0..nodes {
        first[node + 1] += first[node];
    }
    first
}
