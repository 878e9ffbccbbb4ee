//! What the node's sockets hold while its process does not run, and how much of that the packets of a session may fill.
//!
//! A sender cannot see how large the receiver's socket is, nor who else sends there: with the buffers that Linux gives
//! unless it is told otherwise, fast senders lost there what took a third of repair and more. So the receiver says in
//! its reports what each of them may have on the way (docs/decisions/rate-control.md).

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::time::Time;

/// A session has the part of the sockets that it has of all bytes that came in one to two of these.
const SPAN: Duration = Duration::from_millis(50);
/// Bytes that a session may fill however little has come of it, and a path however little of that is left for it: a run
/// of packets, which the kernel passes on in one piece. From there it grows with what comes.
pub(super) const LEAST: u64 = 64 << 10;

/// What the sockets of a node hold, for all of its sessions.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedIntake(Arc<Mutex<Sockets>>);

#[derive(Debug, Default)]
struct Sockets {
    /// Bytes of packets that they hold, if that is known.
    bytes: Option<u64>,
    /// What came in for all sessions.
    arrived: Lately,
}

impl SharedIntake {
    /// The sockets hold so many bytes of packets.
    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.sockets().bytes = Some(bytes);
    }

    fn sockets(&self) -> MutexGuard<'_, Sockets> {
        // One thread drives all sessions of a node, so nobody waits; and no statement leaves a sum half changed.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session's part of what the sockets hold.
#[derive(Debug)]
pub(super) struct Intake {
    shared: SharedIntake,
    arrived: Lately,
    /// Bytes that have come since all sessions were told.
    untold: u64,
    part: Option<u64>,
}

impl Intake {
    pub(super) fn new(shared: SharedIntake) -> Intake {
        let part = shared.sockets().bytes;
        Intake { shared, arrived: Lately::default(), untold: 0, part }
    }

    /// So many bytes have come.
    pub(super) fn on_data(&mut self, bytes: usize) {
        self.untold += bytes as u64;
    }

    /// Shares the sockets out anew: by what has come of the session, and of all of them. Gives what its packets may
    /// fill, in bytes, if it is known what the sockets hold.
    pub(super) fn share(&mut self, now: Time) -> Option<u64> {
        let untold = std::mem::take(&mut self.untold);
        let own = self.arrived.add(now, untold);
        let mut sockets = self.shared.sockets();
        let all = sockets.arrived.add(now, untold);
        let share = if own < all { own as f64 / all as f64 } else { 1.0 };
        self.part = sockets.bytes.map(|bytes| ((bytes as f64 * share) as u64).max(LEAST));
        self.part
    }

    /// The same, as it was shared out last.
    pub(super) fn part(&self) -> Option<u64> {
        self.part
    }
}

/// Bytes that came in the latest one to two spans.
#[derive(Debug, Default)]
struct Lately {
    /// Which span is not over yet, counted from the begin of the clock.
    span: u64,
    current: u64,
    before: u64,
}

impl Lately {
    /// So many more have come; gives all of them.
    fn add(&mut self, now: Time, bytes: u64) -> u64 {
        let span = now.as_micros() / SPAN.as_micros() as u64;
        self.before = match span.saturating_sub(self.span) {
            0 => self.before,
            1 => std::mem::take(&mut self.current),
            _ => {
                self.current = 0;
                0
            }
        };
        self.span = span.max(self.span);
        self.current += bytes;
        self.before + self.current
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    #[test]
    fn who_sends_alone_may_fill_the_sockets_and_others_as_much_of_them_as_they_send() {
        let shared = SharedIntake::default();
        shared.set_bytes(1 << 20);
        let mut sessions = [1_usize, 3].map(|bytes| (bytes, Intake::new(shared.clone())));
        let mut parts = [None, None];
        for millis in 0..200 {
            for ((bytes, intake), part) in sessions.iter_mut().zip(&mut parts) {
                intake.on_data(10_000 * *bytes);
                *part = intake.share(at(millis));
            }
        }
        for (part, ideal) in parts.into_iter().zip([1_u64 << 18, 3 << 18]) {
            assert!(part.is_some_and(|part| part.abs_diff(ideal) < ideal / 20), "{part:?}, {ideal}");
        }
        let [(_, first), (_, second)] = &mut sessions;
        first.on_data(1);
        assert_eq!(first.share(at(400)), Some(1 << 20), "the other one is silent");
        second.on_data(1_000_000);
        second.share(at(400));
        assert_eq!(first.share(at(400)), Some(LEAST));
        assert_eq!(first.part(), Some(LEAST));
    }

    #[test]
    fn nothing_is_told_that_is_not_known() {
        let mut intake = Intake::new(SharedIntake::default());
        intake.on_data(5);
        assert_eq!((intake.part(), intake.share(at(1))), (None, None));
    }

    #[test]
    fn small_sockets_are_told_as_they_are() {
        let shared = SharedIntake::default();
        shared.set_bytes(208 << 10);
        let mut intake = Intake::new(shared);
        assert_eq!(intake.part(), Some(208 << 10));
        intake.on_data(5);
        assert_eq!(intake.share(at(1)), Some(208 << 10));
    }
}
