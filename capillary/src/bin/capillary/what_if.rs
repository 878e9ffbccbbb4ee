//! `capillary what-if`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use capillary::{LinkId, NodeId, Routing, SolveError, Splits, solve};
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::source::{Network, Source};
use crate::{Print, Printing};
use program::table::number;
use program::{Failure, Table, output};

/// In one line it would be too wide.
const USAGE: &str = "\
capillary what-if [OPTIONS] <FILE> --from <FROM> --to <TO> --each
       capillary what-if [OPTIONS] <FILE> --from <FROM> --to <TO> --fail <LINK>...
       capillary what-if [OPTIONS] <FILE> --from <FROM> --to <TO> --fail-node <NODE>...
       capillary what-if [OPTIONS] <FILE> --from <FROM> --to <TO> --groups <FILE> --fail-group <NAME>...";

#[derive(Debug, clap::Args)]
#[command(override_usage = USAGE)]
#[command(group = clap::ArgGroup::new("failing").required(true).multiple(true).args(["fail", "fail_node", "fail_group", "each"]))]
#[command(
    after_help = "Examples:\n  capillary what-if Abilene.gml --from Seattle --to \"New York\" --each --format csv\n  \
                        capillary what-if Abilene.gml --from Seattle --to \"New York\" --fail Denver--Seattle"
)]
pub(crate) struct WhatIf {
    #[command(flatten)]
    source: Source,
    /// Where the demand comes from
    #[arg(long)]
    from: String,
    /// Where the demand goes
    #[arg(long)]
    to: String,
    /// Links that fail together: a position, an id, or the ends as A--B
    #[arg(long, num_args = 1.., value_name = "LINK")]
    fail: Vec<String>,
    /// Nodes that fail, with all of their links
    #[arg(long, num_args = 1.., value_name = "NODE")]
    fail_node: Vec<String>,
    /// Groups that fail, each with all of its links (see --groups)
    #[arg(long, num_args = 1.., value_name = "NAME", requires = "groups")]
    fail_group: Vec<String>,
    /// A file of groups: on each line a name, a colon, and links separated by commas
    #[arg(long, value_name = "FILE")]
    groups: Option<PathBuf>,
    /// Every single failure of a link that the routing uses, one row each
    #[arg(long, conflicts_with_all = ["fail", "fail_node", "fail_group"])]
    each: bool,
    #[command(flatten)]
    printing: Printing,
}

/// One failure and what is left.
struct Case {
    name: String,
    /// The share of the demand that was on the failed links, at most 1.
    lost: f64,
    /// The largest load and critical links of the new routing; `None` if nothing is left.
    after: Option<(f64, usize)>,
}

impl WhatIf {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let network = self.source.load()?;
        let pair = (network.find(&self.from)?, network.find(&self.to)?);
        let before = solve(&network.topology, pair.0, pair.1).map_err(|error| network.unsolvable(error))?;
        let cases = if self.each {
            let used: Vec<LinkId> = before.used_links().map(|(link, _)| link).collect();
            let each = used.par_iter().map(|&link| case(&network, pair, &before, &BTreeSet::from([link])));
            each.collect::<Result<Vec<Case>, Failure>>()?
        } else {
            vec![case(&network, pair, &before, &self.failed(&network)?)?]
        };
        let text = match self.printing.format() {
            Print::Table => {
                let table = table(&cases).folded(output::columns(self.printing.path()));
                format!("before: largest load {}\n\n{table}", number(before.largest_load()))
            }
            Print::Csv => table(&cases).csv(),
            Print::Json => format!("{:#}\n", json(&before, &cases)),
            Print::Dot => return Err(Failure::usage("what-if has no --format dot")),
        };
        output::put(self.printing.path(), &text)
    }

    fn failed(&self, network: &Network) -> Result<BTreeSet<LinkId>, Failure> {
        let mut failed = BTreeSet::new();
        for name in &self.fail {
            failed.extend(network.find_links(name)?);
        }
        for name in &self.fail_node {
            let node = network.find(name)?;
            let touches = |&(_, from, to, _): &(LinkId, NodeId, NodeId, _)| from == node || to == node;
            failed.extend(network.topology.links().filter(touches).map(|(link, ..)| link));
        }
        let groups = self.groups.as_ref().map_or(Ok(BTreeMap::new()), |path| read_groups(network, path))?;
        for name in &self.fail_group {
            let links = groups.get(name).ok_or_else(|| {
                let known: Vec<&str> = groups.keys().map(String::as_str).collect();
                Failure::usage(format!("there is no group {name:?}; the file has {}", known.join(", ")))
            })?;
            failed.extend(links);
        }
        Ok(failed)
    }
}

