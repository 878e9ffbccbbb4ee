//! Which sessions may have something to do, so that nobody looks at the others: a node has up to 1,024 sessions, and
//! most of them wait.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::SessionId;
use crate::time::Time;

/// Which sessions are awake, and until when the others sleep.
///
/// A session that is touched, or whose time has come, is awake until it was asked for something to send and had nothing.
#[derive(Debug, Default)]
pub(super) struct Awake {
    awake: BTreeSet<SessionId>,
    asleep: BTreeSet<(Time, SessionId)>,
    /// Until when each one sleeps that wakes by itself.
    until: BTreeMap<SessionId, Time>,
    /// Sessions that may have work on codes.
    working: BTreeSet<SessionId>,
    /// The lowest number of a session whose turn it is to send.
    turn: u64,
}

impl Awake {
    /// Something happened to a session.
    pub(super) fn touch(&mut self, id: SessionId) {
        self.working.insert(id);
        if self.awake.insert(id) {
            self.forget_alarm(id);
        }
    }

    /// A session has nothing to send, and wakes by itself at that time.
    pub(super) fn sleep(&mut self, id: SessionId, until: Option<Time>) {
        self.awake.remove(&id);
        self.forget_alarm(id);
        if let Some(until) = until {
            self.asleep.insert((until, id));
            self.until.insert(id, until);
        }
    }

    /// A session is gone.
    pub(super) fn remove(&mut self, id: SessionId) {
        self.sleep(id, None);
        self.working.remove(&id);
    }

    /// Wakes those whose time has come.
    pub(super) fn wake(&mut self, now: Time) {
        while let Some((_, id)) = self.asleep.first().copied().filter(|(until, _)| *until <= now) {
            self.touch(id);
        }
    }

    /// When the next one wakes by itself.
    pub(super) fn next(&self) -> Option<Time> {
        self.asleep.first().map(|(until, _)| *until)
    }

    /// Those that are awake.
    pub(super) fn awake(&self) -> impl Iterator<Item = SessionId> + '_ {
        self.awake.iter().copied()
    }

    /// How many are awake.
    pub(super) fn count(&self) -> usize {
        self.awake.len()
    }

    /// The next one that is awake and may send; they take turns.
    pub(super) fn take_turn(&mut self) -> Option<SessionId> {
        let id = *self.awake.range(SessionId(self.turn)..).next().or_else(|| self.awake.first())?;
        self.turn = id.0 + 1;
        Some(id)
    }

    /// One that may have work on codes, until it is told to have [none](Self::has_no_work).
    pub(super) fn working(&self) -> Option<SessionId> {
        self.working.first().copied()
    }

    /// A session has no work on codes until something happens to it.
    pub(super) fn has_no_work(&mut self, id: SessionId) {
        self.working.remove(&id);
    }

    fn forget_alarm(&mut self, id: SessionId) {
        if let Some(until) = self.until.remove(&id) {
            self.asleep.remove(&(until, id));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn at(ms: u64) -> Time {
        Time::from_epoch(Duration::from_millis(ms))
    }

    /// Each wake-up once asked all sessions of the node, whether they had anything to do or not.
    #[test]
    fn of_ten_thousand_sessions_only_those_are_looked_at_that_may_have_something_to_do() {
        let mut awake = Awake::default();
        for id in 0..10_000 {
            awake.touch(SessionId(id));
            awake.sleep(SessionId(id), Some(at(1_000 + id)));
        }
        assert_eq!((awake.count(), awake.next()), (0, Some(at(1_000))));
        awake.wake(at(999));
        assert_eq!(awake.take_turn(), None);
        awake.touch(SessionId(7));
        awake.wake(at(1_002));
        assert_eq!(awake.awake().map(|id| id.0).collect::<Vec<_>>(), [0, 1, 2, 7]);
        assert_eq!(awake.next(), Some(at(1_003)));
    }

    #[test]
    fn those_that_are_awake_take_turns_until_they_sleep() {
        let mut awake = Awake::default();
        [1, 2, 3].into_iter().for_each(|id| awake.touch(SessionId(id)));
        let turns: Vec<u64> = (0..4).filter_map(|_| Some(awake.take_turn()?.0)).collect();
        assert_eq!(turns, [1, 2, 3, 1]);
        awake.sleep(SessionId(2), None);
        assert_eq!(awake.take_turn(), Some(SessionId(3)));
        awake.remove(SessionId(3));
        assert_eq!((awake.take_turn(), awake.count()), (Some(SessionId(1)), 1));
    }

    #[test]
    fn who_is_touched_sleeps_no_longer_and_has_one_alarm() {
        let mut awake = Awake::default();
        awake.sleep(SessionId(1), Some(at(5)));
        awake.sleep(SessionId(1), Some(at(9)));
        assert_eq!(awake.next(), Some(at(9)));
        awake.touch(SessionId(1));
        assert_eq!((awake.next(), awake.working()), (None, Some(SessionId(1))));
        awake.has_no_work(SessionId(1));
        assert_eq!(awake.working(), None);
    }
}
