//! A limit that ends the start of one path of a node, and is shared equally by the sessions that meet it.
//!
//! Sessions that begin one after another are as far apart when a queue ends their starts as their beginnings were.

use std::time::Duration;

use super::SHORTEST_ROUND;
use crate::time::Time;

/// So many round trips after a limit was found most of what filled its queue has been drained; the second time all of
/// it. Before that, the session whose packets come last in each run loses most of them, and is shown the least rate.
const SETTLED: [u32; 2] = [3, 12];
/// A session that fills a link sees the queue that a newcomer makes so many round trips before the newcomer does, whose
/// rate doubles.
const DOUBLINGS: u32 = 5;

/// What a session sends at a limit, in bit/s.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Part {
    /// Now.
    pub(super) rate: f64,
    /// At most: a session that has found a narrower limit of its own is not to have more.
    pub(super) most: f64,
}

impl Part {
    pub(super) fn sum(parts: impl Iterator<Item = Part>) -> Part {
        let none = Part { rate: 0.0, most: 0.0 };
        parts.fold(none, |sum, part| Part { rate: sum.rate + part.rate, most: sum.most + part.most })
    }

    /// Rates that are as equal as may be, with the same sum.
    pub(super) fn equal(parts: &[Part]) -> Vec<f64> {
        let mut narrowest_first: Vec<usize> = (0..parts.len()).collect();
        narrowest_first.sort_by(|a, b| parts[*a].most.total_cmp(&parts[*b].most));
        let mut rates = vec![0.0; parts.len()];
        let mut left: f64 = parts.iter().map(|part| part.rate).sum();
        for (index, count) in narrowest_first.into_iter().zip((1..=parts.len()).rev()) {
            rates[index] = parts[index].most.min(left / count as f64);
            left -= rates[index];
        }
        rates
    }
}

/// A limit that was found by a queue.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limit {
    found: Time,
    round_trip: Duration,
    /// How often it was shared.
    times: usize,
    /// Whether nobody else had met it.
    is_own: bool,
}

impl Limit {
    pub(super) fn found(now: Time, round_trip: Duration) -> Limit {
        Limit { found: now, round_trip: round_trip.max(SHORTEST_ROUND), times: 0, is_own: false }
    }

    /// Whether it is to be shared now.
    pub(super) fn take_due(&mut self, now: Time) -> bool {
        let is_due = SETTLED
            .get(self.times)
            .is_some_and(|settled| now.since(self.found) >= *settled * self.round_trip);
        self.times += usize::from(is_due);
        is_due
    }

    /// Whether the queue that became too long may be the one that showed it.
    pub(super) fn explains(&self, crowd: Crowd) -> bool {
        let [from, to] = [DOUBLINGS * self.round_trip, self.round_trip];
        crowd.begun.is_some_and(|begun| begun + from >= self.found && begun <= self.found + to)
    }

    /// Whether it is the limit of one path alone, which nobody else has met.
    pub(super) fn is_own(&self) -> bool {
        self.is_own
    }

    /// Nobody else has met it: it is the path's own, if a queue has shown it again since it was found.
    pub(super) fn keep(&mut self, last_at_target: Time) {
        self.is_own = self.found < last_at_target;
    }

    /// Whether no queue has stood since it was found, although it was shared for the last time.
    pub(super) fn is_doubtful(&self, last_at_target: Time) -> bool {
        self.times == SETTLED.len() && self.found > last_at_target
    }
}

/// When a path's queue became too long.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Crowd {
    begun: Option<Time>,
    latest: Option<Time>,
}

