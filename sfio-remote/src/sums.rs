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
//! │ BLAKE3 of each chunk of 64 KiB, 32 bytes each; the last chunk │ 16
//! │ may be shorter                                                │
//! ├───────────────────────────────────────────────────────────────┤
//! │ BLAKE3 of all the bytes before                                │
//! └───────────────────────────────────────────────────────────────┘
//! ```

use std::ops::Range;

use crate::dataset::Territory;
use crate::name::{MAX_NAME_BYTES, SubfilePath};

/// The bytes of a subfile that one sum is of; the last chunk may be shorter.
pub const CHUNK_BYTES: usize = 64 << 10;

const MAGIC: &[u8; 8] = b"SFIOSUM\x01";
const HEADER_BYTES: usize = 16;
const SUFFIX: &str = ".sfio-sums";

type Sum = [u8; blake3::OUT_LEN];

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

/// The sums of a subfile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sums {
    length: u64,
    chunks: Vec<Sum>,
}

/// What is wrong with bytes that should be sums.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SumsError {
    /// They are of another format, or of a newer version of it.
    #[error("these are no checksums of version 1")]
    Format,
    /// They are damaged themselves.
    #[error("the checksums themselves are damaged")]
    Damaged,
}

/// Takes the bytes of a subfile in order and makes their sums.
#[derive(Debug, Default)]
pub struct Summing {
    length: u64,
    chunks: Vec<Sum>,
    /// The bytes of the chunk that has begun.
    begun: Vec<u8>,
}

/// Takes the bytes of a subfile in order and compares them with its sums.
#[derive(Debug)]
pub struct Checking {
    sums: Sums,
    found: Summing,
    /// How many chunks were compared.
    compared: usize,
}

impl Sums {
    /// The length of sums, in bytes, for a subfile of `length` bytes.
    pub fn encoded_length(length: u64) -> u64 {
        HEADER_BYTES as u64 + (length.div_ceil(CHUNK_BYTES as u64) + 1) * blake3::OUT_LEN as u64
    }

    /// The length of the subfile in bytes.
    pub fn length(&self) -> u64 {
        self.length
    }

    /// The bytes that stand for these sums.
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES + (self.chunks.len() + 1) * blake3::OUT_LEN);
        bytes.extend_from_slice(MAGIC);
        bytes.extend(self.length.to_be_bytes());
        bytes.extend(self.chunks.iter().flatten());
        let all = blake3::hash(&bytes);
        bytes.extend_from_slice(all.as_bytes());
        bytes
    }

    /// The sums that `bytes` stand for. It allocates as much as `bytes` have.
    ///
    /// # Errors
    /// If they are no sums, or damaged.
    pub fn parse(bytes: &[u8]) -> Result<Sums, SumsError> {
        let (content, all) = bytes.split_last_chunk::<{ blake3::OUT_LEN }>().ok_or(SumsError::Format)?;
        let (header, chunks) = content.split_first_chunk::<HEADER_BYTES>().ok_or(SumsError::Format)?;
        let (magic, length) = header.split_first_chunk::<8>().ok_or(SumsError::Format)?;
        if magic != MAGIC {
            return Err(SumsError::Format);
        }
        let length = u64::from_be_bytes(length.try_into().map_err(|_| SumsError::Format)?);
        if blake3::hash(content) != *all || Sums::encoded_length(length) != bytes.len() as u64 {
            return Err(SumsError::Damaged);
        }
        let (chunks, _) = chunks.as_chunks::<{ blake3::OUT_LEN }>();
        Ok(Sums { length, chunks: chunks.to_vec() })
    }
}

impl Summing {
    /// The next bytes of the subfile.
    pub fn push(&mut self, mut bytes: &[u8]) {
        self.length += bytes.len() as u64;
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(CHUNK_BYTES - self.begun.len()));
            // A whole chunk that lies in one piece is not copied.
            if now.len() == CHUNK_BYTES {
                self.chunks.push(*blake3::hash(now).as_bytes());
            } else {
                self.begun.extend_from_slice(now);
                if self.begun.len() == CHUNK_BYTES {
                    self.end_chunk();
                }
            }
            bytes = later;
        }
    }

    /// The subfile ends here.
    pub fn finish(mut self) -> Sums {
        if !self.begun.is_empty() {
            self.end_chunk();
        }
        Sums { length: self.length, chunks: self.chunks }
    }

    fn end_chunk(&mut self) {
        self.chunks.push(*blake3::hash(&self.begun).as_bytes());
        self.begun.clear();
    }
}

