//! Work on codes that may be done elsewhere: it needs the processor, not the session.
//!
//! Whoever drives a node takes [`Job`]s from it, runs them on any thread, and hands the results back. An encoding that
//! comes too late is done in place when its first symbol is due; a decoding must come back some time.

use bytes::Bytes;

use super::block::{Geometry, ReceiveBlock, Stock};
use crate::event::SessionId;

/// A piece of work on codes; see [`Node::poll_job`](crate::Node::poll_job).
#[derive(Debug)]
pub struct Job {
    pub(crate) session: SessionId,
    pub(crate) work: Work,
}

/// What came out of a [`Job`], for [`Node::handle_job`](crate::Node::handle_job).
#[derive(Debug)]
pub struct JobResult {
    pub(crate) session: SessionId,
    pub(crate) done: Done,
}

#[derive(Debug)]
pub(crate) enum Work {
    Encode(EncodeJob),
    Decode(Box<ReceiveBlock>),
}

#[derive(Debug)]
pub(crate) enum Done {
    Encoded {
        block: u32,
        stock: Stock,
    },
    /// The bytes of the block, or the block itself if it needs more symbols.
    Decoded {
        block: u32,
        bytes: Result<Vec<u8>, Box<ReceiveBlock>>,
    },
}

/// Make the repair symbols of a block: `count` of them from the encoding id `first` on.
#[derive(Debug)]
pub(crate) struct EncodeJob {
    pub(crate) block: u32,
    pub(crate) geometry: Geometry,
    pub(crate) source: Bytes,
    pub(crate) first: usize,
    pub(crate) count: usize,
}

impl Job {
    /// Does the work.
    pub fn run(self) -> JobResult {
        let done = match self.work {
            Work::Encode(EncodeJob { block, geometry, source, first, count }) => {
                Done::Encoded { block, stock: Stock::make(geometry, &source, first, count) }
            }
            Work::Decode(block) => Done::Decoded { block: block.header().id, bytes: block.decode() },
        };
        JobResult { session: self.session, done }
    }
}
