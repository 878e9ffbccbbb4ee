//! Clusters of computers: what joins their nodes, and how much that carries at most.

use std::collections::BTreeMap;
use std::time::Duration;

use fec_transport::Config;
use fec_transport::sim::{LinkSpec, Scene};

use super::Dice;

/// The part of a full packet that is payload, headers of IP and UDP counted.
fn payload_share() -> f64 {
    fec_transport::payload_share(Config::default().coding.symbol_size)
}

/// Nodes, each with a compute process `c0`, `c1`, … and an I/O process `io0`, `io1`, …, behind switches.
///
/// The compute process sends by the one direction of its node's port, the I/O process receives by the other; here each
/// has a port of its own, of which it needs one direction only for payload. `[sfio §4, thesis §2.8]`
#[derive(Debug, Clone)]
pub struct Machine {
    name: &'static str,
    nodes: usize,
    switches: usize,
    /// What a port carries in each direction, and the delay of its cable.
    port: LinkSpec,
    /// What joins two switches.
    trunk: LinkSpec,
    /// The switches on the way between two that have no trunk in common, or none for one that has.
    ways: BTreeMap<(usize, usize), Vec<usize>>,
}

/// Which compute process sends to which I/O process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Traffic {
    /// N nodes, chosen by chance, each compute and serve; every compute process writes to every I/O process.
    /// `[sfio figures 8, 11]`
    AllToAll,
    /// N pairs of nodes, chosen by chance, of which one computes and the other one serves.
    Pairs,
    /// The first N nodes compute, the next N serve, in the order of the ports; each writes to each. `[sfio figures 6,
    /// 9]`
    Halves,
}

