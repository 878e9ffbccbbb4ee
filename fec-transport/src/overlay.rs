//! The overlay: its members, the links between them, and its sites, as one TOML file lists them (design §6).

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::keys::PublicKeys;

mod crossings;
mod file;
mod signature;
mod succession;

use file::{File, syntax_error};

pub(crate) use crossings::Crossings;
pub use file::OverlayError;
pub use signature::{OperatorKey, SignatureError, sign};
pub use succession::{OverlayChange, SuccessionError};

/// A member's position in the overlay file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u16);

/// A link's position in the overlay file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u16);

/// Tells several processes that run under one member's key apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InstanceId(pub u64);

/// One process of one member: what a control connection or a session leads to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Peer {
    /// The member whose key it owns.
    pub member: MemberId,
    /// Which of the member's processes it is.
    pub instance: InstanceId,
}

/// Everything that the members know of one another.
#[derive(Debug, Clone, PartialEq)]
pub struct Overlay {
    /// Rises with every change of the file.
    pub serial: u64,
    members: Vec<Member>,
    links: Vec<Link>,
    sites: Vec<Site>,
    by_name: BTreeMap<String, MemberId>,
    /// The links by their ends, the smaller one first.
    by_ends: BTreeMap<(MemberId, MemberId), LinkId>,
}

/// A link as a route crosses it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct RouteLink {
    /// Which link it is.
    pub link: LinkId,
    /// Its capacity in bit/s, if known.
    pub capacity_bps: Option<f64>,
}

/// A member of the overlay.
#[derive(Debug, Clone, PartialEq)]
pub struct Member {
    /// Unique in the overlay.
    pub name: String,
    /// Unique in the overlay.
    pub keys: PublicKeys,
    /// Where it listens for control connections; none for a pure client.
    pub control: Option<SocketAddr>,
    /// Where it receives data packets; none for a pure client.
    pub data: Option<SocketAddr>,
    /// For whom it forwards.
    pub relay_for: RelayFor,
}

/// For whom a member forwards packets of others.
#[derive(Debug, Clone, PartialEq)]
pub enum RelayFor {
    /// For every member (`["*"]`).
    Everyone,
    /// For these originators; empty for a member that does not relay.
    Members(BTreeSet<MemberId>),
}

/// A link between two members, usable in both directions.
#[derive(Debug, Clone, PartialEq)]
pub struct Link {
    /// One end.
    pub a: MemberId,
    /// The other end.
    pub b: MemberId,
    /// Capacity in Mbit/s, if known.
    pub capacity_mbit: Option<f64>,
    /// Propagation delay in ms, if known.
    pub delay_ms: Option<f64>,
    /// Share of packets that it loses, if known.
    pub loss: Option<f64>,
    /// How `a` reaches `b`, if not at `b`'s own addresses.
    pub a_to_b: Option<Reach>,
    /// How `b` reaches `a`, if not at `a`'s own addresses.
    pub b_to_a: Option<Reach>,
}

/// The pair of addresses at which one member reaches another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Reach {
    /// For the control plane.
    pub control: SocketAddr,
    /// For the data plane.
    pub data: SocketAddr,
}

/// A group of I/O nodes with a default stripe unit.
#[derive(Debug, Clone, PartialEq)]
pub struct Site {
    /// Unique in the overlay.
    pub name: String,
    /// In the order of striping.
    pub io_nodes: Vec<MemberId>,
    /// As written, for example `64KiB`.
    pub stripe_unit: Option<String>,
}

