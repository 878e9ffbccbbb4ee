//! The frames of messages between two messengers: envelopes, small messages with their bytes, and what is said about
//! large ones, whose bytes travel on streams of their own.
//!
//! ```text
//! frame:  type (8) | taken (32) | …
//! 1 window     unexpected limit (64) | expected limit (64)
//! 2 eager      kind (8) | tag (32) | length (32) | bytes
//! 3 offer      message (64) | tag (32) | length (64)
//! 4 grant      message (64)
//! 5 refusal    message (64) | reason (8)
//! 6 withdrawal message (64)
//! ```
//!
//! *Taken* is how many messages (eager and offered) the sender of the frame has taken from the other side so far, the
//! low 32 bits of it. A stream of frames begins with [`FRAMES`] and a version, one with the bytes of a large message
//! with [`BULK`] and the message's number.

use bytes::Bytes;

use super::pieces::Pieces;
use super::{Malformed, Reader, Writer};

/// The version of these formats.
pub(crate) const MESSAGE_VERSION: u8 = 1;
/// The first byte of a stream of frames.
pub(crate) const FRAMES: u8 = 1;
/// The first byte of a stream with the bytes of one large message.
pub(crate) const BULK: u8 = 2;
/// Bytes before the frames of a stream: [`FRAMES`] and the version.
pub(crate) const FRAMES_HEAD: usize = 2;
/// Bytes before those of a large message: [`BULK`] and its number.
pub(crate) const BULK_HEAD: usize = 9;
/// No eager message is longer than this, in bytes.
pub(crate) const MAX_EAGER: usize = 64 << 10;

/// Bytes of a frame's type and of how many messages were taken.
const HEAD: usize = 5;
/// Bytes of an eager message's frame beside those of the message.
const EAGER_HEAD: usize = HEAD + 9;
/// Bytes of the longest frame without a message: an offer.
const LONGEST_HEAD: usize = HEAD + 20;

/// Whether a receiver must have asked for a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// It is paired with a receive of its sender and tag.
    Expected,
    /// It is taken without a receive.
    Unexpected,
}

/// Why a receiver does not want a message that it has been offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Its receive was cancelled, or its time has passed.
    Cancelled,
    /// Its receive has less room than the message is long.
    NoRoom,
}

/// What one messenger says to another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// Up to where the other side may send of each kind, in charged bytes since the link began.
    Window { unexpected: u64, expected: u64 },
    /// A message with its bytes, which may be in any pieces.
    Eager { kind: Kind, tag: u32, pieces: Vec<Bytes> },
    /// There is a message whose bytes are sent once they are granted. `message` is the sender's number of it.
    Offer { message: u64, tag: u32, length: u64 },
    /// The bytes of an offered message may come.
    Grant { message: u64 },
    /// The bytes of an offered message are not wanted (any more).
    Refusal { message: u64, reason: Refusal },
    /// The sender has given up an offered message.
    Withdrawal { message: u64 },
}

impl Frame {
    /// Appends the frame.
    pub(crate) fn emit(&self, taken: u32, out: &mut impl Writer) {
        fn head(out: &mut impl Writer, number: u8, taken: u32) {
            out.put_u8(number);
            out.put_u32(taken);
        }
        match self {
            Frame::Window { unexpected, expected } => {
                head(out, 1, taken);
                out.put_u64(*unexpected);
                out.put_u64(*expected);
            }
            Frame::Eager { kind, tag, pieces } => {
                head(out, 2, taken);
                out.put_u8(u8::from(*kind == Kind::Unexpected));
                out.put_u32(*tag);
                out.put_u32(pieces.iter().map(Bytes::len).sum::<usize>() as u32);
                pieces.iter().for_each(|piece| out.put_shared(piece));
            }
            Frame::Offer { message, tag, length } => {
                head(out, 3, taken);
                out.put_u64(*message);
                out.put_u32(*tag);
                out.put_u64(*length);
            }
            Frame::Grant { message } => {
                head(out, 4, taken);
                out.put_u64(*message);
            }
            Frame::Refusal { message, reason } => {
                head(out, 5, taken);
                out.put_u64(*message);
                out.put_u8(u8::from(*reason == Refusal::NoRoom));
            }
            Frame::Withdrawal { message } => {
                head(out, 6, taken);
                out.put_u64(*message);
            }
        }
    }

