//! Places in objects that do not hold any more what was stored there, and where it is now.

use serde::{Deserialize, Serialize};

use super::Record;
use crate::replication::chunk::{ChunkRef, Codec, MAX_CHUNK_BYTES, MAX_OBJECT_BYTES};

/// How often a chunk can have moved; a longer way is a circle that somebody made up.
const MOST_MOVES: usize = 64;
/// The most damaged places that a record tells of; if there are more, it tells of whole objects.
const MOST_DAMAGED: usize = 50_000;

/// A part of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Extent {
    /// The object's number.
    pub object: u32,
    /// Where it begins.
    pub offset: u64,
    /// Its length in bytes.
    pub length: u64,
}

/// Chunks that are elsewhere now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Healed {
    /// The places where they were.
    pub from: Extent,
    /// The object that they are in.
    pub object: u32,
    /// Where they begin there; each is as far behind this as it was behind the beginning of `from`.
    pub offset: u64,
    /// How they are stored there.
    pub form: Form,
}

/// How what was sent again is stored, compared with before.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// Byte for byte the same.
    Same,
    /// It is one chunk, compressed in another way.
    Other {
        /// How many bytes it takes.
        stored: u32,
        /// How to get its bytes back.
        codec: Codec,
    },
}

impl Extent {
    /// Where a chunk is.
    pub fn of(chunk: &ChunkRef) -> Extent {
        Extent { object: chunk.object, offset: chunk.offset, length: chunk.stored.into() }
    }

    fn end(&self) -> u64 {
        self.offset.saturating_add(self.length)
    }

    /// Whether all of it is before `other`.
    pub(super) fn is_before(&self, other: &Extent) -> bool {
        (self.object, self.end()) <= (other.object, other.offset) && self.length > 0 && other.length > 0
    }

    fn contains(&self, other: &Extent) -> bool {
        self.object == other.object && self.offset <= other.offset && other.end() <= self.end()
    }

    /// Whether they have a byte in common.
    pub fn overlaps(&self, other: &Extent) -> bool {
        self.object == other.object && self.offset < other.end() && other.offset < self.end()
    }

    /// Whether it has no byte in common with places that are merged.
    pub fn is_apart_from(&self, merged: &[Extent]) -> bool {
        let next = merged.partition_point(|other| (other.object, other.end()) <= (self.object, self.offset));
        merged.get(next).is_none_or(|other| !other.overlaps(self))
    }

    /// All of the object.
    pub fn whole_object(&self) -> Extent {
        Extent { object: self.object, offset: 0, length: MAX_OBJECT_BYTES }
    }

    /// The same places, ascending, apart, and neighbours together.
    pub fn merged(mut extents: Vec<Extent>) -> Vec<Extent> {
        extents.retain(|extent| extent.length > 0);
        extents.sort_unstable();
        let mut merged: Vec<Extent> = Vec::new();
        for extent in extents {
            match merged.last_mut() {
                Some(last) if last.object == extent.object && extent.offset <= last.end() => {
                    last.length = last.length.max(extent.end() - last.offset);
                }
                _ => merged.push(extent),
            }
        }
        merged
    }
}

impl Healed {
    /// The place of one chunk.
    pub fn of(old: &ChunkRef, new: &ChunkRef) -> Healed {
        let form = match (old.stored, old.codec) == (new.stored, new.codec) {
            true => Form::Same,
            false => Form::Other { stored: new.stored, codec: new.codec },
        };
        Healed { from: Extent::of(old), object: new.object, offset: new.offset, form }
    }

    /// The same, ascending, and what was moved together as one. Of two that overlap the first one counts.
    pub fn merged(mut all: Vec<Healed>) -> Vec<Healed> {
        all.sort_by_key(|healed| healed.from);
        let mut merged: Vec<Healed> = Vec::new();
        for healed in all {
            let Some(last) = merged.last_mut() else {
                merged.push(healed);
                continue;
            };
            let continues = last.form == Form::Same
                && healed.form == Form::Same
                && (last.from.object, last.from.end()) == (healed.from.object, healed.from.offset)
                && (last.object, last.offset + last.from.length) == (healed.object, healed.offset);
            if continues {
                last.from.length += healed.from.length;
            } else if last.from.is_before(&healed.from) {
                merged.push(healed);
            }
        }
        merged
    }

