//! What the paths of one session do together: over a link that several of them cross, they probe as one, and they
//! respect known capacities and the session's limit together. A path that comes in beside others gets its rate from
//! what the session knows of their links.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::news::{News, What};
use super::{INITIAL_RATE, Manoeuvre, RateController};
use crate::overlay::{LinkId, RouteLink};
use crate::time::Time;

/// A path as the coupling sees it.
#[derive(Debug)]
pub(crate) struct CoupledPath<'a> {
    pub(crate) controller: &'a mut RateController,
    pub(crate) links: &'a [RouteLink],
}

/// What is sent over a link is averaged for so long before it counts as what the link carries.
const AVERAGE: Duration = Duration::from_secs(1);
/// What a link has carried is worth 1/e after this time.
const MEMORY: Duration = Duration::from_secs(20);
/// A link that carries less than this share of it has room.
const SPARE: f64 = 0.8;

/// What a session knows of the links that its paths cross.
#[derive(Debug, Default)]
pub(crate) struct Coupling {
    loads: BTreeMap<LinkId, Load>,
    /// What has happened that concerns the other sessions of the node.
    news: VecDeque<News>,
}

/// What a session sends over a link, in bit/s.
#[derive(Debug, Clone, Copy)]
struct Load {
    at: Time,
    mean: f64,
    /// The most that the mean has been lately.
    most: f64,
    /// Whether more than one path has crossed it at once: what one leaves is then for the others.
    is_shared: bool,
}

