//! A tree that is sent into a directory of a data set, and the generation around it.

use std::fs::File;
use std::io::{self, BufWriter};

use super::super::spool::ManifestFile;
use super::super::subtree::Subtree;
use super::base::OldEntries;
use crate::replication::{Entry, EntryKind, EntryReader, EntryWriter, Generation, Metadata, TreePath};

/// Where in a data set a tree goes, and what is there.
#[derive(Debug)]
pub(super) struct Place {
    /// The directory; if there is none yet, it is empty and has no metadata.
    inside: ManifestFile,
    pub(super) top: Option<Metadata>,
    path: TreePath,
    around: ManifestFile,
}

/// What makes a generation of the directory's new entries.
#[derive(Debug)]
pub(in super::super) struct Graft {
    path: TreePath,
    /// The directory's new metadata.
    top: Metadata,
    around: ManifestFile,
}

impl Place {
    /// The directory at `path` of a generation. None if nothing is there and no directory that it could be in, or
    /// something else than a directory.
    ///
    /// # Errors
    /// If the manifest, or a temporary file, cannot be read or written.
    pub(super) fn find(
        generation: Option<&Generation>,
        manifest: &ManifestFile,
        path: &TreePath,
    ) -> io::Result<Option<Place>> {
        let is_directory = |path: &TreePath| {
            let kind = kind_of(manifest, path)?;
            Ok::<_, io::Error>(kind.map(|kind| kind == EntryKind::Directory))
        };
        let has_room = match (is_directory(path)?, path.parent()) {
            (Some(is_directory), _) => is_directory,
            (None, Some(parent)) => is_directory(&parent)? == Some(true),
            (None, None) => true,
        };
        if !has_room {
            return Ok(None);
        }
        let there =
            generation.map(|generation| Subtree::of(generation, manifest, path)).transpose()?.flatten();
        let (top, inside) = match there {
            Some(Subtree { top, manifest }) => (Some(top), manifest),
            None => (None, ManifestFile::empty()?),
        };
        Ok(Some(Place { inside, top, path: path.clone(), around: Subtree::around(manifest, path)? }))
    }

    /// The entries of the directory.
    ///
    /// # Errors
    /// If the temporary file cannot be read.
    pub(super) fn entries(&self) -> io::Result<OldEntries> {
        Ok(EntryReader::new(Box::new(self.inside.bytes()?)))
    }

    /// What is to become of the place once the directory has the metadata `top`.
    pub(super) fn with_top(self, top: Metadata) -> Graft {
        Graft { path: self.path, top, around: self.around }
    }
}

/// What there is at a path.
fn kind_of(manifest: &ManifestFile, path: &TreePath) -> io::Result<Option<EntryKind>> {
    let mut entries = manifest.entries()?;
    while let Some(entry) = entries.read().map_err(io::Error::other)? {
        if entry.path >= *path {
            return Ok((entry.path == *path).then_some(entry.kind));
        }
    }
    Ok(None)
}

impl Graft {
    /// The generation with `inside` in the directory. Of each entry around it, `pass` makes what is written.
    ///
    /// # Errors
    /// If a temporary file cannot be read or written.
    pub(in super::super) fn complete(
        &self,
        inside: &ManifestFile,
        mut pass: impl FnMut(Entry) -> Entry,
    ) -> io::Result<EntryWriter<BufWriter<File>>> {
        let mut whole = ManifestFile::writer()?;
        let mut around = self.around.entries()?;
        let mut next = around.read().map_err(io::Error::other)?;
        while let Some(entry) = next.take_if(|entry| entry.path < self.path) {
            whole.write(&pass(entry))?;
            next = around.read().map_err(io::Error::other)?;
        }
        let directory =
            Entry { path: self.path.clone(), kind: EntryKind::Directory, metadata: self.top.clone() };
        whole.write(&directory)?;
        let mut entries = inside.entries()?;
        while let Some(entry) = entries.read().map_err(io::Error::other)? {
            whole.write(&self.placed(entry))?;
        }
        while let Some(entry) = next {
            whole.write(&pass(entry))?;
            next = around.read().map_err(io::Error::other)?;
        }
        Ok(whole)
    }

    /// An entry of the directory, as it is called in the data set.
    fn placed(&self, entry: Entry) -> Entry {
        let kind = match entry.kind {
            EntryKind::HardLink { to } => EntryKind::HardLink { to: self.path.join(&to) },
            other => other,
        };
        Entry { path: self.path.join(&entry.path), kind, ..entry }
    }
}
