//! `cargo bench -p capillary --bench readers`: every reader of topologies on networks of 10,000 to 1,000,000 links, in
//! processor time, beside GML's. `--only TEXT` keeps to the formats whose name contains the text.

use std::time::Duration;

use capillary::format::{Format, ReadOptions, read, write};
use capillary::{Link, Node, NodeId, Orientation, Topology};
use rustix::time::{ClockId, clock_gettime};

const LINKS: [u32; 3] = [10_000, 100_000, 1_000_000];

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let only = arguments.iter().position(|argument| argument == "--only");
    let only = only.and_then(|at| arguments.get(at + 1)).map_or("", String::as_str);
    let networks = LINKS.map(network);
    println!("| format | size of the largest | 10,000 links | 100,000 | 1,000,000 | times GML's |");
    println!("|---|---|---|---|---|---|");
    let gml = times(Format::Gml, &networks);
    for format in Format::ALL.into_iter().filter(|format| format.name().contains(only)) {
        let (size, [small, middle, large]) =
            if format == Format::Gml { gml } else { times(format, &networks) };
        let ratio = large.as_secs_f64() / gml.1[2].as_secs_f64();
        let [small, middle, large] =
            [small, middle, large].map(|time| format!("{:.1} ms", time.as_secs_f64() * 1e3));
        let size = size as f64 / 1e6;
        println!("| {format} | {size:.0} MB | {small} | {middle} | {large} | {ratio:.2} |");
    }
}

/// A ring with chords, four links a node.
fn network(links: u32) -> Topology {
    let nodes = links / 4;
    let mut topology = Topology::new(Orientation::Undirected);
    for node in 0..nodes {
        topology.add_node(Node::new(node.to_string())).expect("fresh name");
    }
    for link in 0..links {
        let (from, round) = (link % nodes, link / nodes);
        let to = (from + 1 + round * 7919) % nodes;
        let link = Link::with_capacity(f64::from(1 + link % 100));
        topology.add_link(NodeId(from), NodeId(to), link).expect("two nodes");
    }
    topology
}

/// How large the largest file is, and how long each takes to read.
fn times(format: Format, networks: &[Topology; 3]) -> (usize, [Duration; 3]) {
    let mut size = 0;
    let times = networks.each_ref().map(|topology| {
        let text = write(topology, format);
        size = text.len();
        let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
        let start = processor_time();
        let loaded = std::hint::black_box(read(text.as_bytes(), &options)).expect("what was written");
        let time = processor_time().saturating_sub(start);
        assert!(loaded.topology.link_count() >= topology.link_count(), "{format}");
        time
    });
    (size, times)
}

/// Other users of the machine do not count.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
