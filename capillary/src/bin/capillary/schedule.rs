//! `capillary schedule`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use capillary::schedule::{Outcome, Schedule as Frames, Traffic};
use capillary::{LinkId, NodeId};
use program::table::counted;
use program::{Exit, Failure, Table, output};
use serde_json::{Value, json};

use crate::batch::read_lines;
use crate::source::{Network, Source};

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("traffic").required(true).args(["transfers", "all_to_all"]))]
#[command(after_help = "Example:\n  capillary schedule abilene.xml --all-to-all NYCMng,LOSAng,CHINng,ATLAng")]
pub(crate) struct Schedule {
    #[command(flatten)]
    source: Source,
    /// A file with two names a line, separated by a comma or a tab: one transfer each
    #[arg(long, value_name = "FILE")]
    transfers: Option<PathBuf>,
    /// From each of these nodes to each other
    #[arg(long, value_name = "NODE,…", value_delimiter = ',')]
    all_to_all: Vec<String>,
    /// How many decisions the search may take before it says "unknown"
    #[arg(long, default_value_t = 200_000)]
    patience: usize,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// The file to write; standard output without it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// The transfers of a file, of which there must be one at least, and each of which must have a way.
fn transfers(network: &Network, path: &Path) -> Result<Vec<(NodeId, NodeId)>, Failure> {
    let lines = read_lines(network, path)?;
    if lines.is_empty() {
        return Err(Failure::input(path, "there is no transfer; expected FROM,TO in a line at least"));
    }
    let pairs: Vec<_> = lines.iter().map(|&(_, pair)| pair).collect();
    // Only if something is wrong the transfers are tried one by one, to tell where it is.
    if Traffic::on_shortest_paths(&network.topology, &by_target(pairs.clone())).is_err() {
        for &(line, pair) in &lines {
            Traffic::on_shortest_paths(&network.topology, &[pair])
                .map_err(|error| Failure::input(path, format!("line {line}: {error}")))?;
        }
    }
    Ok(pairs)
}

/// The order in which trees of shortest paths are found once for each target.
fn by_target(mut pairs: Vec<(NodeId, NodeId)>) -> Vec<(NodeId, NodeId)> {
    pairs.sort_by_key(|&(from, to)| (to, from));
    pairs
}

/// A traffic with the schedules of it, each verified.
struct Answer<'a> {
    network: &'a Network,
    traffic: &'a Traffic,
    outcome: Outcome,
    greedy: Frames,
    round_robin: Frames,
}

impl Schedule {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let network = self.source.load()?;
        let pairs = match &self.transfers {
            Some(path) => transfers(&network, path)?,
            None => self.all_pairs(&network)?,
        };
        let traffic = Traffic::on_shortest_paths(&network.topology, &by_target(pairs));
        let traffic = traffic.map_err(|error| network.unschedulable(&error))?;
        let answer = Answer {
            network: &network,
            traffic: &traffic,
            outcome: traffic.liquid_schedule(self.patience),
            greedy: traffic.greedy_schedule(),
            round_robin: traffic.round_robin_schedule(),
        };
        answer.verify()?;
        let text = if self.json { format!("{:#}\n", answer.json()) } else { answer.table() };
        output::put(self.output.as_deref(), &text)
    }

    fn all_pairs(&self, network: &Network) -> Result<Vec<(NodeId, NodeId)>, Failure> {
        let nodes = self.all_to_all.iter().map(|name| network.find(name)).collect::<Result<Vec<_>, _>>()?;
        if nodes.iter().all(|node| Some(node) == nodes.first()) {
            let what = "expected two different nodes at least, to send to one another";
            return Err(Failure::usage(format!("--all-to-all {}: {what}", self.all_to_all.join(","))));
        }
        let to_others =
            |&from: &NodeId| nodes.iter().filter(move |&&to| to != from).map(move |&to| (from, to));
        Ok(nodes.iter().flat_map(to_others).collect())
    }
}

