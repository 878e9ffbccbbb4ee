//! Subfiles in memory, which know what a crash would leave of them.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};

use super::{DiskAction, DiskError, DiskReply, Store, SystemCall};
use crate::distribution::Extent;
use crate::name::SubfilePath;
use crate::remote_error::ErrorKind;

const PAGE_BYTES: u64 = 4_096;

/// Subfiles in memory, sparse, with a capacity, and with what the disk would have after a power loss.
#[derive(Debug, Clone)]
pub struct MemoryStore {
    files: BTreeMap<SubfilePath, MemoryFile>,
    /// The files as the last sync of each left them.
    synced: BTreeMap<SubfilePath, MemoryFile>,
    capacity_pages: u64,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct MemoryFile {
    size: u64,
    /// Pages that were written; all others are zeros. Nothing lies behind `size`.
    pages: BTreeMap<u64, Box<[u8; PAGE_BYTES as usize]>>,
}

impl Default for MemoryStore {
    fn default() -> MemoryStore {
        MemoryStore::with_capacity(u64::MAX)
    }
}

impl MemoryStore {
    /// A store that holds `bytes` bytes of written pages.
    pub fn with_capacity(bytes: u64) -> MemoryStore {
        MemoryStore { files: BTreeMap::new(), synced: BTreeMap::new(), capacity_pages: bytes / PAGE_BYTES }
    }

    /// From now on holds `bytes` bytes of written pages; what is there stays.
    pub fn set_capacity(&mut self, bytes: u64) {
        self.capacity_pages = bytes / PAGE_BYTES;
    }

    /// The whole content of a subfile; none if it does not exist.
    ///
    /// # Panics
    /// If a sparse file does not fit into memory.
    pub fn content(&self, path: &str) -> Option<Vec<u8>> {
        let file = self.files.get(&SubfilePath::new(path).ok()?)?;
        let mut content = BytesMut::new();
        file.read(Extent::between(0, file.size), &mut content);
        Some(content.to_vec())
    }

    /// The paths of all subfiles.
    pub fn paths(&self) -> impl Iterator<Item = &SubfilePath> {
        self.files.keys()
    }

    /// A power loss: each page that was changed since its file's last sync survives if `survives` says so; sizes and
    /// names go back to the last sync.
    pub fn crash(&mut self, mut survives: impl FnMut() -> bool) {
        let unsynced = std::mem::replace(&mut self.files, self.synced.clone());
        for (path, file) in &mut self.files {
            let Some(newer) = unsynced.get(path) else { continue };
            let changed = newer.pages.iter().filter(|(number, page)| file.pages.get(number) != Some(page));
            let kept: Vec<_> =
                changed.filter(|_| survives()).map(|(number, page)| (*number, page.clone())).collect();
            file.pages.extend(kept);
            file.set_size(file.size);
        }
    }

    fn pages(&self) -> u64 {
        self.files.values().map(|file| file.pages.len() as u64).sum()
    }

    fn file(&mut self, path: &SubfilePath) -> Result<&mut MemoryFile, DiskError> {
        let missing = || DiskError::new(SystemCall::Open, ErrorKind::NotFound, path.to_string());
        self.files.get_mut(path).ok_or_else(missing)
    }

    fn write(&mut self, path: &SubfilePath, extents: &[Extent], data: &[Bytes]) -> Result<(), DiskError> {
        let (used, capacity) = (self.pages(), self.capacity_pages);
        let file = self.file(path)?;
        let fresh = extents.iter().flat_map(pages_of).filter(|page| !file.pages.contains_key(page)).count();
        if used + fresh as u64 > capacity {
            return Err(DiskError::new(SystemCall::Write, ErrorKind::NoSpace, path.to_string()));
        }
        let mut bytes = data.iter().flat_map(|piece| piece.iter().copied());
        for extent in extents {
            file.write(*extent, &mut bytes);
        }
        Ok(())
    }

    fn create(&mut self, path: &SubfilePath, truncate: bool) {
        let file = self.files.entry(path.clone()).or_default();
        if truncate {
            file.set_size(0);
        }
    }

    fn rename(&mut self, path: &SubfilePath, target: &SubfilePath, replace: bool) -> Result<(), DiskError> {
        self.file(path).map_err(|error| DiskError { call: SystemCall::Create, ..error })?;
        if !replace && self.files.contains_key(target) {
            return Err(DiskError::new(SystemCall::Create, ErrorKind::AlreadyExists, target.to_string()));
        }
        if let Some(file) = self.files.remove(path) {
            self.files.insert(target.clone(), file);
        }
        if let Some(synced) = self.synced.remove(path) {
            self.synced.insert(target.clone(), synced);
        }
        Ok(())
    }

    fn sync(&mut self, path: &SubfilePath) -> Result<(), DiskError> {
        let file = self.file(path)?.clone();
        self.synced.insert(path.clone(), file);
        Ok(())
    }

