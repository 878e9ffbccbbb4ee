//! When each session wants to act next, kept so that those that are idle cost nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::SessionId;
use crate::time::Time;

/// When sessions want to act. What a session says of itself holds until something is done with it; then it is asked
/// again, when somebody wants to know.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    by_session: BTreeMap<SessionId, Time>,
    /// Those whose time was not there yet when somebody looked.
    waiting: BTreeSet<(Time, SessionId)>,
    /// The others.
    due: BTreeSet<SessionId>,
    /// Sessions with which something was done since they were asked.
    touched: BTreeSet<SessionId>,
}

impl Alarms {
    /// Something was done with a session.
    pub(super) fn touch(&mut self, session: SessionId) {
        self.touched.insert(session);
    }

    /// A session is over.
    pub(super) fn forget(&mut self, session: SessionId) {
        self.touched.remove(&session);
        self.set(session, None);
    }

    /// When the first session wants to act; `ask` asks one.
    pub(super) fn next(&mut self, ask: impl Fn(SessionId) -> Option<Time>) -> Option<Time> {
        self.ask_touched(ask);
        let due = self.due.iter().map(|session| self.by_session[session]);
        let waiting = self.waiting.first().map(|(at, _)| *at);
        due.chain(waiting).min()
    }

    /// The first session, from `from` on, that wants to act at `now`, a time that never goes back.
    pub(super) fn due_from(
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
            let (mut alarms, asked) = (Alarms::default(), Cell::new(0));
            let ask = |session: SessionId| {
                asked.set(asked.get() + 1);
                Some(at(1_000 + session.0))
            };
            (0..count).for_each(|number| alarms.touch(SessionId(number)));
            assert_eq!(alarms.due_from(at(0), SessionId(0), ask), None);
            assert_eq!(asked.replace(0), count);
            for turn in 0..1_000 {
                alarms.touch(SessionId(turn % 3));
                assert_eq!(alarms.next(ask), Some(at(1_000)));
                assert_eq!(alarms.due_from(at(turn), SessionId(0), ask), None);
            }
            assert_eq!(asked.get(), 1_000, "one session a turn, of {count}");
        }
    }

    proptest! {
        #[test]
        fn it_says_what_asking_all_would_say(
            steps in proptest::collection::vec((0u64..6, proptest::option::of(0u64..40), 0u64..2, 0u64..7), 1..60),
        ) {
            let (mut alarms, mut truth, mut now) = (Alarms::default(), BTreeMap::new(), at(0));
            for (session, change, passes, from) in steps {
                let (session, from) = (SessionId(session), SessionId(from));
                match change {
                    Some(wants) => drop(truth.insert(session, (wants > 0).then(|| at(wants)))),
                    None => drop(truth.remove(&session)),
                }
                match change {
                    Some(_) => alarms.touch(session),
                    None => alarms.forget(session),
                }
                let ask = |session| truth.get(&session).copied().flatten();
                prop_assert_eq!(alarms.next(ask), truth.values().flatten().min().copied());
                now += Duration::from_secs(passes);
                if passes > 0 {
                    let mut due = truth.range(from..).filter(|(_, at)| at.is_some_and(|at| at <= now));
                    prop_assert_eq!(alarms.due_from(now, from, ask), due.next().map(|(session, _)| *session));
                }
            }
        }
    }
}
