//! How much memory the solver takes beside the network itself.

#[allow(dead_code, reason = "of the benchmark's networks, two are solved here")]
#[path = "../benches/solvers/networks.rs"]
mod networks;

use std::num::NonZeroU32;

use capillary::{Link, NodeId, Orientation, Topology, solve_certified, solve_layers};
use networks::Scene;
use peak_alloc::PeakAlloc;

#[global_allocator]
static ALLOCATOR: PeakAlloc = PeakAlloc;

/// The bytes that `work` holds at most at any time, beyond those that were there before.
fn peak_of<T>(work: impl FnOnce() -> T) -> usize {
    let before = ALLOCATOR.current_usage();
    ALLOCATOR.reset_peak_usage();
    drop(work());
    ALLOCATOR.peak_usage() - before
}

/// Each link as two of one direction each.
fn directed(topology: &Topology) -> Topology {
    let mut both = Topology::new(Orientation::Directed);
    for (_, node) in topology.nodes() {
        both.add_node(node.clone()).unwrap();
    }
    for (_, from, to, _) in topology.links() {
        both.add_link(from, to, Link::default()).unwrap();
        both.add_link(to, from, Link::default()).unwrap();
    }
    both
}

fn bytes_per_arc(topology: &Topology, source: NodeId, target: NodeId, name: &str) -> [f64; 2] {
    let undirected = topology.orientation() == Orientation::Undirected;
    let arcs = topology.link_count() * if undirected { 2 } else { 1 };
    let ten = NonZeroU32::new(10).unwrap();
    let peaks = [
        peak_of(|| solve_certified(topology, source, target).unwrap()),
        peak_of(|| solve_layers(topology, source, target, ten).unwrap()),
    ];
    let per_arc = peaks.map(|bytes| bytes as f64 / arcs as f64);
    println!(
        "{name}, {arcs} arcs: {:.0} bytes per arc for all layers, {:.0} for ten",
        per_arc[0], per_arc[1]
    );
    per_arc
}

#[test]
fn the_solver_takes_at_most_200_bytes_per_arc_beside_the_network() {
    // One test alone: what others allocate beside it would be counted, too.
    for (name, scene) in [
        ("geometric", networks::geometric(1_000, 8.5, 1)),
        ("Barabási–Albert", networks::barabasi_albert(3_000, 3, 1)),
    ] {
        let Scene { topology, source, target, .. } = scene;
        let one_way = directed(&topology);
        for (topology, kind) in [(&topology, "undirected"), (&one_way, "directed")] {
            for bytes in bytes_per_arc(topology, source, target, &format!("{name}, {kind}")) {
                assert!(bytes <= 200.0, "{name}, {kind}: {bytes} bytes per arc");
            }
        }
    }
}
