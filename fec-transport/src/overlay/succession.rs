//! A newer overlay file takes the place of an older one in a running process.

use std::collections::BTreeMap;

use super::{Link, MAX_ENTRIES, Member, MemberId, Overlay, RelayFor, Site, ends, link_id, member_id};

/// Why an overlay file cannot take another one's place.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SuccessionError {
    /// Its serial number has not risen.
    #[error("its serial is {offered}, and {in_use} is in use; a newer file has a larger one")]
    NotNewer {
        /// The serial of the file that was offered.
        offered: u64,
        /// The serial of the overlay in use.
        in_use: u64,
    },
    /// It does not list the member that reads it, or with other keys.
    #[error("it does not list this member, \"{0}\", with the keys that this process has")]
    NotListed(String),
    /// Positions of members and links are 16-bit, and none is used twice in the life of a process.
    #[error("this process has seen {0} members or links come and go; start it anew")]
    UsedUp(usize),
}

/// What changed from one overlay to the next.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OverlayChange {
    /// The serial now in use.
    pub serial: u64,
    /// Names of members that are new, or have new keys.
    pub added: Vec<String>,
    /// Names of members that are not listed any more, or have new keys.
    pub removed: Vec<String>,
    /// How many links are new.
    pub links_added: usize,
    /// How many links are not listed any more, those of removed members included.
    pub links_removed: usize,
}

/// The overlay as `newer` has it, for a process that runs with `older`; [`Overlay::succeeded_by`] says how.
pub(super) fn merge(older: &Overlay, newer: &Overlay) -> Result<Overlay, SuccessionError> {
    if newer.serial <= older.serial {
        return Err(SuccessionError::NotNewer { offered: newer.serial, in_use: older.serial });
    }
    let (members, places) = merge_members(older, newer);
    let (links, by_ends) = merge_links(older, newer, &places);
    let largest = members.len().max(links.len());
    if largest > MAX_ENTRIES {
        return Err(SuccessionError::UsedUp(largest));
    }
    let place = |id: &MemberId| member_id(places[usize::from(id.0)]);
    let site = |site: &Site| Site { io_nodes: site.io_nodes.iter().map(place).collect(), ..site.clone() };
    let by_ends = by_ends.into_iter();
    Ok(Overlay {
        serial: newer.serial,
        sites: newer.sites().iter().map(site).collect(),
        by_name: newer.names().map(|(name, id)| (name.to_owned(), place(&id))).collect(),
        by_ends: by_ends
            .map(|((a, b), links)| ((member_id(a), member_id(b)), links.into_iter().map(link_id).collect()))
            .collect(),
        members,
        links,
    })
}

/// What `newer`, which took the place of `older`, changed.
pub(super) fn change(older: &Overlay, newer: &Overlay) -> OverlayChange {
    let only_in = |one: &Overlay, other: &Overlay| {
        let gone = one.names().filter(|(_, id)| !other.contains(*id));
        gone.map(|(name, _)| name.to_owned()).collect::<Vec<_>>()
    };
    let links_only_in = |one: &Overlay, other: &Overlay| {
        one.listed_links().filter(|(id, _)| !other.contains_link(*id)).count()
    };
    OverlayChange {
        serial: newer.serial,
        added: only_in(newer, older),
        removed: only_in(older, newer),
        links_added: links_only_in(newer, older),
        links_removed: links_only_in(older, newer),
    }
}

/// All members by their new positions, and the new position of each of `newer`'s.
fn merge_members(older: &Overlay, newer: &Overlay) -> (Vec<Member>, Vec<usize>) {
    let mut members = older.members().to_vec();
    let identity = |member: &Member| (member.name.clone(), member.keys);
    let known: BTreeMap<_, usize> =
        members.iter().enumerate().map(|(place, member)| (identity(member), place)).collect();
    let mut next = members.len();
    let mut place_of = |member: &Member| {
        known.get(&identity(member)).copied().unwrap_or_else(|| {
            next += 1;
            next - 1
        })
    };
    let places: Vec<usize> = newer.members().iter().map(&mut place_of).collect();
    for (member, place) in newer.members().iter().zip(&places) {
        let member = Member { relay_for: renumbered(&member.relay_for, &places), ..member.clone() };
        match members.get_mut(*place) {
            Some(old) => *old = member,
            None => members.push(member),
        }
    }
    (members, places)
}

