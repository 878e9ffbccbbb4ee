//! Reading fields one after the other, and never beyond the end.

use super::WireError;

/// The unread rest of a message.
pub(super) struct Fields<'a> {
    rest: &'a [u8],
    whole: usize,
}

impl<'a> Fields<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Fields<'a> {
        Fields { rest: bytes, whole: bytes.len() }
    }

    /// Whether all was read.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    pub(super) fn bytes(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or_else(|| WireError::Truncated {
            found: self.whole as u64,
            expected: (self.whole - self.rest.len() + length) as u64,
        })?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let mut array = [0; N];
        array.copy_from_slice(self.bytes(N)?);
        Ok(array)
    }

    pub(super) fn u8(&mut self) -> Result<u8, WireError> {
        self.array().map(u8::from_be_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, WireError> {
        self.array().map(u16::from_be_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, WireError> {
        self.array().map(u32::from_be_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, WireError> {
        self.array().map(u64::from_be_bytes)
    }

    /// Two bytes of magic and one of version, with which every message begins.
    pub(super) fn preamble(&mut self, magic: u16) -> Result<(), WireError> {
        let found = self.u16()?;
        if found != magic {
            return Err(WireError::Magic { found, expected: magic });
        }
        match self.u8()? {
            super::VERSION => Ok(()),
            other => Err(WireError::Version(other)),
        }
    }
}

/// Refuses a value above its limit.
pub(super) fn at_most(what: &'static str, value: u64, limit: u64) -> Result<u64, WireError> {
    if value <= limit { Ok(value) } else { Err(WireError::TooLarge { what, value, limit }) }
}

/// The bytes of a text field as text.
pub(super) fn text<'a>(what: &'static str, bytes: &'a [u8]) -> Result<&'a str, WireError> {
    std::str::from_utf8(bytes).map_err(|_| WireError::NotText(what))
}
