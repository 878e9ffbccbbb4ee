//! Putting together what was read.

use super::action::Answer;
use super::file::Layout;
use super::operation::Part;
use crate::distribution::{Distribution, Region, SubfileIndex};
use crate::io_node::{ERROR_COUNTERS_BYTES, ErrorCounters};
use crate::request::{ReadBuffer, RegionsRead};

/// The bytes of each region, cut at the first byte that the file lacks.
pub(super) fn finish(layout: &Layout, mut buffer: ReadBuffer, parts: &[Part]) -> RegionsRead {
    let mut ends = Vec::new();
    for part in parts {
        if let Some(access) = part.subfile_access() {
            access.fill_overlaps(&mut buffer);
            ends.extend(part.end_of_subfile.map(|end| (access.subfile(), end)));
        }
    }
    buffer.finish(|region| present_length(&layout.distribution, region, &ends))
}

/// How much of `region` is there before the first byte that lies behind the end of its subfile.
fn present_length(distribution: &Distribution, region: Region, ends: &[(SubfileIndex, u64)]) -> u64 {
    let first_missing = |(subfile, end): &(SubfileIndex, u64)| {
        let first_wanted = distribution.subfile_size(*subfile, region.offset());
        distribution.logical_offset(*subfile, first_wanted.max(*end))
    };
    let first_missing = ends.iter().filter_map(first_missing).min().unwrap_or(u64::MAX);
    first_missing.min(region.end()) - region.offset()
}

/// The counters that the only part of an operation brought.
pub(super) fn error_counters(parts: &[Part]) -> Answer {
    let bytes =
        parts.first().and_then(|part| <&[u8; ERROR_COUNTERS_BYTES]>::try_from(&part.payload[..]).ok());
    Answer::ErrorCounters(bytes.map(ErrorCounters::from_bytes).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::distribution::StripeUnit;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_region_is_cut_at_its_first_missing_byte(unit in 1_u64..20, subfiles in 1_usize..9, offset in 0_u64..200,
                                                     length in 0_u64..200, ends in prop::collection::vec(0_u64..80, 9)) {
            let distribution = Distribution::new(StripeUnit::new(unit)?, subfiles)?;
            let ends: Vec<(SubfileIndex, u64)> = distribution.subfiles().zip(ends).collect();
            let is_there = |logical: &u64| {
                let location = distribution.locate(*logical);
                location.offset < ends[location.subfile.index()].1
            };
            let region = Region::new(offset, length)?;
            let expected = (offset..region.end()).take_while(is_there).count() as u64;
            prop_assert_eq!(present_length(&distribution, region, &ends), expected);
        }
    }
}
