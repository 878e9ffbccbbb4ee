//! What the programs `capillary`, `ror`, `netsim` and `sfio` have in common, so that a user of one knows all four:
//!
//! - [`arguments`]: what is said of a wrong command line;
//! - [`exit`]: one list of exit codes;
//! - [`failure`]: a failure is one line on standard error and an exit code;
//! - [`output`]: results go to standard output or a file, and a reader that has seen enough is no failure;
//! - [`table`]: aligned tables, and the same rows as CSV;
//! - [`quantity`]: sizes, rates, durations and shares as people type them;
//! - [`progress`]: one look for everything that takes its time;
//! - `chart` (feature `charts`): panels of curves as SVG or PNG;
//! - `picture` (feature `pictures`): SVG that a program has made, as SVG or PNG;
//! - `threads` (feature `threads`): threads for many jobs;
//! - [`install`]: the man pages and completions of an installed program;
//! - [`manual`] and [`reader`]: what tests ask of every program.
//!
//! Nothing here knows of routes, packets or files on a network. What a program prints is made by its own modules.

pub mod arguments;
#[cfg(feature = "charts")]
pub mod chart;
pub mod exit;
pub mod failure;
pub mod install;
pub mod manual;
pub mod output;
#[cfg(feature = "pictures")]
pub mod picture;
pub mod progress;
pub mod quantity;
pub mod reader;
pub mod table;
#[cfg(feature = "threads")]
pub mod threads;

pub use exit::{EXIT_CODES, Exit};
pub use failure::{Failure, OrFail, end};
pub use table::Table;

/// The first digits of the commit that a release build is made from, or `unknown`.
pub const COMMIT: &str = env!("PROGRAM_COMMIT");

/// What `--version` says behind a program's name. Debug builds do not tell the commit.
pub const VERSION: &str = concat!(env!("CARGO_PKG_VERSION"), " (", env!("PROGRAM_COMMIT_TOLD"), ")");
