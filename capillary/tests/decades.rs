//! Networks whose capacities span many decades: no plan is refused, each is proved or exact, and all loads are those of
//! rational arithmetic.
//!
//! `CAPILLARY_PLANS` sets how many plans are made (400); the 10,000 of the documentation:
//!
//! ```sh
//! CAPILLARY_PLANS=10000 cargo test --release -p capillary --test decades -- --nocapture
//! ```

use capillary::exact::{self, to_f64};
use capillary::{Arithmetic, Link, Node, NodeId, Orientation, SolveError, Topology, solve_certified};

/// How far a load may be from the exact one, relative to the largest load.
const ALLOWED: f64 = 1e-12;

/// SplitMix64: the same networks on every machine.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn share(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A multigraph whose capacities lie anywhere in so many decades: powers of ten, numbers of three digits or of all.
fn network(dice: &mut Dice, decades: f64) -> Topology {
    let orientation = if dice.below(2) == 0 { Orientation::Directed } else { Orientation::Undirected };
    let nodes = 4 + dice.below(22);
    let links = nodes + dice.below(3 * nodes);
    let digits = dice.below(3);
    let mut topology = Topology::new(orientation);
    for node in 0..nodes {
        topology.add_node(Node::new(node.to_string())).unwrap();
    }
    for _ in 0..links {
        let (from, to) = (NodeId(dice.below(nodes) as u32), NodeId(dice.below(nodes) as u32));
        let capacity = 10_f64.powf(dice.share() * decades);
        let capacity = match digits {
            0 => 10_f64.powf(capacity.log10().round()),
            1 => format!("{capacity:.2e}").parse().unwrap(),
            _ => capacity,
        };
        topology.add_link(from, to, Link::with_capacity(capacity)).unwrap();
    }
    topology
}

/// A multigraph whose capacities are small whole numbers, many of them off by some 1e-14: the loads that follow differ
/// by less than floating point can tell after a few steps.
fn nearly_even(dice: &mut Dice) -> Topology {
    let orientation = if dice.below(2) == 0 { Orientation::Directed } else { Orientation::Undirected };
    let nodes = 4 + dice.below(9);
    let links = nodes + dice.below(3 * nodes);
    let mut topology = Topology::new(orientation);
    for node in 0..nodes {
        topology.add_node(Node::new(node.to_string())).unwrap();
    }
    for _ in 0..links {
        let (from, to) = (NodeId(dice.below(nodes) as u32), NodeId(dice.below(nodes) as u32));
        let off = if dice.below(2) == 0 { 0.0 } else { dice.below(9) as f64 - 4.0 };
        let capacity = (1 + dice.below(3)) as f64 + off * 1e-14;
        topology.add_link(from, to, Link::with_capacity(capacity)).unwrap();
    }
    topology
}

/// What the solver takes for one cut may be several, and what it takes for round-off may be a flow.
#[test]
fn plans_whose_loads_nearly_agree_are_exact_and_hardly_one_takes_rational_numbers() {
    let mut dice = Dice(7);
    let (mut planned, mut by_rationals, mut tiny) = (0, 0, 0);
    while planned < 300 {
        let topology = nearly_even(&mut dice);
        let target = NodeId(topology.node_count() as u32 - 1);
        let solution = match solve_certified(&topology, NodeId(0), target) {
            Err(SolveError::Unreachable { .. }) => continue,
            solution => solution.unwrap_or_else(|error| panic!("plan {planned}: {error}")),
        };
        planned += 1;
        by_rationals += usize::from(solution.arithmetic == Arithmetic::Rational);
        let exact = exact::solve(&topology, NodeId(0), target).unwrap();
        for (index, (link, flow)) in solution.routing.links().iter().zip(&exact.flows).enumerate() {
            let flow = to_f64(flow);
            // Relative to the flow itself, however small it is.
            let error = (link.flow - flow).abs();
            assert!(error <= ALLOWED * flow.abs(), "plan {planned}, link {index}: {link:?}, exact {flow}");
            tiny += usize::from(flow != 0.0 && flow.abs() < 1e-12);
        }
    }
    println!("{planned} plans: {by_rationals} by rationals; {tiny} flows below 1e-12");
    assert!(tiny > 10, "{tiny} flows below 1e-12");
    assert!(by_rationals < 15, "{by_rationals} plans by rationals");
}

#[test]
fn plans_over_many_decades_are_exact_and_none_is_refused() {
    let plans: usize = std::env::var("CAPILLARY_PLANS").map_or(400, |plans| plans.parse().unwrap());
    let mut dice = Dice(28);
    let (mut planned, mut by_rationals, mut widest) = (0, 0, 0.0_f64);
    while planned < plans {
        let decades = 3.0 + (planned % 10) as f64;
        let topology = network(&mut dice, decades);
        let target = NodeId(topology.node_count() as u32 - 1);
        let solution = match solve_certified(&topology, NodeId(0), target) {
            Err(SolveError::Unreachable { .. }) => continue,
            solution => solution.unwrap_or_else(|error| panic!("plan {planned}, {decades} decades: {error}")),
        };
        planned += 1;
        let exact = exact::solve(&topology, NodeId(0), target).unwrap();
        let largest = to_f64(&exact.layers[0]);
        for (index, (link, load)) in solution.routing.links().iter().zip(&exact.loads).enumerate() {
            let error = (link.load - to_f64(load)).abs() / largest;
            widest = widest.max(error);
            assert!(
                error <= ALLOWED,
                "plan {planned}, {decades} decades, link {index}: {link:?}, exact {load}"
            );
            let is_used = link.layer.is_some();
            assert_eq!(is_used, to_f64(load) != 0.0, "plan {planned}, link {index}: {link:?}, exact {load}");
        }
        match solution.arithmetic {
            Arithmetic::Float => solution.certificate.verify(&topology, &solution.routing).unwrap(),
            Arithmetic::Rational => by_rationals += 1,
        }
    }
    println!(
        "{planned} plans: {by_rationals} by rationals; largest error of a load {widest:.1e} of the largest load"
    );
}
