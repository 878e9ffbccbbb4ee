//! What a sealed body can be behind its receipt, and the small bodies: probes, handshakes of later epochs, and the
//! close of a session.

use super::{Malformed, Reader, Writer};

/// The kind of a sealed body: the low four bits of its first byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Symbol = 1,
    Report = 2,
    Probe = 3,
    ProbeReply = 4,
    Close = 5,
    Renewal = 6,
    RenewalAnswer = 7,
}

impl Kind {
    pub(crate) fn of(body: &[u8]) -> Result<Kind, Malformed> {
        match body.first().map(|first| first & 0x0f) {
            Some(1) => Ok(Kind::Symbol),
            Some(2) => Ok(Kind::Report),
            Some(3) => Ok(Kind::Probe),
            Some(4) => Ok(Kind::ProbeReply),
            Some(5) => Ok(Kind::Close),
            Some(6) => Ok(Kind::Renewal),
            Some(7) => Ok(Kind::RenewalAnswer),
            _ => Err(Malformed::new("kind")),
        }
    }
}

/// Bytes of a receipt, with which each body begins (docs/decisions/receipts.md).
pub(crate) const RECEIPT: usize = 4;

/// Takes the receipt off the front of an opened body, and gives what is behind it.
pub(crate) fn split_receipt(opened: &[u8]) -> Result<(u32, &[u8]), Malformed> {
    let mut reader = Reader::new(opened);
    Ok((reader.u32("receipt")?, reader.rest()))
}

/// The longest reason that a close carries, in bytes.
pub(crate) const MAX_REASON: usize = 200;

/// A question whether a path is alive, or its echo.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Probe {
    pub(crate) token: u64,
}

impl Probe {
    /// Bytes of one that is not padded.
    pub(crate) const BYTES: usize = 9;

    /// Reads a probe, behind which there may be padding, or its echo, behind which there is nothing.
    pub(crate) fn parse(body: &[u8]) -> Result<Probe, Malformed> {
        let mut reader = Reader::new(body);
        let is_echo = reader.u8("kind")? & 0x0f == Kind::ProbeReply as u8;
        let token = reader.u64("probe token")?;
        if is_echo {
            reader.finish("probe reply")?;
        }
        Ok(Probe { token })
    }

    /// Writes a probe and so many bytes of padding.
    pub(crate) fn emit_padded(self, padding: usize, out: &mut Vec<u8>) {
        self.emit(Kind::Probe, out);
        out.resize(out.len() + padding, 0);
    }

    pub(crate) fn emit(self, kind: Kind, out: &mut Vec<u8>) {
        out.put_u8(kind as u8);
        out.put_u64(self.token);
    }
}

/// A message of the handshake for a later epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Renewal<'a> {
    /// The epoch that will have its keys.
    pub(crate) epoch: u32,
    /// Noise message 1 or 2.
    pub(crate) message: &'a [u8],
}

impl<'a> Renewal<'a> {
    pub(crate) fn parse(body: &'a [u8]) -> Result<Renewal<'a>, Malformed> {
        let mut reader = Reader::new(body);
        reader.u8("kind")?;
        let epoch = reader.u32("epoch")?;
        Ok(Renewal { epoch, message: reader.rest() })
    }

    pub(crate) fn emit(self, kind: Kind, out: &mut Vec<u8>) {
        out.put_u8(kind as u8);
        out.put_u32(self.epoch);
        out.put_bytes(self.message);
    }
}

/// The end of a session, with a reason for people.
pub(crate) fn emit_close(reason: &str, out: &mut Vec<u8>) {
    let end = (0..=MAX_REASON.min(reason.len())).rev().find(|end| reason.is_char_boundary(*end)).unwrap_or(0);
    out.put_u8(Kind::Close as u8);
    out.put_string(&reason.as_bytes()[..end]);
}

/// Reads what [`emit_close`] wrote.
pub(crate) fn parse_close(body: &[u8]) -> Result<&str, Malformed> {
    let mut reader = Reader::new(body);
    reader.u8("kind")?;
    let reason = reader.text(MAX_REASON, "close reason")?;
    reader.finish("close")?;
    Ok(reason)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_long_reason_is_cut_at_a_character() {
        let mut out = Vec::new();
        emit_close(&"ü".repeat(150), &mut out);
        assert_eq!(parse_close(&out), Ok("ü".repeat(100).as_str()));
    }

    proptest! {
        #[test]
        fn a_probe_comes_back(token: u64) {
            let mut out = Vec::new();
            Probe { token }.emit(Kind::Probe, &mut out);
            prop_assert_eq!(Kind::of(&out), Ok(Kind::Probe));
            prop_assert_eq!(Probe::parse(&out), Ok(Probe { token }));
            prop_assert_eq!(out.len(), Probe::BYTES);
            Probe { token }.emit_padded(1_000, &mut out);
            prop_assert_eq!(Probe::parse(&out[Probe::BYTES..]), Ok(Probe { token }));
            prop_assert_eq!(out.len(), 2 * Probe::BYTES + 1_000);
            out[0] = Kind::ProbeReply as u8;
            prop_assert!(Probe::parse(&out).is_err());
        }

        #[test]
        fn a_renewal_comes_back(epoch: u32, message in proptest::collection::vec(any::<u8>(), 0..100)) {
            let (mut out, renewal) = (Vec::new(), Renewal { epoch, message: &message });
            renewal.emit(Kind::RenewalAnswer, &mut out);
            prop_assert_eq!(Kind::of(&out), Ok(Kind::RenewalAnswer));
            prop_assert_eq!(Renewal::parse(&out), Ok(renewal));
        }

        #[test]
        fn garbage_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (Kind::of(&bytes), Probe::parse(&bytes), parse_close(&bytes), Renewal::parse(&bytes));
        }
    }
}
