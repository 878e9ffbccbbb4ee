//! The files that a client has open.

use std::collections::BTreeMap;
use std::sync::Arc;

use fec_transport::overlay::{InstanceId, MemberId};

use super::error::OperationError;
use super::file::Layout;
use crate::compression::Compression;
use crate::name::SubfilePath;

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
    /// Counts the writes that were acknowledged.
    writes: u64,
}

/// A striped file that is open.
#[derive(Debug)]
pub(super) struct OpenFile {
    layout: Arc<Layout>,
    durability: Durability,
    compression: Compression,
    /// The logical file had at least this length when we last heard of it; see `operations::growth`.
    known_length: u64,
    /// The subfiles with writes that are not synced.
    unsynced: BTreeMap<MemberId, BTreeMap<SubfilePath, Unsynced>>,
}

/// What an I/O node has taken of writes to a subfile since it was synced. A power loss may take that from it, and the
/// process that is started then knows nothing of it.
#[derive(Debug, Clone, Copy)]
struct Unsynced {
    /// The process that has taken them; none if that is not known.
    process: Option<InstanceId>,
    /// The number of the last of them.
    last: u64,
    /// Whether a process before it had taken some, too.
    may_be_lost: bool,
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
        let unsynced = BTreeMap::new();
        self.open.insert(file, OpenFile { layout, durability, compression, known_length: length, unsynced });
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

    /// A write to a subfile was acknowledged by `process`, and is not durable.
    pub(super) fn note_write(
        &mut self,
        file: FileId,
        (member, path): (MemberId, &SubfilePath),
        process: Option<InstanceId>,
    ) {
        self.writes += 1;
        let Some(file) = self.open.get_mut(&file) else { return };
        let of_member = file.unsynced.entry(member).or_default();
        match of_member.get_mut(path) {
            Some(known) => {
                known.may_be_lost |= known.process != process;
                (known.process, known.last) = (process, self.writes);
            }
            None => {
                let unsynced = Unsynced { process, last: self.writes, may_be_lost: false };
                of_member.insert(path.clone(), unsynced);
            }
        }
    }

    /// The number of the last write that a sync which begins now covers; none if a process that is not there any more
    /// has taken writes to the subfile that were never synced.
    pub(super) fn covers(
        &self,
        file: FileId,
        (member, path): (MemberId, &SubfilePath),
        process: Option<InstanceId>,
    ) -> Option<u64> {
        let of_file = self.open.get(&file).and_then(|file| file.unsynced.get(&member));
        match of_file.and_then(|of_member| of_member.get(path)) {
            Some(known) if known.may_be_lost || known.process.is_none() || known.process != process => None,
            _ => Some(self.writes),
        }
    }

    /// The writes up to that number have been synced.
    pub(super) fn note_sync(&mut self, file: FileId, (member, path): (MemberId, &SubfilePath), covers: u64) {
        let Some(file) = self.open.get_mut(&file) else { return };
        let Some(of_member) = file.unsynced.get_mut(&member) else { return };
        if of_member.get(path).is_some_and(|known| known.last <= covers) {
            of_member.remove(path);
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

    /// Whether the client has written to a subfile what is not synced.
    pub(super) fn is_unsynced(&self, member: MemberId, path: &SubfilePath) -> bool {
        self.unsynced.get(&member).is_some_and(|of_member| of_member.contains_key(path))
    }
}
