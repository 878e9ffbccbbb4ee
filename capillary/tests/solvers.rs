//! The solvers against each other on random small multigraphs, and properties that any of them must have.

#[allow(dead_code, reason = "of the benchmark's networks, one is solved here")]
#[path = "../benches/solvers/networks.rs"]
mod networks;

use std::cell::Cell;
use std::num::NonZeroU32;

use capillary::{
    Certificate, CertificateError, LinkId, LinkUse, Node, NodeId, Orientation, Routing, Solution, SolveError,
    Topology, baseline, exact, lp, solve_certified, solve_layers,
};
use proptest::prelude::*;
use proptest::test_runner::TestRunner;

/// A network small enough for rational arithmetic, with parallel, anti-parallel and looping links.
#[derive(Debug, Clone)]
struct Scene {
    orientation: Orientation,
    nodes: u32,
    links: Vec<(u32, u32, f64)>,
}

impl Scene {
    fn topology(&self) -> Topology {
        let mut topology = Topology::new(self.orientation);
        for node in 0..self.nodes {
            topology.add_node(Node::new(node.to_string())).unwrap();
        }
        for &(from, to, capacity) in &self.links {
            topology.add_link(NodeId(from), NodeId(to), capillary::Link::with_capacity(capacity)).unwrap();
        }
        topology
    }

    fn with_links(&self, links: impl IntoIterator<Item = (u32, u32, f64)>) -> Self {
        Self { links: links.into_iter().collect(), ..self.clone() }
    }

    /// From the first node to the last.
    fn solve(&self) -> Option<Solution> {
        match solve_certified(&self.topology(), NodeId(0), NodeId(self.nodes - 1)) {
            Ok(solution) => Some(solution),
            Err(SolveError::Unreachable { .. }) => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn flows(&self) -> Option<Vec<f64>> {
        self.solve().map(|solution| solution.routing.links().iter().map(|link| link.flow).collect())
    }
}

fn capacity() -> impl Strategy<Value = f64> {
    prop_oneof![
        3 => Just(1.0),
        2 => (1..=10u32).prop_map(f64::from),
        2 => (0..=4i32).prop_map(|power| 10f64.powi(power)),
        1 => (1..=10_000u32).prop_map(f64::from),
    ]
}

fn scene_of(capacity: impl Strategy<Value = f64> + Clone) -> impl Strategy<Value = Scene> {
    let orientation = prop_oneof![Just(Orientation::Directed), Just(Orientation::Undirected)];
    (orientation, 2..=7u32).prop_flat_map(move |(orientation, nodes)| {
        let link = (0..nodes, 0..nodes, capacity.clone());
        prop::collection::vec(link, 1..=18).prop_map(move |links| Scene { orientation, nodes, links })
    })
}

fn scene() -> impl Strategy<Value = Scene> {
    scene_of(capacity().boxed())
}

fn assert_close(actual: f64, expected: f64, what: &str) {
    assert!(
        (actual - expected).abs() <= 1e-9 * expected.abs().max(1.0),
        "{what}: {actual}, expected {expected}"
    );
}

fn assert_unreachable<T: std::fmt::Debug>(result: Result<T, SolveError>) {
    assert!(matches!(result, Err(SolveError::Unreachable { .. })), "{result:?}");
}

fn layer_counts(routing: &Routing) -> Vec<usize> {
    routing.layers().iter().map(|layer| layer.links).collect()
}

/// What peeling may leave of a routing, with capacities over four orders of magnitude.
const ROUND_OFF: f64 = 1e-7;

/// Random networks that each test of solver against solver looks at.
const NETWORKS: u32 = 2_000;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(NETWORKS))]

    #[test]
    fn maximum_flow_and_exact_arithmetic_agree(scene in scene()) {
        let topology = scene.topology();
        let (source, target) = (NodeId(0), NodeId(scene.nodes - 1));
        let Some(solution) = scene.solve() else {
            assert_unreachable(exact::solve(&topology, source, target));
            return Ok(());
        };
        solution.certificate.verify(&topology, &solution.routing).unwrap();
        let exact = exact::solve(&topology, source, target).unwrap();
        Certificate::prove(&topology, &solution.routing, 1e-9).unwrap();
        Certificate::prove(&topology, &exact.routing, 1e-9).unwrap();
        for (link, expected) in solution.routing.links().iter().zip(&exact.flows) {
            assert_close(link.flow, exact::to_f64(expected), "maximum flow");
        }
        prop_assert_eq!(layer_counts(&solution.routing), layer_counts(&exact.routing));
        prop_assert_eq!(exact.layers.len(), exact.routing.layers().len());
    }
}

