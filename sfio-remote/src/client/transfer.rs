//! One transfer: a request with its payload, and the reply with its own.

use std::time::Duration;

use bytes::{Buf, Bytes};
use fec_transport::{Read, StreamError, StreamId, Time};

use super::context::Context;
use super::error::ProtocolError;
use super::link::PartId;
use super::packing::{Packer, Tools};
use super::stage::Stage;
use super::unpacking::Unpacker;
use super::{ClientConfig, OperationId};
use crate::compression::{CodecOutcome, CodecResult, Packing};
use crate::remote_error::RemoteError;
use crate::request::{Batch, Cursor};
use crate::transport::Transport;
use crate::wire::{Assembler, Reply, WireError};

/// How much of a reply is read at once.
const READ_BYTES: usize = 256 << 10;

/// A transfer under way.
#[derive(Debug)]
pub(super) struct Transfer {
    id: PartId,
    stream: StreamId,
    request: Bytes,
    /// The extents of its payload; none if it has none in either direction.
    batch: Option<Batch>,
    /// Where the next byte of the batch, to be sent or received, belongs.
    cursor: Cursor,
    /// What place that byte has in the payload of the reply.
    position: u64,
    unsent: u64,
    packing: Packing,
    /// Makes frames of the payload of a write, if it has frames.
    packer: Option<Packer>,
    /// Has the payload of a read back from its frames, if it has frames and the reply's header is there.
    unpacker: Option<Unpacker>,
    finished: bool,
    /// Whether all of it has reached the I/O node.
    delivered: bool,
    assembler: Assembler,
    reply: Option<Reply>,
    /// Where the payload of the reply begins in the stream.
    payload_start: u64,
    received: u64,
    last_progress: Time,
}

/// How a transfer ended.
#[derive(Debug)]
pub(super) enum End {
    /// The reply and its payload are complete.
    Complete,
    /// The I/O node could not do it.
    Failed(RemoteError),
    /// The I/O node broke the protocol.
    Broken(ProtocolError),
    /// The stream is gone; an event of the transport says why.
    Gone,
}

impl From<StreamError> for End {
    fn from(_: StreamError) -> End {
        End::Gone
    }
}

impl From<WireError> for End {
    fn from(error: WireError) -> End {
        End::Broken(error.into())
    }
}

impl From<ProtocolError> for End {
    fn from(error: ProtocolError) -> End {
        End::Broken(error)
    }
}

impl Transfer {
    /// The next transfer of a part, of at most `limit` bytes of payload, on a stream of its own; none if the part has
    /// no more.
    pub(super) fn next(
        now: Time,
        stream: StreamId,
        id: PartId,
        stage: &mut Stage,
        limit: u64,
    ) -> Option<Transfer> {
        let (operation, part) = id;
        let (request, batch) = stage.begin_transfer(operation, part, limit)?;
        let (packing, payload) = (request.packing, request.kind.payload());
        let start = batch.as_ref().map(|batch| batch.start).unwrap_or_default();
        let packs = packing.has_frames() && payload > 0;
        Some(Transfer {
            id,
            stream,
            packing,
            packer: packs.then(|| Packer::new(packing, start, payload)),
            unpacker: None,
            cursor: start,
            position: 0,
            batch,
            unsent: payload,
            request: request.emit().into(),
            finished: false,
            delivered: false,
            assembler: Assembler::reply(),
            reply: None,
            payload_start: 0,
            received: 0,
            last_progress: now,
        })
    }

    /// The part that it belongs to.
    pub(super) fn id(&self) -> PartId {
        self.id
    }

    /// The operation that it belongs to.
    pub(super) fn operation(&self) -> OperationId {
        self.id.0
    }

    /// What it counts in the window of its I/O node: the bytes of its payload.
    pub(super) fn weight(&self) -> u64 {
        self.batch.as_ref().map_or(0, |batch| batch.runs.payload())
    }

