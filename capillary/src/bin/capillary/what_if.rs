//! `capillary what-if`.

mod matrix;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use capillary::{LinkId, NodeId, Position, Routing, SolveError, Splits, solve};
use rayon::prelude::*;
use serde_json::{Value, json};

use crate::matrix::{Matrix, MatrixSource, of_one_matrix};
use crate::source::{Network, Source};
use crate::{Print, Printing, of_rows};
use program::table::{Cell, number};
use program::threads::pool;
use program::{Failure, Table, output};

/// In one line it would be too wide.
const USAGE: &str = "\
capillary what-if [OPTIONS] <FILE> --from <FROM> --to <TO> --each
       capillary what-if [OPTIONS] <FILE> --from <FROM> --to <TO> --fail <LINK>...
       capillary what-if [OPTIONS] <FILE> --from <FROM> --to <TO> --fail-node <NODE>...
       capillary what-if [OPTIONS] <FILE> --from <FROM> --to <TO> --groups <FILE>
                         --fail-group <NAME>...
       capillary what-if [OPTIONS] <FILE> --demands <FILE> --each
       capillary what-if [OPTIONS] <FILE> --gravity <X> --each";

#[derive(Debug, clap::Args)]
#[command(mut_args(of_one_matrix))]
#[command(mut_args(of_rows))]
#[command(override_usage = USAGE)]
#[command(group = clap::ArgGroup::new("failing").required(true).multiple(true).args(["fail", "fail_node", "fail_region", "fail_group", "each", "each_node", "each_group"]))]
#[command(group = clap::ArgGroup::new("what").required(true).args(["from", "demands", "gravity"]))]
#[command(
    after_help = "Examples:\n  capillary what-if Abilene.gml --from Seattle --to \"New York\" --each --format csv\n  \
                        capillary what-if Abilene.gml --from Seattle --to \"New York\" --fail Denver--Seattle\n  \
                        capillary what-if abilene.xml --capacity module_capacity --demands abilene.xml --each"
)]
pub(crate) struct WhatIf {
    #[command(flatten)]
    source: Source,
    /// Where the demand comes from
    #[arg(long, requires = "to")]
    from: Option<String>,
    /// Where the demand goes
    #[arg(long, requires = "from")]
    to: Option<String>,
    #[command(flatten)]
    matrix: MatrixSource,
    /// Threads for --each, --each-node and --each-group; without it, as many as there are processors
    #[arg(long, value_parser = program::quantity::count)]
    threads: Option<std::num::NonZeroU32>,
    /// Links that fail together: a position, an id, or the ends as A--B
    #[arg(long, num_args = 1.., value_name = "LINK")]
    fail: Vec<String>,
    /// Nodes that fail, with all of their links
    #[arg(long, num_args = 1.., value_name = "NODE")]
    fail_node: Vec<String>,
    /// A region that fails: all nodes within a radius around a node, with all of their links, as Denver:300km (on a map
    /// of longitudes and latitudes) or Denver:2.5 (in the unit of the positions)
    #[arg(long, num_args = 1.., value_name = "NODE:RADIUS")]
    fail_region: Vec<String>,
    /// Shared-risk groups that fail, each with all of its links (see --groups)
    #[arg(long, num_args = 1.., value_name = "NAME", requires = "groups")]
    fail_group: Vec<String>,
    /// A file of shared-risk groups: on each line a name, a colon, and links separated by commas
    #[arg(long, value_name = "FILE")]
    groups: Option<PathBuf>,
    /// Every single failure of a link that the routing uses (of a matrix: of any link), one row each
    #[arg(long, conflicts_with_all = ["fail", "fail_node", "fail_region", "fail_group"])]
    each: bool,
    /// Every single failure of a node, one row each
    #[arg(long, conflicts_with_all = ["fail", "fail_node", "fail_region", "fail_group", "each"])]
    each_node: bool,
    /// Every failure of a shared-risk group of --groups, one row each
    #[arg(long, requires = "groups")]
    #[arg(conflicts_with_all = ["fail", "fail_node", "fail_region", "fail_group", "each", "each_node"])]
    each_group: bool,
    /// With --demands or --gravity: draws the largest utilisation after each failure, from the worst down, beside that
    /// of equal-cost multipath, as PNG or SVG
    #[arg(long, value_name = "FILE", value_parser = program::chart::file, requires = "MatrixSource")]
    plot: Option<PathBuf>,
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
        if self.matrix.is_there() {
            let Matrix { name, traffic } = self.matrix.load_one(&network, "what-if")?;
            let every: Vec<LinkId> = network.topology.links().map(|(link, ..)| link).collect();
            let failures = self.failures(&network, &every)?;
            // What was before is planned beside the failures.
            let pool = pool(self.threads, failures.len() as u64 + 1)?;
            let cases = matrix::Cases::of(&network, &traffic, &failures, &pool)?;
            if let Some(path) = &self.plot {
                let own = network.topology.name();
                cases.plot(if own.is_empty() { &name } else { own }, path)?;
            }
            return self.put(&cases.before(), &cases.table(), &cases.json());
        }
        self.one_demand(&network)
    }

    fn put(&self, before: &str, table: &Table, json: &Value) -> Result<(), Failure> {
        let text = match self.printing.format() {
            Print::Table => {
                format!("before: {before}\n\n{}", table.folded(output::columns(self.printing.path())))
            }
            Print::Csv => table.csv(),
            Print::Json => self.printing.json(json),
            Print::Dot => return Err(Failure::usage("what-if has no --format dot")),
        };
        output::put(self.printing.path(), &text)
    }

    fn one_demand(&self, network: &Network) -> Result<(), Failure> {
        let (Some(from), Some(to)) = (&self.from, &self.to) else {
            return Err(Failure::usage("--from and --to are needed"));
        };
        let pair = (network.find(from)?, network.find(to)?);
        let before = solve(&network.topology, pair.0, pair.1).map_err(|error| network.unsolvable(error))?;
        let used: Vec<LinkId> = before.used_links().map(|(link, _)| link).collect();
        let failures = self.failures(network, &used)?;
        let cases = pool(self.threads, failures.len() as u64)?.install(|| {
            let each = failures.par_iter().map(|failed| case(network, pair, &before, failed));
            each.collect::<Result<Vec<Case>, Failure>>()
        })?;
        let largest = format!("largest load {}", number(before.largest_load()));
        self.put(&largest, &table(&cases), &json(&before, &cases))
    }

    /// The failures to look at, of which those of single links are those of `links`.
    fn failures(&self, network: &Network, links: &[LinkId]) -> Result<Vec<Failed>, Failure> {
        if self.each {
            let one =
                |&link: &LinkId| Failed { name: network.link_name(link), links: BTreeSet::from([link]) };
            return Ok(links.iter().map(one).collect());
        }
        if self.each_node {
            let nodes = network.topology.nodes().map(|(node, _)| node);
            let one = |node| Failed { name: network.name(node).into(), links: links_of(network, &[node]) };
            return Ok(nodes.map(one).collect());
        }
        let groups = self.groups.as_ref().map_or(Ok(BTreeMap::new()), |path| read_groups(network, path))?;
        if self.each_group {
            let one =
                |(name, links): (String, Vec<LinkId>)| Failed { name, links: links.into_iter().collect() };
            return Ok(groups.into_iter().map(one).collect());
        }
        Ok(vec![self.failed(network, &groups)?])
    }

    /// All that fails together, by the names that the user gave it.
    fn failed(&self, network: &Network, groups: &BTreeMap<String, Vec<LinkId>>) -> Result<Failed, Failure> {
        let (mut links, mut names) = (BTreeSet::new(), Vec::new());
        for name in &self.fail {
            let found = network.find_links(name)?;
            names.extend(found.iter().map(|&link| network.link_name(link)));
            links.extend(found);
        }
        for name in &self.fail_node {
            let node = network.find(name)?;
            names.push(format!("node {}", network.name(node)));
            links.extend(links_of(network, &[node]));
        }
        for name in &self.fail_region {
            let nodes = region(network, name)?;
            let inside: Vec<&str> = nodes.iter().map(|&node| network.name(node)).collect();
            names.push(format!("region {name} ({})", inside.join(", ")));
            links.extend(links_of(network, &nodes));
        }
        for name in &self.fail_group {
            let members = groups.get(name).ok_or_else(|| {
                let known: Vec<&str> = groups.keys().map(String::as_str).collect();
                Failure::usage(format!("there is no group {name:?}; the file has {}", known.join(", ")))
            })?;
            names.push(format!("group {name}"));
            links.extend(members);
        }
        Ok(Failed { name: names.join(", "), links })
    }
}

