//! The overlay: its members, the links between them, and its sites, as one TOML file lists them (design §6).

use core::net::SocketAddr;
use std::collections::{BTreeMap, BTreeSet};

use crate::keys::PublicKeys;

mod crossings;
mod file;
mod link;
mod route;
mod signature;
mod succession;
mod title;
mod uplinks;

use file::{File, syntax_error};

pub(crate) use crossings::Crossings;
pub use file::OverlayError;
pub use link::{Link, Reach, Uplink};
pub use route::{Route, RouteLink};
pub use signature::{OperatorKey, SignatureError, sign};
pub use succession::{OverlayChange, SuccessionError};
pub use title::{link_title, route_title};
pub use uplinks::{MAX_UPLINKS, UplinksError};

/// A member's position in the overlay file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemberId(pub u16);

/// A link's position in the overlay file; of a link that a neighbour uses over several uplinks which the file does not
/// know, the higher 16 bits say over which one of them (0 for the first one, and for links without).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(pub u32);

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

/// A neighbour's process as one link leads to it. Several links may lead to the same process; what is set up over one
/// of them does not depend on the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Adjacency {
    /// The neighbour's process.
    pub peer: Peer,
    /// The link to it.
    pub link: LinkId,
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
    /// The links by their ends, the smaller one first; those between the same two members in the order of the file.
    by_ends: BTreeMap<(MemberId, MemberId), Vec<LinkId>>,
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
        links.filter(|(id, link)| self.links_between(link.a, link.b).contains(id))
    }

    /// The names of the members that the file lists, with their numbers.
    fn names(&self) -> impl Iterator<Item = (&str, MemberId)> + '_ {
        self.by_name.iter().map(|(name, id)| (name.as_str(), *id))
    }

    /// The link of that position.
    ///
    /// # Panics
    /// If the id comes from another overlay.
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.entry()]
    }

    /// Whether `id` is a link that the file lists, or one over a further uplink that the file leaves open.
    pub fn contains_link(&self, id: LinkId) -> bool {
        self.links.get(id.entry()).is_some_and(|link| self.joins(id, link.a, link.b))
    }

    /// The links that join two members, in either order.
    pub fn links_between(&self, one: MemberId, other: MemberId) -> &[LinkId] {
        self.by_ends.get(&ends(one, other)).map_or(&[], Vec::as_slice)
    }

    /// Whether any link joins two members.
    pub fn are_neighbours(&self, one: MemberId, other: MemberId) -> bool {
        !self.links_between(one, other).is_empty()
    }

    /// Whether that link joins these two members, in either order.
    pub fn joins(&self, link: LinkId, one: MemberId, other: MemberId) -> bool {
        self.links_between(one, other).contains(&link.listed())
            && (link.uplink() == 0 || uplinks::open_end(self, link).is_some())
    }

    /// The link of that name between two members; the empty name is that of a link without one. A name that ends with
    /// `@` and a number is that of a link over a further uplink, where the file leaves it open over which it goes.
    pub fn link_named(&self, one: MemberId, other: MemberId, name: &str) -> Option<LinkId> {
        let listed = |name: &str| {
            self.links_between(one, other).iter().copied().find(|link| self.link(*link).name == name)
        };
        listed(name).or_else(|| {
            let (name, uplink) = uplinks::split(name)?;
            listed(name).map(|link| link.over(uplink)).filter(|link| uplinks::open_end(self, *link).is_some())
        })
    }

    /// The name of a link as members tell it to one another; empty for one without.
    pub fn link_name(&self, id: LinkId) -> String {
        uplinks::join(&self.link(id).name, id)
    }

    /// The links of a member: each with the neighbour at its other end. Several may lead to the same one.
    pub fn links_of(&self, member: MemberId) -> impl Iterator<Item = (LinkId, MemberId)> + '_ {
        self.listed_links().filter_map(move |(id, link)| Some((id, link.other_end(member)?)))
    }

    /// The two ends of a link, and its name if it has one, for people.
    pub fn link_title(&self, id: LinkId) -> String {
        let link = self.link(id);
        link_title(&self.name(link.a), &self.name(link.b), &self.link_label(id))
    }

    /// The route over these members by the first link that joins each to the next; none if one of them is missing.
    pub fn route_over(&self, members: &[MemberId]) -> Option<Route> {
        let links = members.windows(2).map(|pair| self.links_between(pair[0], pair[1]).first().copied());
        let links = links.collect::<Option<Vec<LinkId>>>()?;
        (!members.is_empty()).then(|| Route::new(members.to_vec(), links))
    }

    /// A neighbour's process as `me` sees it over the first link between them; none if there is no link.
    pub fn adjacency(&self, me: MemberId, peer: Peer) -> Option<Adjacency> {
        let link = *self.links_between(me, peer.member).first()?;
        Some(Adjacency { peer, link })
    }

    /// Whether a circuit may take this route: its members and links are listed, each link joins a member to the next,
    /// and the members on the way relay for the first one.
    pub fn allows_route(&self, route: &Route) -> bool {
        let is_joined = |(pair, link): (&[MemberId], &LinkId)| self.joins(*link, pair[0], pair[1]);
        route.members().iter().all(|member| self.contains(*member))
            && route.members().windows(2).zip(route.links()).all(is_joined)
            && route.relays().iter().all(|relay| self.relays_for(*relay, route.members()[0]))
    }

    /// The links that a route crosses, in its order, with what the file says of them now.
    pub fn crossed(&self, links: &[LinkId]) -> Vec<RouteLink> {
        let capacity_bps = |link: &Link| link.capacity_mbit.map(|capacity| capacity * 1e6);
        links
            .iter()
            .map(|link| RouteLink { link: *link, capacity_bps: capacity_bps(self.link(*link)) })
            .collect()
    }

    /// What people here call a link: its name and, where this process's config and not the file says over which uplink
    /// it goes, `@` and the uplink. Empty for a link without either.
    pub fn link_label(&self, id: LinkId) -> String {
        uplinks::join(&self.link(id).label, id)
    }

    /// What people here call a route's links.
    pub fn link_names(&self, links: &[LinkId]) -> Vec<String> {
        links.iter().map(|link| self.link_label(*link)).collect()
    }

    /// A route as people read it, by [`route_title`].
    pub fn route_title(&self, members: &[MemberId], links: &[LinkId]) -> String {
        let names: Vec<String> = members.iter().map(|member| self.name(*member)).collect();
        route_title(&names, &self.link_names(links))
    }

    /// The member that opens the control connection of a link: the end without a control address, else the one listed
    /// first.
    pub fn dialler(&self, link: LinkId) -> MemberId {
        let link = self.link(link);
        let reachable = |to: MemberId, way: Option<Reach>| way.is_some() || self.member(to).control.is_some();
        if reachable(link.b, link.b_at) { link.a } else { link.b }
    }

    /// Where `from` finds the member at the other end of `link`: control and data address, as far as they are fixed.
    pub fn reach(&self, link: LinkId, from: MemberId) -> (Option<SocketAddr>, Option<SocketAddr>) {
        let link = self.link(link);
        let (to, way) = if link.a == from { (link.b, link.b_at) } else { (link.a, link.a_at) };
        match way {
            Some(way) => (Some(way.control), Some(way.data)),
            None => (self.member(to).control, self.member(to).data),
        }
    }

    /// The overlay as `member` has it that uses each of its links over each of these uplinks from which the neighbour
    /// can be reached. A link that says over which uplink it goes stays as it is.
    ///
    /// # Errors
    /// [`UplinksError`] if they cannot be used.
    pub fn over_uplinks(mut self, member: MemberId, uplinks: &[Uplink]) -> Result<Overlay, UplinksError> {
        for (listed, links) in uplinks::links_over(&self, member, uplinks)? {
            let mut links = links.into_iter();
            if let Some(first) = links.next() {
                self.links[listed.entry()] = first;
            }
            self = links.fold(self, Overlay::with_link);
        }
        Ok(self)
    }

    /// The same with a link behind all others.
    fn with_link(mut self, link: Link) -> Overlay {
        self.by_ends.entry(ends(link.a, link.b)).or_default().push(link_id(self.links.len()));
        self.links.push(link);
        self
    }

    /// The overlay as `newer` has it, for a process that runs with this one.
    ///
    /// A member with the same name and keys keeps its number, and so does a link of the same name between the same
    /// members; numbers of others are not given to anybody else, so that nothing that still holds one can mean a
    /// stranger by it.
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
    LinkId(u32::try_from(index).expect("the number of links was checked when the file was read"))
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
        let [first] = *overlay.links_between(r1, client) else { panic!("one link") };
        assert_eq!(overlay.reach(first, client).1, Some("127.0.0.1:12".parse().expect("an address")));
        assert_eq!(overlay.reach(first, r1), (None, None));
        let [second] = *overlay.links_between(client, io1) else { panic!("one link") };
        let crossed = overlay.crossed(overlay.route_over(&[r1, client, io1]).expect("two links").links());
        let expected = [(first, Some(20e6)), (second, None)];
        assert_eq!(crossed, expected.map(|(link, capacity_bps)| RouteLink { link, capacity_bps }));
        assert_eq!((overlay.dialler(first), overlay.dialler(second)), (client, client));
        assert_eq!(overlay.sites()[0].io_nodes, [io1]);
    }

    /// Each sync panicked, although the overlay file had been checked.
    #[test]
    fn a_site_that_no_file_can_lie_on_is_refused() {
        let site = |name: &str, io_nodes: &str| {
            error(&format!("[[site]]\nname = \"{name}\"\nio_nodes = [{io_nodes}]\n"))
        };
        assert_eq!(
            site("s", "\"io1\", \"r1\", \"io1\""),
            "site \"s\": io_nodes is \"io1\" more than once; expected each member once"
        );
        assert_eq!(site("s", ""), "site \"s\": the number of its I/O nodes is 0; expected 1 to 4096");
        for name in ["lo cal:x", "a/b", "a,b", "", "a\\n"] {
            let told = site(name, "\"io1\"");
            assert!(told.contains("its name is") && told.contains("none of : / , ;"), "{told}");
        }
        let twice = "[[site]]\nname = \"s\"\nio_nodes = [\"io1\"]\n".repeat(2);
        assert!(error(&twice).starts_with("site \"s\": its name is that of a site before it"));
        let odd = three_members() + &member("a,b", 4, "") + "[[site]]\nname = \"s\"\nio_nodes = [\"a,b\"]\n";
        let told = Overlay::parse(&odd).unwrap_err().to_string();
        assert!(told.starts_with("site \"s\": io_nodes is \"a,b\"; expected a member whose name"), "{told}");
    }

    /// Somebody may leave the zeros of a template where a key is to be: everybody could be that member.
    #[test]
    fn a_key_that_protects_nothing_is_named_with_its_member() {
        let zeros = encode_key(&[0; 32]);
        for (what, key) in [("ed25519", 2), ("x25519", 102)] {
            let text = three_members().replace(&encode_key(&[key; 32]), &zeros);
            let error = Overlay::parse(&text).expect_err("whoever wants to is r1").to_string();
            let parts = ["member \"r1\"", what, &zeros, "a key that protects nothing", "as `sfio keygen`"];
            assert!(parts.iter().all(|part| error.contains(part)), "{error}");
        }
    }

    #[test]
    fn parallel_links_are_told_apart_by_name_and_say_from_where_and_to_where_they_lead() {
        let text = three_members()
            + "[[link]]\na = \"client\"\nb = \"io1\"\nname = \"dsl\"\na_from = \"127.0.0.2\"\nb_at = \"127.0.0.9\"\n\
               [[link]]\na = \"io1\"\nb = \"client\"\nname = \"lte\"\nb_from = \"wwan0\"\n\
               a_at = { control = \"127.0.0.8:11\", data = \"127.0.0.8:12\" }\n\
               [[link]]\na = \"client\"\nb = \"r1\"\n";
        let overlay = Overlay::parse(&text).expect("a right file");
        let [client, io1] = ["client", "io1"].map(|name| overlay.find(name).expect("listed"));
        let [dsl, lte] = *overlay.links_between(io1, client) else { panic!("two links") };
        assert_eq!(
            (overlay.link_named(client, io1, "lte"), overlay.link_named(client, io1, "")),
            (Some(lte), None)
        );
        let uplink = |link| overlay.link(link).uplink(client).map(ToString::to_string);
        assert_eq!([uplink(dsl), uplink(lte)], [Some("127.0.0.2".to_owned()), Some("wwan0".to_owned())]);
        assert_eq!(overlay.link(lte).uplink(io1), None);
        let at = |link| overlay.reach(link, client).0.map(|address| address.to_string());
        assert_eq!([at(dsl), at(lte)], [Some("127.0.0.9:1".to_owned()), Some("127.0.0.8:11".to_owned())]);
        assert_eq!(
            [overlay.link_title(dsl), overlay.link_title(LinkId(2))],
            ["client – io1 (dsl)", "client – r1"]
        );
        let over = |links: &[LinkId]| Route::new(vec![client, io1], links.to_vec());
        assert!(overlay.allows_route(&over(&[dsl])) && !overlay.allows_route(&over(&[LinkId(2)])));
        let without = text.replace("name = \"lte\"\n", "") + "\n";
        let error = Overlay::parse(&without).unwrap_err().to_string();
        assert!(error.contains("link io1 – client is listed twice") && error.contains("`name`"), "{error}");
    }

    #[test]
    fn a_newer_file_keeps_the_numbers_of_parallel_links_by_their_names() {
        let file = |serial: u64, names: &[&str]| {
            let link = |name: &&str| format!("[[link]]\na = \"client\"\nb = \"io1\"\nname = \"{name}\"\n");
            let links: String = names.iter().map(link).collect();
            Overlay::parse(&format!("serial = {serial}\n{}{links}", three_members())).expect("a right file")
        };
        let older = file(1, &["dsl", "lte", "fibre"]);
        let merged = older.succeeded_by(&file(2, &["lte", "sat", "dsl"])).expect("it is newer");
        let [client, io1] = ["client", "io1"].map(|name| merged.find(name).expect("listed"));
        let ids = ["dsl", "lte", "fibre", "sat"].map(|name| merged.link_named(client, io1, name));
        assert_eq!(ids, [Some(LinkId(0)), Some(LinkId(1)), None, Some(LinkId(3))]);
        assert!(merged.contains_link(LinkId(0)) && !merged.contains_link(LinkId(2)));
        let change = older.change_to(&merged);
        assert_eq!((change.links_added, change.links_removed), (1, 1));
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
        let typo = error(&member("io2", 4, "data = \"127.0.0.1:99999\""));
        assert!(typo.starts_with("member \"io2\": data is \"127.0.0.1:99999\"; expected an IP"), "{typo}");
        let long = "ü".repeat(33);
        assert!(error(&member(&long, 4, "")).ends_with("is 66 bytes; expected 1 to 64 bytes"));
        let clients = member("other", 4, "") + "[[link]]\na = \"client\"\nb = \"other\"\n";
        assert!(error(&clients).contains("neither end has a control address"));
        let link = |rest: &str| error(&format!("[[link]]\na = \"client\"\nb = \"r1\"\n{rest}\n"));
        assert!(
            link("a_from = \"10.0.0.1:70\"").contains("a_from is \"10.0.0.1:70\"; expected an IP address or")
        );
        assert!(link("a_at = \"10.0.0.1\"").contains("a_at is \"10.0.0.1\"; expected { control, data }"));
        let ports = "{ control = \"10.0.0.1:1\", data = \"10.0.0.1:2\" }";
        assert!(link(&format!("b_at = {ports}\na_to_b = {ports}")).contains("b_at and a_to_b both say"));
        assert!(link("b_at = 7").contains("expected an address, as"));
    }
}
