//! What a client keeps for each I/O node: the session, the window, and what waits for both.

use std::collections::VecDeque;

use fec_transport::overlay::MemberId;
use fec_transport::{SessionId, StreamId};

use super::context::Context;
use super::window::Window;
use super::{ClientConfig, OperationError, OperationId};
use crate::compression::{Compressor, Explanation};
use crate::transport::Transport;

/// A part of an operation: its position in the operation's stage.
pub(super) type PartId = (OperationId, usize);

/// The way to one I/O node.
#[derive(Debug, Default)]
pub(super) struct Link {
    session: Option<SessionId>,
    /// Whether that session has been open, so that its end is not the failure to open it.
    was_open: bool,
    window: Window,
    compressor: Compressor,
    /// Payload bytes of the transfers under way.
    in_flight: u64,
    /// Parts without payload that have not begun.
    requests: VecDeque<PartId>,
    /// Parts with payload of which not all transfers have begun. The first is served next, and goes to the end if it
    /// has more, so that operations share the link.
    accesses: VecDeque<PartId>,
}

/// How much may be under way at once, in bytes of payload.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    window: u64,
    /// The most of one transfer.
    pub(super) transfer: u64,
}

/// What came of asking for a stream.
pub(super) enum Opening {
    /// Here it is.
    Stream(StreamId),
    /// There is none now, and an event will tell when there may be.
    Later,
    /// The I/O node cannot be reached.
    Failed(OperationError),
}

impl Link {
    /// A part waits for its next transfer.
    pub(super) fn wait(&mut self, id: PartId, has_payload: bool) {
        self.queue(has_payload).push_back(id);
    }

    /// The same, in front of all others.
    pub(super) fn wait_in_front(&mut self, id: PartId, has_payload: bool) {
        self.queue(has_payload).push_front(id);
    }

    /// Decides how what goes there is compressed.
    pub(super) fn compressor(&mut self) -> &mut Compressor {
        &mut self.compressor
    }

    /// What was compressed so far.
    pub(super) fn compressed(&self) -> Option<Explanation> {
        self.compressor.explain()
    }

    /// Whether transfers with payload are under way.
    pub(super) fn is_busy(&self) -> bool {
        self.in_flight > 0
    }

    /// A session is open; says whether it is this link's.
    pub(super) fn session_opened(&mut self, session: SessionId) -> bool {
        let is_ours = self.is_over(session);
        self.was_open |= is_ours;
        is_ours
    }

    /// A session is closed. If it is this link's and was never open, gives the operations that waited for it.
    pub(super) fn session_closed(&mut self, session: SessionId) -> Vec<OperationId> {
        if !self.is_over(session) {
            return Vec::new();
        }
        self.session = None;
        match std::mem::take(&mut self.was_open) {
            true => Vec::new(),
            false => self.requests.iter().chain(&self.accesses).map(|(operation, _)| *operation).collect(),
        }
    }

    pub(super) fn is_over(&self, session: SessionId) -> bool {
        self.session == Some(session)
    }

    /// How much may be under way now.
    pub(super) fn room(&mut self, context: &Context<'_, impl Transport>, config: &ClientConfig) -> Room {
        let window = match self.session {
            Some(session) => self.window.bytes(context, session, config),
            None => config.least_window_bytes(),
        };
        Room { window, transfer: config.transfer_limit(window) }
    }

    /// The next part that may begin a transfer now; it waits no more. Parts that have no more transfers to begin, or
    /// whose operation has ended, are dropped on the way.
    ///
    /// Requests without payload pass the window; what has payload waits until there is room for a whole transfer.
    pub(super) fn next_part(&mut self, room: Room, has_more: impl Fn(PartId) -> bool) -> Option<PartId> {
        let has_room = self.in_flight == 0 || self.in_flight + room.transfer <= room.window;
        let next = |waiting: &mut VecDeque<PartId>| {
            std::iter::from_fn(|| waiting.pop_front()).find(|part| has_more(*part))
        };
        next(&mut self.requests).or_else(|| if has_room { next(&mut self.accesses) } else { None })
    }

    /// A transfer of that many bytes has begun.
    pub(super) fn transfer_began(&mut self, bytes: u64) {
        self.in_flight += bytes;
    }

    /// A transfer of that many bytes has ended.
    pub(super) fn transfer_ended(&mut self, bytes: u64) {
        self.in_flight -= bytes;
    }

    /// A stream to `member`, over the session that there is or a new one.
    pub(super) fn open_stream(
        &mut self,
        context: &mut Context<'_, impl Transport>,
        member: MemberId,
    ) -> Opening {
        let session = match self.session {
            Some(session) => session,
            None => match context.connect(member) {
                Ok(session) => session,
                Err(error) => {
                    return Opening::Failed(OperationError::Connect { member: context.name(member), error });
                }
            },
        };
        self.session = Some(session);
        match context.open_stream(session) {
            Ok(stream) => {
                self.was_open = true;
                Opening::Stream(stream)
            }
            // An event follows, also of a session that has just ended.
            Err(_) => Opening::Later,
        }
    }

    fn queue(&mut self, has_payload: bool) -> &mut VecDeque<PartId> {
        match has_payload {
            true => &mut self.accesses,
            false => &mut self.requests,
        }
    }
}