    /// Reads a frame that is whole: the first bytes of it, and what follows them if it has a message. Gives how many
    /// messages the other side has taken, too.
    fn parse(head: &[u8], pieces: Vec<Bytes>) -> Result<(Frame, u32), Malformed> {
        let mut reader = Reader::new(head);
        let (number, taken) = (reader.u8("frame type")?, reader.u32("messages taken")?);
        let frame = match number {
            1 => Frame::Window {
                unexpected: reader.u64("window for unexpected messages")?,
                expected: reader.u64("window for expected messages")?,
            },
            2 => {
                let kind = match reader.u8("kind of message")? {
                    0 => Kind::Expected,
                    1 => Kind::Unexpected,
                    _ => return Err(Malformed::new("kind of message")),
                };
                Frame::Eager { kind, tag: reader.u32("tag")?, pieces }
            }
            3 => Frame::Offer {
                message: reader.u64("message number")?,
                tag: reader.u32("tag")?,
                length: reader.u64("message length")?,
            },
            4 => Frame::Grant { message: reader.u64("message number")? },
            5 => {
                let message = reader.u64("message number")?;
                let reason = match reader.u8("reason of a refusal")? {
                    0 => Refusal::Cancelled,
                    1 => Refusal::NoRoom,
                    _ => return Err(Malformed::new("reason of a refusal")),
                };
                Frame::Refusal { message, reason }
            }
            _ => Frame::Withdrawal { message: reader.u64("message number")? },
        };
        Ok((frame, taken))
    }
}

/// How long the frame is that begins with `bytes`, as far as these tell: once they are as many, it is whole.
fn frame_length(bytes: &[u8]) -> Result<usize, Malformed> {
    let length = match bytes.first() {
        None => 1,
        Some(1) => HEAD + 16,
        Some(2) => match bytes.get(EAGER_HEAD - 4..EAGER_HEAD) {
            None => EAGER_HEAD,
            Some(field) => {
                let length = Reader::new(field).u32("message length")? as usize;
                if length > MAX_EAGER {
                    return Err(Malformed::new("message length"));
                }
                EAGER_HEAD + length
            }
        },
        Some(3) => LONGEST_HEAD,
        Some(4 | 6) => HEAD + 8,
        Some(5) => HEAD + 9,
        Some(_) => return Err(Malformed::new("frame type")),
    };
    Ok(length)
}

/// The first bytes of a stream with the bytes of a large message.
pub(crate) fn bulk_head(message: u64) -> [u8; BULK_HEAD] {
    let mut head = [BULK; BULK_HEAD];
    head[1..].copy_from_slice(&message.to_be_bytes());
    head
}

/// The number of the message that such a stream carries; none if it is another kind of stream.
pub(crate) fn parse_bulk_head(head: [u8; BULK_HEAD]) -> Option<u64> {
    let [first, number @ ..] = head;
    (first == BULK).then(|| u64::from_be_bytes(number))
}

/// Takes frames out of a stream of bytes that comes in any pieces. It keeps less than one frame of them.
#[derive(Debug, Default)]
pub(crate) struct FrameReader {
    come: Pieces,
}

impl FrameReader {
    /// The next bytes of the stream. All frames of those before must have been taken.
    pub(crate) fn push(&mut self, bytes: &Bytes) {
        self.come.put_shared(bytes);
    }

