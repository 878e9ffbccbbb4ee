//! A part of a generation, as if it were all of it.

use std::collections::BTreeMap;
use std::io;

use super::filter::Filter;
use super::spool::ManifestFile;
use crate::replication::{Entry, EntryKind, Generation, Metadata, TreePath};

/// A part of a tree, whose paths begin below it.
#[derive(Debug)]
pub struct Subtree {
    /// The metadata of its top; of a single file, of the directory that it is in.
    pub top: Metadata,
    /// Its entries.
    pub manifest: ManifestFile,
}

impl Subtree {
    /// What is at `path`: the content of a directory, or a single file, link, or whatever it is. A file that has
    /// another name outside is a file here.
    ///
    /// Gives none if nothing is at that path.
    ///
    /// # Errors
    /// If the manifest, or a temporary file, cannot be read or written.
    pub fn of(
        generation: &Generation,
        manifest: &ManifestFile,
        path: &TreePath,
    ) -> io::Result<Option<Subtree>> {
        let mut names = OtherNames::of(manifest, Side::Inside(path))?;
        let mut above = generation.top.clone();
        let mut top = None;
        let mut inside = ManifestFile::writer()?;
        let mut entries = manifest.entries()?;
        while let Some(entry) = entries.read().map_err(io::Error::other)? {
            names.note(&entry);
            let is_directory = entry.kind == EntryKind::Directory;
            if entry.path == *path && is_directory {
                top = Some(entry.metadata);
            } else if entry.path.is_within(path) {
                let directory = if top.is_some() { Some(path.clone()) } else { path.parent() };
                top.get_or_insert_with(|| above.clone());
                inside.write(&names.on_its_own(entry, directory.as_ref())?)?;
            } else if is_directory && path.is_within(&entry.path) {
                above = entry.metadata;
            }
        }
        let Some(top) = top else { return Ok(None) };
        Ok(Some(Subtree { top, manifest: ManifestFile::written(inside)? }))
    }

    /// The manifest without what is at `path`. A file that has another name there is a file here.
    ///
    /// # Errors
    /// If the manifest, or a temporary file, cannot be read or written.
    pub(super) fn around(manifest: &ManifestFile, path: &TreePath) -> io::Result<ManifestFile> {
        side_of(manifest, Side::Outside(path))
    }

    /// What takes part of a manifest. A file that has another name which does not is a file here.
    ///
    /// # Errors
    /// If the manifest, or a temporary file, cannot be read or written.
    pub(super) fn admitted(manifest: &ManifestFile, filter: &Filter) -> io::Result<ManifestFile> {
        side_of(manifest, Side::Admitted(filter))
    }
}

/// The entries of that side, where they are.
fn side_of(manifest: &ManifestFile, side: Side<'_>) -> io::Result<ManifestFile> {
    let mut names = OtherNames::of(manifest, side)?;
    let (mut written, mut entries) = (ManifestFile::writer()?, manifest.entries()?);
    while let Some(entry) = entries.read().map_err(io::Error::other)? {
        names.note(&entry);
        if side.has(&entry.path, entry.kind == EntryKind::Directory) {
            written.write(&names.on_its_own(entry, None)?)?;
        }
    }
    ManifestFile::written(written)
}

/// A part of a tree.
#[derive(Clone, Copy)]
enum Side<'a> {
    /// What is at this path and beneath it.
    Inside(&'a TreePath),
    /// Everything else.
    Outside(&'a TreePath),
    /// What the filter lets take part.
    Admitted(&'a Filter),
}

impl Side<'_> {
    fn has(&self, path: &TreePath, is_directory: bool) -> bool {
        match self {
            Side::Inside(top) => path.is_within(top),
            Side::Outside(top) => !path.is_within(top),
            Side::Admitted(filter) => filter.admits_with_parents(path, is_directory),
        }
    }

    /// The same of a name of a file.
    fn has_file(&self, path: &TreePath) -> bool {
        self.has(path, false)
    }
}

/// Files on the other side that have names on this side, too.
struct OtherNames<'a> {
    /// What each of the files is, by its name on the other side, once that has been read.
    files: BTreeMap<TreePath, Option<EntryKind>>,
    /// The first name on this side, by the name on the other one.
    first: BTreeMap<TreePath, TreePath>,
    side: Side<'a>,
}

