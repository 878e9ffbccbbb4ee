//! Virtual time: a network in memory under the same state machines as in production, and whole clusters.
//!
//! [`Network`] has sessions and streams only: as fast as a function call for the tests of each state machine, or with
//! delays and faults beneath the asynchronous client (`io::sim`). [`Cluster`] has everything: packets on links, nodes
//! of fec-transport, clients, and I/O nodes with [disks and processors](ClusterConfig) that take their time.
//! [`Machine`] is a cluster of computers with its switches, and [`Scaling`] measures what striped files move in it.

mod cluster;
mod codecs;
mod dice;
mod hosted;
mod machine;
mod models;
mod network;
mod scaling;

pub use cluster::{Cluster, ClusterConfig, Disk, Host, Ranks};
pub use codecs::{CodecModel, Speed};
pub use dice::Dice;
pub use hosted::Hosted;
pub use machine::{Machine, Traffic};
pub use models::{DiskModel, DiskPace, ProcessorModel};
pub use network::{Network, Port, Side, Signal, identity_of};
pub use scaling::{Job, Measured, Scaling};
