//! Checksums beside a subfile: what `sfio put` stores, and `sfio get` compares with.
//!
//! The sums of subfile `a/x` are the subfile `a/.x.sfio-sums` on the same I/O node. They are a subfile like any other,
//! but for one thing: before anything changes or removes `a/x`, its I/O node removes them, durably; and when `a/x` gets
//! another path, they follow. So sums that are there are those of the bytes that were stored, whatever crashed when:
//! docs/decisions/checksums.md.
//!
//! ```text
//!  0               1               2               3
//! ┌───────────────┬───────────────┬───────────────┬───────────────┐
//! │      'S'      │      'F'      │      'I'      │      'O'      │  0
//! ├───────────────┼───────────────┼───────────────┼───────────────┤
//! │      'S'      │      'U'      │      'M'      │    version    │  4
//! ├───────────────┴───────────────┴───────────────┴───────────────┤
//! │              length of the subfile (64 bits)                  │  8
//! ├───────────────────────────────────────────────────────────────┤
//! │     the put that stored it (128 bits, drawn for each put)     │ 16
//! ├───────────────────────────────────────────────────────────────┤
//! │                   stripe unit, in bytes (64 bits)             │ 32
//! ├───────────────────────────────┬───────────────────────────────┤
//! │ which subfile it is (32 bits) │ of how many (32 bits)         │ 40
//! ├───────────────────────────────┴───────────────────────────────┤
//! │ the blocks, one for each 1023 chunks; the last may be shorter │ 48
//! └───────────────────────────────────────────────────────────────┘
//! each block:
//! ┌───────────────────────────────────────────────────────────────┐
//! │ BLAKE3 of each chunk of 64 KiB of the subfile, 32 bytes each; │
//! │ the last chunk may be shorter                                 │
//! ├───────────────────────────────────────────────────────────────┤
//! │ BLAKE3 of the 48 bytes above, of the block's number (64 bits) │
//! │ and of its sums                                               │
//! └───────────────────────────────────────────────────────────────┘
//! ```
//!
//! A block says by itself whether it is damaged, so that a reader holds one of 32 KiB at a time, however long the
//! subfile is. An empty subfile has one block without sums. The subfiles of a file, and the blocks of a subfile, have
//! their put in common: a reader is not given half of one file and half of another one that has replaced it meanwhile.
//! It is not given the bytes in another order than they were stored in either.

use std::ops::Range;

use crate::dataset::Territory;
use crate::name::{MAX_NAME_BYTES, SubfilePath};

/// The bytes of a subfile that one sum is of; the last chunk may be shorter.
pub const CHUNK_BYTES: usize = 64 << 10;

const MAGIC: &[u8; 8] = b"SFIOSUM\x02";
/// Bytes before the first block.
pub const HEADER_BYTES: usize = 48;
const SUM_BYTES: usize = blake3::OUT_LEN;

/// A block is 32 KiB long.
const BLOCK_SUMS: u64 = 1_023;

const SUFFIX: &str = ".sfio-sums";

type Sum = [u8; SUM_BYTES];

/// Which put has stored a file. No two have the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PutId(pub [u8; 16]);

/// What a subfile is a part of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin {
    /// The put that has stored it.
    pub put: PutId,
    /// Where it is in the file.
    pub place: Place,
}

/// Where a subfile is in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The stripe unit in bytes.
    pub stripe_unit: u64,
    /// Its place in the order of striping, from 0 on.
    pub subfile: u32,
    /// How many subfiles the file has.
    pub subfiles: u32,
}

/// Where the sums of a subfile are; none if its name leaves no room for theirs, if it is itself the place of sums, or
/// if it is a data set's file, whose manifests have sums of their own.
pub fn beside(path: &SubfilePath) -> Option<SubfilePath> {
    let (folder, name) = split(path);
    let has_room = 1 + name.len() + SUFFIX.len() <= MAX_NAME_BYTES;
    if !has_room || is_place_of_sums(name) || Territory::of(path) != Territory::Free {
        return None;
    }
    SubfilePath::new(&format!("{folder}.{name}{SUFFIX}")).ok()
}

