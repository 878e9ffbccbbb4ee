//! Capillary routing: flows spread over a network layer by layer, so that no link carries more than it must.
//!
//! Of all unit flows from a source to a target, the capillary routing is the one whose link loads, sorted from the
//! largest down, are lexicographically smallest [theory §1]. Its first layer is the best split of the flow; each
//! further layer does the same for the links that the ones before have left free.
//!
//! ```
//! use capillary::{Orientation, Topology};
//!
//! let links = [("s", "a", 1.0), ("s", "b", 1.0), ("a", "t", 1.0), ("b", "c", 1.0), ("c", "t", 1.0), ("b", "t", 1.0)];
//! let topology = Topology::from_links(Orientation::Directed, links)?;
//! let (source, target) = (topology.node("s").unwrap(), topology.node("t").unwrap());
//!
//! let routing = capillary::solve(&topology, source, target)?;
//! let layers: Vec<(f64, usize)> = routing.layers().iter().map(|layer| (layer.load, layer.links)).collect();
//! assert_eq!(layers, [(0.5, 3), (0.25, 3)]);
//!
//! for path in routing.paths(8, 1.0).paths {
//!     println!("{:.3} over {:?}", path.weight, path.links);
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Citations `[theory §n]` and `[design §n]` are explained in docs/architecture.md, `[thesis §n]` is E. Gabrielyan,
//! *Parallel communications*, EPFL.

pub mod baseline;
mod certificate;
#[cfg(feature = "cli")]
pub mod cli;
mod convert;
mod cut;
mod double;
pub mod draw;
#[cfg(feature = "exact")]
pub mod exact;
#[cfg(feature = "formats")]
pub mod format;
mod lookup;
#[cfg(feature = "lp")]
pub mod lp;
pub mod matrix;
mod minimum_cost;
mod network;
mod paths;
pub mod reference;
mod routing;
pub mod schedule;
mod solver;
mod split;
mod topology;

pub use certificate::{Certificate, CertificateError, Step};
pub use cut::{MinimumCut, minimum_cut};
pub use lookup::{LookupError, find_node};
pub use paths::{Paths, WeightedPath};
pub use routing::{Layer, LinkUse, Routing, RoutingError};
pub use solver::{Arithmetic, Effort, Solution, SolveError, solve, solve_certified, solve_layers};
pub use split::{Split, Splits};
pub use topology::{Link, LinkId, Node, NodeId, Orientation, Position, Topology, TopologyError};
