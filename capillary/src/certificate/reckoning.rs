//! The flows that the cuts of a certificate demand, reckoned from nothing but the cuts, in numbers of twice the usual
//! precision.

mod mending;

use std::ops::Range;

use crate::certificate::Certificate;
use crate::certificate::separation::Separation;
use crate::double::Double;
use crate::topology::{LinkId, NodeId, Orientation, Topology};

/// Loads that differ by less than this, relative, count as equal.
const SAME: f64 = 1e-22;

/// Cuts that are off by no more than counts as nothing stand as they are, and may give a link a flow of that size that
/// it does not have. What is a hundred times as large is none of these; smaller flows take rational numbers.
const LEAST_FLOW: f64 = 1e-22;

/// How often cuts are mended: each time all that do not fit are, but those within them show only then.
const MOST_MENDS: usize = 64;

/// The flows of the links (index: link), and the cuts that hold them.
#[derive(Debug)]
pub(crate) struct Reckoned {
    pub(crate) flows: Vec<f64>,
    pub(crate) certificate: Certificate,
}

/// What is left of the demand where the cuts of a certificate do not take it all.
#[derive(Debug)]
pub(crate) struct Left {
    /// The cuts that take a part of it.
    pub(crate) certificate: Certificate,
    /// What each node has still to send (negative: to receive), of the demand of 1. Index: node; empty if that is
    /// beyond numbers of 32 digits.
    pub(crate) supply: Vec<Double>,
}

impl Reckoned {
    /// Reckons the flow over each cut of `certificate` anew: the links that cross it are full at one load, so that its
    /// supply and the sum of their capacities are all that it takes. Flows of noise come out as nothing, and their
    /// steps are left out.
    ///
    /// This proves the flows optimal, too, with a precision of 1e-20 instead of that of the solver: loads must fall
    /// from a step to those within it, and behind the last step no node may have anything left to send or to receive,
    /// unless the solver stopped early.
    ///
    /// Complexity: O((nodes + links) · log nodes).
    ///
    /// Cuts that are not what the solver took them for, by less than its round-off, are mended or left out.
    ///
    /// # Errors
    /// [`Left`] if the cuts do not take all of the demand, or do not fit together and the solver stopped early.
    pub(crate) fn of(
        certificate: Certificate,
        topology: &Topology,
        source: NodeId,
        target: NodeId,
    ) -> Result<Reckoned, Left> {
        let mut certificate = certificate;
        for _ in 0..MOST_MENDS {
            let mut reckoning = Reckoning::new(&certificate, topology, source, target);
            for step in 0..certificate.steps.len() {
                reckoning.step(step);
            }
            match reckoning.mended() {
                Some(mended) => certificate = mended,
                None => return reckoning.finish(),
            }
        }
        Err(Left { certificate, supply: Vec::new() })
    }
}

/// A link that leads from an earlier child of a step to a later one.
#[derive(Clone, Copy)]
struct Crossing {
    link: LinkId,
    tail: NodeId,
    head: NodeId,
    /// 1, or -1 if the undirected link is crossed from its second end to its first.
    sign: f64,
}

/// A cut of a step.
#[derive(Debug, Clone, Copy)]
struct Cut {
    /// The child that begins here is the first on the target side.
    start: u32,
    /// What crosses it from the source side.
    capacity: Double,
    /// What the source side has to send.
    supply: Double,
}

struct Reckoning<'c> {
    certificate: &'c Certificate,
    capacities: Vec<Double>,
    /// What each node has still to send (negative: to receive) of the demand. Index: node.
    supply: Vec<Double>,
    /// The position of each node in the order. Index: node.
    place: Vec<u32>,
    /// The crossings of step s: `crossings[first[s]..first[s + 1]]`.
    crossings: Vec<Crossing>,
    first: Vec<u32>,
    /// Capacity over flow of the links of each step; `None`: the step's supplies are noise, or it does not fit. Then
    /// all steps within it have none either.
    scales: Vec<Option<Double>>,
    /// The steps whose loads are not below that of the step around them.
    too_high: Vec<u32>,
    smallest_capacity: Double,
}

