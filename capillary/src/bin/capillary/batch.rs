//! `capillary plan --pairs`: many pairs at once, one row each, in the order of the pairs whatever the threads.

use std::path::Path;

use capillary::{NodeId, cli};
use rayon::prelude::*;
use serde_json::json;

use crate::Print;
use crate::plan::{Plan, solve};
use crate::source::Network;
use program::Failure;
use program::output::Results;
use program::progress::Progress;
use program::table::quote;
use program::threads::pool;

/// Pairs that are solved before their rows are written: enough to keep threads busy, few enough to see rows soon.
const CHUNK: usize = 256;

type Pair = (NodeId, NodeId);

pub(crate) fn run(plan: &Plan, network: &Network, pairs: &Path) -> Result<(), Failure> {
    let pairs = if pairs.as_os_str() == "all" { all_pairs(network) } else { read_pairs(network, pairs)? };
    let pool = pool(plan.threads, pairs.len() as u64)?;
    let progress = Progress::of_things("planning", "pairs", pairs.len() as u64, 0);
    let mut results = Results::open(plan.printing.path())?;
    // A table takes the widths of all rows, so that there is none of many pairs.
    let csv = plan.printing.format() != Print::Json;
    if csv {
        results.line("from,to,layers,largest_load,links,critical_links,error,from_name,to_name")?;
    }
    for chunk in pairs.chunks(CHUNK) {
        let rows: Vec<String> =
            pool.install(|| chunk.par_iter().map(|&pair| row(plan, network, pair, csv)).collect());
        rows.iter().try_for_each(|row| results.line(row))?;
        progress.advance(chunk.len() as u64);
    }
    progress.clear();
    results.close()
}

fn all_pairs(network: &Network) -> Vec<Pair> {
    let nodes = || network.topology.nodes().map(|(id, _)| id);
    nodes().flat_map(|from| nodes().filter(move |&to| to != from).map(move |to| (from, to))).collect()
}

fn read_pairs(network: &Network, path: &Path) -> Result<Vec<Pair>, Failure> {
    Ok(read_lines(network, path)?.into_iter().map(|(_, pair)| pair).collect())
}

/// Two names a line, separated by a comma or a tab, with the numbers of the lines; empty lines and lines that start
/// with # are left out.
pub(crate) fn read_lines(network: &Network, path: &Path) -> Result<Vec<(usize, Pair)>, Failure> {
    let text = cli::read_text(path).map_err(|error| Failure::file(path, &error))?;
    let lines =
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    let read = |(index, line): (usize, &str)| {
        let place = |problem: String| Failure::input(path, format!("line {}: {problem}", index + 1));
        let (from, to) = line.split_once([',', '\t']).ok_or_else(|| place("expected FROM,TO".into()))?;
        let find = |name: &str| {
            capillary::find_node(&network.topology, name.trim()).map_err(|error| place(error.to_string()))
        };
        Ok((index + 1, (find(from)?, find(to)?)))
    };
    lines.map(read).collect()
}

fn row(plan: &Plan, network: &Network, (from, to): Pair, csv: bool) -> String {
    let id = |node: NodeId| network.topology.node_weight(node).id.as_str();
    let ([from_id, to_id], [from_name, to_name]) =
        ([from, to].map(id), [from, to].map(|node| network.name(node)));
    let solved = solve(&network.topology, from, to, plan.layers);
    if csv {
        let [from_id, to_id, from_name, to_name] = [from_id, to_id, from_name, to_name].map(quote);
        let found = match solved {
            Ok(solution) => {
                let routing = solution.routing;
                let (layers, load) = (routing.layers().len(), routing.largest_load());
                let (used, critical) = (routing.used_links().count(), routing.critical_links().count());
                format!("{layers},{load},{used},{critical},")
            }
            Err(error) => format!(",,,,{}", quote(&error.to_string())),
        };
        return format!("{from_id},{to_id},{found},{from_name},{to_name}");
    }
    let mut object = match solved {
        Ok(solution) => {
            let routing = solution.routing;
            let flows: Vec<f64> = routing.links().iter().map(|link| link.flow).collect();
            let critical: Vec<u32> = routing.critical_links().map(|link| link.0).collect();
            let layers: Vec<f64> = routing.layers().iter().map(|layer| layer.load).collect();
            json!({ "layers": layers, "flows": flows, "critical_links": critical })
        }
        Err(error) => json!({ "error": error.to_string() }),
    };
    for (key, value) in [("from", from_id), ("to", to_id), ("from_name", from_name), ("to_name", to_name)] {
        object[key] = json!(value);
    }
    object.to_string()
}
