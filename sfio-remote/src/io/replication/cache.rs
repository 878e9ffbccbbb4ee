//! Manifests of generations that this machine has seen, so that they need not travel again.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use super::spool::ManifestFile;
use super::store::identity;
use crate::replication::{Generation, Hash, Token};

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
        let path = self.path(token)?;
        let mut file = File::open(&path).ok()?;
        let mut head = [0; 64];
        file.read_exact(&mut head).ok()?;
        let (identity_found, hash) = head.split_at(32);
        if identity_found != identity(generation).as_bytes() {
            return None;
        }
        let mut rest = tempfile::tempfile().ok()?;
        io::copy(&mut file, &mut rest).ok()?;
        let manifest = ManifestFile::from_file(rest);
        (hash_of(&manifest).ok()?.as_bytes() == hash).then_some(manifest)
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

fn write(path: &Path, generation: &Generation, manifest: &ManifestFile) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    io::Write::write_all(&mut file, identity(generation).as_bytes())?;
    io::Write::write_all(&mut file, hash_of(manifest)?.as_bytes())?;
    io::copy(&mut manifest.bytes()?, &mut file)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

fn hash_of(manifest: &ManifestFile) -> io::Result<Hash> {
    let mut hasher = blake3::Hasher::new();
    io::copy(&mut manifest.bytes()?, &mut hasher)?;
    Ok(Hash::of(hasher.finalize().as_bytes()))
}
