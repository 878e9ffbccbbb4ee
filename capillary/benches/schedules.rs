//! `cargo bench -p capillary --bench schedules`: exact search for liquid schedules of random all-to-all traffics, in
//! processor time for each.
//!
//! Each network has 8 switches, joined in a line, a ring or a random tree, and 32 nodes behind random ones; of the
//! nodes about half send to each other. `--count N` sets how many traffics each shape gets (100).

use std::time::Duration;

use capillary::schedule::{Outcome, Traffic};
use capillary::{Node, NodeId, Orientation, Topology};
use rustix::time::{ClockId, clock_gettime};

const SWITCHES: usize = 8;
const NODES: usize = 32;

/// As `capillary schedule` has it without `--patience`.
const PATIENCE: usize = 200_000;

/// What must be kept: so much of the traffics within so much time each.
const LIMIT: Duration = Duration::from_secs(2);

/// SplitMix64 (Steele, Lea, Flood 2014): the same networks on every machine.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % limit as u64) as usize
    }
}

/// The switch that switch `index` is joined with.
type Shape = fn(&mut Dice, usize) -> usize;

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let count = arguments.iter().position(|argument| argument == "--count");
    let count: usize =
        count.and_then(|at| arguments.get(at + 1)).map_or(100, |count| count.parse().expect("a number"));
    println!(
        "| switches | traffics | transfers | liquid | impossible | unknown | liquid within 2 s | slowest |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    let shapes: [(&str, Shape, bool); 3] = [
        ("in a line", |_, index| index - 1, false),
        ("in a ring", |_, index| index - 1, true),
        ("in a random tree", |dice, index| dice.below(index), false),
    ];
    for (name, shape, is_closed) in shapes {
        row(name, count, shape, is_closed);
    }
}

fn row(name: &str, count: usize, shape: Shape, is_closed: bool) {
    let mut dice = Dice(28);
    let (mut liquid, mut impossible, mut unknown, mut in_time) = (0, 0, 0, 0);
    let (mut fewest, mut most, mut slowest) = (usize::MAX, 0, Duration::ZERO);
    for _ in 0..count {
        let traffic = traffic(&mut dice, shape, is_closed);
        fewest = fewest.min(traffic.transfers().len());
        most = most.max(traffic.transfers().len());
        let start = processor_time();
        let outcome = std::hint::black_box(traffic.liquid_schedule(PATIENCE));
        let time = processor_time().saturating_sub(start);
        slowest = slowest.max(time);
        match outcome {
            Outcome::Liquid(schedule) => {
                schedule.verify(&traffic).expect("a schedule");
                assert_eq!(schedule.frames.len(), traffic.bound());
                liquid += 1;
                in_time += usize::from(time <= LIMIT);
            }
            Outcome::Impossible => impossible += 1,
            Outcome::Unknown => unknown += 1,
        }
    }
    let share = 100.0 * in_time as f64 / count as f64;
    println!(
        "| {name} | {count} | {fewest} to {most} | {liquid} | {impossible} | {unknown} | {share:.0} % | {:.2} s |",
        slowest.as_secs_f64()
    );
}

/// All transfers between about half of the nodes, without the traffics of none.
fn traffic(dice: &mut Dice, shape: Shape, is_closed: bool) -> Traffic {
    let mut topology = Topology::new(Orientation::Undirected);
    let switches: Vec<NodeId> = (0..SWITCHES)
        .map(|index| topology.add_node(Node::new(format!("s{index}"))).expect("fresh name"))
        .collect();
    for index in 1..SWITCHES {
        let other = switches[shape(dice, index)];
        topology.add_link(switches[index], other, Default::default()).expect("two nodes");
    }
    if is_closed {
        topology.add_link(switches[0], switches[SWITCHES - 1], Default::default()).expect("two nodes");
    }
    let mut ends = Vec::new();
    for index in 0..NODES {
        let end = topology.add_node(Node::new(format!("n{index}"))).expect("fresh name");
        topology.add_link(end, switches[dice.below(SWITCHES)], Default::default()).expect("two nodes");
        if dice.below(2) == 0 || ends.len() < 2 {
            ends.push(end);
        }
    }
    let pairs = ends.iter().flat_map(|&from| ends.iter().map(move |&to| (from, to)));
    let pairs: Vec<(NodeId, NodeId)> = pairs.filter(|(from, to)| from != to).collect();
    Traffic::on_shortest_paths(&topology, &pairs).expect("all are joined")
}

/// Other users of the machine do not count.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
