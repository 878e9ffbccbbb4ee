//! The commit record: which generations a data set has, and which one is current.
//!
//! ```text
//! "SFIOSET1" · body (postcard) · BLAKE3 hash of all before, 32 bytes
//! ```

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::chunk::{ChunkRef, Hash};
use super::manifest::Metadata;
use super::record::{MAX_INDEX_CHUNKS, Token};

const MAGIC: &[u8; 8] = b"SFIOSET1";

/// The commit record of a data set.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Commit {
    /// Of the data set.
    pub token: Token,
    /// The number of the current generation.
    pub current: u64,
    /// The generations that are kept, by ascending number.
    pub generations: Vec<Generation>,
    /// The number that the next object gets: none is ever used twice.
    pub next_object: u32,
    /// Objects that no generation refers to any more; they are removed once this record stands.
    pub retired: Vec<u32>,
}

/// One state of the tree.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// Its number; the first one is 1.
    pub number: u64,
    /// When it was published, ms since 1970.
    pub published_ms: u64,
    /// Entries in its manifest.
    pub entries: u64,
    /// Bytes of its files.
    pub bytes: u64,
    /// Of the top of the tree, which is no entry.
    pub top: Metadata,
    /// The list of its manifest's chunks, itself in a few chunks.
    pub index: Vec<ChunkRef>,
    /// The objects that it refers to, ascending.
    pub objects: Vec<u32>,
}

/// Why a commit record cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BadCommit {
    /// It is none, or of a later version.
    #[error("it does not begin with SFIOSET1")]
    Magic,
    /// Its checksum is wrong.
    #[error("its checksum is wrong: it has been damaged")]
    Checksum,
    /// It contradicts itself.
    #[error("it lists no current generation")]
    Current,
    /// Whoever wrote it did not cut a manifest.
    #[error("it has a manifest in chunks that there cannot be")]
    Index,
}

impl Commit {
    /// The record's bytes.
    pub fn emit(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes = postcard::to_extend(self, bytes).expect("plain values in memory can be written down");
        let hash = Hash::of(&bytes);
        bytes.extend_from_slice(hash.as_bytes());
        bytes
    }

    /// Reads a record.
    ///
    /// # Errors
    /// [`BadCommit`] if it is not whole.
    pub fn parse(bytes: &[u8]) -> Result<Commit, BadCommit> {
        let body = bytes.strip_prefix(MAGIC).ok_or(BadCommit::Magic)?;
        let (body, hash) = body.split_last_chunk::<32>().ok_or(BadCommit::Checksum)?;
        let hashed = &bytes[..MAGIC.len() + body.len()];
        if Hash::of(hashed).as_bytes() != hash {
            return Err(BadCommit::Checksum);
        }
        let commit: Commit = postcard::from_bytes(body).map_err(|_| BadCommit::Checksum)?;
        commit.current().map(|_| ()).ok_or(BadCommit::Current)?;
        let is_sound = |generation: &Generation| {
            generation.index.len() <= MAX_INDEX_CHUNKS && generation.index.iter().all(ChunkRef::is_sound)
        };
        match commit.generations.iter().all(is_sound) {
            true => Ok(commit),
            false => Err(BadCommit::Index),
        }
    }

    /// The current generation.
    pub fn current(&self) -> Option<&Generation> {
        self.generation(self.current)
    }

    /// The generation of that number.
    pub fn generation(&self, number: u64) -> Option<&Generation> {
        self.generations.iter().find(|generation| generation.number == number)
    }

    /// The same with one more generation, which becomes current. At most `keep` are kept, the latest ones and always the
    /// current one.
    pub fn with(&self, generation: Generation, keep: usize) -> Commit {
        let mut generations = self.generations.clone();
        let current = generation.number;
        generations.push(generation);
        let surplus = generations.len().saturating_sub(keep.max(1));
        let dropped: BTreeSet<u32> = generations.drain(..surplus).flat_map(|old| old.objects).collect();
        let mut commit = Commit { current, generations, ..self.clone() };
        commit.retired = dropped.into_iter().filter(|object| !commit.refers_to(*object)).collect();
        commit
    }

    /// The number of the next generation: above all that were ever kept at once with the current one.
    pub fn next_number(&self) -> u64 {
        self.generations.last().map_or(1, |last| last.number + 1)
    }

    /// Whether some kept generation refers to an object.
    pub fn refers_to(&self, object: u32) -> bool {
        self.generations.iter().any(|generation| generation.objects.binary_search(&object).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::super::manifest::tests::metadata;
    use super::*;

    fn generation(number: u64) -> Generation {
        let (top, index, objects) = (metadata(), Vec::new(), vec![1, 4]);
        Generation { number, published_ms: 5, entries: 2, bytes: 3, top, index, objects }
    }

    fn commit() -> Commit {
        Commit {
            token: Token([9; 16]),
            current: 1,
            generations: vec![generation(1)],
            next_object: 5,
            retired: vec![],
        }
    }

    #[test]
    fn a_record_comes_back_and_no_damage_goes_unseen() {
        let bytes = commit().emit();
        assert_eq!(Commit::parse(&bytes), Ok(commit()));
        for cut in 0..bytes.len() {
            assert!(Commit::parse(&bytes[..cut]).is_err());
        }
        for position in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 4;
            assert!(Commit::parse(&damaged).is_err(), "byte {position}");
        }
    }

    /// A record of some hundred bytes took 3 GiB: room for a chunk of that length was made before it was read.
    #[test]
    fn a_chunk_that_there_cannot_be_is_refused() {
        let index = |length| ChunkRef {
            hash: Hash::of(b"x"),
            length,
            object: 1,
            offset: 0,
            stored: 1,
            codec: crate::replication::Codec::Zstd,
        };
        let mut commit = commit();
        commit.generations[0].index = vec![index(1 << 20)];
        assert_eq!(Commit::parse(&commit.emit()), Ok(commit.clone()));
        commit.generations[0].index = vec![index(3 << 30)];
        assert_eq!(Commit::parse(&commit.emit()), Err(BadCommit::Index));
        commit.generations[0].index = vec![index(1); MAX_INDEX_CHUNKS + 1];
        assert_eq!(Commit::parse(&commit.emit()), Err(BadCommit::Index));
    }

    #[test]
    fn the_latest_generations_are_kept() {
        let grown = (2..=5).fold(commit(), |commit, number| commit.with(generation(number), 3));
        let numbers: Vec<u64> = grown.generations.iter().map(|generation| generation.number).collect();
        assert_eq!((grown.current, numbers, grown.next_number()), (5, vec![3, 4, 5], 6));
        assert!(grown.refers_to(4) && !grown.refers_to(2));
        let mut last = generation(6);
        last.objects = vec![7];
        assert_eq!(grown.with(last, 1).retired, [1, 4]);
    }
}
