//! Several uplinks of a member of which the overlay file knows nothing.
//!
//! A member without an address in the file is not reached by anybody, it reaches others; so it alone needs to know over
//! which of its uplinks. Its config names them, and each of its links becomes one for each of them, as if the file had
//! listed so many parallel links. Its neighbours, and whoever else is on a route over such a link, know the file only:
//! to them a link over the second uplink is the listed one's name with `@2` behind it, and needs no entry. The first
//! uplink's link is the listed one itself, so that others find the member as before.

use core::net::IpAddr;
use std::collections::BTreeSet;

use super::{Link, LinkId, MAX_ENTRIES, MemberId, Overlay, Uplink};
use crate::limits::MAX_NAME;

/// Uplinks that a config may name: more than a machine has, and few enough to have one digit.
pub const MAX_UPLINKS: usize = 8;

/// Stands between the name of a listed link and the number of an uplink.
pub(super) const UPLINK_MARK: char = '@';

/// The longest name of a link in the file: mark and digit stand behind it.
pub(super) const MAX_LISTED_NAME: usize = MAX_NAME - 2;

/// The lower bits of a link's number are its position in the file.
const ENTRY_BITS: u32 = 16;

/// Why a member cannot use uplinks that its config names.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UplinksError {
    /// One is named twice.
    #[error("\"{0}\" is listed twice; each uplink is listed once")]
    Twice(Uplink),
    /// There are too many.
    #[error("{0} are listed; expected 1 to {MAX_UPLINKS}")]
    Count(usize),
    /// The overlay file says everything already.
    #[error(
        "the overlay file leaves open over which uplink a link goes only for members without an address of their own; \
         \"{0}\" has one, or each of its links names an uplink: add a_from or b_from to the links there"
    )]
    NothingOpen(String),
    /// No neighbour can be reached from there.
    #[error("from \"{0}\" no neighbour can be reached: their addresses ({1}) are of another kind")]
    ReachesNobody(Uplink, String),
    /// Positions of links are 16-bit.
    #[error("there are {0} links over them; at most 65535 are possible")]
    TooManyLinks(usize),
}

impl LinkId {
    /// Its position in the overlay's list of links.
    pub fn entry(self) -> usize {
        (self.0 & ((1 << ENTRY_BITS) - 1)) as usize
    }

    /// The link that the file lists.
    pub(super) fn listed(self) -> LinkId {
        LinkId(self.0 & ((1 << ENTRY_BITS) - 1))
    }

    /// Which further uplink it goes over, counted from 1; 0 for the listed link itself.
    pub(super) fn uplink(self) -> u32 {
        self.0 >> ENTRY_BITS
    }

    /// The same link over a further uplink.
    pub(super) fn over(self, uplink: u32) -> LinkId {
        LinkId(self.listed().0 | uplink << ENTRY_BITS)
    }
}

/// The listed name and the further uplink that such a name means: `lte@2` is the first one after that of `lte`.
pub(super) fn split(name: &str) -> Option<(&str, u32)> {
    let (listed, number) = name.rsplit_once(UPLINK_MARK)?;
    let number: usize = number.parse().ok().filter(|number| (2..=MAX_UPLINKS).contains(number))?;
    (name == numbered(listed, number)).then_some((listed, number as u32 - 1))
}

/// What [`split`] takes apart.
pub(super) fn join(listed: &str, link: LinkId) -> String {
    match link.uplink() {
        0 => listed.to_owned(),
        further => numbered(listed, further as usize + 1),
    }
}

fn numbered(listed: &str, number: usize) -> String {
    format!("{listed}{UPLINK_MARK}{number}")
}

/// What becomes of each link that `member` may carry over whichever uplink: a link for each of these uplinks from which
/// the neighbour can be reached. The first one takes the listed link's place.
pub(super) fn links_over(
    overlay: &Overlay,
    member: MemberId,
    uplinks: &[Uplink],
) -> Result<Vec<(LinkId, Vec<Link>)>, UplinksError> {
    check(overlay, member, uplinks)?;
    let variants = |id: LinkId| {
        let reaching = uplinks.iter().filter(|uplink| reaches(overlay, uplink, id, member));
        let link = |(place, uplink): (usize, &Uplink)| {
            let link = overlay.link(id).over_uplink(member, uplink);
            let name = if place == 0 { link.name.clone() } else { numbered(&link.name, place + 1) };
            Link { name, ..link }
        };
        (id, reaching.enumerate().map(link).collect::<Vec<Link>>())
    };
    let links: Vec<(LinkId, Vec<Link>)> = open_links(overlay, member).into_iter().map(variants).collect();
    let further: usize = links.iter().map(|(_, links)| links.len().saturating_sub(1)).sum();
    match overlay.links().len() + further {
        count if count > MAX_ENTRIES => Err(UplinksError::TooManyLinks(count)),
        _ => Ok(links),
    }
}

