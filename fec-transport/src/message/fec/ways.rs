//! The sessions that links go over, and the frames that wait for them.

use std::collections::{BTreeMap, BTreeSet};

use super::streams::write;
use crate::event::{SessionId, StreamId};
use crate::message::link::LinkId;
use crate::node::Node;
use crate::overlay::{InstanceId, MemberId, Peer};
use crate::session::Class;
use crate::time::Time;
use crate::wire::message::{FRAMES, Frame, MESSAGE_VERSION};
use crate::wire::pieces::Pieces;

/// Which link goes over which sessions.
#[derive(Debug, Default)]
pub(super) struct Ways {
    ways: BTreeMap<LinkId, Way>,
    by_session: BTreeMap<SessionId, LinkId>,
    /// Sessions that are being opened, and what for.
    dialled: BTreeMap<SessionId, LinkId>,
    /// Of each member the process that a session led to last.
    last: BTreeMap<MemberId, InstanceId>,
    /// Links with frames that have not been tried to write yet.
    unwritten: BTreeSet<LinkId>,
    /// Whether streams end behind what they have to carry, and that is still to be told.
    is_finishing: bool,
}

/// What a link goes over. There are two sessions if both sides have dialled at once; each side says everything over the
/// one that it had first, so that what it says stays in order, and the link ends with either.
#[derive(Debug, Default)]
struct Way {
    sessions: Vec<SessionId>,
    /// The one that the peer has opened.
    visit: Option<SessionId>,
    peer: Option<Peer>,
    /// The one over which frames have come.
    heard: Option<SessionId>,
    /// Where frames go.
    stream: Option<StreamId>,
    /// Frames that the stream had no room for.
    frames: Pieces,
    /// Whether it has none now.
    is_blocked: bool,
    end: End,
}

/// How far the stream of frames is with its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum End {
    #[default]
    Open,
    /// Nothing more is written.
    Finished,
    /// The peer has everything.
    Delivered,
}

impl Ways {
    /// A session is being opened for a link.
    pub(super) fn dial(&mut self, session: SessionId, link: LinkId) {
        self.dialled.insert(session, link);
        self.ways.entry(link).or_default();
    }

    /// What a session was being opened for; it is no more.
    pub(super) fn dialled(&mut self, session: SessionId) -> Option<LinkId> {
        let link = self.dialled.remove(&session)?;
        self.ways.contains_key(&link).then_some(link)
    }

    /// A link goes over a session, which the peer has opened if it is `incoming`.
    pub(super) fn attach(&mut self, link: LinkId, session: SessionId, peer: Peer, incoming: bool) {
        let way = self.ways.entry(link).or_default();
        way.sessions.push(session);
        way.visit = way.visit.or(incoming.then_some(session));
        way.peer = Some(peer);
        self.by_session.insert(session, link);
        self.last.insert(peer.member, peer.instance);
    }

    pub(super) fn is_up(&self, link: LinkId) -> bool {
        self.ways.get(&link).is_some_and(|way| !way.sessions.is_empty())
    }

    /// The link to a process that has opened a session to us, and that session.
    pub(super) fn visit(&self, peer: Peer) -> Option<(LinkId, SessionId)> {
        let of_peer = self.ways.iter().filter(|(_, way)| way.peer == Some(peer));
        of_peer.into_iter().find_map(|(link, way)| Some((*link, way.visit?)))
    }

    /// Whether there is a link to another process of the same member.
    pub(super) fn other_process(&self, peer: Peer) -> bool {
        let peers = self.ways.values().filter_map(|way| way.peer);
        peers.into_iter().any(|other| other.member == peer.member && other != peer)
    }

    /// Whether a link goes over a session to another process.
    pub(super) fn leads_to_other(&self, link: LinkId, peer: Peer) -> bool {
        self.ways.get(&link).and_then(|way| way.peer).is_some_and(|other| other != peer)
    }

    /// Frames come over a session of a link; gives whether none have come over another one before.
    pub(super) fn hears(&mut self, link: LinkId, session: SessionId) -> bool {
        self.ways.get_mut(&link).is_none_or(|way| *way.heard.get_or_insert(session) == session)
    }

    /// Takes the session that the peer has opened from its link, if it is that one; gives the peer.
    pub(super) fn detach_visit(&mut self, link: LinkId, session: SessionId) -> Option<Peer> {
        let way = self.ways.get_mut(&link).filter(|way| way.visit == Some(session))?;
        way.sessions.retain(|other| *other != session);
        self.by_session.remove(&session);
        way.peer
    }

