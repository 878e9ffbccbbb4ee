//! The hash of everything that happened.

use std::time::Duration;

use super::event::{Event, LinkId, NodeId};
use crate::link::{DropCause, Passage};

/// BLAKE3 hashes many blocks at once much faster than one packet at a time, so entries are collected first.
const BUFFER_BYTES: usize = 64 * 1024;

/// A running BLAKE3 over one record per event and per packet offered.
///
/// A record is a tag byte, the time in ns (u128), two numbers (u64: the ids concerned; for an offer the outcome as
/// well) and the payload with its length in front, all little-endian: equal on every machine.
#[derive(Debug)]
pub(super) struct Trace {
    hasher: blake3::Hasher,
    buffer: Vec<u8>,
}

impl Trace {
    pub(super) fn new(seed: u64) -> Self {
        let mut trace = Self { hasher: blake3::Hasher::new(), buffer: Vec::with_capacity(BUFFER_BYTES) };
        trace.buffer.extend_from_slice(&seed.to_le_bytes());
        trace
    }

    pub(super) fn event(&mut self, now: Duration, event: &Event) {
        let node_and_link = |node: &NodeId, link: &LinkId| (u64::from(node.0), u64::from(link.0));
        let (tag, (first, second), payload): (u8, (u64, u64), &[u8]) = match event {
            Event::Packet { node, link, packet } => (1, node_and_link(node, link), packet),
            Event::ControlMessage { node, link, message } => (2, node_and_link(node, link), message),
            Event::ControlUp { node, link } => (3, node_and_link(node, link), &[]),
            Event::ControlDown { node, link } => (4, node_and_link(node, link), &[]),
            Event::Wake { node } => (5, (u64::from(node.0), 0), &[]),
            Event::NodeDown { node } => (6, (u64::from(node.0), 0), &[]),
            Event::NodeUp { node } => (7, (u64::from(node.0), 0), &[]),
            Event::LinkDown { link } => (8, (u64::from(link.0), 0), &[]),
            Event::LinkUp { link } => (9, (u64::from(link.0), 0), &[]),
        };
        self.record(tag, now, [first, second], payload);
    }

    /// A packet was offered. Its payload is hashed on arrival.
    pub(super) fn offer(
        &mut self,
        now: Duration,
        from: NodeId,
        link: LinkId,
        outcome: Result<Passage, DropCause>,
    ) {
        let tag = match outcome {
            Ok(_) => 16,
            Err(DropCause::QueueFull) => 17,
            Err(DropCause::Lost) => 18,
            Err(DropCause::Down) => 19,
            Err(DropCause::Policed) => 20,
            Err(DropCause::TooLarge) => 21,
        };
        self.record(tag, now, [u64::from(from.0), u64::from(link.0)], &[]);
    }

    fn record(&mut self, tag: u8, now: Duration, numbers: [u64; 2], payload: &[u8]) {
        self.buffer.push(tag);
        self.buffer.extend_from_slice(&now.as_nanos().to_le_bytes());
        for number in numbers {
            self.buffer.extend_from_slice(&number.to_le_bytes());
        }
        self.buffer.extend_from_slice(&(payload.len() as u64).to_le_bytes());
        self.buffer.extend_from_slice(payload);
        if self.buffer.len() >= BUFFER_BYTES {
            self.hasher.update(&self.buffer);
            self.buffer.clear();
        }
    }

    pub(super) fn hash(&self) -> blake3::Hash {
        self.hasher.clone().update(&self.buffer).finalize()
    }
}
