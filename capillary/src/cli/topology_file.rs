//! The arguments that name a topology file and say how to read it.

use std::io;
use std::path::{Path, PathBuf};

use crate::Orientation;
use crate::format::{Format, Loaded, ReadError, ReadOptions, read};
use crate::matrix::LARGEST_AMOUNT;

/// A topology file on the command line.
#[derive(Debug, clap::Args)]
pub struct TopologyFile {
    /// The topology file: GML, GraphML, SNDlib XML or native, node-link JSON, DOT, CSV, Repetita, CAIDA relationships,
    /// Rocketfuel maps, lists of links; - for standard input
    #[arg(value_name = "FILE")]
    path: PathBuf,
    /// The format of the topology file, if its content does not tell
    #[arg(long, value_name = "FORMAT")]
    input_format: Option<Format>,
    /// The attribute that holds the links' capacity; without it every link has capacity 1
    #[arg(long, value_name = "ATTR")]
    capacity: Option<String>,
    /// The capacity of links that have none, or one of 0 or less
    #[arg(long, value_name = "X", requires = "capacity", value_parser = positive)]
    default_capacity: Option<f64>,
    /// The attribute that holds the links' metric (IGP weight), in which the shortest paths of the baselines are
    /// measured; without it 1 each
    #[arg(long, value_name = "ATTR")]
    metric: Option<String>,
    /// The attribute that holds the links' delay, in ms or with a unit (5us, 0.1s); without it delay_ms, where links
    /// have it
    #[arg(long, value_name = "ATTR")]
    delay: Option<String>,
    /// Read links as one-way, whatever the file says
    #[arg(long, conflicts_with = "undirected")]
    directed: bool,
    /// Read links as two-way, whatever the file says
    #[arg(long)]
    undirected: bool,
}

/// Why there is no topology.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error(transparent)]
    File(#[from] io::Error),
    /// It is no topology.
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl TopologyFile {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads it.
    ///
    /// # Errors
    /// [`LoadError`] if it cannot be read or is no topology.
    pub fn load(&self) -> Result<Loaded, LoadError> {
        let bytes = super::input::read(&self.path)?;
        let orientation = match (self.directed, self.undirected) {
            (true, _) => Some(Orientation::Directed),
            (_, true) => Some(Orientation::Undirected),
            _ => None,
        };
        let options = ReadOptions {
            format: self.input_format,
            capacity: self.capacity.clone(),
            default_capacity: self.default_capacity,
            metric: self.metric.clone(),
            delay: self.delay.clone(),
            orientation,
        };
        Ok(read(&bytes, &options)?)
    }
}

/// The sum of all demands of a matrix that is made, as clap's value parsers have it.
///
/// # Errors
/// If `text` is no number above 0, or one that is too large for a matrix.
pub fn total_demand(text: &str) -> Result<f64, String> {
    let total = text.parse::<f64>().ok().filter(|total| *total > 0.0 && *total <= LARGEST_AMOUNT);
    total.ok_or_else(|| format!("expected a number above 0 and at most {LARGEST_AMOUNT:e}"))
}

fn positive(text: &str) -> Result<f64, String> {
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite() && *value > 0.0);
    value.ok_or_else(|| "expected a number above 0".into())
}
