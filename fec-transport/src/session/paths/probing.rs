//! How a path is asked whether it lives: the probes that wait for their echo, and the echoes that we owe the peer.

use std::collections::VecDeque;
use std::time::Duration;

use super::width::Width;
use crate::config::Liveness;
use crate::time::Time;

/// Probes in a row without an answer after which a path that carries nothing is dead.
pub(super) const UNANSWERED_PROBES: usize = 6;
/// Probes whose echo is still recognised.
const MAX_PENDING: usize = 8;
/// Echoes that we owe at most; a peer sends far fewer probes at once.
const MAX_REPLIES: usize = 8;
/// For how long a dead path is probed at the full rate, and the longest interval afterwards (design §6).
const PATIENCE: Duration = Duration::from_secs(60);
const MAX_INTERVAL: Duration = Duration::from_secs(10);

/// The questions whether a path lives.
#[derive(Debug)]
pub(crate) struct Probing {
    pending: VecDeque<Pending>,
    /// When the next probe is sent.
    due: Time,
    /// Whether it is sent even on a path that was heard lately: what we send may not arrive all the same.
    is_asked: bool,
    /// Whether it carries packets as large as the session would like to send.
    width: Width,
    /// The tokens of the echoes that we owe the peer.
    replies: VecDeque<u64>,
}

/// A probe that waits for its echo.
#[derive(Debug, Clone, Copy)]
struct Pending {
    token: u64,
    sent: Time,
}

impl Probing {
    pub(super) fn new(now: Time) -> Probing {
        Probing {
            pending: VecDeque::new(),
            due: now,
            is_asked: false,
            width: Width::unknown(now),
            replies: VecDeque::new(),
        }
    }

    /// When the next probe is sent, of whatever size.
    pub(super) fn due(&self) -> Time {
        self.width.due().map_or(self.due, |wide| wide.min(self.due))
    }

    /// When the next probe is sent that asks whether the path lives.
    pub(super) fn asks_at(&self) -> Time {
        self.due
    }

    /// How many probes wait for their echo.
    pub(super) fn unanswered(&self) -> usize {
        self.pending.len()
    }

    /// The next probe is sent at `due`, and no echo of an earlier one counts.
    pub(super) fn begin_anew(&mut self, due: Time) {
        self.pending.clear();
        self.due = due;
    }

    /// The next probe is sent at `due`.
    pub(super) fn put_off(&mut self, due: Time) {
        self.due = due;
    }

    /// A probe is sent at once, whatever was heard lately.
    pub(super) fn ask(&mut self, now: Time) {
        self.is_asked = true;
        self.due = now;
    }

    /// Whether [`ask`](Self::ask) was called since the last time that this was.
    pub(super) fn take_asked(&mut self) -> bool {
        std::mem::take(&mut self.is_asked)
    }

    /// Notes that a probe left.
    pub(super) fn sent(&mut self, now: Time, token: u64) {
        if self.pending.len() == MAX_PENDING {
            self.pending.pop_front();
        }
        self.pending.push_back(Pending { token, sent: now });
    }

    /// An echo came: gives when its probe was sent, if it is one that waits for it. No other one waits any more, but
    /// for wide ones.
    pub(super) fn on_echo(&mut self, token: u64) -> Option<Time> {
        if let Some(sent) = self.width.on_echo(token) {
            return Some(sent);
        }
        let sent = self.pending.iter().find(|probed| probed.token == token)?.sent;
        self.pending.clear();
        self.width.note_arrival(sent, 0);
        Some(sent)
    }

    pub(super) fn width(&self) -> &Width {
        &self.width
    }

    pub(super) fn width_mut(&mut self) -> &mut Width {
        &mut self.width
    }

    /// Notes that the peer waits for an echo.
    pub(crate) fn owe_reply(&mut self, token: u64) {
        if self.replies.len() < MAX_REPLIES {
            self.replies.push_back(token);
        }
    }

    /// Whether the peer waits for an echo.
    pub(super) fn owes_reply(&self) -> bool {
        !self.replies.is_empty()
    }

    /// The token of the echo that the peer has waited for longest.
    pub(super) fn take_reply(&mut self) -> Option<u64> {
        self.replies.pop_front()
    }
}

/// The time between two probes of a path that has been dead for so long, or that is not dead.
pub(super) fn interval(dead_for: Option<Duration>, liveness: &Liveness) -> Duration {
    match dead_for {
        Some(dead_for) if dead_for > PATIENCE => (dead_for / 16).clamp(liveness.probe_interval, MAX_INTERVAL),
        _ => liveness.probe_interval,
    }
}