    /// The next frame that is whole, and how many messages its sender says that it has taken.
    ///
    /// # Errors
    /// [`Malformed`] if no frame begins like this.
    pub(crate) fn next(&mut self) -> Result<Option<(Frame, u32)>, Malformed> {
        let mut room = [0; LONGEST_HEAD];
        let begin = self.come.peek(&mut room);
        let length = frame_length(begin)?;
        if self.come.len() < length {
            return Ok(None);
        }
        let (head, message) = match begin.first() {
            Some(2) => (&begin[..EAGER_HEAD], length - EAGER_HEAD),
            _ => (&begin[..length], 0),
        };
        self.come.advance(head.len());
        Frame::parse(head, self.come.take(message)).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame() -> impl Strategy<Value = Frame> {
        let kind = prop_oneof![Just(Kind::Expected), Just(Kind::Unexpected)];
        let reason = prop_oneof![Just(Refusal::Cancelled), Just(Refusal::NoRoom)];
        let length = prop_oneof![4 => 0..80_usize, 1 => 3_000..9_000_usize];
        let bytes = (length, any::<u8>()).prop_map(|(length, first)| {
            (0..length).map(|at| first.wrapping_add(at as u8)).collect::<Bytes>()
        });
        prop_oneof![
            (any::<u64>(), any::<u64>())
                .prop_map(|(unexpected, expected)| Frame::Window { unexpected, expected }),
            (kind, any::<u32>(), bytes).prop_map(|(kind, tag, bytes)| Frame::Eager {
                kind,
                tag,
                pieces: vec![bytes]
            }),
            (any::<u64>(), any::<u32>(), any::<u64>()).prop_map(|(message, tag, length)| Frame::Offer {
                message,
                tag,
                length
            }),
            any::<u64>().prop_map(|message| Frame::Grant { message }),
            (any::<u64>(), reason).prop_map(|(message, reason)| Frame::Refusal { message, reason }),
            any::<u64>().prop_map(|message| Frame::Withdrawal { message }),
        ]
    }

    /// A message comes in whatever pieces it has come in.
    fn in_one_piece(frame: Frame) -> Frame {
        match frame {
            Frame::Eager { kind, tag, pieces } => {
                Frame::Eager { kind, tag, pieces: vec![pieces.concat().into()] }
            }
            other => other,
        }
    }

    proptest! {
        #[test]
        fn frames_come_back_in_order_however_their_bytes_are_cut(
            frames in proptest::collection::vec((frame(), any::<u32>()), 0..9),
            cuts in proptest::collection::vec(prop_oneof![4 => 1..50_usize, 1 => 3_000..9_000_usize], 1..40),
        ) {
            let mut bytes = Vec::new();
            frames.iter().for_each(|(frame, taken)| frame.emit(*taken, &mut bytes));
            let (mut rest, mut reader, mut read) = (Bytes::from(bytes), FrameReader::default(), Vec::new());
            for cut in cuts.into_iter().cycle() {
                if rest.is_empty() {
                    break;
                }
                reader.push(&rest.split_to(cut.min(rest.len())));
                while let Some((frame, taken)) = reader.next().expect("well-formed") {
                    read.push((in_one_piece(frame), taken));
                }
            }
            prop_assert_eq!(read, frames);
        }

        #[test]
        fn garbage_never_panics_and_is_never_kept_beyond_a_frame(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 0..9),
        ) {
            let mut reader = FrameReader::default();
            'pieces: for piece in pieces {
                reader.push(&piece.into());
                loop {
                    match reader.next() {
                        Ok(Some(_)) => {}
                        Ok(None) => break,
                        Err(_) => break 'pieces,
                    }
                }
                prop_assert!(reader.come.len() < EAGER_HEAD + MAX_EAGER);
            }
        }
    }

    #[test]
    fn a_message_that_is_too_long_is_refused_before_it_is_kept() {
        let mut bytes = Vec::new();
        Frame::Eager { kind: Kind::Expected, tag: 1, pieces: Vec::new() }.emit(0, &mut bytes);
        bytes[EAGER_HEAD - 4..].copy_from_slice(&(MAX_EAGER as u32 + 1).to_be_bytes());
        let mut reader = FrameReader::default();
        reader.push(&bytes.into());
        assert_eq!(reader.next(), Err(Malformed::new("message length")));
    }
}
