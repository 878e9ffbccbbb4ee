//! Streams over many paths of an overlay at once, with forward error correction.
//!
//! A [`Node`] is one process of one member of an overlay ([`overlay::Overlay`]). It opens sessions to other members;
//! a session's streams are cut into source blocks, each block is sent as encoding symbols over all paths of the session
//! at once, and what is lost is repaired by further symbols of the same block. Paths are circuits through relays, which
//! see labels and nothing else. Everything is sealed end to end from the first byte; there is no other mode.
//!
//! The core does no I/O: [`Node`] gets the time, messages and datagrams, and gives back what to send and when to be
//! woken. An [`Application`] on top of it is driven in the same way. Two things drive them: `io::Endpoint` (feature
//! `io`) on tokio with real sockets, and `sim::World` (feature `sim`) in virtual time, where a simulation is a function
//! of its seed.
//!
//! ```
//! # #[cfg(feature = "sim")] {
//! use std::time::Duration;
//! use fec_transport::sim::{LinkSpec, Scene, World};
//! use fec_transport::{Application, Config, Event, Node, Read, Time};
//!
//! /// Prints what it receives.
//! #[derive(Default)]
//! struct Printer(Vec<u8>);
//!
//! impl Application for Printer {
//!     type Command = ();
//!     type Outcome = ();
//!     fn handle_event(&mut self, now: Time, node: &mut Node, event: Event) {
//!         match event {
//!             Event::SessionOpened { session, incoming: false, .. } => {
//!                 let stream = node.open_stream(session).expect("a new session has room");
//!                 node.write(now, stream, b"over three paths").expect("the stream is open");
//!                 node.finish(now, stream).expect("the stream is open");
//!             }
//!             Event::Readable { stream } => {
//!                 while let Ok(Read::Data { bytes, .. }) = node.read(now, stream, usize::MAX) {
//!                     self.0.extend_from_slice(&bytes);
//!                 }
//!             }
//!             _ => {}
//!         }
//!     }
//!     fn handle_command(&mut self, now: Time, node: &mut Node, (): ()) {
//!         let server = node.overlay().find("server").expect("it is in the scene");
//!         node.connect(now, server).expect("there is a path");
//!     }
//!     fn handle_timeout(&mut self, _: Time, _: &mut Node) {}
//!     fn next_timeout(&self) -> Option<Time> { None }
//!     fn poll_outcome(&mut self) -> Option<()> { None }
//! }
//!
//! let link = LinkSpec::new(20, Duration::from_millis(10)).with_loss(0.05);
//! let mut scene = Scene::new().client("client").server("server");
//! for relay in ["r1", "r2", "r3"] {
//!     scene = scene.relay(relay).link("client", relay, &link).link(relay, "server", &link);
//! }
//! let mut world = World::new(&scene, Config::default(), 1, |_, _| Printer::default());
//! let (client, server) = (world.member("client"), world.member("server"));
//! world.command(client, ());
//! assert!(world.run_until(Duration::from_secs(5), |world| world.application(server).0 == b"over three paths"));
//! # }
//! ```

#[cfg(any(feature = "io", feature = "sim"))]
mod addresses;
pub mod application;
mod circuit;
pub mod config;
mod crypto;
pub mod event;
#[cfg(any(test, feature = "fuzzing"))]
#[doc(hidden)]
pub mod fuzzing;
#[cfg(feature = "io")]
pub mod io;
pub mod keys;
mod limits;
pub mod message;
mod neighbour;
pub mod node;
pub mod overlay;
mod routes;
mod session;
pub mod shares;
#[cfg(feature = "sim")]
pub mod sim;
pub mod time;
mod transmit;
mod wire;

pub use application::Application;
pub use circuit::{CircuitCounters, CircuitPart, CircuitStatus, DatagramCounters};
pub use config::{Config, ConfigError};
pub use crypto::random::{RandomSource, Randomness};
pub use event::{CloseReason, ConnectError, Event, SessionId, StreamError, StreamId};

pub use neighbour::{NeighbourStatus, Unreached};
pub use node::{Ingress, Node, SessionStatus};
pub use routes::job::{Plan, PlanJob};
pub use routes::plan;
pub use session::{
    Class, Delivery, Gap, Job, JobResult, PathCounters, PathId, PathState, PathStatus, Read, ReceiveCounters,
    SendCounters,
};
pub use time::Time;
pub use transmit::{Ecn, Transmit};
pub use wire::{SYMBOL_OVERHEAD, payload_share};
