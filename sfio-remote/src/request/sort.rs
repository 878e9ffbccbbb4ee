//! Requests in the order of their offsets in the subfile: the paper's *sortcache*.

use super::Segment;

/// Sorts by offset; requests that begin at the same offset stay in the order of the caller's list.
///
/// Costs one pass when they are in order already, as those of ascending regions are.
pub(super) fn sort(requests: &mut [Segment]) {
    requests.sort_unstable_by_key(|request| (request.start, request.region));
}