/// Links that fail together, and what they are called.
struct Failed {
    name: String,
    links: BTreeSet<LinkId>,
}

/// All links that end at any of these nodes.
fn links_of(network: &Network, nodes: &[NodeId]) -> BTreeSet<LinkId> {
    let touches =
        |&(_, from, to, _): &(LinkId, NodeId, NodeId, _)| nodes.contains(&from) || nodes.contains(&to);
    network.topology.links().filter(touches).map(|(link, ..)| link).collect()
}

/// The nodes of `NODE:RADIUS`.
fn region(network: &Network, text: &str) -> Result<Vec<NodeId>, Failure> {
    let expected = || Failure::usage(format!("{text:?} is no region; expected NODE:RADIUS, as Denver:300km"));
    let (name, radius) = text.rsplit_once(':').ok_or_else(expected)?;
    let (number, on_earth) = match radius.trim().strip_suffix("km") {
        Some(number) => (number, true),
        None => (radius, false),
    };
    let radius = number.trim().parse::<f64>().ok().filter(|radius| *radius >= 0.0).ok_or_else(expected)?;
    let centre = network.find(name)?;
    let position = |node| network.topology.node_weight(node).position;
    let place = position(centre).ok_or_else(|| {
        Failure::usage(format!(
            "{} has no position in the topology file; a region takes one",
            network.name(centre)
        ))
    })?;
    let distance =
        |a: Position, b: Position| if on_earth { kilometres(a, b) } else { (a.x - b.x).hypot(a.y - b.y) };
    let nodes = network.topology.nodes().map(|(node, _)| node);
    Ok(nodes.filter(|&node| position(node).is_some_and(|other| distance(place, other) <= radius)).collect())
}

