//! One transfer: a request, what it asks for, and the reply.
//!
//! ```text
//!                    ┌── write ───▶ Reception ──┐ all written
//!  Request ──────────┤                          ├──────────▶ Waiting ──┐ synced
//!  (its bytes arrive)├── others ────────────────┘  durable             ├──▶ Replied
//!                    └── read ───▶ Sizing ──▶ Emission ────────────────┘    (input is discarded)
//! ```

use bytes::Bytes;
use fec_transport::overlay::MemberId;
use fec_transport::{Read, StreamError, Time};

use super::context::Context;
use super::disk_queue::Completed;
use super::emission::Emission;
use super::outbox::Outbox;
use super::publication::{Claim, Publication};
use super::reception::Reception;
use super::reclamation::Reclamation;
use super::record_work::RecordWork;
use crate::compression::{CodecResult, Packing};
use crate::dataset::{Territory, is_lock};
use crate::distribution::Extent;
use crate::name::SubfilePath;
use crate::remote_error::{ErrorKind, RemoteError};
use crate::request::Run;
use crate::store::{DiskAction, DiskReply};
use crate::transport::Transport;
use crate::wire::{
    Assembler, MAX_LISTING_BYTES, Reply, Request, RequestId, RequestKind, RunTable, WireError, emit_listing,
};

/// How much is read at once while a request arrives, or while input is discarded.
const READ_BYTES: u64 = 16 << 10;

/// Whether a step changed anything, so that another one may be possible.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Progress {
    Made,
    Blocked,
}

/// What became of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// It waits for something.
    Running,
    /// Both directions have ended.
    Ended,
}

/// One transfer.
#[derive(Debug)]
pub(super) struct Transfer {
    work: Work,
    outbox: Outbox,
    input_ended: bool,
    last_progress: Time,
    /// The member that asks.
    member: MemberId,
    /// Memory that the request takes, and its reply if that is not a read's.
    request_bytes: u64,
}

#[derive(Debug)]
enum Work {
    /// The request arrives.
    Request(Assembler),
    /// The payload of a write arrives.
    Reception { reception: Reception, durable: bool },
    /// A read waits for the size of the subfile.
    Sizing { path: SubfilePath, runs: RunTable, packing: Packing },
    /// A folder is being listed.
    Listing { folder: SubfilePath },
    /// The payload of a read is sent.
    Emission(Emission),
    /// Records of a data set are looked at, and perhaps changed.
    Records(RecordWork),
    /// The disk works; `size_before` is what an operation before this one told.
    Waiting { path: SubfilePath, then: Then, size_before: Option<u64> },
    /// The reply is on its way, or a failed one is.
    Replied,
}

/// What follows when the disk has done what was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// The reply.
    Reply,
    /// A sync, then the reply.
    Sync,
    /// The subfile does not have this path any more.
    Moved,
    /// This session writes the subfile, which is new, and nobody else does.
    Created,
}

impl Transfer {
    /// A transfer of `member`, for which `request_bytes` of memory were taken.
    pub(super) fn new(now: Time, member: MemberId, request_bytes: u64) -> Transfer {
        let work = Work::Request(Assembler::request());
        let outbox = Outbox::default();
        Transfer { work, outbox, input_ended: false, last_progress: now, member, request_bytes }
    }

    /// The member that asks.
    pub(super) fn member(&self) -> MemberId {
        self.member
    }

    /// Since when nothing has moved.
    pub(super) fn idle_since(&self) -> Time {
        self.last_progress
    }

    /// Goes on as far as possible.
    ///
    /// # Errors
    /// If the stream is gone.
    pub(super) fn advance<T: Transport>(&mut self, cx: &mut Context<'_, T>) -> Result<Status, StreamError> {
        loop {
            let progress = self.step(cx)?;
            let (written, freed) = self.outbox.pump(cx.now, cx.transport, cx.asker.stream)?;
            cx.release_memory(freed);
            if written == 0 && progress == Progress::Blocked {
                break;
            }
            self.last_progress = cx.now;
        }
        if matches!(self.work, Work::Replied) {
            cx.shared.turns.release(cx.member(), cx.stream());
        }
        let ended = self.outbox.is_finished() && self.input_ended;
        Ok(if ended { Status::Ended } else { Status::Running })
    }

