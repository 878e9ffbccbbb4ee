//! The recursion: a part of the network is solved by one tight cut and falls apart along all cuts that are tight
//! with it.

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;
use std::ops::Range;

use crate::certificate::{Certificate, Step};
use crate::minimum_cost::MinimumCostFlow;
use crate::network::{Network, Slot};
use crate::routing::EQUAL_LOADS;
use crate::solver::Effort;
use crate::solver::balance::{Balance, Settled};
use crate::solver::components::Components;
use crate::topology::{NodeId, Topology};

/// Round-off is reckoned in units of this, relative.
const EPSILON: f64 = f64::EPSILON;

/// How many times the reckoned round-off a number must exceed to count as more than round-off.
const SAFETY: f64 = 256.0;

/// Ratios of parts are at least 1, but for round-off.
const LEAST_GROWTH: f64 = 0.5;

/// A part still to be solved: an independent problem of its own [theory §1.3, Divide].
#[derive(Debug, Clone)]
struct Part {
    /// Its nodes, as positions in the order.
    nodes: Range<u32>,
    /// The step that it comes from.
    parent: Option<u32>,
    /// F¹·F²·…: flows in the original problem times this are flows here.
    scale: f64,
    /// What round-off may have done to a supply so far: each step multiplies it by its ratio and adds its own.
    noise: f64,
}

/// A part in the queue: by the smallest scale that a link in it can be fixed at, that is by the largest load.
#[derive(Debug, Clone)]
struct Pending {
    part: Part,
    /// The part's tight cut; `None`: not yet looked for.
    cut: Option<TightCut>,
}

/// The tight cut of a step.
#[derive(Debug, Clone, Copy)]
struct TightCut {
    /// Its capacity over its supply: the largest λ for which λ·b can flow.
    ratio: f64,
    /// Below this a residual or an excess is round-off.
    tolerance: f64,
    /// A single node whose own arcs are the cut; `None`: the cut of [`Recursion::source_side`].
    single: Option<u32>,
}

/// The state of the recursion. The vectors are indexed by node, save where a field says otherwise.
#[derive(Debug)]
pub(crate) struct Recursion {
    balance: Balance,
    components: Components,
    /// What each node must send (negative: receive) in its part's problem; the flow in the network sends as much.
    supply: Vec<f64>,
    /// Whether the node is on the source side of the last cut that a flow was stuck at.
    source_side: Vec<bool>,
    /// The nodes; each part and each child of a part is a range of it.
    order: Vec<u32>,
    /// Flow per link (index: link), 0 until a step fixes it.
    flows: Vec<f64>,
    smallest_capacity: f64,
    pending: BinaryHeap<Pending>,
    /// How many layers there are so far, and the scale of the last: capacity over flow of its links.
    layers: u32,
    last_scale: f64,
    steps: Vec<Step>,
    children: Vec<u32>,
    max_flows: usize,
    unreachable: bool,
    /// Working space of the split: nodes by component.
    sorted: Vec<u32>,
    /// Working space of the split: where each component starts.
    starts: Vec<u32>,
}