/// The end of a link of which the file says neither where it is nor over which uplink it sends.
pub(super) fn open_end(overlay: &Overlay, id: LinkId) -> Option<MemberId> {
    let link = overlay.link(id);
    let is_open = |member: MemberId| {
        let entry = overlay.member(member);
        let is_found = if link.a == member { link.a_at } else { link.b_at }.is_some();
        link.uplink(member).is_none() && !is_found && entry.control.is_none() && entry.data.is_none()
    };
    [link.a, link.b].into_iter().find(|member| is_open(*member))
}

fn check(overlay: &Overlay, member: MemberId, uplinks: &[Uplink]) -> Result<(), UplinksError> {
    if !(1..=MAX_UPLINKS).contains(&uplinks.len()) {
        return Err(UplinksError::Count(uplinks.len()));
    }
    let open = open_links(overlay, member);
    if open.is_empty() {
        return Err(UplinksError::NothingOpen(overlay.name(member)));
    }
    for (place, uplink) in uplinks.iter().enumerate() {
        if uplinks[..place].contains(uplink) {
            return Err(UplinksError::Twice(uplink.clone()));
        }
        if !open.iter().any(|link| reaches(overlay, uplink, *link, member)) {
            return Err(UplinksError::ReachesNobody(uplink.clone(), addresses(overlay, &open, member)));
        }
    }
    Ok(())
}

/// The data addresses at the other ends of links, for people.
fn addresses(overlay: &Overlay, links: &[LinkId], from: MemberId) -> String {
    let addresses = links.iter().filter_map(|link| overlay.reach(*link, from).1);
    let list: BTreeSet<String> = addresses.map(|address| address.ip().to_string()).collect();
    list.into_iter().collect::<Vec<String>>().join(", ")
}

/// The links of `member` that are its to carry over whichever uplink.
fn open_links(overlay: &Overlay, member: MemberId) -> Vec<LinkId> {
    let links = overlay.links_of(member).map(|(link, _)| link);
    links.filter(|link| open_end(overlay, *link) == Some(member)).collect()
}

/// Whether what `from` sends over an uplink can be meant for the other end of a link.
fn reaches(overlay: &Overlay, uplink: &Uplink, link: LinkId, from: MemberId) -> bool {
    let (control, data) = overlay.reach(link, from);
    match uplink {
        Uplink::Interface(_) => true,
        Uplink::Address(here) => {
            [control, data].into_iter().flatten().all(|there| is_reached(*here, there.ip()))
        }
    }
}

/// Whether packets from one address may be sent to the other: it is of the same family, and on the same machine if the
/// first one is.
fn is_reached(from: IpAddr, to: IpAddr) -> bool {
    from.is_ipv4() == to.is_ipv4() && (!from.is_loopback() || to.is_loopback())
}