impl Answer<'_> {
    fn liquid(&self) -> Option<&Frames> {
        match &self.outcome {
            Outcome::Liquid(schedule) => Some(schedule),
            Outcome::Impossible | Outcome::Unknown => None,
        }
    }

    fn verdict(&self) -> &'static str {
        match self.outcome {
            Outcome::Liquid(_) => "found",
            Outcome::Impossible => "none exists, proved",
            Outcome::Unknown => "unknown: the patience ended",
        }
    }

    /// No schedule is told that does not hold.
    fn verify(&self) -> Result<(), Failure> {
        let schedules = self.liquid().into_iter().chain([&self.greedy, &self.round_robin]);
        let mut checks = schedules.map(|schedule| schedule.verify(self.traffic));
        let fault = |error| Failure::new(Exit::Failed, format!("a schedule fails its own proof: {error}"));
        checks.try_for_each(|check| check.map_err(fault))
    }

    fn table(&self) -> String {
        let bound = self.traffic.bound();
        let mut out = format!(
            "{}, bound {}, {}; liquid schedule: {}\n\n",
            counted(self.traffic.transfers().len(), "transfer"),
            counted(bound, "frame"),
            counted(self.traffic.bottlenecks().count(), "bottleneck"),
            self.verdict(),
        );
        let mut counts = Table::new(["schedule", "frames"]);
        let named = [("greedy", Some(&self.greedy)), ("round robin", Some(&self.round_robin))];
        for (name, schedule) in [("liquid", self.liquid())].into_iter().chain(named) {
            let frames = schedule.map_or("-".into(), |schedule| schedule.frames.len().to_string());
            counts.push(vec![name.into(), frames]);
        }
        let _ = write!(out, "{counts}\n{}", self.chart(self.liquid().unwrap_or(&self.greedy)));
        out
    }

    /// A row for each source, a column for each frame, and in it whom it sends to.
    fn chart(&self, schedule: &Frames) -> Table {
        let transfers = self.traffic.transfers();
        let mut sources: Vec<NodeId> = transfers.iter().map(|transfer| transfer.source).collect();
        sources.sort_unstable();
        sources.dedup();
        let header = std::iter::once("frame".to_string());
        let mut chart = Table::new(header.chain((1..=schedule.frames.len()).map(|frame| frame.to_string())));
        for source in sources {
            let sends = |frame: &Vec<usize>| {
                let own = frame.iter().filter(|&&index| transfers[index].source == source);
                own.map(|&index| self.network.name(transfers[index].target)).collect::<Vec<_>>().join(" ")
            };
            let cells = schedule.frames.iter().map(sends);
            chart.push(std::iter::once(self.network.name(source).to_string()).chain(cells).collect());
        }
        chart
    }

    /// One direction of a link.
    fn arc_json(&self, (link, is_forward): (LinkId, bool)) -> Value {
        let (first, second) = self.network.topology.ends(link);
        let ends = if is_forward { [first, second] } else { [second, first] };
        let [from, to] = ends.map(|node| self.network.topology.node_weight(node).id.as_str());
        let [from_name, to_name] = ends.map(|node| self.network.name(node));
        json!({ "link": link.0, "from": from, "to": to, "from_name": from_name, "to_name": to_name })
    }

    fn json(&self) -> Value {
        let id = |node: NodeId| self.network.topology.node_weight(node).id.as_str();
        let transfers = self.traffic.transfers();
        let frames = |schedule: &Frames| -> Vec<Vec<[&str; 2]>> {
            let ends = |&index: &usize| [id(transfers[index].source), id(transfers[index].target)];
            schedule.frames.iter().map(|frame| frame.iter().map(ends).collect()).collect()
        };
        let bottlenecks: Vec<u32> = self.traffic.bottlenecks().map(|((link, _), _)| link.0).collect();
        let arcs: Vec<Value> = self.traffic.bottlenecks().map(|(arc, _)| self.arc_json(arc)).collect();
        let mut ends: Vec<NodeId> =
            transfers.iter().flat_map(|transfer| [transfer.source, transfer.target]).collect();
        ends.sort_unstable();
        ends.dedup();
        let named = |node| json!({ "id": id(node), "name": self.network.name(node) });
        let ends: Vec<Value> = ends.into_iter().map(named).collect();
        json!({
            "transfers": transfers.len(),
            "ends": ends,
            "bound": self.traffic.bound(),
            "bottlenecks": bottlenecks,
            "bottleneck_arcs": arcs,
            "liquid": { "verdict": self.verdict(), "frames": self.liquid().map(frames) },
            "greedy": frames(&self.greedy),
            "round_robin": frames(&self.round_robin),
        })
    }
}