impl Recursion {
    pub(crate) fn new(topology: &Topology, source: NodeId, target: NodeId) -> Self {
        let nodes = topology.node_count();
        let mut supply = vec![0.0; nodes];
        supply[source.index()] = 1.0;
        supply[target.index()] = -1.0;
        let whole = Part { nodes: 0..nodes as u32, parent: None, scale: 1.0, noise: EPSILON };
        Self {
            balance: Balance::new(Network::new(topology), nodes),
            components: Components::new(nodes),
            supply,
            source_side: vec![false; nodes],
            order: (0..nodes as u32).collect(),
            flows: vec![0.0; topology.link_count()],
            smallest_capacity: topology.smallest_capacity().unwrap_or(1.0),
            pending: BinaryHeap::from([Pending { part: whole, cut: None }]),
            layers: 0,
            last_scale: 0.0,
            steps: Vec::new(),
            children: Vec::new(),
            max_flows: 0,
            unreachable: false,
            sorted: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// Solves part after part, in the order of the layers, until no supply is left anywhere or layer `limit` is done.
    pub(crate) fn run(&mut self, limit: Option<NonZeroU32>) {
        while let Some(Pending { part, cut }) = self.pending.pop() {
            let Some(cut) = cut else {
                let cut = self.tight_cut(&part);
                if part.parent.is_none() && cut.ratio <= 0.0 {
                    self.unreachable = true;
                    return;
                }
                // A flow meets the supplies of every part but the first, so that they can only grow. Supplies that
                // must shrink are round-off; what they are worth, the check of the routing will tell.
                if part.parent.is_some() && cut.ratio < LEAST_GROWTH {
                    continue;
                }
                self.pending.push(Pending { part, cut: Some(cut) });
                continue;
            };
            if !self.is_within(limit, part.scale * cut.ratio) {
                self.pending.push(Pending { part, cut: Some(cut) });
                return;
            }
            self.divide(&part, &cut);
        }
    }

    /// Counts the layer of a scale; parts come by rising scale.
    fn is_within(&mut self, limit: Option<NonZeroU32>, scale: f64) -> bool {
        if scale <= self.last_scale * (1.0 + EQUAL_LOADS) {
            return true;
        }
        if limit.is_some_and(|limit| self.layers == limit.get()) {
            return false;
        }
        self.layers += 1;
        self.last_scale = scale;
        true
    }

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
        for (tail, slot) in self.live_arcs(part) {
            let capacity = self.balance.network.capacity(&slot);
            problem.add(number[tail as usize], number[slot.head as usize], capacity * room, 1.0 / capacity);
        }
        problem
    }

    fn take_rest(&mut self, part: &Part, arc_flows: Vec<f64>) {
        for ((_, slot), flow) in self.live_arcs(part).into_iter().zip(arc_flows) {
            let signed = if slot.is_forward() { flow } else { -flow };
            self.flows[slot.link() as usize] += signed / part.scale;
        }
    }

    /// The arcs of a part with their tails, by the number of the link.
    fn live_arcs(&self, part: &Part) -> Vec<(u32, Slot)> {
        let network = &self.balance.network;
        let slots = self
            .nodes(part)
            .iter()
            .flat_map(|&node| network.slots(node).iter().map(move |slot| (node, *slot)));
        let mut arcs: Vec<(u32, Slot)> = slots.filter(|(_, slot)| network.capacity(slot) > 0.0).collect();
        arcs.sort_by_key(|(_, slot)| (slot.link(), !slot.is_forward()));
        arcs
    }

    /// Whether the very first cut had no capacity.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.unreachable
    }

    /// The signed flow of each link.
    pub(crate) fn flows(&self) -> &[f64] {
        &self.flows
    }

    pub(crate) fn effort(&self) -> Effort {
        Effort { steps: self.steps.len(), max_flows: self.max_flows, rounds: self.balance.rounds }
    }

    /// The cuts so far; the recursion is done with them.
    pub(crate) fn certificate(&mut self) -> Certificate {
        Certificate {
            order: self.order.iter().copied().map(NodeId).collect(),
            steps: std::mem::take(&mut self.steps),
            children: std::mem::take(&mut self.children),
            stopped_at: (!self.pending.is_empty()).then_some(self.smallest_capacity / self.last_scale),
        }
    }

    /// The smallest cut of the whole network: its capacity and, per node, whether it is on the source's side.
    pub(crate) fn first_cut(mut self) -> (f64, Vec<bool>) {
        let Some(Pending { part, .. }) = self.pending.pop() else { return (0.0, Vec::new()) };
        let cut = self.tight_cut(&part);
        let side = (0..self.supply.len() as u32).map(|node| self.is_on_source_side(&cut, node));
        (cut.ratio, side.collect())
    }

    /// Fixes the flow over the part's tight cuts and makes parts of what they divide.
    fn divide(&mut self, part: &Part, cut: &TightCut) {
        let count = self.find_components(part, cut);
        self.sort_by_component(part, count);
        let scale = part.scale * cut.ratio;
        for node in part.nodes.clone() {
            self.supply[self.order[node as usize] as usize] *= cut.ratio;
        }
        let noise = part.noise * cut.ratio + self.cut_between_components(part, scale) * EPSILON;
        self.record(part, cut.ratio, scale);
        let parent = Some(self.steps.len() as u32 - 1);
        for index in 0..count as usize {
            let nodes = self.starts[index]..self.starts[index + 1];
            self.put_off(Part { nodes, parent, scale, noise });
        }
    }

    fn nodes(&self, part: &Part) -> &[u32] {
        &self.order[part.nodes.start as usize..part.nodes.end as usize]
    }

    /// Newton's method on cuts: from an upper bound of λ, a maximum flow either carries λ times the supplies, or
    /// leaves a cut whose ratio is the next, smaller λ.
    fn tight_cut(&mut self, part: &Part) -> TightCut {
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
        // With no deficit left anywhere, what is stuck is the sum of many deficits too small to count, and no cut. Nor is
        // one without a supply.
        let all = self.nodes(part).iter().all(|&node| self.balance.is_cut_off(node));
        if supply > 0.0 && !all { capacity / supply } else { f64::INFINITY }
    }

    fn remember_source_side(&mut self, part: &Part) {
        for place in part.nodes.clone() {
            let node = self.order[place as usize];
            self.source_side[node as usize] = self.balance.is_cut_off(node);
        }
    }

