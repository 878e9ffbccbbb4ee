//! Subfiles in memory, which know what a crash would leave of them.
//!
//! Two things survive a power loss only once they were synced: what a file holds, and which names there are. As on a
//! disk a file and its names are apart: a name that survives may lead to a file whose bytes did not, and a file that
//! was synced is lost with its name. Changes of names are atomic each, as in the journals of file systems; which of
//! them survive is up to chance, but none survives without those before it that it builds upon.

mod content;
mod names;

use std::collections::BTreeMap;

use bytes::{Bytes, BytesMut};

use super::{
    DiskAction, DiskError, DiskReply, Entry, EntryKind, FirstNames, Listing, Store, SystemCall, too_large,
};
use crate::distribution::Extent;
use crate::name::{EntryName, SubfilePath};
use crate::remote_error::ErrorKind;
use content::{Content, PAGE_BYTES};
use names::{Names, Node};

/// Subfiles in memory, sparse, with a capacity, and with what the disk would have after a power loss.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    names: Names,
    files: BTreeMap<Node, File>,
    capacity_pages: u64,
    /// Whether what is written becomes zeros that take no memory.
    forgets_bytes: bool,
}

/// A file, whatever its names are.
#[derive(Debug, Clone, Default)]
struct File {
    content: Content,
    /// What the last sync left on the disk.
    synced: Content,
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::with_capacity(u64::MAX)
    }
}

impl MemoryStore {
    /// A store that holds `bytes` bytes of written pages.
    pub fn with_capacity(bytes: u64) -> MemoryStore {
        MemoryStore {
            names: Names::default(),
            files: BTreeMap::new(),
            capacity_pages: bytes / PAGE_BYTES,
            forgets_bytes: false,
        }
    }

    /// From now on holds `bytes` bytes of written pages; what is there stays.
    pub fn set_capacity(&mut self, bytes: u64) {
        self.capacity_pages = bytes / PAGE_BYTES;
    }

    /// From now on what is written becomes zeros, which take no memory: for who measures how long it takes to write
    /// more than there is memory, and reads nothing of it but zeros.
    pub fn forget_bytes(&mut self) {
        self.forgets_bytes = true;
    }

    /// From now on a rename that replaces nothing is a second name and the removal of the first, as it is done where
    /// the file system knows no better.
    pub fn rename_by_links(&mut self) {
        self.names.rename_by_links();
    }

    /// The whole content of a subfile; none if it does not exist.
    ///
    /// # Panics
    /// If a sparse file does not fit into memory.
    pub fn content(&self, path: &str) -> Option<Vec<u8>> {
        let node = self.names.get(&SubfilePath::new(path).ok()?)?;
        let content = &self.files.get(&node)?.content;
        let mut bytes = BytesMut::new();
        content.read(Extent::between(0, content.size()), &mut bytes);
        Some(bytes.to_vec())
    }

    /// The paths of all subfiles.
    pub fn paths(&self) -> impl Iterator<Item = &SubfilePath> {
        self.names.paths()
    }

    /// The bytes that written pages take.
    pub fn used_bytes(&self) -> u64 {
        self.pages() * PAGE_BYTES
    }

    /// A bit of a subfile turns over where it is stored. Says whether there is such a bit.
    pub fn flip_bit(&mut self, path: &SubfilePath, offset: u64, bit: u8) -> bool {
        let Some(file) = self.names.get(path).and_then(|node| self.files.get_mut(&node)) else {
            return false;
        };
        file.synced.flip_bit(offset, bit);
        file.content.flip_bit(offset, bit)
    }

    /// A power loss. Of each file that was changed since its last sync every page survives if `survives` says so, and
    /// so does its size; of the names that were changed since their folder was synced each change does.
    pub fn crash(&mut self, mut survives: impl FnMut() -> bool) {
        self.names.crash(&mut survives);
        for file in self.files.values_mut() {
            let left = file.content.after_crash(&file.synced, &mut survives);
            (file.content, file.synced) = (left.clone(), left);
        }
        self.drop_nameless();
    }

    fn pages(&self) -> u64 {
        self.names.nodes().filter_map(|node| self.files.get(&node)).map(|file| file.content.pages()).sum()
    }

    /// Forgets the files that have no name any more, and get none back by a crash either.
    fn drop_nameless(&mut self) {
        let kept = self.names.reachable();
        self.files.retain(|node, _| kept.contains(node));
    }

    fn file(&mut self, path: &SubfilePath, call: SystemCall) -> Result<&mut File, DiskError> {
        let node = self.names.resolve(path).map_err(|kind| DiskError::new(call, kind, path.to_string()))?;
        Ok(self.files.entry(node).or_default())
    }

    fn content_of(&mut self, path: &SubfilePath) -> Result<&mut Content, DiskError> {
        self.file(path, SystemCall::Open).map(|file| &mut file.content)
    }