    /// A disk operation of this transfer has ended.
    ///
    /// # Errors
    /// Why the stream must be reset: the reply has begun, so that it can no longer tell.
    pub(super) fn completed<T: Transport>(
        &mut self,
        completed: Completed,
        cx: &mut Context<'_, T>,
    ) -> Result<(), RemoteError> {
        self.last_progress = cx.now;
        let outcome = completed.outcome.map_err(|error| error.error);
        if let Work::Emission(emission) = &mut self.work {
            let read = outcome.and_then(|reply| emission.read(completed.ticket, reply.data));
            // What was read stays in memory until it is sent; the list of what to read does not.
            let kept = *read.as_ref().unwrap_or(&0);
            cx.release_memory(completed.reserved - kept);
            return read.map(drop);
        }
        cx.release_memory(completed.reserved);
        if let Work::Records(work) = &mut self.work {
            match work.completed(completed.ticket, outcome, cx) {
                Ok(false) => {}
                Ok(true) => self.reply(&Reply::done(0)),
                Err(error) => self.fail(error, cx),
            }
            return Ok(());
        }
        match (outcome, &self.work) {
            (Ok(reply), _) => self.succeeded(&reply, cx),
            // A data set that nobody has begun has no records: that is no failure.
            (Err(error), Work::Listing { .. }) if error.kind == ErrorKind::NotFound => {
                self.succeeded(&DiskReply::default(), cx);
            }
            (Err(error), _) => self.fail(error, cx),
        }
        Ok(())
    }

    /// A codec job of this transfer has ended.
    pub(super) fn coded<T: Transport>(&mut self, result: CodecResult, cx: &mut Context<'_, T>) {
        self.last_progress = cx.now;
        match &mut self.work {
            Work::Emission(emission) => emission.coded(&result, cx),
            Work::Reception { reception, .. } => {
                if let Err(error) = reception.coded(result) {
                    self.fail(error, cx);
                }
            }
            _ => {}
        }
    }

    /// Hands what has arrived of a write to the disk, because others wait for the memory.
    pub(super) fn flush<T: Transport>(&mut self, cx: &mut Context<'_, T>) {
        if let Work::Reception { reception, .. } = &mut self.work {
            reception.flush(cx);
        }
    }

    /// Gives back the memory that the transfer still holds; it is not used any more.
    pub(super) fn release<T: Transport>(self, cx: &mut Context<'_, T>) {
        cx.release_memory(self.held() + self.outbox.reserved());
        cx.shared.requests.give_back(self.member, self.request_bytes);
    }

    /// The payload memory that belongs neither to a running disk operation nor to the outbox.
    fn held(&self) -> u64 {
        match &self.work {
            Work::Reception { reception, .. } => reception.held(),
            Work::Emission(emission) => emission.held(),
            _ => 0,
        }
    }

    fn step<T: Transport>(&mut self, cx: &mut Context<'_, T>) -> Result<Progress, StreamError> {
        match &mut self.work {
            Work::Request(_) => self.read_request(cx),
            Work::Reception { reception, durable } => {
                let (step, durable) = (reception.step(cx)?, *durable);
                let written = reception.outcome();
                match (step, written) {
                    (Err(error), _) => self.fail(error, cx),
                    (Ok(_), Some(size)) => self.finish_write(size, durable, cx),
                    (Ok(progress), None) => return Ok(progress),
                }
                Ok(Progress::Made)
            }
            Work::Emission(emission) if emission.is_complete() => {
                self.outbox.close();
                self.work = Work::Replied;
                Ok(Progress::Made)
            }
            Work::Emission(emission) => Ok(emission.step(cx, &mut self.outbox)),
            Work::Records(work) => match work.step(cx) {
                Ok(progress) => Ok(progress),
                Err(error) => {
                    self.fail(error, cx);
                    Ok(Progress::Made)
                }
            },
            Work::Sizing { .. } | Work::Listing { .. } | Work::Waiting { .. } => Ok(Progress::Blocked),
            Work::Replied => self.discard_input(cx),
        }
    }

    fn read_request<T: Transport>(&mut self, cx: &mut Context<'_, T>) -> Result<Progress, StreamError> {
        let Work::Request(assembler) = &mut self.work else { return Ok(Progress::Blocked) };
        let message = match cx.read(READ_BYTES)? {
            Read::Blocked => return Ok(Progress::Blocked),
            Read::Finished | Read::Lost { .. } => Err(assembler.truncated()),
            Read::Data { mut bytes, .. } => {
                let arrived = bytes.len();
                let message = assembler.push(&mut bytes);
                match cx.take_for_request((arrived - bytes.len()) as u64) {
                    Ok(taken) => self.request_bytes += taken,
                    Err(error) => {
                        self.fail(error, cx);
                        return Ok(Progress::Made);
                    }
                }
                message.map(|message| (message, bytes))
            }
        };
        match message {
            Ok((None, _)) => {}
            Ok((Some(message), rest)) => match Request::parse(&message) {
                Ok(request) => self.begin(request, rest, cx),
                Err(error) => self.fail(bad_request(&error), cx),
            },
            Err(error) => self.fail(bad_request(&error), cx),
        }
        Ok(Progress::Made)
    }

