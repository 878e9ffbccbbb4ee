//! Putting a message together that arrives in pieces.

use bytes::{Buf, Bytes};

use super::{ReplyView, RequestView, WireError};

/// Collects the bytes of one message from a stream, and leaves what follows it.
///
/// Holds at most [`MAX_REQUEST_BYTES`](super::MAX_REQUEST_BYTES) or [`MAX_REPLY_BYTES`](super::MAX_REPLY_BYTES).
#[derive(Debug)]
pub struct Assembler {
    bytes: Vec<u8>,
    /// How long the message is, as soon as its first bytes tell.
    measure: fn(&[u8]) -> Result<Option<usize>, WireError>,
}

impl Assembler {
    /// Puts a request together.
    pub fn request() -> Assembler {
        Assembler { bytes: Vec::new(), measure: RequestView::measure }
    }

    /// Puts a reply together.
    pub fn reply() -> Assembler {
        Assembler { bytes: Vec::new(), measure: ReplyView::measure }
    }

    /// Takes from the front of `arrived` what belongs to the message, and gives the message once it is complete.
    ///
    /// # Errors
    /// As soon as the bytes so far cannot be the beginning of a message.
    pub fn push(&mut self, arrived: &mut Bytes) -> Result<Option<Bytes>, WireError> {
        loop {
            let wanted = match (self.measure)(&self.bytes)? {
                Some(length) if self.bytes.len() == length => {
                    return Ok(Some(Bytes::from(std::mem::take(&mut self.bytes))));
                }
                Some(length) => length - self.bytes.len(),
                // The fixed part of a message, which is short, is taken byte for byte, so that not one too many is
                // taken.
                None => 1,
            };
            if arrived.is_empty() {
                return Ok(None);
            }
            let taken = wanted.min(arrived.len());
            self.bytes.extend_from_slice(&arrived[..taken]);
            arrived.advance(taken);
        }
    }

    /// The error of a stream that ended before the message did.
    pub fn truncated(&self) -> WireError {
        let found = self.bytes.len() as u64;
        let expected = (self.measure)(&self.bytes).ok().flatten();
        WireError::Truncated { found, expected: expected.map_or(found + 1, |length| length as u64) }
    }
}
