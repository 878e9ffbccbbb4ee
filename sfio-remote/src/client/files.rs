//! The files that a client has open.

use std::collections::BTreeMap;
use std::sync::Arc;

use fec_transport::overlay::MemberId;

use super::error::OperationError;
use super::file::Layout;
use crate::compression::Compression;

/// A striped file that the client has open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct FileId(u64);

/// When changes survive a power loss of an I/O node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Whenever the operating system gets round to it; a sync only waits its turn.
    None,
    /// After a sync.
    #[default]
    OnFlush,
    /// When the call returns.
    OnEveryCall,
}

/// The files that are open, by number.
#[derive(Debug, Default)]
pub(super) struct Files {
    open: BTreeMap<FileId, OpenFile>,
    last: u64,
}

/// A striped file that is open.
#[derive(Debug)]
pub(super) struct OpenFile {
    layout: Arc<Layout>,
    durability: Durability,
    compression: Compression,
    /// The logical file had at least this length when we last heard of it; see `operations::growth`.
    known_length: u64,
}

impl Durability {
    /// Whether each request is to be durable before its reply.
    pub(super) fn is_immediate(self) -> bool {
        self == Durability::OnEveryCall
    }
}

impl Files {
    pub(super) fn count(&self) -> usize {
        self.open.len()
    }

    pub(super) fn get(&self, file: FileId) -> Result<&OpenFile, OperationError> {
        self.open.get(&file).ok_or(OperationError::NotOpen)
    }

    /// A file is open from now on, and has `length` bytes.
    pub(super) fn insert(
        &mut self,
        layout: Arc<Layout>,
        (durability, compression): (Durability, Compression),
        length: u64,
    ) -> FileId {
        self.last += 1;
        let file = FileId(self.last);
        self.open.insert(file, OpenFile { layout, durability, compression, known_length: length });
        file
    }

    pub(super) fn close(&mut self, file: FileId) -> Result<(), OperationError> {
        self.open.remove(&file).map(drop).ok_or(OperationError::NotOpen)
    }

    /// A file, if it is still open, has at least that length.
    pub(super) fn has_grown(&mut self, file: FileId, length: u64) {
        if let Some(file) = self.open.get_mut(&file) {
            file.known_length = file.known_length.max(length);
        }
    }

    /// A file, if it is still open, has that length.
    pub(super) fn set_length(&mut self, file: FileId, length: u64) {
        if let Some(file) = self.open.get_mut(&file) {
            file.known_length = length;
        }
    }

    /// An I/O node was lost: its power may have failed, and a subfile be shorter than it was.
    pub(super) fn holder_was_lost(&mut self, member: MemberId) {
        let held_there = self.open.values_mut().filter(|file| file.layout.holders().contains(&member));
        held_there.for_each(|file| file.known_length = 0);
    }
}

impl OpenFile {
    pub(super) fn layout(&self) -> &Arc<Layout> {
        &self.layout
    }

    pub(super) fn durability(&self) -> Durability {
        self.durability
    }

    /// How its bytes are compressed on their way.
    pub(super) fn compression(&self) -> Compression {
        self.compression
    }

    pub(super) fn known_length(&self) -> u64 {
        self.known_length
    }
}