impl<'c> Reckoning<'c> {
    fn new(certificate: &'c Certificate, topology: &Topology, source: NodeId, target: NodeId) -> Self {
        let mut supply = vec![Double::ZERO; topology.node_count()];
        supply[source.index()] = Double::ONE;
        supply[target.index()] = -Double::ONE;
        let capacities = topology.links().map(|(.., link)| Double::decimal(link.capacity)).collect();
        let place = certificate.places();
        let (crossings, first) = crossings(certificate, topology, &place);
        Self {
            certificate,
            capacities,
            supply,
            place,
            crossings,
            first,
            scales: Vec::with_capacity(certificate.steps.len()),
            too_high: Vec::new(),
            smallest_capacity: Double::decimal(topology.smallest_capacity().unwrap_or(1.0)),
        }
    }

    /// Fixes the flows over the cuts of a step.
    fn step(&mut self, index: usize) {
        let above = self.certificate.steps[index].parent.map(|parent| self.scales[parent as usize]);
        // Steps within a step of noise are noise, too. If anything else was there, the check at the end finds it.
        let scale = if above == Some(None) { None } else { self.scale(index) };
        let falls = |scale: &Double| match above.flatten() {
            Some(above) => (*scale / above - Double::ONE).rounded() >= SAME,
            None => true,
        };
        if scale.as_ref().is_some_and(|scale| !falls(scale)) {
            self.too_high.push(index as u32);
        }
        let scale = scale.filter(falls);
        self.scales.push(scale);
        self.carry(index, scale);
    }

    /// Capacity over flow of the links that cross the cuts of a step; `None` if there is no flow but noise.
    ///
    /// It is that of the cut of largest capacity: a small cut beside it has a small supply, whose round-off would be
    /// that of the large one then as many times as the one is larger.
    fn scale(&self, index: usize) -> Option<Double> {
        let cuts = self.cuts(index);
        let largest = cuts.into_iter().reduce(|a, b| if a.capacity < b.capacity { b } else { a })?;
        largest.supply.is_something().then(|| largest.capacity / largest.supply)
    }

    /// Takes what the links of a step carry from the supplies.
    fn carry(&mut self, index: usize, scale: Option<Double>) {
        let Some(scale) = scale else { return };
        for at in self.first[index]..self.first[index + 1] {
            let Crossing { link, tail, head, .. } = self.crossings[at as usize];
            let flow = self.capacities[link.index()] / scale;
            self.supply[tail.index()] -= flow;
            self.supply[head.index()] += flow;
        }
    }

    /// The cuts of a step, from the source side on.
    ///
    /// The supplies of its largest child are those of the others with the opposite sign, so that no node is looked at
    /// more than log n times.
    fn cuts(&self, index: usize) -> Vec<Cut> {
        let step = &self.certificate.steps[index];
        let starts = self.certificate.starts(step).unwrap_or_default();
        let child = |node: NodeId| starts.partition_point(|&start| start <= self.place[node.index()]) - 1;
        // What crosses into each child first, less what ends there: the sums are what crosses each cut.
        let mut capacity = vec![Double::ZERO; starts.len() + 1];
        for crossing in &self.crossings[self.first[index] as usize..self.first[index + 1] as usize] {
            let own = self.capacities[crossing.link.index()];
            capacity[child(crossing.tail) + 1] += own;
            capacity[child(crossing.head) + 1] -= own;
        }
        let children: Vec<Range<u32>> = self.certificate.child_ranges(index).collect();
        let largest = (0..children.len()).max_by_key(|&child| children[child].len());
        let (mut supplies, mut sum) = (Vec::with_capacity(children.len()), Double::ZERO);
        for (number, range) in children.iter().enumerate() {
            let nodes = &self.certificate.order[range.start as usize..range.end as usize];
            let nodes = if Some(number) == largest { &[] } else { nodes };
            let own = nodes.iter().fold(Double::ZERO, |sum, node| sum + self.supply[node.index()]);
            supplies.push(own);
            sum += own;
        }
        if let Some(largest) = largest {
            supplies[largest] = -sum;
        }
        let mut cut = Cut { start: 0, capacity: Double::ZERO, supply: Double::ZERO };
        let mut cuts = Vec::with_capacity(starts.len());
        for (number, &start) in starts.iter().enumerate().skip(1) {
            cut.start = start;
            cut.capacity += capacity[number];
            cut.supply += supplies[number - 1];
            cuts.push(cut);
        }
        cuts
    }

