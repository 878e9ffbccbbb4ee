//! What this machine remembers of data sets: manifests of generations, so that they need not travel again, and the
//! newest record that it has seen, so that nobody can take a data set back unnoticed.
//!
//! ```text
//! TOKEN          the manifest of the latest generation that was read or sent
//! seen-HASH      number, hash and token of the newest record; HASH is of site, data set and the first I/O node's key
//! name-HASH      the data set's name, so that one that has vanished can be told
//!
//! manifest =
//! identity of the generation, 32 bytes · BLAKE3 hash of the rest, 32 bytes ·
//! length of the list (u32, little-endian) · list of the manifest's chunks (postcard) · manifest
//! ```

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::dataset::Site;
use super::job::Job;
use super::manifests::identity;
use super::spool::ManifestFile;
use crate::name::SubfilePath;
use crate::replication::{ChunkRef, Generation, Hash, SignedRecord, Token};

const HASH: usize = 32;
/// How files are called that have the name of a data set.
const NAME: &str = "name-";

/// A folder with a manifest for each data set, the latest one, and what was last seen of it.
///
/// It may be removed at any time: then manifests travel again, and a data set that has gone back cannot be told. What
/// is damaged counts as missing.
#[derive(Debug, Clone)]
pub struct ManifestCache {
    folder: Option<PathBuf>,
}

impl ManifestCache {
    /// In a folder that need not exist.
    pub fn in_folder(folder: &Path) -> ManifestCache {
        ManifestCache { folder: Some(folder.to_owned()) }
    }

    /// None at all.
    pub fn none() -> ManifestCache {
        ManifestCache { folder: None }
    }

    /// The manifest of a generation, if it is here and whole.
    pub fn find(&self, token: Token, generation: &Generation) -> Option<ManifestFile> {
        read(&self.path(token)?, generation).ok().flatten()
    }

    /// Remembers a manifest. What does not work costs only time, the next time.
    pub fn put(&self, token: Token, generation: &Generation, manifest: &ManifestFile) {
        let Some(path) = self.path(token) else { return };
        // There is nobody to tell.
        let _ = write(&path, generation, manifest);
    }

    /// The newest record of the job's data set that this machine has seen.
    pub(super) fn seen(&self, job: &Job) -> Option<Seen> {
        let bytes = fs::read(self.seen_path(job)?).ok()?;
        let (body, hash) = bytes.split_last_chunk::<HASH>()?;
        (Hash::of(body).as_bytes() == hash).then(|| postcard::from_bytes(body).ok())?
    }

    /// Remembers a record, unless a newer one is remembered already. What does not work makes this machine less
    /// watchful.
    pub(super) fn remember(&self, job: &Job, record: &SignedRecord) {
        let Some(path) = self.seen_path(job) else { return };
        let seen = Seen { token: record.token, number: record.number, hash: record.hash() };
        let before = self.seen(job);
        self.remember_name(job);
        if before == Some(seen) {
            return;
        }
        let is_older = before.is_some_and(|before| before.token == seen.token && before.number > seen.number);
        if is_older && !job.accepts_older {
            return;
        }
        // There is nobody to tell.
        let _ = write_seen(&path, &seen);
    }

    /// The data sets of a site that this machine has seen; `key` is that of the first I/O node.
    pub fn datasets_of(&self, site: &Site, key: [u8; 32]) -> BTreeSet<SubfilePath> {
        let entries = self.folder.as_ref().and_then(|folder| fs::read_dir(folder).ok());
        let known = |entry: io::Result<fs::DirEntry>| {
            let entry = entry.ok()?;
            let hash = entry.file_name().to_str()?.strip_prefix(NAME)?.to_owned();
            // What belongs to another site, or is damaged, has another hash.
            let name = fs::read_to_string(entry.path()).ok()?;
            let is_of_site = place_of(&site.name, &name, site.io_nodes.first()?, key).to_string() == hash;
            SubfilePath::new(&name).ok().filter(|_| is_of_site)
        };
        entries.into_iter().flatten().filter_map(known).collect()
    }

