//! Known exact routings: the vectors of tests/fixtures.

use capillary::{LinkId, Node, NodeId, Orientation, Routing, SolveError, Topology, solve_certified};
use serde_json::Value;

/// The widest a load may be from the exact one.
const ALLOWED: f64 = 1e-9;

fn topology(orientation: Orientation, nodes: u64, links: &Value) -> Topology {
    let mut topology = Topology::new(orientation);
    for node in 0..nodes {
        topology.add_node(Node::new(node.to_string())).unwrap();
    }
    for ends in links.as_array().unwrap() {
        topology.add_link(node(&ends[0]), node(&ends[1]), Default::default()).unwrap();
    }
    topology
}

fn node(number: &Value) -> NodeId {
    NodeId(number.as_u64().unwrap() as u32)
}

fn fraction(text: &Value) -> f64 {
    let text = text.as_str().unwrap();
    let (over, under) = text.split_once('/').unwrap_or((text, "1"));
    over.parse::<f64>().unwrap() / under.parse::<f64>().unwrap()
}

fn assert_layers(name: &str, routing: &Routing, expected: &Value) {
    let expected = expected.as_array().unwrap();
    assert_eq!(routing.layers().len(), expected.len(), "{name}: number of layers");
    for (layer, expected) in routing.layers().iter().zip(expected) {
        assert!(
            (layer.load - fraction(&expected[0])).abs() <= ALLOWED,
            "{name}: {layer:?}, expected {expected}"
        );
        assert_eq!(layer.links as u64, expected[1].as_u64().unwrap(), "{name}: {layer:?}");
    }
}

fn fixture(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

fn small_cases() -> Vec<Value> {
    fixture(include_str!("fixtures/small.json")).as_array().unwrap().clone()
}

fn small_topology(case: &Value) -> Topology {
    let directed = case["directed"].as_bool().unwrap();
    let orientation = if directed { Orientation::Directed } else { Orientation::Undirected };
    topology(orientation, case["nodes"].as_u64().unwrap(), &case["arcs"])
}

#[test]
fn the_small_graphs_have_their_exact_loads_layers_and_critical_links() {
    for case in small_cases().iter().filter(|case| case.get("expect_error").is_none()) {
        let name = case["name"].as_str().unwrap();
        let topology = small_topology(case);
        let solution = solve_certified(&topology, node(&case["source"]), node(&case["target"])).unwrap();
        solution.certificate.verify(&topology, &solution.routing).unwrap();
        for (link, expected) in solution.routing.links().iter().zip(case["loads"].as_array().unwrap()) {
            assert!(
                (link.load - fraction(expected)).abs() <= ALLOWED,
                "{name}: {link:?}, expected {expected}"
            );
        }
        assert_layers(name, &solution.routing, &case["layers"]);
        let critical: Vec<u64> = solution.routing.critical_links().map(|LinkId(link)| link.into()).collect();
        assert_eq!(serde_json::json!(critical), case["critical_links"], "{name}: critical links");
    }
}

#[test]
fn impossible_pairs_are_errors_that_say_why() {
    for case in small_cases().iter().filter(|case| case.get("expect_error").is_some()) {
        let topology = small_topology(case);
        let error = capillary::solve(&topology, node(&case["source"]), node(&case["target"])).unwrap_err();
        let expected = match case["expect_error"].as_str().unwrap() {
            "unreachable" => matches!(error, SolveError::Unreachable { .. }),
            _ => matches!(error, SolveError::SourceIsTarget { .. }),
        };
        assert!(expected, "{}: {error}", case["name"]);
    }
}

#[test]
fn real_networks_have_their_exact_layers_and_loads() {
    let zoo = fixture(include_str!("fixtures/zoo.json"));
    for record in zoo["records"].as_array().unwrap() {
        let name = format!("{} {}", record["network"], record["pair"]);
        let network = &zoo["networks"][record["network"].as_str().unwrap()];
        let topology =
            topology(Orientation::Undirected, network["nodes"].as_u64().unwrap(), &network["links"]);
        let solution = solve_certified(&topology, node(&record["source"]), node(&record["target"])).unwrap();
        solution.certificate.verify(&topology, &solution.routing).unwrap();
        assert_layers(&name, &solution.routing, &record["layers"]);
        let Some(loads) = record["loads"].as_array() else { continue };
        for (link, expected) in solution.routing.links().iter().zip(loads) {
            let signed = link.load.copysign(link.flow);
            assert!((signed - fraction(expected)).abs() <= ALLOWED, "{name}: {link:?}, expected {expected}");
        }
    }
}

/// Numbers as they are written in the fixtures.
#[cfg(feature = "exact")]
fn written<N: ToString>(numbers: impl IntoIterator<Item = N>) -> Vec<String> {
    numbers.into_iter().map(|number| number.to_string()).collect()
}

#[cfg(feature = "exact")]
fn texts(values: &Value) -> Vec<String> {
    values.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_string()).collect()
}

#[cfg(feature = "exact")]
#[test]
fn rational_arithmetic_gives_the_very_fractions() {
    for case in small_cases().iter().filter(|case| case.get("expect_error").is_none()) {
        let topology = small_topology(case);
        let exact = capillary::exact::solve(&topology, node(&case["source"]), node(&case["target"])).unwrap();
        assert_eq!(written(exact.loads), texts(&case["loads"]), "{}", case["name"]);
    }
    let zoo = fixture(include_str!("fixtures/zoo.json"));
    for record in zoo["records"].as_array().unwrap() {
        let network = &zoo["networks"][record["network"].as_str().unwrap()];
        let topology =
            topology(Orientation::Undirected, network["nodes"].as_u64().unwrap(), &network["links"]);
        let (source, target) = (node(&record["source"]), node(&record["target"]));
        let exact = capillary::exact::solve(&topology, source, target).unwrap();
        let layers: Vec<&str> =
            record["layers"].as_array().unwrap().iter().map(|layer| layer[0].as_str().unwrap()).collect();
        assert_eq!(written(exact.layers), layers, "{} {}", record["network"], record["pair"]);
        if !record["loads"].is_null() {
            assert_eq!(
                written(exact.flows),
                texts(&record["loads"]),
                "{} {}",
                record["network"],
                record["pair"]
            );
        }
    }
}
