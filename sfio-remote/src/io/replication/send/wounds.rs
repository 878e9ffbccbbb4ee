//! Chunks that are known to be damaged, and that a run sends again as it comes across their content.

use std::collections::BTreeMap;

use crate::compression::{self, Level};
use crate::replication::{ChunkRef, Codec, Extent, Hash, Healed, SignedRecord};

/// A record has at most so many healed places; what is beyond stays damaged in older generations.
const MOST_HEALED: usize = 100_000;

/// The damaged chunks of all generations that are kept, by content.
#[derive(Debug, Default)]
pub(in crate::io::replication) struct Wounds {
    open: BTreeMap<Hash, Vec<ChunkRef>>,
    healed: Vec<Healed>,
    /// Bytes of the chunks that were sent again.
    bytes: u64,
}

impl Wounds {
    /// One of the chunks of a generation, if it is damaged.
    pub(super) fn examine(&mut self, record: &SignedRecord, chunk: &ChunkRef) {
        if !record.is_damaged(chunk) {
            return;
        }
        let place = record.place_of(chunk);
        let places = self.open.entry(chunk.hash).or_default();
        if places.iter().all(|known| Extent::of(known) != Extent::of(&place)) {
            places.push(place);
        }
    }

    /// Whether nothing is left to be healed.
    pub(in crate::io::replication) fn are_none(&self) -> bool {
        self.open.is_empty()
    }

    /// How a damaged chunk was compressed: sent again in the same form, neighbours are told of in one entry. One of a
    /// solid frame is sent by itself, because it may be the only one that the source still has.
    pub(in crate::io::replication) fn codec_of(&self, hash: &Hash) -> Option<compression::Codec> {
        let place = self.open.get(hash)?.first()?;
        Some(match place.codec {
            Codec::Plain => compression::Codec::Plain,
            Codec::Lz4 => compression::Codec::Lz4,
            Codec::Zstd | Codec::Solid { .. } => compression::Codec::Zstd(Level::DEFAULT),
        })
    }

    /// Whether the content is that of a damaged chunk.
    pub(in crate::io::replication) fn has(&self, hash: &Hash) -> bool {
        self.open.contains_key(hash)
    }

    /// A damaged chunk has been sent again.
    pub(in crate::io::replication) fn heal(&mut self, new: &ChunkRef) {
        let Some(places) = self.open.remove(&new.hash) else { return };
        self.bytes += u64::from(new.length);
        self.healed.extend(places.iter().map(|old| Healed::of(old, new)));
    }

    /// What was healed, together with what was before; and how much that is now.
    pub(in crate::io::replication) fn into_healed(self, before: &[Healed]) -> (Vec<Healed>, Mended) {
        let mended =
            Mended { chunks: self.healed.len() as u64, bytes: self.bytes, left: self.open.len() as u64 };
        let healed = Healed::merged([before, &self.healed].concat());
        match healed.len() <= MOST_HEALED.max(before.len()) {
            true => (healed, mended),
            false => (before.to_vec(), mended),
        }
    }
}

/// What a run has healed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Mended {
    /// Chunks that were damaged and are whole again.
    pub chunks: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Damaged chunks that the source does not have any more.
    pub left: u64,
}
