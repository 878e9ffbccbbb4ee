//! Telling a transfer that stands still from one that waits its turn.
//!
//! On a slow link with many transfers, minutes may pass between two pieces of news about one of them: a megabyte lies
//! in the transport's send buffer, and the streams take turns. So a transfer is stuck only if nothing of its whole
//! session moves either, or if it has had the patience of ten timeouts.

use std::collections::BTreeMap;
use std::time::Duration;

use fec_transport::{SessionId, Time};

use crate::transport::Transport;

/// How often in a timeout the sessions are looked at.
const CHECKS_PER_TIMEOUT: u32 = 8;

/// After so many timeouts a transfer is stuck even if others of its session move.
const PATIENCE: u32 = 10;

/// When the sessions of some transfers last moved, as far as checks have seen, and when the next check is due.
#[derive(Debug, Default)]
pub(crate) struct SessionProgress {
    seen: BTreeMap<SessionId, Seen>,
    next_check: Option<Time>,
}

#[derive(Debug, Clone, Copy)]
struct Seen {
    carried: u64,
    changed: Time,
}

impl SessionProgress {
    pub(crate) fn next_check(&self) -> Option<Time> {
        self.next_check
    }

    /// There are transfers, so checks are needed.
    pub(crate) fn begin(&mut self, now: Time, timeout: Duration) {
        self.next_check.get_or_insert(now + timeout / CHECKS_PER_TIMEOUT);
    }

    /// Looks at the sessions of all transfers, if a check is due; says whether it was.
    pub(crate) fn check(
        &mut self,
        now: Time,
        transport: &impl Transport,
        sessions: impl Iterator<Item = SessionId>,
    ) -> bool {
        if self.next_check.is_none_or(|check| now < check) {
            return false;
        }
        self.next_check = None;
        let before = std::mem::take(&mut self.seen);
        for session in sessions {
            let look = || {
                let carried = transport.carried(session);
                let unchanged = before.get(&session).copied().filter(|seen| seen.carried == carried);
                unchanged.unwrap_or(Seen { carried, changed: now })
            };
            self.seen.entry(session).or_insert_with(look);
        }
        true
    }

    /// Whether a transfer of `session` without any news since `last_progress` is stuck.
    pub(crate) fn is_stuck(
        &self,
        now: Time,
        session: SessionId,
        last_progress: Time,
        timeout: Duration,
    ) -> bool {
        let idle = now.since(last_progress);
        let session_idle = self.seen.get(&session).map_or(Duration::ZERO, |seen| now.since(seen.changed));
        idle >= timeout && (session_idle >= timeout || idle >= timeout * PATIENCE)
    }
}
