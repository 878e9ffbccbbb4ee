//! What the programs that work on topology files share: the arguments that name one.

mod topology_file;

pub use topology_file::{LoadError, TopologyFile};
