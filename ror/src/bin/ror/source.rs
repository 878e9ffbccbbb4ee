//! The topology file that a command works on, and pairs of its nodes.

use std::path::PathBuf;

use capillary::cli::{LoadError, TopologyFile};
use capillary::{NodeId, SolveError, Topology, find_node};
use ror::{BlockError, BlockLaw, DEFAULT_DECODING_ERROR_RATE, DEFAULT_SOURCE_PACKETS};

use crate::failure::Failure;
use program::quantity::share;

#[derive(Debug, clap::Args)]
pub(crate) struct Source {
    #[command(flatten)]
    file: TopologyFile,
    /// Where the demand comes from: an id, else a label; id:X and label:X force one
    #[arg(long)]
    from: String,
    /// Where the demand goes
    #[arg(long)]
    to: String,
}

/// The block that a stream is coded in, and what it bears at all times.
#[derive(Debug, clap::Args)]
pub(crate) struct Coding {
    /// Static tolerances: the losses that the stream bears at all times, in [0, 1)
    #[arg(long, value_name = "T,…", value_delimiter = ',', default_value = "0.036,0.057,0.078", value_parser = share)]
    pub(crate) tolerances: Vec<f64>,
    /// M, the source packets of a block
    #[arg(long, default_value_t = DEFAULT_SOURCE_PACKETS)]
    pub(crate) m: u32,
    /// The wanted decoding error rate
    #[arg(long, default_value_t = DEFAULT_DECODING_ERROR_RATE)]
    pub(crate) der: f64,
}

impl Coding {
    /// The law; an argument that it refuses is a fault of usage.
    pub(crate) fn law(&self) -> Result<BlockLaw, BlockError> {
        let law = BlockLaw::new(self.m, self.der)?;
        self.tolerances.iter().try_for_each(|&tolerance| law.block_length(tolerance).map(|_| ()))?;
        Ok(law)
    }
}

/// A topology with the file that it came from, and the pair in question.
#[derive(Debug)]
pub(crate) struct Network {
    pub(crate) topology: Topology,
    pub(crate) from: NodeId,
    pub(crate) to: NodeId,
    path: PathBuf,
}

impl Source {
    /// Reads the file, and says on standard error what is odd about it.
    pub(crate) fn load(&self) -> Result<Network, Failure> {
        let path = self.file.path().to_path_buf();
        let topology = topology(&self.file)?;
        let find = |name: &str| {
            find_node(&topology, name).map_err(|error| Failure::Usage(format!("{}: {error}", path.display())))
        };
        let (from, to) = (find(&self.from)?, find(&self.to)?);
        Ok(Network { topology, from, to, path })
    }
}

/// Reads a topology file, and says on standard error what is odd about it.
pub(crate) fn topology(file: &TopologyFile) -> Result<Topology, Failure> {
    let path = file.path();
    let loaded = file.load().map_err(|error| match error {
        LoadError::File(error) => Failure::File(path.into(), error),
        LoadError::Read(error) => Failure::Read(path.into(), error),
    })?;
    for warning in loaded.warnings {
        program::output::note(format_args!("ror: {}: warning: {warning}", path.display()));
    }
    Ok(loaded.topology)
}

impl Network {
    pub(crate) fn id(&self, node: NodeId) -> &str {
        &self.topology.node_weight(node).id
    }

    /// What it means for the user that a pair cannot be solved.
    pub(crate) fn unsolvable(&self, error: SolveError) -> Failure {
        match error {
            SolveError::SourceIsTarget { .. } => Failure::Usage(error.to_string()),
            SolveError::Unreachable { .. } => Failure::Input(self.path.clone(), error.to_string()),
            error => Failure::Solve(error),
        }
    }
}
