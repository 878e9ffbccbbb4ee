//! Which routes sessions take, and what becomes of each: one machine of five parts.
//!
//! - [`plan`]: the capillary routing over the members that relay for us, as a few weighted paths;
//! - [`dialler`]: the routes of the sessions that this node opens, planned ones and detours, and what to do next;
//! - [`route`]: which circuit a route has, and when to try again;
//! - [`opening`]: the handshakes of a session that is being opened;
//! - [`detour`]: which links are dead, from the pattern of the routes that are.
//!
//! A plan is work for the processor, so it is a job: the dialler asks for it ([`job::PlanJob`]), whoever drives the
//! node computes it on any thread, and the dialler takes the result. Nothing waits for it but the session whose routes
//! they are.

pub(crate) mod detour;
pub(crate) mod dialler;
pub(crate) mod job;
pub(crate) mod opening;
pub mod plan;
mod route;
