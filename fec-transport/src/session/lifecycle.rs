//! The life of a session: from the handshake to the goodbye.

use std::collections::VecDeque;
use std::time::Duration;

use tracing::Span;

use super::paths::{Asked, PathId, Paths};
use super::streams::Role;
use crate::config::Liveness;
use crate::event::{CloseReason, Event, SessionId};
use crate::overlay::Peer;
use crate::time::Time;

/// How many close packets are sent.
const CLOSE_COPIES: usize = 3;
/// How long a session remains after the last of them. Its circuits are torn down when it is over, by messages on the
/// control plane, which must not overtake the close packets: a relay would drop these.
const LINGER: Duration = Duration::from_millis(20);

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
    silence: Silence,
    /// What is logged of the session is logged within it.
    span: Span,
}

/// What has come of hearing nothing, since something was heard last.
#[derive(Debug, Default)]
struct Silence {
    /// Whether the application was told that the peer is out of reach.
    is_told: bool,
    /// Whether the peer's member says that it does not know the session.
    is_forgotten: bool,
}

/// ```text
/// Unconfirmed ──first sealed packet opens──▶ Open ──close()──▶ Closing ──20 ms after the last close packet──▶ Over
///      └──────────────┴──silence, misbehaviour, close from the peer─────────────────────────────────────────────▲
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
    /// When the session is over, once all of them were sent.
    over_at: Option<Time>,
}

impl Lifecycle {
    pub(super) fn new(now: Time, name: Name, span: Span) -> Lifecycle {
        Lifecycle {
            name,
            phase: Phase::Unconfirmed { since: now },
            last_heard: now,
            silence: Silence::default(),
            span,
        }
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
        let Silence { is_told, .. } = std::mem::take(&mut self.silence);
        let silence = now.since(std::mem::replace(&mut self.last_heard, now));
        let Name { id: session, peer, .. } = self.name;
        if !matches!(self.phase, Phase::Unconfirmed { .. }) {
            if is_told {
                tracing::info!(parent: &self.span, ?silence, "the session goes on");
            }
            return is_told.then_some(Event::SessionHeard { session, member: peer.member });
        }
        self.phase = Phase::Open;
        tracing::info!(parent: &self.span, "the session is open");
        let incoming = self.name.role == Role::Responder;
        Some(Event::SessionOpened { session, peer, incoming })
    }

    /// When something was heard last, over whatever path.
    pub(super) fn last_heard(&self) -> Time {
        self.last_heard
    }

    /// The peer's member says that it does not know the session. If nothing is heard from it either, the session need
    /// not wait longer than until it counts as out of reach. The word is not sealed, so that as long as anything is
    /// heard it counts for nothing.
    pub(super) fn note_forgotten(&mut self) {
        self.silence.is_forgotten = true;
    }

    /// When the session is over if nothing is heard until then, unless it is ending already.
    fn ends_at(&self, liveness: &Liveness) -> Option<Time> {
        match self.phase {
            Phase::Unconfirmed { since } => Some(since + liveness.connect),
            Phase::Open if self.silence.is_forgotten => Some(self.last_heard + liveness.session_silence),
            Phase::Open => Some(self.last_heard + liveness.patience),
            Phase::Closing(_) | Phase::Over => None,
        }
    }

    /// When there is something to say of hearing nothing, if nothing is heard until then.
    pub(super) fn acts_at(&self, liveness: &Liveness) -> Option<Time> {
        match self.phase {
            Phase::Open if !self.silence.is_told => Some(self.last_heard + liveness.session_silence),
            _ => self.ends_at(liveness),
        }
    }

    /// Says that the peer is out of reach, or ends the session, if nothing was heard for so long.
    pub(super) fn handle_timeout(&mut self, now: Time, liveness: &Liveness, asked: Asked) -> Option<Event> {
        if self.acts_at(liveness).is_none_or(|at| now < at) {
            return None;
        }
        if self.ends_at(liveness).is_some_and(|end| now < end) {
            self.silence.is_told = true;
            tracing::info!(parent: &self.span, "nothing is heard any more");
            let Name { id: session, peer, .. } = self.name;
            return Some(Event::SessionSilent { session, member: peer.member });
        }
        let Asked { probes, paths } = asked;
        self.end(match self.phase {
            Phase::Open if self.silence.is_forgotten => CloseReason::Forgotten,
            Phase::Open => CloseReason::Silent { time: liveness.patience, probes, paths },
            _ => CloseReason::no_path(liveness.connect),
        })
    }

    /// Ends the session without a word, if it is not ending already. Of one that the peer began and never used, the
    /// application is told nothing: it has not heard of it.
    pub(super) fn end(&mut self, reason: CloseReason) -> Option<Event> {
        if !self.is_begun() {
            return None;
        }
        tracing::info!(parent: &self.span, %reason, "the session is over");
        let is_known = self.is_open() || self.name.role == Role::Initiator;
        self.phase = Phase::Over;
        let Name { id: session, peer, .. } = self.name;
        is_known.then_some(Event::SessionClosed { session, member: peer.member, reason })
    }

    /// Ends the session even if it still says goodbye.
    pub(super) fn drop_dead(&mut self, reason: CloseReason) -> Option<Event> {
        let event = self.end(reason);
        self.phase = Phase::Over;
        event
    }

