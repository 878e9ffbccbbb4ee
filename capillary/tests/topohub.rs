//! Equal-cost multipath against the loads that TopoHub publishes in its files: on ways of fewest links, for demands of
//! 1 between all nodes (`uni`) and for demands in proportion to the product of the degrees (`deg`), in percent of the
//! largest load, with two digits.

use std::path::Path;

use capillary::format::{ReadOptions, read};
use capillary::matrix::{TrafficMatrix, equal_cost_multipath};
use serde_json::Value;

/// Two digits of percent, half a digit away at most.
const ROUNDED: f64 = 0.005 + 1e-9;

/// Compares the loads of a file. Returns how many there were.
fn check(path: &Path) -> usize {
    let bytes = std::fs::read(path).unwrap();
    let topology = read(&bytes, &ReadOptions::default()).unwrap().topology;
    let published: Value = serde_json::from_slice(&bytes).unwrap();
    let links = published.get("links").or_else(|| published.get("edges")).unwrap().as_array().unwrap();
    let mut degree = vec![0.0; topology.node_count()];
    for (_, from, to, _) in topology.links() {
        degree[from.index()] += 1.0;
        degree[to.index()] += 1.0;
    }
    let mut compared = 0;
    for (key, weights) in [("uni", vec![1.0; degree.len()]), ("deg", degree)] {
        let arcs = equal_cost_multipath(&topology, &TrafficMatrix::gravity(&weights, 1.0), |_| 1.0).unwrap();
        let largest = arcs.iter().map(|arc| arc.load).fold(0.0, f64::max);
        for arc in &arcs {
            let way = if topology.ends(arc.link).0 == arc.from { "ecmp_fwd" } else { "ecmp_bwd" };
            let expected = links[arc.link.index()][way][key].as_f64().unwrap();
            let load = arc.load / largest * 100.0;
            assert!((load - expected).abs() <= ROUNDED, "{}, {key}: {arc:?} {expected}", path.display());
            compared += 1;
        }
    }
    compared
}

#[test]
fn the_baseline_has_the_loads_that_topohub_publishes() {
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/topohub/gabriel-25-0.json");
    assert_eq!(check(&fixture), 160);
}

#[test]
#[ignore = "needs CAPILLARY_SHARED"]
fn the_baseline_has_the_loads_of_every_file_of_topohub() {
    let root =
        std::env::var_os("CAPILLARY_SHARED").expect("CAPILLARY_SHARED names the folder with topologies/");
    let folder = Path::new(&root).join("topologies/topohub");
    let files: Vec<_> = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    assert!(!files.is_empty());
    for file in files {
        println!("{}: {} loads agree", file.display(), check(&file));
    }
}
