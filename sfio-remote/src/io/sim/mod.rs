//! A cluster in virtual time under the real client: [`SfioClient`](super::SfioClient)s of processes that can be stopped
//! and killed, real state machines of clients and I/O nodes, a network with delays and outages, disks in memory.
//!
//! It lives on a current-thread runtime of tokio whose clock is paused. Nothing in it looks at another clock or draws
//! numbers but from its seed, so that with equal seeds the same happens:
//!
//! ```
//! use std::time::Duration;
//! use sfio_remote::io::sim::{Cluster, ClusterConfig, run};
//! use sfio_remote::io::StripedFile;
//!
//! let elapsed = run(async {
//!     let cluster = Cluster::start(ClusterConfig::new(&["client", "io1"], 7));
//!     cluster.world().serve("io1").expect("a new export root");
//!     let process = cluster.process("client");
//!     let name = "io1,a.dat;".parse().expect("a name");
//!     let file = StripedFile::create(process.client(), &name, Default::default()).await.expect("created");
//!     file.write_at(0, "Hello").await.expect("written");
//!     cluster.world().after(Duration::ZERO, |world| world.lose_power("io1"));
//!     tokio::time::sleep(Duration::from_millis(1)).await;
//!     cluster.elapsed()
//! });
//! assert!(elapsed < Duration::from_secs(1));
//! ```

mod channels;
mod cluster;
mod process;
mod world;

pub use cluster::{Cluster, ClusterConfig, run};
pub use process::Process;
pub use world::World;
