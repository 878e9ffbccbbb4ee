//! What is measured: access patterns, as the calls that they are made of.

use bytes::Bytes;
use sfio_remote::request::{RegionsRead, WriteList};

/// An access pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Pattern {
    /// The whole file from its beginning to its end
    Contiguous,
    /// Records of 47,008 bytes that four writers take in turns, as IO500's hard case has it
    Strided,
    /// Records of 64 KiB in random order
    Random,
    /// A matrix of rows of 8 KiB, tile by tile of 1 KiB by 1,024 rows
    Tile,
    /// Regions of 8 bytes, 1,000 bytes apart; at most a million
    Small,
    /// Regions of 8 bytes at random places in 1 GB, in random order; at most a million
    Scattered,
    /// The whole file, in the caller's memory cut into fragments of 1 byte to 64 KiB
    Fragments,
}

/// A pattern with its number, if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Variant {
    pub(crate) pattern: Pattern,
    /// The size of the fragments in bytes.
    pub(crate) fragment: Option<u64>,
}

/// One call: regions of the file, each with its place in the data.
#[derive(Debug)]
pub(crate) struct Call {
    regions: Vec<(u64, u64)>,
    places: Places,
}

/// Where the bytes of a call's regions are in the data.
#[derive(Debug)]
enum Places {
    /// Where they go in the file.
    AsInTheFile,
    /// One behind the other, from there on.
    Packed(u64),
}

/// Bytes of one call.
const CALL_BYTES: u64 = 8 << 20;

/// The record of IO500's ior-hard.
const RECORD: u64 = 47_008;

/// How many writers take turns with the records.
const WRITERS: u64 = 4;

const SMALL_REGIONS: u64 = 1_000_000;
const SCATTERED_OVER: u64 = 1_000_000_000;
const FRAGMENTS_PER_CALL: u64 = 1 << 18;

impl Pattern {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Pattern::Contiguous => "contiguous",
            Pattern::Strided => "strided 47008",
            Pattern::Random => "random 64 KiB",
            Pattern::Tile => "tile",
            Pattern::Small => "8 B every 1000",
            Pattern::Scattered => "8 B anywhere",
            Pattern::Fragments => "fragments",
        }
    }

    /// The pattern with each of its numbers.
    pub(crate) fn variants(self) -> Vec<Variant> {
        let variant = |fragment| Variant { pattern: self, fragment };
        match self {
            Pattern::Fragments => (0..=16).step_by(2).map(|power| variant(Some(1 << power))).collect(),
            _ => vec![variant(None)],
        }
    }
}

impl Variant {
    pub(crate) fn name(self) -> String {
        match self.fragment {
            Some(bytes) => format!("{} of {bytes}", self.pattern.name()),
            None => self.pattern.name().to_owned(),
        }
    }

    /// The bytes of its calls.
    pub(crate) fn bytes(self, size: u64) -> u64 {
        self.calls(size).iter().map(Call::bytes).sum()
    }

    /// The calls that write or read about `size` bytes.
    pub(crate) fn calls(self, size: u64) -> Vec<Call> {
        let in_file = |regions: Vec<(u64, u64)>| Call { regions, places: Places::AsInTheFile };
        match self.pattern {
            Pattern::Contiguous => cut(0, size, CALL_BYTES).map(|region| in_file(vec![region])).collect(),
            Pattern::Strided => {
                let records: Vec<_> = cut(0, size, RECORD).collect();
                let of = |writer| records.iter().copied().skip(writer).step_by(WRITERS as usize);
                let lists: Vec<Vec<_>> = (0..WRITERS as usize).map(|writer| of(writer).collect()).collect();
                in_turns(lists.iter().map(|list| batches(list, RECORD).map(in_file).collect()).collect())
            }
            Pattern::Random => {
                let mut records: Vec<_> = cut(0, size, 64 << 10).collect();
                shuffle(&mut records);
                batches(&records, 64 << 10).map(in_file).collect()
            }
            Pattern::Tile => tiles(size).into_iter().map(in_file).collect(),
            Pattern::Small => {
                let count = (size / 8).min(SMALL_REGIONS);
                let regions = (0..count).map(|i| (i * 1_000, 8)).collect();
                vec![Call { regions, places: Places::Packed(0) }]
            }
            Pattern::Scattered => {
                let regions = scattered((size / 8).min(SMALL_REGIONS));
                vec![Call { regions, places: Places::Packed(0) }]
            }
            Pattern::Fragments => {
                let fragment = self.fragment.unwrap_or(1);
                let per_call = (FRAGMENTS_PER_CALL * fragment).min(CALL_BYTES);
                let size = size.min(per_call * 16);
                cut(0, size, per_call)
                    .map(|(start, length)| in_file(cut(start, length, fragment).collect()))
                    .collect()
            }
        }
    }
}

impl Call {
    pub(crate) fn regions(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.regions.iter().copied()
    }

    pub(crate) fn bytes(&self) -> u64 {
        self.regions.iter().map(|(_, length)| length).sum()
    }

