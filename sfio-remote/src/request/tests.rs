//! The whole request path against files in memory: every byte by itself.

use bytes::Bytes;
use fec_transport::overlay::MemberId;
use proptest::prelude::*;

use super::*;
use crate::distribution::{Distribution, StripeUnit};
use crate::name::SubfilePath;
use crate::wire::{Request, RequestId, RequestKind};

/// A logical file and its subfiles, all in memory.
struct Files {
    distribution: Distribution,
    subfiles: Vec<Vec<u8>>,
}

impl Files {
    fn new(unit: u64, subfiles: usize, content: &[u8]) -> Files {
        let unit = StripeUnit::new(unit).expect("in range");
        let distribution = Distribution::new(unit, subfiles).expect("in range");
        let mut files = Files { distribution, subfiles: vec![Vec::new(); subfiles] };
        for (offset, byte) in content.iter().enumerate() {
            let location = distribution.locate(offset as u64);
            files.subfiles[location.subfile.index()].push(*byte);
        }
        files
    }

    fn logical(&self, length: usize) -> Vec<u8> {
        let byte = |offset| {
            let location = self.distribution.locate(offset as u64);
            self.subfiles[location.subfile.index()][location.offset as usize]
        };
        (0..length).map(byte).collect()
    }

    fn accesses(&self, regions: &[crate::distribution::Region]) -> Vec<SubfileAccess> {
        // Several subfiles on one member: the cache must tell them apart.
        let holders: Vec<MemberId> = (0..self.subfiles.len()).map(|i| MemberId(i as u16 / 2)).collect();
        let mut cache = RequestCache::new(self.distribution, &holders);
        cache.insert_all(regions);
        cache.flush()
    }

    /// Carries a list out as transfers of at most `limit` bytes, each gathered in takes of at most `take` bytes.
    fn write(&mut self, list: &WriteList, limit: u64, take: usize) {
        let mut staging = Staging::default();
        for access in self.accesses(list.regions()) {
            let mut next = Cursor::default();
            while let Some(batch) = access.next_batch(&mut next, limit) {
                assert!(batch.runs.payload() <= limit);
                let payload = gathered(&access, list, &batch, take, &mut staging);
                let mut rest = payload.as_slice();
                for extent in batch.runs.runs().flat_map(Run::extents) {
                    let (bytes, behind) = rest.split_at(extent.length() as usize);
                    let file = &mut self.subfiles[access.subfile().index()];
                    file[extent.offset() as usize..extent.end() as usize].copy_from_slice(bytes);
                    rest = behind;
                }
            }
            assert!(access.is_finished(next));
        }
    }

    fn read(&self, list: ReadList, limit: u64, take: usize) -> Vec<Bytes> {
        let accesses = self.accesses(list.regions());
        let mut buffer = ReadBuffer::new(list, 1 << 30).expect("small");
        for access in &accesses {
            let file = &self.subfiles[access.subfile().index()];
            let mut next = Cursor::default();
            while let Some(batch) = access.next_batch(&mut next, limit) {
                let extents = batch.runs.runs().flat_map(Run::extents);
                let payload: Vec<u8> =
                    extents.flat_map(|e| &file[e.offset() as usize..e.end() as usize]).copied().collect();
                let mut cursor = batch.start;
                payload.chunks(take).for_each(|chunk| access.scatter(&mut buffer, &mut cursor, chunk));
                assert_eq!(access.is_finished(cursor), access.is_finished(next));
            }
            access.fill_overlaps(&mut buffer);
        }
        buffer.finish(|region| region.length()).into_vec()
    }
}

fn gathered(
    access: &SubfileAccess,
    list: &WriteList,
    batch: &Batch,
    take: usize,
    staging: &mut Staging,
) -> Vec<u8> {
    let (mut cursor, mut payload) = (batch.start, Vec::new());
    while (payload.len() as u64) < batch.runs.payload() {
        let left = batch.runs.payload() - payload.len() as u64;
        let bytes = gather(access, list, cursor, left, staging);
        // The transport takes less than it is given, now and then.
        let taken = bytes.len().min(take);
        payload.extend_from_slice(&bytes[..taken]);
        access.advance(&mut cursor, taken as u64);
    }
    payload
}

const LENGTH: usize = 6_000;

fn content(seed: usize) -> Vec<u8> {
    (0..LENGTH).map(|i| ((i + seed) * 31 % 255) as u8).collect()
}

fn any_regions() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let length = prop_oneof![Just(0_u64), 1_u64..12, 1_u64..3_000];
    let region =
        (0..LENGTH as u64, length).prop_map(|(offset, length)| (offset, length.min(LENGTH as u64 - offset)));
    let vector = (0_u64..300, 1_u64..8, 8_u64..40, 1_u64..100).prop_map(|(start, length, stride, count)| {
        (0..count).map(|i| (start + i * stride, length)).collect()
    });
    prop_oneof![prop::collection::vec(region, 0..30), vector]
}

