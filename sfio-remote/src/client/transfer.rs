//! One transfer: a request with its payload, and the reply with its own.

use std::time::Duration;

use bytes::{Buf, Bytes};
use fec_transport::{Read, StreamError, StreamId, Time};

use super::context::Context;
use super::error::ProtocolError;
use super::link::PartId;
use super::stage::Stage;
use super::{ClientConfig, OperationId};
use crate::remote_error::RemoteError;
use crate::request::{Batch, Cursor, Staging};
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
        Some(Transfer {
            id,
            stream,
            cursor: batch.as_ref().map(|batch| batch.start).unwrap_or_default(),
            position: 0,
            batch,
            unsent: request.kind.payload(),
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
        staging: &mut Staging,
    ) -> Option<End> {
        let sent = self.send(context, stage, staging);
        sent.and_then(|()| self.receive(context, stage)).err()
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
        staging: &mut Staging,
    ) -> Result<(), End> {
        while !self.finished {
            let bytes = match &self.request[..] {
                [] => stage.outgoing(self.id.1, self.cursor, self.unsent, staging),
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

    fn receive(&mut self, context: &mut Context<'_, impl Transport>, stage: &mut Stage) -> Result<(), End> {
        loop {
            // What is read of a file is used as it comes: a block that must be repaired keeps no other waiting.
            let read = match (&self.reply, &self.batch) {
                (Some(_), Some(_)) => context.read_block(self.stream)?,
                _ => context.read(self.stream, READ_BYTES)?,
            };
            match read {
                Read::Blocked => return Ok(()),
                Read::Data { offset, bytes } => self.arrived(offset, bytes, stage)?,
                Read::Finished | Read::Lost { .. } => return Err(self.ended(stage)),
            }
            self.last_progress = context.now();
        }
    }

    /// Takes bytes of the stream from `offset` on.
    fn arrived(&mut self, offset: u64, mut bytes: Bytes, stage: &mut Stage) -> Result<(), End> {
        let end = offset + bytes.len() as u64;
        if self.reply.is_none() {
            let Some(message) = self.assembler.push(&mut bytes)? else { return Ok(()) };
            let reply = Reply::parse(&message)?;
            self.check(&reply, stage)?;
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
