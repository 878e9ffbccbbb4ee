//! Manifests of generations, from this machine or from the site.

use std::io::{self, Write as _};
use std::sync::Arc;

use super::error::{FailureKind, Outcome, ReplicationError, temporary};
use super::job::Job;
use super::meter::Meter;
use super::objects::{Objects, Source};
use super::read_ahead::ReadAhead;
use super::spool::ManifestFile;
use crate::replication::{
    BadManifest, ChunkRef, Generation, Hash, MANIFEST_CHUNKS, MAX_INDEX_CHUNKS, SignedRecord,
};

/// A generation's manifest, from this machine if it has been here before.
///
/// # Errors
/// If the site cannot be asked, or something is damaged.
pub async fn load_manifest(
    job: &Job,
    record: &Arc<SignedRecord>,
    generation: &Generation,
) -> Outcome<ManifestFile> {
    if let Some(manifest) = job.cache.find(record.token, generation) {
        return Ok(manifest);
    }
    let objects = Objects::new(job, record, Source::Cache);
    let fetched = fetch_manifest(&objects, generation, &job.meter).await;
    let manifest = fetched.map_err(|error| of_manifest(generation, error))?;
    if generation.number == record.current {
        job.cache.put(record.token, generation, &manifest);
    }
    Ok(manifest)
}

/// Reads a generation's manifest from the site.
///
/// # Errors
/// If the site cannot be asked, or something is damaged.
pub async fn fetch_manifest(
    objects: &Objects,
    generation: &Generation,
    meter: &Meter,
) -> Outcome<ManifestFile> {
    let mut manifest = tempfile::tempfile().map(io::BufWriter::new).map_err(temporary)?;
    let list = manifest_chunks(objects, generation).await?;
    let mut chunks = ReadAhead::new(objects.clone(), list.clone().into_iter());
    while let Some((_, bytes)) = chunks.next(meter).await? {
        manifest.write_all(&bytes).map_err(temporary)?;
    }
    let file = manifest.into_inner().map_err(|error| temporary(error.into_error()))?;
    Ok(ManifestFile::new(file, list))
}

/// The chunks that a generation's manifest consists of.
pub(super) async fn manifest_chunks(objects: &Objects, generation: &Generation) -> Outcome<Vec<ChunkRef>> {
    let mut index = Vec::new();
    let mut chunks = ReadAhead::new(objects.clone(), generation.index.clone().into_iter());
    while let Some((_, bytes)) = chunks.next(&Meter::default()).await? {
        index.extend_from_slice(&bytes);
    }
    debug_assert!(generation.index.len() <= MAX_INDEX_CHUNKS, "a record with more is refused");
    let list: Option<Vec<ChunkRef>> = postcard::from_bytes(&index).ok();
    let is_sound = |chunk: &ChunkRef| chunk.is_sound() && chunk.length as usize <= MANIFEST_CHUNKS.2;
    list.filter(|list| list.iter().all(is_sound)).ok_or_else(|| damaged(generation))
}

/// Hands out all chunks of a manifest, and those that it is kept in.
pub(super) fn chunks_of(manifest: &ManifestFile, mut take: impl FnMut(&ChunkRef)) -> io::Result<()> {
    let mut entries = manifest.entries()?;
    while let Some(entry) = entries.read().map_err(io::Error::other)? {
        entry.chunks().for_each(&mut take);
    }
    manifest.chunks().iter().for_each(take);
    Ok(())
}

/// What is lost or damaged of a manifest is told with the generation: places in objects mean nothing to anybody.
pub(super) fn of_manifest(generation: &Generation, error: ReplicationError) -> ReplicationError {
    match error {
        error @ ReplicationError::Manifest { .. } => error,
        error if error.kind() == FailureKind::Integrity => {
            ReplicationError::Manifest { generation: generation.number, error: error.to_string().into() }
        }
        error => error,
    }
}

fn damaged(generation: &Generation) -> ReplicationError {
    let error = BadManifest::Damaged { after: None }.into();
    ReplicationError::Manifest { generation: generation.number, error }
}

/// What a generation's content is known by.
pub(super) fn identity(generation: &Generation) -> Hash {
    let hashes: Vec<[u8; 32]> = generation.index.iter().map(|chunk| *chunk.hash.as_bytes()).collect();
    Hash::of(&hashes.concat())
}
