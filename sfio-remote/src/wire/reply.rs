//! Replies, from an I/O node to the client.
//!
//! ```text
//!  0               1               2               3
//! ┌───────────────┬───────────────┬───────────────┬───────────────┐
//! │      's'      │      'f'      │    version    │    status     │  0
//! ├───────────────┴───────────────┼───────────────┴───────────────┤
//! │           os error            │          text length          │  4
//! ├───────────────────────────────┴───────────────────────────────┤
//! │                         size (64 bits)                        │  8
//! ├───────────────────────────────────────────────────────────────┤
//! │                    payload length (64 bits)                   │ 16
//! ├───────────────────────────────────────────────────────────────┤
//! │ text, then the payload of a read                              │ 24
//! └───────────────────────────────────────────────────────────────┘
//! ```

use super::field::{Fields, at_most, text};
use super::{VERSION, WireError};
use crate::distribution::MAX_LENGTH;
use crate::remote_error::{ErrorKind, MAX_TEXT_BYTES, RemoteError};

const MAGIC: u16 = u16::from_be_bytes(*b"sf");
const FIXED_BYTES: usize = 24;

/// The longest reply without its payload, in bytes.
pub const MAX_REPLY_BYTES: usize = FIXED_BYTES + MAX_TEXT_BYTES;

/// What an I/O node answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// What came of it.
    pub result: Result<(), RemoteError>,
    /// The size in bytes that the subfile had before the request changed anything; 0 where there is none.
    pub size: u64,
    /// How many payload bytes follow.
    pub payload: u64,
}

impl Reply {
    /// Success without a payload, on a subfile that had `size` bytes.
    pub fn done(size: u64) -> Reply {
        Reply { result: Ok(()), size, payload: 0 }
    }

    /// A failure.
    pub fn failed(error: RemoteError) -> Reply {
        Reply { result: Err(error), size: 0, payload: 0 }
    }

    /// The bytes of the reply, without its payload.
    pub fn emit(&self) -> Vec<u8> {
        let (status, os_error, text) = match &self.result {
            Ok(()) => (0, 0, ""),
            Err(error) => (error.kind.code(), error.os_error.unwrap_or(0), error.wire_text()),
        };
        let mut bytes = Vec::with_capacity(FIXED_BYTES + text.len());
        bytes.extend(MAGIC.to_be_bytes());
        bytes.extend([VERSION, status]);
        bytes.extend(os_error.to_be_bytes());
        // The text was cut to a limit that fits the field.
        bytes.extend((text.len() as u16).to_be_bytes());
        bytes.extend(self.size.to_be_bytes());
        bytes.extend(self.payload.to_be_bytes());
        bytes.extend_from_slice(text.as_bytes());
        bytes
    }

    /// The reply that `bytes` are.
    ///
    /// # Errors
    /// If they are not exactly one reply of this version.
    pub fn parse(bytes: &[u8]) -> Result<Reply, WireError> {
        let view = ReplyView::new(bytes)?;
        let text = text("explanation", view.text)?;
        let result = match view.status {
            0 => Ok(()),
            code => {
                let kind = ErrorKind::from_code(code)
                    .ok_or(WireError::Unknown { what: "status", value: code.into() })?;
                let os_error = Some(view.os_error).filter(|number| *number != 0);
                Err(RemoteError { kind, os_error, text: text.to_owned() })
            }
        };
        if result.is_ok() {
            at_most("the os error of a success", view.os_error.into(), 0)?;
            at_most("the length of a success's explanation", text.len() as u64, 0)?;
        } else {
            at_most("the payload length of a failure", view.payload, 0)?;
        }
        Ok(Reply { result, size: view.size, payload: view.payload })
    }
}

/// The fields of a reply as they stand in the bytes: each is there, and none exceeds its limit.
#[derive(Debug, Clone, Copy)]
pub struct ReplyView<'a> {
    /// 0, or the number of an [`ErrorKind`].
    pub status: u8,
    /// The number of the operating system's error, or 0.
    pub os_error: u16,
    /// The size of the subfile in bytes.
    pub size: u64,
    /// How many payload bytes follow.
    pub payload: u64,
    /// The explanation.
    pub text: &'a [u8],
}

