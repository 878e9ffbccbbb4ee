//! The records of a data set: a chain in which each one says what the data set is from then on.
//!
//! ```text
//! "SFIOREC2" · body (postcard) · origins (postcard), if any are known · Ed25519 signature over all before
//! ```
//!
//! Each record has a number, one more than its predecessor's, and names the predecessor by the BLAKE3 hash of all of
//! its bytes. So to trust one record is to trust all before it. What may follow what is in `succession`, where the
//! chunks of damaged places are now in `places`. I/O nodes check records with the same functions as clients.

mod origin;
mod places;
mod succession;

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use bytes::Bytes;
use fec_transport::keys::{Identity, verifies_strictly};
use serde::{Deserialize, Serialize};

use super::bounded;
use super::chunk::{ChunkRef, Hash, MAX_OBJECT_BYTES};
use super::manifest::Metadata;

pub use origin::{MAX_ORIGIN_TEXT_BYTES, Origin};
pub use places::{Extent, Form, Healed};
use succession::Succession;
pub use succession::{BadSuccessor, Right};

const MAGIC: &[u8; 8] = b"SFIOREC2";
const MAGIC_OF_VERSION_1: &[u8; 8] = b"SFIOSET1";
const SIGNATURE: usize = 64;

/// No record is longer: some 12,000 generations, or 150,000 healed places. Reading one takes at most 32 times its
/// length.
pub const MAX_RECORD_BYTES: usize = 4 << 20;
/// How many chunks the list of a manifest's chunks may have: enough for manifests of some 80 GB.
pub const MAX_INDEX_CHUNKS: usize = 64;
/// The length of names of sites, data sets and members, in bytes.
pub const MAX_NAME_BYTES: usize = 4_095;

/// The length of any other list in a record. The length of the record is the tighter bound for most of them.
const MAX_LIST: usize = 1 << 20;

/// Tells data sets apart, whatever they are called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Token(pub [u8; 16]);

/// The name of one attempt to send: what it wrote is called so on every I/O node. It is drawn at random, and never
/// used twice.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RunId(pub [u8; 16]);

/// What a record is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Deed {
    /// It adds a generation, and heals what the run sent anew of damaged chunks.
    Publish,
    /// It makes another generation current.
    RollBack,
    /// It drops generations, and condemns what nothing needs any more.
    Forget,
    /// It says what was found damaged.
    Damage,
    /// It says where damaged chunks are now, without a new generation.
    Heal,
    /// It drops all generations: the data set is gone, until a new generation is published.
    Remove,
}

/// The member that signed a record.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Signer {
    /// The member's name in the overlay.
    pub member: String,
    /// Its Ed25519 key.
    pub key: [u8; 32],
}

/// The run whose object has a number in chunk references.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectEntry {
    /// The number; none is ever used for another object.
    pub number: u32,
    /// The run that wrote it.
    pub run: RunId,
    /// How many bytes of it, from its beginning, chunks may be in. An I/O node whose part is shorter than that has
    /// lost something.
    pub length: u64,
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
    /// The metadata of the top of the tree, which is no entry.
    pub top: Metadata,
    /// The list of its manifest's chunks, itself in a few chunks.
    #[serde(deserialize_with = "bounded::list::<MAX_INDEX_CHUNKS, _, _>")]
    pub index: Vec<ChunkRef>,
    /// The numbers of the objects that it refers to, ascending.
    #[serde(deserialize_with = "bounded::list::<MAX_LIST, _, _>")]
    pub objects: Vec<u32>,
}