impl Machine {
    /// The names of the machines that there are.
    pub const NAMES: [&'static str; 2] = ["swiss-t1-ethernet", "swiss-t1-tnet"];

    /// The machine of that name.
    pub fn named(name: &str) -> Option<Machine> {
        match name {
            "swiss-t1-ethernet" => Some(Machine::swiss_t1_ethernet()),
            "swiss-t1-tnet" => Some(Machine::swiss_t1_tnet()),
            _ => None,
        }
    }

    /// The Swiss-T1 on Fast Ethernet: 32 nodes at one full crossbar switch, 100 Mbit/s each way.
    pub fn swiss_t1_ethernet() -> Machine {
        let port = LinkSpec::new(100, Duration::from_micros(50));
        Machine {
            name: "swiss-t1-ethernet",
            nodes: 32,
            switches: 1,
            trunk: port.clone(),
            port,
            ways: BTreeMap::new(),
        }
    }

    /// The Swiss-T1 on TNET: 32 nodes of 50 MB/s, four at each of eight switches of 12 ports. The other eight ports of
    /// a switch lead by two cables to each of four others: those 1 and 2 further in either direction of a ring (a
    /// K-ring). Between two that are 3 or 4 apart the way is static: by the one of the lowest number that both are
    /// joined to.
    ///
    /// The papers' text has eight switches of 12 ports, a K-ring, static routes, "more than 50 MB/s" and "less than
    /// 20 µs"; which switches are joined, and the routes, stand in a figure that the text lacks. This choice has the
    /// rises of what the network carries from 8 to 10, 16 to 18 and 24 to 26 nodes, which the text does tell.
    pub fn swiss_t1_tnet() -> Machine {
        const SWITCHES: usize = 8;
        let joined = |a: usize, b: usize| matches!((b + SWITCHES - a) % SWITCHES, 1 | 2 | 6 | 7);
        let pairs = (0..SWITCHES).flat_map(|a| (0..SWITCHES).map(move |b| (a, b))).filter(|(a, b)| a < b);
        let way = |(a, b): (usize, usize)| {
            let by = (0..SWITCHES).find(|middle| joined(a, *middle) && joined(*middle, b));
            ((a, b), if joined(a, b) { Vec::new() } else { by.into_iter().collect() })
        };
        Machine {
            name: "swiss-t1-tnet",
            nodes: 32,
            switches: SWITCHES,
            port: LinkSpec::new(400, Duration::from_micros(5)),
            trunk: LinkSpec::new(800, Duration::from_micros(5)),
            ways: pairs.map(way).collect(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// How many nodes it has.
    pub fn nodes(&self) -> usize {
        self.nodes
    }

    /// Its members and cables, with a link from each compute process to each I/O process.
    pub fn scene(&self) -> Scene {
        let mut scene = Scene::new();
        for switch in 0..self.switches {
            scene = scene.switch(&format!("s{switch}"));
        }
        for node in 0..self.nodes {
            let (compute, io, switch) = (compute(node), io(node), format!("s{}", self.switch_of(node)));
            scene = scene.client(&compute).server(&io);
            scene = scene.cable(&compute, &switch, &self.port).cable(&io, &switch, &self.port);
        }
        for ((a, b), _) in self.ways.iter().filter(|(_, between)| between.is_empty()) {
            scene = scene.cable(&format!("s{a}"), &format!("s{b}"), &self.trunk);
        }
        let pairs = (0..self.nodes).flat_map(|from| (0..self.nodes).map(move |to| (from, to)));
        pairs.fold(scene, |scene, (from, to)| {
            let names: Vec<String> = self.way(from, to).iter().map(|switch| format!("s{switch}")).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            scene.link_over(&compute(from), &io(to), &names)
        })
    }

    /// What all flows together carry at most if each carries the same, as payload in bytes per second: the cable with
    /// the most flows for its rate decides.
    pub fn limit(&self, flows: &[(usize, usize)]) -> f64 {
        let mut loads: BTreeMap<(usize, usize, usize), f64> = BTreeMap::new();
        let rates = [&self.port, &self.trunk].map(|cable| cable.a_to_b.rate.bits_per_second() as f64 / 8.0);
        let mut load = |cable, rate: f64| *loads.entry(cable).or_default() += 1.0 / rate;
        for (from, to) in flows.iter().copied() {
            load((0, from, 0), rates[0]);
            load((1, to, 0), rates[0]);
            let way = self.way(from, to);
            way.windows(2).for_each(|pair| load((2, pair[0], pair[1]), rates[1]));
        }
        let longest = loads.into_values().fold(0.0, f64::max);
        if longest == 0.0 { 0.0 } else { flows.len() as f64 / longest * payload_share() }
    }

    /// Which nodes compute and which serve.
    ///
    /// # Panics
    /// If the machine has too few nodes for it: see [`Traffic::nodes`].
    pub fn place(
        &self,
        traffic: Traffic,
        clients: usize,
        io_nodes: usize,
        dice: &mut Dice,
    ) -> (Vec<usize>, Vec<usize>) {
        let needed = traffic.nodes(clients, io_nodes);
        assert!(needed <= self.nodes, "{needed} nodes of {}", self.nodes);
        let mut nodes: Vec<usize> = (0..self.nodes).collect();
        if traffic != Traffic::Halves {
            (1..nodes.len()).rev().for_each(|last| nodes.swap(last, dice.below(last + 1)));
        }
        match traffic {
            Traffic::AllToAll => (nodes[..clients].to_vec(), nodes[..io_nodes].to_vec()),
            Traffic::Pairs | Traffic::Halves => {
                (nodes[..clients].to_vec(), nodes[clients..clients + io_nodes].to_vec())
            }
        }
    }

    fn switch_of(&self, node: usize) -> usize {
        node * self.switches / self.nodes
    }

    /// The switches from one node to another.
    fn way(&self, from: usize, to: usize) -> Vec<usize> {
        let [from, to] = [from, to].map(|node| self.switch_of(node));
        if from == to {
            return vec![from];
        }
        let between = &self.ways[&(from.min(to), from.max(to))];
        [&[from], &between[..], &[to]].concat()
    }
}

impl Traffic {
    /// How many nodes so many compute and I/O processes take.
    pub fn nodes(self, clients: usize, io_nodes: usize) -> usize {
        match self {
            Traffic::AllToAll => clients.max(io_nodes),
            Traffic::Pairs | Traffic::Halves => clients + io_nodes,
        }
    }

    /// From which node to which payload flows.
    pub fn flows(self, computing: &[usize], serving: &[usize]) -> Vec<(usize, usize)> {
        match self {
            Traffic::Pairs => computing.iter().copied().zip(serving.iter().copied()).collect(),
            Traffic::AllToAll | Traffic::Halves => {
                computing.iter().flat_map(|from| serving.iter().map(|to| (*from, *to))).collect()
            }
        }
    }
}

/// The name of the compute process of a node.
pub(super) fn compute(node: usize) -> String {
    format!("c{node}")
}

/// The name of the I/O process of a node.
pub(super) fn io(node: usize) -> String {
    format!("io{node}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn halves(machine: &Machine, nodes: usize) -> f64 {
        let (computing, serving) = machine.place(Traffic::Halves, nodes / 2, nodes / 2, &mut Dice::new(1));
        let port = machine.port.a_to_b.rate.bits_per_second() as f64 / 8.0 * payload_share();
        machine.limit(&Traffic::Halves.flows(&computing, &serving)) / port
    }

    #[test]
    fn a_crossbar_carries_what_its_ports_do() {
        let machine = Machine::swiss_t1_ethernet();
        for nodes in (2..=32).step_by(2) {
            assert!((halves(&machine, nodes) - nodes as f64 / 2.0).abs() < 1e-9);
        }
    }

    #[test]
    fn tnet_carries_more_when_a_third_a_fifth_and_a_seventh_switch_comes_in() {
        let machine = Machine::swiss_t1_tnet();
        let limits: Vec<f64> = (2..=32).step_by(2).map(|nodes| halves(&machine, nodes)).collect();
        // By hand: 8 nodes send 16 flows over one trunk of two ports' rate; of 10, the most on one trunk is 12 of 25.
        assert!((limits[3] - 2.0).abs() < 1e-9 && (limits[4] - 25.0 / 6.0).abs() < 1e-9, "{limits:?}");
        for nodes in [8, 16, 24] {
            let at = nodes / 2 - 1;
            assert!(limits[at + 1] > 1.15 * limits[at], "{nodes}: {limits:.2?}");
            assert!(limits[at] < limits[at - 1] * 1.10, "no such rise before {nodes}: {limits:.2?}");
        }
    }

    #[test]
    fn every_switch_has_twelve_ports() {
        let machine = Machine::swiss_t1_tnet();
        for switch in 0..8 {
            let nodes = (0..32).filter(|node| machine.switch_of(*node) == switch).count();
            let trunks =
                machine.ways.iter().filter(|((a, b), by)| by.is_empty() && [a, b].contains(&&switch));
            assert_eq!(nodes + 2 * trunks.count(), 12);
        }
    }
}
