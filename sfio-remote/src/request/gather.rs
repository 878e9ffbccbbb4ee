//! The caller's fragmented memory as one stream, and back: the paper's *mkbset*, which made an MPI datatype for this.

use bytes::{Bytes, BytesMut};

use super::access::rest_of;
use super::{Cursor, ReadBuffer, RegionIndex, Segment, SubfileAccess, WriteList};
use crate::distribution::{Extent, Fragments, Region};

/// A fragment of at least this size is handed to the transport where it lies; smaller ones are copied together first.
/// Below about 1 KiB the copy is cheaper than a call for each piece. `[theory §4]`
pub const DIRECT_BYTES: usize = 1 << 10;

/// The most bytes that are copied together before the transport gets them.
pub const STAGING_BYTES: usize = 64 << 10;

/// Memory for small fragments on their way to the transport; one for all transfers.
#[derive(Debug, Default)]
pub struct Staging(Vec<u8>);

/// The next bytes of what `access` writes, from `cursor` on and at most `limit`; empty only at the end.
///
/// Either a fragment where it lies in the caller's memory, or several small ones in `staging`.
pub fn gather<'a>(
    access: &SubfileAccess,
    list: &'a WriteList,
    cursor: Cursor,
    limit: u64,
    staging: &'a mut Staging,
) -> &'a [u8] {
    let staged = &mut staging.0;
    staged.clear();
    for piece in access.pieces(list.regions(), cursor, limit) {
        let bytes = &list.data(piece.region)[piece.offset..piece.offset + piece.length];
        if bytes.len() >= DIRECT_BYTES && staged.is_empty() {
            return bytes;
        }
        if bytes.len() >= DIRECT_BYTES || staged.len() + bytes.len() > STAGING_BYTES {
            break;
        }
        staged.extend_from_slice(bytes);
    }
    staged
}

/// The next `limit` bytes of what `access` writes, from `cursor` on: large fragments as they lie in the caller's
/// memory, runs of small ones copied together.
pub fn collect(access: &SubfileAccess, list: &WriteList, cursor: Cursor, limit: u64) -> Vec<Bytes> {
    let (mut pieces, mut small) = (Vec::new(), BytesMut::new());
    for piece in access.pieces(list.regions(), cursor, limit) {
        let bytes = piece.offset..piece.offset + piece.length;
        if piece.length < DIRECT_BYTES {
            small.extend_from_slice(&list.data(piece.region)[bytes]);
            continue;
        }
        if !small.is_empty() {
            pieces.push(small.split().freeze());
        }
        pieces.push(list.bytes(piece.region, bytes));
    }
    if !small.is_empty() {
        pieces.push(small.freeze());
    }
    pieces
}

/// A contiguous piece of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Piece {
    region: RegionIndex,
    /// Where it begins in the region, in bytes.
    offset: usize,
    length: usize,
}

impl SubfileAccess {
    /// Puts bytes that arrived into the regions of the caller's list; `cursor` moves over them.
    ///
    /// Bytes behind the end of the access are ignored.
    pub fn scatter(&self, buffer: &mut ReadBuffer, cursor: &mut Cursor, arrived: &[u8]) {
        let ReadBuffer { regions, memory } = buffer;
        let mut rest = arrived;
        for piece in self.pieces(regions, *cursor, arrived.len() as u64) {
            let (bytes, behind) = rest.split_at(piece.length);
            memory.write(piece.region, piece.offset, bytes);
            rest = behind;
        }
        self.advance(cursor, (arrived.len() - rest.len()) as u64);
    }

    /// Copies bytes that several regions want from the one that received them to the others.
    pub fn fill_overlaps(&self, buffer: &mut ReadBuffer) {
        let ReadBuffer { regions, memory } = buffer;
        let segments = self.segments_from(Cursor::default());
        for wanted in self.overlapping() {
            let first = segments.partition_point(|segment| segment.end() <= wanted.start);
            let covering = segments[first..].iter().take_while(|segment| segment.start < wanted.end());
            for holder in covering.filter(|segment| segment.region != wanted.region) {
                let shared = Extent::between(wanted.start.max(holder.start), wanted.end().min(holder.end()));
                // Both are cut at the same stripes, so their pieces correspond.
                let pieces = |region| {
                    MemoryOf::new(self, regions, &Segment::between(shared.offset(), shared.end(), region), 0)
                };
                for (from, to) in pieces(holder.region).zip(pieces(wanted.region)) {
                    memory.copy((from.region, from.offset), (to.region, to.offset), from.length);
                }
            }
        }
    }

    /// The pieces of memory for the next `limit` bytes from `cursor` on.
    fn pieces<'a>(&'a self, regions: &'a [Region], cursor: Cursor, limit: u64) -> Pieces<'a> {
        let segments = self.segments_from(cursor);
        Pieces { access: self, regions, segments, within: cursor.within, current: None, limit }
    }
}

/// The pieces of memory that belong to one segment.
struct MemoryOf {
    region: RegionIndex,
    /// Where the region begins in the logical file.
    region_offset: u64,
    fragments: Fragments,
}

impl MemoryOf {
    fn new(access: &SubfileAccess, regions: &[Region], segment: &Segment, within: u64) -> MemoryOf {
        MemoryOf {
            region: segment.region,
            region_offset: regions[segment.region.index()].offset(),
            fragments: access.distribution().fragments(access.subfile(), rest_of(segment, within)),
        }
    }
}

impl Iterator for MemoryOf {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        let fragment = self.fragments.next()?;
        // A region lies in memory, so that its offsets and lengths fit.
        let offset = (fragment.logical_offset - self.region_offset) as usize;
        Some(Piece { region: self.region, offset, length: fragment.length as usize })
    }
}

/// The pieces of memory that belong to consecutive segments, up to a number of bytes.
struct Pieces<'a> {
    access: &'a SubfileAccess,
    regions: &'a [Region],
    segments: &'a [Segment],
    within: u64,
    current: Option<MemoryOf>,
    limit: u64,
}

impl Iterator for Pieces<'_> {
    type Item = Piece;

    #[inline]
    fn next(&mut self) -> Option<Piece> {
        if self.limit == 0 {
            return None;
        }
        let piece = loop {
            if let Some(piece) = self.current.as_mut().and_then(MemoryOf::next) {
                break piece;
            }
            let (segment, rest) = self.segments.split_first()?;
            self.current = Some(MemoryOf::new(self.access, self.regions, segment, self.within));
            (self.segments, self.within) = (rest, 0);
        };
        let length = piece.length.min(usize::try_from(self.limit).unwrap_or(usize::MAX));
        self.limit -= length as u64;
        Some(Piece { length, ..piece })
    }
}
