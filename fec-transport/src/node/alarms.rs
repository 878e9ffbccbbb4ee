//! When each session wants to act next, kept so that those that are idle cost nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::SessionId;
use crate::time::Time;

/// When sessions have something to send, and when they have something else to do. What a session says of itself holds
/// until something is done with it; then it is asked again, when somebody wants to know.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    sending: Schedule,
    acting: Schedule,
}

impl Alarms {
    /// Something was done with a session.
    pub(super) fn touch(&mut self, session: SessionId) {
        self.sending.touch(session);
        self.acting.touch(session);
    }

    /// A session is over.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.sending.forget(session);
        self.acting.forget(session);
    }

    /// When the first session has something to do, or a time that has come, if some are due; `sends_at` and `acts_at`
    /// ask one.
    pub(super) fn next(
        &mut self,
        sends_at: impl Fn(SessionId) -> Option<Time>,
        acts_at: impl Fn(SessionId) -> Option<Time>,
    ) -> Option<Time> {
        self.sending.next(sends_at).into_iter().chain(self.acting.next(acts_at)).min()
    }

    /// The first session, from `from` on, that has something to send at `now`, a time that never goes back.
    pub(super) fn sending_from(
        &mut self,
        now: Time,
        from: SessionId,
        sends_at: impl Fn(SessionId) -> Option<Time>,
    ) -> Option<SessionId> {
        self.sending.due_from(now, from, sends_at)
    }

    /// The first session, from `from` on, that has something else to do at `now`, a time that never goes back.
    pub(super) fn acting_from(
        &mut self,
        now: Time,
        from: SessionId,
        acts_at: impl Fn(SessionId) -> Option<Time>,
    ) -> Option<SessionId> {
        self.acting.due_from(now, from, acts_at)
    }
}

/// When sessions want to do one kind of thing.
#[derive(Debug, Default)]
struct Schedule {
    by_session: BTreeMap<SessionId, Time>,
    /// Those whose time was not there yet when somebody looked.
    waiting: BTreeSet<(Time, SessionId)>,
    /// The others.
    due: BTreeSet<SessionId>,
    /// Sessions with which something was done since they were asked.
    touched: BTreeSet<SessionId>,
}

impl Schedule {
    /// Something was done with a session.
    fn touch(&mut self, session: SessionId) {
        self.touched.insert(session);
    }

    /// A session is over.
    fn forget(&mut self, session: SessionId) {
        self.touched.remove(&session);
        self.set(session, None);
    }

    /// When the first session wants to act, or a time that has come, if some are due: to find the earliest of those, a
    /// node with hundreds of busy sessions would go over all of them in each of its turns. `ask` asks one.
    fn next(&mut self, ask: impl Fn(SessionId) -> Option<Time>) -> Option<Time> {
        self.ask_touched(ask);
        let due = self.due.first().map(|session| self.by_session[session]);
        due.or_else(|| self.waiting.first().map(|(at, _)| *at))
    }

    /// The first session, from `from` on, that wants to act at `now`, a time that never goes back.
    fn due_from(
        &mut self,
        now: Time,
        from: SessionId,
        ask: impl Fn(SessionId) -> Option<Time>,
    ) -> Option<SessionId> {
        self.ask_touched(ask);
        while let Some((_, session)) = self.waiting.first().copied().filter(|(at, _)| *at <= now) {
            self.waiting.pop_first();
            self.due.insert(session);
        }
        self.due.range(from..).next().copied()
    }

    fn ask_touched(&mut self, ask: impl Fn(SessionId) -> Option<Time>) {
        while let Some(session) = self.touched.pop_first() {
            self.set(session, ask(session));
        }
    }

    fn set(&mut self, session: SessionId, at: Option<Time>) {
        let before = match at {
            Some(at) => self.by_session.insert(session, at),
            None => self.by_session.remove(&session),
        };
        if before == at {
            return;
        }
        if let Some(before) = before {
            self.waiting.remove(&(before, session));
            self.due.remove(&session);
        }
        if let Some(at) = at {
            self.waiting.insert((at, session));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::time::Duration;

    use super::*;
    use proptest::prelude::*;

    fn at(seconds: u64) -> Time {
        Time::ZERO + Duration::from_secs(seconds)
    }

    /// Each turn of a node once asked all sessions several times, idle ones, too.
    #[test]
    fn idle_sessions_are_not_asked() {
        for count in [1_000, 10_000] {
            let (mut schedule, asked) = (Schedule::default(), Cell::new(0));
            let ask = |session: SessionId| {
                asked.set(asked.get() + 1);
                Some(at(1_000 + session.0))
            };
            (0..count).for_each(|number| schedule.touch(SessionId(number)));
            assert_eq!(schedule.due_from(at(0), SessionId(0), ask), None);
            assert_eq!(asked.replace(0), count);
            for turn in 0..1_000 {
                schedule.touch(SessionId(turn % 3));
                assert_eq!(schedule.next(ask), Some(at(1_000)));
                assert_eq!(schedule.due_from(at(turn), SessionId(0), ask), None);
            }
            assert_eq!(asked.get(), 1_000, "one session a turn, of {count}");
        }
    }

    proptest! {
        #[test]
        fn it_says_what_asking_all_would_say(
            steps in proptest::collection::vec((0u64..6, proptest::option::of(0u64..40), 0u64..2, 0u64..7), 1..60),
        ) {
            let (mut schedule, mut truth, mut now) = (Schedule::default(), BTreeMap::new(), at(0));
            for (session, change, passes, from) in steps {
                let (session, from) = (SessionId(session), SessionId(from));
                match change {
                    Some(wants) => drop(truth.insert(session, (wants > 0).then(|| at(wants)))),
                    None => drop(truth.remove(&session)),
                }
                match change {
                    Some(_) => schedule.touch(session),
                    None => schedule.forget(session),
                }
                let ask = |session| truth.get(&session).copied().flatten();
                let (next, first) = (schedule.next(ask), truth.values().flatten().min().copied());
                let has_come = |time: Option<Time>| time.is_some_and(|time| time <= now);
                let is_of_one = truth.values().any(|at| *at == next);
                let is_right = next == first || is_of_one && has_come(next) && has_come(first);
                prop_assert!(is_right, "{next:?}, {first:?}");
                now += Duration::from_secs(passes);
                if passes > 0 {
                    let mut due = truth.range(from..).filter(|(_, at)| at.is_some_and(|at| at <= now));
                    prop_assert_eq!(schedule.due_from(now, from, ask), due.next().map(|(session, _)| *session));
                }
            }
        }
    }
}
