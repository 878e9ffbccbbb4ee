//! A network in memory, under the same state machines as in production: as fast as a function call for the tests of
//! each, or with delays and faults for whole clusters (`io::sim`).

mod dice;
mod machine;
mod network;

pub use dice::Dice;
pub use machine::{Machine, Speed};
pub use network::{Network, Port, Side, Signal, identity_of};
