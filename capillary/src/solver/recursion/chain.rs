//! Chains of cuts: many steps that each cut a little off one large part, found together and proved by one flow.
//!
//! In scale-free networks the parts lie within each other like the skins of an onion, and a flow through all of what is
//! left for every skin takes nodes × links. So a maximum flow is tried at a ratio somewhat above the one that is known
//! to fit. Where it gets stuck, the nodes are *suspects*. All other nodes are contracted into one, and the recursion on
//! that small network finds the cuts around suspects, one after the other, up to the ratio of the trial.
//!
//! A cut of the contracted network is a cut of the whole one with the same ratio, so no flow exceeds any of them. If a
//! flow through what is left of the *whole* network then carries the ratio of the trial, no cut was missed: together
//! with the flows of what was cut off it carries every ratio of the chain before. If it gets stuck, there are more
//! suspects, and the chain is found anew. Contraction is sound for the same reason that the recursion is: what lies on
//! one side of a full cut matters to the other only by the flow over it [theory §1.3, Divide].

use std::ops::Range;

use crate::network::Network;
use crate::routing::EQUAL_LOADS;
use crate::solver::Effort;
use crate::solver::balance::Balance;
use crate::solver::recursion::{EPSILON, Part, Peeled, Recursion, SAFETY};
use crate::topology::Orientation;

/// A whole flow is quick in parts of fewer nodes.
const LEAST_PART: usize = 512;

/// At most one node of so many may be suspect: the small network must be small.
const MOST_SUSPECTS: usize = 8;

/// Trials reach farther if fewer than one node of so many were suspect, and less far if more than one of so many were.
const FEW: usize = 128;
const MANY: usize = 32;

/// How often a trial may be repeated with a smaller reach.
const RETREATS: usize = 3;

/// A node that is no suspect.
const NONE: u32 = u32::MAX;

/// What chains are found in. The vectors are indexed by node, save where a field says otherwise.
pub(super) struct Field<'a> {
    pub(super) balance: &'a mut Balance,
    /// What each node must send (negative: receive) in its part's problem.
    pub(super) supply: &'a mut [f64],
    /// The nodes; parts are ranges of it.
    pub(super) order: &'a [u32],
}

/// Cuts that follow each other, each through what the one before has left of a part. Supplies are in units of the part.
#[derive(Debug, Clone)]
pub(super) struct Chain {
    /// The part's nodes in their new order.
    pub(super) order: Vec<u32>,
    pub(super) steps: Vec<Cut>,
    /// A ratio to the whole part that a flow through the last rest carries.
    pub(super) proven: f64,
}

/// One step of a chain. Places are those of the whole order.
#[derive(Debug, Clone)]
pub(super) struct Cut {
    /// Capacity over supply, in units of the step before.
    pub(super) ratio: f64,
    /// Where the pieces begin.
    pub(super) starts: Vec<u32>,
    /// The piece that the next step divides.
    pub(super) rest: Range<u32>,
    /// What round-off may have done to a supply so far.
    pub(super) noise: f64,
}

/// How a trial ended.
enum Trial {
    /// The flow carries the ratio through what these cuts leave.
    Proven(Vec<Cut>, Vec<u32>),
    /// Too many nodes are suspect.
    TooFar,
}

/// What chains leave for the next one, and working space.
#[derive(Debug)]
pub(super) struct Chains {
    /// The number of each suspect among the suspects. Index: node.
    number: Vec<u32>,
    suspects: Vec<u32>,
    /// The links that are out, by their ends, and nodes with the supplies that they had before.
    taken: Vec<(u32, u32)>,
    changes: Vec<(u32, f64)>,
    /// Smaller parts are let alone, and at most one node of so many may be suspect.
    least_part: usize,
    most_suspects: usize,
    /// How far beyond the known ratio the next trial goes, relative.
    reach: f64,
    /// How many trials failed one after the other, and how many parts are let by because of that.
    failures: u32,
    let_by: u32,
    effort: Effort,
}

impl Chains {
    pub(super) fn new(nodes: usize) -> Self {
        Self {
            number: vec![NONE; nodes],
            suspects: Vec::new(),
            taken: Vec::new(),
            changes: Vec::new(),
            least_part: LEAST_PART,
            most_suspects: MOST_SUSPECTS,
            reach: 1e-3,
            failures: 0,
            let_by: 0,
            effort: Effort::default(),
        }
    }

    /// The flows that chains took.
    pub(super) fn effort(&self) -> Effort {
        self.effort
    }

