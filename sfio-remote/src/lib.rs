//! SFIO: one file striped over several I/O nodes, read and written as one.
#![doc = "Under construction."]

pub mod application;
pub mod client;
pub mod distribution;
#[cfg(feature = "io")]
pub mod io;
pub mod io_node;
pub mod name;
pub mod remote_error;
pub mod request;
pub mod store;
#[cfg(test)]
mod testing;
pub mod transport;
pub mod wire;
