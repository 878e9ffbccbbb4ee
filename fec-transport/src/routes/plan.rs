//! Which routes a session takes: the capillary routing over the overlay, as a few weighted paths (theory §1.6).

use std::collections::BTreeSet;

use capillary::{Link, Node, NodeId, Orientation, Routing, SolveError, Topology};

use crate::config::Config;
use crate::event::ConnectError;
use crate::overlay::{Link as OverlayLink, LinkId, MemberId, Overlay, Route};

/// A route of a session and its share of the flow.
#[derive(Debug, Clone, PartialEq)]
pub struct PlannedRoute {
    /// From this end to the other.
    pub route: Route,
    /// In (0, 1]; the shares of a plan sum to 1.
    pub share: f64,
}

/// Plans the routes from `from` to `to`, the widest first.
///
/// Only members that relay for `from` are on the way. The capacities of the links count if the overlay file gives all
/// of them; otherwise every link counts the same.
///
/// # Errors
/// [`ConnectError::NoPath`] if no route of at most `max_route` members leads there.
pub fn plan(
    overlay: &Overlay,
    from: MemberId,
    to: MemberId,
    config: &Config,
) -> Result<Vec<PlannedRoute>, ConnectError> {
    plan_around(overlay, from, to, config, &BTreeSet::new())
}

/// Whether any route of at most `max_route` members leads from `from` to `to`. It takes a fraction of the time that a
/// plan takes: it looks at each member and each link once.
pub(crate) fn is_reachable(overlay: &Overlay, from: MemberId, to: MemberId, config: &Config) -> bool {
    let mut seen = BTreeSet::from([from]);
    let mut reached = vec![from];
    for _ in 1..config.limits.max_route {
        let mut next = Vec::new();
        for member in reached {
            let neighbours = overlay.links_of(member).map(|(_, neighbour)| neighbour);
            let usable = |it: &MemberId| *it == to || overlay.relays_for(*it, from);
            next.extend(neighbours.filter(usable).filter(|neighbour| seen.insert(*neighbour)));
        }
        if seen.contains(&to) {
            return true;
        }
        reached = next;
    }
    false
}

/// Plans the routes from `from` to `to` that cross none of the links in `avoided`.
///
/// # Errors
/// [`ConnectError::NoPath`] if every route crosses one of them.
pub fn plan_around(
    overlay: &Overlay,
    from: MemberId,
    to: MemberId,
    config: &Config,
    avoided: &BTreeSet<LinkId>,
) -> Result<Vec<PlannedRoute>, ConnectError> {
    let no_path = || ConnectError::NoPath { from: overlay.name(from), to: overlay.name(to) };
    let usable = usable_topology(overlay, from, to, avoided).ok_or_else(no_path)?;
    let topology = &usable.topology;
    let node = |member: MemberId| topology.node(&overlay.name(member)).ok_or_else(no_path);
    let routing = pattern(topology, node(from)?, node(to)?, config).map_err(|_| no_path())?;
    let paths = routing.paths(config.routing.max_paths.min(config.limits.paths), config.routing.cover);
    let short = paths.paths.into_iter().filter(|path| path.nodes.len() <= config.limits.max_route);
    let mut routes: Vec<PlannedRoute> = short
        .map(|path| PlannedRoute { route: usable.route(&path.nodes, &path.links), share: path.weight })
        .collect();
    let total: f64 = routes.iter().map(|route| route.share).sum();
    routes.iter_mut().for_each(|route| route.share /= total);
    if routes.is_empty() { Err(no_path()) } else { Ok(routes) }
}

/// The capillary routing, or its pattern of as many layers as the config asks for.
fn pattern(topology: &Topology, from: NodeId, to: NodeId, config: &Config) -> Result<Routing, SolveError> {
    match config.routing.layers {
        None => capillary::solve(topology, from, to),
        Some(layers) => capillary::solve_layers(topology, from, to, layers).map(|solution| solution.routing),
    }
}