    /// A chain of cuts through a part. Its links are out afterwards, and the supplies of their ends changed. `None`:
    /// the part is small, not known to carry anything, or falls into large pieces; then it is as it was but for the
    /// flow.
    pub(super) fn find(&mut self, field: &mut Field<'_>, part: &Part) -> Option<Chain> {
        if part.nodes.len() < self.least_part || part.bound <= 0.0 {
            return None;
        }
        if self.let_by > 0 {
            self.let_by -= 1;
            return None;
        }
        let (mut bound, mut retreats) = (part.bound, 0);
        while retreats < RETREATS {
            let limit = bound * (1.0 + self.reach);
            match self.attempt(field, part, limit) {
                Trial::Proven(steps, order) => {
                    self.learn(part.nodes.len());
                    if !steps.is_empty() {
                        self.failures = 0;
                        return Some(Chain { order, steps, proven: limit });
                    }
                    bound = limit;
                }
                Trial::TooFar => {
                    self.reach /= 4.0;
                    retreats += 1;
                }
            }
        }
        self.failures = (self.failures + 1).min(10);
        self.let_by = 1 << self.failures;
        None
    }

    /// How far to go the next time.
    fn learn(&mut self, nodes: usize) {
        if self.suspects.len() < nodes / FEW {
            self.reach = (2.0 * self.reach).min(1.0);
        } else if self.suspects.len() > nodes / MANY {
            self.reach /= 2.0;
        }
    }

    /// Looks for all cuts below a ratio.
    fn attempt(&mut self, field: &mut Field<'_>, part: &Part, limit: f64) -> Trial {
        let nodes = &field.order[part.nodes.start as usize..part.nodes.end as usize];
        self.forget_suspects();
        let (mut steps, mut order, mut rest) = (Vec::new(), nodes.to_vec(), nodes.to_vec());
        loop {
            let noise = steps.last().map_or(part.noise, |step: &Cut| step.noise);
            let (stuck, tolerance) = self.flow(field, &rest, limit, noise);
            if stuck == 0 {
                self.forget_changes();
                return Trial::Proven(steps, order);
            }
            let before = self.suspects.len();
            self.suspect(field, &rest, tolerance);
            self.take_back(field);
            let found = self.suspects.len();
            if found == before || found >= nodes.len() || found > nodes.len() / self.most_suspects {
                return Trial::TooFar;
            }
            let Some(peeled) = self.peel(field, nodes, part.noise, limit) else { return Trial::TooFar };
            (steps, order, rest) = self.apply(field, part, &peeled);
        }
    }

    /// Tries a flow of a ratio. Returns how many nodes are stuck with an excess, and what counts as none.
    fn flow(&mut self, field: &mut Field<'_>, nodes: &[u32], ratio: f64, noise: f64) -> (usize, f64) {
        let (mut sum, mut total, mut holder) = (0.0, 0.0, (0.0, 0));
        for &node in nodes {
            let supply = field.supply[node as usize];
            sum += supply;
            total += supply.max(0.0);
            if supply.abs() > holder.0 {
                holder = (supply.abs(), node);
            }
        }
        // Supplies of an independent problem sum to zero; what does not is round-off.
        self.change(field, holder.1, -sum);
        let Field { balance, supply, .. } = field;
        for &node in nodes {
            let slots = balance.network.slots(node).iter();
            let net: f64 = slots.map(|slot| balance.network.capacity(slot) - slot.residual).sum();
            balance.excess[node as usize] = ratio * supply[node as usize] - net;
        }
        let tolerance = SAFETY * ratio * (noise + EPSILON * total);
        self.effort.max_flows += 1;
        (balance.carry(nodes, tolerance), tolerance)
    }

    /// Adds the nodes around which the flow got stuck to the suspects.
    fn suspect(&mut self, field: &mut Field<'_>, nodes: &[u32], tolerance: f64) {
        let (ahead, behind) = field.balance.stuck_sides(nodes, tolerance);
        // The larger side of a cut is what is left.
        for node in [ahead, behind].into_iter().filter(|side| 2 * side.len() <= nodes.len()).flatten() {
            if self.number[node as usize] == NONE {
                self.number[node as usize] = self.suspects.len() as u32;
                self.suspects.push(node);
            }
        }
    }

    fn forget_suspects(&mut self) {
        for node in self.suspects.drain(..) {
            self.number[node as usize] = NONE;
        }
    }