    pub(super) fn is_sound(&self) -> bool {
        let form_is_sound = match self.form {
            Form::Same => true,
            Form::Other { stored, codec } => {
                stored <= MAX_CHUNK_BYTES && codec.is_sound(self.offset, stored, stored)
            }
        };
        let ends = [self.from.end(), self.offset.saturating_add(self.from.length)];
        form_is_sound && self.from.length > 0 && ends.iter().all(|end| *end <= MAX_OBJECT_BYTES)
    }
}

impl Record {
    /// Adds places that were found damaged in objects that it names; says whether any of them was not known before.
    pub fn add_damage(&mut self, found: &[Extent]) -> bool {
        let is_named = |place: &&Extent| self.run_of(place.object).is_some();
        let found: Vec<Extent> = found.iter().filter(is_named).copied().collect();
        let mut damaged = Extent::merged([self.damaged.as_slice(), &found].concat());
        if damaged.len() > MOST_DAMAGED {
            damaged = Extent::merged(damaged.iter().map(Extent::whole_object).collect());
        }
        let is_news = damaged != self.damaged;
        self.damaged = damaged;
        is_news
    }

    /// Where a chunk is now.
    pub fn place_of(&self, chunk: &ChunkRef) -> ChunkRef {
        self.places_of(chunk).last().unwrap_or(*chunk)
    }

    /// Where a chunk was and is, from its first place to the one where it is now.
    pub fn places_of(&self, chunk: &ChunkRef) -> impl Iterator<Item = ChunkRef> + '_ {
        std::iter::successors(Some(*chunk), |place| self.next_place(place)).take(MOST_MOVES + 1)
    }

    /// Where a chunk was sent to again.
    fn next_place(&self, place: &ChunkRef) -> Option<ChunkRef> {
        let healed = self.healing_of(&Extent::of(place))?;
        let offset = healed.offset + (place.offset - healed.from.offset);
        let moved = ChunkRef { object: healed.object, offset, ..*place };
        Some(match healed.form {
            Form::Same => moved,
            Form::Other { stored, codec } => ChunkRef { stored, codec, ..moved },
        })
    }

    /// Whether a chunk is known to be damaged, and not healed; one in a solid frame also if something before it in the
    /// frame is, wherever that is healed.
    pub fn is_damaged(&self, chunk: &ChunkRef) -> bool {
        self.is_damaged_at(&self.place_of(chunk))
    }

    /// Whether a chunk cannot be read from one of its places, as far as is known.
    pub fn is_damaged_at(&self, place: &ChunkRef) -> bool {
        let place = place.reach();
        let next = self.first_damage_behind(&place);
        self.damaged.get(next).is_some_and(|damaged| damaged.overlaps(&place))
    }

    /// Whether all of `old` leads where it led.
    pub(super) fn still_heals(&self, old: &Healed) -> bool {
        self.healing_of(&old.from).is_some_and(|now| {
            let behind = old.from.offset - now.from.offset;
            (now.object, now.offset + behind, now.form) == (old.object, old.offset, old.form)
        })
    }

    /// Whether all of `old` counts as damaged.
    pub(super) fn still_damns(&self, old: &Extent) -> bool {
        let next = self.first_damage_behind(old);
        self.damaged.get(next).is_some_and(|damaged| damaged.contains(old))
    }

    /// The first damaged place that does not end before `place`.
    fn first_damage_behind(&self, place: &Extent) -> usize {
        self.damaged
            .partition_point(|damaged| (damaged.object, damaged.end()) <= (place.object, place.offset))
    }

    fn healing_of(&self, place: &Extent) -> Option<&Healed> {
        let behind = self.healed.partition_point(|healed| {
            (healed.from.object, healed.from.offset) <= (place.object, place.offset)
        });
        let healed = self.healed.get(behind.checked_sub(1)?)?;
        let is_whole = healed.form == Form::Same || healed.from == *place;
        (healed.from.contains(place) && is_whole).then_some(healed)
    }
}
