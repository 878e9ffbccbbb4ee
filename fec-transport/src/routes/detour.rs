//! Which links are dead, from the pattern of the routes that are, and the routes around them (design §6).
//!
//! A path that dies does not say which of its links took it along. The links that it shares with a living path did not;
//! those that all dead routes have in common explain all of them at once.

use std::collections::BTreeSet;

use super::plan::{PlannedRoute, plan_around};
use crate::config::Config;
use crate::overlay::{LinkId, MemberId, Overlay, Route};

/// What is known of one route of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Health {
    /// It carries data.
    Live,
    /// Its path is dead, or its set-up is not answered.
    Dead,
    /// A notice told that this link of it is dead.
    DeadAt(LinkId),
    /// It is being set up, or refused for a reason that says nothing of links.
    Unknown,
}

/// The links that may be dead.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Suspects {
    /// The links that a notice named.
    named: BTreeSet<LinkId>,
    /// All links of dead routes that no living one crosses.
    wide: BTreeSet<LinkId>,
    /// Those of the wide ones that explain all dead routes at once: the links that all of them share, and those of a
    /// relay that all of them share.
    narrow: BTreeSet<LinkId>,
}

impl Suspects {
    /// Reads the pattern: for each route how it is.
    pub(crate) fn find<'a>(
        overlay: &Overlay,
        routes: impl Iterator<Item = (&'a Route, Health)> + Clone,
    ) -> Suspects {
        let living = || routes.clone().filter(|(_, health)| *health == Health::Live).map(|(route, _)| route);
        let live_links: BTreeSet<LinkId> = living().flat_map(Route::links).copied().collect();
        let live_members: BTreeSet<MemberId> = living().flat_map(Route::members).copied().collect();
        let mut suspects = Suspects::default();
        let mut common: Option<(BTreeSet<LinkId>, BTreeSet<MemberId>)> = None;
        for (route, health) in routes.clone() {
            match health {
                Health::Live | Health::Unknown => continue,
                Health::DeadAt(link) => drop(suspects.named.insert(link)),
                Health::Dead => {}
            }
            let crossed = route.links().iter().filter(|link| !live_links.contains(link));
            let links: BTreeSet<LinkId> = crossed.copied().collect();
            let relays = route.relays().iter().filter(|relay| !live_members.contains(relay));
            let relays: BTreeSet<MemberId> = relays.copied().collect();
            suspects.wide.extend(&links);
            common = Some(match common {
                None => (links, relays),
                Some((all_links, all_relays)) => (&all_links & &links, &all_relays & &relays),
            });
        }
        let (links, relays) = common.unwrap_or_default();
        suspects.narrow = links;
        suspects
            .narrow
            .extend(relays.into_iter().flat_map(|relay| overlay.links_of(relay).map(|(link, _)| link)));
        suspects
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.named.is_empty() && self.wide.is_empty()
    }

    /// The routes around them: around all that may be dead if there are any, else around what explains the pattern
    /// best.
    pub(crate) fn plan(
        &self,
        overlay: &Overlay,
        from: MemberId,
        to: MemberId,
        config: &Config,
    ) -> Option<Vec<PlannedRoute>> {
        let avoided = [&self.named | &self.wide, &self.named | &self.narrow, self.named.clone()];
        let some = avoided.iter().filter(|links| !links.is_empty());
        some.map(|links| plan_around(overlay, from, to, config, links)).find_map(Result::ok)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::encode_key;

    /// c over a or b, then r, then x or y, to s; and around r by way of z.
    fn overlay() -> Overlay {
        let key = |number: usize| encode_key(&[number as u8; 32]);
        let mut text = String::new();
        for (number, name) in ["c", "a", "b", "r", "x", "y", "z", "s"].iter().enumerate() {
            text += &format!(
                "[[member]]\nname = \"{name}\"\ned25519 = \"{}\"\nx25519 = \"{}\"\nrelay_for = [\"*\"]\n\
                 control = \"127.0.0.1:1\"\ndata = \"127.0.0.1:2\"\n",
                key(number + 1),
                key(number + 101)
            );
        }
        for link in ["ca", "cb", "ar", "br", "rx", "ry", "xs", "ys", "az", "bz", "zs"] {
            let (a, b) = link.split_at(1);
            text += &format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\n");
        }
        Overlay::parse(&text).expect("a right file")
    }

    fn route(overlay: &Overlay, names: &str) -> Route {
        let names = names.split("").filter(|name| !name.is_empty());
        let members: Vec<MemberId> = names.map(|name| overlay.find(name).expect("listed")).collect();
        overlay.route_over(&members).expect("links join them")
    }

    fn links(overlay: &Overlay, names: &[&str]) -> BTreeSet<LinkId> {
        names.iter().flat_map(|pair| route(overlay, pair).links().to_vec()).collect()
    }

    fn find(overlay: &Overlay, pattern: &[(&str, Health)]) -> Suspects {
        let routes: Vec<_> = pattern.iter().map(|(names, health)| (route(overlay, names), *health)).collect();
        Suspects::find(overlay, routes.iter().map(|(route, health)| (route, *health)))
    }

    #[test]
    fn links_in_common_that_no_living_route_crosses_explain_the_pattern() {
        let overlay = overlay();
        let pattern = [("carxs", Health::Dead), ("carys", Health::Dead), ("cbrys", Health::Live)];
        let suspects = find(&overlay, &pattern);
        assert_eq!(suspects.narrow, links_at(&overlay, "a"), "both explain it: a, or its link to c or to r");
        assert_eq!(suspects.wide, links(&overlay, &["ca", "ar", "rx", "xs"]));
        assert!(find(&overlay, &[("carxs", Health::Live), ("cbrys", Health::Unknown)]).is_empty());
    }

    fn links_at(overlay: &Overlay, name: &str) -> BTreeSet<LinkId> {
        overlay.links_of(overlay.find(name).expect("listed")).map(|(link, _)| link).collect()
    }

    #[test]
    fn a_relay_in_common_is_gone_around_where_avoiding_every_suspect_would_leave_nothing() {
        let overlay = overlay();
        let suspects = find(&overlay, &[("carxs", Health::Dead), ("cbrys", Health::Dead)]);
        let [c, s] = ["c", "s"].map(|name| overlay.find(name).expect("listed"));
        let plan = suspects.plan(&overlay, c, s, &Config::default()).expect("around r");
        let mut found: Vec<Route> = plan.into_iter().map(|planned| planned.route).collect();
        found.sort();
        assert_eq!(found, [route(&overlay, "cazs"), route(&overlay, "cbzs")]);
    }

    #[test]
    fn a_link_that_a_notice_names_is_avoided_first_of_all() {
        let overlay = overlay();
        let dead = links(&overlay, &["zs"]).first().copied().expect("listed");
        let pattern = [("cazs", Health::DeadAt(dead)), ("cbzs", Health::DeadAt(dead))];
        let [c, s] = ["c", "s"].map(|name| overlay.find(name).expect("listed"));
        let plan = find(&overlay, &pattern).plan(&overlay, c, s, &Config::default()).expect("around z");
        assert!(plan.iter().all(|planned| !planned.route.links().contains(&dead)));
    }
}