    fn write(&mut self, path: &SubfilePath, extents: &[Extent], data: &[Bytes]) -> Result<(), DiskError> {
        if self.forgets_bytes {
            let content = self.content_of(path)?;
            let end = extents.iter().map(|extent| extent.end()).max().unwrap_or(0);
            content.set_size(content.size().max(end));
            return Ok(());
        }
        let (used, capacity) = (self.pages(), self.capacity_pages);
        let content = self.content_of(path)?;
        if used + content.fresh_pages(extents) > capacity {
            return Err(DiskError::new(SystemCall::Write, ErrorKind::NoSpace, path.to_string()));
        }
        let bytes = data.concat();
        let mut rest = bytes.as_slice();
        extents.iter().for_each(|extent| content.write(*extent, &mut rest));
        Ok(())
    }

    fn create(&mut self, path: &SubfilePath, truncate: bool, exclusive: bool) -> Result<(), DiskError> {
        let failed = |kind| DiskError::new(SystemCall::Create, kind, path.to_string());
        match self.names.resolve(path) {
            Ok(_) if exclusive => return Err(failed(ErrorKind::AlreadyExists)),
            Ok(node) if truncate => self.files.entry(node).or_default().content.set_size(0),
            Ok(_) => {}
            Err(ErrorKind::NotFound) => {
                let node = self.names.link(path);
                self.files.insert(node, File::default());
            }
            Err(ErrorKind::IsADirectory) if exclusive => return Err(failed(ErrorKind::AlreadyExists)),
            Err(kind) => return Err(failed(kind)),
        }
        Ok(())
    }

    fn rename(&mut self, path: &SubfilePath, target: &SubfilePath, replace: bool) -> Result<(), DiskError> {
        self.file(path, SystemCall::Create)?;
        let failed = |kind| DiskError::new(SystemCall::Create, kind, target.to_string());
        self.names.rename(path, target, replace).map_err(failed)?;
        self.drop_nameless();
        Ok(())
    }

    fn sync(&mut self, path: &SubfilePath) -> Result<(), DiskError> {
        let file = self.file(path, SystemCall::Open)?;
        file.synced = file.content.clone();
        self.names.sync_folder_of(path);
        Ok(())
    }

    fn remove(&mut self, path: &SubfilePath) -> Result<(), DiskError> {
        self.file(path, SystemCall::Unlink)?;
        self.names.unlink(path);
        self.drop_nameless();
        Ok(())
    }

    fn read_whole(&mut self, path: &SubfilePath, limit: u64) -> Result<Bytes, DiskError> {
        let content = self.content_of(path)?;
        if content.size() > limit {
            return Err(too_large(path, content.size(), limit));
        }
        let mut data = BytesMut::new();
        content.read(Extent::between(0, content.size()), &mut data);
        Ok(data.freeze())
    }

    fn list(&self, folder: &SubfilePath, after: Option<&EntryName>) -> Result<Listing, DiskError> {
        let failed = |kind| DiskError::new(SystemCall::Open, kind, folder.to_string());
        let children = self.names.children(folder).map_err(failed)?;
        let mut first = FirstNames::new(after);
        children.keys().for_each(|name| first.push(name.clone()));
        let (names, more) = first.finish();
        let entry = |name: EntryName| {
            let file = children.get(&name).copied().flatten().and_then(|node| self.files.get(&node));
            let (kind, size) = match file {
                Some(file) => (EntryKind::File, file.content.size()),
                None => (EntryKind::Folder, 0),
            };
            Entry { name, kind, size, is_being_written: false }
        };
        Ok(Listing { entries: names.into_iter().map(entry).collect(), more })
    }
}

impl Store for MemoryStore {
    fn perform(&mut self, path: &SubfilePath, action: &DiskAction) -> Result<DiskReply, DiskError> {
        let file = self.names.get(path).and_then(|node| self.files.get(&node));
        let size_before = file.map_or(0, |file| file.content.size());
        let mut reply = DiskReply { size_before, ..DiskReply::default() };
        match action {
            DiskAction::Size | DiskAction::Uncache { .. } => drop(self.content_of(path)?),
            DiskAction::Read { extents } => {
                let (content, mut data) = (self.content_of(path)?, BytesMut::new());
                extents.iter().for_each(|extent| content.read(*extent, &mut data));
                reply.data = data.freeze();
            }
            DiskAction::ReadWhole { limit } => reply.data = self.read_whole(path, *limit)?,
            DiskAction::List { after, durable } => {
                reply.listing = self.list(path, after.as_ref())?;
                if *durable {
                    self.names.sync_folder(path.as_str());
                }
            }
            DiskAction::Write { extents, data } => self.write(path, extents, data)?,
            DiskAction::Create { truncate, exclusive, durable, .. } => {
                self.create(path, *truncate, *exclusive)?;
                if *durable {
                    self.sync(path)?;
                }
            }
            DiskAction::SetLength { length } => self.content_of(path)?.set_size(*length),
            DiskAction::Grow { length } => {
                let content = self.content_of(path)?;
                content.set_size(content.size().max(*length));
            }
            DiskAction::Sync => self.sync(path)?,
            DiskAction::Remove { durable } => {
                self.remove(path)?;
                if *durable {
                    self.names.sync_folder_of(path);
                }
            }
            DiskAction::Rename { target, replace, durable } => {
                self.rename(path, target, *replace)?;
                if *durable {
                    self.names.sync_folder_of(target);
                    self.names.sync_folder_of(path);
                }
            }
        }
        Ok(reply)
    }
}

#[cfg(test)]
mod tests;
