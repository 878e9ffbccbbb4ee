//! The payloads of set-ups and answers: a handshake that opens a session, or a request to join one.
//!
//! ```text
//! set-up payload   1 | Noise message 1, which carries:
//!                        token (64), instance (64), path (32), share (16), window (32), streams (32)
//!                  2 | token (64), path (32), sealed: share (16)
//! answer payload   to 1: Noise message 2, which carries: instance (64), window (32), streams (32)
//!                  to 2: empty
//! ```
//! `share` is the part of the flow that the plan gives the path, in units of 1/65,535.

use super::{Malformed, Reader, Writer};

const HANDSHAKE: u8 = 1;
const JOIN: u8 = 2;

/// The payload of a set-up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SetUpPayload {
    Handshake(Vec<u8>),
    Join { token: u64, path: u32, sealed: Vec<u8> },
}

/// What the initiator says in Noise message 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Opening {
    pub(crate) token: u64,
    pub(crate) instance: u64,
    pub(crate) path: u32,
    pub(crate) share: Share,
    pub(crate) window: u32,
    pub(crate) streams: u32,
}

/// What the responder says in Noise message 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Welcome {
    pub(crate) instance: u64,
    pub(crate) window: u32,
    pub(crate) streams: u32,
}

/// A part of the flow as it travels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Share(pub(crate) u16);

impl Share {
    pub(crate) fn from_fraction(fraction: f64) -> Share {
        Share((fraction.clamp(0.0, 1.0) * f64::from(u16::MAX)).round() as u16)
    }

    pub(crate) fn to_fraction(self) -> f64 {
        f64::from(self.0) / f64::from(u16::MAX)
    }
}

impl SetUpPayload {
    pub(crate) fn emit(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            SetUpPayload::Handshake(message) => {
                out.put_u8(HANDSHAKE);
                out.put_bytes(message);
            }
            SetUpPayload::Join { token, path, sealed } => {
                out.put_u8(JOIN);
                out.put_u64(*token);
                out.put_u32(*path);
                out.put_bytes(sealed);
            }
        }
        out
    }

    pub(crate) fn parse(payload: &[u8]) -> Result<SetUpPayload, Malformed> {
        let mut reader = Reader::new(payload);
        match reader.u8("payload type")? {
            HANDSHAKE => Ok(SetUpPayload::Handshake(reader.rest().to_vec())),
            JOIN => Ok(SetUpPayload::Join {
                token: reader.u64("session token")?,
                path: reader.u32("path id")?,
                sealed: reader.rest().to_vec(),
            }),
            _ => Err(Malformed::new("payload type")),
        }
    }
}

impl Opening {
    pub(crate) fn emit(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u64(self.token);
        out.put_u64(self.instance);
        out.put_u32(self.path);
        out.put_u16(self.share.0);
        out.put_u32(self.window);
        out.put_u32(self.streams);
        out
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Opening, Malformed> {
        let mut reader = Reader::new(bytes);
        let opening = Opening {
            token: reader.u64("session token")?,
            instance: reader.u64("instance")?,
            path: reader.u32("path id")?,
            share: Share(reader.u16("share")?),
            window: reader.u32("window")?,
            streams: reader.u32("streams")?,
        };
        reader.finish("opening")?;
        Ok(opening)
    }
}

impl Welcome {
    pub(crate) fn emit(&self) -> Vec<u8> {
        let mut out = Vec::new();
        out.put_u64(self.instance);
        out.put_u32(self.window);
        out.put_u32(self.streams);
        out
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Welcome, Malformed> {
        let mut reader = Reader::new(bytes);
        let welcome = Welcome {
            instance: reader.u64("instance")?,
            window: reader.u32("window")?,
            streams: reader.u32("streams")?,
        };
        reader.finish("welcome")?;
        Ok(welcome)
    }
}

/// The sealed part of a request to join.
pub(crate) fn emit_join(share: Share) -> Vec<u8> {
    share.0.to_be_bytes().to_vec()
}

/// Reads what [`emit_join`] wrote.
pub(crate) fn parse_join(bytes: &[u8]) -> Result<Share, Malformed> {
    let mut reader = Reader::new(bytes);
    let share = Share(reader.u16("share")?);
    reader.finish("request to join")?;
    Ok(share)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parse_of_emit_is_identity(token: u64, instance: u64, path: u32, share: u16, window: u32, streams: u32) {
            let opening = Opening { token, instance, path, share: Share(share), window, streams };
            prop_assert_eq!(Opening::parse(&opening.emit()), Ok(opening));
            let welcome = Welcome { instance, window, streams };
            prop_assert_eq!(Welcome::parse(&welcome.emit()), Ok(welcome));
            prop_assert_eq!(parse_join(&emit_join(Share(share))), Ok(Share(share)));
            let join = SetUpPayload::Join { token, path, sealed: welcome.emit() };
            prop_assert_eq!(SetUpPayload::parse(&join.emit()), Ok(join));
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let _ = (Opening::parse(&bytes), Welcome::parse(&bytes), SetUpPayload::parse(&bytes), parse_join(&bytes));
        }
    }
}
