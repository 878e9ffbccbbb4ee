//! The names of files in memory, and which of them a power loss leaves.

use std::collections::{BTreeMap, BTreeSet};

use crate::name::{EntryName, SubfilePath};
use crate::remote_error::ErrorKind;

/// A file, whatever its names are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Node(u64);

/// Names as they are, as they are on the disk, and the changes between the two.
#[derive(Debug, Clone, Default)]
pub(super) struct Names {
    now: BTreeMap<SubfilePath, Node>,
    /// Every folder that was made for a file. A folder without files does not survive a power loss.
    folders: BTreeSet<SubfilePath>,
    on_disk: BTreeMap<SubfilePath, Node>,
    pending: Vec<Change>,
    next: u64,
    renames_by_link: bool,
}

/// A change of names that happens or does not, whatever happens to the power.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Change {
    node: Node,
    /// The name that goes.
    old: Option<SubfilePath>,
    /// The name that comes; another file that has it loses it.
    new: Option<SubfilePath>,
}

/// A child of a folder: a file, or, as none, a folder.
pub(super) type Children = BTreeMap<EntryName, Option<Node>>;

impl Names {
    pub(super) fn rename_by_links(&mut self) {
        self.renames_by_link = true;
    }

    pub(super) fn get(&self, path: &SubfilePath) -> Option<Node> {
        self.now.get(path).copied()
    }

    pub(super) fn paths(&self) -> impl Iterator<Item = &SubfilePath> {
        self.now.keys()
    }

    /// The files that have names, each once.
    pub(super) fn nodes(&self) -> impl Iterator<Item = Node> {
        self.now.values().copied().collect::<BTreeSet<_>>().into_iter()
    }

    /// The files that have names, and those that may have some after a power loss.
    pub(super) fn reachable(&self) -> BTreeSet<Node> {
        let pending = self.pending.iter().filter(|change| change.new.is_some()).map(|change| change.node);
        self.now.values().chain(self.on_disk.values()).copied().chain(pending).collect()
    }

    /// The file of that name.
    ///
    /// # Errors
    /// Why there is none, as a disk tells it.
    pub(super) fn resolve(&self, path: &SubfilePath) -> Result<Node, ErrorKind> {
        if let Some(node) = self.now.get(path) {
            return Ok(*node);
        }
        if self.folders.contains(path) {
            return Err(ErrorKind::IsADirectory);
        }
        match folders_above(path).any(|folder| self.now.contains_key(&folder)) {
            true => Err(ErrorKind::NotADirectory),
            false => Err(ErrorKind::NotFound),
        }
    }

    /// A new file of that name, which must be free.
    pub(super) fn link(&mut self, path: &SubfilePath) -> Node {
        let node = Node(self.next);
        self.next += 1;
        self.change(Change { node, old: None, new: Some(path.clone()) });
        node
    }

    pub(super) fn unlink(&mut self, path: &SubfilePath) {
        if let Some(node) = self.get(path) {
            self.change(Change { node, old: Some(path.clone()), new: None });
        }
    }

    /// # Errors
    /// If a file or folder is in the way.
    pub(super) fn rename(
        &mut self,
        path: &SubfilePath,
        target: &SubfilePath,
        replace: bool,
    ) -> Result<(), ErrorKind> {
        let node = self.resolve(path)?;
        match self.resolve(target) {
            Ok(_) | Err(ErrorKind::IsADirectory) if !replace => return Err(ErrorKind::AlreadyExists),
            Ok(other) if other == node => return Ok(()),
            Ok(_) | Err(ErrorKind::NotFound) => {}
            Err(kind) => return Err(kind),
        }
        let (old, new) = (Some(path.clone()), Some(target.clone()));
        if self.renames_by_link && !replace {
            self.change(Change { node, old: None, new });
            self.change(Change { node, old, new: None });
        } else {
            self.change(Change { node, old, new });
        }
        Ok(())
    }

