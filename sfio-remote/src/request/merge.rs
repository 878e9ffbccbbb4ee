//! Overlapping and touching requests joined: the paper's *bkmerge*.

use std::collections::BinaryHeap;

use super::{RegionIndex, Segment};
use crate::distribution::Extent;

/// Sorted requests made disjoint: where several overlap, the one that stands last in the caller's list wins, so that a
/// later element of a list overwrites an earlier one, as separate calls would.
///
/// Costs one pass where nothing overlaps, else O(n log n).
pub(super) fn resolve_overlaps(sorted: Vec<Segment>) -> Vec<Segment> {
    if !overlap(&sorted) {
        return sorted;
    }
    let mut disjoint = Vec::with_capacity(sorted.len());
    // The requests that cover the current offset, the winner on top.
    let mut open: BinaryHeap<(RegionIndex, u64)> = BinaryHeap::new();
    let mut waiting = sorted.into_iter().peekable();
    let mut offset = 0;
    loop {
        if open.is_empty() {
            let Some(next) = waiting.peek() else { return disjoint };
            offset = next.start;
        }
        while let Some(begun) = waiting.next_if(|request| request.start <= offset) {
            open.push((begun.region, begun.end()));
        }
        while open.peek().is_some_and(|(_, end)| *end <= offset) {
            open.pop();
        }
        if let Some((region, end)) = open.peek().copied() {
            let until = waiting.peek().map_or(end, |next| next.start.min(end));
            append(&mut disjoint, Segment::between(offset, until, region));
            offset = until;
        }
    }
}

/// Disjoint, ascending requests as maximal extents: those that touch are joined.
pub(super) fn extents(disjoint: &[Segment]) -> impl Iterator<Item = Extent> + '_ {
    disjoint.chunk_by(|one, next| one.end() == next.start).map(|touching| {
        let last = &touching[touching.len() - 1];
        Extent::between(touching[0].start, last.end())
    })
}

pub(super) fn overlap(sorted: &[Segment]) -> bool {
    sorted.windows(2).any(|pair| pair[1].start < pair[0].end())
}

fn append(disjoint: &mut Vec<Segment>, segment: Segment) {
    match disjoint.last_mut() {
        Some(last) if last.region == segment.region && last.end() == segment.start => {
            last.length += segment.length;
        }
        _ => disjoint.push(segment),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_later_request_owns_every_byte_that_several_want(ranges in prop::collection::vec((0_u64..60, 1_u64..20), 1..20)) {
            let mut owners = vec![None; 80];
            let mut requests = Vec::new();
            for (index, (start, length)) in ranges.into_iter().enumerate() {
                let region = RegionIndex(index as u32);
                requests.push(Segment { start, length, region });
                owners[start as usize..(start + length) as usize].fill(Some(region));
            }
            super::super::sort::sort(&mut requests);
            let disjoint = resolve_overlaps(requests);
            prop_assert!(!overlap(&disjoint));
            let mut resolved = vec![None; 80];
            for segment in &disjoint {
                prop_assert!(segment.length > 0);
                resolved[segment.start as usize..segment.end() as usize].fill(Some(segment.region));
            }
            prop_assert_eq!(&resolved, &owners);
            let joined: Vec<Extent> = extents(&disjoint).collect();
            prop_assert!(joined.windows(2).all(|pair| pair[0].end() < pair[1].offset()));
            let covered: u64 = joined.iter().map(|extent| extent.length()).sum();
            prop_assert_eq!(covered, owners.iter().flatten().count() as u64);
        }
    }

    #[test]
    fn requests_that_only_touch_are_left_alone_and_become_one_extent() {
        let requests: Vec<Segment> = (0..4)
            .map(|i| Segment { start: u64::from(i) * 5, length: 5, region: RegionIndex(3 - i) })
            .collect();
        let disjoint = resolve_overlaps(requests.clone());
        assert_eq!(disjoint, requests);
        assert_eq!(extents(&disjoint).collect::<Vec<_>>(), [Extent::between(0, 20)]);
    }
}