    /// Each region's offset in the file, and its bytes in the data.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = (u64, std::ops::Range<usize>)> + '_ {
        let mut packed = match self.places {
            Places::Packed(start) => Some(start),
            Places::AsInTheFile => None,
        };
        self.regions.iter().map(move |(offset, length)| {
            let start = packed.unwrap_or(*offset);
            packed = packed.map(|place| place + length);
            (*offset, start as usize..(start + length) as usize)
        })
    }

    pub(crate) fn write(&self, data: &Bytes) -> WriteList {
        let list = match self.places {
            Places::Packed(start) => WriteList::packed(self.regions(), data.slice(start as usize..)),
            Places::AsInTheFile => WriteList::new(self.pieces().map(|(at, range)| (at, data.slice(range)))),
        };
        list.expect("offsets far below the limit")
    }

    pub(crate) fn is_in(&self, read: &RegionsRead, data: &Bytes) -> bool {
        self.pieces().zip(read.iter()).all(|((_, range), bytes)| data[range] == *bytes)
    }
}

/// Bytes that do not shrink, the same ones each time.
pub(crate) fn bytes_that_do_not_shrink(size: u64) -> Bytes {
    let mut bytes = vec![0; size as usize];
    blake3::Hasher::new().finalize_xof().fill(&mut bytes);
    bytes.into()
}

/// `length` bytes from `start` on, in pieces of `piece` bytes.
fn cut(start: u64, length: u64, piece: u64) -> impl Iterator<Item = (u64, u64)> {
    let end = start + length;
    (start..end).step_by(piece as usize).map(move |at| (at, piece.min(end - at)))
}

/// As many regions of `each` bytes together as make a call.
fn batches(regions: &[(u64, u64)], each: u64) -> impl Iterator<Item = Vec<(u64, u64)>> + '_ {
    regions.chunks((CALL_BYTES / each).max(1) as usize).map(<[_]>::to_vec)
}

/// The first of each list, the second of each, and so on.
fn in_turns<T>(lists: Vec<Vec<T>>) -> Vec<T> {
    let mut iterators: Vec<_> = lists.into_iter().map(Vec::into_iter).collect();
    let mut all = Vec::new();
    loop {
        let before = all.len();
        all.extend(iterators.iter_mut().filter_map(Iterator::next));
        if all.len() == before {
            return all;
        }
    }
}

/// Tiles of 1 KiB by 1,024 rows, of a matrix with rows of 8 KiB.
fn tiles(size: u64) -> Vec<Vec<(u64, u64)>> {
    const ROW: u64 = 8 << 10;
    const WIDTH: u64 = 1 << 10;
    const HEIGHT: u64 = 1 << 10;
    let rows = size / ROW;
    let bands = (0..rows).step_by(HEIGHT as usize);
    bands
        .flat_map(|band| (0..ROW / WIDTH).map(move |column| (band, column * WIDTH)))
        .map(|(band, column)| {
            (band..(band + HEIGHT).min(rows)).map(|row| (row * ROW + column, WIDTH)).collect()
        })
        .collect()
}

/// Disjoint regions of 8 bytes at random places, in random order.
fn scattered(count: u64) -> Vec<(u64, u64)> {
    let (mut dice, mut places) = (Dice(2), Vec::new());
    while (places.len() as u64) < count {
        let missing = count - places.len() as u64;
        places.extend((0..missing).map(|_| dice.below(SCATTERED_OVER - 8)));
        places.sort_unstable();
        places.dedup_by(|next, before| *next < *before + 8);
    }
    let mut regions: Vec<_> = places.into_iter().map(|place| (place, 8)).collect();
    shuffle(&mut regions);
    regions
}

/// Shuffles the items, into the same order each time.
fn shuffle<T>(items: &mut [T]) {
    let mut dice = Dice(1);
    (1..items.len()).rev().for_each(|index| items.swap(index, dice.below(index as u64 + 1) as usize));
}

/// A linear congruential generator, which gives the same numbers each time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_pattern_covers_its_bytes_once() {
        let size = (3 << 20) + 12_345;
        for pattern in [Pattern::Contiguous, Pattern::Strided, Pattern::Random, Pattern::Fragments] {
            for variant in pattern.variants() {
                let calls = variant.calls(size);
                let mut regions: Vec<_> = calls.iter().flat_map(Call::regions).collect();
                regions.sort_unstable();
                let joined = regions.windows(2).all(|pair| pair[0].0 + pair[0].1 == pair[1].0);
                assert!(joined && regions[0].0 == 0, "{variant:?}");
            }
        }
        let mut places = scattered(10_000);
        assert!(places.windows(2).any(|pair| pair[0].0 > pair[1].0), "in random order");
        places.sort_unstable();
        assert!(places.len() == 10_000 && places.windows(2).all(|pair| pair[0].0 + 8 <= pair[1].0));
        let tiles = Variant { pattern: Pattern::Tile, fragment: None }.calls(32 << 20);
        assert_eq!(tiles.iter().map(Call::bytes).sum::<u64>(), 32 << 20);
        let small = Variant { pattern: Pattern::Small, fragment: None }.calls(64 << 20);
        assert_eq!((small.len(), small[0].bytes()), (1, 8_000_000));
    }
}
