//! Against collections that are too large for the repository. `cargo test` tells that these are ignored; to run them:
//!
//! ```sh
//! CAPILLARY_SHARED=/path cargo test -p capillary --test shared -- --ignored
//! ```
//!
//! with `vectors/` (exact routings) and `topologies/` (Topology Zoo, SNDlib, …) in the folder.

use std::path::{Path, PathBuf};

use capillary::exact::{self, ExactRouting};
use capillary::format::{Format, ReadError, ReadOptions, read};
use capillary::{Node, NodeId, Orientation, Routing, Topology, solve_certified};
use serde_json::Value;

/// The widest a load may be from the exact one.
const ALLOWED: f64 = 1e-9;

fn shared(folder: &str) -> PathBuf {
    let root =
        std::env::var_os("CAPILLARY_SHARED").expect("CAPILLARY_SHARED names the folder with the collections");
    Path::new(&root).join(folder)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap()
}

fn fraction(value: &str) -> f64 {
    let (over, under) = value.split_once('/').unwrap_or((value, "1"));
    over.parse::<f64>().unwrap() / under.parse::<f64>().unwrap()
}

/// What both kinds of records say of a routing.
struct Expected<'v> {
    name: String,
    /// Whether the loads have the sign of the direction of use. All capacities are 1: a signed load is a flow.
    signed: bool,
    loads: Vec<&'v str>,
    layers: Vec<(&'v str, u64)>,
    critical: Vec<u64>,
}

impl Expected<'_> {
    fn check(&self, topology: &Topology, source: NodeId, target: NodeId) {
        let name = &self.name;
        let solution =
            solve_certified(topology, source, target).unwrap_or_else(|error| panic!("{name}: {error}"));
        solution.certificate.verify(topology, &solution.routing).unwrap();
        let routing = &solution.routing;
        for (link, expected) in routing.links().iter().zip(&self.loads) {
            let actual = if self.signed { link.flow } else { link.load };
            assert!((actual - fraction(expected)).abs() <= ALLOWED, "{name}: {link:?}, expected {expected}");
        }
        self.check_layers(routing);
        let ExactRouting { routing, flows, loads, layers } = exact::solve(topology, source, target).unwrap();
        let loads: Vec<String> =
            if self.signed { &flows } else { &loads }.iter().map(ToString::to_string).collect();
        assert!(self.loads.is_empty() || loads == self.loads, "{name}");
        let layers: Vec<String> = layers.iter().map(ToString::to_string).collect();
        assert_eq!(layers, self.layers.iter().map(|layer| layer.0).collect::<Vec<_>>(), "{name}");
        self.check_layers(&routing);
    }

    fn check_layers(&self, routing: &Routing) {
        let name = &self.name;
        assert_eq!(routing.layers().len(), self.layers.len(), "{name}: number of layers");
        for (layer, (load, links)) in routing.layers().iter().zip(&self.layers) {
            assert!((layer.load - fraction(load)).abs() <= ALLOWED, "{name}: {layer:?}, expected {load}");
            assert_eq!(layer.links as u64, *links, "{name}: {layer:?}");
        }
        let critical: Vec<u64> = routing.critical_links().map(|link| link.0.into()).collect();
        assert_eq!(critical, self.critical, "{name}: critical links");
    }
}

fn layers(value: &Value) -> Vec<(&str, u64)> {
    value.as_array().unwrap().iter().map(|layer| (text(&layer[0]), layer[1].as_u64().unwrap())).collect()
}

#[test]
#[ignore = "needs CAPILLARY_SHARED"]
fn every_small_vector_is_met() {
    let bytes = std::fs::read(shared("vectors/capillary_small.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_slice(&bytes).unwrap();
    let mut solved = 0;
    for case in cases.iter().filter(|case| case.get("expect_error").is_none()) {
        let directed = case["directed"].as_bool().unwrap();
        let mut topology =
            Topology::new(if directed { Orientation::Directed } else { Orientation::Undirected });
        for node in 0..case["nodes"].as_u64().unwrap() {
            topology.add_node(Node::new(node.to_string())).unwrap();
        }
        let node = |value: &Value| NodeId(value.as_u64().unwrap() as u32);
        for ends in case["arcs"].as_array().unwrap() {
            topology.add_link(node(&ends[0]), node(&ends[1]), Default::default()).unwrap();
        }
        let critical = case["critical_links"].as_array().unwrap();
        let expected = Expected {
            name: text(&case["name"]).into(),
            signed: false,
            loads: case["loads"].as_array().unwrap().iter().map(text).collect(),
            layers: layers(&case["layers"]),
            critical: critical.iter().map(|link| link.as_u64().unwrap()).collect(),
        };
        expected.check(&topology, node(&case["source"]), node(&case["target"]));
        solved += 1;
    }
    println!("{solved} cases solved, {} expect an error", cases.len() - solved);
}

#[test]
#[ignore = "needs CAPILLARY_SHARED"]
fn every_exact_record_is_met() {
    let records = std::fs::read_to_string(shared("vectors/capillary_exact.jsonl")).unwrap();
    for record in records.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        let bytes = std::fs::read(shared("topologies").join(text(&record["file"]))).unwrap();
        let topology = read(&bytes, &ReadOptions::default()).unwrap().topology;
        let node = |key: &str| topology.node(text(&record[key])).unwrap();
        let links = record["links_loads"].as_array().map_or([].as_slice(), Vec::as_slice);
        let loads: Vec<&str> = links.iter().map(|link| text(&link[2])).collect();
        // All capacities are 1, so that a critical link is one of load 1.
        let critical = (0..).zip(&loads).filter(|(_, load)| load.trim_start_matches('-') == "1");
        let expected = Expected {
            name: format!("{} {}", record["file"], record["pair"]),
            signed: true,
            critical: critical.map(|(index, _)| index).collect(),
            layers: layers(&record["layer_loads"]),
            loads,
        };
        expected.check(&topology, node("source"), node("target"));
        println!("{}: {} layers", expected.name, expected.layers.len());
    }
}

/// Every topology file of the collections.
fn files() -> Vec<PathBuf> {
    let folders = ["zoo-gml", "zoo-graphml", "sndlib-xml", "sndlib-native", "te", "topohub"];
    let entries =
        folders.iter().flat_map(|folder| std::fs::read_dir(shared("topologies").join(folder)).unwrap());
    let known = |path: &PathBuf| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        let licence = path.to_string_lossy().contains("LICENSE");
        !licence && matches!(extension, Some("gml" | "graphml" | "xml" | "txt" | "json"))
    };
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).filter(known).collect();
    files.sort();
    files
}

#[test]
#[ignore = "needs CAPILLARY_SHARED"]
fn every_file_loads_and_no_truncated_copy_does() {
    for path in files() {
        let bytes = std::fs::read(&path).unwrap();
        let whole = read(&bytes, &ReadOptions::default())
            .unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let mut cuts = 0;
        for cut in (1..64).map(|part| bytes.len() * part / 64) {
            match read(&bytes[..cut], &ReadOptions { format: Some(whole.format), ..ReadOptions::default() }) {
                Err(ReadError::At { .. }) => cuts += 1,
                // SNDlib's demands may be missing without being missed.
                Ok(loaded) if whole.format == Format::SndlibNative => {
                    assert_eq!(loaded.topology.link_count(), whole.topology.link_count());
                }
                other => panic!("{} cut at {cut}: {other:?}", path.display()),
            }
        }
        println!("{}: {cuts} of 63 truncated copies are errors with a line", path.display());
        assert!(cuts > 0);
    }
}
