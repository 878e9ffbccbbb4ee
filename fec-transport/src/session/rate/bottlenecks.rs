//! What a node knows of the links that its paths cross, and what the paths over a link do together.
//!
//! The paths of *one session* over a link probe as one: they empty its queue together, they respect known capacities
//! and the session's limit together, and one that comes in beside others gets its rate from what the session knows of
//! their links. *Sessions* over a link share a limit that ends the start of one of them, because the law of the queue
//! makes them equal, but over long ways by a few percent a second, and a node that writes to several I/O nodes at once
//! waits for the slowest meanwhile.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::common_limit::{Limit, Part};
use super::{INITIAL_RATE, Manoeuvre, RateController};
use crate::event::SessionId;
use crate::overlay::{Crossings, LinkId, RouteLink};
use crate::time::Time;

/// What is sent over a link is averaged for so long before it counts as what the link carries.
const AVERAGE: Duration = Duration::from_secs(1);
/// What a link has carried is worth 1/e after this time.
const MEMORY: Duration = Duration::from_secs(20);

/// A path in the schedule, as the book sees it.
#[derive(Debug)]
pub(crate) struct CoupledPath<'a> {
    pub(crate) controller: &'a mut RateController,
    pub(crate) links: &'a [RouteLink],
}

/// The links that the paths of a node cross: which sessions send over each, and what it has carried for each of them.
#[derive(Debug, Default)]
pub(crate) struct Bottlenecks {
    loads: BTreeMap<LinkId, BTreeMap<SessionId, Load>>,
    /// Limits of which the sessions over common links have not been told yet.
    found: VecDeque<FoundLimit>,
}

/// What a session sends over a link, in bit/s.
#[derive(Debug, Clone, Copy)]
struct Load {
    at: Time,
    mean: f64,
    /// The most that the mean has been lately.
    most: f64,
}

/// A limit at which the start of a path has ended. The sessions whose queues became too long then, too, share it
/// equally.
#[derive(Debug, Clone)]
pub(crate) struct FoundLimit {
    origin: SessionId,
    /// The links that the path crosses.
    links: BTreeSet<LinkId>,
    limit: Limit,
}

