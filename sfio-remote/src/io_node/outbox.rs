//! What a transfer has still to send.

use std::collections::VecDeque;

use bytes::{Buf, Bytes};
use fec_transport::{StreamError, StreamId, Time};

use crate::transport::Transport;

/// Bytes on their way into a stream, and whether the stream ends behind them.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    chunks: VecDeque<Chunk>,
    closing: bool,
    finished: bool,
}

#[derive(Debug)]
struct Chunk {
    bytes: Bytes,
    /// The payload memory that is free again once the chunk is sent.
    reserved: u64,
}

impl Outbox {
    pub(super) fn push(&mut self, bytes: Bytes, reserved: u64) {
        self.chunks.push_back(Chunk { bytes, reserved });
    }

    /// Nothing will follow.
    pub(super) fn close(&mut self) {
        self.closing = true;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.chunks.is_empty()
    }

    /// The payload memory that the unsent chunks hold.
    pub(super) fn reserved(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.reserved).sum()
    }

    pub(super) fn is_finished(&self) -> bool {
        self.finished
    }

    /// Writes as much as the stream takes; says how many bytes that was, and how much payload memory is free again.
    pub(super) fn pump(
        &mut self,
        now: Time,
        transport: &mut impl Transport,
        stream: StreamId,
    ) -> Result<(usize, u64), StreamError> {
        let (mut written, mut freed) = (0, 0);
        while let Some(chunk) = self.chunks.front_mut() {
            let taken = transport.write(now, stream, &chunk.bytes)?;
            chunk.bytes.advance(taken);
            written += taken;
            if !chunk.bytes.is_empty() {
                return Ok((written, freed));
            }
            freed += chunk.reserved;
            self.chunks.pop_front();
        }
        if self.closing && !self.finished {
            transport.finish(now, stream)?;
            self.finished = true;
        }
        Ok((written, freed))
    }
}
