//! SFIO: one file striped over several I/O nodes, read and written as one.
#![doc = "Under construction."]

pub mod distribution;
pub mod name;
pub mod remote_error;
pub mod request;
pub mod wire;
