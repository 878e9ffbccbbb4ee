//! What an operation does at one subfile.

use fec_transport::overlay::MemberId;

use crate::distribution::SubfileIndex;
use crate::name::SubfilePath;
use crate::request::{Batch, Cursor, SubfileAccess};
use crate::wire::RequestKind;

/// What an operation does at one subfile, and what came of it.
#[derive(Debug)]
pub(super) struct Part {
    member: MemberId,
    work: Work,
    /// Transfers under way.
    running: usize,
    /// If each stripe is a transfer of its own: how many may be under way at once.
    stripes_at_once: Option<usize>,
    /// If it reads: whether what the I/O node holds in memory does not count.
    from_disk: bool,
    /// Whether it waits for one of its own transfers to end, and for nothing else.
    held_back: bool,
    /// The smallest size that a reply told; none before the first reply, or if the subfile does not exist.
    size: Option<u64>,
    /// The offset in the subfile of the first byte that a read did not get.
    end_of_subfile: Option<u64>,
    /// The payload of a reply that is no file's.
    reply: Vec<u8>,
    /// Of a sync: the number of the last write that it covers.
    covers: u64,
}

/// How a part becomes transfers.
#[derive(Debug)]
enum Work {
    /// One request without a payload, whose reply has at most so many bytes of payload.
    Single { kind: RequestKind, reply_limit: usize, sent: bool },
    /// As many requests as it takes to read or write what the caller wants of a subfile.
    Access { path: SubfilePath, access: SubfileAccess, next: Cursor },
}

impl Part {
    /// One request; its reply has no payload.
    pub(super) fn single(member: MemberId, kind: RequestKind) -> Part {
        Part::asking(member, kind, 0)
    }

    /// One request whose reply has a payload of its own, of at most `reply_limit` bytes.
    pub(super) fn asking(member: MemberId, kind: RequestKind, reply_limit: usize) -> Part {
        Part::new(member, Work::Single { kind, reply_limit, sent: false })
    }

    pub(super) fn access(access: SubfileAccess, path: SubfilePath, stripes_at_once: Option<usize>) -> Part {
        let part = Part::new(access.member(), Work::Access { path, access, next: Cursor::default() });
        Part { stripes_at_once, ..part }
    }

    fn new(member: MemberId, work: Work) -> Part {
        Part {
            member,
            work,
            running: 0,
            stripes_at_once: None,
            from_disk: false,
            held_back: false,
            size: None,
            end_of_subfile: None,
            reply: Vec::new(),
            covers: 0,
        }
    }

    /// Whether what the I/O node holds in memory does not count for what it reads.
    pub(super) fn read_from_disk(&mut self, from_disk: bool) {
        self.from_disk = from_disk;
    }

    /// The request of the next transfer, of at most `limit` bytes of payload; none if all have begun.
    pub(super) fn next_request(&mut self, writes: bool, limit: u64) -> Option<(RequestKind, Option<Batch>)> {
        let request = match &mut self.work {
            Work::Single { sent: true, .. } => return None,
            Work::Single { kind, sent, .. } => {
                *sent = true;
                (kind.clone(), None)
            }
            Work::Access { path, access, next } => {
                let limit = match self.stripes_at_once {
                    Some(_) => access.stripe_rest(*next).min(limit),
                    None => limit,
                };
                let batch = access.next_batch(next, limit)?;
                let (path, runs) = (path.clone(), batch.runs.clone());
                let kind = match writes {
                    true => RequestKind::Write { path, runs },
                    false => RequestKind::Read { path, runs, from_disk: self.from_disk },
                };
                (kind, Some(batch))
            }
        };
        self.running += 1;
        Some(request)
    }

    /// A transfer has begun. Says whether the part waits for its link again at once.
    pub(super) fn waits_again(&mut self) -> bool {
        let may_begin = self.stripes_at_once.is_none_or(|most| self.running < most);
        self.held_back = self.has_more() && !may_begin;
        self.has_more() && may_begin
    }

    /// A transfer has ended. Says whether the part waits for its link again from now on.
    pub(super) fn transfer_ended(&mut self) -> bool {
        self.running -= 1;
        std::mem::take(&mut self.held_back)
    }

    /// Whether there are transfers that have not begun.
    pub(super) fn has_more(&self) -> bool {
        match &self.work {
            Work::Single { sent, .. } => !sent,
            Work::Access { access, next, .. } => !access.is_finished(*next),
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        self.running == 0 && !self.has_more()
    }

    pub(super) fn member(&self) -> MemberId {
        self.member
    }

    /// The path of the subfile; none for requests to the I/O node itself.
    pub(super) fn path(&self) -> Option<&SubfilePath> {
        match &self.work {
            Work::Single { kind, .. } => kind.path(),
            Work::Access { path, .. } => Some(path),
        }
    }

    /// What it reads or writes of its subfile; none if its transfers carry no bytes of a file.
    pub(super) fn subfile_access(&self) -> Option<&SubfileAccess> {
        match &self.work {
            Work::Access { access, .. } => Some(access),
            Work::Single { .. } => None,
        }
    }

    /// Whether it changes its subfile; it carries bytes of a file there if `writes_payload`.
    pub(super) fn changes(&self, writes_payload: bool) -> bool {
        match &self.work {
            Work::Access { .. } => writes_payload,
            Work::Single { kind, .. } => {
                matches!(kind, RequestKind::Grow { .. } | RequestKind::SetLength { .. })
            }
        }
    }

    pub(super) fn is_sync(&self) -> bool {
        matches!(self.work, Work::Single { kind: RequestKind::Sync { .. }, .. })
    }

    pub(super) fn set_covers(&mut self, covers: u64) {
        self.covers = covers;
    }

    pub(super) fn covers(&self) -> u64 {
        self.covers
    }

    /// The most bytes of payload that a reply to a request without a payload may have.
    pub(super) fn reply_limit(&self) -> usize {
        match self.work {
            Work::Single { reply_limit, .. } => reply_limit,
            Work::Access { .. } => 0,
        }
    }

    /// Bytes of a reply that are no file's.
    pub(super) fn take_reply(&mut self, bytes: &[u8]) {
        self.reply.extend_from_slice(bytes);
    }

    /// A reply is complete: it told the size of the subfile, and of what one transfer asked for, `payload` bytes came.
    pub(super) fn replied(&mut self, size: u64, read: Option<&Batch>, payload: u64) {
        self.size = Some(self.size.map_or(size, |known| known.min(size)));
        if let (Work::Access { access, .. }, Some(batch)) = (&self.work, read)
            && payload < batch.runs.payload()
        {
            let end = access.offset_at(batch.start, payload);
            self.end_of_subfile = Some(self.end_of_subfile.map_or(end, |known| known.min(end)));
        }
    }

    /// The smallest size of the subfile that a reply told; none if it does not exist.
    pub(super) fn size(&self) -> Option<u64> {
        self.size
    }

    /// If the subfile ended before what was read of it: which one it is, and the offset of the first byte that is
    /// missing.
    pub(super) fn end_of_subfile(&self) -> Option<(SubfileIndex, u64)> {
        Some((self.subfile_access()?.subfile(), self.end_of_subfile?))
    }

    /// The payload of the reply to its only request.
    pub(super) fn reply(&self) -> &[u8] {
        &self.reply
    }
}