    /// Whether this was the last process of its member that a session led to.
    pub(super) fn is_last(&self, peer: Peer) -> bool {
        self.last.get(&peer.member) == Some(&peer.instance)
    }

    pub(super) fn link_of(&self, session: SessionId) -> Option<LinkId> {
        self.by_session.get(&session).copied()
    }

    /// The session that our frames and messages go over.
    pub(super) fn session(&self, link: LinkId) -> Option<SessionId> {
        let way = self.ways.get(&link)?;
        way.stream.map(|stream| stream.session).or_else(|| way.sessions.first().copied())
    }

    /// Opens the stream of frames on a session that we have opened; gives it.
    pub(super) fn open(
        &mut self,
        now: Time,
        node: &mut Node,
        link: LinkId,
        session: SessionId,
    ) -> Option<StreamId> {
        // A new session has room for a stream of some bytes.
        let stream = node.open_stream(session).ok()?;
        node.set_class(now, stream, Class::Interactive).ok()?;
        node.write(now, stream, &[FRAMES, MESSAGE_VERSION]).ok()?;
        node.flush(now, stream).ok()?;
        self.answer_on(link, stream);
        Some(stream)
    }

    /// Frames go over this stream, unless there is one already.
    pub(super) fn answer_on(&mut self, link: LinkId, stream: StreamId) {
        if let Some(way) = self.ways.get_mut(&link)
            && way.stream.is_none()
        {
            way.stream = Some(stream);
            self.unwritten.insert(link);
        }
    }

    /// Says something over a link.
    pub(super) fn say(&mut self, link: LinkId, frame: &Frame, taken: u32) {
        if let Some(way) = self.ways.get_mut(&link) {
            frame.emit(taken, &mut way.frames);
            self.unwritten.insert(link);
        }
    }

    /// There is room again for the frames of a link.
    pub(super) fn unblock(&mut self, link: LinkId) {
        if let Some(way) = self.ways.get_mut(&link) {
            way.is_blocked = false;
            self.unwritten.insert(link);
        }
    }

    /// Writes what there is room for.
    pub(super) fn flush(&mut self, now: Time, node: &mut Node) {
        while let Some(link) = self.unwritten.pop_first() {
            if let Some(way) = self.ways.get_mut(&link) {
                way.flush(now, node, self.is_finishing);
            }
        }
    }

    /// Nothing is said any more behind what waits now.
    pub(super) fn finish(&mut self) {
        self.is_finishing = true;
        self.unwritten.extend(self.ways.keys());
    }

    /// The peer has all of a stream.
    pub(super) fn delivered(&mut self, stream: StreamId) {
        for way in self.ways.values_mut().filter(|way| way.stream == Some(stream)) {
            way.end = End::Delivered;
        }
    }

    /// Whether the peers have everything, if that is asked and has not been told yet.
    pub(super) fn take_finished(&mut self) -> bool {
        let is_finished = self.is_finishing && !self.ways.values().any(Way::owes);
        self.is_finishing &= !is_finished;
        is_finished
    }

    /// Forgets a link; gives its sessions, of which those that are still being opened are not wanted any more either.
    pub(super) fn remove(&mut self, link: LinkId) -> Vec<SessionId> {
        let mut sessions = self.ways.remove(&link).map(|way| way.sessions).unwrap_or_default();
        for session in &sessions {
            self.by_session.remove(session);
        }
        sessions
            .extend(self.dialled.iter().filter(|(_, other)| **other == link).map(|(session, _)| *session));
        self.dialled.retain(|_, other| *other != link);
        self.unwritten.remove(&link);
        sessions
    }
}

impl Way {
    /// Writes what there is room for, and ends the stream behind the last byte if it `is_last`.
    fn flush(&mut self, now: Time, node: &mut Node, is_last: bool) {
        let Some(stream) = self.stream else { return };
        if self.end != End::Open {
            self.frames.clear();
        }
        if !self.is_blocked && !self.frames.is_empty() {
            if write(now, node, stream, &mut self.frames).is_err() {
                return;
            }
            self.is_blocked = !self.frames.is_empty();
            let _ = node.flush(now, stream);
        }
        if is_last && self.end == End::Open && self.frames.is_empty() && node.finish(now, stream).is_ok() {
            self.end = End::Finished;
        }
    }

    /// Whether the peer lacks something that was said over a session to it.
    fn owes(&self) -> bool {
        match self.end {
            End::Open => !self.sessions.is_empty(),
            End::Finished => true,
            End::Delivered => false,
        }
    }
}
