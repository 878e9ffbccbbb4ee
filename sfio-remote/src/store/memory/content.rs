//! What a file in memory holds: pages, and zeros between them.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::{BufMut as _, BytesMut};

use crate::distribution::Extent;

pub(super) const PAGE_BYTES: u64 = 4_096;

type Page = [u8; PAGE_BYTES as usize];

/// The bytes of a file. Clones share their pages until one of them is written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Content {
    size: u64,
    /// Pages that were written; all others are zeros. Nothing but zeros lies behind `size`.
    pages: BTreeMap<u64, Arc<Page>>,
}

impl Content {
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// How many pages were written.
    pub(super) fn pages(&self) -> u64 {
        self.pages.len() as u64
    }

    /// How many pages more there would be after a write to these extents.
    pub(super) fn fresh_pages(&self, extents: &[Extent]) -> u64 {
        let fresh = extents.iter().flat_map(pages_of).filter(|page| !self.pages.contains_key(page));
        fresh.count() as u64
    }

    pub(super) fn read(&self, extent: Extent, into: &mut BytesMut) {
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

    /// Takes the bytes for `extent` off the front of `bytes`.
    pub(super) fn write(&mut self, extent: Extent, bytes: &mut &[u8]) {
        self.size = self.size.max(extent.end());
        for page in pages_of(&extent) {
            let first = page * PAGE_BYTES;
            let start = extent.offset().saturating_sub(first).min(PAGE_BYTES) as usize;
            let end = (extent.end() - first).min(PAGE_BYTES) as usize;
            let (taken, rest) = bytes.split_at(end - start);
            self.page_mut(page)[start..end].copy_from_slice(taken);
            *bytes = rest;
        }
    }

    pub(super) fn set_size(&mut self, size: u64) {
        self.size = size;
        self.pages.split_off(&size.div_ceil(PAGE_BYTES));
        if let Some(last) = self.pages.get_mut(&(size / PAGE_BYTES)) {
            Arc::make_mut(last)[(size % PAGE_BYTES) as usize..].fill(0);
        }
    }

    /// Turns one bit over, if the file has that byte.
    pub(super) fn flip_bit(&mut self, offset: u64, bit: u8) -> bool {
        if offset >= self.size {
            return false;
        }
        self.page_mut(offset / PAGE_BYTES)[(offset % PAGE_BYTES) as usize] ^= 1 << (bit % 8);
        true
    }

    /// What a power loss leaves of it, if `synced` is what the last sync left on the disk.
    pub(super) fn after_crash(&self, synced: &Content, survives: &mut impl FnMut() -> bool) -> Content {
        let mut left = synced.clone();
        let changed = self.pages.iter().filter(|(number, page)| synced.pages.get(number) != Some(page));
        left.pages.extend(changed.filter(|_| survives()).map(|(number, page)| (*number, Arc::clone(page))));
        let size = if self.size != synced.size && survives() { self.size } else { synced.size };
        left.set_size(size);
        left
    }

    fn page_mut(&mut self, page: u64) -> &mut Page {
        Arc::make_mut(self.pages.entry(page).or_insert_with(|| Arc::new([0; PAGE_BYTES as usize])))
    }
}

fn pages_of(extent: &Extent) -> impl Iterator<Item = u64> + use<> {
    extent.offset() / PAGE_BYTES..extent.end().div_ceil(PAGE_BYTES)
}
