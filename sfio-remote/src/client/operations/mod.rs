//! All that a client does with striped files: each operation is a struct of what the caller says, with its answer's
//! type, and its plan.

mod close;
mod dataset;
mod error_counters;
mod growth;
mod open;
mod read;
mod remove;
mod rename;
mod set_length;
mod share;
mod stat;
mod sync;
mod write;

pub use close::Close;
pub use dataset::{List, Mark, Publish, Reclaim};
pub use error_counters::QueryErrorCounters;
pub use open::{Open, OpenMode, Opened};
pub use read::{Read, ReadUnopened};
pub use remove::Remove;
pub use rename::Rename;
pub use set_length::SetLength;
pub use share::{Attach, Keep, KeepTask, WriteShare};
pub use stat::Stat;
pub use sync::Sync;
pub use write::Write;
