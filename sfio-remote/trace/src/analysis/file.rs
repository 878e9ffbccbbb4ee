//! What one job does with one file.

use std::collections::{BTreeMap, BTreeSet};

use super::reuse::LastAccess;
use super::sharing::Touches;
use crate::record::{ClientId, IoMode, Micros, Operation, Request};

/// From how many different sizes on the study's tables count no further.
pub(super) const MANY: usize = 4;

/// The classes of files, by what was really done with them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Only read.
    Read,
    /// Only written.
    Written,
    /// Read and written.
    Both,
    /// Opened, and neither read nor written.
    None,
}

/// A file within one job.
#[derive(Debug, Clone, Default)]
pub(super) struct File {
    pub(super) opened: bool,
    open_now: u32,
    open_since: Micros,
    pub(super) open_us: Option<Micros>,
    pub(super) created: bool,
    pub(super) deleted: bool,
    pub(super) size: u64,
    pub(super) read_bytes: u64,
    pub(super) written_bytes: u64,
    requests: (u64, u64),
    pub(super) sequences: Sequences,
    pub(super) touches: Touches,
    pub(super) last_read: LastAccess,
    pub(super) last_write: LastAccess,
    modes: BTreeMap<Option<ClientId>, IoMode>,
}

impl File {
    pub(super) fn open(&mut self, client: Option<ClientId>, at: Micros, size: u64) {
        if self.open_now == 0 {
            self.open_since = at;
        }
        self.opened = true;
        self.open_now += 1;
        self.size = self.size.max(size);
        self.sequences.begin(client);
    }

    pub(super) fn close(&mut self, at: Micros, size: u64) {
        self.size = self.size.max(size);
        self.open_now = self.open_now.saturating_sub(1);
        if self.open_now == 0 {
            *self.open_us.get_or_insert(0) += at.saturating_sub(self.open_since);
        }
    }

    pub(super) fn resize(&mut self, size: u64) {
        self.size = self.size.max(size);
    }

    pub(super) fn set_mode(&mut self, client: Option<ClientId>, mode: IoMode) {
        self.modes.insert(client, mode);
    }

    /// The mode in which a process has the file.
    pub(super) fn mode(&self, client: Option<ClientId>) -> Option<IoMode> {
        self.modes.get(&client).or_else(|| self.modes.get(&None)).copied()
    }

    /// A request; `sequence` says in whose order it stands.
    pub(super) fn request(&mut self, request: &Request, sequence: Option<ClientId>) {
        self.size = self.size.max(request.offset.saturating_add(request.bytes));
        match request.operation {
            Operation::Read => {
                self.requests.0 += 1;
                self.read_bytes = self.read_bytes.saturating_add(request.bytes);
            }
            Operation::Write => {
                self.requests.1 += 1;
                self.written_bytes = self.written_bytes.saturating_add(request.bytes);
            }
        }
        self.sequences.note(sequence, request.offset, request.bytes);
        self.touches.note(request);
    }

    pub(super) fn class(&self) -> Class {
        match self.requests {
            (0, 0) => Class::None,
            (_, 0) => Class::Read,
            (0, _) => Class::Written,
            _ => Class::Both,
        }
    }
}

/// In which order the requests of a file come, for each process that asks (or for the job as a whole).
///
/// The order begins anew with each open: the first request behind it has none before it. Without that Tables 6 and 8
/// contradict each other: 1,239 files that were touched have no interval, but only 849 have a single request size.
#[derive(Debug, Clone, Default)]
pub(crate) struct Sequences {
    last: BTreeMap<Option<ClientId>, (u64, u64)>,
    sizes: BTreeSet<u64>,
    intervals: BTreeSet<i64>,
    pairs: u64,
    sequential: u64,
    consecutive: u64,
}

impl Sequences {
    /// A process opens the file.
    pub(crate) fn begin(&mut self, client: Option<ClientId>) {
        self.last.remove(&client);
    }

    pub(crate) fn note(&mut self, sequence: Option<ClientId>, offset: u64, bytes: u64) {
        if self.sizes.len() < MANY {
            self.sizes.insert(bytes);
        }
        let end = offset.saturating_add(bytes);
        if let Some((before, behind)) = self.last.insert(sequence, (offset, end)) {
            self.pairs += 1;
            self.sequential += u64::from(offset > before);
            self.consecutive += u64::from(offset == behind);
            if self.intervals.len() < MANY {
                self.intervals.insert(offset as i64 - behind as i64);
            }
        }
    }

    /// How many request sizes there are, at most [`MANY`].
    pub(crate) fn sizes(&self) -> usize {
        self.sizes.len()
    }

    /// How many interval sizes there are, at most [`MANY`].
    pub(crate) fn intervals(&self) -> usize {
        self.intervals.len()
    }

    /// How many requests have one before them, and of these how many are sequential and consecutive.
    pub(crate) fn pairs(&self) -> (u64, u64, u64) {
        (self.pairs, self.sequential, self.consecutive)
    }

    /// Shares of the requests that are sequential, and that are consecutive, in hundredths of a percent. Where no
    /// request has one before it, nothing was skipped: all of it is.
    pub(crate) fn shares(&self) -> (u64, u64) {
        match self.pairs {
            0 => (10_000, 10_000),
            pairs => (self.sequential * 10_000 / pairs, self.consecutive * 10_000 / pairs),
        }
    }
}
