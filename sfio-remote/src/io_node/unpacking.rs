//! The payload of a write out of its frames.
//!
//! Memory is taken for a packed frame before its first byte is read: for what is packed and for what it becomes. So a
//! frame that was begun can be ended, whatever others take meanwhile.

use std::collections::VecDeque;

use bytes::Bytes;
use fec_transport::{Read, StreamError};

use super::context::{Context, JobOwner};
use super::reception::LEAST_READ;
use crate::compression::{
    CodecOutcome, CodecResult, CodecWork, Format, FramePart, FrameReader, JobTicket, Packing, UnpackError,
};
use crate::remote_error::{ErrorKind, RemoteError};
use crate::transport::Transport;

/// How many frames of one transfer are unpacked at once.
const FRAMES_AHEAD: usize = 4;

/// Frames that arrive.
#[derive(Debug)]
pub(super) struct Unpacker {
    reader: FrameReader,
    /// What came together with the request.
    early: Bytes,
    /// Packed frames that are there, in their order.
    frames: VecDeque<Frame>,
    /// The memory that was taken for the frame that arrives.
    reserved: u64,
}

#[derive(Debug)]
struct Frame {
    ticket: JobTicket,
    packed: u64,
    plain: u64,
    bytes: Option<Bytes>,
}

/// What a step has brought.
#[derive(Debug)]
pub(super) enum Step {
    /// Bytes of the payload, for which memory was taken.
    Bytes(Bytes),
    /// Something else.
    Made,
    /// There is no memory.
    NoMemory,
    /// Nothing until more has arrived or a codec has ended.
    Blocked,
}

impl Unpacker {
    /// A payload of so many bytes; `early` came together with the request.
    pub(super) fn new(packing: Packing, payload: u64, early: Bytes) -> Unpacker {
        Unpacker { reader: FrameReader::new(packing, payload), early, frames: VecDeque::new(), reserved: 0 }
    }

    /// The memory that it holds.
    pub(super) fn held(&self) -> u64 {
        let left = |frame: &Frame| frame.plain + frame.packed;
        self.reserved + self.frames.iter().map(left).sum::<u64>()
    }

    /// Goes on; of bytes of the payload at most `room` come, which is not 0.
    pub(super) fn step<T: Transport>(
        &mut self,
        room: u64,
        cx: &mut Context<'_, T>,
    ) -> Result<Result<Step, RemoteError>, StreamError> {
        if let Some(bytes) = self.next_unpacked(room, cx) {
            return Ok(Ok(Step::Bytes(bytes)));
        }
        let is_plain = self.reader.announced().is_some_and(|header| header.format == Format::Plain);
        let waits_for_turn = is_plain && !self.frames.is_empty();
        if self.frames.len() >= FRAMES_AHEAD || waits_for_turn || self.reader.is_complete() {
            return Ok(Ok(Step::Blocked));
        }
        let Some(limit) = self.memory_for_next(cx) else { return Ok(Ok(Step::NoMemory)) };
        let wanted = (self.reader.wanted() as u64).min(limit).min(if is_plain { room } else { u64::MAX });
        let arrived = match self.early.is_empty() {
            false => self.early.split_to(self.early.len().min(wanted as usize)),
            true => match cx.read(wanted)? {
                Read::Data { bytes, .. } => bytes,
                Read::Blocked => return Ok(Ok(Step::Blocked)),
                Read::Finished | Read::Lost { .. } => {
                    let text = "the payload ends within its frames";
                    return Ok(Err(RemoteError::new(ErrorKind::BadRequest, text)));
                }
            },
        };
        Ok(self.take(arrived, cx))
    }

    /// How much may be read now; none if there is no memory for it.
    fn memory_for_next<T: Transport>(&mut self, cx: &mut Context<'_, T>) -> Option<u64> {
        let Some(header) = self.reader.announced() else { return Some(u64::MAX) };
        let available = cx.available_memory();
        if header.format == Format::Plain {
            return (available >= LEAST_READ).then_some(available);
        }
        let needed = u64::from(header.plain) + u64::from(header.packed);
        if self.reserved == 0 {
            // Who has nothing gets a frame, however little there is: it is a bounded amount for each member.
            if available < needed && cx.holds_memory() {
                return None;
            }
            cx.take_memory(needed);
            self.reserved = needed;
        }
        Some(u64::MAX)
    }

    fn take<T: Transport>(
        &mut self,
        mut arrived: Bytes,
        cx: &mut Context<'_, T>,
    ) -> Result<Step, RemoteError> {
        let part = self.reader.push(&mut arrived);
        match part.map_err(|error| RemoteError::new(ErrorKind::BadRequest, error.to_string()))? {
            None => Ok(Step::Made),
            Some(FramePart::Plain(bytes)) => {
                cx.take_memory(bytes.len() as u64);
                Ok(Step::Bytes(bytes))
            }
            Some(FramePart::Packed { format, packed, plain }) => {
                self.reserved = 0;
                let (packed_bytes, plain_bytes) = (packed.len() as u64, plain as u64);
                let owner = JobOwner::Transfer(cx.stream());
                let work = CodecWork::Unpack { format, packed, plain };
                let ticket = cx.shared.codec_jobs.submit(owner, work);
                let frame = Frame { ticket, packed: packed_bytes, plain: plain_bytes, bytes: None };
                self.frames.push_back(frame);
                Ok(Step::Made)
            }
        }
    }

    /// Takes the result of a job.
    ///
    /// # Errors
    /// If the frame does not become what it should.
    pub(super) fn coded(&mut self, result: CodecResult) -> Result<(), UnpackError> {
        let CodecOutcome::Unpacked(bytes) = result.outcome else { return Ok(()) };
        if let Some(frame) = self.frames.iter_mut().find(|frame| frame.ticket == result.ticket) {
            frame.bytes = Some(bytes?);
        }
        Ok(())
    }

    fn next_unpacked<T: Transport>(&mut self, room: u64, cx: &mut Context<'_, T>) -> Option<Bytes> {
        let frame = self.frames.front_mut()?;
        let bytes = frame.bytes.as_mut()?;
        // What was packed is not needed any more.
        cx.release_memory(std::mem::take(&mut frame.packed));
        let taken = bytes.split_to(bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX)));
        frame.plain -= taken.len() as u64;
        if bytes.is_empty() {
            self.frames.pop_front();
        }
        Some(taken)
    }
}
