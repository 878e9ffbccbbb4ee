//! Liquid schedules against every schedule there is, and on networks of switches.

use capillary::schedule::{Outcome, Schedule, Traffic, Transfer};
use capillary::{LinkId, Node, NodeId, Orientation, Topology};
use proptest::prelude::*;

/// A number that looks random, and is the same each time.
fn die(state: &mut u64, sides: usize) -> usize {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    (*state >> 33) as usize % sides
}

fn all_to_all(topology: &Topology, sources: &[NodeId], targets: &[NodeId]) -> Traffic {
    let pairs: Vec<(NodeId, NodeId)> = targets
        .iter()
        .flat_map(|&to| sources.iter().filter(move |&&from| from != to).map(move |&from| (from, to)))
        .collect();
    Traffic::on_shortest_paths(topology, &pairs).unwrap()
}

fn liquid(traffic: &Traffic) -> Schedule {
    let Outcome::Liquid(schedule) = traffic.liquid_schedule(100_000) else {
        panic!("no liquid schedule found")
    };
    schedule.verify(traffic).unwrap();
    assert_eq!(schedule.frames.len(), traffic.bound());
    schedule
}

/// Nodes behind switches, which are joined in a line.
fn switches(ends: usize, count: usize, place: impl Fn(usize) -> usize) -> (Topology, Vec<NodeId>) {
    let mut topology = Topology::new(Orientation::Undirected);
    let switches: Vec<NodeId> =
        (0..count).map(|index| topology.add_node(Node::new(format!("s{index}"))).unwrap()).collect();
    for pair in switches.windows(2) {
        topology.add_link(pair[0], pair[1], Default::default()).unwrap();
    }
    let ends =
        (0..ends).map(|index| topology.add_node(Node::new(format!("n{index}"))).unwrap()).collect::<Vec<_>>();
    for (index, &end) in ends.iter().enumerate() {
        topology.add_link(end, switches[place(index)], Default::default()).unwrap();
    }
    (topology, ends)
}

#[test]
fn twenty_five_transfers_over_two_switches_take_six_frames() {
    // Five senders and five receivers; three senders and three receivers are on the left. Six transfers must cross from
    // left to right, and six from right to left.
    let (topology, ends) = switches(10, 2, |index| usize::from([3, 4, 8, 9].contains(&index)));
    let traffic = all_to_all(&topology, &ends[..5], &ends[5..]);
    assert_eq!((traffic.transfers().len(), traffic.bound()), (25, 6));
    liquid(&traffic);
}

#[test]
fn a_triangle_of_collisions_has_no_liquid_schedule() {
    let transfer = |links: [u32; 2]| Transfer {
        source: NodeId(0),
        target: NodeId(1),
        path: links.map(|link| (LinkId(link), true)).to_vec(),
    };
    let traffic = Traffic::new(vec![transfer([0, 1]), transfer([1, 2]), transfer([2, 0])]);
    assert_eq!((traffic.bound(), traffic.liquid_schedule(1000)), (2, Outcome::Impossible));
    assert_eq!(traffic.greedy_schedule().frames.len(), 3);
}

#[test]
fn most_all_to_all_traffics_of_a_switched_network_are_liquid() {
    let mut state = 28;
    let (mut found, mut unknown, mut impossible) = (0, 0, 0);
    for _ in 0..20 {
        let places: Vec<usize> = (0..32).map(|_| die(&mut state, 8)).collect();
        let (topology, ends) = switches(32, 8, |index| places[index]);
        let chosen: Vec<NodeId> = ends.into_iter().filter(|_| die(&mut state, 2) == 0).collect();
        let traffic = all_to_all(&topology, &chosen, &chosen);
        traffic.greedy_schedule().verify(&traffic).unwrap();
        traffic.round_robin_schedule().verify(&traffic).unwrap();
        match traffic.liquid_schedule(20_000) {
            Outcome::Liquid(schedule) => {
                schedule.verify(&traffic).unwrap();
                assert_eq!(schedule.frames.len(), traffic.bound());
                found += 1;
            }
            Outcome::Impossible => impossible += 1,
            Outcome::Unknown => unknown += 1,
        }
    }
    println!("{found} liquid, {impossible} impossible, {unknown} unknown");
    assert!(found >= 18, "{found} liquid, {impossible} impossible, {unknown} unknown");
}

/// Whether the transfers from `next` on fit into the frames, by trying everything.
fn fits(traffic: &Traffic, next: usize, frames: &mut Vec<Vec<usize>>) -> bool {
    let Some(transfer) = traffic.transfers().get(next) else { return true };
    for frame in 0..frames.len() {
        let collides =
            |&other: &usize| traffic.transfers()[other].path.iter().any(|arc| transfer.path.contains(arc));
        if frames[frame].iter().any(collides) {
            continue;
        }
        frames[frame].push(next);
        if fits(traffic, next + 1, frames) {
            return true;
        }
        frames[frame].pop();
    }
    false
}

proptest! {
    #[test]
    fn the_search_finds_what_trying_everything_finds(
        paths in prop::collection::vec(prop::collection::btree_set(0..6u32, 1..4), 1..9)
    ) {
        let transfer = |links: std::collections::BTreeSet<u32>| Transfer {
            source: NodeId(0),
            target: NodeId(1),
            path: links.into_iter().map(|link| (LinkId(link), true)).collect(),
        };
        let traffic = Traffic::new(paths.into_iter().map(transfer).collect());
        let exists = fits(&traffic, 0, &mut vec![Vec::new(); traffic.bound()]);
        match traffic.liquid_schedule(1_000_000) {
            Outcome::Liquid(schedule) => {
                prop_assert!(exists);
                schedule.verify(&traffic).unwrap();
                prop_assert_eq!(schedule.frames.len(), traffic.bound());
            }
            Outcome::Impossible => prop_assert!(!exists),
            Outcome::Unknown => prop_assert!(false, "eight transfers are few"),
        }
    }
}
