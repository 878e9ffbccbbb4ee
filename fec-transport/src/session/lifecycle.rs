//! The life of a session: from the handshake to the goodbye.

use std::collections::VecDeque;

use tracing::Span;

use super::paths::{PathId, Paths};
use super::streams::Role;
use crate::config::Liveness;
use crate::event::{CloseReason, Event, SessionId};
use crate::overlay::Peer;
use crate::time::Time;

/// How many close packets are sent.
const CLOSE_COPIES: usize = 3;

/// The two ends of a session, and what they call it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Name {
    pub(crate) id: SessionId,
    /// Names the session between its two ends.
    pub(crate) token: u64,
    pub(crate) peer: Peer,
    pub(crate) role: Role,
}

/// The life of a session.
#[derive(Debug)]
pub(crate) struct Lifecycle {
    name: Name,
    phase: Phase,
    last_heard: Time,
    /// What is logged of the session is logged within it.
    span: Span,
}

/// ```text
/// Unconfirmed ──first sealed packet opens──▶ Open ──close()──▶ Closing ──last close packet sent──▶ Over
///      └──────────────┴──silence, misbehaviour, close from the peer──────────────────────────────────▲
/// ```
#[derive(Debug)]
enum Phase {
    /// The handshake is done, but its first message may have been a replay.
    Unconfirmed {
        since: Time,
    },
    Open,
    Closing(Closing),
    Over,
}

/// A session that says goodbye.
#[derive(Debug)]
struct Closing {
    reason: String,
    /// The paths on which close packets are still to be sent.
    paths: VecDeque<PathId>,
}

impl Lifecycle {
    pub(super) fn new(now: Time, name: Name, span: Span) -> Lifecycle {
        Lifecycle { name, phase: Phase::Unconfirmed { since: now }, last_heard: now, span }
    }

    pub(super) fn name(&self) -> Name {
        self.name
    }

    pub(super) fn span(&self) -> &Span {
        &self.span
    }

    pub(super) fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open)
    }

    pub(super) fn is_closing(&self) -> bool {
        matches!(self.phase, Phase::Closing(_))
    }

    /// Whether nothing more comes of it.
    pub(super) fn is_over(&self) -> bool {
        matches!(self.phase, Phase::Over)
    }

    fn is_begun(&self) -> bool {
        matches!(self.phase, Phase::Unconfirmed { .. } | Phase::Open)
    }

    /// A packet has opened. The first one shows that the handshake was no replay.
    pub(super) fn heard(&mut self, now: Time) -> Option<Event> {
        self.last_heard = now;
        if !matches!(self.phase, Phase::Unconfirmed { .. }) {
            return None;
        }
        self.phase = Phase::Open;
        tracing::info!(parent: &self.span, "the session is open");
        let incoming = self.name.role == Role::Responder;
        Some(Event::SessionOpened { session: self.name.id, peer: self.name.peer, incoming })
    }

    /// When the session is over if nothing is heard until then, unless it is ending already.
    pub(super) fn ends_at(&self, liveness: &Liveness) -> Option<Time> {
        match self.phase {
            Phase::Unconfirmed { since } => Some(since + liveness.connect),
            Phase::Open => Some(self.last_heard + liveness.session_silence),
            Phase::Closing(_) | Phase::Over => None,
        }
    }

    /// Ends the session if nothing was heard for too long.
    pub(super) fn handle_timeout(&mut self, now: Time, liveness: &Liveness) -> Option<Event> {
        if self.ends_at(liveness).is_none_or(|end| now < end) {
            return None;
        }
        self.end(match self.phase {
            Phase::Open => CloseReason::Silent(liveness.session_silence),
            _ => CloseReason::NoPath(liveness.connect),
        })
    }

    /// Ends the session without a word, if it is not ending already.
    pub(super) fn end(&mut self, reason: CloseReason) -> Option<Event> {
        if !self.is_begun() {
            return None;
        }
        tracing::info!(parent: &self.span, %reason, "the session is over");
        self.phase = Phase::Over;
        Some(Event::SessionClosed { session: self.name.id, member: self.name.peer.member, reason })
    }

    /// Ends the session even if it still says goodbye.
    pub(super) fn drop_dead(&mut self, reason: CloseReason) -> Option<Event> {
        let event = self.end(reason);
        self.phase = Phase::Over;
        event
    }

    /// Ends the session and tells the peer why, if it is not ending already.
    pub(super) fn close(&mut self, reason: &str, paths: &Paths) -> Option<Event> {
        let event = self.end(CloseReason::Local)?;
        self.say_goodbye(reason, paths);
        Some(event)
    }

    /// Ends the session because the peer broke the protocol, and tells it so.
    pub(super) fn end_misbehaved(&mut self, what: &str, paths: &Paths) -> Option<Event> {
        let event = self.end(CloseReason::Misbehaved(what.to_owned()));
        self.say_goodbye(what, paths);
        event
    }

    fn say_goodbye(&mut self, reason: &str, paths: &Paths) {
        let copies = CLOSE_COPIES.min(3 * paths.count());
        let paths = paths.not_dead().cycle().take(copies).collect();
        self.phase = Phase::Closing(Closing { reason: reason.to_owned(), paths });
    }

    /// The path of the next close packet and what it says; the session is over when there is none.
    pub(super) fn next_goodbye(&mut self) -> Option<(PathId, &str)> {
        let next = match &mut self.phase {
            Phase::Closing(closing) => closing.paths.pop_front(),
            _ => return None,
        };
        if next.is_none() {
            self.phase = Phase::Over;
        }
        match &self.phase {
            Phase::Closing(closing) => Some((next?, &closing.reason)),
            _ => None,
        }
    }

    /// The path of a close packet is gone.
    pub(super) fn give_goodbye_up(&mut self) {
        self.phase = Phase::Over;
    }
}
