//! A stage of an operation: what is transferred to and from each I/O node at once.

use std::sync::Arc;

use bytes::Bytes;
use fec_transport::overlay::MemberId;

use super::OperationId;
use super::file::Layout;
use super::files::FileId;
use super::part::Part;
use crate::compression::{Compression, Packing};
use crate::distribution::{Region, SubfileIndex};
use crate::name::SubfilePath;
use crate::remote_error::{ErrorKind, RemoteError};
use crate::request::{
    Batch, Cursor, ReadBuffer, RegionsRead, Staging, SubfileAccess, WriteList, collect, gather,
};
use crate::wire::{Request, RequestId, RequestKind};

/// How many requests a call has under way that makes one of each stripe.
const STRIPES_AT_ONCE: usize = 64;

/// The parts of an operation that run at once, and the caller's memory that their payload lies in.
#[derive(Debug)]
pub(super) struct Stage {
    parts: Vec<Part>,
    memory: Memory,
    /// The open file that it is about.
    file: Option<FileId>,
    durable: bool,
    /// How the bytes of files are compressed.
    compression: Compression,
    /// Whether it is no failure that a subfile does not exist.
    tolerates_missing: bool,
    /// How many parts are not finished.
    unfinished: usize,
    /// Numbers the transfers with payload.
    last_transfer: u32,
}

/// A subfile of an open file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) file: FileId,
    pub(super) member: MemberId,
    pub(super) path: &'a SubfilePath,
}

/// Where the bytes of the file come from, or go to.
#[derive(Debug)]
enum Memory {
    None,
    Read(ReadBuffer),
    Write(WriteList),
}

impl Stage {
    pub(super) fn new(parts: Vec<Part>) -> Stage {
        Stage::with_memory(parts, Memory::None)
    }

    /// A stage without parts, which is finished as it begins.
    pub(super) fn empty() -> Stage {
        Stage::new(Vec::new())
    }

    /// One request to each subfile.
    pub(super) fn each(layout: &Layout, kind: impl Fn(SubfileIndex, SubfilePath) -> RequestKind) -> Stage {
        let part = |(subfile, member, path): (SubfileIndex, MemberId, &SubfilePath)| {
            Part::single(member, kind(subfile, path.clone()))
        };
        Stage::new(layout.subfiles().map(part).collect())
    }

    /// Reads into `buffer`, as the parts were made for it.
    pub(super) fn read(parts: Vec<Part>, buffer: ReadBuffer) -> Stage {
        Stage::with_memory(parts, Memory::Read(buffer))
    }

    /// Writes from `list`, as the parts were made for it; parts without payload only ask.
    pub(super) fn write(parts: Vec<Part>, list: WriteList) -> Stage {
        Stage::with_memory(parts, Memory::Write(list))
    }

    fn with_memory(parts: Vec<Part>, memory: Memory) -> Stage {
        // A file has far fewer subfiles than there are numbers.
        let last_transfer = u32::try_from(parts.len()).unwrap_or(u32::MAX);
        Stage {
            unfinished: parts.len(),
            parts,
            memory,
            file: None,
            durable: false,
            compression: Compression::Never,
            tolerates_missing: false,
            last_transfer,
        }
    }

    /// The stage is about an open file: what becomes of writes to it is noted there.
    pub(super) fn of(self, file: FileId) -> Stage {
        Stage { file: Some(file), ..self }
    }

    /// The stage with requests that are durable before their replies, if `durable`.
    pub(super) fn durable(self, durable: bool) -> Stage {
        Stage { durable, ..self }
    }

    /// The stage, with the bytes of files compressed so.
    pub(super) fn compressing(self, compression: Compression) -> Stage {
        Stage { compression, ..self }
    }

    /// The stage, with a subfile that does not exist being no failure.
    pub(super) fn tolerating_missing(self) -> Stage {
        Stage { tolerates_missing: true, ..self }
    }

    pub(super) fn parts(&self) -> &[Part] {
        &self.parts
    }

    pub(super) fn part(&self, part: usize) -> &Part {
        &self.parts[part]
    }

    /// The size of each subfile as the replies told it; none for one that does not exist.
    pub(super) fn sizes(&self) -> Vec<Option<u64>> {
        self.parts.iter().map(Part::size).collect()
    }

    /// The payload of the reply to the only request.
    pub(super) fn reply(&self) -> &[u8] {
        self.parts.first().map_or(&[], Part::reply)
    }

    /// The regions of a stage that reads, each up to the length that `present` gives for it. It is asked with the first
    /// missing byte of each subfile that ended early, as an offset in the subfile.
    pub(super) fn into_read(self, present: impl Fn(Region, &[(SubfileIndex, u64)]) -> u64) -> RegionsRead {
        let Memory::Read(mut buffer) = self.memory else { return RegionsRead::default() };
        let accesses = self.parts.iter().filter_map(Part::subfile_access);
        accesses.for_each(|access| access.fill_overlaps(&mut buffer));
        let ends: Vec<_> = self.parts.iter().filter_map(Part::end_of_subfile).collect();
        buffer.finish(|region| present(region, &ends))
    }

    /// Whether the operation can live with that failure of one part.
    pub(super) fn tolerates(&self, error: &RemoteError) -> bool {
        self.tolerates_missing && error.kind == ErrorKind::NotFound
    }

    pub(super) fn is_finished(&self) -> bool {
        self.unfinished == 0
    }

