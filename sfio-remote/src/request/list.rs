//! What a caller wants to read or write: regions of the logical file, each with its memory.

use bytes::{Bytes, BytesMut};

use super::RegionIndex;
use crate::distribution::{RangeError, Region};

/// What is wrong with a caller's list.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// A region ends beyond every possible file.
    #[error("region {index} of the list: {error}")]
    Range {
        /// The region's position, counted from 0.
        index: usize,
        /// The region.
        error: RangeError,
    },
    /// More regions than their numbers can tell apart.
    #[error("the list has {0} regions; at most {max} are possible", max = u32::MAX)]
    TooManyRegions(usize),
    /// More bytes than the memory may take.
    #[error("the list has {bytes} bytes; at most {limit} are possible in one call")]
    TooLarge {
        /// The sum of all lengths.
        bytes: u128,
        /// The limit.
        limit: u64,
    },
}

/// Regions to write, each with its bytes. Where regions overlap, the later one wins.
#[derive(Debug, Clone, Default)]
pub struct WriteList {
    regions: Vec<Region>,
    data: Vec<Bytes>,
}

/// Regions to read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ReadList {
    regions: Vec<Region>,
}

/// A [`ReadList`] and the memory that it is read into.
#[derive(Debug)]
pub struct ReadBuffer {
    pub(super) regions: Vec<Region>,
    pub(super) memory: ReadMemory,
}

/// The regions of a list in memory, one behind the other.
#[derive(Debug)]
pub(super) struct ReadMemory {
    bytes: BytesMut,
    /// Where each region begins, and at the end where the last one ends.
    starts: Vec<usize>,
}

impl WriteList {
    /// Each piece with the offset in the logical file where it goes.
    ///
    /// # Errors
    /// If a piece ends beyond every possible file.
    pub fn new(pieces: impl IntoIterator<Item = (u64, Bytes)>) -> Result<WriteList, ListError> {
        let mut list = WriteList::default();
        for (index, (offset, data)) in pieces.into_iter().enumerate() {
            let region = Region::new(offset, data.len() as u64);
            list.regions.push(region.map_err(|error| ListError::Range { index, error })?);
            list.data.push(data);
        }
        refuse_too_many(&list.regions)?;
        Ok(list)
    }

    /// The regions, in the caller's order.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    pub(super) fn data(&self, region: RegionIndex) -> &[u8] {
        &self.data[region.index()]
    }
}

impl ReadList {
    /// Regions by offset and length in the logical file.
    ///
    /// # Errors
    /// If one ends beyond every possible file.
    pub fn new(regions: impl IntoIterator<Item = (u64, u64)>) -> Result<ReadList, ListError> {
        let region = |(index, (offset, length))| {
            Region::new(offset, length).map_err(|error| ListError::Range { index, error })
        };
        let regions = regions.into_iter().enumerate().map(region).collect::<Result<Vec<_>, _>>()?;
        refuse_too_many(&regions)?;
        Ok(ReadList { regions })
    }

    /// The regions, in the caller's order.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }
}

impl ReadBuffer {
    /// Zeroed memory for all regions of `list`.
    ///
    /// # Errors
    /// If that is more than `limit` bytes.
    pub fn new(list: ReadList, limit: u64) -> Result<ReadBuffer, ListError> {
        let bytes: u128 = list.regions.iter().map(|region| u128::from(region.length())).sum();
        let total = usize::try_from(bytes).ok().filter(|total| *total as u64 <= limit);
        let total = total.ok_or(ListError::TooLarge { bytes, limit })?;
        let mut starts = Vec::with_capacity(list.regions.len() + 1);
        let mut next = 0;
        for region in &list.regions {
            starts.push(next);
            // The sum was checked to fit.
            next += region.length() as usize;
        }
        starts.push(next);
        Ok(ReadBuffer {
            regions: list.regions,
            memory: ReadMemory { bytes: BytesMut::zeroed(total), starts },
        })
    }

    /// The regions, in the caller's order.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The bytes of each region, in the caller's order, each cut to the length that `lengths` gives for it.
    pub fn into_regions(self, lengths: impl IntoIterator<Item = u64>) -> Vec<Bytes> {
        let bytes = self.memory.bytes.freeze();
        let cut = |(bounds, length): (&[usize], u64)| {
            let whole = bytes.slice(bounds[0]..bounds[1]);
            whole.slice(..whole.len().min(length as usize))
        };
        self.memory.starts.windows(2).zip(lengths).map(cut).collect()
    }
}

impl ReadMemory {
    pub(super) fn write(&mut self, region: RegionIndex, offset: usize, data: &[u8]) {
        let start = self.starts[region.index()] + offset;
        self.bytes[start..start + data.len()].copy_from_slice(data);
    }

    pub(super) fn copy(&mut self, from: (RegionIndex, usize), to: (RegionIndex, usize), length: usize) {
        let [from, to] = [from, to].map(|(region, offset)| self.starts[region.index()] + offset);
        self.bytes.copy_within(from..from + length, to);
    }
}

fn refuse_too_many(regions: &[Region]) -> Result<(), ListError> {
    match u32::try_from(regions.len()) {
        Ok(_) => Ok(()),
        Err(_) => Err(ListError::TooManyRegions(regions.len())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_region_is_named_with_its_place() {
        let error = ReadList::new([(0, 5), (u64::MAX, 1)]).expect_err("too far");
        assert!(
            error.to_string().starts_with("region 1 of the list: 1 bytes at offset 18446744073709551615")
        );
        assert!(WriteList::new([(i64::MAX as u64, Bytes::from_static(b"x"))]).is_err());
    }

    #[test]
    fn more_memory_than_the_limit_is_refused_before_it_is_taken() {
        let list = ReadList::new([(0, 1 << 62), (5, 1 << 62), (7, 1 << 62), (9, 1 << 62)])
            .expect("possible regions");
        let error = ReadBuffer::new(list, 1 << 30).expect_err("too much");
        assert_eq!(error, ListError::TooLarge { bytes: 1 << 64, limit: 1 << 30 });
    }
}
