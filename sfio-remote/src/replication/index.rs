//! Which chunks are there already.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::collections::BTreeSet;

use super::chunk::{ChunkRef, Hash};

/// Chunks by hash. A million of them take 70 to 90 MB: a sorted list of those known from the start, and a tree of new
/// ones.
#[derive(Debug, Default)]
pub struct ChunkIndex {
    known: Vec<ChunkRef>,
    new: Inserted,
}

/// The chunks that were inserted into an index.
#[derive(Debug, Default)]
pub struct Inserted(BTreeSet<ByHash>);

/// A chunk that is told from others by its hash alone. A map from hashes would keep each hash twice, which is 32 MB of
/// a million chunks.
#[derive(Debug, Clone, Copy)]
struct ByHash(ChunkRef);

impl ChunkIndex {
    /// An index of these chunks; of several with one hash, one.
    pub fn new(chunks: impl IntoIterator<Item = ChunkRef>) -> ChunkIndex {
        let mut known: Vec<ChunkRef> = chunks.into_iter().collect();
        known.sort_unstable_by_key(|chunk| (chunk.hash, chunk.object, chunk.offset));
        known.dedup_by_key(|chunk| chunk.hash);
        known.shrink_to_fit();
        ChunkIndex { known, new: Inserted::default() }
    }

    /// The chunk with this hash.
    pub fn find(&self, hash: &Hash) -> Option<ChunkRef> {
        let known = self.known.binary_search_by_key(hash, |chunk| chunk.hash).ok();
        known.map(|index| self.known[index]).or_else(|| self.new.0.get(hash).map(|new| new.0))
    }

    /// The chunks that were inserted; as they are, since a copy of a million takes 64 MB.
    pub fn into_inserted(self) -> Inserted {
        self.new
    }

    /// One more.
    pub fn insert(&mut self, chunk: ChunkRef) {
        self.new.0.replace(ByHash(chunk));
    }
}

impl Inserted {
    /// The chunks, in the order of their hashes.
    pub fn iter(&self) -> impl Iterator<Item = &ChunkRef> {
        self.0.iter().map(|new| &new.0)
    }
}

impl Borrow<Hash> for ByHash {
    fn borrow(&self) -> &Hash {
        &self.0.hash
    }
}

impl Ord for ByHash {
    fn cmp(&self, other: &ByHash) -> Ordering {
        self.0.hash.cmp(&other.0.hash)
    }
}

impl PartialOrd for ByHash {
    fn partial_cmp(&self, other: &ByHash) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByHash {
    fn eq(&self, other: &ByHash) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByHash {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::Codec;

    fn chunk(content: u8, offset: u64) -> ChunkRef {
        ChunkRef { hash: Hash::of(&[content]), length: 1, object: 1, offset, stored: 1, codec: Codec::Plain }
    }

    #[test]
    fn known_and_new_chunks_are_found_once() {
        let mut index = ChunkIndex::new([chunk(3, 30), chunk(1, 10), chunk(1, 50)]);
        index.insert(chunk(2, 20));
        assert_eq!(index.find(&Hash::of(&[1])), Some(chunk(1, 10)));
        assert_eq!(index.find(&Hash::of(&[2])), Some(chunk(2, 20)));
        assert_eq!(index.find(&Hash::of(&[3])), Some(chunk(3, 30)));
        assert_eq!(index.find(&Hash::of(&[4])), None);
    }
}