proptest! {
    #[test]
    fn a_list_writes_what_its_elements_would_write_one_after_the_other(
        unit in prop_oneof![1_u64..20, 1_u64..3_000], subfiles in 1_usize..=40, regions in any_regions(),
        limit in 1_u64..5_000, take in 1_usize..3_000,
    ) {
        let mut expected = content(0);
        let pieces: Vec<(u64, Bytes)> = regions.iter().enumerate().map(|(index, (offset, length))| {
            let range = *offset as usize..(offset + length) as usize;
            let data = content(7 * index + 1)[range.clone()].to_vec();
            expected[range].copy_from_slice(&data);
            (*offset, data.into())
        }).collect();
        let mut files = Files::new(unit, subfiles, &content(0));
        files.write(&WriteList::new(pieces)?, limit, take);
        prop_assert_eq!(files.logical(LENGTH), expected);
    }

    #[test]
    fn a_list_reads_every_region_whole_even_where_they_overlap(
        unit in prop_oneof![1_u64..20, 1_u64..3_000], subfiles in 1_usize..=40, regions in any_regions(),
        limit in 1_u64..5_000, take in 1_usize..3_000,
    ) {
        let files = Files::new(unit, subfiles, &content(0));
        let read = files.read(ReadList::new(regions.clone())?, limit, take);
        for ((offset, length), bytes) in regions.iter().zip(read) {
            prop_assert_eq!(&bytes, &content(0)[*offset as usize..(offset + length) as usize]);
        }
    }
}

#[test]
fn a_contiguous_region_is_one_request_per_subfile_however_small_the_stripe_unit() {
    let files = Files::new(1, 3, &content(0));
    let list = ReadList::new([(0, LENGTH as u64)]).expect("possible");
    for access in files.accesses(list.regions()) {
        assert_eq!(access.segments_from(Cursor::default()).len(), 1);
        let batch = access.next_batch(&mut Cursor::default(), u64::MAX).expect("one transfer");
        assert_eq!((batch.runs.runs().count(), batch.runs.payload()), (1, LENGTH as u64 / 3));
    }
}

#[test]
fn regions_that_touch_in_the_subfile_travel_as_one_extent() {
    // Every second stripe of two subfiles: far apart in the logical file, side by side in the first subfile.
    let files = Files::new(10, 2, &content(0));
    let list = ReadList::new((0..100).map(|i| (i * 20, 10))).expect("possible");
    let accesses = files.accesses(list.regions());
    assert_eq!(accesses.len(), 1);
    let batch = accesses[0].next_batch(&mut Cursor::default(), u64::MAX).expect("one transfer");
    assert_eq!(batch.runs.runs().collect::<Vec<_>>().len(), 1);
    assert_eq!(batch.runs.payload(), 1_000);
}

/// Bytes of all requests for regions of 8 bytes at the given offsets, over three subfiles of 64 KiB stripes.
fn request_bytes(offsets: impl Iterator<Item = u64>) -> usize {
    let distribution = Distribution::new(StripeUnit::DEFAULT, 3).expect("in range");
    let list = ReadList::new(offsets.map(|offset| (offset, 8))).expect("possible");
    let mut cache = RequestCache::new(distribution, &[MemberId(0), MemberId(1), MemberId(2)]);
    cache.insert_all(list.regions());
    let (mut bytes, path) = (0, SubfilePath::new("some/where/a.dat").expect("a right path"));
    for access in cache.flush() {
        let mut cursor = Cursor::default();
        while let Some(batch) = access.next_batch(&mut cursor, 4 << 20) {
            let kind = RequestKind::Read { path: path.clone(), runs: batch.runs, from_disk: false };
            let id = RequestId { operation: 1, transfer: 1 };
            bytes +=
                Request { id, durable: false, packing: crate::compression::Packing::Raw, kind }.emit().len();
        }
    }
    bytes
}

#[test]
fn a_million_small_regions_are_a_few_bytes_each_on_the_wire() {
    let evenly = request_bytes((0..1_000_000).map(|i| i * 1_000));
    assert!(evenly < 64 << 10, "{evenly} bytes for evenly spaced regions");
    // A multiplicative sequence draws places all over 1 GB.
    let random =
        request_bytes((1..=1_000_000_u64).map(|i| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 1_000_000_000));
    assert!(random < 4 << 20, "{random} bytes for regions at random places");
}

#[test]
fn large_fragments_are_handed_over_where_they_lie() {
    let distribution = Distribution::new(StripeUnit::new(4_096).expect("in range"), 2).expect("in range");
    let data = Bytes::from(vec![7; 20_000]);
    let list = WriteList::new([(0, data.clone())]).expect("possible");
    let mut cache = RequestCache::new(distribution, &[MemberId(0), MemberId(1)]);
    cache.insert_all(list.regions());
    let (accesses, mut staging) = (cache.flush(), Staging::default());
    let bytes = gather(&accesses[1], &list, Cursor::default(), u64::MAX, &mut staging);
    assert!(std::ptr::eq(bytes, &data[4_096..8_192]));
}
