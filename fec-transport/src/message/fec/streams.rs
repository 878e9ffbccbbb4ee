//! What each stream is for, and the large messages that travel on streams of their own.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::event::{SessionId, StreamError, StreamId};
use crate::message::link::LinkId;
use crate::message::operation::Urgency;
use crate::node::Node;
use crate::session::{Class, Read};
use crate::time::Time;
use crate::wire::message::{
    BULK, BULK_HEAD, FRAMES, FRAMES_HEAD, FrameReader, MESSAGE_VERSION, bulk_head, parse_bulk_head,
};
use crate::wire::pieces::Pieces;

/// What the streams of all sessions are for.
#[derive(Debug, Default)]
pub(super) struct Streams {
    uses: BTreeMap<StreamId, Use>,
    sending: BTreeMap<(LinkId, u64), StreamId>,
    receiving: BTreeMap<(LinkId, u64), StreamId>,
    /// Granted messages that wait for a stream.
    waiting: BTreeMap<LinkId, VecDeque<Bulk>>,
}

/// What a stream is for.
#[derive(Debug)]
pub(super) enum Use {
    /// The peer has opened it; its first bytes will tell.
    New(Vec<u8>),
    Frames(LinkId, FrameReader),
    /// A large message that comes, and whether its receive has all of it.
    Receiving(LinkId, u64, bool),
    Sending(Bulk),
}

/// A large message that is sent.
#[derive(Debug)]
pub(super) struct Bulk {
    link: LinkId,
    message: u64,
    unwritten: Pieces,
    class: Class,
    is_finished: bool,
}

/// What the first bytes of a stream say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Head {
    Frames,
    Bulk(u64),
}

impl Streams {
    pub(super) fn know(&mut self, stream: StreamId, use_: Use) {
        match &use_ {
            Use::Receiving(link, message, _) => drop(self.receiving.insert((*link, *message), stream)),
            Use::Sending(bulk) => drop(self.sending.insert(bulk.name(), stream)),
            Use::New(_) | Use::Frames(..) => {}
        }
        self.uses.insert(stream, use_);
    }

    pub(super) fn get(&mut self, stream: StreamId) -> Option<&mut Use> {
        self.uses.get_mut(&stream)
    }

    pub(super) fn drop_stream(&mut self, stream: StreamId) -> Option<Use> {
        let use_ = self.uses.remove(&stream)?;
        match &use_ {
            Use::Receiving(link, message, _) => drop(self.receiving.remove(&(*link, *message))),
            Use::Sending(bulk) => drop(self.sending.remove(&bulk.name())),
            Use::New(_) | Use::Frames(..) => {}
        }
        Some(use_)
    }

    /// A granted message waits for a stream.
    pub(super) fn add(&mut self, bulk: Bulk) {
        self.waiting.entry(bulk.link).or_default().push_back(bulk);
    }

    /// Opens streams for the messages that wait for one, as many as the peer allows.
    pub(super) fn start(&mut self, now: Time, node: &mut Node, link: LinkId, session: SessionId) {
        while let Some(waiting) = self.waiting.get_mut(&link).filter(|waiting| !waiting.is_empty()) {
            let Ok(stream) = node.open_stream(session) else { return };
            let Some(mut bulk) = waiting.pop_front() else { return };
            // A stream that is gone tells so when its session does.
            let _ = node.set_class(now, stream, bulk.class);
            bulk.write(now, node, stream);
            self.know(stream, Use::Sending(bulk));
        }
        self.waiting.remove(&link);
    }

    /// A message is not to be sent any more; gives its stream, if it has one.
    pub(super) fn stop_sending(&mut self, link: LinkId, message: u64) -> Option<StreamId> {
        if let Some(waiting) = self.waiting.get_mut(&link) {
            waiting.retain(|bulk| bulk.message != message);
        }
        let stream = *self.sending.get(&(link, message))?;
        self.drop_stream(stream);
        Some(stream)
    }

