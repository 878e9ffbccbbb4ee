//! The maxima and minima that more than one part of the protocol keeps to.
//!
//! They bound what travels: what a peer sends beyond them is malformed. Limits that a user may change stand in
//! [`Config`](crate::Config), whose check compares them with these.

/// The longest name of a member, in bytes.
pub(crate) const MAX_NAME: usize = 64;
/// The most members of a route that can be written down, both ends included;
/// [`Limits::max_route`](crate::config::Limits) may allow fewer.
pub(crate) const MAX_ROUTE: usize = 64;
/// The most paths that one report describes.
pub(crate) const MAX_REPORTED_PATHS: usize = 32;

/// The most source symbols of a Reed–Solomon block: of 256 symbols at least 32 are left for repair.
pub(crate) const MAX_REED_SOLOMON: usize = 224;
/// The fewest source symbols of a RaptorQ block (design §6).
pub(crate) const MIN_RAPTORQ: usize = 64;
/// The most source symbols of a RaptorQ block (design §6).
pub(crate) const MAX_RAPTORQ: usize = 1_024;
/// How far the newest block of a session may be ahead of the oldest open one.
pub(crate) const MAX_BLOCK_SPAN: u32 = 8_192;

/// A path is never paced below this, bit/s: five packets a second keep its measurements alive.
pub(crate) const MIN_RATE: f64 = 60e3;
