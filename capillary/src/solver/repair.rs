//! What floating point has taken for round-off, and is none.
//!
//! A node of a deep recursion may have to send a share of 1e-13 of the demand, which thousands of subtractions in
//! floating point cannot tell from nothing. The reckoning in numbers of some 32 digits can. What it finds left in a
//! part that no step divides is a problem of its own, as all parts are; in units of its own largest supply it has no
//! round-off yet, and the recursion begins anew there.

use crate::certificate::{Certificate, Left};
use crate::double::Double;
use crate::network::Network;
use crate::solver::Effort;
use crate::solver::recursion::{EPSILON, Recursion};
use crate::topology::Topology;

/// A part that no step divides, with something left to carry. Its nodes are called by their places in it.
#[derive(Debug)]
struct Remnant {
    /// Where it begins in the order.
    start: u32,
    /// What each node must send (negative: receive), in units of the largest.
    supply: Vec<f64>,
    links: Vec<(u32, u32, f64)>,
}

/// The cuts with those that divide what they have left. `None`: none of them fits, they stop early, or what is left
/// cannot flow.
pub(super) fn divide_what_is_left(
    left: Left,
    topology: &Topology,
    effort: &mut Effort,
) -> Option<Certificate> {
    let Certificate { steps, stopped_at, .. } = &left.certificate;
    if steps.is_empty() || stopped_at.is_some() || left.supply.is_empty() {
        return None;
    }
    let remnants = remnants(&left, topology);
    let mut certificate = left.certificate;
    let innermost = certificate.innermost_steps();
    for remnant in remnants {
        let start = remnant.start;
        let within = remnant.solve(topology, effort)?;
        certificate.divide(start, innermost[start as usize], &within);
    }
    Some(certificate)
}

/// The parts with something left.
fn remnants(left: &Left, topology: &Topology) -> Vec<Remnant> {
    let Left { certificate, supply } = left;
    let starts = certificate.undivided();
    let ends = starts.iter().skip(1).copied().chain([certificate.order().len() as u32]);
    let mut found: Vec<Remnant> = Vec::new();
    let mut number = vec![None; starts.len()];
    for (part, (&start, end)) in starts.iter().zip(ends).enumerate() {
        let nodes = &certificate.order()[start as usize..end as usize];
        let supplies = nodes.iter().map(|node| supply[node.index()]);
        if let Some(supply) = scaled(supplies) {
            number[part] = Some(found.len());
            found.push(Remnant { start, supply, links: Vec::new() });
        }
    }
    let place = certificate.places();
    let part_of = |place: u32| starts.partition_point(|&start| start <= place) - 1;
    for (_, from, to, link) in topology.links() {
        let [from, to] = [from, to].map(|node| place[node.index()]);
        let part = part_of(from);
        if let Some(remnant) = number[part].filter(|_| part_of(to) == part) {
            let Remnant { start, links, .. } = &mut found[remnant];
            links.push((from - *start, to - *start, link.capacity));
        }
    }
    found
}

/// Supplies in units of the largest, so that they sum to zero; `None` if there are none.
fn scaled(supplies: impl Iterator<Item = Double> + Clone) -> Option<Vec<f64>> {
    let largest = supplies.clone().map(Double::abs).fold(Double::ZERO, |a, b| if a < b { b } else { a });
    if !largest.is_something() {
        return None;
    }
    let mut scaled: Vec<f64> = supplies
        .map(|supply| if supply.abs().is_something() { (supply / largest).rounded() } else { 0.0 })
        .collect();
    let sum: f64 = scaled.iter().sum();
    let holder = (0..scaled.len()).max_by(|&a, &b| scaled[a].abs().total_cmp(&scaled[b].abs()))?;
    scaled[holder] -= sum;
    Some(scaled)
}

impl Remnant {
    /// The cuts of the part; `None` if its supplies cannot flow.
    fn solve(self, topology: &Topology, effort: &mut Effort) -> Option<Certificate> {
        let Self { supply, links, .. } = self;
        let network = Network::of_links(supply.len(), || links.iter().copied(), topology.orientation());
        let mut recursion = Recursion::of(network, links.len(), supply, EPSILON, 1.0);
        recursion.run(None);
        let more = recursion.effort();
        effort.steps += more.steps;
        effort.max_flows += more.max_flows;
        effort.rounds += more.rounds;
        (!recursion.is_unreachable()).then(|| recursion.certificate())
    }
}

#[cfg(test)]
mod tests {
    use crate::solver::{Arithmetic, Solution, solve_certified};
    use crate::topology::{NodeId, Orientation, Topology};

    /// On Barabási–Albert graphs of 30,000 nodes a supply of 2.3e-13 was left at two nodes, and rational arithmetic
    /// began on the whole network, to no end.
    #[test]
    fn a_share_below_the_round_off_of_floating_point_is_carried_all_the_same() {
        // Half of the demand comes to u and to v; u can send on a little more than that, v a little less.
        let links = [
            ("s", "u", 1.0),
            ("s", "v", 1.0),
            ("u", "t", 2.000_000_000_000_02),
            ("v", "t", 1.999_999_999_999_98),
            ("v", "u", 1.0),
        ];
        for orientation in [Orientation::Directed, Orientation::Undirected] {
            let topology = Topology::from_links(orientation, links).unwrap();
            let (source, target) = (NodeId(0), topology.node("t").unwrap());
            let Solution { routing, certificate, arithmetic, .. } =
                solve_certified(&topology, source, target).unwrap();
            certificate.verify(&topology, &routing).unwrap();
            assert_eq!(arithmetic, Arithmetic::Float);
            let across = routing.links()[4];
            assert!((across.flow / 5e-15 - 1.0).abs() < 1e-12, "{across:?}");
            assert_eq!(routing.layers().len(), 3);
            assert_eq!(across.layer, Some(3));
        }
    }
}
