//! The payload of a reply out of its frames.

use std::collections::BTreeMap;

use bytes::Bytes;
use fec_transport::StreamId;

use super::error::ProtocolError;
use super::packing::JobOwner;
use crate::compression::{
    CodecOutcome, CodecResult, CodecWork, FramePart, FrameReader, JobQueue, JobTicket, Packing,
};

/// How many frames of one transfer are unpacked at once; as long as so many are, its stream is not read.
const FRAMES_AHEAD: usize = 4;

/// Frames that arrive.
#[derive(Debug)]
pub(super) struct Unpacker {
    reader: FrameReader,
    /// What has arrived and was not looked at.
    arrived: Bytes,
    /// Where in the payload the next frame's bytes belong.
    position: u64,
    /// Frames that are being unpacked, and where their bytes belong.
    unpacking: BTreeMap<JobTicket, u64>,
    has_ended: bool,
}

/// Bytes of the payload, and where in it they belong.
pub(super) type Unpacked = (u64, Bytes);

impl Unpacker {
    /// A payload of so many bytes.
    pub(super) fn new(packing: Packing, payload: u64) -> Unpacker {
        Unpacker {
            reader: FrameReader::new(packing, payload),
            arrived: Bytes::new(),
            position: 0,
            unpacking: BTreeMap::new(),
            has_ended: false,
        }
    }

    /// Whether the stream may be read: nothing of what was read is left.
    pub(super) fn wants_more(&self) -> bool {
        self.arrived.is_empty() && !self.has_ended && self.unpacking.len() < FRAMES_AHEAD
    }

    /// Bytes of the stream have arrived, all of those before having been taken.
    pub(super) fn arrived(&mut self, bytes: Bytes) {
        self.arrived = bytes;
    }

    /// The stream has ended.
    pub(super) fn ended(&mut self) {
        self.has_ended = true;
    }

    /// Whether the stream has ended and everything is unpacked.
    pub(super) fn is_done(&self) -> bool {
        self.has_ended && self.arrived.is_empty() && self.unpacking.is_empty()
    }

    /// The next bytes of the payload among what has arrived; packed frames go to a job.
    ///
    /// # Errors
    /// If what has arrived is no frame of this payload.
    pub(super) fn next(
        &mut self,
        stream: StreamId,
        jobs: &mut JobQueue<JobOwner>,
    ) -> Result<Option<Unpacked>, ProtocolError> {
        while !self.arrived.is_empty() && self.unpacking.len() < FRAMES_AHEAD {
            if self.reader.is_complete() {
                return Err(ProtocolError::Trailing);
            }
            let Some(part) = self.reader.push(&mut self.arrived)? else { break };
            let at = self.position;
            match part {
                FramePart::Plain(bytes) => {
                    self.position += bytes.len() as u64;
                    return Ok(Some((at, bytes)));
                }
                FramePart::Packed { format, packed, plain } => {
                    self.position += plain as u64;
                    let work = CodecWork::Unpack { format, packed, plain };
                    self.unpacking.insert(jobs.submit(JobOwner::Transfer(stream), work), at);
                }
            }
        }
        Ok(None)
    }

    /// A job has ended; gives its bytes.
    ///
    /// # Errors
    /// If a frame does not become what it should.
    pub(super) fn coded(&mut self, result: CodecResult) -> Result<Option<Unpacked>, ProtocolError> {
        let Some(at) = self.unpacking.remove(&result.ticket) else { return Ok(None) };
        match result.outcome {
            CodecOutcome::Unpacked(bytes) => Ok(Some((at, bytes?))),
            CodecOutcome::Packed { .. } | CodecOutcome::Tried(_) => Ok(None),
        }
    }
}