/// What a data set is, from this record on until the next one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The token of the data set.
    pub token: Token,
    /// The site that keeps the data set.
    pub site: String,
    /// The data set's name there.
    pub name: String,
    /// The record's number; the first one is 1.
    pub number: u64,
    /// The hash of the record before; zeros for the first one.
    pub predecessor: Hash,
    /// The run that published it.
    pub run: RunId,
    /// The member that signs it.
    pub signer: Signer,
    /// When it was signed, ms since 1970.
    pub published_ms: u64,
    /// What it is for.
    pub deed: Deed,
    /// The number of the current generation; 0 if the data set was removed.
    pub current: u64,
    /// The generations that are kept, by ascending number.
    #[serde(deserialize_with = "bounded::list::<MAX_LIST, _, _>")]
    pub generations: Vec<Generation>,
    /// The number of the next generation: none is ever used twice.
    pub next_generation: u64,
    /// Which number stands for which run's object, by ascending number.
    #[serde(deserialize_with = "bounded::list::<MAX_LIST, _, _>")]
    pub objects: Vec<ObjectEntry>,
    /// The number of the next object.
    pub next_object: u32,
    /// Places that do not hold what was stored there, ascending and apart. They may be healed.
    #[serde(deserialize_with = "bounded::list::<MAX_LIST, _, _>")]
    pub damaged: Vec<Extent>,
    /// Places whose chunks are elsewhere now, ascending and apart.
    #[serde(deserialize_with = "bounded::list::<MAX_LIST, _, _>")]
    pub healed: Vec<Healed>,
    /// Runs of which nothing is needed any more, in the order in which they were condemned. None of them is ever named
    /// again, and after a grace their bytes are removed.
    #[serde(deserialize_with = "bounded::list::<MAX_LIST, _, _>")]
    pub condemned: Vec<RunId>,
    /// Where generations come from, by their ascending numbers.
    #[serde(skip)]
    pub origins: Vec<Origin>,
}

/// A record with its signature, as it is stored. Dereferences to what it says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SignedRecord {
    record: Record,
    bytes: Bytes,
    hash: Hash,
}

/// Why bytes are no record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRecord {
    /// It is of the format before this one.
    #[error(
        "the data set is of format 1, which this version does not read: fetch it with the version that made it, \
         and send it again under another name"
    )]
    Version1,
    /// It is something else, or of a later version.
    #[error("it does not begin with SFIOREC2")]
    Magic,
    /// It is too long.
    #[error("it has {0} bytes; a record has at most {MAX_RECORD_BYTES}: keep fewer generations")]
    Length(usize),
    /// Its signature is not that of the key that it names.
    #[error("its signature is wrong: it has been damaged, or made up")]
    Signature,
    /// It was signed and contradicts itself.
    #[error("it contradicts itself: {0}")]
    Contradiction(&'static str),
}

impl SignedRecord {
    /// Signs a record; `identity` is the signer's whom it names.
    ///
    /// # Errors
    /// [`BadRecord::Length`] if it is too long, [`BadRecord::Contradiction`] if nobody could use it.
    pub fn sign(record: Record, identity: &Identity) -> Result<SignedRecord, BadRecord> {
        record.check()?;
        let body = postcard::to_extend(&record, MAGIC.to_vec());
        let body = body.expect("plain values in memory can be written down");
        let mut bytes = origin::write(&record.origins, body);
        let signature = identity.sign(&bytes);
        bytes.extend_from_slice(&signature);
        if bytes.len() > MAX_RECORD_BYTES {
            return Err(BadRecord::Length(bytes.len()));
        }
        let hash = Hash::of(&bytes);
        Ok(SignedRecord { record, bytes: bytes.into(), hash })
    }

    /// Reads a record and checks that the key that it names has signed it. Whose key that is, and what they may, is up
    /// to the caller.
    ///
    /// # Errors
    /// [`BadRecord`] if it is not whole or not possible.
    pub fn parse(bytes: Bytes) -> Result<SignedRecord, BadRecord> {
        if bytes.len() > MAX_RECORD_BYTES {
            return Err(BadRecord::Length(bytes.len()));
        }
        if bytes.starts_with(MAGIC_OF_VERSION_1) {
            return Err(BadRecord::Version1);
        }
        let (signed, signature) = bytes.split_last_chunk::<SIGNATURE>().ok_or(BadRecord::Magic)?;
        let body = signed.strip_prefix(MAGIC).ok_or(BadRecord::Magic)?;
        let (mut record, rest) =
            postcard::take_from_bytes::<Record>(body).map_err(|_| BadRecord::Signature)?;
        record.origins = origin::parse(rest).ok_or(BadRecord::Signature)?;
        if !verifies_strictly(&record.signer.key, signed, signature) {
            return Err(BadRecord::Signature);
        }
        record.check()?;
        let hash = Hash::of(&bytes);
        Ok(SignedRecord { record, hash, bytes })
    }