    /// Whether anything is left of the demand behind the last step.
    fn is_something_left(&self) -> bool {
        self.supply.iter().any(|supply| supply.abs().is_something())
    }

    fn finish(self) -> Result<Reckoned, Left> {
        let certificate = self.without_noise();
        let is_whole = certificate.stopped_at.is_none();
        if !self.too_high.is_empty() || is_whole && self.is_something_left() {
            return Err(Left { certificate, supply: self.supply });
        }
        let flows = self.flows();
        if flows.iter().any(|flow| *flow != 0.0 && flow.abs() < LEAST_FLOW) {
            return Err(Left { certificate, supply: Vec::new() });
        }
        Ok(Reckoned { flows, certificate })
    }

    /// The signed flow of each link.
    fn flows(&self) -> Vec<f64> {
        let mut flows = vec![0.0; self.capacities.len()];
        for (step, scale) in self.scales.iter().enumerate() {
            let Some(scale) = *scale else { continue };
            for crossing in &self.crossings[self.first[step] as usize..self.first[step + 1] as usize] {
                let flow = (self.capacities[crossing.link.index()] / scale).rounded();
                flows[crossing.link.index()] = crossing.sign * flow;
            }
        }
        flows
    }

    /// The certificate with the loads as they were reckoned, without the steps that held nothing but noise.
    fn without_noise(&self) -> Certificate {
        let given = self.certificate;
        let (mut steps, mut children) = (Vec::new(), Vec::new());
        let mut number = vec![0_u32; self.scales.len()];
        for (index, (step, scale)) in given.steps.iter().zip(&self.scales).enumerate() {
            let Some(scale) = *scale else { continue };
            number[index] = steps.len() as u32;
            let above = step.parent.and_then(|parent| self.scales[parent as usize]);
            let first = children.len() as u32;
            children.extend_from_slice(given.starts(step).unwrap_or_default());
            let mut step = step.clone();
            step.parent = step.parent.map(|parent| number[parent as usize]);
            step.ratio = above.map_or(scale, |above| scale / above).rounded();
            step.load = (self.smallest_capacity / scale).rounded();
            step.children = first..children.len() as u32;
            steps.push(step);
        }
        Certificate { order: given.order.clone(), steps, children, stopped_at: given.stopped_at }
    }
}

/// The links that cross the cuts of each step from the source side to the target side, by step, and where the
/// crossings of each step begin.
fn crossings(certificate: &Certificate, topology: &Topology, place: &[u32]) -> (Vec<Crossing>, Vec<u32>) {
    let separation = Separation::new(place.len(), &certificate.steps, &certificate.children);
    let both_ways = topology.orientation() == Orientation::Undirected;
    let mut found: Vec<(u32, Crossing)> = Vec::new();
    for (link, from, to, _) in topology.links().filter(|(_, from, to, _)| from != to) {
        let (a, b) = (place[from.index()], place[to.index()]);
        let Some(step) = separation.step(a, b) else { continue };
        if a < b {
            found.push((step as u32, Crossing { link, tail: from, head: to, sign: 1.0 }));
        } else if both_ways {
            found.push((step as u32, Crossing { link, tail: to, head: from, sign: -1.0 }));
        }
    }
    found.sort_by_key(|(step, _)| *step);
    let mut first = vec![0; certificate.steps.len() + 1];
    for (step, _) in &found {
        first[*step as usize + 1] += 1;
    }
    for step in 0..certificate.steps.len() {
        first[step + 1] += first[step];
    }
    (found.into_iter().map(|(_, crossing)| crossing).collect(), first)
}