/// How many of the networks a simplex solver may give up on: with capacities over four orders of magnitude microlp's
/// own round-off hides a layer of about one in 200,000, and then it says so.
const GIVEN_UP: u32 = 1;

#[test]
fn maximum_flow_and_linear_program_agree() {
    agree(lp::Simplex::Microlp, NETWORKS);
}

#[cfg(feature = "highs")]
#[test]
fn maximum_flow_and_the_linear_program_by_highs_agree() {
    agree(lp::Simplex::Highs, 500);
}

fn agree(simplex: lp::Simplex, networks: u32) {
    let given_up = Cell::new(0);
    let mut runner = TestRunner::new(ProptestConfig::with_cases(networks));
    let result = runner.run(&scene(), |scene| {
        let program = lp::solve_by(simplex, &scene.topology(), NodeId(0), NodeId(scene.nodes - 1), None);
        match (scene.solve(), program) {
            (None, program) => assert_unreachable(program),
            (Some(_), Err(SolveError::LinearProgram { .. })) => given_up.set(given_up.get() + 1),
            (Some(solution), program) => assert_same(&solution, &program.unwrap()),
        }
        Ok(())
    });
    result.unwrap();
    assert!(given_up.get() <= GIVEN_UP, "given up on {}", given_up.get());
}