    /// What it says.
    pub fn record(&self) -> &Record {
        &self.record
    }

    /// The hash by which its successor names it.
    pub fn hash(&self) -> Hash {
        self.hash
    }

    /// The bytes as they are stored.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }
}

impl std::ops::Deref for SignedRecord {
    type Target = Record;

    fn deref(&self) -> &Record {
        &self.record
    }
}

impl Record {
    /// Whether the data set was removed: then it has no generation.
    pub fn is_removed(&self) -> bool {
        self.deed == Deed::Remove
    }

    /// The current generation; a record that was read or signed has one, unless it removes the data set.
    pub fn current(&self) -> Option<&Generation> {
        self.generation(self.current)
    }

    /// The generation of that number.
    pub fn generation(&self, number: u64) -> Option<&Generation> {
        let index = self.generations.binary_search_by_key(&number, |generation| generation.number).ok()?;
        self.generations.get(index)
    }

    /// The origin of a generation, if it is known.
    pub fn origin(&self, generation: u64) -> Option<&Origin> {
        let found = self.origins.binary_search_by_key(&generation, |origin| origin.generation);
        found.ok().and_then(|index| self.origins.get(index))
    }

    /// The run that wrote the object of that number.
    pub fn run_of(&self, object: u32) -> Option<RunId> {
        let index = self.objects.binary_search_by_key(&object, |entry| entry.number).ok()?;
        self.objects.get(index).map(|entry| entry.run)
    }

    /// The objects that this record names and `before` does not.
    pub fn new_runs(&self, before: Option<&Record>) -> Vec<RunId> {
        let known: BTreeSet<RunId> =
            before.iter().flat_map(|before| before.objects.iter()).map(|entry| entry.run).collect();
        self.objects.iter().map(|entry| entry.run).filter(|run| !known.contains(run)).collect()
    }

    /// Whether it takes away anything that `before` has: a member that may only append may not publish such a record.
    pub fn drops_something_of(&self, before: &Record) -> bool {
        Succession { before, after: self }.only_adds().is_err()
    }

    /// The numbers of the objects that are needed: those that generations refer to, and those that hold healed chunks
    /// of them.
    pub fn needed_objects(&self) -> BTreeSet<u32> {
        let named = self.generations.iter().flat_map(|generation| generation.objects.iter().copied());
        let mut needed: BTreeSet<u32> = named.collect();
        loop {
            let before = needed.len();
            let healed = self.healed.iter().filter(|healed| needed.contains(&healed.from.object));
            let more: Vec<u32> = healed.map(|healed| healed.object).collect();
            needed.extend(more);
            if needed.len() == before {
                return needed;
            }
        }
    }

    /// Drops what nothing refers to: objects, what was damaged and healed in them, and the origins of generations that
    /// it has no more. The runs of these objects are condemned.
    pub fn condemn_unneeded(&mut self) {
        let kept: BTreeSet<u64> = self.generations.iter().map(|generation| generation.number).collect();
        self.origins.retain(|origin| kept.contains(&origin.generation));
        let needed = self.needed_objects();
        self.healed.retain(|healed| needed.contains(&healed.from.object));
        self.damaged.retain(|damaged| needed.contains(&damaged.object));
        let unneeded = self.objects.extract_if(.., |entry| !needed.contains(&entry.number));
        self.condemned.extend(unneeded.map(|entry| entry.run));
    }

