//! The control stream of a session: what waits to be written to it, and what of the next message has arrived.

use std::collections::{BTreeSet, VecDeque};

use crate::wire::Malformed;
use crate::wire::stream_control::StreamControl;

/// Messages of the control stream wait while so many bytes of it are on the way.
pub(super) const BACKLOG: u64 = 16 << 10;

/// What is said and heard on the control stream.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// Streams on which credit may be due.
    credit: BTreeSet<u32>,
    resets: VecDeque<StreamControl>,
    /// Blocks that were given up.
    abandoned: VecDeque<StreamControl>,
    /// What has arrived and was not taken yet.
    input: Vec<u8>,
}

impl Control {
    /// Credit may be due on a stream.
    pub(super) fn say_credit(&mut self, stream: u32) {
        self.credit.insert(stream);
    }

    /// Both directions of a stream were given up.
    pub(super) fn say_reset(&mut self, stream: u32, code: u32) {
        self.resets.push_back(StreamControl::Reset { stream, code });
    }

    /// A block was given up, of which `message` tells.
    pub(super) fn say_abandoned(&mut self, message: StreamControl) {
        self.abandoned.push_back(message);
    }

    /// No credit is due on a stream that is gone.
    pub(super) fn forget(&mut self, stream: u32) {
        self.credit.remove(&stream);
    }

    /// The next message; `credit` tells up to where the peer may write on a stream, if that is worth a message.
    pub(super) fn next(&mut self, mut credit: impl FnMut(u32) -> Option<u64>) -> Option<StreamControl> {
        if let Some(message) = self.abandoned.pop_front().or_else(|| self.resets.pop_front()) {
            return Some(message);
        }
        while let Some(stream) = self.credit.pop_first() {
            if let Some(limit) = credit(stream) {
                return Some(StreamControl::Credit { stream, limit });
            }
        }
        None
    }

    /// More has arrived.
    pub(super) fn heard(&mut self, bytes: &[u8]) {
        self.input.extend_from_slice(bytes);
    }

    /// The next message that has arrived whole.
    ///
    /// # Errors
    /// [`Malformed`] if it is none.
    pub(super) fn take(&mut self) -> Result<Option<StreamControl>, Malformed> {
        let Some((message, length)) = StreamControl::take(&self.input)? else { return Ok(None) };
        self.input.drain(..length);
        Ok(Some(message))
    }
}
