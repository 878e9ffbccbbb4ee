//! What keeps a data set, and how it is read.

use std::io::{self, Write as _};

use bytes::Bytes;

use super::meter::Meter;
use super::read_ahead::ReadAhead;
use super::spool::ManifestFile;
use super::walk::words;
use crate::replication::{
    BadCommit, BadManifest, ChunkError, ChunkRef, Commit, Generation, Hash, MANIFEST_CHUNKS,
};

/// What keeps a data set: append-only objects, a journal, and a commit record that is replaced as a whole.
#[allow(async_fn_in_trait, reason = "runs hold their store by value; no other thread has it")]
pub trait Store {
    /// Why something does not work.
    type Error: std::error::Error + Clone + Send + Sync + From<<Self::Objects as Objects>::Error> + 'static;
    /// Reads objects; may be used from other tasks.
    type Objects: Objects + Clone + Send + Sync + 'static;

    /// Sees to it that nobody else writes, as long as this store lives.
    async fn lock(&self) -> Result<Locked, Self::Error>;

    /// The commit record, if there is one.
    async fn commit_record(&self) -> Result<Option<Bytes>, Self::Error>;

    /// All of the journal; empty if there is none.
    async fn journal(&self) -> Result<Bytes, Self::Error>;

    /// Puts bytes behind what was put before; they are on their way when this returns. A run appends to one object.
    async fn append(&mut self, object: u32, offset: u64, bytes: Bytes) -> Result<(), Self::Error>;

    /// Whether a checkpoint is due.
    fn checkpoint_is_due(&self) -> bool;

    /// The end of the part of the object that has arrived, without waiting for more of it.
    async fn arrived(&mut self) -> Result<u64, Self::Error>;

    /// Waits until more of the object has arrived; false if nothing is under way.
    async fn next_arrival(&mut self) -> Result<bool, Self::Error>;

    /// Begins to make everything durable that has arrived, and then `frames` in the journal at `offset`; at 0 the journal
    /// begins anew.
    async fn checkpoint(&mut self, offset: u64, frames: Vec<u8>) -> Result<(), Self::Error>;

    /// Begins to put the next commit record, durably, beside the current one.
    async fn stage(&mut self, record: Bytes) -> Result<(), Self::Error>;

    /// Waits until everything that was appended is durable, and the last checkpoint is made.
    async fn drain(&mut self) -> Result<(), Self::Error>;

    /// Makes the record that was staged the current one, durably and at once: whatever happens, there is the old one or
    /// the new one.
    async fn publish(&mut self) -> Result<(), Self::Error>;

    /// Removes an object.
    async fn remove(&mut self, object: u32) -> Result<(), Self::Error>;

    /// Reads objects.
    fn objects(&self) -> Self::Objects;
}

/// How a store was locked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Locked {
    /// Nobody had it.
    AtOnce,
    /// Somebody had it before, who has probably changed something.
    AfterWaiting,
}

/// Reads objects.
pub trait Objects {
    /// Why something does not work.
    type Error: Clone + Send + Sync + 'static;

    /// Exactly these bytes.
    fn read(
        &self,
        object: u32,
        offset: u64,
        length: u64,
    ) -> impl Future<Output = Result<Bytes, Self::Error>> + Send + 'static;
}

/// Why a run failed.
#[derive(Debug, thiserror::Error)]
pub enum ReplicationError<E: std::error::Error + 'static> {
    /// The site.
    #[error(transparent)]
    Store(E),
    /// The tree as a whole, or a temporary file.
    #[error("{place}: {}", words(error))]
    Local {
        /// Where.
        place: String,
        /// What.
        error: io::Error,
    },
    /// The commit record.
    #[error("the commit record: {0}")]
    Commit(#[from] BadCommit),
    /// A manifest.
    #[error("generation {generation}: {error}")]
    Manifest {
        /// Whose.
        generation: u64,
        /// What.
        error: BadManifest,
    },
    /// A chunk that is needed.
    #[error("object {object} at {offset}: {error}")]
    Chunk {
        /// The object.
        object: u32,
        /// Where in it.
        offset: u64,
        /// What.
        error: ChunkError,
    },
    /// There is nothing to read.
    #[error("there is no data set of that name on the site")]
    NoDataSet,
    /// There is no such generation.
    #[error("there is no generation {number}; kept are {kept}")]
    NoGeneration {
        /// Its number.
        number: u64,
        /// Those that there are.
        kept: String,
    },
    /// More would be deleted than is allowed.
    #[error("{found} entries are gone and would be deleted; --max-delete allows {allowed}")]
    TooManyDeletions {
        /// How many.
        found: u64,
        /// How many may be.
        allowed: u64,
    },
}

pub(super) type Outcome<T, S> = Result<T, ReplicationError<<S as Store>::Error>>;

/// The data set's commit record, if there is a data set.
///
/// # Errors
/// If the site cannot be asked, or the record is damaged.
pub async fn load_commit<S: Store>(store: &S) -> Outcome<Option<Commit>, S> {
    let record = store.commit_record().await.map_err(ReplicationError::Store)?;
    Ok(record.map(|record| Commit::parse(&record)).transpose()?)
}

/// Reads a generation's manifest.
///
/// # Errors
/// If the site cannot be asked, or something is damaged.
pub async fn fetch_manifest<S: Store>(
    objects: &S::Objects,
    generation: &Generation,
    meter: &Meter,
) -> Outcome<ManifestFile, S> {
    let mut manifest = tempfile::tempfile()
        .map(std::io::BufWriter::new)
        .map_err(|error| local("a temporary file", error))?;
    let list = manifest_chunks::<S>(objects, generation).await?;
    let mut chunks = ReadAhead::<S, _>::new(objects.clone(), list.clone().into_iter());
    while let Some((_, bytes)) = chunks.next(meter).await? {
        manifest.write_all(&bytes).map_err(|error| local("a temporary file", error))?;
    }
    manifest.flush().map_err(|error| local("a temporary file", error))?;
    let file = manifest.into_inner().map_err(|error| local("a temporary file", error.into_error()))?;
    Ok(ManifestFile::new(file, list))
}

/// The chunks that a generation's manifest consists of.
async fn manifest_chunks<S: Store>(
    objects: &S::Objects,
    generation: &Generation,
) -> Outcome<Vec<ChunkRef>, S> {
    let mut index = Vec::new();
    let mut chunks = ReadAhead::<S, _>::new(objects.clone(), generation.index.clone().into_iter());
    while let Some((_, bytes)) = chunks.next(&Meter::default()).await? {
        index.extend_from_slice(&bytes);
    }
    let damaged = || ReplicationError::Manifest {
        generation: generation.number,
        error: BadManifest::Damaged { after: None },
    };
    let list: Option<Vec<ChunkRef>> = postcard::from_bytes(&index).ok();
    let is_sound = |chunk: &ChunkRef| chunk.is_sound() && chunk.length as usize <= MANIFEST_CHUNKS.2;
    list.filter(|list| list.iter().all(is_sound)).ok_or_else(damaged)
}

/// What a generation's content is known by.
pub(super) fn identity(generation: &Generation) -> Hash {
    let hashes: Vec<[u8; 32]> = generation.index.iter().map(|chunk| *chunk.hash.as_bytes()).collect();
    Hash::of(&hashes.concat())
}

pub(super) fn local<E: std::error::Error>(place: impl ToString, error: io::Error) -> ReplicationError<E> {
    ReplicationError::Local { place: place.to_string(), error }
}
