//! Data sets: trees of files that a site keeps in generations (design §7, docs/replication.md).
//!
//! ```text
//! record n ──▶ generations ──▶ index chunk ──▶ manifest chunks ──▶ entries ──▶ chunks of files
//! │ hash       └───────────────────── all in striped objects, one for each run ──────────────┘
//! record n−1 … 1      signed, on every I/O node; the first one decides which is the next one
//! ```
//!
//! Nothing that was written is ever written again, so a reader of one generation is not disturbed by the making of the
//! next one; and a record gets its number at once or not at all. Why no published generation breaks:
//! docs/protocol/replication.md.
//!
//! Here is what needs no I/O: formats, and what follows from two lists of entries. Trees on disks and sites in an
//! overlay are in `io::replication`.

mod bounded;
mod chunk;
mod compare;
mod index;
mod journal;
mod manifest;
#[cfg(feature = "replication")]
mod packed;
pub(crate) mod record;
#[cfg(feature = "replication")]
mod solid;

#[cfg(feature = "replication")]
pub use crate::compression::Compression;
pub use chunk::{
    ChunkRef, Codec, Hash, MAX_CHUNK_BYTES, MAX_OBJECT_BYTES, MAX_SOLID_BYTES, MAX_SOLID_STORED_BYTES,
};
pub use compare::{Difference, Merge};
pub use index::{ChunkIndex, Inserted};
pub use journal::{Journal, JournalHeader, MAX_FRAME_CHUNKS, MAX_JOURNAL_BYTES};
pub use manifest::{
    BadManifest, Entry, EntryKind, EntryReader, EntryWriter, Metadata, Owner, Piece, Timestamp, TreePath,
};
#[cfg(feature = "replication")]
pub use packed::{ChunkError, Packed};
pub use record::{
    BadRecord, BadRunId, BadSuccessor, Deed, Extent, Form, Generation, Healed, MAX_INDEX_CHUNKS,
    MAX_NAME_BYTES, MAX_ORIGIN_TEXT_BYTES, MAX_RECORD_BYTES, ObjectEntry, Origin, Record, Right, RunId,
    SignedRecord, Signer, Token,
};
#[cfg(feature = "replication")]
pub use solid::{Opener, OpeningPlan, SolidPacker};

/// Sizes between which files are cut where their content says: smallest, average, largest, in bytes.
///
/// An insertion costs about two chunks; a reference of some 60 bytes for 256 KiB is 0.02 %.
pub const FILE_CHUNKS: (usize, usize, usize) = (64 << 10, 256 << 10, 1 << 20);
/// The same for manifests, which change in few places and compress well.
pub const MANIFEST_CHUNKS: (usize, usize, usize) = (16 << 10, 64 << 10, 256 << 10);