impl<'a> ReplyView<'a> {
    /// How many bytes the reply has, as soon as its first bytes tell; at most [`MAX_REPLY_BYTES`].
    ///
    /// # Errors
    /// If these bytes cannot be the beginning of a reply.
    pub fn measure(bytes: &[u8]) -> Result<Option<usize>, WireError> {
        if bytes.len() < 8 {
            return Ok(None);
        }
        let (_, text) = Self::head(&mut Fields::new(bytes))?;
        Ok(Some(FIXED_BYTES + text))
    }

    /// The fields of the reply that `bytes` are.
    ///
    /// # Errors
    /// If they are not exactly one reply.
    pub fn new(bytes: &'a [u8]) -> Result<ReplyView<'a>, WireError> {
        let mut fields = Fields::new(bytes);
        let ((status, os_error), text_length) = Self::head(&mut fields)?;
        let size = at_most("the size", fields.u64()?, MAX_LENGTH)?;
        let payload = at_most("the payload length", fields.u64()?, MAX_LENGTH)?;
        let text = fields.bytes(text_length)?;
        match bytes.len() - FIXED_BYTES - text.len() {
            0 => Ok(ReplyView { status, os_error, size, payload, text }),
            more => Err(WireError::Trailing(more as u64)),
        }
    }

    /// The first 8 bytes: status, os error, and the length of the text.
    fn head(fields: &mut Fields<'_>) -> Result<((u8, u16), usize), WireError> {
        fields.preamble(MAGIC)?;
        let (status, os_error) = (fields.u8()?, fields.u16()?);
        let text = at_most("the length of the explanation", fields.u16()?.into(), MAX_TEXT_BYTES as u64)?;
        // Below a 16-bit number.
        Ok(((status, os_error), text as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Assembler;
    use bytes::Bytes;
    use proptest::prelude::*;

    fn any_reply() -> impl Strategy<Value = Reply> {
        let success = (0..=MAX_LENGTH, 0..=MAX_LENGTH).prop_map(|(size, payload)| Reply {
            result: Ok(()),
            size,
            payload,
        });
        let failure = (prop::sample::select(ErrorKind::ALL), 0_u16.., ".{0,100}", 0..=MAX_LENGTH).prop_map(
            |(kind, os_error, text, size)| {
                let os_error = Some(os_error).filter(|number| *number != 0);
                Reply { result: Err(RemoteError { kind, os_error, text }), size, payload: 0 }
            },
        );
        prop_oneof![success, failure]
    }

    fn fault(change: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut bytes = Reply::done(7).emit();
        change(&mut bytes);
        Reply::parse(&bytes).expect_err("a wrong reply").to_string()
    }

    #[test]
    fn each_fault_is_named() {
        assert!(fault(|bytes| bytes[0] = b'S').contains("begins with"));
        assert!(fault(|bytes| bytes[2] = 2).contains("version 2 of the protocol, this side 3"));
        assert!(fault(|bytes| bytes[3] = 255).contains("255 is no status"));
        assert!(fault(|bytes| bytes[5] = 5).contains("os error of a success is 5"));
        assert!(fault(|bytes| bytes[6] = 9).contains("at most 512"));
        assert!(fault(|bytes| bytes[8] = 0x80).contains("the size is"));
        assert!(fault(|bytes| (bytes[3], bytes[16]) = (1, 1)).contains("payload length of a failure"));
        assert!(fault(|bytes| bytes.push(0)).contains("1 bytes follow"));
        assert!(fault(|bytes| bytes.truncate(10)).contains("ends after 10 of 16"));
    }

    #[test]
    fn a_stream_that_ends_inside_a_reply_says_how_much_is_missing() {
        let mut assembler = Assembler::reply();
        let mut bytes = Bytes::from(Reply::done(7).emit()).slice(..9);
        assert_eq!(assembler.push(&mut bytes), Ok(None));
        assert_eq!(assembler.truncated(), WireError::Truncated { found: 9, expected: 24 });
    }

    proptest! {
        #[test]
        fn parse_of_emit_is_the_identity(reply in any_reply()) {
            prop_assert_eq!(Reply::parse(&reply.emit()), Ok(reply));
        }

        #[test]
        fn garbage_is_an_error_or_has_one_spelling(bytes in prop::collection::vec(any::<u8>(), 0..60), preamble: bool) {
            let mut bytes = bytes;
            if preamble && bytes.len() >= 8 {
                bytes[..4].copy_from_slice(b"sf\x03\x01");
                bytes[6..8].copy_from_slice(&[0, 4]);
            }
            if let Ok(reply) = Reply::parse(&bytes) {
                prop_assert_eq!(reply.emit(), bytes);
            }
        }
    }
}