impl Bottlenecks {
    /// Couples the living paths of a session; to be called after each report. `limit` is for all of them together, in
    /// bit/s.
    pub(crate) fn couple(
        &mut self,
        now: Time,
        session: SessionId,
        paths: &mut [CoupledPath<'_>],
        limit: Option<f64>,
    ) {
        let crossings = crossings(paths);
        join_manoeuvres(now, paths, &crossings);
        for path in paths.iter_mut() {
            if let Some(limit) = path.controller.take_limit(now) {
                let links = path.links.iter().map(|crossed| crossed.link).collect();
                self.found.push_back(FoundLimit { origin: session, links, limit });
            }
        }
        self.note_loads(now, session, paths, &crossings);
        let rates = |link| crossings.sum(link, |path| paths[path].controller.mean_rate());
        let rates: BTreeMap<LinkId, f64> = crossings.links().map(|link| (link, rates(link))).collect();
        for path in paths.iter_mut() {
            let over = path.links.iter().map(|link| rates[&link.link]);
            let is_used = |link: &RouteLink| self.loads.get(&link.link).is_some_and(|loads| loads.len() > 1);
            path.controller.set_company(over.fold(0.0, f64::max), path.links.iter().any(is_used));
        }
        keep_capacities(now, paths, &crossings);
        if let Some(limit) = limit {
            let rate = paths.iter().map(|path| path.controller.mean_rate()).sum();
            scale(now, paths.iter_mut(), limit, rate);
        }
    }

    /// Makes room for the path at `newcomer`, which has just come into the schedule. Over each link that it shares it
    /// gets what the session has not used of late, or as much as each of the others, whichever is more; and these give
    /// up what is then too much. So a link that was full stays full, and no fuller. Paths that are at their start know
    /// nothing.
    pub(crate) fn admit(
        &self,
        now: Time,
        session: SessionId,
        paths: &mut [CoupledPath<'_>],
        newcomer: usize,
    ) {
        let crossings = crossings(paths);
        let others = |link: &RouteLink| -> Vec<usize> {
            crossings.over(link.link).iter().copied().filter(|index| *index != newcomer).collect()
        };
        let shared: Vec<(LinkId, Vec<usize>)> =
            paths[newcomer].links.iter().map(|link| (link.link, others(link))).collect();
        let load =
            |others: &[usize]| others.iter().map(|index| paths[*index].controller.mean_rate()).sum::<f64>();
        let known = |index: &usize| !paths[*index].controller.is_starting();
        if !shared.iter().flat_map(|(_, others)| others).any(known) {
            return;
        }
        // Of a link that is not known, it is the rate that is tried at first.
        let carried = |link| self.load(session, link).map_or(INITIAL_RATE, |load| load.faded(now));
        let mut rate = paths[newcomer].controller.mean_rate();
        for (link, others) in shared.iter().filter(|(_, others)| !others.is_empty()) {
            let load = load(others);
            rate = rate.min((carried(*link) - load).max(load / (others.len() + 1) as f64));
        }
        let mut shares = vec![1.0f64; paths.len()];
        for (link, others) in &shared {
            let load = load(others);
            let share = (carried(*link).max(load) - rate) / load.max(1.0);
            others.iter().for_each(|index| shares[*index] = shares[*index].min(share));
        }
        paths[newcomer].controller.begin_beside(now, rate);
        for (path, share) in paths.iter_mut().zip(shares).filter(|(_, share)| *share < 1.0) {
            path.controller.make_room(now, share);
        }
    }

    /// A session is over.
    pub(crate) fn forget(&mut self, session: SessionId) {
        self.loads.retain(|_, sessions| {
            sessions.remove(&session);
            !sessions.is_empty()
        });
        self.found.retain(|found| found.origin != session);
    }

    /// A limit that concerns other sessions of the node, too.
    pub(crate) fn poll_found(&mut self) -> Option<FoundLimit> {
        self.found.pop_front()
    }

    /// The sessions that are to be [told](FoundLimit::tell).
    pub(crate) fn concerned_by(&self, found: &FoundLimit) -> BTreeSet<SessionId> {
        found.links.iter().filter_map(|link| self.loads.get(link)).flat_map(BTreeMap::keys).copied().collect()
    }

    /// Takes what is sent over each link.
    fn note_loads(
        &mut self,
        now: Time,
        session: SessionId,
        paths: &[CoupledPath<'_>],
        crossings: &Crossings,
    ) {
        for link in crossings.links() {
            let rate = crossings.sum(link, |path| paths[path].controller.sent_rate());
            let new = Load { at: now, mean: rate, most: rate };
            let load = self.loads.entry(link).or_default().entry(session).or_insert(new);
            load.observe(now, rate);
        }
    }

    fn load(&self, session: SessionId, link: LinkId) -> Option<&Load> {
        self.loads.get(&link)?.get(&session)
    }
}

impl Load {
    fn observe(&mut self, now: Time, rate: f64) {
        let faded = self.faded(now);
        let age = now.since(self.at).as_secs_f64();
        self.mean += (1.0 - (-age / AVERAGE.as_secs_f64()).exp()) * (rate - self.mean);
        (self.at, self.most) = (now, faded.max(self.mean));
    }

    fn faded(&self, now: Time) -> f64 {
        self.most * (-now.since(self.at).as_secs_f64() / MEMORY.as_secs_f64()).exp()
    }
}

impl FoundLimit {
    /// Tells it the sessions that it concerns, each with its paths; that which has found it is one of them.
    pub(crate) fn tell(&self, now: Time, sessions: &mut [Vec<CoupledPath<'_>>]) {
        let crosses =
            |path: &&mut CoupledPath<'_>| path.links.iter().any(|link| self.links.contains(&link.link));
        let mut sessions: Vec<Vec<&mut RateController>> = sessions
            .iter_mut()
            .map(|paths| paths.iter_mut().filter(crosses).map(|path| &mut *path.controller).collect())
            .collect();
        sessions.iter_mut().for_each(|controllers| controllers.retain(|it| it.has_met(&self.limit)));
        sessions.retain(|controllers| !controllers.is_empty());
        share(now, &self.limit, sessions);
    }
}

/// Gives the sessions that have met a limit equal parts of what they send together. If it is only one, the limit is its
/// own.
fn share(now: Time, limit: &Limit, sessions: Vec<Vec<&mut RateController>>) {
    let is_alone = sessions.len() == 1;
    let part = |controllers: &Vec<&mut RateController>| Part::sum(controllers.iter().map(|it| it.part()));
    let parts: Vec<Part> = sessions.iter().map(part).collect();
    for ((controllers, part), rate) in sessions.into_iter().zip(&parts).zip(Part::equal(&parts)) {
        for controller in controllers {
            if is_alone {
                controller.keep_limit(now, limit);
            } else {
                controller.share_limit(now, limit, rate / part.rate);
            }
        }
    }
}

fn crossings(paths: &[CoupledPath<'_>]) -> Crossings {
    Crossings::new(paths.iter().map(|path| path.links.iter().map(|crossed| crossed.link)))
}

/// No link is to carry more than it is known to.
fn keep_capacities(now: Time, paths: &mut [CoupledPath<'_>], crossings: &Crossings) {
    for index in 0..paths.len() {
        for link in paths[index].links {
            let Some(capacity) = link.capacity_bps else { continue };
            let over = crossings.over(link.link);
            let rate = crossings.sum(link.link, |path| paths[path].controller.mean_rate());
            let paths = paths.iter_mut().enumerate().filter(|(path, _)| over.contains(path));
            scale(now, paths.map(|(_, path)| path), capacity, rate);
        }
    }
}

/// The paths over the links of one that has begun a manoeuvre join in.
fn join_manoeuvres(now: Time, paths: &mut [CoupledPath<'_>], crossings: &Crossings) {
    let begun: Vec<(usize, Manoeuvre)> = (paths.iter_mut().enumerate())
        .filter_map(|(index, path)| Some((index, path.controller.take_begun()?)))
        .collect();
    for (leader, manoeuvre) in begun {
        let all = 0..paths.len();
        let beside = |index: usize| {
            all.clone().filter(move |other| *other == index || crossings.shared(index, *other) > 0)
        };
        let joined: Vec<usize> = beside(leader).collect();
        for index in joined.iter().filter(|index| **index != leader) {
            paths[*index].controller.join(now, manoeuvre);
        }
        // A path's drain tells whose queue it is only if all that the session sends over its links is lowered with
        // it.
        let tells = |index: usize| {
            beside(index).all(|other| joined.contains(&other) && paths[other].controller.is_busy())
        };
        let mute: Vec<usize> = joined.iter().copied().filter(|index| !tells(*index)).collect();
        mute.into_iter().for_each(|index| paths[index].controller.discount_drain());
    }
}

fn scale<'a, 'b: 'a>(now: Time, paths: impl Iterator<Item = &'a mut CoupledPath<'b>>, limit: f64, rate: f64) {
    if rate > limit {
        paths.for_each(|path| path.controller.scale(now, limit / rate));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Time = Time::ZERO;
    const SESSION: SessionId = SessionId(1);

    fn links(numbers: &[u16]) -> Vec<RouteLink> {
        numbers
            .iter()
            .map(|number| RouteLink { link: LinkId((*number).into()), capacity_bps: None })
            .collect()
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

    /// A book that has seen what the paths send.
    fn knowing(controllers: &mut [RateController], links: &[Vec<RouteLink>]) -> Bottlenecks {
        let mut book = Bottlenecks::default();
        book.couple(NOW, SESSION, &mut coupled(controllers, links), None);
        book
    }

    fn mbit(controllers: &[RateController]) -> Vec<f64> {
        controllers.iter().map(|controller| controller.mean_rate() / 1e6).collect()
    }

    /// Detours once began at 4 Mbit/s each over links of 10 Mbit/s that were full: a third of all packets was lost.
    #[test]
    fn who_comes_onto_a_full_link_gets_a_part_of_what_it_carries() {
        let (mut controllers, links) =
            (established(&[6.0, 3.0]), [links(&[1, 2]), links(&[1, 3]), links(&[1, 4])]);
        let book = knowing(&mut controllers, &links);
        controllers.push(RateController::new(NOW));
        book.admit(NOW, SESSION, &mut coupled(&mut controllers, &links), 2);
        assert_eq!(mbit(&controllers), [4.0, 2.0, 3.0]);
    }

    /// A link known to be slow was once taken to carry what is tried of an unknown one.
    #[test]
    fn who_comes_onto_a_slow_link_gets_a_part_of_it() {
        let (mut controllers, links) = (established(&[0.5, 0.7]), [links(&[1]), links(&[1]), links(&[1])]);
        let book = knowing(&mut controllers, &links);
        controllers.push(RateController::new(NOW));
        book.admit(NOW, SESSION, &mut coupled(&mut controllers, &links), 2);
        let sum: f64 = mbit(&controllers).iter().sum();
        assert!((sum - 1.2).abs() < 0.05, "{:?}", mbit(&controllers));
    }

    #[test]
    fn what_a_dead_path_has_left_is_for_who_comes_next() {
        let (mut controllers, links) =
            (established(&[6.0, 3.0]), [links(&[1, 2]), links(&[1, 3]), links(&[1, 4])]);
        let book = knowing(&mut controllers, &links);
        controllers[0] = RateController::new(NOW);
        book.admit(NOW, SESSION, &mut coupled(&mut controllers, &[links[2].clone(), links[1].clone()]), 0);
        assert_eq!(mbit(&controllers), [4.0, 3.0]);
    }

    #[test]
    fn at_the_start_nobody_knows_what_a_link_carries() {
        let (mut controllers, links) = (vec![RateController::new(NOW); 2], [links(&[1]), links(&[1])]);
        Bottlenecks::default().admit(NOW, SESSION, &mut coupled(&mut controllers, &links), 1);
        assert_eq!(mbit(&controllers), [4.0, 4.0]);
        assert!(controllers.iter().all(RateController::is_starting));
    }

    /// Over Geant2012 a path was allowed 14 Mbit/s of a link of 10, because it sent 8.
    #[test]
    fn a_link_has_carried_what_was_sent_over_it_not_what_was_allowed() {
        let (mut controllers, links) = (established(&[5.0, 1.0]), [links(&[1]), links(&[1])]);
        controllers[0].meter.show_use(Some(3e6), true);
        let book = knowing(&mut controllers, &links);
        controllers[0] = RateController::new(NOW);
        book.admit(NOW, SESSION, &mut coupled(&mut controllers, &links), 0);
        assert_eq!(mbit(&controllers), [3.0, 1.0]);
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
            Bottlenecks::default().couple(NOW, SESSION, &mut coupled(&mut controllers, &links), None);
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
            Bottlenecks::default().couple(NOW, SESSION, &mut coupled(&mut controllers, &links), None);
            controllers.iter().map(|controller| controller.drain.will_tell()).collect::<Vec<_>>()
        };
        // The second path drains too, but the third, which shares its other link, does not.
        assert_eq!(tells([true; 3]), [true, false, false]);
        assert_eq!(tells([true, false, true]), [false, false, false]);
    }
}
