//! Manifests: what a tree consists of, entry by entry, in the order of a walk.
//!
//! ```text
//! entry = length (u32, little-endian) · body (postcard)
//! ```
//! A directory comes before what is in it, and names within a directory ascend byte by byte. So two manifests, or a
//! manifest and a walk, are merged as they come, whatever their size.

use std::cmp::Ordering;
use std::fmt;
use std::io::{self, Read, Write};

use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

use super::bounded;
use super::chunk::ChunkRef;

/// No entry is longer: a file of 1 TiB has some 4 million chunks of 50 bytes.
const MAX_ENTRY: usize = 256 << 20;
/// Linux gives no more names of extended attributes.
const MAX_ATTRIBUTES: usize = 16 << 10;

/// A path within a tree: components of any bytes but `/` and NUL, joined by `/`; never `.`, `..` or empty.
#[derive(Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct TreePath(Vec<u8>);

/// What is at a path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// Where.
    pub path: TreePath,
    /// What.
    pub kind: EntryKind,
    /// Its rights, its times and its owner.
    pub metadata: Metadata,
}

/// What every entry has beside its content, and the top of a tree, too.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Metadata {
    /// Permissions: the lower twelve bits of the mode.
    pub mode: u16,
    /// When its content was changed.
    pub modified: Timestamp,
    /// The user and the group that own it.
    pub owner: Owner,
    /// Extended attributes, by ascending name.
    #[serde(deserialize_with = "bounded::list::<MAX_ATTRIBUTES, _, _>")]
    pub attributes: Vec<(Vec<u8>, Vec<u8>)>,
}

/// Kinds of entries, and what each has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum EntryKind {
    /// A directory.
    Directory,
    /// A file and its content.
    File {
        /// In bytes.
        size: u64,
        /// Together as long as the file; between two holes there is a chunk.
        #[serde(deserialize_with = "pieces")]
        pieces: Vec<Piece>,
    },
    /// A symbolic link.
    Symlink {
        /// What it says, whatever that means.
        target: Vec<u8>,
    },
    /// Another name of a file that came before.
    HardLink {
        /// The file's first name.
        to: TreePath,
    },
}

/// A part of a file's content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Piece {
    /// So many zeros that take no space.
    Hole(u64),
    /// A chunk.
    Chunk(ChunkRef),
}

impl Piece {
    fn is_like(&self, other: &Piece) -> bool {
        match (self, other) {
            (Piece::Chunk(one), Piece::Chunk(other)) => (one.hash, one.length) == (other.hash, other.length),
            (one, other) => one == other,
        }
    }
}

/// A time as file systems keep it: seconds since 1970 and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Timestamp {
    /// Seconds since 1970, rounded down.
    pub seconds: i64,
    /// The rest.
    pub nanoseconds: u32,
}

/// A user and a group, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Owner {
    /// The user.
    pub user: u32,
    /// The group.
    pub group: u32,
}

/// Reads the pieces of a file: as each hole takes two bytes of a manifest, they are counted while they come.
fn pieces<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<Piece>, D::Error> {
    struct Pieces;

    impl<'de> Visitor<'de> for Pieces {
        type Value = Vec<Piece>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("chunks, and holes between them")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Vec<Piece>, A::Error> {
            let mut pieces = Vec::new();
            while let Some(piece) = elements.next_element()? {
                let is_hole = |piece: Option<&Piece>| matches!(piece, Some(Piece::Hole(_)));
                if is_hole(pieces.last()) && is_hole(Some(&piece)) {
                    return Err(A::Error::custom("a hole behind a hole"));
                }
                pieces.push(piece);
            }
            Ok(pieces)
        }
    }
    from.deserialize_seq(Pieces)
}

impl TreePath {
    /// The top of a tree; only for telling, no manifest has it.
    pub fn top() -> TreePath {
        TreePath(b".".to_vec())
    }

