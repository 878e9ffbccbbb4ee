//! The recursion: a part of the network is solved by one tight cut and falls apart along all cuts that are tight
//! with it.

mod chain;
mod divide;
mod rest;
mod tight_cut;

use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::num::NonZeroU32;
use std::ops::Range;

use crate::certificate::{Certificate, Step};
use crate::network::Network;
use crate::routing::EQUAL_LOADS;
use crate::solver::Effort;
use crate::solver::balance::Balance;
use crate::solver::components::Components;
use crate::topology::{NodeId, Topology};
use chain::{Chain, Chains, Field};
use rest::Rest;
use tight_cut::{Newton, Problem, TightCut};

/// The unit, relative, in which round-off is reckoned.
pub(super) const EPSILON: f64 = f64::EPSILON;

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
    /// A ratio that a flow was seen to carry.
    bound: f64,
}

/// What [`Recursion::peel`] has cut off, as the fields of a [`Certificate`].
#[derive(Debug)]
struct Peeled {
    order: Vec<u32>,
    steps: Vec<Step>,
    children: Vec<u32>,
    effort: Effort,
}

/// A part in the queue: by the smallest scale that a link in it can be fixed at, that is by the largest load.
#[derive(Debug, Clone)]
struct Pending {
    part: Part,
    /// The part's tight cut; `None`: not yet looked for.
    cut: Option<TightCut>,
}

/// The state of the recursion. The vectors are indexed by node, save where a field says otherwise.
#[derive(Debug)]
pub(crate) struct Recursion {
    balance: Balance,
    components: Components,
    /// What each node must send (negative: receive) in its part's problem; the flow in the network sends as much.
    supply: Vec<f64>,
    newton: Newton,
    chains: Chains,
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
    unreachable: bool,
    /// Working space of the split: nodes by component.
    sorted: Vec<u32>,
    /// Working space of the split: where each component starts.
    starts: Vec<u32>,
}

impl Recursion {
    pub(crate) fn new(topology: &Topology, source: NodeId, target: NodeId) -> Self {
        let mut supply = vec![0.0; topology.node_count()];
        supply[source.index()] = 1.0;
        supply[target.index()] = -1.0;
        let smallest_capacity = topology.smallest_capacity().unwrap_or(1.0);
        Self::of(Network::new(topology), topology.link_count(), supply, EPSILON, smallest_capacity)
    }

    /// The recursion over a network of so many links. Round-off may have done `noise` to the supplies.
    pub(crate) fn of(
        network: Network,
        links: usize,
        supply: Vec<f64>,
        noise: f64,
        smallest_capacity: f64,
    ) -> Self {
        let nodes = supply.len();
        let whole = Part { nodes: 0..nodes as u32, parent: None, scale: 1.0, noise, bound: 0.0 };
        Self {
            balance: Balance::new(network, nodes),
            components: Components::new(nodes),
            supply,
            newton: Newton::new(nodes),
            chains: Chains::new(nodes),
            order: (0..nodes as u32).collect(),
            flows: vec![0.0; links],
            smallest_capacity,
            pending: BinaryHeap::from([Pending { part: whole, cut: None }]),
            layers: 0,
            last_scale: 0.0,
            steps: Vec::new(),
            children: Vec::new(),
            unreachable: false,
            sorted: Vec::new(),
            starts: Vec::new(),
        }
    }

    /// Solves part after part, in the order of the layers, until no supply is left anywhere or layer `limit` is done.
    pub(crate) fn run(&mut self, limit: Option<NonZeroU32>) {
        while let Some(Pending { part, cut }) = self.pending.pop() {
            let Some(cut) = cut else {
                // Chains come out of the order of the layers.
                if limit.is_none()
                    && let Some(chain) = self.find_chain(&part)
                {
                    self.divide_along(&part, &chain);
                    continue;
                }
                let cut = self.tight_cut(&part);
                if part.parent.is_none() && cut.ratio <= 0.0 {
                    self.unreachable = true;
                    return;
                }
                // A flow meets the supplies of every part but the first, so that they can only grow. Supplies that must
                // shrink are round-off; if they are more than that, the check of the routing finds it.
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

    fn find_chain(&mut self, part: &Part) -> Option<Chain> {
        let field = &mut Field { balance: &mut self.balance, supply: &mut self.supply, order: &self.order };
        self.chains.find(field, part)
    }

    /// Divides the part around a node, and what is left around it, as long as the ratio to the whole stays below the
    /// limit. `None`: round-off has got the better of it.
    fn peel(mut self, node: u32, limit: f64) -> Option<Peeled> {
        let mut rest = self.pending.pop().map(|pending| pending.part);
        while let Some(part) = rest {
            let cut = self.tight_cut(&part);
            if !(cut.ratio > 0.0 && (part.parent.is_none() || cut.ratio > LEAST_GROWTH)) {
                return None;
            }
            if part.scale * cut.ratio >= limit {
                break;
            }
            self.divide(&part, &cut);
            let has_node =
                |part: &Part| self.order[part.nodes.start as usize..part.nodes.end as usize].contains(&node);
            let children = std::mem::take(&mut self.pending).into_iter().map(|pending| pending.part);
            rest = children.into_iter().find(has_node);
        }
        let effort = self.effort();
        Some(Peeled { order: self.order, steps: self.steps, children: self.children, effort })
    }

    /// The smallest cut of the whole network: its capacity and, per node, whether it is on the source's side.
    pub(crate) fn first_cut(mut self) -> (f64, Vec<bool>) {
        let Some(Pending { part, .. }) = self.pending.pop() else { return (0.0, Vec::new()) };
        let cut = self.tight_cut(&part);
        let is_on_source_side = |node| self.newton.is_on_source_side(&cut, &self.supply, node);
        (cut.ratio, (0..self.supply.len() as u32).map(is_on_source_side).collect())
    }

    fn tight_cut(&mut self, part: &Part) -> TightCut {
        let nodes = &self.order[part.nodes.start as usize..part.nodes.end as usize];
        let problem = Problem { nodes, supply: &self.supply, noise: part.noise };
        self.newton.tight_cut(&mut self.balance, problem)
    }

    /// Gives the links that no layer has fixed the cheapest flow that keeps their loads within that of the last layer
    /// [theory §1.5].
    pub(crate) fn fill_rest(&mut self) {
        let mut parts: Vec<Part> =
            std::mem::take(&mut self.pending).into_iter().map(|pending| pending.part).collect();
        parts.sort_by_key(|part| part.nodes.start);
        let rest = Rest {
            network: &self.balance.network,
            supply: &self.supply,
            order: &self.order,
            last_scale: self.last_scale,
        };
        let mut number = vec![0; self.supply.len()];
        for part in &parts {
            rest.fill(part, &mut number, &mut self.flows);
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

    /// Whether the very first cut had no capacity.
    pub(crate) fn is_unreachable(&self) -> bool {
        self.unreachable
    }

    /// The signed flow of each link.
    pub(crate) fn flows(&self) -> &[f64] {
        &self.flows
    }

    pub(crate) fn effort(&self) -> Effort {
        let within = self.chains.effort();
        Effort {
            steps: self.steps.len(),
            max_flows: self.newton.max_flows + within.max_flows,
            rounds: self.balance.rounds + within.rounds,
        }
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
