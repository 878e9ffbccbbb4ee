//! Reading and writing numbers and byte strings.

use bytes::{Bytes, BytesMut};

/// Bytes that are no message of the expected form.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("malformed {what}")]
pub(crate) struct Malformed {
    /// The field or message that is wrong.
    pub(crate) what: &'static str,
}

impl Malformed {
    pub(crate) fn new(what: &'static str) -> Malformed {
        Malformed { what }
    }
}

/// Takes numbers and byte strings off the front of a slice; every step can fail and none panics.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    pub(crate) fn bytes(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let (head, rest) = self.rest.split_at_checked(count).ok_or(Malformed { what })?;
        self.rest = rest;
        Ok(head)
    }

    pub(crate) fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        let bytes = self.bytes(N, what)?;
        Ok(bytes.try_into().expect("as many bytes as were asked for"))
    }

    pub(crate) fn u8(&mut self, what: &'static str) -> Result<u8, Malformed> {
        Ok(self.array::<1>(what)?[0])
    }

    pub(crate) fn u16(&mut self, what: &'static str) -> Result<u16, Malformed> {
        self.array(what).map(u16::from_be_bytes)
    }

    pub(crate) fn u24(&mut self, what: &'static str) -> Result<u32, Malformed> {
        let [a, b, c] = self.array(what)?;
        Ok(u32::from_be_bytes([0, a, b, c]))
    }

    pub(crate) fn u32(&mut self, what: &'static str) -> Result<u32, Malformed> {
        self.array(what).map(u32::from_be_bytes)
    }

    pub(crate) fn u48(&mut self, what: &'static str) -> Result<u64, Malformed> {
        let [a, b, c, d, e, f] = self.array(what)?;
        Ok(u64::from_be_bytes([0, 0, a, b, c, d, e, f]))
    }

    pub(crate) fn u64(&mut self, what: &'static str) -> Result<u64, Malformed> {
        self.array(what).map(u64::from_be_bytes)
    }

    /// A byte string with its length in 16 bits before it.
    pub(crate) fn string(&mut self, limit: usize, what: &'static str) -> Result<&'a [u8], Malformed> {
        let length = usize::from(self.u16(what)?);
        if length > limit {
            return Err(Malformed { what });
        }
        self.bytes(length, what)
    }

    /// Text with its length in 16 bits before it.
    pub(crate) fn text(&mut self, limit: usize, what: &'static str) -> Result<&'a str, Malformed> {
        std::str::from_utf8(self.string(limit, what)?).map_err(|_| Malformed { what })
    }

    /// What is left.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Refuses trailing bytes.
    pub(crate) fn finish(self, what: &'static str) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed { what }) }
    }
}

/// Appends numbers and byte strings, the mirror of [`Reader`].
pub(crate) trait Writer {
    fn put_bytes(&mut self, bytes: &[u8]);

    /// The same for bytes that may be kept where they are.
    fn put_shared(&mut self, bytes: &Bytes) {
        self.put_bytes(bytes);
    }

    fn put_u8(&mut self, value: u8) {
        self.put_bytes(&[value]);
    }
    fn put_u16(&mut self, value: u16) {
        self.put_bytes(&value.to_be_bytes());
    }
    fn put_u24(&mut self, value: u32) {
        debug_assert!(value < 1 << 24);
        self.put_bytes(&value.to_be_bytes()[1..]);
    }
    fn put_u32(&mut self, value: u32) {
        self.put_bytes(&value.to_be_bytes());
    }
    fn put_u48(&mut self, value: u64) {
        debug_assert!(value < 1 << 48);
        self.put_bytes(&value.to_be_bytes()[2..]);
    }
    fn put_u64(&mut self, value: u64) {
        self.put_bytes(&value.to_be_bytes());
    }
    /// A byte string with its length in 16 bits before it.
    fn put_string(&mut self, bytes: &[u8]) {
        let length = u16::try_from(bytes.len()).expect("strings on the wire are short");
        self.put_u16(length);
        self.put_bytes(bytes);
    }
}

impl Writer for Vec<u8> {
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}

impl Writer for BytesMut {
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.extend_from_slice(bytes);
    }
}
