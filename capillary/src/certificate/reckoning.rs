//! The flows that the cuts of a certificate demand, reckoned from nothing but the cuts, in numbers of twice the usual
//! precision.

use crate::certificate::Certificate;
use crate::certificate::separation::Separation;
use crate::double::Double;
use crate::topology::{LinkId, NodeId, Orientation, Topology};

/// If less than this is left of a demand of 1, it is round-off, which is of some 1e-29; no link carries as little.
const NOTHING: f64 = 1e-24;

/// Loads that differ by less than this, relative, count as equal.
const SAME: f64 = 1e-22;

/// The flows of the links (index: link), and the cuts that hold them.
#[derive(Debug)]
pub(crate) struct Reckoned {
    pub(crate) flows: Vec<f64>,
    pub(crate) certificate: Certificate,
}

impl Reckoned {
    /// Reckons the flow over each cut of `certificate` anew: the links that cross it are full at one load, so that its
    /// supply and the sum of their capacities are all that it takes. Flows of noise come out as nothing, and their
    /// steps are left out.
    ///
    /// This proves the flows optimal, too, with a precision of 1e-20 instead of that of the solver: loads must fall
    /// from a step to those within it, and behind the last step no node may have anything left to send or to receive,
    /// unless the solver stopped early. `None`: the cuts do not fit together, and what they would prove is no routing.
    ///
    /// Complexity: O((nodes + links) · log nodes).
    pub(crate) fn of(
        certificate: &Certificate,
        topology: &Topology,
        source: NodeId,
        target: NodeId,
    ) -> Option<Reckoned> {
        let mut reckoning = Reckoning::new(certificate, topology, source, target);
        for step in 0..certificate.steps.len() {
            reckoning.step(step)?;
        }
        reckoning.finish()
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
    /// Capacity over flow of the links of each step; `None`: the step's supplies are noise.
    scales: Vec<Option<Double>>,
    flows: Vec<f64>,
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
            flows: vec![0.0; topology.link_count()],
            smallest_capacity: Double::decimal(topology.smallest_capacity().unwrap_or(1.0)),
        }
    }

    /// Fixes the flows over the cuts of a step.
    fn step(&mut self, index: usize) -> Option<()> {
        let step = &self.certificate.steps[index];
        let above = step.parent.map(|parent| self.scales[parent as usize]);
        let range = self.first[index] as usize..self.first[index + 1] as usize;
        let (capacity, supply) = self.cut(index)?;
        // Steps within a step of noise are noise, too. If anything else was there, the check at the end finds it.
        if above == Some(None) || supply.rounded() < NOTHING {
            self.scales.push(None);
            return Some(());
        }
        let scale = capacity / supply;
        if let Some(Some(above)) = above
            && (scale / above - Double::ONE).rounded() < SAME
        {
            return None;
        }
        for crossing in &self.crossings[range] {
            let flow = self.capacities[crossing.link.index()] / scale;
            self.supply[crossing.tail.index()] -= flow;
            self.supply[crossing.head.index()] += flow;
            self.flows[crossing.link.index()] = crossing.sign * flow.rounded();
        }
        self.scales.push(Some(scale));
        Some(())
    }

    /// Capacity and supply of a cut of a step: the one around the smallest child that crossings only leave or only
    /// enter. There are two such children at least, so that no node is looked at more than log n times.
    fn cut(&self, index: usize) -> Option<(Double, Double)> {
        let step = &self.certificate.steps[index];
        let starts = self.certificate.starts(step)?;
        let crossings = &self.crossings[self.first[index] as usize..self.first[index + 1] as usize];
        let child = |node: NodeId| starts.partition_point(|&start| start <= self.place[node.index()]) - 1;
        let mut sums = vec![(Double::ZERO, Double::ZERO); starts.len()];
        for crossing in crossings {
            let capacity = self.capacities[crossing.link.index()];
            sums[child(crossing.tail)].0 += capacity;
            sums[child(crossing.head)].1 += capacity;
        }
        let end = |child: usize| starts.get(child + 1).copied().unwrap_or(step.part.end);
        let one_way = (0..starts.len()).filter(|&child| {
            let (out, into) = sums[child];
            (out == Double::ZERO) != (into == Double::ZERO)
        });
        let smallest = one_way.min_by_key(|&child| end(child) - starts[child])?;
        let nodes = &self.certificate.order[starts[smallest] as usize..end(smallest) as usize];
        let supply = nodes.iter().fold(Double::ZERO, |sum, node| sum + self.supply[node.index()]);
        let (out, into) = sums[smallest];
        Some(if into == Double::ZERO { (out, supply) } else { (into, -supply) })
    }

    fn finish(self) -> Option<Reckoned> {
        let is_left = |supply: &Double| supply.abs().rounded() > NOTHING;
        if self.certificate.stopped_at.is_none() && self.supply.iter().any(is_left) {
            return None;
        }
        let certificate = self.without_noise();
        Some(Reckoned { flows: self.flows, certificate })
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
