//! Messages between processes, over several networks: a buffered message interface, after P. Carns, W. Ligon, R. Ross
//! and P. Wyckoff, *BMI: A Network Abstraction Layer for Parallel I/O*, 2005.
//!
//! An operation is *posted*, and *tested* until it is complete; a post may say at once that it is. A message is paired
//! with a receive of its sender and [`Tag`], in order; an *unexpected* message needs no receive. Callers that share a
//! [`Messenger`] tell their operations apart by [`ContextId`], and find their own business again by a user pointer. A
//! message may lie in any number of pieces on both sides. Nothing is sent again by this interface: when a peer is lost,
//! what is pending with it fails, on both sides.
//!
//! ```text
//!   post_send ──────▶ ┌───────────┐ ──▶ what a carrier is to do ──▶ ┌──────────┐
//!   post_receive ───▶ │ Messenger │                                 │  fec,    │ ◀──▶ the peer's messenger
//!   test… ◀────────── └───────────┘ ◀── frames, bytes, ends ◀────── │  memory… │
//!                                                                   └──────────┘
//! ```
//!
//! A message of up to 16 KiB (32 KiB over `quic`, 256 KiB over `memory`) travels with its envelope, *eagerly*, as far
//! as the window of the receiving side lets it; a longer one is offered, and its bytes come once a receive is there for
//! them. The window bounds what a peer may have here that nobody has taken ([`Limits`]).
//!
//! Nothing here does I/O. `io::message` has the faces for programs, `docs/messages.md` the model and when to use what.
//!
//! ```
//! use fec_transport::Time;
//! use fec_transport::message::memory::Exchange;
//! use fec_transport::message::{Caller, Limits, Posted, Room, Shared, Tag};
//!
//! let exchange = Exchange::new();
//! let [client, server] = [(); 2].map(|()| Shared::new(Limits::default()));
//! let ports = [exchange.join("client", &client, || {})?, exchange.join("server", &server, || {})?];
//!
//! let context = client.lock().open_context();
//! let to = client.lock().look_up("memory://server")?;
//! let request = vec!["how ".into(), "many?".into()];
//! let posted = client.lock().post_send_unexpected(Time::ZERO, to, Tag(1), request, Caller::new(context))?;
//! ports.iter().for_each(|port| port.carry());
//!
//! let request = server.lock().test_unexpected(1).pop().expect("it has come");
//! assert_eq!(request.bytes, "how many?");
//! assert_eq!(server.lock().reverse_look_up(request.from), Some("memory://client"));
//! # let Posted::Pending(operation) = posted else { panic!("it had to connect first") };
//! # assert!(client.lock().test(operation)?.is_some());
//! # let room = Room::of([1]);
//! # assert_eq!(room.size(), 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod budget;
mod contexts;
pub mod fec;
mod incoming;
mod link;
mod matching;
pub mod memory;
mod messenger;
mod module;
mod operation;
mod outgoing;
#[cfg(feature = "io")]
pub(crate) mod quic;
mod room;
mod shared;
#[cfg(test)]
mod tests;
mod transfer;

pub use address::AddressError;
pub use budget::Limits;
pub use incoming::Breach;
pub use link::LinkId;
pub use messenger::{Bounds, Caller, Messenger};
pub use module::Module;
#[cfg(feature = "io")]
pub(crate) use module::Output;
pub use operation::{
    AddressId, Completion, ContextId, Hints, NoOperation, OperationError, OperationId, PostError, Posted,
    Tag, Unexpected, Urgency,
};
pub use room::{Lent, Room};
pub use shared::Shared;

/// The formats, for those who carry messages over sockets, and what frames are put together in.
#[cfg(feature = "io")]
pub(crate) use crate::wire::{message as wire, pieces::Pieces};