    /// Whether all it sends is a request, for which somebody waits.
    pub(super) fn sends_no_payload(&self) -> bool {
        self.unsent == 0
    }

    /// Goes on as far as possible; tells how it ended, if it did.
    pub(super) fn advance(
        &mut self,
        context: &mut Context<'_, impl Transport>,
        stage: &mut Stage,
        tools: &mut Tools<'_>,
    ) -> Option<End> {
        let sent = self.send(context, stage, tools);
        sent.and_then(|()| self.receive(context, stage, tools)).err()
    }

    /// A codec job of this transfer has ended; tells how the transfer ended, if it did.
    pub(super) fn coded(
        &mut self,
        now: Time,
        result: CodecResult,
        stage: &mut Stage,
        tools: &mut Tools<'_>,
    ) -> Option<End> {
        self.last_progress = now;
        if let (CodecOutcome::Packed { trial, .. }, Some(packer)) = (&result.outcome, &mut self.packer) {
            let subfile = stage.part(self.id.1).path().map_or("", |path| path.as_str());
            tools.compressor.packed(subfile, trial);
            packer.coded(&result);
            return None;
        }
        match self.unpacker.as_mut()?.coded(result) {
            Ok(unpacked) => {
                let (position, bytes) = unpacked?;
                self.received += bytes.len() as u64;
                self.take_payload(position, &bytes, stage);
                None
            }
            Err(error) => Some(End::Broken(error)),
        }
    }

    /// All that was sent has reached the I/O node.
    pub(super) fn delivered(&mut self, now: Time) {
        self.delivered = true;
        self.last_progress = now;
    }

    /// Since when it waits for news, and how long it may.
    pub(super) fn waiting(&self, config: &ClientConfig) -> (Time, Duration) {
        let waits_for_disk = self.delivered && self.reply.is_none();
        let limit = if waits_for_disk { config.reply_timeout } else { config.progress_timeout };
        (self.last_progress, limit)
    }

    fn send(
        &mut self,
        context: &mut Context<'_, impl Transport>,
        stage: &Stage,
        tools: &mut Tools<'_>,
    ) -> Result<(), End> {
        while !self.finished {
            if let Some(packer) = self.packer.as_mut().filter(|_| self.request.is_empty()) {
                let (sent, is_end) = packer.send(context, (self.stream, self.id.1), stage, tools)?;
                self.unsent = packer.unsent();
                if sent > 0 {
                    self.last_progress = context.now();
                }
                if is_end {
                    context.finish(self.stream)?;
                    self.finished = true;
                }
                break;
            }
            let bytes = match &self.request[..] {
                [] => stage.outgoing(self.id.1, self.cursor, self.unsent, tools.staging),
                request => request,
            };
            if bytes.is_empty() {
                context.finish(self.stream)?;
                self.finished = true;
                break;
            }
            let (wanted, taken) = (bytes.len(), context.write(self.stream, bytes)?);
            self.sent(taken, stage);
            if taken > 0 {
                self.last_progress = context.now();
            }
            if taken < wanted {
                break;
            }
        }
        Ok(())
    }

    fn sent(&mut self, bytes: usize, stage: &Stage) {
        if self.request.is_empty() {
            stage.advance(self.id.1, &mut self.cursor, bytes as u64);
            self.unsent -= bytes as u64;
        } else {
            self.request.advance(bytes);
        }
    }

    fn receive(
        &mut self,
        context: &mut Context<'_, impl Transport>,
        stage: &mut Stage,
        tools: &mut Tools<'_>,
    ) -> Result<(), End> {
        loop {
            if !self.take_frames(stage, tools)? {
                return Ok(());
            }
            // What is read of a file is used as it comes: a block that must be repaired keeps no other waiting.
            let read = match (&self.reply, &self.batch) {
                (Some(_), Some(_)) if self.unpacker.is_none() => context.read_block(self.stream)?,
                _ => context.read(self.stream, READ_BYTES)?,
            };
            match read {
                Read::Blocked => return Ok(()),
                Read::Data { offset, bytes } => self.arrived(offset, bytes, stage)?,
                Read::Finished | Read::Lost { .. } => match &mut self.unpacker {
                    Some(unpacker) => unpacker.ended(),
                    None => return Err(self.ended(stage)),
                },
            }
            self.last_progress = context.now();
        }
    }