impl Overlay {
    /// Reads an overlay file.
    ///
    /// # Errors
    /// The first thing that is wrong with it, with the line or the element.
    ///
    /// ```
    /// # let key = |byte: u8| fec_transport::keys::encode_key(&[byte; 32]);
    /// let text = format!(r#"
    ///     serial = 1
    ///     [[member]]
    ///     name = "client"
    ///     ed25519 = "{}"
    ///     x25519 = "{}"
    ///     [[member]]
    ///     name = "io1"
    ///     ed25519 = "{}"
    ///     x25519 = "{}"
    ///     control = "192.0.2.7:7000"
    ///     data = "192.0.2.7:7001"
    ///     [[link]]
    ///     a = "client"
    ///     b = "io1"
    /// "#, key(1), key(2), key(3), key(4));
    /// let overlay = fec_transport::overlay::Overlay::parse(&text)?;
    /// assert_eq!(overlay.members().len(), 2);
    /// # Ok::<(), fec_transport::overlay::OverlayError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Overlay, OverlayError> {
        let file: File = toml::from_str(text).map_err(|error| syntax_error(text, &error))?;
        Overlay::from_file(file)
    }

    /// All members, in the order of the file; in a process that has read several files, those of the first one that
    /// are not listed any more keep their places ([`contains`](Self::contains) tells).
    pub fn members(&self) -> &[Member] {
        &self.members
    }

    /// All links, in the order of the file, places kept as with [`members`](Self::members).
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// All sites, in the order of the file.
    pub fn sites(&self) -> &[Site] {
        &self.sites
    }

    /// The member of that position.
    ///
    /// # Panics
    /// If the id comes from another overlay.
    pub fn member(&self, id: MemberId) -> &Member {
        &self.members[usize::from(id.0)]
    }

    /// Whether `id` is the position of a member that the file lists.
    pub fn contains(&self, id: MemberId) -> bool {
        let member = self.members.get(usize::from(id.0));
        member.is_some_and(|member| self.by_name.get(&member.name) == Some(&id))
    }

    /// Whether a circuit may take this route: its members are listed, links join each to the next, and those on the way
    /// relay for the first one.
    pub fn allows_route(&self, route: &[MemberId]) -> bool {
        let is_joined = |pair: &[MemberId]| self.link_between(pair[0], pair[1]).is_some();
        let relays = route.get(1..route.len().saturating_sub(1)).unwrap_or_default();
        route.iter().all(|member| self.contains(*member))
            && route.windows(2).all(is_joined)
            && relays.iter().all(|relay| self.relays_for(*relay, route[0]))
    }

    /// The name of a member, or its number if it is none of this overlay's.
    pub fn name(&self, id: MemberId) -> String {
        self.members.get(usize::from(id.0)).map_or_else(|| format!("#{}", id.0), |member| member.name.clone())
    }

    /// The member of that name.
    pub fn find(&self, name: &str) -> Option<MemberId> {
        self.by_name.get(name).copied()
    }

    /// The member that owns an Ed25519 key.
    pub fn find_by_ed25519(&self, key: &[u8; 32]) -> Option<MemberId> {
        self.listed_members().find(|(_, member)| member.keys.ed25519 == *key).map(|(id, _)| id)
    }

    /// The member that owns an X25519 key.
    pub fn find_by_x25519(&self, key: &[u8; 32]) -> Option<MemberId> {
        self.listed_members().find(|(_, member)| member.keys.x25519 == *key).map(|(id, _)| id)
    }

    /// The members that the file lists, with their numbers.
    pub fn listed_members(&self) -> impl Iterator<Item = (MemberId, &Member)> + '_ {
        let members = self.members.iter().enumerate().map(|(index, member)| (member_id(index), member));
        members.filter(|(id, _)| self.contains(*id))
    }

    /// The links that the file lists, with their numbers; those of earlier files are passed over.
    pub fn listed_links(&self) -> impl Iterator<Item = (LinkId, &Link)> + '_ {
        let links = self.links.iter().enumerate().map(|(index, link)| (link_id(index), link));
        links.filter(|(id, link)| self.link_between(link.a, link.b) == Some(*id))
    }

    /// The names of the members that the file lists, with their numbers.
    fn names(&self) -> impl Iterator<Item = (&str, MemberId)> + '_ {
        self.by_name.iter().map(|(name, id)| (name.as_str(), *id))
    }

    /// The link that joins two members, in either order.
    pub fn link_between(&self, one: MemberId, other: MemberId) -> Option<LinkId> {
        self.by_ends.get(&ends(one, other)).copied()
    }

    /// The links that a route crosses, in its order; members that no link joins are passed over.
    pub fn route_links(&self, route: &[MemberId]) -> Vec<RouteLink> {
        let links = route.windows(2).filter_map(|pair| self.link_between(pair[0], pair[1]));
        let known =
            |link: LinkId| self.links[usize::from(link.0)].capacity_mbit.map(|capacity| capacity * 1e6);
        links.map(|link| RouteLink { link, capacity_bps: known(link) }).collect()
    }

    /// The links of a member: each with the neighbour at its other end.
    pub fn links_of(&self, member: MemberId) -> impl Iterator<Item = (LinkId, MemberId)> + '_ {
        let ends = move |link: &Link| match (link.a == member, link.b == member) {
            (true, _) => Some(link.b),
            (_, true) => Some(link.a),
            _ => None,
        };
        let at = self
            .links
            .iter()
            .enumerate()
            .filter_map(move |(index, link)| Some((link_id(index), ends(link)?)));
        at.filter(move |(id, other)| self.link_between(member, *other) == Some(*id))
    }

    /// The member that opens the control connection of a link: the end without a control address, else the one listed
    /// first.
    pub fn dialler(&self, link: LinkId) -> MemberId {
        let link = &self.links[usize::from(link.0)];
        let reachable = |to: MemberId, way: Option<Reach>| way.is_some() || self.member(to).control.is_some();
        if reachable(link.b, link.a_to_b) { link.a } else { link.b }
    }

    /// Where `from` finds the member at the other end of `link`: control and data address, as far as they are fixed.
    pub fn reach(&self, link: LinkId, from: MemberId) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let link = &self.links[usize::from(link.0)];
        let (to, way) = if link.a == from { (link.b, link.a_to_b) } else { (link.a, link.b_to_a) };
        match way {
            Some(way) => (Some(way.control), Some(way.data)),
            None => (self.member(to).control, self.member(to).data),
        }
    }

    /// The overlay as `newer` has it, for a process that runs with this one.
    ///
    /// A member with the same name and keys keeps its number, and so does a link between the same members; numbers of
    /// others are not given to anybody else, so that nothing that still holds one can mean a stranger by it.
    ///
    /// # Errors
    /// [`SuccessionError`] if the serial has not risen, or the numbers are used up.
    pub fn succeeded_by(&self, newer: &Overlay) -> Result<Overlay, SuccessionError> {
        succession::merge(self, newer)
    }

    /// What `newer`, which took this overlay's place, changed.
    pub(crate) fn change_to(&self, newer: &Overlay) -> OverlayChange {
        succession::change(self, newer)
    }

    /// Whether `relay` forwards packets of `originator`.
    pub fn relays_for(&self, relay: MemberId, originator: MemberId) -> bool {
        match &self.member(relay).relay_for {
            RelayFor::Everyone => true,
            RelayFor::Members(members) => members.contains(&originator),
        }
    }
}

