//! What a node tells the application on top of it, and how things end.

use std::time::Duration;

use crate::overlay::{MemberId, Peer};

/// One session of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// One bidirectional stream of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Its session.
    pub session: SessionId,
    /// Its number there.
    pub number: u32,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A session is ready for streams: ours, or one that a peer opened to us.
    SessionOpened {
        /// The session.
        session: SessionId,
        /// The process at its other end.
        peer: Peer,
        /// Whether the peer opened it.
        incoming: bool,
    },
    /// A session ended, or could not be opened; its streams are gone.
    SessionClosed {
        /// The session.
        session: SessionId,
        /// The member that was to be at its other end.
        member: MemberId,
        /// Why.
        reason: CloseReason,
    },
    /// Nothing was heard over any path of a session for [`session_silence`](crate::config::Liveness::session_silence).
    /// It keeps its streams, and [`SessionHeard`](Self::SessionHeard) or [`SessionClosed`](Self::SessionClosed)
    /// follows.
    SessionSilent {
        /// The session.
        session: SessionId,
        /// The member at its other end.
        member: MemberId,
    },
    /// A session that was [silent](Self::SessionSilent) goes on.
    SessionHeard {
        /// The session.
        session: SessionId,
        /// The member at its other end.
        member: MemberId,
    },
    /// The peer opened a stream.
    StreamOpened {
        /// The stream.
        stream: StreamId,
    },
    /// The peer lets us open streams again, after [`StreamError::TooMany`].
    StreamsAvailable {
        /// The session.
        session: SessionId,
    },
    /// There is something to read: data, or the end. It comes once until the stream is read from. An application that
    /// reads without waiting for it may get it later, when the stream has ended.
    Readable {
        /// The stream.
        stream: StreamId,
    },
    /// After a write that took less than it was given: there is room again.
    Writable {
        /// The stream.
        stream: StreamId,
    },
    /// Everything written and the end of the stream have reached the peer.
    Delivered {
        /// The stream.
        stream: StreamId,
    },
    /// The peer gave up the stream, in both directions.
    StreamReset {
        /// The stream.
        stream: StreamId,
        /// The code that the peer gave.
        code: u32,
    },
}

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// The application closed it.
    #[error("closed by this side")]
    Local,
    /// The peer closed it.
    #[error("closed by the peer: {0}")]
    ByPeer(String),
    /// No circuit to the member could be set up.
    #[error("no path to it answered within {time:?}{}", in_brackets(unreached))]
    NoPath {
        /// For so long it was tried.
        time: Duration,
        /// The neighbours that could not be reached, with their addresses and the reasons.
        unreached: Vec<String>,
    },
    /// All neighbours refuse this member's key, or have other ones than its overlay file says: no retry helps until
    /// somebody has changed a file.
    #[error(
        "no neighbour takes this member's key, or has the right one itself{}; all members need the same overlay file, \
         and each its own key out of it",
        in_brackets(.0)
    )]
    Unwelcome(Vec<String>),
    /// A member on the way, or the peer, refused.
    #[error("refused by {by}: {reason}")]
    Refused {
        /// The member that refused.
        by: String,
        /// Its words.
        reason: String,
        /// For how long opening the session was tried over all paths.
        time: Duration,
    },
    /// Nothing arrived from the peer over any path.
    #[error("nothing was heard from it for {time:?}; {probes} probes over {paths} paths were not answered")]
    Silent {
        /// For so long.
        time: Duration,
        /// How often it was asked in that time, over all paths.
        probes: u64,
        /// Over how many paths it was asked.
        paths: usize,
    },
    /// The member was out of reach, and its process does not know the session any more: it is another process, or has
    /// given the session up.
    #[error(
        "the process at its other end does not know the session any more: it was restarted, or has given it up"
    )]
    Forgotten,
    /// The peer sent what it must not.
    #[error("the peer broke the protocol: {0}")]
    Misbehaved(String),
    /// A newer overlay file does not list the member any more, or leaves no way to it.
    #[error("the overlay file of serial {0} does not list it any more, or leaves no path to it")]
    Revoked(u64),
    /// What is on its way in packets of so many bytes cannot arrive, because no path carries packets of this size any
    /// more; a new session begins with smaller ones.
    #[error("no path carries packets of {0} bytes any more, which were on their way; open a new session")]
    TooNarrow(usize),
    /// A key has sealed as many packets as it may, or the numbers of blocks or reports are used up; a new session
    /// begins anew.
    #[error("2^28 packets under one key, or 2^32 blocks or reports, used it up; open a new session")]
    UsedUp,
}

impl CloseReason {
    /// No circuit to the member could be set up in that time.
    pub(crate) fn no_path(time: Duration) -> CloseReason {
        CloseReason::NoPath { time, unreached: Vec::new() }
    }

    /// For how long nothing had been heard of the peer when the session ended; zero if it ended for another reason.
    pub fn silence(&self) -> Duration {
        match self {
            CloseReason::Silent { time, .. } => *time,
            _ => Duration::ZERO,
        }
    }

    /// For how long the peer was waited for in vain before the session ended, or was given up before it was open; zero
    /// if that is not why.
    pub fn waited(&self) -> Duration {
        match self {
            CloseReason::NoPath { time, .. } | CloseReason::Refused { time, .. } => *time,
            other => other.silence(),
        }
    }
}

fn in_brackets(reasons: &[String]) -> String {
    match reasons {
        [] => String::new(),
        reasons => format!(" ({})", reasons.join("; ")),
    }
}

/// Why a stream does not do what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StreamError {
    /// The session has ended or never was.
    #[error("there is no such session")]
    NoSession,
    /// The session is still being opened.
    #[error("the session is not open yet")]
    NotOpen,
    /// The stream has ended in both directions, was reset, or never was.
    #[error("there is no such stream")]
    NoStream,
    /// Our direction was already finished.
    #[error("the stream was already finished")]
    Finished,
    /// The peer allows no more streams for now; [`Event::StreamsAvailable`] follows.
    #[error("the peer allows no more streams for now")]
    TooMany,
}

/// Why a session cannot be opened at all.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConnectError {
    /// The overlay has no usable path.
    #[error("there is no path from {from} to {to} over members that relay for {from}")]
    NoPath {
        /// This member.
        from: String,
        /// The other one.
        to: String,
    },
    /// The member is this one.
    #[error("{0} is this member itself")]
    Itself(String),
    /// The overlay has no member with this number.
    #[error("the overlay has no member number {0}")]
    NoMember(u16),
    /// As many sessions are open as the limits allow.
    #[error("{0} sessions are open, which is the limit")]
    TooMany(usize),
}