impl<'a> OtherNames<'a> {
    /// The files that links of this side lead to on the other one.
    fn of(manifest: &ManifestFile, side: Side<'a>) -> io::Result<OtherNames<'a>> {
        let (mut files, mut entries) = (BTreeMap::new(), manifest.entries()?);
        while let Some(entry) = entries.read().map_err(io::Error::other)? {
            if let EntryKind::HardLink { to } = entry.kind
                && side.has_file(&entry.path)
                && !side.has_file(&to)
            {
                files.insert(to, None);
            }
        }
        Ok(OtherNames { files, first: BTreeMap::new(), side })
    }

    /// Remembers what the entry is if it is one of those files. Links lead to smaller paths, so it comes before its
    /// names on this side.
    fn note(&mut self, entry: &Entry) {
        if let Some(file) = self.files.get_mut(&entry.path) {
            *file = Some(entry.kind.clone());
        }
    }

    /// An entry of this side as it is without the other one, where paths begin below `directory`.
    fn on_its_own(&mut self, entry: Entry, directory: Option<&TreePath>) -> io::Result<Entry> {
        let path = below(directory, &entry.path);
        let kind = match entry.kind {
            EntryKind::HardLink { to } if self.side.has_file(&to) => {
                EntryKind::HardLink { to: below(directory, &to) }
            }
            EntryKind::HardLink { to } => match self.first.get(&to) {
                Some(first) => EntryKind::HardLink { to: first.clone() },
                None => {
                    let file = self.files.get(&to).cloned().flatten();
                    let file = file.filter(|kind| matches!(kind, EntryKind::File { .. }));
                    let gone = || {
                        io::Error::other(format!("{}: {to}, of which it is a name, is no file", entry.path))
                    };
                    self.first.insert(to.clone(), path.clone());
                    file.ok_or_else(gone)?
                }
            },
            other => other,
        };
        Ok(Entry { path, kind, ..entry })
    }
}

/// The rest of a path in that directory.
fn below(directory: Option<&TreePath>, path: &TreePath) -> TreePath {
    let skipped = directory.map_or(0, |directory| directory.as_bytes().len() + 1);
    let rest = path.as_bytes().get(skipped..).unwrap_or_default();
    TreePath::new(rest.to_vec()).expect("the end of a path, from a slash on, is a path")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::{Owner, Piece, Timestamp};

    fn path(text: &str) -> TreePath {
        TreePath::new(text.into()).expect("a path")
    }

    fn metadata(mode: u16) -> Metadata {
        let (owner, modified) = (Owner { user: 0, group: 0 }, Timestamp { seconds: 0, nanoseconds: 0 });
        Metadata { mode, modified, owner, attributes: Vec::new() }
    }

    fn entry(name: &str, mode: u16, kind: EntryKind) -> Entry {
        Entry { path: path(name), metadata: metadata(mode), kind }
    }

    fn file(length: u64) -> EntryKind {
        EntryKind::File { size: length, pieces: vec![Piece::Hole(length)] }
    }

    fn link(to: &str) -> EntryKind {
        EntryKind::HardLink { to: path(to) }
    }

    /// A tree of a few files, and links in and out of `photos/summer`.
    fn tree() -> (Generation, ManifestFile) {
        let entries = [
            entry("a", 0o600, file(1)),
            entry("photos", 0o711, EntryKind::Directory),
            entry("photos/summer", 0o750, EntryKind::Directory),
            entry("photos/summer/beach", 0o755, EntryKind::Directory),
            entry("photos/summer/beach/x", 0o600, link("a")),
            entry("photos/summer/beach/y", 0o644, file(2)),
            entry("photos/summer/z", 0o600, link("a")),
            entry("photos/summer/zz", 0o644, link("photos/summer/beach/y")),
            entry("photos/summer2", 0o644, file(3)),
        ];
        let mut writer = ManifestFile::writer().expect("a temporary file");
        entries.iter().for_each(|entry| writer.write(entry).expect("written"));
        let generation = Generation {
            number: 1,
            published_ms: 0,
            entries: entries.len() as u64,
            bytes: 0,
            top: metadata(0o700),
            index: Vec::new(),
            objects: Vec::new(),
        };
        (generation, ManifestFile::written(writer).expect("written"))
    }

    /// The mode of the top, and the entries, of what is at that path.
    fn at(text: &str) -> Option<(u16, Vec<Entry>)> {
        let (generation, manifest) = tree();
        let subtree = Subtree::of(&generation, &manifest, &path(text)).expect("a sound manifest")?;
        let mut entries = subtree.manifest.entries().expect("a temporary file");
        let entries = std::iter::from_fn(|| entries.read().expect("entries in order"));
        Some((subtree.top.mode, entries.collect()))
    }

    #[test]
    fn a_directory_becomes_a_tree_and_files_with_names_outside_are_files() {
        let inside = vec![
            entry("beach", 0o755, EntryKind::Directory),
            entry("beach/x", 0o600, file(1)),
            entry("beach/y", 0o644, file(2)),
            entry("z", 0o600, link("beach/x")),
            entry("zz", 0o644, link("beach/y")),
        ];
        assert_eq!(at("photos/summer"), Some((0o750, inside)));
    }

    #[test]
    fn a_single_file_is_a_tree_of_one_entry() {
        assert_eq!(at("photos/summer2"), Some((0o711, vec![entry("summer2", 0o644, file(3))])));
        assert_eq!(at("a"), Some((0o700, vec![entry("a", 0o600, file(1))])));
        assert_eq!(at("photos/summer/zz"), Some((0o750, vec![entry("zz", 0o644, file(2))])));
    }

    #[test]
    fn where_nothing_is_there_is_no_tree() {
        assert_eq!((at("photos/winter"), at("photos/summer2/x"), at("phot")), (None, None, None));
    }
}
