//! What a caller wants to read or write: regions of the logical file, each with its memory.

use std::ops::Range;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use super::pattern::{Pattern, PatternError, side_by_side};
use super::{Plan, RegionIndex};
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
    /// A pattern that cannot be.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// The caller's memory ends before its last byte.
    #[error("the memory has {room} bytes; the list needs {needed}")]
    MemoryTooShort {
        /// How many bytes are needed.
        needed: u64,
        /// How many there are.
        room: u64,
    },
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
    pub(super) scope: Scope,
    memory: WriteMemory,
}

/// Regions to read.
#[derive(Debug, Clone, Default)]
pub struct ReadList {
    pub(super) scope: Scope,
    memory: ReadMemory,
}

/// A [`ReadList`] and the memory that it is read into.
#[derive(Debug)]
pub struct ReadBuffer {
    pub(super) regions: Arc<Vec<Region>>,
    pub(super) memory: ReadMemory,
}

/// The regions of a list, and what was planned for them.
#[derive(Debug, Clone, Default)]
pub(super) struct Scope {
    /// An observer holds them, too, as long as the list is under way.
    pub(super) regions: Arc<Vec<Region>>,
    pub(super) plan: Option<Plan>,
    pub(super) granularity: Granularity,
}

/// What becomes one request to an I/O node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Granularity {
    /// Everything that a list has for a subfile, sorted and merged: the optimised calls of the paper.
    #[default]
    List,
    /// Each stripe alone, 64 requests at a time: the paper's unoptimised *mread* and *mwrite*, kept for comparison.
    Stripe,
}

/// Where the bytes of a list's regions are.
#[derive(Debug, Clone)]
enum WriteMemory {
    /// Each region has memory of its own.
    Pieces(Vec<Bytes>),
    /// All regions have one piece of memory, and each begins at its place there.
    Places { bytes: Bytes, places: Vec<usize> },
}

/// Where the bytes of a list's regions go.
#[derive(Debug, Clone, Default)]
pub(super) struct ReadMemory {
    bytes: BytesMut,
    /// Where each region begins.
    places: Vec<usize>,
}

impl Default for WriteMemory {
    fn default() -> WriteMemory {
        WriteMemory::Pieces(Vec::new())
    }
}

impl WriteList {
    /// Each piece with the offset in the logical file where it goes.
    ///
    /// # Errors
    /// If a piece ends beyond every possible file.
    pub fn new(pieces: impl IntoIterator<Item = (u64, Bytes)>) -> Result<WriteList, ListError> {
        let (offsets, data): (Vec<u64>, Vec<Bytes>) = pieces.into_iter().unzip();
        let regions = offsets.into_iter().zip(&data).map(|(offset, data)| (offset, data.len() as u64));
        Ok(WriteList { scope: Scope::new(regions)?, memory: WriteMemory::Pieces(data) })
    }

    /// Regions by offset and length in the logical file, of which `bytes` has the content, one behind the other.
    ///
    /// # Errors
    /// If a region ends beyond every possible file, or `bytes` is too short for all of them.
    pub fn packed(
        regions: impl IntoIterator<Item = (u64, u64)>,
        bytes: Bytes,
    ) -> Result<WriteList, ListError> {
        let scope = Scope::new(regions)?;
        let places = one_behind_the_other(&scope.regions, bytes.len() as u64)?;
        Ok(WriteList { scope, memory: WriteMemory::Places { bytes, places } })
    }

    /// What `view` makes of the file, from memory with gaps: `count` times `memory` within `bytes`.
    ///
    /// # Errors
    /// If a piece ends beyond every possible file, or the memory's pattern sticks out of `bytes`.
    pub fn patterned(
        view: &FileView<'_>,
        memory: &Pattern,
        count: u64,
        bytes: Bytes,
    ) -> Result<WriteList, ListError> {
        let (regions, places) = view.pieces(memory, count, bytes.len() as u64)?;
        Ok(WriteList { scope: Scope::new(regions)?, memory: WriteMemory::Places { bytes, places } })
    }

    /// The regions, in the caller's order.
    pub fn regions(&self) -> &[Region] {
        &self.scope.regions
    }