/// The links without which `from` cannot reach `to` and whose weights sum to the least, and that sum. With a weight of
/// 1 for each link they are the fewest links that must fail before the two are cut off.
///
/// # Errors
/// [`ConnectError::NoPath`] if no route leads there in any case.
pub fn minimum_cut(
    overlay: &Overlay,
    from: MemberId,
    to: MemberId,
    weight: impl Fn(&OverlayLink) -> f64,
) -> Result<(Vec<LinkId>, f64), ConnectError> {
    let no_path = || ConnectError::NoPath { from: overlay.name(from), to: overlay.name(to) };
    let usable = weighted_topology(overlay, from, to, &BTreeSet::new(), weight).ok_or_else(no_path)?;
    let node = |member: MemberId| usable.topology.node(&overlay.name(member)).ok_or_else(no_path);
    let cut = capillary::minimum_cut(&usable.topology, node(from)?, node(to)?).map_err(|_| no_path())?;
    let links: Vec<LinkId> = cut.links.into_iter().map(|link| usable.links[link.index()]).collect();
    if links.is_empty() { Err(no_path()) } else { Ok((links, cut.capacity)) }
}

/// The part of an overlay that some routes may use.
struct Usable {
    topology: Topology,
    /// The member that each node of the topology is.
    members: Vec<MemberId>,
    /// The link that each link of the topology is; parallel links are links of their own there, too.
    links: Vec<LinkId>,
}

impl Usable {
    fn route(&self, nodes: &[NodeId], links: &[capillary::LinkId]) -> Route {
        let members = nodes.iter().map(|node| self.members[node.index()]).collect();
        Route::new(members, links.iter().map(|link| self.links[link.index()]).collect())
    }
}

/// The part of the overlay that routes from `from` to `to` may use.
fn usable_topology(
    overlay: &Overlay,
    from: MemberId,
    to: MemberId,
    avoided: &BTreeSet<LinkId>,
) -> Option<Usable> {
    let capacities_known = overlay.listed_links().all(|(_, link)| link.capacity_mbit.is_some());
    let capacity = |link: &OverlayLink| link.capacity_mbit.filter(|_| capacities_known).unwrap_or(1.0);
    weighted_topology(overlay, from, to, avoided, capacity)
}

