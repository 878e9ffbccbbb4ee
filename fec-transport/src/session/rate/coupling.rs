//! What the paths of one session do together: over a link that several of them cross, they probe as one, and they
//! respect known capacities and the session's limit together.

use super::{Manoeuvre, RateController};
use crate::overlay::RouteLink;
use crate::time::Time;

/// A path as the coupling sees it.
#[derive(Debug)]
pub(crate) struct CoupledPath<'a> {
    pub(crate) controller: &'a mut RateController,
    pub(crate) links: &'a [RouteLink],
}

/// Couples the live paths of a session; to be called after each report. `limit` is for all paths together, in bit/s.
pub(crate) fn couple(now: Time, paths: &mut [CoupledPath<'_>], limit: Option<f64>) {
    join_manoeuvres(now, paths);
    for index in 0..paths.len() {
        let own = paths[index].links;
        let shared = own.iter().map(|link| rate_over(link, paths)).fold(0.0, f64::max);
        paths[index].controller.set_shared_rate(shared);
    }
    for index in 0..paths.len() {
        for link in paths[index].links {
            let Some(capacity) = link.capacity_bps else { continue };
            let rate = rate_over(link, paths);
            scale(now, paths.iter_mut().filter(|path| crosses(path.links, link)), capacity, rate);
        }
    }
    if let Some(limit) = limit {
        let rate = paths.iter().map(|path| path.controller.mean_rate()).sum();
        scale(now, paths.iter_mut(), limit, rate);
    }
}

fn join_manoeuvres(now: Time, paths: &mut [CoupledPath<'_>]) {
    let begun: Vec<(usize, Manoeuvre)> = (paths.iter_mut().enumerate())
        .filter_map(|(index, path)| Some((index, path.controller.take_begun()?)))
        .collect();
    for (leader, manoeuvre) in begun {
        let links = paths[leader].links;
        let joins = |index: usize, path: &CoupledPath<'_>| {
            index != leader && links.iter().any(|link| crosses(path.links, link))
        };
        for (_, path) in paths.iter_mut().enumerate().filter(|(index, path)| joins(*index, path)) {
            path.controller.join(now, manoeuvre);
        }
    }
}

fn crosses(links: &[RouteLink], link: &RouteLink) -> bool {
    links.iter().any(|other| other.link == link.link)
}

fn rate_over(link: &RouteLink, paths: &[CoupledPath<'_>]) -> f64 {
    paths.iter().filter(|path| crosses(path.links, link)).map(|path| path.controller.mean_rate()).sum()
}

fn scale<'a, 'b: 'a>(now: Time, paths: impl Iterator<Item = &'a mut CoupledPath<'b>>, limit: f64, rate: f64) {
    if rate > limit {
        paths.for_each(|path| path.controller.scale(now, limit / rate));
    }
}
