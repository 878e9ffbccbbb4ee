//! The client: striped files, opened by name, read and written over many I/O nodes at once.
//!
//! [`Client`] does no I/O. Actions come in by [`start`](Client::start), news of the transport by
//! [`handle_event`](Client::handle_event), and [`poll_completion`](Client::poll_completion) gives what has ended:
//!
//! ```text
//!  Action ──plan──▶ Operation: parts, one per (I/O node, subfile) ──────────┐ all finished
//!                      │ waiting                                            ▼
//!                   Link: session and window of one I/O node         next stage, or Completion
//!                      │ next_part                                          ▲
//!                   Transfer: request · payload ──stream──▶ reply · payload ┘
//! ```
//!
//! Any number of operations run at once and share the links fairly. A part is cut into transfers only when there is room
//! for the next one, so that a large write holds nothing but the caller's own memory.

mod action;
mod config;
mod error;
mod file;
mod growth;
mod link;
mod operation;
mod plan;
mod reading;
mod transfer;
mod window;

pub use action::{Action, Answer, Completion, Durability, FileId, OpenMode};
pub use config::ClientConfig;
pub use error::{OperationError, ProtocolError};
pub use file::{FileStat, Layout};

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use fec_transport::overlay::MemberId;
use fec_transport::{CloseReason, Event, SessionId, StreamId, Time};

use crate::progress::SessionProgress;
use crate::remote_error::{ErrorKind, RemoteError};
use crate::request::Staging;
use crate::transport::Transport;
use file::OpenFile;
use link::Link;
use operation::{Goal, Operation, Outcome};
use plan::Planned;
use transfer::{End, Transfer};

/// An operation of a client; the caller chooses the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct OperationId(pub u64);

/// Reads and writes striped files.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    files: BTreeMap<FileId, OpenFile>,
    next_file: u64,
    operations: BTreeMap<OperationId, Operation>,
    links: BTreeMap<MemberId, Link>,
    transfers: BTreeMap<StreamId, (MemberId, Transfer)>,
    completions: VecDeque<Completion>,
    staging: Staging,
    progress: SessionProgress,
}

impl Client {
    /// A client with nothing open.
    pub fn new(config: ClientConfig) -> Client {
        Client {
            config,
            files: BTreeMap::new(),
            next_file: 1,
            operations: BTreeMap::new(),
            links: BTreeMap::new(),
            transfers: BTreeMap::new(),
            completions: VecDeque::new(),
            staging: Staging::default(),
            progress: SessionProgress::default(),
        }
    }

    /// Begins an operation; exactly one completion with its number follows.
    ///
    /// A number that is under way is refused, which completes the second operation and leaves the first alone.
    pub fn start<T: Transport>(&mut self, now: Time, transport: &mut T, id: OperationId, action: Action) {
        if self.operations.contains_key(&id) {
            return self.complete(id, Err(OperationError::NumberInUse));
        }
        match self.plan(action, transport) {
            Ok(Planned::Operation(operation)) => self.enter(now, transport, id, operation),
            Ok(Planned::Answer(answer)) => self.complete(id, Ok(answer)),
            Err(error) => self.complete(id, Err(error)),
        }
    }

    /// Gives up an operation. What has reached the I/O nodes stays.
    pub fn cancel<T: Transport>(&mut self, now: Time, transport: &mut T, id: OperationId) {
        self.fail(now, transport, id, OperationError::Cancelled);
    }

    /// What has ended.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// Whether a stream is one of this client's transfers.
    pub fn owns(&self, stream: StreamId) -> bool {
        self.transfers.contains_key(&stream)
    }