/// All links by their new positions, and where each of `newer`'s is by its ends' positions.
#[allow(clippy::type_complexity, reason = "two tables that are taken apart at once")]
fn merge_links(
    older: &Overlay,
    newer: &Overlay,
    places: &[usize],
) -> (Vec<Link>, BTreeMap<(usize, usize), Vec<usize>>) {
    let mut links = older.links().to_vec();
    let mut by_ends: BTreeMap<_, Vec<usize>> = BTreeMap::new();
    let known: BTreeMap<_, usize> = links
        .iter()
        .enumerate()
        .map(|(place, link)| ((ends(link.a, link.b), link.name.clone()), place))
        .collect();
    let place_of = |id: MemberId| places[usize::from(id.0)];
    for link in newer.links() {
        let (a, b) = (place_of(link.a), place_of(link.b));
        // Beyond 16 bits there is no known link, and the caller refuses it all.
        let id = |place: usize| MemberId(u16::try_from(place).unwrap_or(u16::MAX));
        let link = Link { a: id(a), b: id(b), ..link.clone() };
        let place = known.get(&(ends(link.a, link.b), link.name.clone())).copied().unwrap_or(links.len());
        by_ends.entry((a.min(b), a.max(b))).or_default().push(place);
        match links.get_mut(place) {
            Some(old) => *old = link,
            None => links.push(link),
        }
    }
    (links, by_ends)
}

fn renumbered(relay_for: &RelayFor, places: &[usize]) -> RelayFor {
    match relay_for {
        RelayFor::Everyone => RelayFor::Everyone,
        RelayFor::Members(members) => {
            let place =
                |id: &MemberId| MemberId(u16::try_from(places[usize::from(id.0)]).unwrap_or(u16::MAX));
            RelayFor::Members(members.iter().map(place).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::encode_key;
    use crate::overlay::LinkId;

    /// An overlay of members with a key each, of which the last relays for the first, and of links.
    fn overlay(serial: u64, members: &[(&str, u8)], links: &[(&str, &str)]) -> Overlay {
        let mut text = format!("serial = {serial}\n");
        for (name, key) in members {
            let keys = [encode_key(&[*key; 32]), encode_key(&[*key + 100; 32])];
            text += &format!(
                "[[member]]\nname = \"{name}\"\ned25519 = \"{}\"\nx25519 = \"{}\"\nrelay_for = [\"{}\"]\n\
                 control = \"127.0.0.1:1\"\ndata = \"127.0.0.1:2\"\n",
                keys[0], keys[1], members[0].0
            );
        }
        for (a, b) in links {
            text += &format!("[[link]]\na = \"{a}\"\nb = \"{b}\"\n");
        }
        Overlay::parse(&text).expect("a right file")
    }

    #[test]
    fn who_stays_keeps_its_number_and_no_number_is_given_to_another() {
        let older = overlay(1, &[("a", 1), ("b", 2), ("c", 3)], &[("a", "b"), ("b", "c"), ("a", "c")]);
        let newer = overlay(2, &[("d", 4), ("c", 3), ("a", 1)], &[("c", "a"), ("d", "a")]);
        let merged = older.succeeded_by(&newer).expect("it is newer");
        let id = |name: &str| merged.find(name);
        assert_eq!((id("a"), id("b"), id("c")), (older.find("a"), None, older.find("c")));
        assert_eq!(id("d"), Some(MemberId(3)));
        assert_eq!(merged.name(older.find("b").expect("listed")), "b", "the log may still name it");
        let [a, c, d] = ["a", "c", "d"].map(|name| id(name).expect("listed"));
        assert_eq!(merged.links_between(a, c), older.links_between(a, c));
        assert_eq!(merged.links_of(a).map(|(_, other)| other).collect::<Vec<_>>(), [c, d]);
        assert!(!merged.contains(MemberId(1)) && merged.find_by_ed25519(&[2; 32]).is_none());
        assert!(merged.relays_for(a, d) && !merged.relays_for(a, c), "members are named by new numbers");
        let change = older.change_to(&merged);
        assert_eq!((change.added, change.removed), (vec!["d".to_owned()], vec!["b".to_owned()]));
        assert_eq!((change.links_added, change.links_removed), (1, 2));
    }

    #[test]
    fn a_member_with_new_keys_is_another_member_and_one_that_returns_the_same() {
        let first = overlay(1, &[("a", 1), ("b", 2)], &[("a", "b")]);
        let rekeyed = first.succeeded_by(&overlay(2, &[("a", 1), ("b", 9)], &[("a", "b")])).expect("newer");
        assert_eq!(rekeyed.find("b"), Some(MemberId(2)));
        assert_eq!(rekeyed.listed_links().count(), 1);
        let back = rekeyed.succeeded_by(&overlay(3, &[("b", 2), ("a", 1)], &[("a", "b")])).expect("newer");
        assert_eq!(back.find("b"), first.find("b"));
        assert_eq!(back.links_between(MemberId(0), MemberId(1)), [LinkId(0)]);
    }

    #[test]
    fn a_file_whose_serial_has_not_risen_is_refused() {
        let members = [("a", 1), ("b", 2)];
        let older = overlay(7, &members, &[("a", "b")]);
        for serial in [0, 6, 7] {
            let refused = older.succeeded_by(&overlay(serial, &members, &[("a", "b")]));
            assert_eq!(refused, Err(SuccessionError::NotNewer { offered: serial, in_use: 7 }));
        }
    }
}