    fn remove(&mut self, path: &SubfilePath) -> Result<(), DiskError> {
        self.file(path).map_err(|error| DiskError { call: SystemCall::Unlink, ..error })?;
        self.files.remove(path);
        self.synced.remove(path);
        Ok(())
    }
}

impl Store for MemoryStore {
    fn perform(&mut self, path: &SubfilePath, action: &DiskAction) -> Result<DiskReply, DiskError> {
        let size_before = self.files.get(path).map_or(0, |file| file.size);
        let mut data = BytesMut::new();
        match action {
            DiskAction::Size => drop(self.file(path)?),
            DiskAction::Read { extents } => {
                let file = self.file(path)?;
                extents.iter().for_each(|extent| file.read(*extent, &mut data));
            }
            DiskAction::Write { extents, data } => self.write(path, extents, data)?,
            DiskAction::Create { truncate, durable, .. } => {
                self.create(path, *truncate);
                if *durable {
                    self.sync(path)?;
                }
            }
            DiskAction::SetLength { length } => self.file(path)?.set_size(*length),
            DiskAction::Grow { length } => {
                let file = self.file(path)?;
                file.set_size(file.size.max(*length));
            }
            DiskAction::Sync => self.sync(path)?,
            DiskAction::Remove { .. } => self.remove(path)?,
            DiskAction::Rename { target, replace, .. } => self.rename(path, target, *replace)?,
        }
        Ok(DiskReply { size_before, data: data.freeze() })
    }
}

impl MemoryFile {
    fn read(&self, extent: Extent, into: &mut BytesMut) {
        let end = extent.end().min(self.size);
        let mut offset = extent.offset();
        while offset < end {
            let (page, start) = (offset / PAGE_BYTES, (offset % PAGE_BYTES) as usize);
            let length = (PAGE_BYTES as usize - start).min((end - offset) as usize);
            match self.pages.get(&page) {
                Some(bytes) => into.extend_from_slice(&bytes[start..start + length]),
                None => into.put_bytes(0, length),
            }
            offset += length as u64;
        }
    }

    fn write(&mut self, extent: Extent, bytes: &mut impl Iterator<Item = u8>) {
        self.size = self.size.max(extent.end());
        for page in pages_of(&extent) {
            let content = self.pages.entry(page).or_insert_with(|| Box::new([0; PAGE_BYTES as usize]));
            let first = page * PAGE_BYTES;
            let start = extent.offset().saturating_sub(first).min(PAGE_BYTES) as usize;
            let end = (extent.end() - first).min(PAGE_BYTES) as usize;
            content[start..end].iter_mut().zip(&mut *bytes).for_each(|(place, byte)| *place = byte);
        }
    }

    fn set_size(&mut self, size: u64) {
        self.size = size;
        self.pages.split_off(&size.div_ceil(PAGE_BYTES));
        if let Some(last) = self.pages.get_mut(&(size / PAGE_BYTES)) {
            last[(size % PAGE_BYTES) as usize..].fill(0);
        }
    }
}

fn pages_of(extent: &Extent) -> impl Iterator<Item = u64> + use<> {
    extent.offset() / PAGE_BYTES..extent.end().div_ceil(PAGE_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path() -> SubfilePath {
        SubfilePath::new("a").expect("a right path")
    }

    fn write(offset: u64, data: Vec<u8>) -> DiskAction {
        let extents = vec![Extent::between(offset, offset + data.len() as u64)];
        let half = data.len() / 2;
        let data = Bytes::from(data);
        DiskAction::Write { extents, data: vec![data.slice(..half), data.slice(half..)] }
    }

    fn created() -> MemoryStore {
        let mut store = MemoryStore::default();
        store
            .perform(&path(), &DiskAction::Create { truncate: false, durable: false, owner: None })
            .expect("possible");
        store
    }

    #[test]
    fn a_far_offset_costs_little_and_reads_back() {
        let (mut store, far) = (created(), i64::MAX as u64 - 10);
        store.perform(&path(), &write(far, b"far".to_vec())).expect("possible");
        let extents = vec![Extent::between(5, 7), Extent::between(far, far + 10)];
        let reply = store.perform(&path(), &DiskAction::Read { extents }).expect("possible");
        assert_eq!((reply.size_before, &reply.data[..]), (far + 3, &b"\0\0far"[..]));
        assert_eq!(store.pages(), 1);
    }

    #[test]
    fn what_does_not_fit_is_refused_whole() {
        let mut store = created();
        store.capacity_pages = 1;
        let error = store.perform(&path(), &write(0, vec![1; 5_000])).expect_err("two pages");
        assert_eq!((error.call, error.error.kind), (SystemCall::Write, ErrorKind::NoSpace));
        assert_eq!(store.content("a"), Some(Vec::new()));
    }

    #[test]
    fn a_crash_leaves_what_was_synced() {
        let mut store = created();
        store.perform(&path(), &write(0, b"old".to_vec())).expect("possible");
        store.perform(&path(), &DiskAction::Sync).expect("possible");
        store.perform(&path(), &write(0, b"newer".to_vec())).expect("possible");
        let mut torn = store.clone();
        store.crash(|| false);
        assert_eq!(store.content("a"), Some(b"old".to_vec()));
        torn.crash(|| true);
        assert_eq!(torn.content("a"), Some(b"new".to_vec()));
    }

    proptest! {
        #[test]
        fn it_is_a_sparse_vector_of_bytes(steps in prop::collection::vec((0_u64..20_000, 0_u64..9_000, 0_u8..4), 1..12)) {
            let (mut store, mut expected) = (created(), Vec::new());
            for (index, (offset, length, step)) in steps.into_iter().enumerate() {
                let action = match step {
                    0 => {
                        expected.resize(offset as usize, 0);
                        DiskAction::SetLength { length: offset }
                    }
                    1 => {
                        expected.resize(expected.len().max(offset as usize), 0);
                        DiskAction::Grow { length: offset }
                    }
                    _ if length == 0 => continue,
                    _ => {
                        let end = (offset + length) as usize;
                        expected.resize(expected.len().max(end), 0);
                        expected[offset as usize..end].fill(index as u8);
                        write(offset, vec![index as u8; length as usize])
                    }
                };
                store.perform(&path(), &action).expect("possible");
                let content = store.content("a");
                prop_assert_eq!(content.as_ref(), Some(&expected));
            }
        }
    }
}