    /// Divides the network of the suspects and one node for all others, up to a ratio.
    fn peel(&mut self, field: &Field<'_>, nodes: &[u32], noise: f64, limit: f64) -> Option<Peeled> {
        let network = &field.balance.network;
        let others = self.suspects.len() as u32;
        let mut links: Vec<(u32, u32, f64)> = Vec::new();
        for (number, &node) in (0..).zip(&self.suspects) {
            let (mut out, mut into) = (0.0, 0.0);
            for slot in network.slots(node) {
                let head = self.number[slot.head as usize];
                if head == NONE {
                    out += network.capacity(slot);
                    into += network.capacity_back(slot);
                } else if slot.is_forward() {
                    links.push((number, head, network.capacity(slot)));
                }
            }
            links.extend((out > 0.0).then_some((number, others, out)));
            let is_directed = network.orientation() == Orientation::Directed;
            links.extend((is_directed && into > 0.0).then_some((others, number, into)));
        }
        let supply_of = |node: &u32| field.supply[*node as usize];
        let mut supply: Vec<f64> = self.suspects.iter().map(supply_of).collect();
        let is_other = |node: &&u32| self.number[**node as usize] == NONE;
        supply.push(nodes.iter().filter(is_other).map(supply_of).sum());
        let small = Network::of_links(supply.len(), || links.iter().copied(), network.orientation());
        let peeled = Recursion::of(small, links.len(), supply, noise, 1.0)
            .peel(others, limit * (1.0 - EQUAL_LOADS))?;
        self.effort.max_flows += peeled.effort.max_flows;
        self.effort.rounds += peeled.effort.rounds;
        Some(peeled)
    }

    /// Takes the links out that the cuts sever. Returns the cuts, the part's nodes in their new order, and the nodes
    /// that are left.
    fn apply(
        &mut self,
        field: &mut Field<'_>,
        part: &Part,
        peeled: &Peeled,
    ) -> (Vec<Cut>, Vec<u32>, Vec<u32>) {
        let nodes = &field.order[part.nodes.start as usize..part.nodes.end as usize];
        let others = nodes.iter().copied().filter(|&node| self.number[node as usize] == NONE);
        let layout = Layout::new(peeled, part.nodes.start, nodes.len());
        let mut order: Vec<u32> = Vec::with_capacity(nodes.len());
        let suspects = |numbers: &[u32]| -> Vec<u32> {
            numbers.iter().map(|&number| self.suspects[number as usize]).collect()
        };
        let (before, after) = peeled.order.split_at(layout.others as usize);
        order.extend(suspects(before));
        order.extend(others);
        order.extend(suspects(&after[1..]));
        let (mut cuts, mut noise, mut growth) = (Vec::new(), part.noise, 1.0);
        for step in &peeled.steps {
            growth *= step.ratio;
            let starts = &peeled.children[step.children.start as usize..step.children.end as usize];
            let ends = starts.iter().skip(1).copied().chain([step.part.end]);
            let mut rest = step.part.clone();
            let mut largest = 0.0_f64;
            for piece in starts.iter().copied().zip(ends).map(|(start, end)| start..end) {
                if piece.contains(&layout.others) {
                    rest = piece;
                } else {
                    largest = largest.max(self.sever(field, peeled, &layout, piece, growth));
                }
            }
            noise += largest * EPSILON / growth;
            let starts = starts.iter().map(|&start| layout.outside(start)).collect();
            let rest = layout.outside(rest.start)..layout.outside(rest.end);
            cuts.push(Cut { ratio: step.ratio, starts, rest, noise });
        }
        let last = cuts.last().map_or(part.nodes.clone(), |cut| cut.rest.clone());
        let begin = part.nodes.start;
        let rest = order[(last.start - begin) as usize..(last.end - begin) as usize].to_vec();
        (cuts, order, rest)
    }

    /// Takes the links out that leave or enter a piece; `growth` is the ratio of its cut to the whole part. Returns the
    /// largest capacity.
    fn sever(
        &mut self,
        field: &mut Field<'_>,
        peeled: &Peeled,
        layout: &Layout,
        piece: Range<u32>,
        growth: f64,
    ) -> f64 {
        let mut largest = 0.0_f64;
        for place in piece.clone() {
            let node = self.suspects[peeled.order[place as usize] as usize];
            let mut index = field.balance.network.range(node).start;
            while index < field.balance.network.range(node).end {
                let network = &mut field.balance.network;
                let head = network.slot(index).head;
                let there = layout.place(self.number[head as usize]);
                if piece.contains(&there) {
                    index += 1;
                    continue;
                }
                let slot = network.take_out(index);
                self.taken.push((node, head));
                // Full are the links from earlier pieces to later ones.
                let flow =
                    if there < piece.start { -network.capacity_back(&slot) } else { network.capacity(&slot) };
                largest = largest.max(flow.abs());
                self.change(field, node, -flow / growth);
                self.change(field, head, flow / growth);
            }
        }
        largest
    }

    /// Adds to the supply of a node, so that it can be taken back.
    fn change(&mut self, field: &mut Field<'_>, node: u32, by: f64) {
        let supply = &mut field.supply[node as usize];
        if by != 0.0 {
            self.changes.push((node, *supply));
            *supply += by;
        }
    }

