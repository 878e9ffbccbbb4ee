//! Streams over many paths of an overlay at once, with forward error correction.
//!
//! Under construction.

pub mod application;
mod circuit;
pub mod config;
mod crypto;
pub mod event;
#[cfg(feature = "io")]
pub mod io;
pub mod keys;
mod neighbour;
pub mod node;
pub mod overlay;
pub mod plan;
mod session;
#[cfg(feature = "sim")]
pub mod sim;
pub mod time;
mod wire;

pub use application::Application;
pub use circuit::DatagramCounters;
pub use config::Config;
pub use event::{CloseReason, ConnectError, Event, SessionId, StreamError, StreamId};
pub use node::{Ingress, Node, SessionStatus, Transmit};
pub use session::{Delivery, PathCounters, PathId, PathState, PathStatus, Read};
pub use time::Time;
