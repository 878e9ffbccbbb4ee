//! Streams over many paths of an overlay at once, with forward error correction.

pub mod application;
pub mod config;
#[cfg(feature = "io")]
pub mod io;
pub mod keys;
pub mod node;
pub mod overlay;
pub mod time;

pub use application::Application;
pub use config::Config;
pub use time::Time;
