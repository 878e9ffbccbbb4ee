//! Collective calls for programs: groups whose ranks are tasks and threads ([`local_group`]), processes of a machine
//! ([`join_group`]), of several machines of a cluster ([`join_group_at`]), whoever is reached by messages
//! ([`join_group_over`]) or whatever a [`Link`] joins, and striped files that a group has open together.
//!
//! ```no_run
//! use sfio_remote::collective::CollectiveConfig;
//! use sfio_remote::io::collective::{CollectiveFile, local_group};
//! use sfio_remote::io::{OpenOptions, SfioClient};
//! use sfio_remote::request::WriteList;
//!
//! # async fn run(client: SfioClient) -> Result<(), Box<dyn std::error::Error>> {
//! // Four ranks, each a task of its own; record i of the file is of rank i mod 4.
//! let ranks = local_group(4).into_iter().map(|member| {
//!     let client = client.clone();
//!     tokio::spawn(async move {
//!         let (options, name) = (OpenOptions::new(), "io1,a;io2,a".parse().expect("a right name"));
//!         let config = CollectiveConfig::default();
//!         let file = CollectiveFile::open(&member, &client, &options, &name, config).await?;
//!         let rank = u64::from(member.rank().0);
//!         let records = (0..1_000).map(|i| ((4 * i + rank) * 8, "8 bytes.".into()));
//!         let report = file.write_all(WriteList::new(records).expect("possible")).await?;
//!         file.close().await?;
//!         Ok::<_, sfio_remote::collective::CollectiveError>(report)
//!     })
//! });
//! for rank in ranks.collect::<Vec<_>>() {
//!     println!("{:?}", rank.await??);
//! }
//! # Ok(())
//! # }
//! ```

mod file;
mod inbox;
mod join;
mod local;
mod machines;
mod member;
mod messages;
mod processes;

pub use file::CollectiveFile;
pub use join::JoinError;
pub use local::local_group;
pub use machines::join_group_at;
pub use member::{GroupMember, Link};
pub use messages::{join_group_over, limits_for_group};
pub use processes::join_group;