fn read_groups(network: &Network, path: &Path) -> Result<BTreeMap<String, Vec<LinkId>>, Failure> {
    let text = capillary::cli::read_text(path).map_err(|error| Failure::file(path, &error))?;
    let mut groups = BTreeMap::new();
    for (index, line) in
        text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'))
    {
        let place = |problem: String| Failure::input(path, format!("line {}: {problem}", index + 1));
        let (name, links) = line.split_once(':').ok_or_else(|| place("expected NAME: LINK, LINK".into()))?;
        let mut members = Vec::new();
        for link in links.split(',').map(str::trim).filter(|link| !link.is_empty()) {
            members.extend(network.find_links(link).map_err(|error| place(error.to_string()))?);
        }
        groups.insert(name.trim().to_string(), members);
    }
    Ok(groups)
}

fn case(
    network: &Network,
    (from, to): (NodeId, NodeId),
    before: &Routing,
    failed: &BTreeSet<LinkId>,
) -> Result<Case, Failure> {
    let (rest, _) = network.topology.filter_links(|link| !failed.contains(&link));
    // The smallest capacity may have failed; loads go on to be counted in the same unit.
    let unit = |topology: &capillary::Topology| topology.smallest_capacity().unwrap_or(1.0);
    let ratio = unit(&network.topology) / unit(&rest);
    let after = match solve(&rest, from, to) {
        Ok(routing) => Some((routing.largest_load() * ratio, routing.critical_links().count())),
        Err(SolveError::Unreachable { .. }) => None,
        Err(error) => return Err(network.unsolvable(error)),
    };
    let names: Vec<String> = failed.iter().map(|&link| network.link_name(link)).collect();
    Ok(Case { name: names.join(", "), lost: lost(before, failed), after })
}

/// The share of the demand that meets a failed link, when each node splits what it gets without regard to where it came
/// from.
fn lost(before: &Routing, failed: &BTreeSet<LinkId>) -> f64 {
    let Some(splits) = Splits::of(before) else { return f64::NAN };
    let mut alive = BTreeMap::from([(before.source(), 1.0)]);
    let mut lost = 0.0;
    for split in splits.splits() {
        let through = alive.get(&split.node).copied().unwrap_or(0.0);
        for &(link, share) in &split.shares {
            if failed.contains(&link) {
                lost += through * share;
            } else {
                *alive.entry(before.link(link).direction().1).or_insert(0.0) += through * share;
            }
        }
    }
    lost
}

fn table(cases: &[Case]) -> Table {
    let mut table = Table::new(["lost", "largest load after", "critical after", "failed"]);
    for case in cases {
        let (load, critical) = match case.after {
            Some((load, critical)) => (number(load), critical.to_string()),
            None => ("-".into(), "-".into()),
        };
        table.push(vec![number(case.lost), load, critical, case.name.clone()]);
    }
    table
}

fn json(before: &Routing, cases: &[Case]) -> Value {
    let cases: Vec<Value> = cases
        .iter()
        .map(|case| {
            let (load, critical) = case.after.unzip();
            json!({ "failed": case.name, "lost": case.lost, "largest_load": load, "critical_links": critical })
        })
        .collect();
    json!({ "before": { "largest_load": before.largest_load() }, "failures": cases })
}
