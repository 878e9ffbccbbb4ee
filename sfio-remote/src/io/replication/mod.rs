//! Data sets between trees on disks and sites in an overlay: what `sfio sync` does.
//!
//! ```text
//! Walk ─▶ Survey (what has changed) ─▶ Cutter (a thread) ─▶ send ─▶ SiteStore ─▶ commit record
//! Walk of the target ─▶ Survey ─▶ restore ◀─ ReadAhead ◀─ SiteStore
//! ```

mod cache;
mod cutter;
mod filter;
mod memory_store;
mod meter;
mod place;
mod planting;
mod prefetch;
mod read_ahead;
mod restore;
mod send;
mod site_store;
mod spool;
mod store;
mod survey;
mod throttle;
mod tree;
mod walk;

pub use cache::ManifestCache;
pub use filter::{BadPattern, Filter};
pub use memory_store::{MemoryStore, MemoryStoreError};
pub use meter::{Meter, Phase};
pub use place::Place;
pub use read_ahead::ReadAhead;
pub use restore::{RestoreOptions, restore};
pub use send::{Deletion, SendOptions, Sent, send};
pub use site_store::{SiteStore, SiteStoreError};
pub use spool::ManifestFile;
pub use store::{Locked, Objects, ReplicationError, Store, fetch_manifest, load_commit};
pub use survey::{Change, Summary};
pub use throttle::Throttle;
pub use tree::Tree;
pub use walk::{Attributes, Problem, Walk};
