//! `cargo bench -p capillary --bench matrices`: all levels of gravity matrices on real networks, in processor time.
//!
//! The networks are files of the Topology Zoo in the folder that the variable CAPILLARY_TOPOLOGIES names (with
//! `zoo-gml/`); without it the bench says that it is skipped. They carry capacities by the degrees of their ends, as
//! the Zoo knows few: 100 between nodes of four links and more, 40 where one end has so many, else 10.

use std::num::NonZeroU32;
use std::time::Duration;

use capillary::format::{self, ReadOptions};
use capillary::matrix::{MatrixRouting, TrafficMatrix, solve};
use capillary::{Link, Topology};
use rustix::time::{ClockId, clock_gettime};

/// Networks of some 40 and of some 150 nodes, and the largest, of which the first level is solved.
const NETWORKS: [(&str, bool); 5] =
    [("Geant2012", true), ("TataNld", true), ("Colt", true), ("UsCarrier", true), ("Kdl", false)];

fn main() {
    let Ok(folder) = std::env::var("CAPILLARY_TOPOLOGIES") else {
        return println!("skipped: CAPILLARY_TOPOLOGIES names no folder with zoo-gml/");
    };
    println!("| network | nodes | arcs | demands | levels | bounds | pivots | processor time |");
    println!("|---|---|---|---|---|---|---|---|");
    for (name, is_whole) in NETWORKS {
        let Ok(bytes) = std::fs::read(format!("{folder}/zoo-gml/{name}.gml")) else {
            println!("skipped: {folder} has no zoo-gml/{name}.gml");
            continue;
        };
        let read = format::read(&bytes, &ReadOptions::default()).expect("a file of the Zoo");
        row(name, &graded(&read.topology), is_whole);
    }
}

/// The network with capacities by the degrees of the ends.
fn graded(topology: &Topology) -> Topology {
    let mut degree = vec![0; topology.node_count()];
    for (_, from, to, _) in topology.links() {
        degree[from.index()] += 1;
        degree[to.index()] += 1;
    }
    let mut graded = Topology::new(topology.orientation());
    for (_, node) in topology.nodes() {
        graded.add_node(node.clone()).expect("fresh name");
    }
    for (_, from, to, _) in topology.links() {
        let large = [from, to].iter().filter(|node| degree[node.index()] >= 4).count();
        graded.add_link(from, to, Link::with_capacity([10.0, 40.0, 100.0][large])).expect("two nodes");
    }
    graded
}

fn row(name: &str, topology: &Topology, is_whole: bool) {
    let gravity = TrafficMatrix::gravity_of(topology, 1000.0);
    let (traffic, _) = gravity.by_reach(topology).expect("nodes of the network");
    let levels = (!is_whole).then_some(NonZeroU32::MIN);
    let start = processor_time();
    let routing: MatrixRouting = solve(topology, &traffic, levels).expect("all can be reached");
    let time = processor_time().saturating_sub(start);
    println!(
        "| {name}{} | {} | {} | {} | {} | {} | {} | {:.2} s |",
        if is_whole { "" } else { ", first level" },
        topology.node_count(),
        routing.arcs().len(),
        routing.demands().len(),
        routing.levels().len(),
        routing.certificate().bounds().len(),
        routing.effort().pivots,
        time.as_secs_f64(),
    );
}

/// Other users of the machine do not count.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
