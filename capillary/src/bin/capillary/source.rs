//! The topology file that every command starts from.

use std::path::PathBuf;

use capillary::cli::{LoadError, TopologyFile};
use capillary::format::{Format, Loaded};
use capillary::matrix::MatrixError;
use capillary::schedule::ScheduleError;
use capillary::{LinkId, NodeId, Orientation, SolveError, Topology, find_node};

use program::{Exit, Failure};

#[derive(Debug, clap::Args)]
pub(crate) struct Source {
    #[command(flatten)]
    file: TopologyFile,
}

/// A topology with the file that it came from.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) topology: Topology,
    pub(crate) format: Format,
    path: PathBuf,
}

impl Source {
    /// Reads the file, and says on standard error what is odd about it.
    pub(crate) fn load(&self) -> Result<Network, Failure> {
        let path = self.file.path().to_path_buf();
        let loaded = self.file.load().map_err(|error| match error {
            LoadError::File(error) => Failure::file(&path, &error),
            LoadError::Read(error) => Failure::input(&path, error),
        })?;
        let Loaded { topology, format, warnings } = loaded;
        for warning in warnings {
            program::output::note(format_args!("capillary: {}: warning: {warning}", path.display()));
        }
        Ok(Network { topology, format, path })
    }
}

impl Network {
    /// The network, called after its file if it has no name of its own.
    pub(crate) fn named(mut self) -> Self {
        let stem = self.path.file_stem().filter(|stem| *stem != "-");
        if let Some(stem) = stem.filter(|_| self.topology.name().is_empty()) {
            self.topology.set_name(stem.to_string_lossy());
        }
        self
    }

    pub(crate) fn find(&self, name: &str) -> Result<NodeId, Failure> {
        find_node(&self.topology, name)
            .map_err(|error| Failure::usage(format!("{}: {error}", self.path.display())))
    }

    pub(crate) fn name(&self, node: NodeId) -> &str {
        self.topology.node_weight(node).name()
    }

    /// A link's position and the names of its ends.
    pub(crate) fn link_name(&self, link: LinkId) -> String {
        let (from, to) = self.topology.ends(link);
        format!("{} ({} – {})", link.0, self.name(from), self.name(to))
    }

    /// A link by its position, its id, or its ends as `A--B` or `A->B` (then all links between the two).
    pub(crate) fn find_links(&self, name: &str) -> Result<Vec<LinkId>, Failure> {
        let count = self.topology.link_count() as u32;
        if let Some(index) = name.parse::<u32>().ok().filter(|index| *index < count) {
            return Ok(vec![LinkId(index)]);
        }
        let named = |(id, _, _, link): (LinkId, _, _, &capillary::Link)| {
            (link.id.as_deref() == Some(name)).then_some(id)
        };
        let by_id: Vec<LinkId> = self.topology.links().filter_map(named).collect();
        if !by_id.is_empty() {
            return Ok(by_id);
        }
        match name.split_once("--").or_else(|| name.split_once("->")) {
            Some((a, b)) => self.links_between(name, self.find(a)?, self.find(b)?),
            None => {
                let what = "expected a position from 0, an id of a link, or its ends as A--B";
                Err(Failure::usage(format!("{}: there is no link {name:?}; {what}", self.path.display())))
            }
        }
    }

    fn links_between(&self, name: &str, a: NodeId, b: NodeId) -> Result<Vec<LinkId>, Failure> {
        let both_ways = self.topology.orientation() == Orientation::Undirected || name.contains("--");
        let joins = |from, to| (from, to) == (a, b) || (both_ways && (from, to) == (b, a));
        let found: Vec<LinkId> =
            self.topology.links().filter(|&(_, from, to, _)| joins(from, to)).map(|(id, ..)| id).collect();
        if found.is_empty() {
            return Err(Failure::usage(format!("{}: no link joins {name}", self.path.display())));
        }
        Ok(found)
    }

    /// What it means for the user that a traffic matrix cannot be routed.
    pub(crate) fn unroutable(&self, error: &MatrixError) -> Failure {
        Failure::input(&self.path, error)
    }

    /// What it means for the user that transfers have no ways.
    pub(crate) fn unschedulable(&self, error: &ScheduleError) -> Failure {
        Failure::input(&self.path, error)
    }

    /// What it means for the user that a pair cannot be solved.
    pub(crate) fn unsolvable(&self, error: SolveError) -> Failure {
        match error {
            SolveError::SourceIsTarget { .. } => Failure::usage(error),
            SolveError::Unreachable { .. } => Failure::input(&self.path, error),
            error => Failure::new(Exit::Failed, error),
        }
    }
}