/// The subfile whose sums are at `path`; none if that is no place of sums.
pub fn subfile_of(path: &SubfilePath) -> Option<SubfilePath> {
    let (folder, name) = split(path);
    let name = name.strip_prefix('.')?.strip_suffix(SUFFIX)?;
    let subfile = SubfilePath::new(&format!("{folder}{name}")).ok()?;
    (beside(&subfile).as_ref() == Some(path)).then_some(subfile)
}

fn is_place_of_sums(name: &str) -> bool {
    name.starts_with('.') && name.ends_with(SUFFIX)
}

/// The folder with its slash, and the name in it.
fn split(path: &SubfilePath) -> (&str, &str) {
    let text = path.as_str();
    text.split_at(text.rfind('/').map_or(0, |slash| slash + 1))
}

/// What is wrong with bytes that should be sums.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SumsError {
    /// They are of another format, or of a newer version of it.
    #[error("what lies beside it are no checksums of version 2; put it again, or get it with --no-check")]
    Format,
    /// They are of a subfile of another length.
    #[error(
        "it has {found} bytes, but its checksums are of {summed}: it was changed behind the back of its I/O node"
    )]
    OtherLength {
        /// How long the subfile is.
        found: u64,
        /// How long the one was that the sums are of.
        summed: u64,
    },
    /// They are damaged themselves.
    #[error("the checksums themselves are damaged")]
    Damaged,
}

/// The length of the sums of a subfile of `length` bytes, in bytes.
pub fn encoded_length(length: u64) -> u64 {
    HEADER_BYTES as u64 + (chunk_count(length) + block_count(length)) * SUM_BYTES as u64
}

fn chunk_count(length: u64) -> u64 {
    length.div_ceil(CHUNK_BYTES as u64)
}

fn block_count(length: u64) -> u64 {
    chunk_count(length).div_ceil(BLOCK_SUMS).max(1)
}

/// What the sums of a subfile begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Header {
    length: u64,
    origin: Origin,
}

impl Header {
    fn emit(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[..8].copy_from_slice(MAGIC);
        header[8..16].copy_from_slice(&self.length.to_be_bytes());
        let Origin { put, place: Place { stripe_unit, subfile, subfiles } } = self.origin;
        header[16..32].copy_from_slice(&put.0);
        header[32..40].copy_from_slice(&stripe_unit.to_be_bytes());
        header[40..44].copy_from_slice(&subfile.to_be_bytes());
        header[44..].copy_from_slice(&subfiles.to_be_bytes());
        header
    }

    fn parse(header: &[u8; HEADER_BYTES]) -> Option<Header> {
        let (length, rest) = header.strip_prefix(MAGIC)?.split_first_chunk()?;
        let (put, rest) = rest.split_first_chunk()?;
        let (stripe_unit, rest) = rest.split_first_chunk()?;
        let (subfile, subfiles) = rest.split_first_chunk()?;
        let place = Place {
            stripe_unit: u64::from_be_bytes(*stripe_unit),
            subfile: u32::from_be_bytes(*subfile),
            subfiles: u32::from_be_bytes(subfiles.try_into().ok()?),
        };
        Some(Header { length: u64::from_be_bytes(*length), origin: Origin { put: PutId(*put), place } })
    }

    /// The last sum of a block.
    fn sum_of_block(&self, number: u64, sums: &[u8]) -> Sum {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.emit()).update(&number.to_be_bytes()).update(sums);
        *hasher.finalize().as_bytes()
    }
}

/// What the subfile is a part of whose sums begin like this; none if they are no sums.
pub fn origin_of(sums: &[u8]) -> Option<Origin> {
    Header::parse(sums.first_chunk()?).map(|header| header.origin)
}