    /// The regions, for somebody who needs them longer than the list.
    pub(crate) fn shared_regions(&self) -> Arc<Vec<Region>> {
        Arc::clone(&self.scope.regions)
    }

    /// The same list with another granularity.
    pub fn granularity(mut self, granularity: Granularity) -> WriteList {
        self.scope.granularity = granularity;
        self
    }

    /// Some bytes of a region; they are not copied.
    pub(super) fn bytes(&self, region: RegionIndex, within: Range<usize>) -> Bytes {
        let index = region.index();
        match &self.memory {
            WriteMemory::Pieces(data) => data[index].slice(within),
            WriteMemory::Places { bytes, places } => {
                bytes.slice(places[index] + within.start..places[index] + within.end)
            }
        }
    }

    pub(super) fn data(&self, region: RegionIndex) -> &[u8] {
        let index = region.index();
        match &self.memory {
            WriteMemory::Pieces(data) => &data[index],
            WriteMemory::Places { bytes, places } => {
                &bytes[places[index]..places[index] + self.scope.regions[index].length() as usize]
            }
        }
    }
}

impl ReadList {
    /// Regions by offset and length in the logical file.
    ///
    /// # Errors
    /// If one ends beyond every possible file.
    pub fn new(regions: impl IntoIterator<Item = (u64, u64)>) -> Result<ReadList, ListError> {
        Ok(ReadList { scope: Scope::new(regions)?, memory: ReadMemory::default() })
    }

    /// What `view` makes of the file, into memory with gaps: `count` times `memory` within `bytes`. What lies in the
    /// gaps stays.
    ///
    /// # Errors
    /// If a piece ends beyond every possible file, or the memory's pattern sticks out of `bytes`.
    pub fn patterned(
        view: &FileView<'_>,
        memory: &Pattern,
        count: u64,
        bytes: BytesMut,
    ) -> Result<ReadList, ListError> {
        let (regions, places) = view.pieces(memory, count, bytes.len() as u64)?;
        Ok(ReadList { scope: Scope::new(regions)?, memory: ReadMemory { bytes, places } })
    }

    /// The regions, in the caller's order.
    pub fn regions(&self) -> &[Region] {
        &self.scope.regions
    }

    /// The regions, for somebody who needs them longer than the list.
    pub(crate) fn shared_regions(&self) -> Arc<Vec<Region>> {
        Arc::clone(&self.scope.regions)
    }

    /// The same list with another granularity.
    pub fn granularity(mut self, granularity: Granularity) -> ReadList {
        self.scope.granularity = granularity;
        self
    }
}

impl Scope {
    fn new(regions: impl IntoIterator<Item = (u64, u64)>) -> Result<Scope, ListError> {
        let region = |(index, (offset, length))| {
            Region::new(offset, length).map_err(|error| ListError::Range { index, error })
        };
        let regions = regions.into_iter().enumerate().map(region).collect::<Result<Vec<_>, _>>()?;
        match u32::try_from(regions.len()) {
            Ok(_) => Ok(Scope { regions: Arc::new(regions), plan: None, granularity: Granularity::List }),
            Err(_) => Err(ListError::TooManyRegions(regions.len())),
        }
    }
}

impl ReadBuffer {
    /// Zeroed memory for all regions of `list`, unless the list brings its own.
    ///
    /// # Errors
    /// If that is more than `limit` bytes.
    pub fn new(list: ReadList, limit: u64) -> Result<ReadBuffer, ListError> {
        let ReadList { scope: Scope { regions, .. }, mut memory } = list;
        if memory.places.len() < regions.len() {
            let bytes: u128 = regions.iter().map(|region| u128::from(region.length())).sum();
            let total = usize::try_from(bytes).ok().filter(|total| *total as u64 <= limit);
            let total = total.ok_or(ListError::TooLarge { bytes, limit })?;
            let places = one_behind_the_other(&regions, total as u64)?;
            memory = ReadMemory { bytes: BytesMut::zeroed(total), places };
        }
        Ok(ReadBuffer { regions, memory })
    }

    /// The regions, in the caller's order.
    pub fn regions(&self) -> &[Region] {
        &self.regions
    }

