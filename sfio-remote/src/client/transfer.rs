//! One transfer: a request with its payload, and the reply with its own.

use std::time::Duration;

use bytes::{Buf, Bytes};
use fec_transport::{Read, StreamError, StreamId, Time};

use super::error::ProtocolError;
use super::operation::{Goal, Operation, Work};
use super::{ClientConfig, OperationId};
use crate::io_node::ERROR_COUNTERS_BYTES;
use crate::remote_error::RemoteError;
use crate::request::{Batch, Cursor, Staging, gather};
use crate::transport::Transport;
use crate::wire::{Assembler, Reply, Request, RequestId, WireError};

/// How much of a reply is read at once.
const READ_BYTES: usize = 256 << 10;

/// A transfer under way.
#[derive(Debug)]
pub(super) struct Transfer {
    pub(super) operation: OperationId,
    /// The position of the part in its operation.
    pub(super) part: usize,
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
    /// The next transfer of a part; the part must have one.
    pub(super) fn next(
        now: Time,
        id: OperationId,
        part: usize,
        operation: &mut Operation,
        limit: u64,
    ) -> Option<Transfer> {
        let writes = matches!(operation.goal, Goal::Write(_));
        let (kind, batch) = operation.parts[part].next_request(writes, limit)?;
        // A request without payload is named by its part, so that an operation that is repeated under its number repeats
        // the same requests; those with payload follow.
        let transfer = match batch {
            None => u32::try_from(part).unwrap_or(u32::MAX),
            Some(_) => {
                operation.next_transfer = operation.next_transfer.wrapping_add(1);
                operation.next_transfer
            }
        };
        let request_id = RequestId { operation: id.0, transfer };
        let unsent = kind.payload();
        let request = Request { id: request_id, durable: operation.durable, kind };
        Some(Transfer {
            operation: id,
            part,
            request: request.emit().into(),
            cursor: batch.as_ref().map(|batch| batch.start).unwrap_or_default(),
            position: 0,
            batch,
            unsent,
            finished: false,
            delivered: false,
            assembler: Assembler::reply(),
            reply: None,
            payload_start: 0,
            received: 0,
            last_progress: now,
        })
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
    pub(super) fn advance<T: Transport>(
        &mut self,
        now: Time,
        transport: &mut T,
        stream: StreamId,
        operation: &mut Operation,
        staging: &mut Staging,
    ) -> Option<End> {
        let sent = self.send(now, transport, stream, operation, staging);
        sent.and_then(|()| self.receive(now, transport, stream, operation)).err()
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

    fn send<T: Transport>(
        &mut self,
        now: Time,
        transport: &mut T,
        stream: StreamId,
        operation: &Operation,
        staging: &mut Staging,
    ) -> Result<(), End> {
        while !self.finished {
            let bytes = match &operation.goal {
                _ if !self.request.is_empty() => &self.request[..],
                Goal::Write(write) if self.unsent > 0 => {
                    let Work::Access { access, .. } = &operation.parts[self.part].work else { break };
                    gather(access, &write.list, self.cursor, self.unsent, staging)
                }
                _ => {
                    transport.finish(now, stream)?;
                    self.finished = true;
                    break;
                }
            };
            let (wanted, taken) = (bytes.len(), transport.write(now, stream, bytes)?);
            self.sent(taken, operation);
            if taken > 0 {
                self.last_progress = now;
            }
            if taken < wanted {
                break;
            }
        }
        Ok(())
    }

    fn sent(&mut self, bytes: usize, operation: &Operation) {
        if !self.request.is_empty() {
            self.request.advance(bytes);
        } else if let Work::Access { access, .. } = &operation.parts[self.part].work {
            access.advance(&mut self.cursor, bytes as u64);
            self.unsent -= bytes as u64;
        }
    }

    fn receive<T: Transport>(
        &mut self,
        now: Time,
        transport: &mut T,
        stream: StreamId,
        operation: &mut Operation,
    ) -> Result<(), End> {
        loop {
            // What is read of a file is used as it comes: a block that must be repaired keeps no other waiting.
            let read = match (&self.reply, &self.batch) {
                (Some(_), Some(_)) => transport.read_block(now, stream)?,
                _ => transport.read(now, stream, READ_BYTES)?,
            };
            match read {
                Read::Blocked => return Ok(()),
                Read::Data { offset, bytes } => self.arrived(offset, bytes, operation)?,
                Read::Finished | Read::Lost { .. } => return Err(self.ended(operation)),
            }
            self.last_progress = now;
        }
    }

    /// Takes bytes of the stream from `offset` on.
    fn arrived(&mut self, offset: u64, mut bytes: Bytes, operation: &mut Operation) -> Result<(), End> {
        let end = offset + bytes.len() as u64;
        if self.reply.is_none() {
            let Some(message) = self.assembler.push(&mut bytes)? else { return Ok(()) };
            let reply = Reply::parse(&message)?;
            self.check(&reply, operation)?;
            self.reply = Some(reply);
            self.payload_start = end - bytes.len() as u64;
        }
        let promised = self.reply.as_ref().map_or(0, |reply| reply.payload);
        let found = end - self.payload_start;
        if found > promised {
            return Err(End::Broken(ProtocolError::Payload { found, expected: promised }));
        }
        self.received += bytes.len() as u64;
        self.take_payload(found - bytes.len() as u64, &bytes, operation);
        Ok(())
    }

    /// Takes bytes of the reply's payload from `position` on: into the caller's regions, if there are some.
    fn take_payload(&mut self, position: u64, bytes: &[u8], operation: &mut Operation) {
        let part = &mut operation.parts[self.part];
        match (&part.work, &mut operation.goal, &self.batch) {
            (Work::Access { access, .. }, Goal::Read { buffer, .. }, Some(batch)) => {
                if position < self.position {
                    (self.cursor, self.position) = (batch.start, 0);
                }
                access.advance(&mut self.cursor, position - self.position);
                access.scatter(buffer, &mut self.cursor, bytes);
                self.position = position + bytes.len() as u64;
            }
            _ => part.payload.extend_from_slice(bytes),
        }
    }

    /// Refuses a reply that cannot be the one of this request.
    fn check(&self, reply: &Reply, operation: &Operation) -> Result<(), End> {
        reply.result.clone().map_err(End::Failed)?;
        let expected = match &operation.goal {
            Goal::Read { .. } => self.weight(),
            Goal::ErrorCounters => ERROR_COUNTERS_BYTES as u64,
            _ => 0,
        };
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
    fn ended(&self, operation: &mut Operation) -> End {
        let Some(reply) = &self.reply else { return self.assembler.truncated().into() };
        if self.received < reply.payload {
            let (found, expected) = (self.received, reply.payload);
            return End::Broken(ProtocolError::Payload { found, expected });
        }
        let part = &mut operation.parts[self.part];
        part.note_size(reply.size);
        if let (Goal::Read { .. }, Some(batch)) = (&operation.goal, &self.batch) {
            part.note_payload(batch, reply.payload);
        }
        End::Complete
    }
}
