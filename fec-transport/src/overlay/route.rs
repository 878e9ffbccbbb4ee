//! Routes: which members a circuit goes over, and by which links.

use super::{LinkId, MemberId};

/// The members of a route, both ends included, and the link from each of them to the next.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    members: Vec<MemberId>,
    /// One less than members.
    links: Vec<LinkId>,
}

/// A link as a route crosses it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RouteLink {
    /// Which link it is.
    pub link: LinkId,
    /// Its capacity in bit/s, if known.
    pub capacity_bps: Option<f64>,
}

impl Route {
    /// The route over these members by these links: `links[i]` leads from `members[i]` to the next.
    ///
    /// # Panics
    /// If there is not one link less than members.
    pub fn new(members: Vec<MemberId>, links: Vec<LinkId>) -> Route {
        assert_eq!(members.len(), links.len() + 1, "a link leads from each member of a route to the next");
        Route { members, links }
    }

    /// The members, both ends included.
    pub fn members(&self) -> &[MemberId] {
        &self.members
    }

    /// The link from each member to the next.
    pub fn links(&self) -> &[LinkId] {
        &self.links
    }

    /// The members between its ends.
    pub fn relays(&self) -> &[MemberId] {
        self.members.get(1..self.members.len() - 1).unwrap_or_default()
    }

    /// The same route from its other end.
    #[must_use]
    pub fn reversed(&self) -> Route {
        let (members, links) = (self.members.iter().rev(), self.links.iter().rev());
        Route { members: members.copied().collect(), links: links.copied().collect() }
    }
}
