//! SFIO: one file striped over several I/O nodes, read and written as one.
//!
//! A striped file is named by its subfiles, `io1,/tmp/a.dat;io2,/tmp/a.dat;`, and a stripe unit of any size from one
//! byte up; nothing else about it is recorded anywhere. A call, even one with a million regions, becomes one sorted and
//! merged request for each I/O node, and the data travels as one stream straight from the caller's memory, over many
//! lossy paths of an overlay at once (`fec_transport`). `[sfio]`, `[thesis §2]`, design §7
//!
//! # Where to look
//!
//! | what | where |
//! |---|---|
//! | names of files, stripe units, which byte lies where | [`name`], [`distribution`] |
//! | from a caller's list to transfers | [`request`] |
//! | checksums beside the subfiles | [`sums`] |
//! | what client and I/O node say to each other | [`wire`], [`remote_error`] |
//! | the two state machines, and both as one application of a node | [`client`], [`io_node`], [`application`] |
//! | calls that all ranks of a parallel program make together | [`collective`] |
//! | what they need of a transport, and of a disk | [`transport`], [`store`] |
//! | what is compressed on the wire, and why | [`compression`] |
//! | formats of data sets, which I/O nodes check, too | [`replication`] |
//! | members, clients and files on tokio, subfiles on disks | `io` (feature `io`) |
//!
//! Everything outside of `io` does no I/O: it gets the time, the bytes and the results of disk operations as arguments.
//! So whole clusters run in virtual time, as a function of a seed:
//!
//! ```
//! use bytes::Bytes;
//! use fec_transport::sim::{LinkSpec, Scene, World};
//! use sfio_remote::application::{Command, Outcome, SfioApplication};
//! use sfio_remote::client::operations::Open;
//! use sfio_remote::client::{Action, Durability, OpenMode, OperationId};
//! use sfio_remote::compression::{Coder, Compression};
//! use sfio_remote::distribution::StripeUnit;
//! use sfio_remote::io_node::{AccessRules, IoNodeConfig, Right};
//! use sfio_remote::store::MemoryStore;
//! use std::time::Duration;
//!
//! let link = LinkSpec::new(20, Duration::from_millis(10)).with_loss(0.01);
//! let scene = Scene::new().client("c").relay("r").server("io1").link("c", "r", &link).link("r", "io1", &link);
//! let access = AccessRules::everyone(Right::ReadWrite);
//! let open_to_all = IoNodeConfig { access, ..IoNodeConfig::default() };
//! let mut world = World::new(&scene, Default::default(), 1, move |overlay, member| {
//!     match overlay.name(member).as_str() {
//!         "io1" => SfioApplication::serving(Default::default(), open_to_all.clone()),
//!         _ => SfioApplication::client(Default::default()),
//!     }
//! });
//! let mut disk = MemoryStore::default();
//! let (open, receipt) = Action::with_receipt(Open {
//!     name: "io1,a.dat".parse()?,
//!     stripe_unit: StripeUnit::DEFAULT,
//!     mode: OpenMode::Create,
//!     durability: Durability::OnFlush,
//!     compression: Compression::Never,
//! });
//! world.command(world.member("c"), Command::Start(OperationId(1), open));
//! let opened = loop {
//!     world.run_for(Duration::from_millis(1));
//!     for (member, outcome) in world.take_outcomes() {
//!         match outcome {
//!             Outcome::Disk(errand) => {
//!                 for result in errand.perform(|operation| operation.perform_on(&mut disk)) {
//!                     world.command(member, Command::Disk(result));
//!                 }
//!             }
//!             Outcome::Codec(job) => {
//!                 world.command(member, Command::Codec(job.perform(&mut Coder::default())));
//!             }
//!             Outcome::Completion(completion) => completion.deliver(),
//!         }
//!     }
//!     if let Some(result) = receipt.take() {
//!         break result?;
//!     }
//! };
//! assert_eq!(opened.stat.length(), 0);
//! assert_eq!(disk.content("a.dat"), Some(Vec::new()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod application;
pub mod client;
pub mod collective;
pub mod compression;
pub mod dataset;
pub mod distribution;
mod fair;
#[cfg(feature = "io")]
pub mod io;
pub mod io_node;
pub mod name;
mod progress;
pub mod remote_error;
pub mod replication;
pub mod request;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
pub mod store;
pub mod sums;
pub mod transport;
pub mod wire;