    fn is_on_source_side(&self, cut: &TightCut, node: u32) -> bool {
        match cut.single {
            Some(single) => (node == single) == (self.supply[single as usize] > 0.0),
            None => self.source_side[node as usize],
        }
    }

    /// The strongly connected components of the residual network. An arc between two of them is full or empty in
    /// every flow of this λ.
    fn find_components(&mut self, part: &Part, cut: &TightCut) -> u32 {
        let nodes = &self.order[part.nodes.start as usize..part.nodes.end as usize];
        let network = &self.balance.network;
        let count = self.components.search(network, nodes, cut.tolerance, |_, _| true);
        if count > 1 {
            return count;
        }
        // Round-off left a residual on the tight cut itself: the cut is known, so close it by force.
        let sides: Vec<bool> =
            (0..self.supply.len() as u32).map(|node| self.is_on_source_side(cut, node)).collect();
        self.components.search(network, nodes, cut.tolerance, |tail, head| {
            sides[tail as usize] == sides[head as usize] || !sides[tail as usize]
        })
    }

    /// Puts the part's nodes in the order of their components: from the source side of the cuts to the target side,
    /// since residual arcs lead back to smaller numbers.
    fn sort_by_component(&mut self, part: &Part, count: u32) {
        let range = part.nodes.start as usize..part.nodes.end as usize;
        self.starts.clear();
        self.starts.resize(count as usize + 1, 0);
        for &node in &self.order[range.clone()] {
            self.starts[self.components.of(node) as usize + 1] += 1;
        }
        self.starts[0] = part.nodes.start;
        for index in 1..self.starts.len() {
            self.starts[index] += self.starts[index - 1];
        }
        self.sorted.clear();
        self.sorted.extend_from_slice(&self.order[range]);
        for &node in &self.sorted {
            let start = &mut self.starts[self.components.of(node) as usize];
            self.order[*start as usize] = node;
            *start += 1;
        }
        // Filling has moved each start to the next one's place.
        self.starts.rotate_right(1);
        self.starts[0] = part.nodes.start;
    }

    /// Takes the arcs between components out, fixes the flow of the full ones, and hands their flow to the supplies of
    /// their ends [theory §1.1, eqs. 1–3]. Returns the largest capacity that was taken.
    fn cut_between_components(&mut self, part: &Part, scale: f64) -> f64 {
        let mut largest = 0.0_f64;
        for place in part.nodes.clone() {
            let node = self.order[place as usize];
            let (components, supply, flows) = (&self.components, &mut self.supply, &mut self.flows);
            let home = components.of(node);
            let ends = (node, home);
            let fix = |slot: &Slot, capacity: f64| {
                let (node, home) = ends;
                if components.of(slot.head) > home && capacity > 0.0 {
                    supply[node as usize] -= capacity;
                    supply[slot.head as usize] += capacity;
                    largest = largest.max(capacity);
                    flows[slot.link() as usize] =
                        if slot.is_forward() { capacity } else { -capacity } / scale;
                }
            };
            self.balance.network.cut_off(node, |slot| components.of(slot.head) != home, fix);
        }
        largest
    }

    fn record(&mut self, part: &Part, ratio: f64, scale: f64) {
        let first = self.children.len() as u32;
        self.children.extend_from_slice(&self.starts[..self.starts.len() - 1]);
        let children = first..self.children.len() as u32;
        let load = self.smallest_capacity / scale;
        self.steps.push(Step { part: part.nodes.clone(), ratio, load, parent: part.parent, children });
    }

    /// Rounds the child's supplies and keeps it for later, if it has any.
    fn put_off(&mut self, child: Part) {
        let (mut sum, mut largest, mut holder) = (0.0, 0.0, None);
        for &node in &self.order[child.nodes.start as usize..child.nodes.end as usize] {
            let supply = &mut self.supply[node as usize];
            if supply.abs() <= SAFETY * child.noise {
                *supply = 0.0;
            }
            sum += *supply;
            if supply.abs() > largest {
                (largest, holder) = (supply.abs(), Some(node));
            }
        }
        // Supplies of an independent problem sum to zero; what does not is round-off.
        if let Some(holder) = holder.filter(|_| child.nodes.len() > 1) {
            self.supply[holder as usize] -= sum;
            self.pending.push(Pending { part: child, cut: None });
        }
    }
}

impl Pending {
    fn scale(&self) -> f64 {
        self.part.scale * self.cut.map_or(1.0, |cut| cut.ratio)
    }
}

impl PartialEq for Pending {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Pending {}

impl Ord for Pending {
    /// The greatest is the next to be solved.
    fn cmp(&self, other: &Self) -> Ordering {
        let by_scale = other.scale().total_cmp(&self.scale());
        by_scale.then_with(|| other.part.nodes.start.cmp(&self.part.nodes.start))
    }
}

impl PartialOrd for Pending {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