/// The length of the great circle between two places given in degrees (haversine formula).
fn kilometres(a: Position, b: Position) -> f64 {
    const EARTH_RADIUS_KM: f64 = 6371.0;
    let half = |degrees: f64| (degrees.to_radians() / 2.0).sin().powi(2);
    let along = a.y.to_radians().cos() * b.y.to_radians().cos() * half(b.x - a.x);
    2.0 * EARTH_RADIUS_KM * (half(b.y - a.y) + along).sqrt().min(1.0).asin()
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
    failed: &Failed,
) -> Result<Case, Failure> {
    let (rest, _) = network.topology.filter_links(|link| !failed.links.contains(&link));
    // The smallest capacity may have failed; loads go on to be counted in the same unit.
    let unit = |topology: &capillary::Topology| topology.smallest_capacity().unwrap_or(1.0);
    let ratio = unit(&network.topology) / unit(&rest);
    let after = match solve(&rest, from, to) {
        Ok(routing) => Some((routing.largest_load() * ratio, routing.critical_links().count())),
        Err(SolveError::Unreachable { .. }) => None,
        Err(error) => return Err(network.unsolvable(error)),
    };
    Ok(Case { name: failed.name.clone(), lost: lost(before, &failed.links), after })
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
            Some((load, critical)) => (Cell::number(load), critical.to_string().into()),
            None => ("-".into(), "-".into()),
        };
        table.push_cells(vec![Cell::number(case.lost), load, critical, case.name.as_str().into()]);
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
