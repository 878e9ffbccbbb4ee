//! The messages of stream 0: credit, resets, the number of streams that may be opened, blocks that were given up.
//!
//! ```text
//! 1 | stream (32) | absolute offset (48)        credit
//! 2 | stream (32) | code (32)                   reset
//! 3 | streams opened in all (32)                stream limit
//! 4 | block id (32) | stream (32) | offset (48) | length (24) | last (8)
//!                                               a block was given up: its deadline has passed
//! ```

use super::{Malformed, Reader, Writer};

/// The stream of a session that carries these messages.
pub(crate) const CONTROL_STREAM: u32 = 0;

/// A message of stream 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StreamControl {
    /// The peer may send up to this offset of the stream.
    Credit { stream: u32, limit: u64 },
    /// Both directions of the stream are given up.
    Reset { stream: u32, code: u32 },
    /// The peer may open this many streams over the session's life.
    StreamLimit { count: u32 },
    /// No more symbols of this block come: its deadline has passed.
    Abandon { block: u32, stream: u32, offset: u64, length: u32, last: bool },
}

impl StreamControl {
    pub(crate) fn emit(self, out: &mut Vec<u8>) {
        match self {
            StreamControl::Credit { stream, limit } => {
                out.put_u8(1);
                out.put_u32(stream);
                out.put_u48(limit);
            }
            StreamControl::Reset { stream, code } => {
                out.put_u8(2);
                out.put_u32(stream);
                out.put_u32(code);
            }
            StreamControl::StreamLimit { count } => {
                out.put_u8(3);
                out.put_u32(count);
            }
            StreamControl::Abandon { block, stream, offset, length, last } => {
                out.put_u8(4);
                out.put_u32(block);
                out.put_u32(stream);
                out.put_u48(offset);
                out.put_u24(length);
                out.put_u8(u8::from(last));
            }
        }
    }

    /// Takes one message off the front of `bytes`; `None` if it has not arrived whole.
    ///
    /// # Errors
    /// [`Malformed`] if no message begins like this.
    pub(crate) fn take(bytes: &[u8]) -> Result<Option<(StreamControl, usize)>, Malformed> {
        let length = match bytes.first() {
            None => return Ok(None),
            Some(1) => 11,
            Some(2) => 9,
            Some(3) => 5,
            Some(4) => 19,
            Some(_) => return Err(Malformed::new("message of stream 0")),
        };
        if bytes.len() < length {
            return Ok(None);
        }
        let mut reader = Reader::new(&bytes[1..length]);
        let message = match bytes[0] {
            1 => StreamControl::Credit { stream: reader.u32("stream")?, limit: reader.u48("credit")? },
            2 => StreamControl::Reset { stream: reader.u32("stream")?, code: reader.u32("code")? },
            3 => StreamControl::StreamLimit { count: reader.u32("stream limit")? },
            _ => StreamControl::Abandon {
                block: reader.u32("block id")?,
                stream: reader.u32("stream")?,
                offset: reader.u48("block offset")?,
                length: reader.u24("block length")?,
                last: reader.u8("last block")? != 0,
            },
        };
        Ok(Some((message, length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message() -> impl Strategy<Value = StreamControl> {
        prop_oneof![
            (any::<u32>(), 0u64..1 << 48).prop_map(|(stream, limit)| StreamControl::Credit { stream, limit }),
            (any::<u32>(), any::<u32>()).prop_map(|(stream, code)| StreamControl::Reset { stream, code }),
            any::<u32>().prop_map(|count| StreamControl::StreamLimit { count }),
            (any::<u32>(), any::<u32>(), 0u64..1 << 48, 0u32..1 << 24, any::<bool>()).prop_map(
                |(block, stream, offset, length, last)| StreamControl::Abandon {
                    block,
                    stream,
                    offset,
                    length,
                    last
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn messages_come_back_in_order(messages in proptest::collection::vec(message(), 0..9)) {
            let mut bytes = Vec::new();
            messages.iter().for_each(|message| message.emit(&mut bytes));
            let mut rest = &bytes[..];
            for expected in messages {
                let (message, length) = StreamControl::take(rest).expect("well-formed").expect("whole");
                prop_assert_eq!(message, expected);
                prop_assert_eq!(StreamControl::take(&rest[..length - 1]), Ok(None));
                rest = &rest[length..];
            }
            prop_assert!(rest.is_empty());
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = StreamControl::take(&bytes);
        }
    }
}