    /// A path out of its bytes; none if they are not one.
    pub fn new(bytes: Vec<u8>) -> Option<TreePath> {
        let is_name = |name: &[u8]| !name.is_empty() && name != b"." && name != b".." && !name.contains(&0);
        bytes.split(|byte| *byte == b'/').all(is_name).then_some(TreePath(bytes))
    }

    /// The path of `name` in the directory `parent`; none if it cannot be a name.
    pub fn within(parent: Option<&TreePath>, name: &[u8]) -> Option<TreePath> {
        let joined = match parent {
            Some(parent) => [&parent.0, &b"/"[..], name].concat(),
            None => name.to_vec(),
        };
        if name.contains(&b'/') { None } else { TreePath::new(joined) }
    }

    /// The path of what has the path `below` in this directory.
    #[must_use]
    pub fn join(&self, below: &TreePath) -> TreePath {
        TreePath([&self.0, &b"/"[..], &below.0].concat())
    }

    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its components, from the top.
    pub fn components(&self) -> impl DoubleEndedIterator<Item = &[u8]> {
        self.0.split(|byte| *byte == b'/')
    }

    /// The directory that it is in; none at the top.
    pub fn parent(&self) -> Option<TreePath> {
        let slash = self.0.iter().rposition(|byte| *byte == b'/')?;
        Some(TreePath(self.0[..slash].to_vec()))
    }

    /// The directories that it is in, from the nearest to the one at the top.
    pub fn parents(&self) -> impl Iterator<Item = TreePath> + use<> {
        std::iter::successors(self.parent(), TreePath::parent)
    }

    /// Whether it is this directory or beneath it.
    pub fn is_within(&self, directory: &TreePath) -> bool {
        let rest = self.0.strip_prefix(directory.0.as_slice());
        rest.is_some_and(|rest| rest.first().is_none_or(|byte| *byte == b'/'))
    }
}

impl Ord for TreePath {
    fn cmp(&self, other: &TreePath) -> Ordering {
        self.components().cmp(other.components())
    }
}

impl PartialOrd for TreePath {
    fn partial_cmp(&self, other: &TreePath) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for TreePath {
    /// On one line, whatever the bytes are.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        String::from_utf8_lossy(&self.0).chars().try_for_each(|character| {
            if character.is_control() {
                write!(f, "{}", character.escape_default())
            } else {
                write!(f, "{character}")
            }
        })
    }
}

impl fmt::Debug for TreePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

impl Entry {
    /// The size of a file's content; zero of everything else.
    pub fn size(&self) -> u64 {
        if let EntryKind::File { size, .. } = &self.kind { *size } else { 0 }
    }

    /// Whether it is of the same kind as `other`, and has the same content, wherever that is kept.
    pub fn has_content_of(&self, other: &Entry) -> bool {
        match (&self.kind, &other.kind) {
            (EntryKind::File { pieces, .. }, EntryKind::File { pieces: others, .. }) => {
                pieces.len() == others.len()
                    && pieces.iter().zip(others).all(|(one, other)| one.is_like(other))
            }
            (one, other) => one == other,
        }
    }

    /// The chunks of a file.
    pub fn chunks(&self) -> impl Iterator<Item = &ChunkRef> {
        let pieces = if let EntryKind::File { pieces, .. } = &self.kind { pieces.as_slice() } else { &[] };
        pieces.iter().filter_map(|piece| if let Piece::Chunk(chunk) = piece { Some(chunk) } else { None })
    }

    /// The same, to say that they are somewhere else.
    pub fn chunks_mut(&mut self) -> impl Iterator<Item = &mut ChunkRef> {
        let pieces =
            if let EntryKind::File { pieces, .. } = &mut self.kind { pieces.as_mut_slice() } else { &mut [] };
        pieces.iter_mut().filter_map(|piece| if let Piece::Chunk(chunk) = piece { Some(chunk) } else { None })
    }