    /// The list again, with its memory.
    pub(crate) fn into_list(self) -> ReadList {
        let scope = Scope { regions: self.regions, plan: None, granularity: Granularity::List };
        ReadList { scope, memory: self.memory }
    }

    /// What was read, of which each region is there up to the length that `present` gives for it.
    pub fn finish(self, present: impl Fn(Region) -> u64) -> RegionsRead {
        let lengths =
            self.regions.iter().map(|region| present(*region).min(region.length()) as usize).collect();
        RegionsRead { bytes: self.memory.bytes, places: self.memory.places, lengths }
    }
}

/// The bytes of regions that were read, in one piece of memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RegionsRead {
    bytes: BytesMut,
    places: Vec<usize>,
    lengths: Vec<usize>,
}

impl RegionsRead {
    /// The number of regions.
    pub fn len(&self) -> usize {
        self.lengths.len()
    }

    /// Whether there are no regions.
    pub fn is_empty(&self) -> bool {
        self.lengths.is_empty()
    }

    /// The bytes of each region, in the caller's order; one that reaches beyond the end of the file is shorter.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[u8]> {
        self.places.iter().zip(&self.lengths).map(|(place, length)| &self.bytes[*place..*place + *length])
    }

    /// The same, each as a handle of its own.
    pub fn into_vec(self) -> Vec<Bytes> {
        let bytes = self.bytes.freeze();
        let region = |(place, length): (&usize, &usize)| bytes.slice(*place..place + length);
        self.places.iter().zip(&self.lengths).map(region).collect()
    }

    /// The memory with all regions in it, and how many of their bytes are there.
    pub fn into_memory(self) -> (BytesMut, u64) {
        let present = self.lengths.iter().map(|length| *length as u64).sum();
        (self.bytes, present)
    }
}

impl ReadMemory {
    pub(super) fn write(&mut self, region: RegionIndex, offset: usize, data: &[u8]) {
        let start = self.places[region.index()] + offset;
        self.bytes[start..start + data.len()].copy_from_slice(data);
    }

    pub(super) fn copy(&mut self, from: (RegionIndex, usize), to: (RegionIndex, usize), length: usize) {
        let [from, to] = [from, to].map(|(region, offset)| self.places[region.index()] + offset);
        self.bytes.copy_within(from..from + length, to);
    }
}

/// The part of a file that a call works on, as MPI's file views: a pattern repeated from an offset on.
#[derive(Debug, Clone, Copy)]
pub struct FileView<'a> {
    /// Where the first pattern has its origin in the logical file, in bytes.
    pub origin: u64,
    /// Which bytes belong to the view.
    pub pattern: &'a Pattern,
    /// Bytes of the view to leave out at the beginning.
    pub skipped: u64,
}

type Pieces = (Vec<(u64, u64)>, Vec<usize>);

impl FileView<'_> {
    /// Regions of the file and the places of their bytes in a memory of `room` bytes.
    fn pieces(&self, memory: &Pattern, count: u64, room: u64) -> Result<Pieces, ListError> {
        let memory = Pattern::contiguous(count, memory)?;
        if memory.end() > room {
            return Err(ListError::MemoryTooShort { needed: memory.end(), room });
        }
        let pieces = side_by_side(self.pattern.tiled(self.origin, self.skipped)?, memory.pieces());
        Ok(pieces.map(|(offset, place, length)| ((offset, length), place as usize)).unzip())
    }
}

/// Where each region begins in a memory that has them one behind the other.
fn one_behind_the_other(regions: &[Region], room: u64) -> Result<Vec<usize>, ListError> {
    let mut end = 0_u64;
    let place = |region: &Region| {
        let start = end;
        end = end.checked_add(region.length()).filter(|end| *end <= room)?;
        Some(start as usize)
    };
    let places = regions.iter().map(place).collect::<Option<_>>();
    places.ok_or_else(|| {
        let needed = regions.iter().map(|region| u128::from(region.length())).sum::<u128>();
        ListError::MemoryTooShort { needed: u64::try_from(needed).unwrap_or(u64::MAX), room }
    })
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