    /// What the folder holds.
    ///
    /// # Errors
    /// If it is none.
    pub(super) fn children(&self, folder: &SubfilePath) -> Result<Children, ErrorKind> {
        if !folder.is_root() && !self.folders.contains(folder) {
            return Err(match self.resolve(folder) {
                Ok(_) => ErrorKind::NotADirectory,
                Err(kind) => kind,
            });
        }
        let child = |path: &SubfilePath| {
            let name = match folder.is_root() {
                true => path.as_str(),
                false => path.as_str().strip_prefix(folder.as_str())?.strip_prefix('/')?,
            };
            EntryName::new(name).ok()
        };
        let folders = self.folders.iter().filter_map(|path| Some((child(path)?, None)));
        let files = self.now.iter().filter_map(|(path, node)| Some((child(path)?, Some(*node))));
        Ok(folders.chain(files).collect())
    }

    /// The names in the folder of `path` are on the disk from now on, and whatever they build upon.
    pub(super) fn sync_folder_of(&mut self, path: &SubfilePath) {
        self.sync_folder(folder_of(path));
    }

    /// The names in a folder are on the disk from now on, and whatever they build upon.
    pub(super) fn sync_folder(&mut self, folder: &str) {
        let (mut needed, mut rest) = (Vec::new(), Vec::new());
        let mut touched = Touched::default();
        for change in std::mem::take(&mut self.pending).into_iter().rev() {
            let is_there = change.paths().any(|path| folder_of(path) == folder);
            if is_there || touched.has(&change) {
                touched.add(&change);
                needed.push(change);
            } else {
                rest.push(change);
            }
        }
        needed.iter().rev().for_each(|change| change.apply(&mut self.on_disk));
        self.pending = rest.into_iter().rev().collect();
    }

    /// A power loss: each change since the syncs survives if `survives` says so, but none without those before it that
    /// concern the same file or name.
    pub(super) fn crash(&mut self, survives: &mut impl FnMut() -> bool) {
        let mut lost = Touched::default();
        for change in std::mem::take(&mut self.pending) {
            if !lost.has(&change) && survives() {
                change.apply(&mut self.on_disk);
            } else {
                lost.add(&change);
            }
        }
        self.now.clone_from(&self.on_disk);
        self.folders = self.now.keys().flat_map(folders_above).collect();
    }

    fn change(&mut self, change: Change) {
        change.apply(&mut self.now);
        self.folders.extend(change.new.iter().flat_map(folders_above));
        self.pending.push(change);
    }
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<SubfilePath, Node>) {
        if let Some(old) = self.old.as_ref().filter(|old| names.get(old) == Some(&self.node)) {
            names.remove(old);
        }
        if let Some(new) = &self.new {
            names.insert(new.clone(), self.node);
        }
    }

    fn paths(&self) -> impl Iterator<Item = &SubfilePath> {
        self.old.iter().chain(&self.new)
    }
}

/// Files and names that some changes concern.
#[derive(Debug, Default)]
struct Touched {
    nodes: BTreeSet<Node>,
    paths: BTreeSet<SubfilePath>,
}

impl Touched {
    fn add(&mut self, change: &Change) {
        self.nodes.insert(change.node);
        self.paths.extend(change.paths().cloned());
    }

    fn has(&self, change: &Change) -> bool {
        self.nodes.contains(&change.node) || change.paths().any(|path| self.paths.contains(path))
    }
}

/// The folder of a path; empty for the export root.
fn folder_of(path: &SubfilePath) -> &str {
    path.as_str().rsplit_once('/').map_or("", |(folder, _)| folder)
}

fn folders_above(path: &SubfilePath) -> impl Iterator<Item = SubfilePath> + use<'_> {
    let above = path.as_str().match_indices('/').map(|(end, _)| &path.as_str()[..end]);
    above.filter_map(|folder| SubfilePath::new(folder).ok())
}
