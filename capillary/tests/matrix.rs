//! Whole traffic matrices against the solver for one demand, against a chain of linear programs, and against
//! themselves.

use std::num::NonZeroU32;
use std::time::Duration;

use capillary::matrix::{Demand, MatrixRouting, PathBounds, TrafficMatrix, solve, solve_within};
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
        let demand = |(from, to, amount): (u32, u32, u32)| {
            Demand::new(NodeId(from % nodes), NodeId(to % nodes), f64::from(amount))
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
            // Of the largest utilisation, as all that is said of utilisations.
            let unit = routing.largest_utilisation() / demand.amount;
            for (((.., weight), link), flow) in topology.links().zip(plain.links()).zip(flows) {
                let error = (link.flow.abs() - flow.abs()).abs() / weight.capacity;
                prop_assert!(error < 1e-9 * unit, "{link:?} {flow}, off by {:.1e}", error / unit);
            }
        }
    }

    #[test]
    fn the_shares_of_the_demands_are_routings_and_add_up((topology, demands) in instance()) {
        if let Some(routing) = routed(&topology, &demands) {
            let mut load = vec![0.0; topology.link_count()];
            for (index, demand) in routing.demands().iter().enumerate() {
                let share = routing.share(&topology, index).unwrap();
                prop_assert_eq!((share.source(), share.target()), (demand.source, demand.target));
                share.links().iter().zip(&mut load).for_each(|(link, load)| *load += link.flow * demand.amount);
            }
            let largest = routing.arcs().iter().map(|arc| arc.load).fold(0.0, f64::max);
            for arc in routing.arcs() {
                let sign = if topology.ends(arc.link).0 == arc.from { 1.0 } else { -1.0 };
                load[arc.link.index()] -= sign * arc.load;
            }
            prop_assert!(load.iter().all(|rest| rest.abs() < 1e-9 * largest), "{load:?}");
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

/// Every path without a circle from a node to the target within the bounds, as positions of arcs, by trying all.
fn all_paths(
    routing: &MatrixRouting,
    topology: &Topology,
    demand: Demand,
    bounds: &PathBounds,
) -> Vec<Vec<usize>> {
    let mut shortest = f64::INFINITY;
    let mut found: Vec<(f64, Vec<usize>)> = Vec::new();
    let mut stack = vec![(demand.source, vec![demand.source], Vec::new(), Duration::ZERO, 0.0)];
    while let Some((here, seen, path, delay, length)) = stack.pop() {
        if here == demand.target {
            shortest = shortest.min(length);
            let hops = bounds.hops.is_none_or(|hops| path.len() <= hops.get() as usize);
            if hops && bounds.delay.is_none_or(|longest| delay <= longest) {
                found.push((length, path));
            }
            continue;
        }
        for (index, arc) in routing.arcs().iter().enumerate() {
            if arc.from == here && !seen.contains(&arc.to) {
                let link = topology.link_weight(arc.link);
                let (seen, path) = ([&seen[..], &[arc.to]].concat(), [&path[..], &[index]].concat());
                let delay = delay + link.delay.unwrap_or_default();
                stack.push((arc.to, seen, path, delay, length + link.length()));
            }
        }
    }
    let longest = bounds.stretch.map_or(f64::INFINITY, |stretch| stretch * shortest * (1.0 + 1e-9));
    found.into_iter().filter(|(length, _)| *length <= longest).map(|(_, path)| path).collect()
}

fn bounded_instance() -> impl Strategy<Value = (Topology, Vec<Demand>, PathBounds)> {
    let link = (0..7u32, 0..7u32, 1..1000u32, 1..20u64, 1..6u32);
    let demands = prop::collection::vec((0..7u32, 0..7u32, 1..100u32), 1..8);
    let bounds = (prop::option::of(1..3u32), prop::option::of(1.0..1.6f64), prop::option::of(1.0..2.0f64));
    (prop::collection::vec(link, 4..14), orientation(), demands, bounds, any::<bool>()).prop_map(
        |(links, orientation, demands, (more_hops, more_delay, stretch), is_for_all)| {
            let mut topology = Topology::new(orientation);
            for node in 0..7 {
                topology.add_node(Node::new(node.to_string())).unwrap();
            }
            let ring = (0..7).map(|node| (node, (node + 1) % 7, 50, 9, 2));
            for (from, to, capacity, delay, metric) in ring.chain(links) {
                let (delay, metric) = (Some(Duration::from_millis(delay)), Some(f64::from(metric)));
                let link = Link { delay, metric, ..Link::with_capacity(f64::from(capacity)) };
                topology.add_link(NodeId(from), NodeId(to), link).unwrap();
            }
            // Wide enough for the ring, so that each demand has a path.
            let bounds = PathBounds {
                hops: more_hops.and_then(|more| NonZeroU32::new(5 + more)),
                delay: more_delay.map(|more| Duration::from_secs_f64(0.054 * more)),
                stretch: stretch.filter(|_| more_hops.is_none() && more_delay.is_none()),
            };
            // Every other demand has the bounds of its own, or all have them.
            let demand = |(index, (from, to, amount)): (usize, (u32, u32, u32))| {
                let own = if is_for_all || index % 2 == 0 { PathBounds::default() } else { bounds };
                Demand { bounds: own, ..Demand::new(NodeId(from), NodeId(to), f64::from(amount)) }
            };
            let demands = demands.into_iter().enumerate().map(demand).collect();
            (topology, demands, if is_for_all { bounds } else { PathBounds::default() })
        },
    )
}

proptest! {
    /// The proof once more, with the cheapest of all paths there are, found without the search by labels.
    #[test]
    fn bounds_hold_and_the_levels_are_the_least_within_them((topology, demands, bounds) in bounded_instance()) {
        prop_assume!(demands.iter().any(|demand| demand.source != demand.target));
        let routing = solve_within(&topology, &TrafficMatrix::new(demands), None, &bounds).unwrap();
        let paths: Vec<Vec<Vec<usize>>> =
            routing.demands().iter().map(|&demand| all_paths(&routing, &topology, demand, &bounds.and(&demand.bounds))).collect();
        for path in routing.paths() {
            let arcs: Vec<usize> = path.arcs.iter().map(|&arc| arc as usize).collect();
            prop_assert!(paths[path.demand].contains(&arcs), "{path:?}");
        }
        let mut level_of = vec![None; routing.arcs().len()];
        for bound in routing.certificate().bounds() {
            let mut price = vec![0.0; routing.arcs().len()];
            bound.prices.iter().for_each(|&(arc, value)| price[arc as usize] = value);
            let cost = |path: &Vec<usize>| path.iter().map(|&arc| price[arc]).sum::<f64>();
            let cheapest = |paths: &Vec<Vec<usize>>| paths.iter().map(cost).fold(f64::INFINITY, f64::min);
            let paid: f64 =
                paths.iter().zip(routing.demands()).map(|(paths, demand)| demand.amount * cheapest(paths)).sum();
            let (mut free, mut held) = (0.0, 0.0);
            for (arc, price) in price.iter().enumerate() {
                let worth = price * routing.arcs()[arc].capacity;
                match level_of[arc] {
                    None => free += worth,
                    Some(level) => held += worth * level,
                }
            }
            let level = routing.levels()[bound.level as usize - 1].utilisation;
            let proved = (paid - held) / free;
            prop_assert!(proved >= level - ROUND_OFF * (paid / free).max(level), "{bound:?}: {proved} < {level}");
            bound.settled.iter().for_each(|&arc| level_of[arc as usize] = Some(level));
        }
        for (arc, level) in routing.arcs().iter().zip(level_of) {
            let difference = (arc.utilisation - level.unwrap_or(0.0)).abs();
            prop_assert!(difference < ROUND_OFF * routing.largest_utilisation(), "{arc:?} {level:?}");
        }
    }

    /// Bounds that bind nobody change nothing, though the method is another one.
    #[test]
    fn wide_bounds_give_the_same_levels((topology, demands) in instance()) {
        if let Some(routing) = routed(&topology, &demands) {
            let bounds = PathBounds { hops: NonZeroU32::new(50), ..PathBounds::default() };
            let bounded = solve_within(&topology, &TrafficMatrix::new(demands), None, &bounds).unwrap();
            for (arc, other) in routing.arcs().iter().zip(bounded.arcs()) {
                let difference = (arc.utilisation - other.utilisation).abs();
                prop_assert!(difference < 4.0 * ROUND_OFF * routing.largest_utilisation(), "{arc:?} {other:?}");
            }
        }
    }
}

#[test]
fn a_demand_without_a_path_within_the_bounds_is_refused_by_name() {
    let topology = Topology::from_links(Orientation::Directed, [("a", "b", 1.0), ("b", "c", 1.0)]).unwrap();
    let traffic = TrafficMatrix::new(vec![Demand::new(NodeId(0), NodeId(2), 1.0)]);
    let refused =
        |bounds: PathBounds| solve_within(&topology, &traffic, None, &bounds).unwrap_err().to_string();
    let one = PathBounds { hops: NonZeroU32::new(1), ..PathBounds::default() };
    assert_eq!(refused(one), "the demand from \"a\" to \"c\" has no path within the bounds");
    let soon = PathBounds { delay: Some(Duration::from_millis(1)), ..PathBounds::default() };
    assert_eq!(
        refused(soon),
        "link 0 (a to b) has no delay; a bound on the delay takes one for each link, from its delay_ms \
         or the attribute that --delay ATTR names"
    );
}

/// Sums of these are infinite and shares of them no numbers, and "no path within the bounds" was said, without
/// bounds.
#[test]
fn amounts_beyond_floating_point_are_refused_by_name() {
    let refused = |capacity: f64, amount: f64| {
        let links = [("a", "b", capacity), ("b", "c", 1.0)];
        let topology = Topology::from_links(Orientation::Directed, links).unwrap();
        let demands = [(0, 2), (1, 2)].map(|(from, to)| Demand::new(NodeId(from), NodeId(to), amount));
        solve(&topology, &TrafficMatrix::new(demands.to_vec()), None).map_err(|error| error.to_string())
    };
    let expected = "the demand from \"a\" to \"c\" is 1e308; expected a number above 0 and at most 1e100";
    assert_eq!(refused(1.0, 1e308).unwrap_err(), expected);
    assert!(refused(1.0, 1e100).is_ok());
    let levels = "level 1 was not found: amounts and capacities span more than floating point can tell apart";
    assert_eq!(refused(1e-300, 1e100).unwrap_err(), levels);
}

/// On the third level, prices of 1e-3 cancel on one path to −5e-19, which looked cheaper than the 0 of another one: the
/// two took turns for ever, and the levels behind were left out without a word.
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
    let routing = routed(&topology, &[Demand::new(NodeId(2), NodeId(0), 1.0)]).unwrap();
    let plain = capillary::solve(&topology, NodeId(2), NodeId(0)).unwrap();
    assert_eq!(routing.levels().len(), plain.layers().len());
    for (level, layer) in routing.levels().iter().zip(plain.layers()) {
        assert!((level.utilisation - layer.load).abs() < 1e-12, "{level:?} {layer:?}");
    }
}

#[test]
fn what_cannot_be_reached_is_refused_by_name() {
    let topology = Topology::from_links(Orientation::Directed, [("a", "b", 1.0), ("c", "b", 1.0)]).unwrap();
    let demand = Demand::new(NodeId(0), NodeId(2), 1.0);
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
    let demand = |(source, target)| Demand::new(source, target, 1.0);
    let routing = routed(&topology, &pairs.map(demand).collect::<Vec<_>>()).unwrap();
    assert_eq!(routing.levels().len(), 1);
    assert_eq!(routing.levels()[0].arcs, 100);
    for arc in routing.arcs() {
        assert!((arc.utilisation - 15.0).abs() < 1e-9, "{arc:?}");
    }
}
