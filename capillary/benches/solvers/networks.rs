//! The networks of the benchmark: generator, seed and pair are fixed here, so that a table can be made again.

use capillary::{Link, Node, NodeId, Orientation, Topology};

/// SplitMix64 (Steele, Lea, Flood 2014): small, and the same on every machine.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// In [0, 1).
    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.unit() * bound as f64) as usize
    }
}

/// A network with the pair to route between.
pub(crate) struct Scene {
    pub(crate) name: String,
    pub(crate) topology: Topology,
    pub(crate) source: NodeId,
    pub(crate) target: NodeId,
}

fn nodes(count: usize) -> Topology {
    let mut topology = Topology::new(Orientation::Undirected);
    for node in 0..count {
        topology.add_node(Node::new(node.to_string())).expect("fresh name");
    }
    topology
}

fn join(topology: &mut Topology, a: usize, b: usize) {
    topology.add_link(NodeId(a as u32), NodeId(b as u32), Link::default()).expect("two nodes");
}

/// Points thrown at random on the unit square, joined when nearer than the radius that gives `degree` neighbours on
/// average away from the border; from the point nearest to one corner's quarter to the one nearest to the opposite.
pub(crate) fn geometric(count: usize, degree: f64, seed: u64) -> Scene {
    let mut random = Random(seed);
    let points: Vec<(f64, f64)> = (0..count).map(|_| (random.unit(), random.unit())).collect();
    let radius = (degree / (std::f64::consts::PI * count as f64)).sqrt();
    let mut topology = nodes(count);
    for a in 0..count {
        for b in a + 1..count {
            let (dx, dy) = (points[a].0 - points[b].0, points[a].1 - points[b].1);
            if dx * dx + dy * dy < radius * radius {
                join(&mut topology, a, b);
            }
        }
    }
    let nearest = |x: f64, y: f64| {
        let distance = |&(px, py): &(f64, f64)| (px - x).hypot(py - y);
        let best = (0..count).min_by(|&a, &b| distance(&points[a]).total_cmp(&distance(&points[b])));
        NodeId(best.unwrap_or(0) as u32)
    };
    let name = format!("geometric {}, degree {degree}", grouped(count));
    Scene { name, topology, source: nearest(0.2, 0.2), target: nearest(0.8, 0.8) }
}

/// Barabási–Albert: each new node joins `m` different nodes, chosen by their degree; between the two nodes of largest
/// degree.
pub(crate) fn barabasi_albert(count: usize, m: usize, seed: u64) -> Scene {
    let mut random = Random(seed);
    let mut topology = nodes(count);
    // Every link puts both ends here, so that a node stands as often as its degree.
    let mut ends: Vec<usize> = Vec::new();
    let mut degree = vec![0u32; count];
    for node in m..count {
        let mut chosen: Vec<usize> = Vec::new();
        while chosen.len() < m {
            let other = if ends.is_empty() { chosen.len() } else { ends[random.below(ends.len())] };
            if !chosen.contains(&other) {
                chosen.push(other);
            }
        }
        for other in chosen {
            join(&mut topology, node, other);
            ends.extend([node, other]);
            degree[node] += 1;
            degree[other] += 1;
        }
    }
    let mut hubs: Vec<usize> = (0..count).collect();
    hubs.sort_by_key(|&node| (std::cmp::Reverse(degree[node]), node));
    let name = format!("Barabási–Albert {}, m = {m}", grouped(count));
    Scene { name, topology, source: NodeId(hubs[0] as u32), target: NodeId(hubs[1] as u32) }
}

/// With commas between the thousands.
pub(crate) fn grouped(number: usize) -> String {
    let digits = number.to_string();
    let groups = digits.as_bytes().rchunks(3).rev().map(String::from_utf8_lossy);
    groups.collect::<Vec<_>>().join(",")
}
