//! SKELETON (being filled in).
#![allow(missing_docs, unused_variables)]
use bytes::Bytes;

use crate::keys::Identity;
use crate::overlay::{InstanceId, MemberId, Overlay, Peer};
use crate::time::Time;
use std::sync::Arc;

/// One session of this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// One bidirectional stream of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    pub session: SessionId,
    pub number: u32,
}

/// What happened.
#[derive(Debug)]
pub enum Event {
    /// A session is ready for streams (ours, or one that a peer opened to us).
    SessionOpened { session: SessionId, peer: Peer, incoming: bool },
    /// A session ended; its streams are gone.
    SessionClosed { session: SessionId, member: MemberId, reason: CloseReason },
    /// The peer opened a stream.
    StreamOpened { stream: StreamId },
    /// There is something to read (data, or the end).
    Readable { stream: StreamId },
    /// After a write that took less than it was given: there is room again.
    Writable { stream: StreamId },
    /// Everything written and the end of the stream have reached the peer.
    Delivered { stream: StreamId },
    /// The peer gave up the stream (both directions), with its code.
    StreamReset { stream: StreamId, code: u32 },
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    #[error("closed by this side")]
    Local,
    #[error("closed by the peer: {0}")]
    ByPeer(String),
    #[error("no path to it answered within {0:?}")]
    NoPath(std::time::Duration),
    #[error("nothing was heard from it for {0:?}")]
    Silent(std::time::Duration),
    #[error("refused by {by}: {reason}")]
    Refused { by: String, reason: String },
    #[error("the peer broke the protocol: {0}")]
    Misbehaved(String),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    #[error("there is no such session")]
    NoSession,
    #[error("there is no such stream")]
    NoStream,
    #[error("the peer reset the stream with code {0}")]
    Reset(u32),
    #[error("the stream was already finished")]
    Finished,
    #[error("too many streams are open ({0})")]
    TooMany(usize),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    #[error("there is no path from {from} to {to} over members that relay for {from}")]
    NoPath { from: String, to: String },
    #[error("{0} is this member itself")]
    Itself(String),
}

#[derive(Debug)]
pub enum Read {
    /// The next bytes (in order for `read`, any finished block for `read_block`), at `offset` in the stream.
    Data { offset: u64, bytes: Bytes },
    /// Nothing now; `Event::Readable` will tell.
    Blocked,
    /// The peer finished the stream and everything was read.
    Finished,
}

/// What `handle_datagram` tells the socket's owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ingress {
    /// Taken, or dropped and counted.
    Consumed,
    /// It was a valid greeting of this neighbour: from now on it is reached at the address the datagram came from
    /// (unless the overlay file fixes one).
    Greeted(Peer),
}

/// One or more datagrams of equal size (the last may be shorter) to one neighbour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transmit {
    pub to: Peer,
    pub segment_size: usize,
}

pub struct Node {}

impl Node {
    pub fn new(
        overlay: Arc<Overlay>,
        identity: Identity,
        member: MemberId,
        instance: InstanceId,
        config: crate::Config,
        seed: [u8; 32],
        now: Time,
    ) -> Node {
        unimplemented!()
    }
    pub fn overlay(&self) -> &Overlay {
        unimplemented!()
    }
    pub fn member(&self) -> MemberId {
        unimplemented!()
    }

    // --- control plane: one ordered message pipe per neighbour ---
    /// A control connection to an authenticated neighbour is up (we dialled, or it did).
    pub fn neighbour_up(&mut self, now: Time, peer: Peer) {
        unimplemented!()
    }
    pub fn neighbour_down(&mut self, now: Time, peer: Peer) {
        unimplemented!()
    }
    pub fn handle_control(&mut self, now: Time, from: Peer, message: &[u8]) {
        unimplemented!()
    }
    pub fn poll_control(&mut self) -> Option<(Peer, Vec<u8>)> {
        unimplemented!()
    }

    // --- data plane ---
    pub fn handle_datagram(&mut self, now: Time, datagram: &mut [u8]) -> Ingress {
        unimplemented!()
    }
    /// Appends datagrams to `buffer` (given empty).
    pub fn poll_transmit(&mut self, now: Time, buffer: &mut Vec<u8>) -> Option<Transmit> {
        unimplemented!()
    }
    pub fn next_timeout(&self) -> Option<Time> {
        unimplemented!()
    }
    pub fn handle_timeout(&mut self, now: Time) {
        unimplemented!()
    }
    pub fn poll_event(&mut self) -> Option<Event> {
        unimplemented!()
    }

    // --- sessions and streams ---
    /// The session to `member`: the one that is open or opening, or a new one. `SessionOpened` or `SessionClosed` follows.
    pub fn connect(&mut self, now: Time, member: MemberId) -> Result<SessionId, ConnectError> {
        unimplemented!()
    }
    pub fn close(&mut self, now: Time, session: SessionId, reason: &str) {
        unimplemented!()
    }
    pub fn peer(&self, session: SessionId) -> Option<Peer> {
        unimplemented!()
    }
    /// Streams are opened on sessions that are open or opening.
    pub fn open_stream(&mut self, session: SessionId) -> Result<StreamId, StreamError> {
        unimplemented!()
    }
    /// Takes as much of `data` as the send buffer has room for and says how much; after less than all, `Writable` follows.
    pub fn write(&mut self, now: Time, stream: StreamId, data: &[u8]) -> Result<usize, StreamError> {
        unimplemented!()
    }
    /// Sends what is buffered without waiting for a full block.
    pub fn flush(&mut self, now: Time, stream: StreamId) -> Result<(), StreamError> {
        unimplemented!()
    }
    /// Ends our direction after what was written (flushes).
    pub fn finish(&mut self, now: Time, stream: StreamId) -> Result<(), StreamError> {
        unimplemented!()
    }
    /// Gives up both directions; the peer gets `StreamReset`.
    pub fn reset(&mut self, now: Time, stream: StreamId, code: u32) {
        unimplemented!()
    }
    /// The next bytes in order, at most `max`.
    pub fn read(&mut self, now: Time, stream: StreamId, max: usize) -> Result<Read, StreamError> {
        unimplemented!()
    }
    /// Any block that has been decoded, with its offset.
    pub fn read_block(&mut self, now: Time, stream: StreamId) -> Result<Read, StreamError> {
        unimplemented!()
    }
}
