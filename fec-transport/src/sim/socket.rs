//! The socket of a process whose machine sends no faster than its interface: what is sent waits in the kernel's
//! buffer, and when that is full, the process.

use std::time::Duration;

use crate::time::Time;

/// What the kernel takes before a process has to wait, as time at the interface's rate.
const BUFFER: Duration = Duration::from_millis(1);

/// A socket in front of an interface of so many bytes per second.
#[derive(Debug)]
pub(super) struct Socket {
    bytes_per_second: f64,
    /// When all that was sent so far has left.
    idle_at: Time,
}

impl Socket {
    pub(super) fn new(bytes_per_second: u64) -> Socket {
        Socket { bytes_per_second: bytes_per_second as f64, idle_at: Time::ZERO }
    }

    /// Takes a run of so many bytes.
    pub(super) fn send(&mut self, now: Time, bytes: usize) {
        self.idle_at = self.idle_at.max(now) + Duration::from_secs_f64(bytes as f64 / self.bytes_per_second);
    }

    /// Until when the socket takes nothing; none if it takes something now.
    pub(super) fn blocked_until(&self, now: Time) -> Option<Time> {
        (self.idle_at > now + BUFFER).then(|| self.idle_at - BUFFER)
    }
}
