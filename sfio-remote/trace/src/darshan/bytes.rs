//! Words of a log, in the byte order of the machine that wrote it.

use super::DarshanError;

/// A place within a region.
#[derive(Debug, Clone)]
pub(super) struct Words<'a> {
    region: &'static str,
    bytes: &'a [u8],
    offset: usize,
    is_big: bool,
}

impl<'a> Words<'a> {
    pub(super) fn new(region: &'static str, bytes: &'a [u8], is_big: bool) -> Words<'a> {
        Words { region, bytes, offset: 0, is_big }
    }

    pub(super) fn is_at_end(&self) -> bool {
        self.offset >= self.bytes.len()
    }

    pub(super) fn offset(&self) -> usize {
        self.offset
    }

    /// The region, and where in it.
    pub(super) fn place(&self) -> (&'static str, usize) {
        (self.region, self.offset)
    }

    pub(super) fn left(&self) -> usize {
        self.bytes.len() - self.offset
    }

    pub(super) fn take(&mut self, count: usize, what: &'static str) -> Result<&'a [u8], DarshanError> {
        let rest = &self.bytes[self.offset..];
        let Some((taken, _)) = rest.split_at_checked(count) else {
            let (region, offset, needed) = (self.region, self.offset, count - rest.len());
            return Err(DarshanError::Truncated { region, offset, what, needed });
        };
        self.offset += count;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], DarshanError> {
        let mut word = [0; N];
        word.copy_from_slice(self.take(N, what)?);
        if self.is_big {
            word.reverse();
        }
        Ok(word)
    }

    pub(super) fn u32(&mut self, what: &'static str) -> Result<u32, DarshanError> {
        self.array(what).map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self, what: &'static str) -> Result<u64, DarshanError> {
        self.array(what).map(u64::from_le_bytes)
    }

    pub(super) fn i64(&mut self, what: &'static str) -> Result<i64, DarshanError> {
        self.array(what).map(i64::from_le_bytes)
    }

    pub(super) fn f64(&mut self, what: &'static str) -> Result<f64, DarshanError> {
        self.array(what).map(f64::from_le_bytes)
    }

    /// A string up to its zero, which is taken, too.
    pub(super) fn string(&mut self, what: &'static str) -> Result<String, DarshanError> {
        let rest = &self.bytes[self.offset..];
        let length = rest.iter().position(|byte| *byte == 0);
        let length = length.ok_or(DarshanError::Truncated {
            region: self.region,
            offset: self.offset,
            what,
            needed: 1,
        })?;
        let text = text(self.take(length, what)?);
        self.offset += 1;
        Ok(text)
    }

    pub(super) fn value(
        &self,
        what: &'static str,
        found: impl ToString,
        expected: &'static str,
    ) -> DarshanError {
        let (region, offset) = (self.region, self.offset);
        DarshanError::Value { region, offset, what, found: found.to_string(), expected }
    }
}

/// What stands before the first zero.
pub(super) fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
