//! The search for liquid schedules against an integer program (good_lp with microlp): a variable for each transfer and
//! frame, and on each arc one transfer a frame.
//!
//! `CAPILLARY_TRAFFICS` sets how many traffics are compared (500).

use capillary::schedule::{Outcome, Traffic, Transfer};
use capillary::{LinkId, Node, NodeId, Orientation, Topology};
use good_lp::{Expression, ResolutionError, SolverModel, Variable, constraint, microlp, variable, variables};

struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}

/// Transfers between nodes behind switches, which are joined in a tree.
fn over_switches(dice: &mut Dice) -> Traffic {
    let mut topology = Topology::new(Orientation::Undirected);
    let switches: Vec<NodeId> = (0..1 + dice.below(4))
        .map(|index| topology.add_node(Node::new(format!("s{index}"))).unwrap())
        .collect();
    for (index, &switch) in switches.iter().enumerate().skip(1) {
        topology.add_link(switches[dice.below(index)], switch, Default::default()).unwrap();
    }
    let ends: Vec<NodeId> = (0..4 + dice.below(6))
        .map(|index| topology.add_node(Node::new(format!("n{index}"))).unwrap())
        .collect();
    for &end in &ends {
        topology.add_link(end, switches[dice.below(switches.len())], Default::default()).unwrap();
    }
    let pairs: Vec<(NodeId, NodeId)> = (0..1 + dice.below(40))
        .map(|_| (ends[dice.below(ends.len())], ends[dice.below(ends.len())]))
        .filter(|(from, to)| from != to)
        .collect();
    Traffic::on_shortest_paths(&topology, &pairs).unwrap()
}

/// Transfers over any few of some links, for which hardly any liquid schedules exist.
fn over_any_links(dice: &mut Dice) -> Traffic {
    let links = 3 + dice.below(6);
    let transfer = |dice: &mut Dice| {
        let mut path: Vec<(LinkId, bool)> =
            (0..1 + dice.below(3)).map(|_| (LinkId(dice.below(links) as u32), true)).collect();
        path.sort_unstable();
        path.dedup();
        Transfer { source: NodeId(0), target: NodeId(1), path }
    };
    let count = 1 + dice.below(16);
    Traffic::new((0..count).map(|_| transfer(dice)).collect())
}

/// Whether an integer program finds a schedule of as many frames as the fullest arc has transfers.
fn is_liquid(traffic: &Traffic) -> bool {
    let (transfers, frames) = (traffic.transfers().len(), traffic.bound());
    let mut problem = variables!();
    let goes: Vec<Vec<Variable>> =
        (0..transfers).map(|_| problem.add_vector(variable().binary(), frames)).collect();
    let mut model = problem.minimise(Expression::from(0.0)).using(microlp);
    for frames in &goes {
        model = model.with(constraint!(frames.iter().sum::<Expression>() == 1));
    }
    for (_, on) in traffic.loads() {
        let busy = |frame: usize| -> Expression { on.iter().map(|&transfer| goes[transfer][frame]).sum() };
        for busy in (0..frames).map(busy) {
            model = model.with(constraint!(busy <= 1));
        }
    }
    // Frames have no order: the transfers of one bottleneck may as well go in that of their numbers.
    if let Some((_, on)) = traffic.bottlenecks().next() {
        for (frame, &transfer) in on.iter().enumerate() {
            model = model.with(constraint!(goes[transfer][frame] == 1));
        }
    }
    match model.solve() {
        Ok(_) => true,
        Err(ResolutionError::Infeasible) => false,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn an_integer_program_agrees_about_which_traffics_are_liquid() {
    let count = std::env::var("CAPILLARY_TRAFFICS").map_or(500, |count| count.parse().unwrap());
    let mut dice = Dice(28);
    let (mut liquid, mut impossible, mut largest) = (0, 0, 0);
    for index in 0..count {
        let traffic = if index % 2 == 0 { over_switches(&mut dice) } else { over_any_links(&mut dice) };
        if traffic.transfers().is_empty() {
            continue;
        }
        largest = largest.max(traffic.transfers().len());
        match traffic.liquid_schedule(10_000_000) {
            Outcome::Liquid(schedule) => {
                schedule.verify(&traffic).unwrap();
                assert_eq!(schedule.frames.len(), traffic.bound());
                assert!(is_liquid(&traffic), "traffic {index}: {traffic:?}");
                liquid += 1;
            }
            Outcome::Impossible => {
                assert!(!is_liquid(&traffic), "traffic {index}: {traffic:?}");
                impossible += 1;
            }
            Outcome::Unknown => panic!("traffic {index}: unknown after ten million decisions"),
        }
    }
    println!("{liquid} liquid, {impossible} impossible, up to {largest} transfers");
    assert!(liquid > 0 && impossible > 0);
}