    /// The transport has news about one of this client's streams, or about a session.
    pub fn handle_event<T: Transport>(&mut self, now: Time, transport: &mut T, event: &Event) {
        match event {
            Event::SessionOpened { session, peer, .. } => {
                if let Some(link) = self.links.get_mut(&peer.member).filter(|l| l.session == Some(*session)) {
                    link.was_open = true;
                    self.pump(now, transport, peer.member);
                }
            }
            Event::SessionClosed { session, member, reason } => {
                self.session_closed(now, transport, *session, *member, reason);
            }
            Event::StreamsAvailable { session } => {
                let link = self.links.iter().find(|(_, link)| link.session == Some(*session));
                if let Some(member) = link.map(|(member, _)| *member) {
                    self.pump(now, transport, member);
                }
            }
            Event::Readable { stream } | Event::Writable { stream } => self.advance(now, transport, *stream),
            Event::StreamReset { stream, code } => {
                self.ended(now, transport, *stream, End::Failed(RemoteError::from_reset_code(*code)));
            }
            Event::Delivered { stream } => {
                if let Some((_, transfer)) = self.transfers.get_mut(stream) {
                    transfer.delivered(now);
                }
            }
            Event::StreamOpened { .. } => {}
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub fn next_timeout(&self) -> Option<Time> {
        self.progress.next_check()
    }

    /// Ends operations of which a transfer is stuck.
    pub fn handle_timeout<T: Transport>(&mut self, now: Time, transport: &mut T) {
        if !self.progress.check(now, transport, self.transfers.keys().map(|stream| stream.session)) {
            return;
        }
        let stuck = |(stream, (member, transfer)): (&StreamId, &(MemberId, Transfer))| {
            let (since, after) = transfer.waiting(&self.config);
            let is_stuck = self.progress.is_stuck(now, stream.session, since, after);
            is_stuck.then_some((transfer.operation, *member, after))
        };
        let stuck: Vec<_> = self.transfers.iter().filter_map(stuck).collect();
        for (operation, member, after) in stuck {
            let member = transport.member_name(member);
            self.fail(now, transport, operation, OperationError::TimedOut { member, after });
        }
        self.schedule_check(now);
    }

    /// Lets the parts of an operation, or of its next stage, wait for their links.
    fn enter<T: Transport>(
        &mut self,
        now: Time,
        transport: &mut T,
        id: OperationId,
        mut operation: Operation,
    ) {
        while operation.unfinished == 0 {
            match self.finish(operation) {
                Ok(next) => operation = next,
                Err(result) => return self.complete(id, result),
            }
        }
        let members: BTreeSet<MemberId> = operation.parts.iter().map(|part| part.member).collect();
        for (index, part) in operation.parts.iter().enumerate() {
            self.links.entry(part.member).or_default().wait((id, index), part);
        }
        self.operations.insert(id, operation);
        members.into_iter().for_each(|member| self.pump(now, transport, member));
    }

    /// All parts of a stage are finished: the next stage, or the result.
    fn finish(&mut self, operation: Operation) -> Result<Operation, Result<Answer, OperationError>> {
        match operation.goal {
            Goal::Grow { file, end } => self.note_length(file, |known| known.max(end)),
            Goal::SetLength { file, length } => self.note_length(file, |_| length),
            _ => {}
        }
        match operation.finish() {
            Outcome::Continue(next) => Ok(next),
            Outcome::Answered(result) => Err(result),
            Outcome::Opened { layout, durability, stat } => {
                let file = FileId(self.next_file);
                self.next_file += 1;
                let known_length = stat.length();
                let open = OpenFile { layout: Arc::clone(&layout), durability, known_length };
                self.files.insert(file, open);
                Err(Ok(Answer::Opened { file, stat, layout }))
            }
        }
    }

    fn note_length(&mut self, file: FileId, change: impl FnOnce(u64) -> u64) {
        if let Some(file) = self.files.get_mut(&file) {
            file.known_length = change(file.known_length);
        }
    }

    /// Begins as many transfers to `member` as window and streams allow.
    fn pump<T: Transport>(&mut self, now: Time, transport: &mut T, member: MemberId) {
        loop {
            let Some(link) = self.links.get_mut(&member) else { return };
            let window = match link.session {
                Some(session) => link.window.bytes(now, transport, session, &self.config),
                None => self.config.least_window_bytes(),
            };
            let limit = self.config.transfer_limit(window);
            let Some((id, part)) = link.next_part(&self.operations, window, limit) else { return };
            match link.open_stream(now, transport, member) {
                Ok(stream) => self.begin(now, transport, member, stream, (id, part), limit),
                Err(None) => return link.wait_in_front((id, part), &self.operations[&id].parts[part]),
                Err(Some(error)) => self.fail(now, transport, id, error),
            }
        }
    }

    fn begin<T: Transport>(
        &mut self,
        now: Time,
        transport: &mut T,
        member: MemberId,
        stream: StreamId,
        (id, part): link::PartId,
        limit: u64,
    ) {
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let Some(transfer) = Transfer::next(now, id, part, operation, limit) else { return };
        let link = self.links.entry(member).or_default();
        link.in_flight += transfer.weight();
        let begun = &mut operation.parts[part];
        if begun.has_more() && begun.may_begin() {
            link.wait((id, part), begun);
        } else {
            begun.held_back = begun.has_more();
        }
        if transfer.sends_no_payload() {
            transport.set_interactive(now, stream);
        }
        self.transfers.insert(stream, (member, transfer));
        self.schedule_check(now);
        self.advance(now, transport, stream);
    }

    fn advance<T: Transport>(&mut self, now: Time, transport: &mut T, stream: StreamId) {
        let Some((_, transfer)) = self.transfers.get_mut(&stream) else { return };
        let Some(operation) = self.operations.get_mut(&transfer.operation) else { return };
        if let Some(end) = transfer.advance(now, transport, stream, operation, &mut self.staging) {
            self.ended(now, transport, stream, end);
        }
    }

    /// A transfer has ended.
    fn ended<T: Transport>(&mut self, now: Time, transport: &mut T, stream: StreamId, end: End) {
        let Some((member, transfer)) = self.forget(stream) else { return };
        let (id, part) = (transfer.operation, transfer.part);
        let tolerated = |error: &RemoteError| self.operations.get(&id).is_some_and(|o| o.tolerates(error));
        match end {
            End::Complete => self.part_ended(now, transport, id, part),
            End::Failed(error) if tolerated(&error) => {
                transport.reset(now, stream, cancelled());
                self.part_ended(now, transport, id, part);
            }
            End::Failed(error) => {
                transport.reset(now, stream, cancelled());
                let subfile = self.describe(transport, id, part, member);
                self.fail(now, transport, id, OperationError::IoNode { subfile, error });
            }
            End::Broken(error) => {
                transport.reset(now, stream, cancelled());
                let member = transport.member_name(member);
                self.fail(now, transport, id, OperationError::Protocol { member, error });
            }
            End::Gone => {
                let (member, reason) = (transport.member_name(member), CloseReason::Local);
                self.fail(now, transport, id, OperationError::SessionClosed { member, reason });
            }
        }
        self.pump(now, transport, member);
    }

    /// One transfer of a part is done; perhaps the part is, perhaps the operation.
    fn part_ended<T: Transport>(&mut self, now: Time, transport: &mut T, id: OperationId, part: usize) {
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let ended = &mut operation.parts[part];
        ended.running -= 1;
        if std::mem::take(&mut ended.held_back) {
            self.links.entry(ended.member).or_default().wait((id, part), ended);
        }
        if ended.running == 0 && !ended.has_more() {
            operation.unfinished -= 1;
        }
        if operation.unfinished == 0
            && let Some(operation) = self.operations.remove(&id)
        {
            self.enter(now, transport, id, operation);
        }
    }

    /// Ends an operation with an error, and gives up its transfers.
    fn fail<T: Transport>(&mut self, now: Time, transport: &mut T, id: OperationId, error: OperationError) {
        if self.operations.remove(&id).is_none() {
            return;
        }
        let streams = self.transfers.iter().filter(|(_, (_, transfer))| transfer.operation == id);
        let streams: Vec<StreamId> = streams.map(|(stream, _)| *stream).collect();
        let mut members = BTreeSet::new();
        for stream in streams {
            transport.reset(now, stream, cancelled());
            members.extend(self.forget(stream).map(|(member, _)| member));
        }
        self.complete(id, Err(error));
        members.into_iter().for_each(|member| self.pump(now, transport, member));
    }

    fn session_closed<T: Transport>(
        &mut self,
        now: Time,
        transport: &mut T,
        session: SessionId,
        member: MemberId,
        reason: &CloseReason,
    ) {
        // Its power may have failed, and a subfile be shorter than it was.
        let held_there = self.files.values_mut().filter(|file| file.layout.holders.contains(&member));
        held_there.for_each(|file| file.known_length = 0);
        let lost = self.transfers.iter().filter(|(stream, _)| stream.session == session);
        let mut concerned: BTreeSet<OperationId> =
            lost.map(|(_, (_, transfer))| transfer.operation).collect();
        if let Some(link) = self.links.get_mut(&member).filter(|link| link.session == Some(session)) {
            link.session = None;
            if !std::mem::take(&mut link.was_open) {
                concerned.extend(link.waiting());
            }
        }
        for id in concerned {
            let (member, reason) = (transport.member_name(member), reason.clone());
            self.fail(now, transport, id, OperationError::SessionClosed { member, reason });
        }
        // Whatever had not begun gets a new session.
        self.pump(now, transport, member);
    }

    fn forget(&mut self, stream: StreamId) -> Option<(MemberId, Transfer)> {
        let (member, transfer) = self.transfers.remove(&stream)?;
        if let Some(link) = self.links.get_mut(&member) {
            link.in_flight -= transfer.weight();
        }
        Some((member, transfer))
    }

    fn complete(&mut self, operation: OperationId, result: Result<Answer, OperationError>) {
        self.completions.push_back(Completion { operation, result });
    }

    /// The subfile of a part, as users write it; the I/O node's name for a part without one.
    fn describe(&self, transport: &impl Transport, id: OperationId, part: usize, member: MemberId) -> String {
        let path = self.operations.get(&id).and_then(|operation| operation.parts[part].path());
        let member = transport.member_name(member);
        path.map_or(member.clone(), |path| format!("{member},{path}"))
    }

    fn schedule_check(&mut self, now: Time) {
        if !self.transfers.is_empty() {
            let shortest = self.config.progress_timeout.min(self.config.reply_timeout);
            self.progress.begin(now, shortest);
        }
    }
}

/// The code with which a client gives up a stream.
fn cancelled() -> u32 {
    RemoteError::new(ErrorKind::Cancelled, "").reset_code()
}

#[cfg(test)]
mod tests;