/// Positions of members and links are 16-bit.
const MAX_ENTRIES: usize = u16::MAX as usize;

fn ends(one: MemberId, other: MemberId) -> (MemberId, MemberId) {
    (one.min(other), one.max(other))
}

fn member_id(index: usize) -> MemberId {
    MemberId(u16::try_from(index).expect("the number of members was checked when the file was read"))
}

fn link_id(index: usize) -> LinkId {
    LinkId(u16::try_from(index).expect("the number of links was checked when the file was read"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::encode_key;

    fn member(name: &str, number: u8, rest: &str) -> String {
        let (ed25519, x25519) = (encode_key(&[number; 32]), encode_key(&[number + 100; 32]));
        format!("[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n{rest}\n")
    }

    fn three_members() -> String {
        let fixed = "control = \"127.0.0.1:1\"\ndata = \"127.0.0.1:2\"\nrelay_for = [\"client\"]";
        member("client", 1, "") + &member("r1", 2, fixed) + &member("io1", 3, fixed)
    }

    fn error(links: &str) -> String {
        Overlay::parse(&(three_members() + links)).unwrap_err().to_string()
    }

    #[test]
    fn a_whole_file_is_read() {
        let text = three_members()
            + "[[link]]\na = \"client\"\nb = \"r1\"\ncapacity_mbit = 20\nloss = 0.01\n\
               a_to_b = { control = \"127.0.0.1:11\", data = \"127.0.0.1:12\" }\n\
               [[link]]\na = \"io1\"\nb = \"client\"\n\
               [[site]]\nname = \"s\"\nio_nodes = [\"io1\"]\nstripe_unit = \"64KiB\"\n";
        let overlay = Overlay::parse(&text).expect("a right file");
        let [client, r1, io1] = ["client", "r1", "io1"].map(|name| overlay.find(name).expect("listed"));
        assert!(overlay.relays_for(r1, client) && !overlay.relays_for(r1, io1));
        let first = overlay.link_between(r1, client).expect("listed");
        assert_eq!(overlay.reach(first, client).1, Some("127.0.0.1:12".parse().expect("an address")));
        assert_eq!(overlay.reach(first, r1), (None, None));
        let second = overlay.link_between(client, io1).expect("listed");
        let crossed = overlay.route_links(&[r1, client, io1]);
        let expected = [(first, Some(20e6)), (second, None)];
        assert_eq!(crossed, expected.map(|(link, capacity_bps)| RouteLink { link, capacity_bps }));
        assert_eq!((overlay.dialler(first), overlay.dialler(second)), (client, client));
        assert_eq!(overlay.sites()[0].io_nodes, [io1]);
    }

    #[test]
    fn each_fault_is_named_with_its_place() {
        assert!(error("[[link]]\na = \"client\"\nb = \"r9\"\n").contains("no member \"r9\""));
        assert!(error("[[link]]\na = \"r1\"\nb = \"r1\"\n").contains("to itself"));
        let twice = "[[link]]\na = \"client\"\nb = \"r1\"\n[[link]]\na = \"r1\"\nb = \"client\"\n";
        assert!(error(twice).contains("listed twice"));
        assert!(error("[[link]]\na = \"client\"\nb = \"r1\"\nloss = 1.0\n").contains("loss is 1"));
        assert!(error("[[link]]\na = \"client\"\nb = \"r1\"\nlos = 0.1\n").starts_with("line 23: "));
        assert!(error("serial = = 3\n").starts_with("line 20: "));
        assert!(error(&member("other", 3, "")).contains("same ed25519 as member \"io1\""));
        assert!(error(&member("io1", 4, "")).contains("same name"));
        let long = "ü".repeat(33);
        assert!(error(&member(&long, 4, "")).ends_with("is 66 bytes; expected 1 to 64 bytes"));
        let clients = member("other", 4, "") + "[[link]]\na = \"client\"\nb = \"other\"\n";
        assert!(error(&clients).contains("neither end has a control address"));
    }
}
