//! What fits into one transfer.

use super::{Segment, SubfileAccess, merge};
use crate::distribution::Extent;
use crate::wire::{RunTable, RunTableBuilder};

/// A position in what an access transfers: the bytes of its segments, one behind the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Cursor {
    pub(super) segment: usize,
    pub(super) within: u64,
}

/// What one transfer carries of an access.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Batch {
    /// Where in the access it begins.
    pub start: Cursor,
    /// Its extents in the subfile.
    pub runs: RunTable,
}

impl SubfileAccess {
    /// The next transfer of at most `limit` bytes from `cursor` on, which moves behind it; none at the end.
    ///
    /// It is shorter when its run table is full: no list is too fragmented, it only takes more transfers.
    pub fn next_batch(&self, cursor: &mut Cursor, limit: u64) -> Option<Batch> {
        let start = *cursor;
        let mut builder = RunTableBuilder::default();
        let mut room = limit.max(1);
        for extent in self.extents_from(start) {
            if room == 0 || !builder.has_room() {
                break;
            }
            let length = extent.length().min(room);
            builder.push(Extent::between(extent.offset(), extent.offset() + length));
            room -= length;
        }
        let runs = builder.finish()?;
        self.advance(cursor, runs.payload());
        Some(Batch { start, runs })
    }

    /// How many bytes from `cursor` on belong to one stripe.
    pub(crate) fn stripe_rest(&self, cursor: Cursor) -> u64 {
        let unit = self.distribution().stripe_unit().bytes();
        let segment = self.segments.get(cursor.segment);
        segment.map_or(unit, |segment| unit - (segment.start + cursor.within) % unit)
    }

    /// Whether `cursor` is at the end.
    pub fn is_finished(&self, cursor: Cursor) -> bool {
        cursor.segment >= self.segments.len()
    }

    /// The offset in the subfile of the byte `distance` bytes behind `start`; the end of the access if there is none.
    pub fn offset_at(&self, start: Cursor, distance: u64) -> u64 {
        let mut cursor = start;
        self.advance(&mut cursor, distance);
        self.segments.get(cursor.segment).map_or(self.end(), |segment| segment.start + cursor.within)
    }

    /// Moves `cursor` over `bytes` bytes.
    pub(crate) fn advance(&self, cursor: &mut Cursor, bytes: u64) {
        cursor.within += bytes;
        while let Some(segment) = self.segments.get(cursor.segment) {
            if cursor.within < segment.length {
                return;
            }
            cursor.within -= segment.length;
            cursor.segment += 1;
        }
    }

    /// The maximal extents from `cursor` on.
    fn extents_from(&self, cursor: Cursor) -> impl Iterator<Item = Extent> + '_ {
        let rest = self.segments.get(cursor.segment..).unwrap_or_default();
        let cut = move |(index, extent): (usize, Extent)| {
            let start = if index == 0 { rest[0].start + cursor.within } else { extent.offset() };
            Extent::between(start, extent.end())
        };
        merge::extents(rest).enumerate().map(cut)
    }
}

/// The part of `segment` that lies behind its first `within` bytes.
pub(super) fn rest_of(segment: &Segment, within: u64) -> Extent {
    Extent::between(segment.start + within, segment.end())
}