    /// Begins what the request asks for; `rest` is what has arrived behind it.
    fn begin<T: Transport>(&mut self, request: Request, rest: Bytes, cx: &mut Context<'_, T>) {
        let Request { id, durable, packing, kind } = request;
        tracing::trace!(stream = ?cx.stream(), ?id, kind = kind.name(), "request");
        if let Err(error) = cx.admit(&kind) {
            return self.fail(error, cx);
        }
        if !matches!(kind, RequestKind::Read { .. }) {
            cx.transport.set_interactive(cx.now, cx.stream());
        }
        let after_change = if durable { Then::Sync } else { Then::Reply };
        match kind {
            RequestKind::Remove { ref path } => {
                self.once((id, &kind), path, DiskAction::Remove { durable }, cx);
            }
            RequestKind::Rename { ref path, ref target, replace } => {
                let action = DiskAction::Rename { target: target.clone(), replace, durable };
                self.once((id, &kind), path, action, cx);
            }
            RequestKind::Write { path, runs } => {
                let reception = Reception::new(path, &runs, (packing, rest), cx);
                self.work = Work::Reception { reception, durable };
            }
            RequestKind::Read { path, runs, from_disk } => {
                cx.submit(&path, sizing(&runs, from_disk), 0);
                self.work = Work::Sizing { path, runs, packing };
            }
            RequestKind::List { folder, after } => {
                match cx.take_for_request(MAX_LISTING_BYTES as u64) {
                    Ok(taken) => self.request_bytes += taken,
                    Err(error) => return self.fail(error, cx),
                }
                cx.submit(&folder, DiskAction::List { after, durable }, 0);
                self.work = Work::Listing { folder };
            }
            RequestKind::Publish { dataset, staged, number } => {
                let claim = Claim { dataset, staged, number };
                self.work = Work::Records(RecordWork::Publication(Publication::new(claim)));
            }
            RequestKind::Reclaim { dataset, run, number } => {
                let reclamation = Reclamation::new(dataset, run, number);
                self.work = Work::Records(RecordWork::Reclamation(reclamation));
            }
            RequestKind::Mark { dataset } => {
                cx.shared.grace.mark(cx.now, dataset);
                self.reply(&Reply::done(0));
            }
            RequestKind::Create { path, truncate, claim, exclusive } => {
                // A lock has nothing in it that could be cut, and a member that may only add may claim it.
                let (is_new_claim, truncate) = (claim && truncate, truncate && !(claim && is_lock(&path)));
                let owner = cx.client_name().ok();
                let is_written_once = exclusive && matches!(Territory::of(&path), Territory::Dataset(_));
                let then = if is_written_once { Then::Created } else { Then::Reply };
                let action = DiskAction::Create { truncate, exclusive, durable, owner };
                match is_new_claim {
                    true => cx.submit_claimed(&path, action),
                    false => drop(cx.submit(&path, action, 0)),
                }
                self.work = Work::Waiting { path, then, size_before: None };
            }
            RequestKind::SetLength { path, length } => {
                self.wait(path, DiskAction::SetLength { length }, after_change, cx);
            }
            RequestKind::Grow { path, length } => {
                self.wait(path, DiskAction::Grow { length }, after_change, cx);
            }
            RequestKind::Stat { path } => self.wait(path, DiskAction::Size, Then::Reply, cx),
            RequestKind::Sync { path } => self.sync(path, None, cx),
            RequestKind::ErrorCounters { reset } => self.tell_counters(reset, cx),
        }
    }

    /// Carries out what must not be carried out twice.
    fn once<T: Transport>(
        &mut self,
        request: (RequestId, &RequestKind),
        path: &SubfilePath,
        action: DiskAction,
        cx: &mut Context<'_, T>,
    ) {
        self.work = Work::Waiting { path: path.clone(), then: Then::Moved, size_before: None };
        match cx.submit_once(request, path, action) {
            None => {}
            Some(Ok(reply)) => self.reply(&Reply::done(reply.size_before)),
            Some(Err(error)) => self.fail(error, cx),
        }
    }

