//! `capillary inspect`.

use std::path::PathBuf;

use capillary::{LinkId, Orientation, Topology, minimum_cut};
use petgraph::graph::UnGraph;
use serde_json::{Value, json};

use crate::source::{Network, Source};
use program::{Failure, output};

#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  capillary inspect Abilene.gml --from Seattle --to \"New York\"    # with the minimum cut"
)]
pub(crate) struct Inspect {
    #[command(flatten)]
    source: Source,
    /// With --to: the minimum cut between two nodes
    #[arg(long, requires = "to")]
    from: Option<String>,
    /// With --from: the minimum cut between two nodes
    #[arg(long, requires = "from")]
    to: Option<String>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The file to write; standard output without it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Inspect {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let network = self.source.load()?;
        let mut facts = facts(&network);
        if let (Some(from), Some(to)) = (&self.from, &self.to) {
            let (from, to) = (network.find(from)?, network.find(to)?);
            let cut = minimum_cut(&network.topology, from, to).map_err(|error| network.unsolvable(error))?;
            let links: Vec<String> = cut.links.iter().map(|&link| network.link_name(link)).collect();
            facts.push(("minimum cut", json!(cut.capacity)));
            facts.push(("links of the cut", json!(links)));
        }
        let text = if self.json {
            let object: serde_json::Map<String, Value> =
                facts.into_iter().map(|(name, value)| (name.replace([' ', '-'], "_"), value)).collect();
            format!("{:#}\n", Value::Object(object))
        } else {
            facts.iter().map(|(name, value)| format!("{name:<18} {}\n", shown(value))).collect()
        };
        output::put(self.output.as_deref(), &text)
    }
}

fn facts(network: &Network) -> Vec<(&'static str, Value)> {
    let topology = &network.topology;
    let loops = topology.links().filter(|(_, from, to, _)| from == to).count();
    let degrees = degrees(topology);
    let capacities: Vec<f64> = topology.links().map(|(.., link)| link.capacity).collect();
    let placed = topology.nodes().filter(|(_, node)| node.position.is_some()).count();
    let bridges: Vec<String> = bridges(topology).into_iter().map(|link| network.link_name(link)).collect();
    vec![
        ("name", json!(topology.name())),
        ("format", json!(network.format.name())),
        ("directed", json!(topology.orientation() == Orientation::Directed)),
        ("nodes", json!(topology.node_count())),
        ("links", json!(topology.link_count())),
        ("self-loops", json!(loops)),
        ("parallel links", json!(parallel(topology))),
        ("components", json!(petgraph::algo::connected_components(topology.graph()))),
        ("isolated nodes", json!(degrees.iter().filter(|&&degree| degree == 0).count())),
        ("smallest degree", json!(degrees.iter().min())),
        ("largest degree", json!(degrees.iter().max())),
        ("mean degree", json!(degrees.iter().sum::<usize>() as f64 / degrees.len().max(1) as f64)),
        ("smallest capacity", json!(capacities.iter().copied().reduce(f64::min))),
        ("largest capacity", json!(capacities.iter().copied().reduce(f64::max))),
        ("nodes with places", json!(placed)),
        ("bridges", json!(bridges)),
    ]
}

/// Links per node, self-loops left out.
fn degrees(topology: &Topology) -> Vec<usize> {
    let mut degrees = vec![0; topology.node_count()];
    for (_, from, to, _) in topology.links().filter(|(_, from, to, _)| from != to) {
        degrees[from.index()] += 1;
        degrees[to.index()] += 1;
    }
    degrees
}

/// Links beyond the first between the same two nodes (in a directed network: the same way).
fn parallel(topology: &Topology) -> usize {
    let undirected = topology.orientation() == Orientation::Undirected;
    let mut ends: Vec<_> = topology
        .links()
        .filter(|(_, from, to, _)| from != to)
        .map(|(_, from, to, _)| if undirected && to < from { (to, from) } else { (from, to) })
        .collect();
    let all = ends.len();
    ends.sort_unstable();
    ends.dedup();
    all - ends.len()
}

/// Links whose loss splits a component, the direction of links left aside. petgraph's search takes parallel links for
/// one, so pairs with several are left out of it.
fn bridges(topology: &Topology) -> Vec<LinkId> {
    let mut graph = UnGraph::<(), LinkId>::default();
    let nodes: Vec<_> = topology.nodes().map(|_| graph.add_node(())).collect();
    let mut count = std::collections::BTreeMap::new();
    let key = |a: capillary::NodeId, b: capillary::NodeId| if a < b { (a, b) } else { (b, a) };
    for (link, from, to, _) in topology.links().filter(|(_, from, to, _)| from != to) {
        let links = count.entry(key(from, to)).or_insert(0);
        *links += 1;
        if *links == 1 {
            graph.add_edge(nodes[from.index()], nodes[to.index()], link);
        }
    }
    let found = petgraph::algo::bridges::bridges(&graph).map(|edge| *petgraph::visit::EdgeRef::weight(&edge));
    let mut bridges: Vec<LinkId> = found
        .filter(|&link| {
            let (from, to) = topology.ends(link);
            count[&key(from, to)] == 1
        })
        .collect();
    bridges.sort_unstable();
    bridges
}

fn shown(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::Bool(true) => "yes".into(),
        Value::Bool(false) => "no".into(),
        Value::String(text) => output::shown(text).into_owned(),
        Value::Array(items) if items.is_empty() => "none".into(),
        Value::Array(items) => {
            let separator = format!("\n{:19}", "");
            items.iter().map(shown).collect::<Vec<_>>().join(&separator)
        }
        Value::Number(number) if number.is_f64() => {
            let text = format!("{:.2}", number.as_f64().unwrap_or(f64::NAN));
            text.trim_end_matches('0').trim_end_matches('.').into()
        }
        other => other.to_string(),
    }
}
