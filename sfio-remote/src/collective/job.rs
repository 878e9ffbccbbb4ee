//! What a collective call is to do, and how.

use std::sync::Arc;

use bytes::Bytes;

use super::domains::Domains;
use super::shape::FileShape;
use crate::compression::Compression;
use crate::request::{ReadList, RegionsRead, WriteList};

/// When data goes by way of aggregators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum When {
    /// Always.
    Always,
    /// If the ranges from the first to the last byte of two ranks overlap. Else each rank has a range of its own, and
    /// aggregators would only move bytes that are in large pieces already.
    #[default]
    Interleaved,
    /// Never: each rank reads and writes its own.
    Never,
}

/// How collective calls are carried out; the same on all ranks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectiveConfig {
    /// How a file is shared out among aggregators. Default: by subfile.
    pub domains: Domains,
    /// When data goes by way of aggregators. Default: if ranks are interleaved.
    pub when: When,
    /// The most bytes that an aggregator has of one round. Default 16 MiB; the paper has 4 MiB. A round costs a message
    /// to and from each rank, and a request to the I/O node.
    pub buffer_bytes: u64,
    /// Whether a round is exchanged while another one is written or read, in a second buffer. Default: yes.
    pub double_buffering: bool,
    /// How run tables and data are packed on their way between ranks. Default: by the rule, which leaves them plain
    /// where the group says nothing of its rate. What goes to the I/O nodes is packed as the file was opened.
    pub compression: Compression,
    /// The most bytes that one rank may read in a call, because they are all held in memory. Default 4 GiB.
    pub read_bytes: u64,
}

impl Default for CollectiveConfig {
    fn default() -> CollectiveConfig {
        CollectiveConfig {
            domains: Domains::default(),
            when: When::default(),
            buffer_bytes: 16 << 20,
            double_buffering: true,
            compression: Compression::default(),
            read_bytes: 4 << 30,
        }
    }
}

/// What a rank does in a collective call. All ranks make the same call with lists of their own, which may be empty.
#[derive(Debug)]
pub enum Job {
    /// Write. Where the lists of ranks overlap, that of the highest rank counts.
    Write(Arc<FileShape>, WriteList),
    /// Read.
    Read(Arc<FileShape>, ReadList),
    /// Something that moves no data: each rank does its part, and all are told what came of it.
    Perform {
        /// What it is, in words that are the same on all ranks.
        words: String,
    },
}

/// What a collective call brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// All ranks have written.
    Written,
    /// What this rank has read.
    Read(RegionsRead),
    /// What each rank had to tell, by rank.
    Performed(Vec<Bytes>),
}

impl Job {
    /// The call in words, with all that must be equal on all ranks.
    pub(super) fn words(&self, call: u64, config: &CollectiveConfig) -> String {
        let (verb, shape) = match self {
            Job::Write(shape, _) => ("write", shape),
            Job::Read(shape, _) => ("read", shape),
            Job::Perform { words } => return format!("call {call}, {words}"),
        };
        let CollectiveConfig { domains, when, buffer_bytes, double_buffering, .. } = config;
        let buffers = if *double_buffering { "two buffers" } else { "one buffer" };
        format!("call {call}, {verb} {shape}; {domains:?}, {when:?}, {buffers} of {buffer_bytes} bytes")
    }

    pub(super) fn shape(&self) -> Option<&Arc<FileShape>> {
        match self {
            Job::Write(shape, _) | Job::Read(shape, _) => Some(shape),
            Job::Perform { .. } => None,
        }
    }
}