    /// A message is not wanted any more; gives its stream, if it has come.
    pub(super) fn stop_receiving(&mut self, link: LinkId, message: u64) -> Option<StreamId> {
        let stream = *self.receiving.get(&(link, message))?;
        self.drop_stream(stream);
        Some(stream)
    }

    /// A link is over, and so are its streams.
    pub(super) fn forget(&mut self, link: LinkId) {
        self.waiting.remove(&link);
        self.sending.retain(|(other, _), _| *other != link);
        self.receiving.retain(|(other, _), _| *other != link);
        self.uses.retain(|_, use_| match use_ {
            Use::New(_) => true,
            Use::Frames(other, _) | Use::Receiving(other, ..) => *other != link,
            Use::Sending(bulk) => bulk.link != link,
        });
    }

    /// A session is over, and so are the streams on it of which nothing is known.
    pub(super) fn forget_session(&mut self, session: SessionId) {
        self.uses.retain(|stream, _| stream.session != session);
    }
}

impl Bulk {
    pub(super) fn new(link: LinkId, message: u64, pieces: Vec<Bytes>, urgency: Urgency) -> Bulk {
        let class = match urgency {
            Urgency::Bulk => Class::Bulk,
            Urgency::Interactive => Class::Interactive,
        };
        let head = Bytes::copy_from_slice(&bulk_head(message));
        let unwritten = std::iter::once(head).chain(pieces).collect();
        Bulk { link, message, unwritten, class, is_finished: false }
    }

    pub(super) fn name(&self) -> (LinkId, u64) {
        (self.link, self.message)
    }

    /// Writes what there is room for, and ends the stream behind the last byte.
    pub(super) fn write(&mut self, now: Time, node: &mut Node, stream: StreamId) {
        let is_written = write(now, node, stream, &mut self.unwritten).is_ok() && self.unwritten.is_empty();
        if is_written && !std::mem::replace(&mut self.is_finished, true) {
            let _ = node.finish(now, stream);
        }
    }
}

/// Writes what the stream has room for.
///
/// # Errors
/// As [`Node::write`].
pub(super) fn write(
    now: Time,
    node: &mut Node,
    stream: StreamId,
    pieces: &mut Pieces,
) -> Result<(), StreamError> {
    while let Some(piece) = pieces.front() {
        let (length, written) = (piece.len(), node.write_bytes(now, stream, piece)?);
        pieces.advance(written);
        if written < length {
            break;
        }
    }
    Ok(())
}

/// Where bytes of a stream of one message are in the message.
pub(super) fn offset_in_message(offset: u64) -> u64 {
    offset.saturating_sub(BULK_HEAD as u64)
}

/// Reads the first bytes of a stream, of which `head` has those that have come before; gives what they say once they
/// are all here.
pub(super) fn read_head(
    now: Time,
    node: &mut Node,
    stream: StreamId,
    head: &mut Vec<u8>,
) -> Option<Result<Head, String>> {
    loop {
        let wanted = match head.first() {
            None => 1,
            Some(&FRAMES) => FRAMES_HEAD,
            Some(&BULK) => BULK_HEAD,
            Some(first) => return Some(Err(format!("a stream begins with {first}, which nothing does"))),
        };
        if head.len() == wanted && wanted > 1 {
            return Some(parse_head(head));
        }
        match node.read(now, stream, wanted - head.len()) {
            Ok(Read::Data { bytes, .. }) => head.extend_from_slice(&bytes),
            _ => return None,
        }
    }
}

fn parse_head(head: &[u8]) -> Result<Head, String> {
    let bulk = head.try_into().ok().and_then(parse_bulk_head);
    match (bulk, head[1]) {
        (Some(message), _) => Ok(Head::Bulk(message)),
        (None, MESSAGE_VERSION) => Ok(Head::Frames),
        _ => Err(format!("its messages have version {}, these ones {MESSAGE_VERSION}", head[1])),
    }
}
