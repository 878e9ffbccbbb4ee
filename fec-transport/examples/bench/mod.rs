//! What the benchmarks share: members and competitors as processes of their own, and the tables of what they did.
//!
//! A benchmark starts itself again for each process, with a [`Job`](job::Job) on the standard input. The child says
//! `ready`, then answers each line with a [`Snapshot`](snapshot::Snapshot); the end of its input ends it. What a row
//! tells is the difference of two snapshots.
#![allow(dead_code, reason = "each benchmark uses its part")]

/// The same as that of `sfio`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

mod bare;
pub(crate) mod bulk;
pub(crate) mod child;
pub(crate) mod competitor;
pub(crate) mod emulated;
pub(crate) mod job;
pub(crate) mod member;
pub(crate) mod overlay;
pub(crate) mod row;
pub(crate) mod snapshot;
pub(crate) mod tls;
