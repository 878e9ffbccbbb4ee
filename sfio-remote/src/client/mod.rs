//! The client: striped files, opened by name, read and written over many I/O nodes at once.
//!
//! [`Client`] does no I/O. Actions come in by [`start`](Client::start), news of the transport by
//! [`handle_event`](Client::handle_event), and [`poll_completion`](Client::poll_completion) gives what has ended:
//!
//! ```text
//!  Action ──plan──▶ Stage: parts, one per (I/O node, subfile) ──────────────┐ all finished
//!                      │ waiting                                            ▼
//!                   Link: session and window of one I/O node         next stage, or Completion
//!                      │ next_part                                          ▲
//!                   Transfer: request · payload ──stream──▶ reply · payload ┘
//! ```
//!
//! Any number of operations run at once and share the links fairly. A part is cut into transfers only when there is
//! room for the next one, so that a large write holds nothing but the caller's own memory.

mod action;
mod config;
mod context;
mod error;
mod file;
mod files;
mod link;
mod operation;
pub mod operations;
mod packing;
mod part;
mod stage;
mod transfer;
mod unpacking;
mod window;

pub use action::{Action, Completion, OperationId, Receipt};
pub use config::ClientConfig;
pub use error::{OperationError, ProtocolError};
pub use file::{FileStat, Layout};
pub use files::{Durability, FileId};
pub use operation::Operation;
pub use operations::OpenMode;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use fec_transport::overlay::MemberId;
use fec_transport::{CloseReason, Event, SessionId, StreamId, Time};

use crate::compression::{CodecJob, CodecOutcome, CodecResult, Explanation, Held, JobQueue, Side};
use crate::progress::SessionProgress;
use crate::remote_error::RemoteError;
use crate::request::Staging;
use crate::transport::Transport;
use action::Delivery;
use context::Context;
use files::Files;
use link::{Link, Opening, PartId};
use operation::{Planning, Running, Step};
use packing::{JobOwner, Tools};
use stage::{Stage, Target};
use transfer::{End, Transfer};

/// Reads and writes striped files.
#[derive(Debug)]
pub struct Client {
    config: ClientConfig,
    files: Files,
    operations: BTreeMap<OperationId, Running>,
    links: BTreeMap<MemberId, Link>,
    transfers: BTreeMap<StreamId, (MemberId, Transfer)>,
    completions: VecDeque<Completion>,
    staging: Staging,
    progress: SessionProgress,
    codec_jobs: JobQueue<JobOwner>,
    held: Held,
}

impl Client {
    /// A client with nothing open.
    pub fn new(config: ClientConfig) -> Client {
        Client {
            codec_jobs: JobQueue::new(Side::Client, config.codec_jobs),
            held: Held::default(),
            config,
            files: Files::default(),
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
        let step = match self.operations.contains_key(&id) {
            true => action.refuse(OperationError::NumberInUse),
            false => action.begin(&Planning::new(&self.files, &self.config, transport)),
        };
        self.take(&mut Context::new(now, transport), id, step);
    }

    /// Gives up an operation. What has reached the I/O nodes stays.
    pub fn cancel<T: Transport>(&mut self, now: Time, transport: &mut T, id: OperationId) {
        self.fail(&mut Context::new(now, transport), id, OperationError::Cancelled);
    }

    /// What has ended.
    pub fn poll_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
    }

    /// What somebody is to pack or unpack next; the result goes to [`handle_codec`](Self::handle_codec).
    pub fn poll_codec_job(&mut self) -> Option<CodecJob> {
        self.codec_jobs.poll()
    }

    /// A codec job has ended.
    pub fn handle_codec<T: Transport>(&mut self, now: Time, transport: &mut T, result: CodecResult) {
        let context = &mut Context::new(now, transport);
        match (self.codec_jobs.ended(&result), &result.outcome) {
            (Some(JobOwner::Transfer(stream)), _) => self.coded(context, stream, result),
            (Some(JobOwner::Trial(member, subfile)), CodecOutcome::Tried(trials)) => {
                self.links.entry(member).or_default().compressor().tried(&subfile, trials);
            }
            _ => {}
        }
        self.release_held(context);
    }