    fn remember_name(&self, job: &Job) {
        let (Some(folder), Some(place)) = (&self.folder, place_of_job(job)) else { return };
        let path = folder.join(format!("{NAME}{place}"));
        if !path.exists() {
            // There is nobody to tell.
            let _ = fs::create_dir_all(folder).and_then(|()| fs::write(&path, job.dataset.name()));
        }
    }

    fn seen_path(&self, job: &Job) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(format!("seen-{}", place_of_job(job)?)))
    }

    /// A place for what a command has to remember about a data set.
    pub(super) fn path_of(&self, name: &str) -> Option<PathBuf> {
        Some(self.folder.as_ref()?.join(name))
    }

    fn path(&self, token: Token) -> Option<PathBuf> {
        let name: String = token.0.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(self.folder.as_ref()?.join(name))
    }
}

/// What stands for a data set in the names of files.
fn place_of(site: &str, dataset: &str, first_io_node: &str, key: [u8; 32]) -> Hash {
    Hash::of(&[site.as_bytes(), dataset.as_bytes(), first_io_node.as_bytes(), &key].join(&0))
}

fn place_of_job(job: &Job) -> Option<Hash> {
    let first = job.dataset.io_nodes().first()?;
    let key = job.keys.get(first).copied().unwrap_or_default();
    Some(place_of(job.dataset.site(), job.dataset.name(), first, key))
}

/// A record that this machine has seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Seen {
    pub(super) token: Token,
    pub(super) number: u64,
    pub(super) hash: Hash,
}

fn write_seen(path: &Path, seen: &Seen) -> io::Result<()> {
    let mut bytes = postcard::to_stdvec(seen).map_err(io::Error::other)?;
    let hash = Hash::of(&bytes);
    bytes.extend_from_slice(hash.as_bytes());
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(&bytes)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn read(path: &Path, generation: &Generation) -> io::Result<Option<ManifestFile>> {
    let mut file = File::open(path)?;
    let mut head = [0; 2 * HASH];
    file.read_exact(&mut head)?;
    let (identity_found, hash) = head.split_at(HASH);
    if identity_found != identity(generation).as_bytes() {
        return Ok(None);
    }
    let mut rest = Hashing { file: io::BufReader::new(file), hasher: blake3::Hasher::new() };
    let mut length = [0; 4];
    rest.read_exact(&mut length)?;
    let mut list = Vec::new();
    (&mut rest).take(u32::from_le_bytes(length).into()).read_to_end(&mut list)?;
    let mut manifest = tempfile::tempfile()?;
    io::copy(&mut rest, &mut manifest)?;
    let chunks: Vec<ChunkRef> = postcard::from_bytes(&list).map_err(io::Error::other)?;
    let is_whole = rest.hasher.finalize().as_bytes() == hash;
    Ok(is_whole.then(|| ManifestFile::new(manifest, chunks)))
}

fn write(path: &Path, generation: &Generation, manifest: &ManifestFile) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(identity(generation).as_bytes())?;
    file.write_all(&[0; HASH])?;
    let list = postcard::to_stdvec(manifest.chunks()).map_err(io::Error::other)?;
    let head = [&(list.len() as u32).to_le_bytes()[..], &list].concat();
    let mut rest =
        Hashing { file: io::Cursor::new(head).chain(manifest.bytes()?), hasher: blake3::Hasher::new() };
    io::copy(&mut rest, &mut file)?;
    file.seek(io::SeekFrom::Start(HASH as u64))?;
    file.write_all(rest.hasher.finalize().as_bytes())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Hashes what is read.
struct Hashing<R> {
    file: R,
    hasher: blake3::Hasher,
}

impl<R: io::Read> io::Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.hasher.update(&buffer[..read]);
        Ok(read)
    }
}