    /// Condemns those of `runs` that it does not name; says how many these are.
    pub fn condemn_strangers(&mut self, runs: &BTreeSet<RunId>) -> usize {
        let named = self.objects.iter().map(|entry| entry.run).chain(self.condemned.iter().copied());
        let named: BTreeSet<RunId> = named.collect();
        self.condemned.extend(runs.difference(&named));
        runs.difference(&named).count()
    }

    /// What holds for every record, whatever was before it.
    fn check(&self) -> Result<(), BadRecord> {
        let names = [&self.site, &self.name, &self.signer.member];
        let numbers: BTreeSet<u32> = self.objects.iter().map(|entry| entry.number).collect();
        let runs: BTreeSet<RunId> = self.objects.iter().map(|entry| entry.run).collect();
        let condemned: BTreeSet<RunId> = self.condemned.iter().copied().collect();
        let has = |object: &u32| numbers.contains(object);
        let rules = [
            (names.iter().all(|name| (1..=MAX_NAME_BYTES).contains(&name.len())), "a name's length"),
            ((self.number == 1) == (self.predecessor == Hash::ZERO), "number and predecessor"),
            (self.number > 0, "its number is 0"),
            (
                self.current().is_some() != self.is_removed(),
                "its current generation, which only a removed data set lacks",
            ),
            (!self.is_removed() || self.generations.is_empty(), "a removed data set with generations"),
            (self.generations.is_sorted_by(|one, next| one.number < next.number), "the order of generations"),
            (
                self.generations.iter().all(|one| (1..self.next_generation).contains(&one.number)),
                "a generation's number",
            ),
            (self.generations.iter().all(|one| one.is_sound(&numbers)), "a generation's index or objects"),
            (self.objects.is_sorted_by(|one, next| one.number < next.number), "the order of objects"),
            (runs.len() == self.objects.len(), "an object with two numbers"),
            (self.objects.iter().all(|entry| entry.number < self.next_object), "an object's number"),
            (self.objects.iter().all(|entry| entry.length <= MAX_OBJECT_BYTES), "an object's length"),
            (self.damaged.is_sorted_by(Extent::is_before), "the order of damaged places"),
            (self.damaged.iter().all(|damaged| has(&damaged.object)), "a damaged place in no object"),
            (
                self.healed.is_sorted_by(|one, next| one.from.is_before(&next.from)),
                "the order of healed places",
            ),
            (self.healed.iter().all(Healed::is_sound), "a healed place"),
            (
                self.healed.iter().all(|healed| has(&healed.from.object) && has(&healed.object)),
                "a healed place in no object",
            ),
            (condemned.len() == self.condemned.len(), "a run that is condemned twice"),
            (condemned.is_disjoint(&runs), "a condemned run that is needed"),
            (origin::are_sound(&self.origins, self), "an origin"),
        ];
        match rules.iter().find(|(holds, _)| !holds) {
            Some((_, what)) => Err(BadRecord::Contradiction(what)),
            None => Ok(()),
        }
    }
}

impl Generation {
    fn is_sound(&self, objects: &BTreeSet<u32>) -> bool {
        self.index.iter().all(|chunk| chunk.is_sound() && objects.contains(&chunk.object))
            && self.objects.is_sorted_by(|one, next| one < next)
            && self.objects.iter().all(|object| objects.contains(object))
            && self.top.is_sound()
    }
}

impl fmt::Display for RunId {
    /// 32 hexadecimal digits, as in names of files.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

impl fmt::Debug for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is no run id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("expected 32 hexadecimal digits in lower case")]
pub struct BadRunId;

impl FromStr for RunId {
    type Err = BadRunId;

    fn from_str(text: &str) -> Result<RunId, BadRunId> {
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if text.len() != 32 || !text.bytes().all(is_digit) {
            return Err(BadRunId);
        }
        u128::from_str_radix(text, 16).map(|number| RunId(number.to_be_bytes())).map_err(|_| BadRunId)
    }
}

#[cfg(test)]
pub(crate) mod tests;
