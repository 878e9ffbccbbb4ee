//! Disks, clocks and tasks: striped files on real members of a real overlay.
//!
//! [`SfioMember`] runs a member's process: an endpoint of fec-transport with an
//! [`SfioApplication`](crate::application::SfioApplication) on it, and a [`DiskStore`] if it serves subfiles.
//! [`SfioClient`] and [`StripedFile`] are what programs use:
//!
//! ```no_run
//! use std::sync::Arc;
//!
//! use fec_transport::io::EndpointConfig;
//! use fec_transport::{keys::Identity, overlay::Overlay};
//! use sfio_remote::distribution::StripeUnit;
//! use sfio_remote::io::{MemberConfig, SfioMember, StripedFile};
//!
//! # async fn run(overlay: Overlay, identity: Identity) -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = EndpointConfig::new(Arc::new(overlay), identity);
//! let member = SfioMember::start(endpoint, MemberConfig::default()).await?;
//! let name = "io1,/tmp/a1.dat;io2,/tmp/a2.dat;".parse()?;
//! let file = StripedFile::create(member.client(), &name, StripeUnit::new(5)?).await?;
//! file.write_at(0, "Hello World").await?;
//! file.sync_all().await?;
//! assert_eq!(file.read_at(6, 100).await?, "World");
//! member.shutdown().await?;
//! # Ok(())
//! # }
//! ```

pub mod blocking;
mod client;
mod codecs;
pub mod collective;
mod disk;
mod file;
mod member;
#[cfg(feature = "config")]
pub mod membership;
mod observer;
mod patience;
mod random;
#[cfg(feature = "replication")]
pub mod replication;
#[cfg(feature = "sim-io")]
pub mod sim;
mod submission;
mod threads;

pub use client::{FileError, Patient, SfioClient};
pub use disk::{DiskStore, ExportError, IdentityError, Quotas};
pub use file::{OpenOptions, StripedFile};
pub use member::{MemberConfig, SfioMember, StartError};
pub use observer::{DiskAccess, Observer, Transfer};
pub use patience::{MayPass, OutageNews, Patience, Waited, Waiting};
pub use submission::Submission;