impl Link {
    /// This link over that uplink of one of its ends.
    fn over_uplink(&self, end: MemberId, uplink: &Uplink) -> Link {
        let mut link = Link { label: format!("{}{UPLINK_MARK}{uplink}", self.name), ..self.clone() };
        *(if link.a == end { &mut link.a_from } else { &mut link.b_from }) = Some(uplink.clone());
        link
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::encode_key;

    const FIXED: &str = "control = \"192.0.2.7:1\"\ndata = \"192.0.2.7:2\"\nrelay_for = [\"*\"]\n";

    fn file(serial: u64, links: &str) -> String {
        let mut text = format!("serial = {serial}\n");
        for (number, (name, rest)) in [("laptop", ""), ("relay", FIXED), ("site", FIXED)].iter().enumerate() {
            let keys = [1, 101].map(|first| encode_key(&[first + number as u8; 32]));
            text += &format!(
                "[[member]]\nname = \"{name}\"\ned25519 = \"{}\"\nx25519 = \"{}\"\n{rest}",
                keys[0], keys[1]
            );
        }
        text + links
    }

    const LINKS: &str = "[[link]]\na = \"laptop\"\nb = \"relay\"\n[[link]]\na = \"relay\"\nb = \"site\"\n\
        [[link]]\na = \"site\"\nb = \"laptop\"\nname = \"near\"\n\
        [[link]]\na = \"site\"\nb = \"laptop\"\nname = \"far\"\nb_from = \"wlan0\"\n";

    fn overlay() -> Overlay {
        Overlay::parse(&file(1, LINKS)).expect("a right file")
    }

    fn uplinks(names: &[&str]) -> Vec<Uplink> {
        names.iter().map(|name| Uplink::parse(name).expect("a right name")).collect()
    }

    fn members(overlay: &Overlay) -> [MemberId; 3] {
        ["laptop", "relay", "site"].map(|name| overlay.find(name).expect("listed"))
    }

    #[test]
    fn each_link_that_leaves_it_open_becomes_one_for_each_uplink() {
        let plain = overlay();
        let [laptop, relay, site] = members(&plain);
        let own = plain.over_uplinks(laptop, &uplinks(&["eth0", "10.0.0.1"])).expect("right uplinks");
        let titles: Vec<String> = own.listed_links().map(|(link, _)| own.link_title(link)).collect();
        let expected = [
            "laptop – relay (@eth0)",
            "relay – site",
            "site – laptop (near@eth0)",
            "site – laptop (far)",
            "laptop – relay (@10.0.0.1)",
            "site – laptop (near@10.0.0.1)",
        ];
        assert_eq!(titles, expected);
        let names: Vec<String> =
            own.links_between(laptop, site).iter().map(|link| own.link_name(*link)).collect();
        assert_eq!(names, ["near", "far", "near@2"]);
        let ways: Vec<_> =
            own.links_between(laptop, relay).iter().map(|link| own.reach(*link, laptop)).collect();
        assert_eq!(ways, [own.reach(LinkId(0), laptop); 2]);
    }

    #[test]
    fn others_know_each_such_link_by_the_listed_one_and_no_more_of_them() {
        let own = overlay();
        let [laptop, relay, site] = members(&own);
        let named = |name: &str| own.link_named(laptop, relay, name);
        let second = named("@2").expect("it may have a second uplink");
        assert_eq!((own.link_name(second), second.entry()), ("@2".to_owned(), 0));
        assert_ne!(Some(second), named("@3"));
        assert!(
            own.contains_link(second) && own.joins(second, relay, laptop) && !own.joins(second, relay, site)
        );
        let route = super::super::Route::new(vec![laptop, relay, site], vec![second, LinkId(1)]);
        assert!(own.allows_route(&route));
        assert_eq!(own.route_title(route.members(), route.links()), "laptop –(@2)– relay – site");
        for wrong in ["@", "@0", "@1", "@9", "@02", "@+2", "@-2", "@2@2", "near@2", "@wwan0"] {
            assert_eq!(named(wrong), None, "{wrong}");
        }
        // Both ends of this one have addresses, and of that one the file says the uplink.
        assert_eq!(own.link_named(relay, site, "@2"), None);
        assert_eq!(own.link_named(laptop, site, "far@2"), None);
        assert!(!own.contains_link(LinkId(1).over(1)));
    }

    #[test]
    fn a_newer_file_keeps_the_numbers_of_links_over_uplinks_and_may_take_them_back() {
        let uplinks = uplinks(&["eth0", "wwan0"]);
        let read = |serial, links: &str| Overlay::parse(&file(serial, links)).expect("a right file");
        let [laptop, relay, _] = members(&overlay());
        let older = read(1, LINKS).over_uplinks(laptop, &uplinks).expect("right uplinks");
        let newer = read(2, LINKS).over_uplinks(laptop, &uplinks).expect("right uplinks");
        let merged = older.succeeded_by(&newer).expect("it is newer");
        assert_eq!(merged.links_between(laptop, relay), older.links_between(laptop, relay));
        assert_eq!(older.change_to(&merged).links_added, 0);
        let at_relay = read(1, LINKS);
        let second = at_relay.link_named(laptop, relay, "@2").expect("it may have a second uplink");
        let said = LINKS.replacen("b = \"relay\"\n", "b = \"relay\"\na_from = \"eth0\"\n", 1);
        let merged = at_relay.succeeded_by(&read(2, &said)).expect("it is newer");
        assert!(merged.contains_link(LinkId(0)) && !merged.contains_link(second));
    }

    #[test]
    fn uplinks_that_cannot_be_used_are_named_with_the_reason() {
        let [laptop, _, site] = members(&overlay());
        let refused = |member, names: &[&str]| {
            overlay().over_uplinks(member, &uplinks(names)).expect_err("it is refused").to_string()
        };
        assert!(
            refused(laptop, &["eth0", "::1", "eth0"]).contains("from \"::1\" no neighbour can be reached")
        );
        assert!(refused(laptop, &["127.0.0.2"]).contains("(192.0.2.7)"));
        assert!(refused(laptop, &["eth0", "wwan0", "eth0"]).contains("\"eth0\" is listed twice"));
        assert!(refused(laptop, &["a", "b", "c", "d", "e", "f", "g", "h", "i"]).starts_with("9 are listed"));
        assert!(refused(laptop, &[]).contains("expected 1 to 8"));
        assert!(refused(site, &["eth0"]).contains("\"site\" has one"));
        let marked = file(1, &LINKS.replace("\"near\"", "\"near@2\""));
        let error = Overlay::parse(&marked).unwrap_err().to_string();
        assert!(error.contains("its name is \"near@2\"; expected at most 62 bytes without @"), "{error}");
    }
}