    /// Ends the session and tells the peer why, if it is not ending already.
    pub(super) fn close(&mut self, reason: &str, paths: &Paths) -> Option<Event> {
        if !self.is_begun() {
            return None;
        }
        self.end_telling(CloseReason::Local, reason, paths)
    }

    /// Ends the session because the peer broke the protocol, and tells it so.
    pub(super) fn end_misbehaved(&mut self, what: &str, paths: &Paths) -> Option<Event> {
        self.end_telling(CloseReason::Misbehaved(what.to_owned()), what, paths)
    }

    /// Ends the session and tells the peer why in these words.
    pub(super) fn end_telling(&mut self, reason: CloseReason, words: &str, paths: &Paths) -> Option<Event> {
        let event = self.end(reason);
        self.say_goodbye(words, paths);
        event
    }

    fn say_goodbye(&mut self, reason: &str, paths: &Paths) {
        let copies = CLOSE_COPIES.min(3 * paths.count());
        let paths = paths.not_dead().cycle().take(copies).collect();
        self.phase = Phase::Closing(Closing { reason: reason.to_owned(), paths, over_at: None });
    }

    /// The path of the next close packet and what it says; some time after there is none the session is over.
    pub(super) fn next_goodbye(&mut self, now: Time) -> Option<(PathId, &str)> {
        let Phase::Closing(closing) = &mut self.phase else { return None };
        let next = closing.paths.pop_front();
        if next.is_none() && now >= *closing.over_at.get_or_insert(now + LINGER) {
            self.phase = Phase::Over;
        }
        match &self.phase {
            Phase::Closing(closing) => Some((next?, &closing.reason)),
            _ => None,
        }
    }

    /// When to ask for the [next goodbye](Self::next_goodbye), if it is closing.
    pub(super) fn goodbye_at(&self, now: Time) -> Option<Time> {
        match &self.phase {
            Phase::Closing(closing) => Some(closing.over_at.unwrap_or(now)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::overlay::{InstanceId, MemberId};

    const NOBODY: Asked = Asked { probes: 7, paths: 2 };

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    /// A session that is open, and of which nothing was heard since.
    fn open() -> (Lifecycle, Liveness) {
        let peer = Peer { member: MemberId(1), instance: InstanceId(1) };
        let name = Name { id: SessionId(1), token: 1, peer, role: Role::Initiator };
        let mut lifecycle = Lifecycle::new(at(0), name, Span::none());
        assert!(matches!(lifecycle.heard(at(0)), Some(Event::SessionOpened { .. })));
        (lifecycle, Liveness::default())
    }

    fn reason(event: Option<Event>) -> Option<CloseReason> {
        match event {
            Some(Event::SessionClosed { reason, .. }) => Some(reason),
            _ => None,
        }
    }

    #[test]
    fn silence_is_told_once_and_its_end_too_and_after_the_patience_the_session_is_over() {
        let (mut lifecycle, liveness) = open();
        assert_eq!(lifecycle.acts_at(&liveness), Some(at(4)));
        assert_eq!(lifecycle.handle_timeout(at(3), &liveness, NOBODY), None);
        let told = lifecycle.handle_timeout(at(4), &liveness, NOBODY);
        assert!(matches!(told, Some(Event::SessionSilent { .. })));
        assert_eq!(lifecycle.handle_timeout(at(30), &liveness, NOBODY), None);
        assert!(matches!(lifecycle.heard(at(59)), Some(Event::SessionHeard { .. })));
        assert_eq!((lifecycle.heard(at(60)), lifecycle.acts_at(&liveness)), (None, Some(at(64))));
        assert!(lifecycle.handle_timeout(at(64), &liveness, NOBODY).is_some());
        assert_eq!(lifecycle.acts_at(&liveness), Some(at(120)));
        let silent = CloseReason::Silent { time: liveness.patience, probes: 7, paths: 2 };
        assert_eq!(reason(lifecycle.handle_timeout(at(120), &liveness, NOBODY)), Some(silent));
    }

    #[test]
    fn a_lie_that_the_session_is_forgotten_ends_nothing_that_is_heard() {
        let (mut lifecycle, liveness) = open();
        for second in 1..100 {
            lifecycle.note_forgotten();
            assert_eq!(lifecycle.handle_timeout(at(second), &liveness, NOBODY), None);
            assert_eq!(lifecycle.heard(at(second)), None);
        }
        lifecycle.note_forgotten();
        let ended = reason(lifecycle.handle_timeout(at(103), &liveness, NOBODY));
        assert_eq!(ended, Some(CloseReason::Forgotten));
    }

    #[test]
    fn what_is_forgotten_while_it_is_out_of_reach_is_over_at_once() {
        let (mut lifecycle, liveness) = open();
        assert!(lifecycle.handle_timeout(at(4), &liveness, NOBODY).is_some());
        lifecycle.note_forgotten();
        assert!(lifecycle.acts_at(&liveness) <= Some(at(20)));
        assert_eq!(reason(lifecycle.handle_timeout(at(20), &liveness, NOBODY)), Some(CloseReason::Forgotten));
    }
}
