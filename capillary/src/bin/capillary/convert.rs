//! `capillary convert`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use capillary::format::{self, Format, ReadOptions};
use capillary::{Node, Orientation, Topology};
use program::table::counted;
use program::{Failure, output};

use crate::source::Source;

#[derive(Debug, clap::Args)]
#[command(after_help = "Example:\n  capillary convert Abilene.gml -o abilene.graphml")]
pub(crate) struct Convert {
    #[command(flatten)]
    source: Source,
    /// The format to write; without it as the file's name ends, and json on standard output
    #[arg(long, value_name = "FORMAT")]
    format: Option<Format>,
    /// The file to write; standard output without it
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

impl Convert {
    pub(crate) fn run(&self) -> Result<(), Failure> {
        let format = self.format()?;
        let network = self.source.load()?;
        let text = format::write(&network.topology, format);
        output::put(self.output.as_deref(), &text)?;
        let losses = losses(&network.topology, format, &text);
        if !losses.is_empty() {
            let losses = losses.join(", ");
            output::note(format_args!("capillary: warning: {format} cannot hold: {losses}"));
        }
        Ok(())
    }

    fn format(&self) -> Result<Format, Failure> {
        let ending = self.output.as_deref().and_then(Path::extension).and_then(|ending| ending.to_str());
        match (self.format, ending) {
            (Some(format), _) => Ok(format),
            (None, None) => Ok(Format::NodeLink),
            (None, Some("gv")) => Ok(Format::Dot),
            (None, Some(ending)) => ending.parse().map_err(|_| {
                let message = format!("no format is called .{ending}; say with --format which one to write");
                Failure::usage(message)
            }),
        }
    }
}

/// What of a topology is lost in a format, told by what is read from what was written.
fn losses(topology: &Topology, format: Format, text: &str) -> Vec<String> {
    let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
    let back = match format::read(text.as_bytes(), &options) {
        Ok(loaded) => loaded.topology,
        Err(error) => return vec![format!("this network ({error})")],
    };
    let mut losses = Vec::new();
    // The other way round a link has become two, one each way, which are the same to all routings.
    if (topology.orientation(), back.orientation()) == (Orientation::Directed, Orientation::Undirected) {
        losses.push("the direction of links".into());
    }
    losses.extend(lost_of_nodes(topology, &back));
    losses.extend(lost_of_links(topology, &back, format));
    losses
}

/// What is lost of nodes: names, labels, positions, or all of them.
fn lost_of_nodes(topology: &Topology, back: &Topology) -> Vec<String> {
    let isolated = isolated(topology);
    let ids: BTreeSet<&str> = back.nodes().map(|(_, node)| node.id.as_str()).collect();
    let is_renamed = |node: &Node| !ids.contains(node.id.as_str());
    let renamed = topology.nodes().filter(|(id, node)| !isolated[id.index()] && is_renamed(node)).count();
    let alone = isolated.iter().filter(|&&alone| alone).count();
    let missing = topology.node_count().saturating_sub(back.node_count());
    let labels = |topology: &Topology| count(topology, |node| node.name() != node.id);
    let places = |topology: &Topology| count(topology, |node| node.position.is_some());
    let mut lost = Vec::new();
    lost.extend((renamed > 0).then(|| format!("{} as they are", counted(renamed, "name"))));
    lost.extend((labels(topology) > labels(back)).then(|| "labels".into()));
    lost.extend((places(topology) > places(back)).then(|| "positions".into()));
    lost.extend((missing > 0 && alone > 0).then(|| counted(alone.min(missing), "isolated node")));
    // Names that differ in what the format has no signs for are one.
    let joined = missing.saturating_sub(alone);
    lost.extend((joined > 0).then(|| format!("{} apart from others", counted(joined, "node"))));
    lost
}

fn count(topology: &Topology, is_one: impl Fn(&Node) -> bool) -> usize {
    topology.nodes().filter(|(_, node)| is_one(node)).count()
}

/// Whether a node is an end of no link; index: the node.
fn isolated(topology: &Topology) -> Vec<bool> {
    let mut isolated = vec![true; topology.node_count()];
    for (_, from, to, _) in topology.links() {
        isolated[from.index()] = false;
        isolated[to.index()] = false;
    }
    isolated
}

/// What is lost of links: some of them, or what they are like.
fn lost_of_links(topology: &Topology, back: &Topology, format: Format) -> Vec<String> {
    let missing = topology.link_count().saturating_sub(back.link_count());
    let has_capacities = !matches!(format, Format::Caida | Format::Rocketfuel);
    let differ = topology.links().any(|(.., link)| link.capacity != 1.0);
    let delays = |topology: &Topology| topology.links().any(|(.., link)| link.delay.is_some());
    let mut lost = Vec::new();
    lost.extend((missing > 0).then(|| counted(missing, "link")));
    lost.extend((differ && !has_capacities).then(|| "capacities".into()));
    lost.extend((delays(topology) && !delays(back)).then(|| "delays".into()));
    lost
}
