//! Sockets, clocks and tasks: what drives a [`Node`](crate::node::Node) and an
//! [`Application`](crate::application::Application) on tokio.
//!
//! Everything in this crate that touches the operating system is here, and no protocol logic is (design §2): the
//! control plane on QUIC, the data plane's socket, one driver per process that carries messages, datagrams and times to
//! the node and back, on a thread of its own, and [`Endpoint`], which puts them together.
//!
//! ```no_run
//! # use std::sync::Arc;
//! # use fec_transport::io::{Endpoint, EndpointConfig};
//! # async fn run<A>(overlay_text: &str, key_text: &str, app: A) -> Result<(), Box<dyn std::error::Error>>
//! # where A: fec_transport::Application<Command = ()> + Send + 'static {
//! let overlay = Arc::new(fec_transport::overlay::Overlay::parse(overlay_text)?);
//! let identity = fec_transport::keys::Identity::from_text(key_text)?;
//! let endpoint = Endpoint::start(EndpointConfig::new(overlay, identity), app, |_outcome| {}).await?;
//! endpoint.handle().command(()).await?;
//! let _app = endpoint.shutdown().await?;
//! # Ok(())
//! # }
//! ```

mod arrivals;
mod carrier;
mod clock;
mod codec_pool;
mod control;
mod data;
mod data_plane;
mod driver;
mod drop_log;
mod endpoint;
#[cfg(unix)]
pub mod files;
pub mod message;
mod outbox;
mod sockets;
#[cfg(test)]
mod testing;
mod tls;
mod uplinks;
mod watched;

pub use data::DataCounts;
#[cfg(feature = "sim")]
pub use endpoint::Commands;
pub use endpoint::{Endpoint, EndpointConfig, EndpointEnded, EndpointError, Handle, ReloadError};
pub use sockets::{BindError, Plane, Sockets};
pub use tls::TlsError;
