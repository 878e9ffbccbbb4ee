//! Data sets between trees on disks and sites in an overlay: what `sfio sync` and its sisters do.
//!
//! ```text
//! Job: what every command has ─▶ Job::open (chain): the newest record, as the I/O nodes know it
//! Walk ─▶ Survey (what has changed) ─▶ Cutter (a thread) ─▶ send::Run ─▶ Job::publish: the next record
//!                                      └ Placer ─▶ ChunkPacker (threads)
//! Walk of the target ─▶ restore ─▶ Planter ◀─ ReadAhead ◀─ Objects ◀─ Reading
//! ```

mod amendments;
mod arrivals;
mod cache;
mod carrying;
mod catalog;
mod chain;
mod changes;
mod cutter;
mod dataset;
mod error;
mod expected;
mod filter;
mod holdings;
mod ignore_files;
mod job;
mod manifests;
mod meter;
mod namesakes;
mod objects;
mod owners;
mod packer;
mod parts;
mod patterns;
mod placer;
mod planting;
mod prefetch;
mod publish;
mod read_ahead;
mod reading;
mod reclaim;
mod records;
mod removal;
mod repair;
mod restore;
mod selection;
mod send;
mod spool;
mod subtree;
mod survey;
mod throttle;
mod tree;
mod verify;
mod walk;

pub use amendments::{RolledBack, forget, roll_back};
pub use cache::ManifestCache;
pub use catalog::{Catalog, open_all};
pub use chain::View;
#[cfg(feature = "sim-io")]
pub use changes::{TreeChange, changes_heard, hear_changes};
pub use dataset::{DataSet, Site};
pub use error::{DamagedManifest, FailureKind, ReplicationError};
pub use filter::Filter;
pub use ignore_files::IGNORE_FILE;
pub use job::{Author, Job, PATIENCE};
pub use manifests::{fetch_manifest, load_manifest};
pub use meter::{Awaited, Meter, Phase, Wait};
pub use objects::{Objects, Source};
pub use patterns::BadPattern;
pub use read_ahead::ReadAhead;
pub use reading::Reading;
pub use removal::{remove, remove_unfinished};
pub use repair::{Repaired, repair};
pub use restore::{RestoreOptions, Wanted, restore};
pub use send::{Deletion, Mended, SendOptions, Sent, send};
pub use spool::ManifestFile;
pub use subtree::Subtree;
pub use survey::{Change, Summary};
pub use throttle::Throttle;
pub use tree::Tree;
pub use verify::{Finding, Verified, VerifyOptions, verify};
pub use walk::{Attributes, LeftOut, Problem, Walk};
