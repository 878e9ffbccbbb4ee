//! Telling a transfer that stands still from one that waits its turn.
//!
//! On a slow link with many transfers, minutes may pass between two pieces of news about one of them: a megabyte lies
//! in the transport's send buffer, and the streams take turns. So a transfer is stuck only if nothing of its whole
//! session moves either, or if it has had the patience of ten timeouts. While the whole session waits for an outage to
//! end, nothing is stuck: the session itself has the patience for that.

use std::collections::BTreeMap;
use std::time::Duration;

use fec_transport::{Event, SessionId, Time};

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
    /// The sessions that wait for an outage to end, or that have waited for one, and how that is.
    outages: BTreeMap<SessionId, Outage>,
}

/// An outage of a session: nobody stands still because of it.
#[derive(Debug, Clone, Copy)]
enum Outage {
    /// It lasts.
    Lasting,
    /// It ended then.
    Over(Time),
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

    /// The transport has news, perhaps of an outage.
    pub(crate) fn note(&mut self, now: Time, event: &Event) {
        match event {
            Event::SessionSilent { session, .. } => drop(self.outages.insert(*session, Outage::Lasting)),
            Event::SessionHeard { session, .. } => drop(self.outages.insert(*session, Outage::Over(now))),
            Event::SessionClosed { session, .. } => drop(self.outages.remove(session)),
            _ => {}
        }
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
        let since_outage = match self.outages.get(&session) {
            Some(Outage::Lasting) => return false,
            Some(Outage::Over(ended)) => now.since(*ended),
            None => Duration::MAX,
        };
        let idle = now.since(last_progress).min(since_outage);
        let session_idle = self.seen.get(&session).map_or(Duration::ZERO, |seen| now.since(seen.changed));
        idle >= timeout && (session_idle >= timeout || idle >= timeout * PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_stands_still_because_of_an_outage() {
        let (session, timeout) = (SessionId(1), Duration::from_secs(1));
        let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
        let member = fec_transport::overlay::MemberId(1);
        let mut progress = SessionProgress::default();
        let is_stuck = |progress: &SessionProgress, now| progress.is_stuck(at(now), session, at(0), timeout);
        assert!(!is_stuck(&progress, 9) && is_stuck(&progress, 10));
        progress.note(at(10), &Event::SessionSilent { session, member });
        assert!(!is_stuck(&progress, 60));
        progress.note(at(60), &Event::SessionHeard { session, member });
        assert!(!is_stuck(&progress, 69) && is_stuck(&progress, 70), "its time begins anew");
    }
}