fn assert_same(solution: &Solution, program: &lp::LpSolution) {
    for (link, other) in solution.routing.links().iter().zip(program.routing.links()) {
        assert_close(other.flow, link.flow, "linear program");
    }
    assert_close(program.hunts[0].ratio, solution.certificate.steps()[0].ratio, "largest flow");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_linear_program_of_the_first_layers_agrees_and_its_rest_costs_as_much(
        scene in scene_of(Just(1.0).boxed()),
        layers in 1..4u32,
    ) {
        let (topology, layers) = (scene.topology(), NonZeroU32::new(layers).unwrap());
        let (source, target) = (NodeId(0), NodeId(scene.nodes - 1));
        let by_program = lp::solve_layers(&topology, source, target, layers);
        let Ok(pattern) = solve_layers(&topology, source, target, layers) else {
            assert_unreachable(by_program);
            return Ok(());
        };
        let lp::LpSolution { routing, hunts } = by_program.unwrap();
        Certificate::prove(&topology, &routing, 1e-6).unwrap();
        prop_assert_eq!(layer_counts(&routing), layer_counts(&pattern.routing));
        prop_assert_eq!(hunts.iter().map(lp::Hunt::bottlenecks).collect::<Vec<_>>(), layer_counts(&routing));
        for (link, other) in pattern.routing.links().iter().zip(routing.links()) {
            prop_assert_eq!(link.layer, other.layer);
            if link.layer.is_some() {
                assert_close(other.flow, link.flow, "fixed by the first layers");
            }
        }
        assert_close(cost(&topology, &routing), cost(&topology, &pattern.routing), "cost of the pattern");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn the_reversed_network_has_the_same_flows(scene in scene()) {
        let mirror = |node: u32| scene.nodes - 1 - node;
        let reversed = scene.with_links(scene.links.iter().map(|&(from, to, c)| (mirror(to), mirror(from), c)));
        let (Some(flows), Some(mirrored)) = (scene.flows(), reversed.flows()) else {
            prop_assert!(scene.flows().is_none() && reversed.flows().is_none());
            return Ok(());
        };
        for (flow, mirrored) in flows.iter().zip(mirrored) {
            assert_close(mirrored, *flow, "reversed");
        }
    }

    #[test]
    fn the_order_of_nodes_and_links_does_not_matter(scene in scene(), turn in 0usize..18) {
        // Inner nodes in the opposite order, links rotated.
        let renamed = |node: u32| if node == 0 || node == scene.nodes - 1 { node } else { scene.nodes - 1 - node };
        let mut links: Vec<_> = scene.links.iter().map(|&(from, to, c)| (renamed(from), renamed(to), c)).collect();
        let turn = turn % links.len();
        links.rotate_left(turn);
        let Some(flows) = scene.flows() else { return Ok(()) };
        let mut moved = scene.with_links(links).flows().unwrap();
        moved.rotate_right(turn);
        for (flow, moved) in flows.iter().zip(moved) {
            assert_close(moved, *flow, "relabelled");
        }
    }

    #[test]
    fn doubling_every_link_halves_the_loads(scene in scene()) {
        let Some(flows) = scene.flows() else { return Ok(()) };
        let doubled = scene.with_links(scene.links.iter().chain(&scene.links).copied()).flows().unwrap();
        for (index, half) in doubled.into_iter().enumerate() {
            assert_close(half, flows[index % flows.len()] / 2.0, "doubled");
        }
    }

    #[test]
    fn a_link_of_integer_capacity_is_so_many_unit_links(scene in scene_of((1..=5u32).prop_map(f64::from).boxed())) {
        let Some(flows) = scene.flows() else { return Ok(()) };
        let units = scene.links.iter().flat_map(|&(from, to, c)| vec![(from, to, 1.0); c as usize]);
        let mut parts = scene.with_links(units).flows().unwrap().into_iter();
        for (flow, link) in flows.iter().zip(&scene.links) {
            let sum: f64 = parts.by_ref().take(link.2 as usize).sum();
            assert_close(sum, *flow, "unit links");
        }
    }

    #[test]
    fn loads_fall_strictly_from_layer_to_layer(scene in scene()) {
        let Some(Solution { routing, .. }) = scene.solve() else { return Ok(()) };
        for pair in routing.layers().windows(2) {
            prop_assert!(pair[1].load < pair[0].load && pair[1].number == pair[0].number + 1);
        }
        for (_, link) in routing.used_links() {
            let layer = routing.layers()[link.layer.unwrap() as usize - 1];
            assert_close(link.load, layer.load, "layer of link");
        }
    }

    #[test]
    fn paths_carry_the_whole_routing(scene in scene()) {
        let Some(Solution { routing, .. }) = scene.solve() else { return Ok(()) };
        let paths = routing.paths(usize::MAX, 1.0);
        prop_assert!(paths.covered > 1.0 - ROUND_OFF && paths.load_error < ROUND_OFF, "{:?}", paths);
        prop_assert!(paths.paths.len() <= scene.links.len());
        for path in &paths.paths {
            prop_assert_eq!((path.nodes[0], *path.nodes.last().unwrap()), (NodeId(0), NodeId(scene.nodes - 1)));
            for (step, &link) in path.links.iter().enumerate() {
                prop_assert_eq!(routing.link(link).direction(), (path.nodes[step], path.nodes[step + 1]));
            }
        }
    }

    #[test]
    fn few_paths_come_nearer_to_the_loads_than_scaled_ones(scene in scene(), most in 1..6usize) {
        let Some(Solution { routing, .. }) = scene.solve() else { return Ok(()) };
        let all = routing.paths(usize::MAX, 1.0).paths;
        let few = routing.paths(most, 1.0);
        prop_assert!(few.paths.iter().all(|path| path.weight > 0.0));
        assert_close(few.paths.iter().map(|path| path.weight).sum(), 1.0, "sum of the weights");
        prop_assert!(few.paths.is_sorted_by(|a, b| a.weight >= b.weight));
        if all.len() <= most {
            prop_assert_eq!(few.paths, all);
            return Ok(());
        }
        let covered: f64 = all[..most].iter().map(|path| path.weight).sum();
        // The weights of all have the sum one, although they may carry a little less.
        prop_assert!((few.covered - covered).abs() < ROUND_OFF, "{} instead of {covered}", few.covered);
        let off = |id: LinkId, link: &LinkUse| {
            let over = all[..most].iter().filter(|path| path.links.contains(&id));
            let flow = over.map(|path| path.weight).sum::<f64>() / covered;
            (flow / link.flow.abs() - 1.0).abs() * link.load
        };
        let scaled = routing.used_links().map(|(id, link)| off(id, link)).fold(0.0, f64::max);
        prop_assert!(few.load_error <= scaled + 1e-12, "{} after {scaled}", few.load_error);
    }

    #[test]
    fn a_minimum_cut_separates_and_equals_the_first_ratio(scene in scene()) {
        let topology = scene.topology();
        let cut = capillary::minimum_cut(&topology, NodeId(0), NodeId(scene.nodes - 1)).unwrap();
        let sum: f64 = cut.links.iter().map(|&link| topology.link_weight(link).capacity).sum();
        assert_close(sum, cut.capacity, "capacity of the cut");
        let first = scene.solve().map_or(0.0, |solution| solution.certificate.steps()[0].ratio);
        assert_close(cut.capacity, first, "largest flow");
        let kept = scene.links.iter().enumerate().filter(|(index, _)| !cut.links.contains(&LinkId(*index as u32)));
        prop_assert!(scene.with_links(kept.map(|(_, &link)| link)).flows().is_none());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(NETWORKS))]

    #[test]
    fn only_the_capillary_routing_can_be_proved(scene in scene(), share in 0.0..1.0f64) {
        // Oracle: the capillary routing is unique, so whatever differs from it by more than round-off is another.
        let topology = scene.topology();
        let (source, target) = (NodeId(0), NodeId(scene.nodes - 1));
        let Some(solution) = scene.solve() else { return Ok(()) };
        let (flows, loads): (Vec<f64>, Vec<f64>) =
            solution.routing.links().iter().map(|link| (link.flow, link.load)).unzip();
        for other in [baseline::maximum_flow_split, baseline::shortest_path, baseline::equal_cost_multipath] {
            let other = other(&topology, source, target).unwrap();
            let mixed: Vec<f64> = other.links().iter().zip(&flows)
                .map(|(link, flow)| share * link.flow + (1.0 - share) * flow).collect();
            let routing = Routing::new(&topology, source, target, &mixed).unwrap();
            let farthest = routing.links().iter().zip(&loads)
                .fold(0.0, |farthest: f64, (link, own)| farthest.max((link.load - own).abs()));
            match Certificate::prove(&topology, &routing, 1e-9) {
                Ok(_) => prop_assert!(farthest < 1e-6, "{mixed:?} is proved, but {flows:?} is the routing"),
                Err(CertificateError::NoRouting(error)) => panic!("{error}"),
                Err(error) => prop_assert!(farthest > 1e-15, "{mixed:?}: {error}"),
            }
        }
    }
}