/// Cuts the bytes of a subfile, which come in order, into chunks, and sums these.
#[derive(Debug, Default)]
struct Chunks {
    /// How many bytes came in all.
    length: u64,
    /// Those of the chunk that has begun.
    begun: Vec<u8>,
}

impl Chunks {
    /// Calls `take` with the sum of each chunk that ends within `bytes`.
    fn push(&mut self, mut bytes: &[u8], mut take: impl FnMut(Sum)) {
        self.length += bytes.len() as u64;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK_BYTES - self.begun.len()));
            // A whole chunk that lies in one piece is not copied.
            if now.len() == CHUNK_BYTES {
                take(*blake3::hash(now).as_bytes());
            } else {
                self.begun.extend_from_slice(now);
                if self.begun.len() == CHUNK_BYTES {
                    take(self.end());
                }
            }
            bytes = later;
        }
    }

    /// The sum of the last chunk, if it is shorter.
    fn finish(&mut self) -> Option<Sum> {
        (!self.begun.is_empty()).then(|| self.end())
    }

    fn end(&mut self) -> Sum {
        let sum = *blake3::hash(&self.begun).as_bytes();
        self.begun.clear();
        sum
    }
}

/// Takes the bytes of a subfile in order and makes their sums, which take a 2,048th of their memory.
#[derive(Debug)]
pub struct Summing {
    origin: Origin,
    chunks: Chunks,
    sums: Vec<Sum>,
}

impl Summing {
    /// Of a subfile that is such a part.
    pub fn new(origin: Origin) -> Summing {
        Summing { origin, chunks: Chunks::default(), sums: Vec::new() }
    }

    /// The next bytes of the subfile.
    pub fn push(&mut self, bytes: &[u8]) {
        let Summing { chunks, sums, .. } = self;
        chunks.push(bytes, |sum| sums.push(sum));
    }

    /// The subfile ends here: gives the bytes that stand for its sums.
    pub fn finish(mut self) -> Vec<u8> {
        self.sums.extend(self.chunks.finish());
        let (length, mut sums) = (self.chunks.length, self.sums.as_flattened());
        let header = Header { length, origin: self.origin };
        let mut bytes = Vec::with_capacity(encoded_length(length) as usize);
        bytes.extend(header.emit());
        for number in 0..block_count(length) {
            let (block, later) = sums.split_at(sums.len().min(BLOCK_SUMS as usize * SUM_BYTES));
            bytes.extend_from_slice(block);
            bytes.extend(header.sum_of_block(number, block));
            sums = later;
        }
        bytes
    }
}

/// Takes the bytes of a subfile in order and compares them with its sums, which it is given block by block.
///
/// ```text
/// loop { fetch next_block() ─▶ supply ─▶ push up to room() bytes of the subfile } ─▶ finish
/// ```
#[derive(Debug)]
pub struct Checking {
    /// How long the subfile is.
    length: u64,
    /// What it is a part of, once that is known.
    origin: Option<Origin>,
    chunks: Chunks,
    /// How many blocks it was given.
    blocks: u64,
    /// The sums of the newest block.
    sums: Vec<Sum>,
}

impl Checking {
    /// Compares a subfile of `length` bytes.
    pub fn new(length: u64) -> Checking {
        Checking { length, origin: None, chunks: Chunks::default(), blocks: 0, sums: Vec::new() }
    }

    /// Where the next block is among the bytes of the sums; none if it has all.
    pub fn next_block(&self) -> Option<Range<u64>> {
        Checking::block(self.length, self.blocks)
    }

    /// Where the block of that number is among the bytes of the sums of a subfile of `length` bytes; the first one
    /// comes with the header before it. None if there is no such block.
    pub fn block(length: u64, number: u64) -> Option<Range<u64>> {
        let end = |number: u64| {
            let sums = (number * BLOCK_SUMS).min(chunk_count(length)) + number;
            HEADER_BYTES as u64 + sums * SUM_BYTES as u64
        };
        let start = if number == 0 { 0 } else { end(number) };
        (number < block_count(length)).then(|| start..end(number + 1))
    }

