//! What a client keeps for each I/O node: the session, the window, and what waits for both.

use std::collections::{BTreeMap, VecDeque};

use fec_transport::overlay::MemberId;
use fec_transport::{CloseReason, SessionId, StreamError, StreamId, Time};

use super::operation::{Operation, Part, Work};
use super::window::Window;
use super::{OperationError, OperationId};
use crate::transport::Transport;

/// A part of an operation: the position in [`Operation::parts`].
pub(super) type PartId = (OperationId, usize);

/// The way to one I/O node.
#[derive(Debug, Default)]
pub(super) struct Link {
    pub(super) session: Option<SessionId>,
    /// Whether that session has been open, so that its end is not the failure to open it.
    pub(super) was_open: bool,
    pub(super) window: Window,
    /// Payload bytes of the transfers under way.
    pub(super) in_flight: u64,
    /// Parts without payload that have not begun.
    requests: VecDeque<PartId>,
    /// Parts with payload of which not all transfers have begun. The first is served next, and goes to the end if it
    /// has more, so that operations share the link.
    accesses: VecDeque<PartId>,
}

impl Link {
    /// A part waits for its next transfer.
    pub(super) fn wait(&mut self, id: PartId, part: &Part) {
        self.queue_of(&part.work).push_back(id);
    }

    /// The same, in front of all others.
    pub(super) fn wait_in_front(&mut self, id: PartId, part: &Part) {
        self.queue_of(&part.work).push_front(id);
    }

    /// All operations that wait.
    pub(super) fn waiting(&self) -> impl Iterator<Item = OperationId> + '_ {
        self.requests.iter().chain(&self.accesses).map(|(operation, _)| *operation)
    }

    /// The next part that may begin a transfer now; it waits no more.
    ///
    /// Requests without payload pass the window; what has payload waits until there is room for a whole transfer.
    pub(super) fn next_part(
        &mut self,
        operations: &BTreeMap<OperationId, Operation>,
        window_bytes: u64,
        transfer_bytes: u64,
    ) -> Option<PartId> {
        let has_room = self.in_flight == 0 || self.in_flight + transfer_bytes <= window_bytes;
        next_alive(&mut self.requests, operations)
            .or_else(|| if has_room { next_alive(&mut self.accesses, operations) } else { None })
    }

    /// A stream to `member`. Without an error: there is none now, and an event will tell.
    pub(super) fn open_stream<T: Transport>(
        &mut self,
        now: Time,
        transport: &mut T,
        member: MemberId,
    ) -> Result<StreamId, Option<OperationError>> {
        let session = match self.session {
            Some(session) => session,
            None => transport.connect(now, member).map_err(|error| {
                let member = transport.member_name(member);
                Some(OperationError::Connect { member, error })
            })?,
        };
        self.session = Some(session);
        match transport.open_stream(session) {
            Ok(stream) => {
                self.was_open = true;
                Ok(stream)
            }
            Err(StreamError::NoSession) => {
                // It has just ended; its event finds another session here, or none.
                self.session = None;
                let (member, reason) = (transport.member_name(member), CloseReason::Local);
                Err(Some(OperationError::SessionClosed { member, reason }))
            }
            Err(_) => Err(None),
        }
    }

    fn queue_of(&mut self, work: &Work) -> &mut VecDeque<PartId> {
        match work {
            Work::Single { .. } => &mut self.requests,
            Work::Access { .. } => &mut self.accesses,
        }
    }
}

/// The first part of which not everything has begun; those before it are dropped, since their operation has ended.
fn next_alive(
    waiting: &mut VecDeque<PartId>,
    operations: &BTreeMap<OperationId, Operation>,
) -> Option<PartId> {
    let has_more = |(operation, part): &PartId| {
        operations.get(operation).and_then(|o| o.parts.get(*part)).is_some_and(Part::has_more)
    };
    std::iter::from_fn(|| waiting.pop_front()).find(has_more)
}