    /// What was sent to each I/O node in frames, how it was packed, and why.
    pub fn compression(&self) -> impl Iterator<Item = (MemberId, Explanation)> + '_ {
        self.links.iter().filter_map(|(member, link)| Some((*member, link.compressed()?)))
    }

    /// How many striped files are open.
    pub fn open_files(&self) -> usize {
        self.files.count()
    }

    /// Whether a stream is one of this client's transfers.
    pub fn owns(&self, stream: StreamId) -> bool {
        self.transfers.contains_key(&stream)
    }

    /// The transport has news about one of this client's streams, or about a session.
    pub fn handle_event<T: Transport>(&mut self, now: Time, transport: &mut T, event: &Event) {
        self.progress.note(now, event);
        let context = &mut Context::new(now, transport);
        match event {
            Event::SessionOpened { session, peer, .. } => {
                if self.links.get_mut(&peer.member).is_some_and(|link| link.session_opened(*session)) {
                    self.pump(context, peer.member);
                }
            }
            Event::SessionClosed { session, member, reason } => {
                self.session_closed(context, *session, *member, reason);
            }
            Event::StreamsAvailable { session } => {
                let link = self.links.iter().find(|(_, link)| link.is_over(*session));
                if let Some(member) = link.map(|(member, _)| *member) {
                    self.pump(context, member);
                }
            }
            Event::Readable { stream } | Event::Writable { stream } => self.advance(context, *stream),
            Event::StreamReset { stream, code } => {
                self.ended(context, *stream, End::Failed(RemoteError::from_reset_code(*code)));
            }
            Event::Delivered { stream } => {
                if let Some((_, transfer)) = self.transfers.get_mut(stream) {
                    transfer.delivered(now);
                }
            }
            Event::StreamOpened { .. } | Event::SessionSilent { .. } | Event::SessionHeard { .. } => {}
        }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout).
    pub fn next_timeout(&self) -> Option<Time> {
        self.progress.next_check().into_iter().chain(self.held.until()).min()
    }

    /// Lets transfers go on that were held, and ends operations of which a transfer is stuck.
    pub fn handle_timeout<T: Transport>(&mut self, now: Time, transport: &mut T) {
        if self.held.is_due(now) {
            self.release_held(&mut Context::new(now, transport));
        }
        if !self.progress.check(now, transport, self.transfers.keys().map(|stream| stream.session)) {
            return;
        }
        let stuck = |(stream, (member, transfer)): (&StreamId, &(MemberId, Transfer))| {
            let (since, after) = transfer.waiting(&self.config);
            let is_stuck = self.progress.is_stuck(now, stream.session, since, after);
            is_stuck.then_some((transfer.operation(), *member, after))
        };
        let stuck: Vec<_> = self.transfers.iter().filter_map(stuck).collect();
        let context = &mut Context::new(now, transport);
        for (operation, member, after) in stuck {
            let member = context.name(member);
            self.fail(context, operation, OperationError::TimedOut { member, after });
        }
        self.schedule_check(now);
    }

    /// Takes an operation to its next stage that has something to do, or to its end.
    fn take(&mut self, context: &mut Context<'_, impl Transport>, id: OperationId, mut step: Step) {
        loop {
            match step {
                Step::Done(delivery) => return self.completions.push_back(Completion::new(id, delivery)),
                Step::Stage(running) if running.stage().is_finished() => {
                    step = running.finish(&mut self.files);
                }
                Step::Stage(running) => return self.enter(context, id, running),
            }
        }
    }

    /// Lets the parts of a stage wait for their links.
    fn enter(&mut self, context: &mut Context<'_, impl Transport>, id: OperationId, running: Running) {
        let mut members = BTreeSet::new();
        for (index, part) in running.stage().parts().iter().enumerate() {
            let link = self.links.entry(part.member()).or_default();
            link.wait((id, index), part.subfile_access().is_some());
            members.insert(part.member());
        }
        self.operations.insert(id, running);
        members.into_iter().for_each(|member| self.pump(context, member));
    }

    /// Begins as many transfers to `member` as window and streams allow.
    fn pump(&mut self, context: &mut Context<'_, impl Transport>, member: MemberId) {
        loop {
            let Some(link) = self.links.get_mut(&member) else { return };
            let room = link.room(context, &self.config);
            let has_more = |(id, part): PartId| {
                self.operations.get(&id).is_some_and(|running| running.stage().has_more(part))
            };
            let Some(id) = link.next_part(room, has_more) else { return };
            match link.open_stream(context, member) {
                Opening::Stream(stream) => self.begin(context, stream, (member, id), room.transfer),
                Opening::Later => return link.wait_in_front(id, has_payload(&self.operations, id)),
                Opening::Failed(error) => self.fail(context, id.0, error),
            }
        }
    }

    /// Begins the next transfer of a part, of at most `limit` bytes of payload.
    fn begin(
        &mut self,
        context: &mut Context<'_, impl Transport>,
        stream: StreamId,
        (member, id): (MemberId, PartId),
        limit: u64,
    ) {
        if let Err(error) = self.note_begin(context, stream, id) {
            context.give_up(stream);
            return self.fail(context, id.0, error);
        }
        let Some(running) = self.operations.get_mut(&id.0) else { return };
        let stage = running.stage_mut();
        let Some(transfer) = Transfer::next(context.now(), stream, id, stage, limit) else { return };
        let waits_again = stage.waits_again(id.1);
        let link = self.links.entry(member).or_default();
        link.transfer_began(transfer.weight());
        if waits_again {
            link.wait(id, has_payload(&self.operations, id));
        }
        if transfer.sends_no_payload() {
            context.set_interactive(stream);
        }
        self.transfers.insert(stream, (member, transfer));
        self.schedule_check(context.now());
        self.advance(context, stream);
    }

    /// A transfer of a part is about to begin. A sync says which writes it covers.
    ///
    /// # Errors
    /// If a process of the I/O node that is not there any more has taken writes that were never synced: this one knows
    /// nothing of them.
    fn note_begin(
        &mut self,
        context: &Context<'_, impl Transport>,
        stream: StreamId,
        (id, part): PartId,
    ) -> Result<(), OperationError> {
        let Some(stage) = self.operations.get_mut(&id).map(Running::stage_mut) else { return Ok(()) };
        let Some(Target { file, member, path }) = stage.syncs(part) else { return Ok(()) };
        let covers = self.files.covers(file, (member, path), context.process(stream.session));
        let lost = || OperationError::Restarted { subfile: format!("{},{path}", context.name(member)) };
        let covers = covers.ok_or_else(lost)?;
        stage.set_covers(part, covers);
        Ok(())
    }

    /// A transfer of a part has succeeded.
    fn note_success(&mut self, context: &Context<'_, impl Transport>, stream: StreamId, (id, part): PartId) {
        let Some(stage) = self.operations.get(&id).map(Running::stage) else { return };
        if let Some(Target { file, member, path }) = stage.writes_to(part) {
            self.files.note_write(file, (member, path), context.process(stream.session));
        }
        if let Some(Target { file, member, path }) = stage.syncs(part) {
            self.files.note_sync(file, (member, path), stage.part(part).covers());
        }
    }

    fn advance(&mut self, context: &mut Context<'_, impl Transport>, stream: StreamId) {
        let end = self.with(stream, |transfer, stage, tools| transfer.advance(context, stage, tools));
        if let Some(end) = end {
            self.ended(context, stream, end);
        }
    }

    /// A codec has worked for a transfer.
    fn coded(&mut self, context: &mut Context<'_, impl Transport>, stream: StreamId, result: CodecResult) {
        let now = context.now();
        let end = self.with(stream, |transfer, stage, tools| transfer.coded(now, result, stage, tools));
        match end {
            Some(end) => self.ended(context, stream, end),
            None => self.advance(context, stream),
        }
    }

    /// Has a transfer take a step; gives how it ended, if it did.
    fn with(
        &mut self,
        stream: StreamId,
        step: impl FnOnce(&mut Transfer, &mut Stage, &mut Tools<'_>) -> Option<End>,
    ) -> Option<End> {
        let sharers = self.links.values().filter(|link| link.is_busy()).count();
        let (member, transfer) = self.transfers.get_mut(&stream)?;
        let running = self.operations.get_mut(&transfer.operation())?;
        let mut tools = Tools {
            staging: &mut self.staging,
            jobs: &mut self.codec_jobs,
            held: &mut self.held,
            compressor: self.links.entry(*member).or_default().compressor(),
            member: *member,
            sharers,
        };
        step(transfer, running.stage_mut(), &mut tools)
    }

    /// Those that were held ask again.
    fn release_held(&mut self, context: &mut Context<'_, impl Transport>) {
        self.held.release().into_iter().for_each(|stream| self.advance(context, stream));
    }

    /// A transfer has ended.
    fn ended(&mut self, context: &mut Context<'_, impl Transport>, stream: StreamId, end: End) {
        let Some((member, transfer)) = self.transfers.get(&stream) else { return };
        let (member, id) = (*member, transfer.id());
        let tolerated =
            |error: &RemoteError| self.operations.get(&id.0).is_some_and(|o| o.stage().tolerates(error));
        match end {
            End::Complete => {
                self.forget(stream);
                self.note_success(context, stream, id);
                self.part_ended(context, id);
            }
            End::Failed(error) if tolerated(&error) => {
                self.forget(stream);
                context.give_up(stream);
                self.part_ended(context, id);
            }
            End::Failed(error) => {
                let subfile = self.describe(id, context.name(member));
                self.fail(context, id.0, OperationError::IoNode { subfile, error });
            }
            End::Broken(error) => {
                let member = context.name(member);
                self.fail(context, id.0, OperationError::Protocol { member, error });
            }
            // The event that says why ends the operation.
            End::Gone => return,
        }
        self.pump(context, member);
    }

    /// One transfer of a part is done; perhaps the part is, perhaps the stage.
    fn part_ended(&mut self, context: &mut Context<'_, impl Transport>, id: PartId) {
        let Some(running) = self.operations.get_mut(&id.0) else { return };
        let stage = running.stage_mut();
        if stage.transfer_ended(id.1) {
            let part = stage.part(id.1);
            self.links.entry(part.member()).or_default().wait(id, part.subfile_access().is_some());
        }
        if stage.is_finished()
            && let Some(running) = self.operations.remove(&id.0)
        {
            self.take(context, id.0, Step::Stage(running));
        }
    }

    /// Ends an operation with an error, and gives up its transfers.
    fn fail(&mut self, context: &mut Context<'_, impl Transport>, id: OperationId, error: OperationError) {
        let Some(running) = self.operations.remove(&id) else { return };
        let streams = self.transfers.iter().filter(|(_, (_, transfer))| transfer.operation() == id);
        let streams: Vec<StreamId> = streams.map(|(stream, _)| *stream).collect();
        let mut members = BTreeSet::new();
        for stream in streams {
            context.give_up(stream);
            members.extend(self.forget(stream).map(|(member, _)| member));
        }
        let step = running.fail(error, &mut self.files);
        self.take(context, id, step);
        members.into_iter().for_each(|member| self.pump(context, member));
    }

    fn session_closed(
        &mut self,
        context: &mut Context<'_, impl Transport>,
        session: SessionId,
        member: MemberId,
        reason: &CloseReason,
    ) {
        self.files.holder_was_lost(member);
        let lost = self.transfers.iter().filter(|(stream, _)| stream.session == session);
        let mut concerned: BTreeSet<OperationId> =
            lost.map(|(_, (_, transfer))| transfer.operation()).collect();
        if let Some(link) = self.links.get_mut(&member) {
            concerned.extend(link.session_closed(session));
        }
        for id in concerned {
            let (member, reason) = (context.name(member), reason.clone());
            self.fail(context, id, OperationError::SessionClosed { member, reason });
        }
        // Whatever had not begun gets a new session.
        self.pump(context, member);
    }

    fn forget(&mut self, stream: StreamId) -> Option<(MemberId, Transfer)> {
        let (member, transfer) = self.transfers.remove(&stream)?;
        self.codec_jobs.cancel(|owner| *owner == JobOwner::Transfer(stream));
        if let Some(link) = self.links.get_mut(&member) {
            link.transfer_ended(transfer.weight());
        }
        Some((member, transfer))
    }

    /// The subfile of a part of `member`, as users write it; the I/O node's name for a part without one.
    fn describe(&self, (id, part): PartId, member: String) -> String {
        let running = self.operations.get(&id);
        match running.and_then(|running| running.stage().part(part).path()) {
            Some(path) => format!("{member},{path}"),
            None => member,
        }
    }

    fn schedule_check(&mut self, now: Time) {
        if !self.transfers.is_empty() {
            let shortest = self.config.progress_timeout.min(self.config.reply_timeout);
            self.progress.begin(now, shortest);
        }
    }
}

/// Whether the transfers of a part carry bytes of a file.
fn has_payload(operations: &BTreeMap<OperationId, Running>, (id, part): PartId) -> bool {
    operations.get(&id).is_some_and(|running| running.stage().part(part).subfile_access().is_some())
}

#[cfg(test)]
mod tests;
