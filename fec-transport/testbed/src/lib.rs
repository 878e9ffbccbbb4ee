//! What fec-transport is tried on. The program `fec-testbed` runs all of it; docs/scenarios.md is its manual.
//!
//! In virtual time, where a simulation is a function of its seed and [`trace hashes`](scenario::Outcome::trace_hash) of
//! equal runs are equal:
//!
//! - [`scenario`]: a network, flows, and what happens to them, written down in TOML and measured;
//! - [`swarm`]: one seed draws an overlay, its limits, its traffic and its faults; nothing wrong may arrive, and in the
//!   end everything must;
//! - [`failures`]: each link of a plan fails in turn, and what is sent on account of it is compared with the Redundancy
//!   Overall Requirement.
//!
//! In real time, on loopback:
//!
//! - [`processes`]: members of an overlay and their competitors as processes of their own, on emulated links or with
//!   nothing in between.

mod content;
pub mod failures;
pub mod output;
pub mod processes;
pub mod scenario;
pub mod swarm;

pub use scenario::{Outcome, Scenario, ScenarioError};
