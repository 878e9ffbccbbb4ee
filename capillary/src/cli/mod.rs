//! What the programs that work on topology files share: the arguments that name one.

mod input;
mod topology_file;

pub use input::{read, read_text};
pub use topology_file::{LoadError, TopologyFile, total_demand};
