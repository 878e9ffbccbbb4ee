//! Manifests of generations that this machine has seen, so that they need not travel again.
//!
//! ```text
//! identity of the generation, 32 bytes · BLAKE3 hash of the rest, 32 bytes ·
//! length of the list (u32, little-endian) · list of the manifest's chunks (postcard) · manifest
//! ```

use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, Write as _};
use std::path::{Path, PathBuf};

use super::spool::ManifestFile;
use super::store::identity;
use crate::replication::{ChunkRef, Generation, Token};

const HASH: usize = 32;

/// A folder with a manifest for each data set: the latest one.
///
/// It may be removed at any time. A manifest that is damaged counts as missing.
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

    fn path(&self, token: Token) -> Option<PathBuf> {
        let name: String = token.0.iter().map(|byte| format!("{byte:02x}")).collect();
        Some(self.folder.as_ref()?.join(name))
    }
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