impl Crowd {
    /// The queue is too long; that counts anew if it was not for a round trip.
    pub(super) fn observe(&mut self, now: Time, round_trip: Duration) {
        let pause = round_trip.max(SHORTEST_ROUND);
        if self.latest.is_none_or(|latest| now.since(latest) > pause) {
            self.begun = Some(now);
        }
        self.latest = Some(now);
    }
}
#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::event::SessionId;
    use crate::overlay::{LinkId, RouteLink};
    use crate::session::rate::RateController;
    use crate::session::rate::bottlenecks::{Bottlenecks, CoupledPath};

    const ROUND_TRIP: Duration = Duration::from_millis(100);

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    /// A path that sends all that it may, of so many Mbit/s, and whose queue became too long at these times.
    fn path(mbit: f64, crowded: &[u64]) -> RateController {
        let mut controller = RateController::new(Time::ZERO);
        controller.begin_beside(Time::ZERO, mbit * 1e6);
        controller.meter.show_use(None, true);
        crowded.iter().for_each(|millis| controller.meter.note_crowd(at(*millis), ROUND_TRIP));
        controller
    }

    /// Sessions of one path each, over these links.
    struct Sessions(Vec<(RateController, Vec<RouteLink>)>);

    impl Sessions {
        fn new<const N: usize>(paths: [(RateController, u16); N]) -> Sessions {
            let link = |link: u16| RouteLink { link: LinkId(link.into()), capacity_bps: None };
            Sessions(paths.into_iter().map(|(path, number)| (path, vec![link(number)])).collect())
        }

        fn paths(&mut self) -> Vec<Vec<CoupledPath<'_>>> {
            self.0.iter_mut().map(|(controller, links)| vec![CoupledPath { controller, links }]).collect()
        }

        /// Each has a report at these times, and what is new then is told.
        fn run(&mut self, times: &[u64]) {
            let mut book = Bottlenecks::default();
            for millis in times {
                for (index, paths) in self.paths().iter_mut().enumerate() {
                    book.couple(at(*millis), SessionId(index as u64), paths, None);
                }
                while let Some(found) = book.poll_found() {
                    let concerned = book.concerned_by(&found);
                    let paths = self.paths().into_iter().enumerate();
                    let paths = paths.filter(|(index, _)| concerned.contains(&SessionId(*index as u64)));
                    found.tell(at(*millis), &mut paths.map(|(_, paths)| paths).collect::<Vec<_>>());
                }
            }
        }

        fn mbit(&self) -> Vec<f64> {
            self.0.iter().map(|(controller, _)| (controller.mean_rate() / 1e5).round() / 10.0).collect()
        }
    }

    /// What two sessions of 10 and 30 Mbit/s have after the first has found a limit at 1 s.
    fn shared_with(second: RateController, link: u16) -> Vec<f64> {
        let mut first = path(10.0, &[1_000]);
        first.limit = Some(Limit::found(at(1_000), ROUND_TRIP));
        let mut sessions = Sessions::new([(first, 1), (second, link)]);
        sessions.run(&[1_250, 1_350]);
        sessions.mbit()
    }

    #[test]
    fn a_limit_is_shared_with_those_whose_queue_grew_with_it_on_the_same_link() {
        assert_eq!(shared_with(path(30.0, &[900]), 1), [20.0, 20.0]);
        assert_eq!(shared_with(path(30.0, &[900]), 2), [10.0, 30.0]);
        assert_eq!(shared_with(path(30.0, &[]), 1), [10.0, 30.0]);
        assert_eq!(shared_with(path(30.0, &[1_200]), 1), [10.0, 30.0]);
        // It has been too long all the time: a queue of its own.
        let since_long = (0..20).map(|number| 50 + 50 * number).collect::<Vec<u64>>();
        assert_eq!(shared_with(path(30.0, &since_long), 1), [10.0, 30.0]);
        let mut idle = path(30.0, &[900]);
        idle.meter.show_use(None, false);
        assert_eq!(shared_with(idle, 1), [10.0, 30.0]);
    }

    #[test]
    fn a_limit_is_shared_twice_and_not_before_its_queue_is_drained() {
        let mut limit = Limit::found(at(1_000), ROUND_TRIP);
        let due: Vec<u64> = (1_000..4_000).step_by(10).filter(|millis| limit.take_due(at(*millis))).collect();
        assert_eq!(due, [1_300, 2_200]);
    }

    #[test]
    fn who_found_a_narrower_limit_alone_does_not_get_more() {
        let mut slow = path(10.0, &[900]);
        slow.limit = Some(Limit { is_own: true, ..Limit::found(at(500), ROUND_TRIP) });
        let parts = [slow.part(), path(20.0, &[]).part(), path(60.0, &[]).part()];
        assert_eq!(Part::equal(&parts), [10e6, 40e6, 40e6]);
    }

    /// What is left of a limit of 10 Mbit/s that nobody else has met, if the path saw a queue at `told` ms, and whether
    /// it hurries.
    fn kept(told: u64) -> (bool, bool) {
        let mut controller = path(10.0, &[1_000]);
        controller.limit = Some(Limit::found(at(1_000), ROUND_TRIP));
        controller.meter.note_queue_at_target(at(told));
        controller.climb.end();
        let mut sessions = Sessions::new([(controller, 1)]);
        sessions.run(&[1_300, 2_200]);
        let (controller, _) = &sessions.0[0];
        (controller.limit.is_some_and(|limit| limit.is_own), controller.climb.has_begun())
    }

    /// In a process that was busy when its sessions began, paths once kept to 1 to 3 Mbit/s of links of 24.
    #[test]
    fn a_limit_that_no_queue_has_shown_again_was_a_pause() {
        assert_eq!(kept(2_000), (true, false));
        assert_eq!(kept(900), (false, true));
    }

    proptest! {
        #[test]
        fn equal_parts_have_the_same_sum_and_keep_within_their_bounds(
            parts in proptest::collection::vec((1.0f64..1e3, prop_oneof![Just(0.0), Just(1e9), 0.0f64..100.0]), 1..20)
        ) {
            let parts: Vec<Part> = parts.into_iter().map(|(rate, more)| Part { rate, most: rate + more }).collect();
            let equal = Part::equal(&parts);
            let sum = |rates: &mut dyn Iterator<Item = f64>| rates.sum::<f64>();
            let before = sum(&mut parts.iter().map(|part| part.rate));
            prop_assert!((sum(&mut equal.iter().copied()) - before).abs() < 1e-6 * before);
            let greatest = equal.iter().copied().fold(0.0, f64::max);
            for (part, rate) in parts.iter().zip(&equal) {
                prop_assert!(*rate <= part.most);
                // A session that has less than another cannot have more.
                prop_assert!(*rate >= greatest - 1e-6 || *rate == part.most);
            }
        }
    }
}
