//! Which links can fail, what each of them carries, and what ROR says of that.

use std::collections::BTreeMap;

use ror::{BlockLaw, RatingError};

use fec_transport::overlay::{LinkId, MemberId, Overlay};
use fec_transport::plan::PlannedRoute;

/// A link that fails, and those that it stands for.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Failure {
    /// The two ends of the link.
    pub(super) ends: (MemberId, MemberId),
    /// The links that the same paths cross, this one included.
    pub(super) links: Vec<LinkId>,
    /// The share of every block that crosses it.
    pub(super) share: f64,
}

/// The links of a plan, in the order of the overlay: each by itself, or one for all that the same paths cross.
pub(super) fn failures(overlay: &Overlay, routes: &[PlannedRoute], every_link: bool) -> Vec<Failure> {
    let mut crossed: BTreeMap<LinkId, Vec<usize>> = BTreeMap::new();
    for (number, route) in routes.iter().enumerate() {
        for link in route.route.links() {
            crossed.entry(*link).or_default().push(number);
        }
    }
    let mut failures: Vec<(Vec<usize>, Failure)> = Vec::new();
    for (link, paths) in crossed {
        match failures.iter_mut().find(|(known, _)| !every_link && *known == paths) {
            Some((_, failure)) => failure.links.push(link),
            None => {
                let both = &overlay.links()[link.entry()];
                let share = paths.iter().map(|path| routes[*path].share).sum();
                failures.push((paths, Failure { ends: (both.a, both.b), links: vec![link], share }));
            }
        }
    }
    failures.into_iter().map(|(_, failure)| failure).filter(|failure| failure.share < 1.0 - 1e-9).collect()
}

/// ROR of links that carry these shares, with short and with very large blocks (eqs. 8 and 11).
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Rated {
    pub(super) short: f64,
    pub(super) large: f64,
}

pub(super) fn rate_flows(flows: &[f64], tolerance: f64, law: &BlockLaw) -> Result<Rated, RatingError> {
    let length = |loss| law.block_length(loss).map_err(|source| RatingError::Tolerated { source });
    let usual = f64::from(length(tolerance)?);
    let mut rated = Rated { short: 0.0, large: 0.0 };
    for flow in flows.iter().filter(|flow| **flow >= tolerance) {
        rated.short += f64::from(length(*flow)?) / usual - 1.0;
        rated.large += (1.0 - tolerance) / (1.0 - flow) - 1.0;
    }
    Ok(rated)
}

#[cfg(test)]
mod tests {
    use super::*;
    use fec_transport::sim::{LinkSpec, Scene};
    use std::time::Duration;

    #[test]
    fn links_that_the_same_paths_cross_fail_as_one() {
        // c over a or b to d, then to s over x or directly.
        let link = LinkSpec::new(1, Duration::ZERO);
        let mut scene = Scene::new().client("c").relay("a").relay("b").relay("d").relay("x").server("s");
        for ends in ["ca", "cb", "ad", "bd", "dx", "xs", "ds"] {
            scene = scene.link(&ends[..1], &ends[1..], &link);
        }
        let (overlay, _) = scene.overlay();
        let route = |names: &str, share| {
            let members = names.chars().map(|name| overlay.find(&name.to_string()).expect("listed"));
            let members: Vec<_> = members.collect();
            PlannedRoute { route: overlay.route_over(&members).expect("links join them"), share }
        };
        let routes = [route("cadxs", 0.5), route("cbds", 0.3), route("cbdxs", 0.2)];
        let shares = |every| {
            failures(&overlay, &routes, every)
                .iter()
                .map(|it| (it.links.len(), (it.share * 10.0).round() as u32))
                .collect::<Vec<_>>()
        };
        assert_eq!(shares(false), [(2, 5), (2, 5), (2, 7), (1, 3)]);
        assert_eq!(shares(true), [(1, 5), (1, 5), (1, 5), (1, 5), (1, 7), (1, 7), (1, 3)]);
    }

    #[test]
    fn flows_are_rated_as_ror_rates_routings() {
        let law = BlockLaw::new(20, 1e-5).expect("a right law");
        let rated = rate_flows(&[0.25, 0.25, 0.05], 0.1, &law).expect("it has a length");
        assert!((rated.short - 2.0 * (44.0 / 32.0 - 1.0)).abs() < 1e-12);
        assert!((rated.large - 2.0 * (0.9 / 0.75 - 1.0)).abs() < 1e-12);
    }
}