impl Coupling {
    /// Couples the live paths of a session; to be called after each report. `limit` is for all paths together, in
    /// bit/s.
    pub(crate) fn couple(&mut self, now: Time, paths: &mut [CoupledPath<'_>], limit: Option<f64>) {
        self.join_manoeuvres(now, paths);
        hold_beside_checks(paths);
        let limits = paths.iter_mut().filter_map(|path| Some((path.controller.take_limit(now)?, &*path)));
        self.news.extend(limits.map(|(limit, path)| News::of(path, limit)));
        for (link, rate, paths) in &rates(paths, RateController::sent_rate) {
            let new = Load { at: now, mean: *rate, most: *rate, is_shared: false };
            self.loads.entry(*link).or_insert(new).observe(now, *rate, *paths);
        }
        let rates = rates(paths, RateController::mean_rate);
        for path in paths.iter_mut() {
            let over = |link: &RouteLink| rate_over(link.link, &rates);
            path.controller.set_shared_rate(path.links.iter().map(over).fold(0.0, f64::max));
            let has_room = |link: &RouteLink| self.has_room(now, link.link, over(link));
            if !path.links.is_empty() && path.links.iter().all(has_room) {
                path.controller.hurry(now);
            }
        }
        keep_capacities(now, paths);
        if let Some(limit) = limit {
            let rate = paths.iter().map(|path| path.controller.mean_rate()).sum();
            scale(now, paths.iter_mut(), limit, rate);
        }
    }

    /// What has happened that concerns other sessions of the node, too.
    pub(crate) fn poll_news(&mut self) -> Option<News> {
        self.news.pop_front()
    }

    /// Whether there is any.
    pub(crate) fn has_news(&self) -> bool {
        !self.news.is_empty()
    }

    /// Makes room for the path at `newcomer`, which has just come into the schedule. Over each link that it shares it
    /// gets what the session has not used of late, or as much as each of the others, whichever is more; and these give
    /// up what is then too much. So a link that was full stays full, and no fuller. Paths that are at their start know
    /// nothing.
    pub(crate) fn admit(&self, now: Time, paths: &mut [CoupledPath<'_>], newcomer: usize) {
        let others = |link: &RouteLink| -> Vec<usize> {
            let crosses = |index: &usize| *index != newcomer && crosses(paths[*index].links, link);
            (0..paths.len()).filter(crosses).collect()
        };
        let shared: Vec<(LinkId, Vec<usize>)> =
            paths[newcomer].links.iter().map(|link| (link.link, others(link))).collect();
        let load =
            |others: &[usize]| others.iter().map(|index| paths[*index].controller.mean_rate()).sum::<f64>();
        let known = |index: &usize| !paths[*index].controller.is_starting();
        if !shared.iter().flat_map(|(_, others)| others).any(known) {
            return;
        }
        let mut rate = paths[newcomer].controller.mean_rate();
        for (link, others) in shared.iter().filter(|(_, others)| !others.is_empty()) {
            let load = load(others);
            rate = rate.min((self.carried(now, *link) - load).max(load / (others.len() + 1) as f64));
        }
        let mut shares = vec![1.0f64; paths.len()];
        for (link, others) in &shared {
            let load = load(others);
            let share = (self.carried(now, *link).max(load) - rate) / load.max(1.0);
            others.iter().for_each(|index| shares[*index] = shares[*index].min(share));
        }
        paths[newcomer].controller.begin_beside(now, rate);
        for (path, share) in paths.iter_mut().zip(shares).filter(|(_, share)| *share < 1.0) {
            path.controller.make_room(now, share);
        }
    }

    fn join_manoeuvres(&mut self, now: Time, paths: &mut [CoupledPath<'_>]) {
        let begun: Vec<(usize, Manoeuvre)> = (paths.iter_mut().enumerate())
            .filter_map(|(index, path)| Some((index, path.controller.take_begun()?)))
            .collect();
        for (leader, manoeuvre) in begun {
            self.news.push_back(News::of(&paths[leader], What::Begun(manoeuvre)));
            let joined = neighbours(leader, paths);
            for index in joined.iter().filter(|index| **index != leader) {
                paths[*index].controller.join(now, manoeuvre);
            }
            // A path's drain tells whose queue it is only if all that the session sends over its links is lowered with
            // it.
            let tells = |index: usize| {
                let mut others = neighbours(index, paths).into_iter();
                others.all(|other| joined.contains(&other) && paths[other].controller.is_busy())
            };
            let mute: Vec<usize> = joined.iter().copied().filter(|index| !tells(*index)).collect();
            mute.into_iter().for_each(|index| paths[index].controller.discount_drain());
        }
    }

    /// Whether a link that several paths cross has lately carried much more than the `rate` of now, in bit/s.
    fn has_room(&self, now: Time, link: LinkId, rate: f64) -> bool {
        self.loads.get(&link).is_some_and(|load| load.is_shared && rate < SPARE * load.faded(now))
    }

    /// What a link has carried lately, in bit/s; of a link that is not known, the rate that is tried at first.
    fn carried(&self, now: Time, link: LinkId) -> f64 {
        self.loads.get(&link).map_or(INITIAL_RATE, |load| load.faded(now))
    }
}

impl Load {
    fn observe(&mut self, now: Time, rate: f64, paths: usize) {
        self.is_shared |= paths > 1;
        let faded = self.faded(now);
        let age = now.since(self.at).as_secs_f64();
        self.mean += (1.0 - (-age / AVERAGE.as_secs_f64()).exp()) * (rate - self.mean);
        (self.at, self.most) = (now, faded.max(self.mean));
    }

    fn faded(&self, now: Time) -> f64 {
        self.most * (-now.since(self.at).as_secs_f64() / MEMORY.as_secs_f64()).exp()
    }
}

/// No link is to carry more than it is known to.
fn keep_capacities(now: Time, paths: &mut [CoupledPath<'_>]) {
    for index in 0..paths.len() {
        for link in paths[index].links {
            let Some(capacity) = link.capacity_bps else { continue };
            let over = || paths.iter().filter(|path| crosses(path.links, link));
            let rate = over().map(|path| path.controller.mean_rate()).sum();
            scale(now, paths.iter_mut().filter(|path| crosses(path.links, link)), capacity, rate);
        }
    }
}

/// While a path looks whether its loss falls with the rate, those over common links send as much less.
fn hold_beside_checks(paths: &mut [CoupledPath<'_>]) {
    let checking: Vec<(usize, f64)> = (paths.iter().enumerate())
        .filter_map(|(index, path)| Some((index, path.controller.check_share()?)))
        .collect();
    let beside = |index: usize| {
        let neighbours =
            checking.iter().filter(|(other, _)| *other != index && are_neighbours(index, *other, paths));
        neighbours.map(|(_, share)| *share).reduce(f64::min)
    };
    let held: Vec<Option<f64>> = (0..paths.len()).map(beside).collect();
    paths.iter_mut().zip(held).for_each(|(path, share)| path.controller.hold(share));
}

/// The paths that share a link with the one at `index`, itself included.
fn neighbours(index: usize, paths: &[CoupledPath<'_>]) -> Vec<usize> {
    (0..paths.len()).filter(|other| *other == index || are_neighbours(index, *other, paths)).collect()
}

fn are_neighbours(one: usize, other: usize, paths: &[CoupledPath<'_>]) -> bool {
    paths[one].links.iter().any(|link| crosses(paths[other].links, link))
}

pub(super) fn crosses(links: &[RouteLink], link: &RouteLink) -> bool {
    links.iter().any(|other| other.link == link.link)
}

/// What `rate` gives for all paths together over each link, in the order of the links, and how many paths they are.
fn rates(paths: &[CoupledPath<'_>], rate: fn(&RateController) -> f64) -> Vec<(LinkId, f64, usize)> {
    let of_path = |path: &CoupledPath<'_>| {
        let rate = rate(path.controller);
        path.links.iter().map(move |crossed| (crossed.link, rate, 1)).collect::<Vec<_>>()
    };
    let mut rates: Vec<(LinkId, f64, usize)> = paths.iter().flat_map(of_path).collect();
    rates.sort_by_key(|(link, ..)| *link);
    rates.dedup_by(|later, earlier| {
        let same = later.0 == earlier.0;
        if same {
            earlier.1 += later.1;
            earlier.2 += later.2;
        }
        same
    });
    rates
}

fn rate_over(link: LinkId, rates: &[(LinkId, f64, usize)]) -> f64 {
    rates.binary_search_by_key(&link, |(link, ..)| *link).map_or(0.0, |index| rates[index].1)
}

fn scale<'a, 'b: 'a>(now: Time, paths: impl Iterator<Item = &'a mut CoupledPath<'b>>, limit: f64, rate: f64) {
    if rate > limit {
        paths.for_each(|path| path.controller.scale(now, limit / rate));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::rate::Feedback;
    use crate::session::rate::mode::Mode;
    use crate::session::rate::tests::feedback;

    const NOW: Time = Time::ZERO;

    fn links(numbers: &[u16]) -> Vec<RouteLink> {
        numbers.iter().map(|number| RouteLink { link: LinkId(*number), capacity_bps: None }).collect()
    }

    /// Controllers of paths that have found their rates, in Mbit/s.
    fn established(rates: &[f64]) -> Vec<RateController> {
        let controller = |rate: &f64| {
            let mut controller = RateController::new(NOW);
            controller.begin_beside(NOW, rate * 1e6);
            controller
        };
        rates.iter().map(controller).collect()
    }

    fn coupled<'a>(
        controllers: &'a mut [RateController],
        links: &'a [Vec<RouteLink>],
    ) -> Vec<CoupledPath<'a>> {
        let path = |(controller, links)| CoupledPath { controller, links };
        controllers.iter_mut().zip(links.iter().map(Vec::as_slice)).map(path).collect()
    }

    /// A coupling that has seen what the paths send.
    fn knowing(controllers: &mut [RateController], links: &[Vec<RouteLink>]) -> Coupling {
        let mut coupling = Coupling::default();
        coupling.couple(NOW, &mut coupled(controllers, links), None);
        coupling
    }

    fn mbit(controllers: &[RateController]) -> Vec<f64> {
        controllers.iter().map(|controller| controller.mean_rate() / 1e6).collect()
    }

    /// Detours once began at 4 Mbit/s each over links of 10 Mbit/s that were full: a third of all packets was lost.
    #[test]
    fn who_comes_onto_a_full_link_gets_a_part_of_what_it_carries() {
        let (mut controllers, links) =
            (established(&[6.0, 3.0]), [links(&[1, 2]), links(&[1, 3]), links(&[1, 4])]);
        let coupling = knowing(&mut controllers, &links);
        controllers.push(RateController::new(NOW));
        coupling.admit(NOW, &mut coupled(&mut controllers, &links), 2);
        assert_eq!(mbit(&controllers), [4.0, 2.0, 3.0]);
    }

    /// A link known to be slow was once taken to carry what is tried of an unknown one.
    #[test]
    fn who_comes_onto_a_slow_link_gets_a_part_of_it() {
        let (mut controllers, links) = (established(&[0.5, 0.7]), [links(&[1]), links(&[1]), links(&[1])]);
        let coupling = knowing(&mut controllers, &links);
        controllers.push(RateController::new(NOW));
        coupling.admit(NOW, &mut coupled(&mut controllers, &links), 2);
        let sum: f64 = mbit(&controllers).iter().sum();
        assert!((sum - 1.2).abs() < 0.05, "{:?}", mbit(&controllers));
    }

    #[test]
    fn what_a_dead_path_has_left_is_for_who_comes_next() {
        let (mut controllers, links) =
            (established(&[6.0, 3.0]), [links(&[1, 2]), links(&[1, 3]), links(&[1, 4])]);
        let coupling = knowing(&mut controllers, &links);
        controllers[0] = RateController::new(NOW);
        coupling.admit(NOW, &mut coupled(&mut controllers, &[links[2].clone(), links[1].clone()]), 0);
        assert_eq!(mbit(&controllers), [4.0, 3.0]);
    }

    #[test]
    fn at_the_start_nobody_knows_what_a_link_carries() {
        let (mut controllers, links) = (vec![RateController::new(NOW); 2], [links(&[1]), links(&[1])]);
        Coupling::default().admit(NOW, &mut coupled(&mut controllers, &links), 1);
        assert_eq!(mbit(&controllers), [4.0, 4.0]);
        assert!(controllers.iter().all(RateController::is_starting));
    }

    /// Over Geant2012 a path was allowed 14 Mbit/s of a link of 10, because it sent 8, and later it climbed to there
    /// again.
    #[test]
    fn a_link_has_carried_what_was_sent_over_it_not_what_was_allowed() {
        let hurries = |sent: f64| {
            let (mut controllers, links) = (established(&[14.0, 1.0]), [links(&[1]), links(&[1])]);
            controllers[0].meter.show_use(Some(sent * 1e6), true);
            let mut coupling = knowing(&mut controllers, &links);
            controllers[0].scale(NOW, 9.0 / 14.0);
            controllers[0].climb.end();
            coupling.couple(NOW, &mut coupled(&mut controllers, &links), None);
            controllers[0].climb.has_begun()
        };
        assert!(!hurries(8.0));
        assert!(hurries(14.0));
    }

    /// Paths whose own loss had not risen once joined in the check, saw that it did not fall, and believed in a
    /// policer.
    #[test]
    fn beside_a_path_that_checks_others_send_less_and_conclude_nothing() {
        let (mut controllers, links) =
            (established(&[8.0, 8.0, 8.0]), [links(&[1]), links(&[1]), links(&[2])]);
        controllers[0].begin_check(NOW, 0.5);
        let mut coupling = knowing(&mut controllers, &links);
        let rates = |controllers: &[RateController], now| {
            controllers.iter().map(|controller| controller.rate(now) / 1e6).collect::<Vec<_>>()
        };
        assert_eq!(rates(&controllers, NOW), [4.0, 4.0, 8.0]);
        let reports = (0..800).map(feedback);
        for report in reports {
            controllers[1]
                .on_feedback(report.departed + report.round_trip, &Feedback { lost: 0.2, ..report });
        }
        let now = NOW + Duration::from_secs(9);
        controllers[0].enter(Mode::Cruise);
        coupling.couple(now, &mut coupled(&mut controllers, &links), None);
        assert_eq!(rates(&controllers, now), [8.0, 8.0, 8.0]);
        assert!(!controllers[1].climb.has_ceiling());
    }

    /// Only the path whose round was over first once sent less, and its drain kept the others from seeing the queue: 45
    /// ms of it stood for a second.
    #[test]
    fn who_joins_in_draining_a_queue_that_is_too_long_sends_less_afterwards() {
        let mut controllers = established(&[5.0, 4.0, 1.0]);
        let links = [links(&[1]), links(&[1, 2]), links(&[1, 3])];
        let mut drain = |share: f64| {
            let long = Duration::from_millis(50);
            controllers[..2]
                .iter_mut()
                .for_each(|controller| controller.meter.show_queue(long.as_secs_f64()));
            controllers[0].begun = Some(Manoeuvre::Drain { span: long, share });
            Coupling::default().couple(NOW, &mut coupled(&mut controllers, &links), None);
            mbit(&controllers)
        };
        assert_eq!(
            drain(0.75),
            [5.0, 3.0, 1.0],
            "the first has lowered its rate itself, the third sees no queue"
        );
        assert_eq!(drain(0.75), [5.0, 3.0, 1.0], "nothing was seen since");
    }

    /// Drains that others of the same session undid once opened contentions with flows that were not there.
    #[test]
    fn a_drain_tells_only_where_all_that_the_session_sends_is_lowered_with_it() {
        let links = [links(&[1]), links(&[1, 2]), links(&[2])];
        let tells = |busy: [bool; 3]| {
            let mut controllers = established(&[5.0; 3]);
            controllers
                .iter_mut()
                .zip(busy)
                .for_each(|(controller, busy)| controller.meter.show_use(None, busy));
            let span = Duration::from_millis(50);
            controllers[0].begin_drain(NOW, span);
            controllers[0].begun = Some(Manoeuvre::Drain { span, share: 1.0 });
            Coupling::default().couple(NOW, &mut coupled(&mut controllers, &links), None);
            controllers.iter().map(|controller| controller.drain.will_tell()).collect::<Vec<_>>()
        };
        // The second path drains too, but the third, which shares its other link, does not.
        assert_eq!(tells([true; 3]), [true, false, false]);
        assert_eq!(tells([true, false, true]), [false, false, false]);
    }
}
