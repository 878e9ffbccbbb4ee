//! The memory between network and disk.

use std::collections::{BTreeMap, VecDeque};

use fec_transport::{SessionId, StreamId};

/// Counts payload bytes in memory, over all sessions and for each, and remembers which streams wait for some.
#[derive(Debug)]
pub(super) struct Budget {
    limit: u64,
    session_limit: u64,
    used: u64,
    used_by: BTreeMap<SessionId, u64>,
    waiting: VecDeque<StreamId>,
    /// Whether anything was given back since the streams that wait were last called.
    released: bool,
}

impl Budget {
    pub(super) fn new(limit: u64, session_limit: u64) -> Budget {
        Budget {
            limit,
            session_limit,
            used: 0,
            used_by: BTreeMap::new(),
            waiting: VecDeque::new(),
            released: false,
        }
    }

    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// How much `session` may take now.
    pub(super) fn available(&self, session: SessionId) -> u64 {
        let used_by = self.used_by.get(&session).copied().unwrap_or(0);
        self.limit.saturating_sub(self.used).min(self.session_limit.saturating_sub(used_by))
    }

    pub(super) fn take(&mut self, session: SessionId, bytes: u64) {
        self.used += bytes;
        *self.used_by.entry(session).or_default() += bytes;
    }

    pub(super) fn release(&mut self, session: SessionId, bytes: u64) {
        self.used -= bytes;
        self.released |= bytes > 0;
        if let Some(used_by) = self.used_by.get_mut(&session) {
            *used_by -= bytes;
            if *used_by == 0 {
                self.used_by.remove(&session);
            }
        }
    }

    /// `stream` wants to be called when there may be more.
    pub(super) fn wait(&mut self, stream: StreamId) {
        if !self.waiting.contains(&stream) {
            self.waiting.push_back(stream);
        }
    }

    /// Whether anybody waits.
    pub(super) fn is_short(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The streams that wait, those that have waited longest first, if there is more memory since they were last
    /// called. They wait no more.
    pub(super) fn take_waiting(&mut self) -> VecDeque<StreamId> {
        if std::mem::take(&mut self.released) { std::mem::take(&mut self.waiting) } else { VecDeque::new() }
    }
}
