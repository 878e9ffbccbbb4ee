//! Ranges of bytes, in the logical file and in a subfile.

/// The largest length of a logical file or subfile, and the largest end of a range: what a signed 64-bit file offset of
/// the operating system can express.
pub const MAX_LENGTH: u64 = i64::MAX as u64;

/// A range of the logical file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Region {
    offset: u64,
    length: u64,
}

/// A range of a subfile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Extent {
    offset: u64,
    length: u64,
}

/// A range that ends beyond every possible file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{length} bytes at offset {offset} end beyond the largest file, {MAX_LENGTH} bytes")]
pub struct RangeError {
    /// Where the range begins, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
}

impl Region {
    /// `length` bytes from `offset` on.
    ///
    /// # Errors
    /// If it ends beyond [`MAX_LENGTH`].
    pub fn new(offset: u64, length: u64) -> Result<Region, RangeError> {
        check(offset, length)?;
        Ok(Region { offset, length })
    }

    /// Where it begins, in bytes.
    pub fn offset(self) -> u64 {
        self.offset
    }

    /// Its length in bytes.
    pub fn length(self) -> u64 {
        self.length
    }

    /// The offset behind its last byte; at most [`MAX_LENGTH`].
    pub fn end(self) -> u64 {
        self.offset + self.length
    }
}

impl Extent {
    /// `length` bytes from `offset` on.
    ///
    /// # Errors
    /// If it ends beyond [`MAX_LENGTH`].
    pub fn new(offset: u64, length: u64) -> Result<Extent, RangeError> {
        check(offset, length)?;
        Ok(Extent { offset, length })
    }

    /// The bytes from `start` up to `end`.
    pub(crate) fn between(start: u64, end: u64) -> Extent {
        debug_assert!(start <= end && end <= MAX_LENGTH, "extent {start}..{end}");
        Extent { offset: start, length: end - start }
    }

    /// Where it begins, in bytes.
    pub fn offset(self) -> u64 {
        self.offset
    }

    /// Its length in bytes.
    pub fn length(self) -> u64 {
        self.length
    }

    /// The offset behind its last byte; at most [`MAX_LENGTH`].
    pub fn end(self) -> u64 {
        self.offset + self.length
    }
}

fn check(offset: u64, length: u64) -> Result<(), RangeError> {
    match offset.checked_add(length) {
        Some(end) if end <= MAX_LENGTH => Ok(()),
        _ => Err(RangeError { offset, length }),
    }
}