#[test]
fn a_deep_recursion_keeps_its_precision() {
    // Of all of the benchmark's kinds of networks, the one with the most layers for its size.
    let networks::Scene { topology, source, target, .. } = networks::barabasi_albert(3_000, 3, 1);
    let Solution { routing, certificate, .. } = solve_certified(&topology, source, target).unwrap();
    certificate.verify(&topology, &routing).unwrap();
    Certificate::prove(&topology, &routing, 1e-9).unwrap();
    assert!(routing.layers().len() > 2_000, "{}", routing.layers().len());
}

/// Σ flow/capacity: what the rest of a pattern makes smallest.
fn cost(topology: &Topology, routing: &Routing) -> f64 {
    routing.used_links().map(|(id, link)| link.flow.abs() / topology.link_weight(id).capacity).sum()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    #[test]
    fn a_pattern_has_the_first_layers_and_costs_no_more_than_the_whole(scene in scene(), layers in 1..4u32) {
        let Some(Solution { routing, .. }) = scene.solve() else { return Ok(()) };
        let topology = scene.topology();
        let layers = NonZeroU32::new(layers).unwrap();
        let pattern = solve_layers(&topology, NodeId(0), NodeId(scene.nodes - 1), layers).unwrap();
        pattern.certificate.verify(&topology, &pattern.routing).unwrap();
        Certificate::prove(&topology, &pattern.routing, 1e-9).unwrap();
        let count = routing.layers().len().min(layers.get() as usize);
        prop_assert_eq!(pattern.routing.layers(), &routing.layers()[..count]);
        let last = routing.layers()[count - 1].load;
        for (whole, link) in routing.links().iter().zip(pattern.routing.links()) {
            if whole.layer.is_some_and(|layer| layer <= layers.get()) {
                assert_close(link.flow, whole.flow, "fixed by the first layers");
            } else {
                prop_assert!(link.load <= last * (1.0 + 1e-9) && link.layer.is_none());
            }
        }
        prop_assert!(cost(&topology, &pattern.routing) <= cost(&topology, &routing) + 1e-9);
    }

    #[test]
    fn an_exact_pattern_has_the_exact_layers_and_costs_as_much_as_that_in_floating_point(
        scene in scene(),
        layers in 1..4u32,
    ) {
        let (topology, layers) = (scene.topology(), NonZeroU32::new(layers).unwrap());
        let (source, target) = (NodeId(0), NodeId(scene.nodes - 1));
        let Ok(pattern) = solve_layers(&topology, source, target, layers) else { return Ok(()) };
        let whole = exact::solve(&topology, source, target).unwrap();
        let exact = whole.clone().stopped_at(&topology, layers).unwrap();
        let count = whole.layers.len().min(layers.get() as usize);
        prop_assert_eq!(&exact.layers, &whole.layers[..count]);
        let last = &whole.layers[count - 1];
        for ((load, before), link) in exact.loads.iter().zip(&whole.loads).zip(exact.routing.links()) {
            prop_assert_eq!(link.layer.is_some(), before >= last);
            if before >= last {
                prop_assert_eq!(load, before);
            } else {
                prop_assert!(load <= last);
            }
        }
        // Every node sends on exactly what it gets.
        let zero = || exact.flows[0].clone() - exact.flows[0].clone();
        let mut net = vec![zero(); topology.node_count()];
        for ((_, from, to, _), flow) in topology.links().zip(&exact.flows) {
            net[from.index()] += flow;
            net[to.index()] -= flow;
        }
        let is_other = |index: &usize| *index != source.index() && *index != target.index();
        prop_assert!((0..net.len()).filter(is_other).all(|index| net[index] == zero()));
        prop_assert!((cost(&topology, &exact.routing) - cost(&topology, &pattern.routing)).abs() < 1e-9);
    }

    #[test]
    fn no_detour_makes_the_rest_of_a_pattern_cheaper(scene in scene_of(Just(1.0))) {
        // Oracle: the linear program of the rest is at its optimum if and only if no residual cycle has a negative
        // cost (Bellman–Ford on the few nodes there are).
        let topology = scene.topology();
        let (source, target) = (NodeId(0), NodeId(scene.nodes - 1));
        let Ok(pattern) = solve_layers(&topology, source, target, NonZeroU32::MIN) else { return Ok(()) };
        let most = pattern.routing.layers()[0].load;
        let mut arcs = Vec::new();
        for link in pattern.routing.links().iter().filter(|link| link.layer.is_none()) {
            let (tail, head) = link.direction();
            if link.load < most - 1e-9 {
                arcs.push((tail, head, 1.0));
                if scene.orientation == Orientation::Undirected && link.load < 1e-9 {
                    arcs.push((head, tail, 1.0));
                }
            }
            if link.load > 1e-9 {
                arcs.push((head, tail, -1.0));
            }
        }
        prop_assert!(!has_negative_cycle(scene.nodes as usize, &arcs), "{:?}", pattern.routing);
    }
}

fn has_negative_cycle(nodes: usize, arcs: &[(NodeId, NodeId, f64)]) -> bool {
    let mut distance = vec![0.0; nodes];
    (0..=nodes).all(|_| {
        let mut changed = false;
        for &(tail, head, cost) in arcs.iter().filter(|(tail, head, _)| tail != head) {
            if distance[tail.index()] + cost < distance[head.index()] {
                distance[head.index()] = distance[tail.index()] + cost;
                changed = true;
            }
        }
        changed
    })
}