    /// The next block; all bytes that it was asked for, or as many as there are.
    ///
    /// # Errors
    /// If it cannot be believed.
    pub fn supply(&mut self, bytes: &[u8]) -> Result<(), SumsError> {
        let expected = self.next_block().map_or(0, |range| range.end - range.start);
        let (header, block) = match self.origin {
            Some(origin) => (Header { length: self.length, origin }, bytes),
            None => self.begin(bytes)?,
        };
        let (sums, sum) = block.split_last_chunk::<SUM_BYTES>().ok_or(SumsError::Damaged)?;
        if bytes.len() as u64 != expected || header.sum_of_block(self.blocks, sums) != *sum {
            return Err(SumsError::Damaged);
        }
        self.origin = Some(header.origin);
        self.sums = sums.as_chunks::<SUM_BYTES>().0.to_vec();
        self.blocks += 1;
        Ok(())
    }

    /// What the header says, and the block behind it.
    fn begin<'a>(&self, bytes: &'a [u8]) -> Result<(Header, &'a [u8]), SumsError> {
        let (header, block) = bytes.split_first_chunk().ok_or(SumsError::Format)?;
        let header = Header::parse(header).ok_or(SumsError::Format)?;
        match header.length == self.length {
            true => Ok((header, block)),
            false => Err(SumsError::OtherLength { found: self.length, summed: header.length }),
        }
    }

    /// What the subfile is a part of; none before the first block.
    pub fn origin(&self) -> Option<Origin> {
        self.origin
    }

    /// How many more bytes of the subfile it can compare before it needs the next block.
    pub fn room(&self) -> u64 {
        let end = (self.blocks * BLOCK_SUMS).saturating_mul(CHUNK_BYTES as u64).min(self.length);
        end - self.chunks.length
    }

    /// The next bytes of the subfile, at most [`room`](Self::room).
    ///
    /// # Errors
    /// The first chunk whose bytes are not those that were summed, as offsets in the subfile.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Range<u64>> {
        assert!(bytes.len() as u64 <= self.room(), "{} bytes for room of {}", bytes.len(), self.room());
        let Checking { chunks, sums, blocks, length, .. } = self;
        let mut index = chunks.length / CHUNK_BYTES as u64;
        let mut wrong = None;
        let mut compare = |sum| {
            let of_block = index - (*blocks - 1) * BLOCK_SUMS;
            if sums[of_block as usize] != sum {
                wrong.get_or_insert(index);
            }
            index += 1;
        };
        chunks.push(bytes, &mut compare);
        if chunks.length == *length {
            chunks.finish().into_iter().for_each(compare);
        }
        wrong.map_or(Ok(()), |index| {
            let start = index * CHUNK_BYTES as u64;
            Err(start..(start + CHUNK_BYTES as u64).min(*length))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What one block covers.
    const BLOCK: u64 = BLOCK_SUMS * CHUNK_BYTES as u64;

    fn in_pieces<'a>(bytes: &'a [u8], pieces: &'a [usize]) -> impl Iterator<Item = &'a [u8]> {
        let (mut pieces, mut rest) = (pieces.iter(), bytes);
        std::iter::from_fn(move || {
            let piece = pieces.next().copied().unwrap_or(usize::MAX);
            let (now, later) = rest.split_at(rest.len().min(piece));
            rest = later;
            (!now.is_empty() || !later.is_empty()).then_some(now)
        })
    }

    fn summed(bytes: &[u8], pieces: &[usize]) -> Vec<u8> {
        summed_by(7, bytes, pieces)
    }

    fn origin(put: u8) -> Origin {
        Origin { put: PutId([put; 16]), place: Place { stripe_unit: 200, subfile: 1, subfiles: 3 } }
    }

    fn summed_by(put: u8, bytes: &[u8], pieces: &[usize]) -> Vec<u8> {
        let mut summing = Summing::new(origin(put));
        in_pieces(bytes, pieces).for_each(|piece| summing.push(piece));
        summing.finish()
    }

    /// What may come out of a comparison that goes wrong.
    #[derive(Debug, PartialEq)]
    enum Wrong {
        Sums(SumsError),
        Bytes(Range<u64>),
    }

    fn compare(bytes: &[u8], sums: &[u8], pieces: &[usize]) -> Result<(), Wrong> {
        let mut checking = Checking::new(bytes.len() as u64);
        let supply = |checking: &mut Checking| {
            let range = checking.next_block().expect("it has room for all bytes behind the last block");
            let at = |offset: u64| (offset as usize).min(sums.len());
            checking.supply(&sums[at(range.start)..at(range.end)]).map_err(Wrong::Sums)
        };
        supply(&mut checking)?;
        for mut piece in in_pieces(bytes, pieces) {
            while !piece.is_empty() {
                if checking.room() == 0 {
                    supply(&mut checking)?;
                }
                let (now, later) = piece.split_at(piece.len().min(checking.room() as usize));
                checking.push(now).map_err(Wrong::Bytes)?;
                piece = later;
            }
        }
        assert_eq!((checking.next_block(), checking.room()), (None, 0));
        Ok(())
    }

    fn content(length: usize, seed: u8) -> Vec<u8> {
        (0..length).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect()
    }

    fn sums_of_chunks(bytes: &[u8]) -> Vec<u8> {
        bytes.chunks(CHUNK_BYTES).flat_map(|chunk| *blake3::hash(chunk).as_bytes()).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn sums_do_not_depend_on_the_pieces_and_say_that_all_is_well(
            length in 0_usize..300_000, seed: u8, cut in prop::collection::vec(0_usize..140_000, 0..6),
            compared in prop::collection::vec(0_usize..140_000, 0..6),
        ) {
            let bytes = content(length, seed);
            let sums = summed(&bytes, &cut);
            prop_assert_eq!(sums.len() as u64, encoded_length(length as u64));
            prop_assert_eq!(&sums[HEADER_BYTES..sums.len() - SUM_BYTES], sums_of_chunks(&bytes));
            prop_assert_eq!(compare(&bytes, &sums, &compared), Ok(()));
        }

        #[test]
        fn a_flipped_byte_is_found_in_its_chunk(length in 1_usize..300_000, place: prop::sample::Index, flip in 1_u8..,
                                                pieces in prop::collection::vec(0_usize..140_000, 0..6)) {
            let mut bytes = content(length, 3);
            let sums = summed(&bytes, &[]);
            let place = place.index(length);
            bytes[place] ^= flip;
            let start = (place - place % CHUNK_BYTES) as u64;
            let end = (start + CHUNK_BYTES as u64).min(length as u64);
            prop_assert_eq!(compare(&bytes, &sums, &pieces), Err(Wrong::Bytes(start..end)));
        }

        #[test]
        fn damaged_sums_are_never_taken_for_sums(length in 0_usize..200_000, place: prop::sample::Index, flip in 1_u8..) {
            let bytes = content(length, 9);
            let mut sums = summed(&bytes, &[]);
            let place = place.index(sums.len());
            sums[place] ^= flip;
            prop_assert!(matches!(compare(&bytes, &sums, &[]), Err(Wrong::Sums(_))));
        }

        #[test]
        fn garbage_is_no_sums(bytes in prop::collection::vec(any::<u8>(), 0..200), length: u64) {
            prop_assert!(Checking::new(length >> 1).supply(&bytes).is_err());
        }

        #[test]
        fn blocks_lie_one_behind_the_other_and_a_reader_holds_one_of_them(
            length in 0..u64::MAX >> 1, number in 0_u64..1 << 40,
        ) {
            let last = block_count(length) - 1;
            let number = number.min(last);
            let block = Checking::block(length, number).expect("there is one");
            prop_assert!(block.end - block.start <= (HEADER_BYTES + (32 << 10)) as u64, "{:?}", block);
            match Checking::block(length, number + 1) {
                Some(next) => prop_assert_eq!(next.start, block.end),
                None => prop_assert_eq!((block.end, number), (encoded_length(length), last)),
            }
        }
    }

    #[test]
    fn a_subfile_of_several_blocks_is_compared_with_all_of_them() {
        let mut bytes = vec![7; BLOCK as usize + 100_000];
        let sums = summed(&bytes, &[]);
        assert_eq!(sums.len(), HEADER_BYTES + (32 << 10) + 3 * SUM_BYTES);
        assert_eq!(compare(&bytes, &sums, &[1_000_000, 5]), Ok(()));
        *bytes.last_mut().expect("not empty") = 8;
        let last_chunk = BLOCK + CHUNK_BYTES as u64..bytes.len() as u64;
        assert_eq!(compare(&bytes, &sums, &[]), Err(Wrong::Bytes(last_chunk)));
        let mut swapped = sums.clone();
        swapped[HEADER_BYTES + (32 << 10)..].copy_from_slice(&sums[HEADER_BYTES..][..3 * SUM_BYTES]);
        assert_eq!(compare(&bytes, &swapped, &[]), Err(Wrong::Sums(SumsError::Damaged)));
    }

    #[test]
    fn blocks_of_two_puts_do_not_go_together() {
        let bytes = vec![7; BLOCK as usize + 100_000];
        let [mut one, other] = [1, 2].map(|put| summed_by(put, &bytes, &[]));
        let found = [&one, &other, &bytes].map(|sums| origin_of(sums));
        assert_eq!(found, [Some(origin(1)), Some(origin(2)), None]);
        let second = HEADER_BYTES + (32 << 10);
        one[second..].copy_from_slice(&other[second..]);
        assert_eq!(compare(&bytes, &one, &[]), Err(Wrong::Sums(SumsError::Damaged)));
    }

    #[test]
    fn another_length_is_noticed_even_where_all_chunks_fit() {
        let bytes = content(2 * CHUNK_BYTES, 1);
        for (summed_bytes, found) in [
            (&bytes[..], &bytes[..CHUNK_BYTES]),
            (&bytes[..CHUNK_BYTES], &bytes[..]),
            (&bytes[..], &bytes[..0]),
        ] {
            let error =
                SumsError::OtherLength { found: found.len() as u64, summed: summed_bytes.len() as u64 };
            assert_eq!(compare(found, &summed(summed_bytes, &[]), &[]), Err(Wrong::Sums(error)));
        }
    }

    #[test]
    fn sums_stand_beside_their_subfile() {
        let beside =
            |text: &str| beside(&SubfilePath::new(text).expect("a right path")).map(|path| path.to_string());
        assert_eq!(beside("a/b/x").as_deref(), Some("a/b/.x.sfio-sums"));
        assert_eq!(beside("x").as_deref(), Some(".x.sfio-sums"));
        assert_eq!(beside(".x.sfio-sums"), None);
        assert_eq!(beside(&"x".repeat(245)), None);
        assert!(beside(&"x".repeat(244)).is_some());
        assert_eq!(beside("d/objects/0123456789abcdef0123456789abcdef"), None);
        let of = |text: &str| {
            subfile_of(&SubfilePath::new(text).expect("a right path")).map(|path| path.to_string())
        };
        assert_eq!(of("a/b/.x.sfio-sums").as_deref(), Some("a/b/x"));
        for none in
            ["a/x", "a/x.sfio-sums", "..sfio-sums", "a/..sfio-sums.sfio-sums", "a/..x.sfio-sums.sfio-sums"]
        {
            assert_eq!(of(none), None, "{none}");
        }
    }
}
