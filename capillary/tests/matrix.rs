//! Whole traffic matrices against the solver for one demand, against a chain of linear programs, and against
//! themselves.

use capillary::matrix::{Demand, MatrixRouting, TrafficMatrix, solve};
use capillary::{Link, Node, NodeId, Orientation, Topology};
use proptest::prelude::*;

/// What utilisations may be off by, of the largest: the tolerance of the certificates.
const ROUND_OFF: f64 = 1e-8;

fn network(nodes: u32, links: &[(u32, u32, f64)], orientation: Orientation) -> Topology {
    let mut topology = Topology::new(orientation);
    for node in 0..nodes {
        topology.add_node(Node::new(node.to_string())).unwrap();
    }
    // A ring, so that everything can be reached.
    for node in 0..nodes {
        topology.add_link(NodeId(node), NodeId((node + 1) % nodes), Link::with_capacity(10.0)).unwrap();
    }
    for &(from, to, capacity) in links {
        topology.add_link(NodeId(from % nodes), NodeId(to % nodes), Link::with_capacity(capacity)).unwrap();
    }
    topology
}

fn orientation() -> impl Strategy<Value = Orientation> {
    prop_oneof![Just(Orientation::Directed), Just(Orientation::Undirected)]
}

fn instance() -> impl Strategy<Value = (Topology, Vec<Demand>)> {
    let capacity = (0.0..4.0f64).prop_map(|power| 10_f64.powf(power).round());
    let links = prop::collection::vec((0..12u32, 0..12u32, capacity), 0..24);
    let demands = prop::collection::vec((0..12u32, 0..12u32, 1..100u32), 1..30);
    (3..12u32, links, orientation(), demands).prop_map(|(nodes, links, orientation, demands)| {
        let demand = |(from, to, amount): (u32, u32, u32)| Demand {
            source: NodeId(from % nodes),
            target: NodeId(to % nodes),
            amount: f64::from(amount),
        };
        (network(nodes, &links, orientation), demands.into_iter().map(demand).collect())
    })
}

fn routed(topology: &Topology, demands: &[Demand]) -> Option<MatrixRouting> {
    if demands.iter().all(|demand| demand.source == demand.target) {
        return None;
    }
    let routing = solve(topology, &TrafficMatrix::new(demands.to_vec()), None).unwrap();
    routing.certificate().verify(topology, &routing).unwrap();
    Some(routing)
}

proptest! {
    #[test]
    fn one_demand_takes_the_capillary_routing((topology, demands) in instance()) {
        let demand = demands[0];
        if let Some(routing) = routed(&topology, &demands[..1]) {
            let plain = capillary::solve(&topology, demand.source, demand.target).unwrap();
            let mut flows = vec![0.0; topology.link_count()];
            for arc in routing.arcs() {
                let forward = topology.ends(arc.link).0 == arc.from;
                flows[arc.link.index()] += if forward { arc.load } else { -arc.load } / demand.amount;
            }
            // A large arc may carry its round-off more, which an arc of small capacity lacks; that adds up over levels.
            let capacity = topology.links().map(|(.., weight)| weight.capacity).fold(0.0, f64::max);
            let round_off = 10.0 * ROUND_OFF * capacity * routing.largest_utilisation() / demand.amount;
            for (link, flow) in plain.links().iter().zip(flows) {
                prop_assert!((link.flow.abs() - flow.abs()).abs() < round_off, "{link:?} {flow}");
            }
        }
    }

    #[test]
    fn levels_fall_and_are_proved((topology, demands) in instance()) {
        if let Some(routing) = routed(&topology, &demands) {
            prop_assert!(routing.levels().windows(2).all(|pair| pair[1].utilisation < pair[0].utilisation));
            for arc in routing.arcs() {
                let level = arc.level.map_or(0.0, |level| routing.levels()[level as usize - 1].utilisation);
                let difference = (arc.utilisation - level).abs();
                prop_assert!(difference < ROUND_OFF * routing.largest_utilisation(), "{arc:?} {level}");
            }
        }
    }
}

/// On the third level, prices of 1e-3 cancel on one path to −5e-19, which looked cheaper than the 0 of another one: the two
/// took turns for ever, and the levels behind were left out without a word.
#[test]
fn prices_that_cancel_are_no_gain() {
    let chords = [
        (0, 5, 568.0),
        (0, 4, 33.0),
        (0, 5, 8787.0),
        (3, 1, 223.0),
        (4, 2, 27.0),
        (1, 3, 206.0),
        (2, 0, 579.0),
        (4, 3, 2.0),
        (5, 1, 1.0),
        (1, 2, 2.0),
        (4, 5, 9486.0),
    ];
    let topology = network(6, &chords, Orientation::Undirected);
    let routing = routed(&topology, &[Demand { source: NodeId(2), target: NodeId(0), amount: 1.0 }]).unwrap();
    let plain = capillary::solve(&topology, NodeId(2), NodeId(0)).unwrap();
    assert_eq!(routing.levels().len(), plain.layers().len());
    for (level, layer) in routing.levels().iter().zip(plain.layers()) {
        assert!((level.utilisation - layer.load).abs() < 1e-12, "{level:?} {layer:?}");
    }
}

#[test]
fn what_cannot_be_reached_is_refused_by_name() {
    let topology = Topology::from_links(Orientation::Directed, [("a", "b", 1.0), ("c", "b", 1.0)]).unwrap();
    let demand = Demand { source: NodeId(0), target: NodeId(2), amount: 1.0 };
    let error = solve(&topology, &TrafficMatrix::new(vec![demand]), None).unwrap_err();
    assert_eq!(error.to_string(), "the demand from \"a\" to \"c\": the target cannot be reached");
}

/// Every arc of a torus is as good as any other, so that everything stops every step at once: the method went round in
/// circles before arcs had leeways. All demands together need 1,500 arcs, of which there are 100.
#[test]
fn a_torus_where_all_is_equal_comes_to_an_end() {
    let mut topology = Topology::new(Orientation::Undirected);
    let nodes: Vec<NodeId> =
        (0..25).map(|node| topology.add_node(Node::new(node.to_string())).unwrap()).collect();
    for index in 0..25 {
        let (row, column) = (index / 5, index % 5);
        for next in [row * 5 + (column + 1) % 5, (row + 1) % 5 * 5 + column] {
            topology.add_link(nodes[index], nodes[next], Link::with_capacity(1.0)).unwrap();
        }
    }
    let pairs = nodes.iter().flat_map(|&source| nodes.iter().map(move |&target| (source, target)));
    let demand = |(source, target)| Demand { source, target, amount: 1.0 };
    let routing = routed(&topology, &pairs.map(demand).collect::<Vec<_>>()).unwrap();
    assert_eq!(routing.levels().len(), 1);
    assert_eq!(routing.levels()[0].arcs, 100);
    for arc in routing.arcs() {
        assert!((arc.utilisation - 15.0).abs() < 1e-9, "{arc:?}");
    }
}