    pub(super) fn is_sound(&self) -> bool {
        let length = |piece: &Piece| match piece {
            Piece::Hole(length) => *length,
            Piece::Chunk(chunk) => u64::from(chunk.length),
        };
        let is_path = |path: &TreePath| TreePath::new(path.0.clone()).is_some();
        let kind_is_sound = match &self.kind {
            EntryKind::File { size, pieces } => {
                self.chunks().all(ChunkRef::is_sound)
                    && pieces.iter().try_fold(0_u64, |sum, piece| sum.checked_add(length(piece)))
                        == Some(*size)
            }
            EntryKind::HardLink { to } => is_path(to) && *to < self.path,
            EntryKind::Symlink { target } => !target.is_empty() && !target.contains(&0),
            EntryKind::Directory => true,
        };
        kind_is_sound && is_path(&self.path) && self.metadata.is_sound()
    }
}

impl Metadata {
    pub(super) fn is_sound(&self) -> bool {
        let is_name = |name: &[u8]| !name.is_empty() && !name.contains(&0);
        self.mode <= 0o7777
            && self.modified.nanoseconds < 1_000_000_000
            && self.attributes.iter().all(|(name, _)| is_name(name))
            && self.attributes.is_sorted_by(|(one, _), (next, _)| one < next)
    }
}

/// Why a manifest cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum BadManifest {
    /// Reading failed.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// It is damaged, or somebody made it up: its chunks had the right hashes.
    #[error("the manifest breaks off or is damaged behind {after:?}")]
    Damaged {
        /// The last entry that was right.
        after: Option<TreePath>,
    },
}

/// Writes a manifest.
#[derive(Debug)]
pub struct EntryWriter<W> {
    to: W,
    /// How many entries were written, and how many bytes their files have.
    pub entries: u64,
    /// Bytes of their files.
    pub bytes: u64,
}

impl<W: Write> EntryWriter<W> {
    /// Writes to `to`, which should have a buffer.
    pub fn new(to: W) -> EntryWriter<W> {
        EntryWriter { to, entries: 0, bytes: 0 }
    }

    /// Writes the next entry, which is greater than the one before.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&mut self, entry: &Entry) -> io::Result<()> {
        let body = postcard::to_stdvec(entry).map_err(io::Error::other)?;
        self.to.write_all(&(body.len() as u32).to_le_bytes())?;
        self.to.write_all(&body)?;
        self.entries += 1;
        self.bytes += entry.size();
        Ok(())
    }

    /// Gives back what it writes to.
    ///
    /// # Errors
    /// If the rest cannot be written.
    pub fn finish(mut self) -> io::Result<W> {
        self.to.flush()?;
        Ok(self.to)
    }
}

/// Reads a manifest, entry by entry.
#[derive(Debug)]
pub struct EntryReader<R> {
    from: R,
    last: Option<TreePath>,
}

impl<R: Read> EntryReader<R> {
    /// Reads from `from`, which should have a buffer.
    pub fn new(from: R) -> EntryReader<R> {
        EntryReader { from, last: None }
    }

    /// The next entry; none at the end. Entries ascend, and each is possible by itself.
    ///
    /// # Errors
    /// If there is something else.
    pub fn read(&mut self) -> Result<Option<Entry>, BadManifest> {
        let mut length = [0; 4];
        match self.from.read(&mut length[..1])? {
            0 => return Ok(None),
            _ => self.from.read_exact(&mut length[1..]).map_err(|error| self.broken(error))?,
        }
        let length = u32::from_le_bytes(length) as usize;
        let mut body = Vec::new();
        (&mut self.from).take(length.min(MAX_ENTRY) as u64).read_to_end(&mut body)?;
        let entry: Option<Entry> = postcard::from_bytes(&body).ok();
        let ascends = |entry: &Entry| self.last.as_ref().is_none_or(|last| *last < entry.path);
        match entry.filter(|entry| body.len() == length && entry.is_sound() && ascends(entry)) {
            None => Err(BadManifest::Damaged { after: self.last.clone() }),
            Some(entry) => {
                self.last = Some(entry.path.clone());
                Ok(Some(entry))
            }
        }
    }

