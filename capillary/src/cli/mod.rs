//! What the programs that work on topology files share: the arguments that name one, and tables.

mod table;
mod topology_file;

pub use table::{Table, number, quote};
pub use topology_file::{LoadError, TopologyFile};