    /// Takes what is in the frames that have arrived. Says whether the stream may be read on.
    fn take_frames(&mut self, stage: &mut Stage, tools: &mut Tools<'_>) -> Result<bool, End> {
        let Some(mut unpacker) = self.unpacker.take() else { return Ok(true) };
        let taken = loop {
            match unpacker.next(self.stream, tools.jobs) {
                Ok(Some((position, bytes))) => {
                    self.received += bytes.len() as u64;
                    self.take_payload(position, &bytes, stage);
                }
                Ok(None) => break Ok(unpacker.wants_more()),
                Err(error) => break Err(End::from(error)),
            }
        };
        let is_done = unpacker.is_done();
        self.unpacker = Some(unpacker);
        if is_done && taken.is_ok() { Err(self.ended(stage)) } else { taken }
    }

    /// Takes bytes of the stream from `offset` on.
    fn arrived(&mut self, offset: u64, mut bytes: Bytes, stage: &mut Stage) -> Result<(), End> {
        if let Some(unpacker) = &mut self.unpacker {
            unpacker.arrived(bytes);
            return Ok(());
        }
        let end = offset + bytes.len() as u64;
        if self.reply.is_none() {
            let Some(message) = self.assembler.push(&mut bytes)? else { return Ok(()) };
            let reply = Reply::parse(&message)?;
            self.check(&reply, stage)?;
            if self.packing.has_frames() && self.packer.is_none() {
                let mut unpacker = Unpacker::new(self.packing, reply.payload);
                unpacker.arrived(bytes);
                (self.unpacker, self.reply) = (Some(unpacker), Some(reply));
                return Ok(());
            }
            self.reply = Some(reply);
            self.payload_start = end - bytes.len() as u64;
        }
        let promised = self.reply.as_ref().map_or(0, |reply| reply.payload);
        let found = end - self.payload_start;
        if found > promised {
            return Err(End::Broken(ProtocolError::Payload { found, expected: promised }));
        }
        self.received += bytes.len() as u64;
        self.take_payload(found - bytes.len() as u64, &bytes, stage);
        Ok(())
    }

    /// Takes bytes of the reply's payload from `position` on.
    fn take_payload(&mut self, position: u64, bytes: &[u8], stage: &mut Stage) {
        if let Some(batch) = self.batch.as_ref().filter(|_| position < self.position) {
            (self.cursor, self.position) = (batch.start, 0);
        }
        stage.take_payload(self.id.1, &mut self.cursor, position - self.position, bytes);
        self.position = position + bytes.len() as u64;
    }

    /// Refuses a reply that cannot be the one of this request.
    fn check(&self, reply: &Reply, stage: &Stage) -> Result<(), End> {
        reply.result.clone().map_err(End::Failed)?;
        let expected = stage.reply_limit(self.id.1, self.batch.as_ref());
        if reply.payload > expected {
            return Err(End::Broken(ProtocolError::Payload { found: reply.payload, expected }));
        }
        if self.unsent > 0 {
            let (sent, payload) = (self.weight() - self.unsent, self.weight());
            return Err(End::Broken(ProtocolError::TooEarly { sent, payload }));
        }
        Ok(())
    }

    /// The I/O node's direction has ended.
    fn ended(&self, stage: &mut Stage) -> End {
        let Some(reply) = &self.reply else { return self.assembler.truncated().into() };
        if self.received < reply.payload {
            let (found, expected) = (self.received, reply.payload);
            return End::Broken(ProtocolError::Payload { found, expected });
        }
        stage.replied(self.id.1, self.batch.as_ref(), reply.size, reply.payload);
        End::Complete
    }
}