    /// Makes the part as it was, but for the flow.
    fn take_back(&mut self, field: &mut Field<'_>) {
        for (tail, head) in self.taken.drain(..).rev() {
            field.balance.network.put_back(tail, head);
        }
        for (node, supply) in self.changes.drain(..).rev() {
            field.supply[node as usize] = supply;
        }
    }

    fn forget_changes(&mut self) {
        self.taken.clear();
        self.changes.clear();
    }
}

/// Where the places of the small network's order are in that of the whole, where all others stand in place of one.
struct Layout {
    /// The place of each suspect in the small order. Index: number.
    places: Vec<u32>,
    /// The place of the others' node.
    others: u32,
    /// Where the part begins, and how many places more the others take than their node.
    begin: u32,
    more: u32,
}

impl Layout {
    fn new(peeled: &Peeled, begin: u32, nodes: usize) -> Self {
        let mut places = vec![0; peeled.order.len()];
        for (place, &number) in (0..).zip(&peeled.order) {
            places[number as usize] = place;
        }
        let others = places.pop().unwrap_or(0);
        Self { places, others, begin, more: (nodes - peeled.order.len()) as u32 }
    }

    fn place(&self, number: u32) -> u32 {
        self.places.get(number as usize).copied().unwrap_or(self.others)
    }

    /// The place in the whole order at which the place of the small one begins.
    fn outside(&self, place: u32) -> u32 {
        self.begin + place + if place > self.others { self.more } else { 0 }
    }
}

#[cfg(all(test, feature = "exact"))]
mod tests {
    use proptest::prelude::*;
    use proptest::strategy::ValueTree;

    use super::*;
    use crate::certificate::Reckoned;
    use crate::routing::Routing;
    use crate::topology::{NodeId, Topology};

    /// The flows by a recursion that looks for chains in parts of three nodes already, proved by its certificate, and
    /// how many flows the chains took. Capacities are whole numbers.
    fn by_chains(topology: &Topology, target: NodeId, reach: f64) -> (Routing, usize) {
        let source = NodeId(0);
        let mut recursion = Recursion::new(topology, source, target);
        (recursion.chains.least_part, recursion.chains.most_suspects, recursion.chains.reach) = (3, 1, reach);
        recursion.run(None);
        let flows = recursion.chains.effort().max_flows;
        let reckoned = Reckoned::of(recursion.certificate(), topology, source, target);
        let Reckoned { flows: reckoned, certificate } = reckoned.expect("cuts that fit together");
        let routing = Routing::with_layers(topology, source, target, &reckoned, |_| true).expect("a routing");
        certificate.verify(topology, &routing).expect("a proof");
        (routing, flows)
    }

    fn networks() -> impl Strategy<Value = Topology> {
        let link = (0_u32..12, 0_u32..12, 1_u32..4);
        (any::<bool>(), prop::collection::vec(link, 12..48)).prop_map(|(directed, links)| {
            let orientation = if directed { Orientation::Directed } else { Orientation::Undirected };
            // A way around keeps every node within reach.
            let ring = (0..12).map(|node| (node, (node + 1) % 12, 1));
            let links = ring
                .chain(links)
                .map(|(from, to, capacity)| (from.to_string(), to.to_string(), f64::from(capacity)));
            let links: Vec<_> = links.collect();
            let links = links.iter().map(|(from, to, capacity)| (from.as_str(), to.as_str(), *capacity));
            Topology::from_links(orientation, links).expect("links with capacities")
        })
    }

    /// How many networks are solved both ways; `CAPILLARY_CHAINS` sets another number. The long run had 20,000.
    fn cases() -> u32 {
        std::env::var("CAPILLARY_CHAINS").map_or(60, |cases| cases.parse().expect("a number of networks"))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(cases()))]

        #[test]
        fn chains_give_the_routing_of_rational_numbers(
            topology in networks(), target in 1_u32..12, reach in prop::sample::select(vec![1e-3, 0.1, 1.0]),
        ) {
            let target = NodeId(target);
            let (routing, _) = by_chains(&topology, target, reach);
            let exact = crate::exact::solve(&topology, NodeId(0), target).expect("a routing").routing;
            for (ours, theirs) in routing.links().iter().zip(exact.links()) {
                prop_assert!((ours.flow - theirs.flow).abs() <= 1e-12, "{ours:?} instead of {theirs:?}");
            }
        }
    }

    /// Without this the test above might compare two recursions without any chain.
    #[test]
    fn small_networks_have_chains() {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let mut with_chains = 0;
        for _ in 0..100 {
            let topology = networks().new_tree(&mut runner).unwrap().current();
            let (_, flows) = by_chains(&topology, NodeId(6), 0.1);
            with_chains += usize::from(flows > 0);
        }
        assert!(with_chains > 50, "{with_chains} of 100");
    }
}
