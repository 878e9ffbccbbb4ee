//! Members of an overlay and competitors as processes of their own, and the tables of what they did.
//!
//! A program that measures starts itself again for each process, with a [`Job`](job::Job) on the standard input. The
//! child says `ready`, then answers each line with a [`Snapshot`](snapshot::Snapshot); the end of its input ends it.
//! What a row tells is the difference of two snapshots.

mod bare;
mod bulk;
pub mod child;
mod competitor;
pub mod emulated;
pub mod job;
mod member;
mod messages;
pub mod overlay;
pub mod row;
pub mod snapshot;
pub mod tls;