    /// The open file and the subfile of it that a part writes to, if what it writes is not durable at once.
    pub(super) fn writes_to(&self, part: usize) -> Option<Target<'_>> {
        let writes_payload = matches!(self.memory, Memory::Write(_));
        let part = Some(&self.parts[part]).filter(|part| !self.durable && part.changes(writes_payload))?;
        Some(Target { file: self.file?, member: part.member(), path: part.path()? })
    }

    /// The open file and the subfile of it that a part syncs.
    pub(super) fn syncs(&self, part: usize) -> Option<Target<'_>> {
        let part = Some(&self.parts[part]).filter(|part| part.is_sync())?;
        Some(Target { file: self.file?, member: part.member(), path: part.path()? })
    }

    /// The sync of a part covers writes up to that number.
    pub(super) fn set_covers(&mut self, part: usize, covers: u64) {
        self.parts[part].set_covers(covers);
    }

    /// Begins the next transfer of a part, of at most `limit` bytes of payload; none if all have begun.
    pub(super) fn begin_transfer(
        &mut self,
        id: OperationId,
        part: usize,
        limit: u64,
    ) -> Option<(Request, Option<Batch>)> {
        let writes = matches!(self.memory, Memory::Write(_));
        let (kind, batch) = self.parts[part].next_request(writes, limit)?;
        // A request without payload is named by its part, so that an operation that is repeated under its number
        // repeats the same requests; those with payload follow.
        let transfer = match batch {
            None => u32::try_from(part).unwrap_or(u32::MAX),
            Some(_) => {
                self.last_transfer = self.last_transfer.wrapping_add(1);
                self.last_transfer
            }
        };
        let request_id = RequestId { operation: id.0, transfer };
        let packing =
            batch.as_ref().map_or(Packing::Raw, |batch| self.compression.packing(batch.runs.payload()));
        Some((Request { id: request_id, durable: self.durable, packing, kind }, batch))
    }

    /// Whether there are transfers of a part that have not begun.
    pub(super) fn has_more(&self, part: usize) -> bool {
        self.parts[part].has_more()
    }

    /// A transfer of a part has begun. Says whether the part waits for its link again at once.
    pub(super) fn waits_again(&mut self, part: usize) -> bool {
        self.parts[part].waits_again()
    }

    /// A transfer of a part has ended. Says whether the part waits for its link again from now on.
    pub(super) fn transfer_ended(&mut self, part: usize) -> bool {
        let part = &mut self.parts[part];
        let waits = part.transfer_ended();
        self.unfinished -= usize::from(part.is_finished());
        waits
    }

    /// The next bytes that a part sends, from `cursor` on and at most `limit`.
    pub(super) fn outgoing<'a>(
        &'a self,
        part: usize,
        cursor: Cursor,
        limit: u64,
        staging: &'a mut Staging,
    ) -> &'a [u8] {
        match (&self.memory, self.parts[part].subfile_access()) {
            (Memory::Write(list), Some(access)) if limit > 0 => gather(access, list, cursor, limit, staging),
            _ => &[],
        }
    }

    /// The next `limit` bytes that a part sends, from `cursor` on.
    pub(super) fn collect(&self, part: usize, cursor: Cursor, limit: u64) -> Vec<Bytes> {
        match (&self.memory, self.parts[part].subfile_access()) {
            (Memory::Write(list), Some(access)) => collect(access, list, cursor, limit),
            _ => Vec::new(),
        }
    }

    /// Moves a cursor over bytes of a part that were sent.
    pub(super) fn advance(&self, part: usize, cursor: &mut Cursor, bytes: u64) {
        if let Some(access) = self.parts[part].subfile_access() {
            access.advance(cursor, bytes);
        }
    }

    /// The most bytes of payload that the reply to a transfer of a part may have.
    pub(super) fn reply_limit(&self, part: usize, batch: Option<&Batch>) -> u64 {
        match (&self.memory, batch) {
            (Memory::Read(_), Some(batch)) => batch.runs.payload(),
            _ => self.parts[part].reply_limit() as u64,
        }
    }

    /// Takes bytes of a reply's payload. Bytes of a file belong `skip` bytes behind `cursor`, which moves behind them.
    pub(super) fn take_payload(&mut self, part: usize, cursor: &mut Cursor, skip: u64, bytes: &[u8]) {
        let part = &mut self.parts[part];
        match (&mut self.memory, part.subfile_access()) {
            (Memory::Read(buffer), Some(access)) => {
                access.advance(cursor, skip);
                access.scatter(buffer, cursor, bytes);
            }
            _ => part.take_reply(bytes),
        }
    }

    /// The reply to a transfer of a part is complete.
    pub(super) fn replied(&mut self, part: usize, batch: Option<&Batch>, size: u64, payload: u64) {
        let read = batch.filter(|_| matches!(self.memory, Memory::Read(_)));
        self.parts[part].replied(size, read, payload);
    }
}

/// The parts that carry `accesses` out; `single` if each stripe is to be a request of its own.
pub(super) fn access_parts(layout: &Arc<Layout>, accesses: Vec<SubfileAccess>, single: bool) -> Vec<Part> {
    // The requests are shared out among all subfiles: the paper's unoptimised calls, which the optimised ones are
    // compared with, have so many under way.
    let at_once = (STRIPES_AT_ONCE / accesses.len().max(1)).max(1);
    let part = |access: SubfileAccess| {
        let path = layout.path(access.subfile()).clone();
        Part::access(access, path, single.then_some(at_once))
    };
    accesses.into_iter().map(part).collect()
}