    fn wait<T: Transport>(
        &mut self,
        path: SubfilePath,
        action: DiskAction,
        then: Then,
        cx: &mut Context<'_, T>,
    ) {
        cx.submit(&path, action, 0);
        self.work = Work::Waiting { path, then, size_before: None };
    }

    fn sync<T: Transport>(&mut self, path: SubfilePath, size_before: Option<u64>, cx: &mut Context<'_, T>) {
        match cx.sync(&path) {
            Ok(()) => self.work = Work::Waiting { path, then: Then::Reply, size_before },
            Err(error) => self.fail(error, cx),
        }
    }

    fn succeeded<T: Transport>(&mut self, reply: &DiskReply, cx: &mut Context<'_, T>) {
        match &mut self.work {
            Work::Reception { reception, .. } => reception.written(reply),
            Work::Sizing { path, runs, packing } => {
                let (size, payload) = (reply.size_before, runs.payload_before(reply.size_before));
                let header = Reply { result: Ok(()), size, payload };
                self.outbox.push(header.emit().into(), 0);
                self.work = Work::Emission(Emission::new(path.clone(), runs, payload, *packing));
            }
            Work::Listing { folder } => {
                let mut listing = reply.listing.clone();
                cx.displace_writers(folder, &listing);
                cx.shared.admission.mark_written(folder, &mut listing);
                self.reply_with(0, emit_listing(&listing).into());
            }
            Work::Waiting { path, then, size_before } => {
                let (path, size) = (path.clone(), size_before.unwrap_or(reply.size_before));
                let (member, session) = (cx.member(), cx.stream().session);
                match then {
                    Then::Sync => return self.sync(path, Some(size), cx),
                    Then::Moved => cx.shared.admission.moved(&path),
                    Then::Created => cx.shared.admission.write_once().created(path, member, session),
                    Then::Reply => {}
                }
                self.reply(&Reply::done(size));
            }
            // The reply, a failure, left before this operation ended.
            Work::Request(_) | Work::Emission(_) | Work::Records(_) | Work::Replied => {}
        }
    }

    fn finish_write<T: Transport>(&mut self, size_before: u64, durable: bool, cx: &mut Context<'_, T>) {
        match &self.work {
            Work::Reception { reception, .. } if durable => {
                let path = reception.path.clone();
                self.sync(path, Some(size_before), cx);
            }
            _ => self.reply(&Reply::done(size_before)),
        }
    }

    fn tell_counters<T: Transport>(&mut self, reset: bool, cx: &mut Context<'_, T>) {
        let counters = &mut cx.shared.disk.counters;
        let bytes = counters.to_bytes();
        if reset {
            *counters = Default::default();
        }
        self.reply_with(0, Bytes::copy_from_slice(&bytes));
    }

    /// Replies with a payload that is no subfile's.
    fn reply_with(&mut self, size: u64, payload: Bytes) {
        self.reply(&Reply { result: Ok(()), size, payload: payload.len() as u64 });
        self.outbox.push(payload, 0);
    }

    /// Replies with a failure, unless the reply has left already.
    fn fail<T: Transport>(&mut self, error: RemoteError, cx: &mut Context<'_, T>) {
        if matches!(self.work, Work::Replied) {
            return;
        }
        tracing::debug!(stream = ?cx.stream(), %error, "a transfer failed");
        cx.release_memory(self.held());
        self.reply(&Reply::failed(error));
    }

    fn reply(&mut self, reply: &Reply) {
        self.outbox.push(reply.emit().into(), 0);
        self.outbox.close();
        self.work = Work::Replied;
    }

    fn discard_input<T: Transport>(&mut self, cx: &mut Context<'_, T>) -> Result<Progress, StreamError> {
        if self.input_ended {
            return Ok(Progress::Blocked);
        }
        match cx.read(READ_BYTES)? {
            Read::Data { .. } => {}
            Read::Blocked => return Ok(Progress::Blocked),
            Read::Finished | Read::Lost { .. } => self.input_ended = true,
        }
        Ok(Progress::Made)
    }
}

/// The disk operation with which a read begins: the size must be known first.
fn sizing(runs: &RunTable, from_disk: bool) -> DiskAction {
    let start = runs.runs().next().map_or(0, Run::start);
    match from_disk {
        true => DiskAction::Uncache { extent: Extent::between(start, runs.end()) },
        false => DiskAction::Size,
    }
}

fn bad_request(error: &WireError) -> RemoteError {
    let kind = match error {
        WireError::Version(_) | WireError::Unknown { .. } => ErrorKind::Unsupported,
        _ => ErrorKind::BadRequest,
    };
    RemoteError::new(kind, error.to_string())
}