impl Checking {
    /// Compares a subfile with `sums`.
    pub fn new(sums: Sums) -> Checking {
        Checking { sums, found: Summing::default(), compared: 0 }
    }

    /// The next bytes of the subfile.
    ///
    /// # Errors
    /// The first chunk whose bytes are not those that were summed, as offsets in the subfile.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Range<u64>> {
        self.found.push(bytes);
        self.compare()
    }

    /// The subfile ends here.
    ///
    /// # Errors
    /// As [`push`](Self::push); the length counts, too.
    pub fn finish(mut self) -> Result<(), Range<u64>> {
        if !self.found.begun.is_empty() {
            self.found.end_chunk();
        }
        self.compare()?;
        match self.found.length == self.sums.length {
            true => Ok(()),
            false => Err(self.found.length.min(self.sums.length)..self.found.length.max(self.sums.length)),
        }
    }

    fn compare(&mut self) -> Result<(), Range<u64>> {
        for (index, found) in self.found.chunks.iter().enumerate().skip(self.compared) {
            if self.sums.chunks.get(index) != Some(found) {
                let start = (index * CHUNK_BYTES) as u64;
                return Err(start..self.found.length.min(start + CHUNK_BYTES as u64));
            }
        }
        self.compared = self.found.chunks.len();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn summed(bytes: &[u8], pieces: &[usize]) -> Sums {
        let (mut summing, mut rest) = (Summing::default(), bytes);
        for piece in pieces {
            let (now, later) = rest.split_at(rest.len().min(*piece));
            summing.push(now);
            rest = later;
        }
        summing.push(rest);
        summing.finish()
    }

    fn content(length: usize, seed: u8) -> Vec<u8> {
        (0..length).map(|i| (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ seed).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        #[test]
        fn sums_do_not_depend_on_the_pieces_and_read_back(length in 0_usize..300_000, seed: u8,
                                                          pieces in prop::collection::vec(0_usize..140_000, 0..6)) {
            let bytes = content(length, seed);
            let sums = summed(&bytes, &pieces);
            let naive: Vec<Sum> = bytes.chunks(CHUNK_BYTES).map(|chunk| *blake3::hash(chunk).as_bytes()).collect();
            prop_assert_eq!(&sums.chunks, &naive);
            let encoded = sums.emit();
            prop_assert_eq!(encoded.len() as u64, Sums::encoded_length(length as u64));
            prop_assert_eq!(Sums::parse(&encoded), Ok(sums));
        }

        #[test]
        fn a_flipped_byte_is_found_in_its_chunk(length in 1_usize..300_000, place: prop::sample::Index, flip in 1_u8..,
                                                pieces in prop::collection::vec(0_usize..140_000, 0..6)) {
            let mut bytes = content(length, 3);
            let sums = summed(&bytes, &[]);
            let place = place.index(length);
            bytes[place] ^= flip;
            let (mut checking, mut rest, mut found) = (Checking::new(sums), &bytes[..], Ok(()));
            for piece in pieces {
                let (now, later) = rest.split_at(rest.len().min(piece));
                found = found.and_then(|()| checking.push(now));
                rest = later;
            }
            let wrong = found.and_then(|()| checking.push(rest)).and_then(|()| checking.finish());
            let wrong = wrong.expect_err("a byte differs");
            prop_assert!(wrong.contains(&(place as u64)), "{:?} {}", wrong, place);
            prop_assert_eq!(wrong.start % CHUNK_BYTES as u64, 0);
        }

        #[test]
        fn damaged_sums_are_never_taken_for_sums(length in 0_usize..200_000, place: prop::sample::Index, flip in 1_u8..) {
            let mut encoded = summed(&content(length, 9), &[]).emit();
            let place = place.index(encoded.len());
            encoded[place] ^= flip;
            prop_assert!(Sums::parse(&encoded).is_err());
        }

        #[test]
        fn garbage_is_no_sums(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(Sums::parse(&bytes).is_err());
        }
    }

    #[test]
    fn another_length_is_noticed_even_where_all_chunks_fit() {
        let bytes = content(2 * CHUNK_BYTES, 1);
        for (summed_bytes, found_bytes) in
            [(&bytes[..], &bytes[..CHUNK_BYTES]), (&bytes[..CHUNK_BYTES], &bytes[..])]
        {
            let mut checking = Checking::new(summed(summed_bytes, &[]));
            let wrong = checking.push(found_bytes).and_then(|()| checking.finish());
            assert_eq!(wrong, Err(CHUNK_BYTES as u64..2 * CHUNK_BYTES as u64));
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