fn weighted_topology(
    overlay: &Overlay,
    from: MemberId,
    to: MemberId,
    avoided: &BTreeSet<LinkId>,
    weight: impl Fn(&OverlayLink) -> f64,
) -> Option<Usable> {
    let usable = |member: MemberId| member == from || member == to || overlay.relays_for(member, from);
    let all = overlay.listed_members().map(|(member, _)| member);
    let members: Vec<MemberId> = all.filter(|member| usable(*member)).collect();
    let mut topology = Topology::new(Orientation::Undirected);
    for member in &members {
        topology.add_node(Node::new(overlay.name(*member))).ok()?;
    }
    let mut links = Vec::new();
    let listed = overlay.listed_links().filter(|(link, _)| !avoided.contains(link));
    for (id, link) in listed.filter(|(_, link)| usable(link.a) && usable(link.b)) {
        let (a, b) = (topology.node(&overlay.name(link.a))?, topology.node(&overlay.name(link.b))?);
        topology.add_link(a, b, Link::with_capacity(weight(link))).ok()?;
        links.push(id);
    }
    Some(Usable { topology, members, links })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::encode_key;

    fn overlay(members: &[(&str, bool)], links: &[(&str, &str)]) -> Overlay {
        let mut text = String::new();
        for (number, (name, relays)) in members.iter().enumerate() {
            let keys = [encode_key(&[number as u8 + 1; 32]), encode_key(&[number as u8 + 101; 32])];
            let relay_for = if *relays { "[\"*\"]" } else { "[]" };
            text += &format!(
                "[[member]]\nname = \"{name}\"\ned25519 = \"{}\"\nx25519 = \"{}\"\nrelay_for = {relay_for}\n\
                 control = \"127.0.0.1:1\"\ndata = \"127.0.0.1:2\"\n",
                keys[0], keys[1]
            );
        }
        for (a, b) in links {
            text += &format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\n");
        }
        Overlay::parse(&text).expect("a right file")
    }

    #[test]
    fn routes_go_over_relays_only_and_share_the_flow() {
        let members = [("c", false), ("r1", true), ("r2", true), ("x", false), ("io", false)];
        let links = [("c", "r1"), ("c", "r2"), ("c", "x"), ("r1", "io"), ("r2", "io"), ("x", "io")];
        let overlay = overlay(&members, &links);
        let [c, io] = ["c", "io"].map(|name| overlay.find(name).expect("listed"));
        let routes = plan(&overlay, c, io, &Config::default()).expect("two routes");
        assert_eq!(routes.len(), 2);
        assert!(
            routes.iter().all(|route| route.route.links().len() == 2 && (route.share - 0.5).abs() < 1e-9)
        );
        assert!(
            routes.iter().all(|route| !route.route.members().contains(&overlay.find("x").expect("listed")))
        );
    }

    #[test]
    fn a_plan_goes_around_what_it_must_avoid() {
        let members = [("c", false), ("r1", true), ("r2", true), ("io", false)];
        let links = [("c", "r1"), ("c", "r2"), ("r1", "io"), ("r2", "io")];
        let overlay = overlay(&members, &links);
        let [c, r2, io] = ["c", "r2", "io"].map(|name| overlay.find(name).expect("listed"));
        let around = |avoided: &[u16]| {
            let avoided = avoided.iter().map(|link| LinkId((*link).into())).collect();
            plan_around(&overlay, c, io, &Config::default(), &avoided)
        };
        let routes = around(&[2]).expect("one route is left");
        let route = overlay.route_over(&[c, r2, io]).expect("two links");
        assert_eq!(routes, [PlannedRoute { route, share: 1.0 }]);
        assert!(around(&[2, 1]).is_err());
    }

    #[test]
    fn a_plan_of_one_layer_leaves_the_rest_to_the_cheapest_way() {
        // From b the second layer splits between the direct link and the way over x.
        let members = [("c", false), ("a", true), ("b", true), ("x", true), ("io", false)];
        let links = [("c", "a"), ("c", "b"), ("a", "io"), ("b", "x"), ("x", "io"), ("b", "io")];
        let overlay = overlay(&members, &links);
        let [c, io] = ["c", "io"].map(|name| overlay.find(name).expect("listed"));
        let routes = |layers| {
            let mut config = Config::default();
            config.routing.layers = layers;
            plan(&overlay, c, io, &config).expect("there are routes").len()
        };
        assert_eq!((routes(std::num::NonZeroU32::new(1)), routes(None)), (2, 3));
    }

    #[test]
    fn the_minimum_cut_depends_on_what_a_link_weighs() {
        let members = [("c", false), ("r1", true), ("r2", true), ("io", false)];
        let links = [("c", "r1"), ("c", "r2"), ("r1", "io"), ("r2", "io"), ("r1", "r2")];
        let overlay = overlay(&members, &links);
        let [c, r1, io] = ["c", "r1", "io"].map(|name| overlay.find(name).expect("listed"));
        let (links, weight) = minimum_cut(&overlay, c, io, |_| 1.0).expect("two routes");
        assert_eq!((links.len(), weight), (2, 2.0));
        let at_io = |link: &OverlayLink| if link.b == io { 1.0 } else { 3.0 };
        let (links, weight) = minimum_cut(&overlay, c, io, at_io).expect("two routes");
        assert!(weight == 2.0 && links.contains(&overlay.links_between(r1, io)[0]));
    }

    #[test]
    fn no_path_is_an_error_that_names_both_ends() {
        let overlay = overlay(&[("c", false), ("x", false), ("io", false)], &[("c", "x"), ("x", "io")]);
        let [c, io] = ["c", "io"].map(|name| overlay.find(name).expect("listed"));
        let error = plan(&overlay, c, io, &Config::default()).unwrap_err();
        assert_eq!(error, ConnectError::NoPath { from: "c".into(), to: "io".into() });
    }
}
