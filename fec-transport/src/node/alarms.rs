//! When each session wants to act next, kept so that those that are idle cost nothing.

use std::collections::{BTreeMap, BTreeSet};

use crate::event::SessionId;
use crate::time::Time;

/// When sessions want to act. What a session says of itself holds until something is done with it; then it is asked
/// again, when somebody wants to know.
#[derive(Debug, Default)]
pub(super) struct Alarms {
    by_session: BTreeMap<SessionId, Time>,
    by_time: BTreeSet<(Time, SessionId)>,
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
    pub(super) fn next(&self, ask: impl Fn(SessionId) -> Option<Time>) -> Option<Time> {
        let touched = self.touched.iter().filter_map(|session| ask(*session));
        // What those that were touched said before may hold no more.
        let others = self.by_time.iter().find(|(_, session)| !self.touched.contains(session));
        touched.chain(others.map(|(at, _)| *at)).min()
    }

    /// The sessions that want to act at `now`, the one that has waited longest first.
    pub(super) fn due(&mut self, now: Time, ask: impl Fn(SessionId) -> Option<Time>) -> Vec<SessionId> {
        for session in std::mem::take(&mut self.touched) {
            self.set(session, ask(session));
        }
        self.by_time.iter().take_while(|(at, _)| *at <= now).map(|(_, session)| *session).collect()
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
            self.by_time.remove(&(before, session));
        }
        if let Some(at) = at {
            self.by_time.insert((at, session));
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
            assert!(alarms.due(at(0), ask).is_empty());
            assert_eq!(asked.replace(0), count);
            for turn in 0..1_000 {
                alarms.touch(SessionId(turn % 3));
                assert_eq!(alarms.next(ask), Some(at(1_000)));
                assert!(alarms.due(at(turn), ask).is_empty());
            }
            assert_eq!(asked.get(), 2_000, "one session a turn, of {count}");
        }
    }

    proptest! {
        #[test]
        fn it_says_what_asking_all_would_say(
            steps in proptest::collection::vec((0u64..6, proptest::option::of(0u64..20), 0u64..20), 1..60),
        ) {
            let (mut alarms, mut truth) = (Alarms::default(), BTreeMap::new());
            for (session, change, now) in steps {
                let session = SessionId(session);
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
                if now % 2 == 0 {
                    let expected: BTreeSet<SessionId> = truth
                        .iter()
                        .filter(|(_, wants)| wants.is_some_and(|wants| wants <= at(now)))
                        .map(|(session, _)| *session)
                        .collect();
                    let due = alarms.due(at(now), ask);
                    prop_assert_eq!(due.len(), expected.len());
                    prop_assert_eq!(due.into_iter().collect::<BTreeSet<_>>(), expected);
                }
            }
        }
    }
}
