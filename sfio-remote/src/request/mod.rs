//! From a caller's list of regions to transfers: the request path of the paper's figure 3.
//!
//! ```text
//!  patterns, or regions of the logical file, in the caller's memory
//!    │                                                           the paper's names
//!    │  distribution::extents                                    mrw
//!    ▼
//!  RequestCache: one entry per (I/O node, subfile)               sfp_rdwrc, 2D cache
//!    │  flush, at the end of the call
//!    ├─ sort:   by offset in the subfile                         sortcache
//!    ├─ merge:  overlapping and touching requests joined         bkmerge
//!    ▼
//!  SubfileAccess
//!    ├─ batch:  a run table for as much as one transfer carries  sfp_readb, sfp_writeb
//!    └─ gather: the caller's memory as one stream, or scatter    mkbset
//! ```
//!
//! All of it handles offsets and lengths only. The data stays where the caller put it until it is copied into the
//! transport's source blocks. `[sfio §3]`, `[thesis §2.7]`

mod access;
mod cache;
mod gather;
mod list;
mod merge;
mod pattern;
mod plan;
mod sort;

pub use access::{Batch, Cursor, SubfileAccess};
pub use cache::RequestCache;
pub use gather::{DIRECT_BYTES, STAGING_BYTES, Staging, collect, gather};
pub use list::{FileView, Granularity, ListError, ReadBuffer, ReadList, RegionsRead, WriteList};
pub use pattern::{Joined, Pattern, PatternError, Pieces};
pub use plan::Plan;

pub use crate::wire::Run;

/// The position of a region in the caller's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RegionIndex(u32);

impl RegionIndex {
    fn index(self) -> usize {
        self.0 as usize
    }
}

/// A contiguous extent of one subfile that belongs to one region of the caller's list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Segment {
    start: u64,
    length: u64,
    region: RegionIndex,
}

impl Segment {
    fn end(&self) -> u64 {
        self.start + self.length
    }

    fn between(start: u64, end: u64, region: RegionIndex) -> Segment {
        Segment { start, length: end - start, region }
    }
}

#[cfg(test)]
mod tests;
