//! All that one call does to one subfile, and what of it fits into one transfer.

use fec_transport::overlay::MemberId;

use super::{Segment, merge};
use crate::distribution::{Distribution, Extent, SubfileIndex};
use crate::wire::{RunTable, RunTableBuilder};

/// All that one call does to one subfile: disjoint segments in ascending order.
#[derive(Debug, Clone)]
pub struct SubfileAccess {
    member: MemberId,
    subfile: SubfileIndex,
    distribution: Distribution,
    segments: Vec<Segment>,
    /// The requests as they were before overlaps were resolved; empty if there were none.
    overlapping: Vec<Segment>,
}

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
    /// What sorted requests ask of one subfile.
    pub(super) fn new(
        member: MemberId,
        subfile: SubfileIndex,
        distribution: Distribution,
        requests: Vec<Segment>,
    ) -> SubfileAccess {
        let overlapping = if merge::overlap(&requests) { requests.clone() } else { Vec::new() };
        let segments = merge::resolve_overlaps(requests);
        SubfileAccess { member, subfile, distribution, segments, overlapping }
    }

    /// The I/O node that holds the subfile.
    pub fn member(&self) -> MemberId {
        self.member
    }

    /// The subfile.
    pub fn subfile(&self) -> SubfileIndex {
        self.subfile
    }

    /// How the file is dealt out.
    pub fn distribution(&self) -> &Distribution {
        &self.distribution
    }

    /// The number of bytes that travel: each byte once, however many regions want it.
    pub fn bytes(&self) -> u64 {
        self.segments.iter().map(|segment| segment.length).sum()
    }

    /// The offset in the subfile behind the last byte.
    pub fn end(&self) -> u64 {
        self.segments.last().map_or(0, Segment::end)
    }

    /// The disjoint segments from the one on that `cursor` is in, in ascending order.
    pub(super) fn segments_from(&self, cursor: Cursor) -> &[Segment] {
        self.segments.get(cursor.segment..).unwrap_or_default()
    }

    /// The requests as they were before overlaps were resolved; empty if there were none.
    pub(super) fn overlapping(&self) -> &[Segment] {
        &self.overlapping
    }

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

    /// Where in the access the byte at `offset` of the subfile is; if it has none there, the first one behind.
    pub(crate) fn cursor_at(&self, offset: u64) -> Cursor {
        let segment = self.segments.partition_point(|segment| segment.end() <= offset);
        let within = self.segments.get(segment).map_or(0, |segment| offset.saturating_sub(segment.start));
        Cursor { segment, within }
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
        let rest = self.segments_from(cursor);
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
