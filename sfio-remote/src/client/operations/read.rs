//! Reading regions.

use std::sync::Arc;

use crate::client::error::OperationError;
use crate::client::file::Layout;
use crate::client::files::FileId;
use crate::client::operation::{Operation, Plan, Planning};
use crate::client::stage::{Stage, access_parts};
use crate::compression::Compression;
use crate::distribution::{Distribution, Region, StripeUnit, SubfileIndex};
use crate::name::FileName;
use crate::request::{ReadBuffer, ReadList, RegionsRead};

/// Read regions. The answer has the bytes of each region, in the order of the list; a region that reaches beyond the
/// first byte that the file lacks is cut there.
#[derive(Debug)]
pub struct Read {
    /// The file.
    pub file: FileId,
    /// What to read.
    pub list: ReadList,
}

/// Read regions of a file that need not be open.
#[derive(Debug)]
pub struct ReadUnopened {
    /// Its subfiles.
    pub name: FileName,
    /// The stripe unit that it was written with.
    pub stripe_unit: StripeUnit,
    /// What to read.
    pub list: ReadList,
    /// Whether what the I/O nodes hold in memory does not count: to know what is on their disks.
    pub from_disk: bool,
}

impl Operation for Read {
    type Answer = RegionsRead;

    fn plan(self, planning: &Planning<'_>) -> Result<Plan<RegionsRead>, OperationError> {
        let file = planning.file(self.file)?;
        read(Arc::clone(file.layout()), self.list, (false, file.compression()), planning)
    }

    fn payload_bytes(&self) -> u64 {
        self.list.regions().iter().map(|region| region.length()).sum()
    }
}

impl Operation for ReadUnopened {
    type Answer = RegionsRead;

    fn plan(self, planning: &Planning<'_>) -> Result<Plan<RegionsRead>, OperationError> {
        let layout = planning.layout(self.name, self.stripe_unit)?;
        read(layout, self.list, (self.from_disk, planning.compression()), planning)
    }
}

fn read(
    layout: Arc<Layout>,
    mut list: ReadList,
    (from_disk, compression): (bool, Compression),
    planning: &Planning<'_>,
) -> Result<Plan<RegionsRead>, OperationError> {
    let accesses = list.take_accesses(layout.distribution(), layout.holders());
    let mut parts = access_parts(&layout, accesses, list.is_stripe_by_stripe());
    parts.iter_mut().for_each(|part| part.read_from_disk(from_disk));
    let buffer = ReadBuffer::new(list, planning.read_limit())?;
    let distribution = layout.distribution();
    Ok(Stage::read(parts, buffer).compressing(compression).answers(move |stage| {
        Ok(stage.into_read(|region, ends| present_length(&distribution, region, ends)))
    }))
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