    fn broken(&self, error: io::Error) -> BadManifest {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => BadManifest::Damaged { after: self.last.clone() },
            _ => BadManifest::Io(error),
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use proptest::prelude::*;

    pub(in crate::replication) fn file(path: &str, size: u64) -> Entry {
        Entry {
            path: TreePath::new(path.as_bytes().to_vec()).expect("a path"),
            kind: EntryKind::File { size, pieces: vec![Piece::Hole(size)] },
            metadata: metadata(),
        }
    }

    pub(in crate::replication) fn metadata() -> Metadata {
        Metadata {
            mode: 0o644,
            modified: Timestamp { seconds: 1, nanoseconds: 2 },
            owner: Owner { user: 0, group: 0 },
            attributes: Vec::new(),
        }
    }

    #[test]
    fn a_walk_ascends() {
        let walk = ["a", "a/b", "a/b/c", "a/d", "a b", "a.b", "b"].map(|path| file(path, 0).path);
        assert!(walk.is_sorted());
        assert!(walk[2].is_within(&walk[0]) && walk[0].is_within(&walk[0]) && !walk[4].is_within(&walk[0]));
        assert_eq!(walk[2].parent(), Some(walk[1].clone()));
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for wrong in ["", "/a", "a/", "a//b", ".", "a/../b", "..", "a\0b"] {
            assert_eq!(TreePath::new(wrong.as_bytes().to_vec()), None, "{wrong:?}");
        }
        assert_eq!(TreePath::within(None, b"a/b"), None);
        assert_eq!(TreePath::new(b"a\n\xff".to_vec()).expect("names may be so").to_string(), "a\\n\u{fffd}");
    }

    #[test]
    fn entries_that_cannot_be_are_refused() {
        let mut too_short = file("a", 5);
        too_short.kind = EntryKind::File { size: 5, pieces: vec![Piece::Hole(4)] };
        let mut riddled = file("a", 5);
        riddled.kind = EntryKind::File { size: 5, pieces: vec![Piece::Hole(4), Piece::Hole(1)] };
        let mut endless = file("a", 5);
        endless.kind = EntryKind::File { size: 5, pieces: vec![Piece::Hole(u64::MAX), Piece::Hole(6)] };
        let upwards = Entry { path: TreePath(b"../a".to_vec()), ..file("a", 5) };
        for wrong in [too_short, riddled, endless, upwards] {
            let mut writer = EntryWriter::new(Vec::new());
            writer.write(&wrong).expect("memory");
            let bytes = writer.finish().expect("memory");
            assert!(
                matches!(EntryReader::new(&bytes[..]).read(), Err(BadManifest::Damaged { .. })),
                "{wrong:?}"
            );
        }
    }

    proptest! {
        #[test]
        fn manifests_come_back_and_cut_ones_do_not(sizes in proptest::collection::vec(0_u64..9, 1..20)) {
            let entries: Vec<Entry> =
                sizes.iter().enumerate().map(|(number, size)| file(&format!("{number:03}"), *size)).collect();
            let mut writer = EntryWriter::new(Vec::new());
            let mut ends = vec![0];
            for entry in &entries {
                writer.write(entry).expect("memory");
                ends.push(writer.to.len());
            }
            prop_assert_eq!((writer.entries, writer.bytes), (entries.len() as u64, sizes.iter().sum::<u64>()));
            let bytes = writer.finish().expect("memory");
            for cut in 0..=bytes.len() {
                let mut reader = EntryReader::new(&bytes[..cut]);
                let mut read = Vec::new();
                let end = loop {
                    match reader.read() {
                        Ok(Some(entry)) => read.push(entry),
                        end => break end,
                    }
                };
                prop_assert_eq!(end.is_ok(), ends.contains(&cut));
                prop_assert_eq!(&read[..], &entries[..read.len()]);
            }
        }
    }
}
