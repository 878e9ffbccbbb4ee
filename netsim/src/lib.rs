//! The network that everything is tried on.
//!
//! - [`Link`]: one direction of a link as a state machine: queue, rate, delay and jitter, loss. [`LinkModel`] has its
//!   parameters.
//! - [`Simulator`]: nodes and links in virtual time. A simulation is a function of its seed; a hash of its trace proves
//!   it.
//! - [`mobility`]: mobile ad-hoc networks, frame by frame as topologies.
//! - `emulator::Emulator` (feature `emulator`): the same links between real UDP sockets on loopback, in real time.
//!
//! It moves opaque packets and knows nothing of what is in them.
//!
//! ```
//! use std::time::Duration;
//! use netsim::{Event, LinkModel, Probability, Rate, Simulator};
//!
//! let mut simulator = Simulator::new(42);
//! let alice = simulator.add_node("alice");
//! let bob = simulator.add_node("bob");
//! let model = LinkModel::new(Rate::from_mbit(100), Duration::from_millis(20))
//!     .with_loss(Probability::new(0.1)?);
//! let link = simulator.add_link(alice, bob, model.clone(), model);
//!
//! for number in 0..100_u8 {
//!     simulator.send(alice, link, vec![number; 1_400]);
//! }
//! let mut received = 0;
//! while let Some(event) = simulator.step() {
//!     received += usize::from(matches!(event, Event::Packet { node, .. } if node == bob));
//! }
//! assert_eq!(received as u64, simulator.counters(link, alice).delivered);
//! assert!((80..100).contains(&received));
//! # Ok::<(), netsim::UnitError>(())
//! ```

mod agenda;
#[cfg(feature = "emulator")]
pub mod emulator;
mod link;
mod loss;
pub mod mobility;
mod simulator;
mod stream;
mod units;

pub use link::{
    DEFAULT_QUEUE_TIME, DropCause, HoldBack, IPV4_UDP_HEADER_BYTES, Link, LinkCounters, LinkModel, Passage,
    Policer, Transit,
};
pub use loss::{BurstError, GilbertElliott, LossModel, LossTrace, LossTraceError};
pub use simulator::{CONTROL_BREAKS_AFTER, Change, Event, LinkId, NodeId, Simulator};
pub use stream::random_stream;
pub use units::{Probability, Rate, UnitError};
