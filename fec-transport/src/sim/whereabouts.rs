//! Addresses in virtual time: where each end of a link is, and where its other end believes it to be.
//!
//! Without them a datagram finds its neighbour by the link alone. With them it arrives only if the neighbour is where
//! the sender's address book says: so a test can have a translator change a port.

use core::net::{Ipv4Addr, SocketAddr};
use std::collections::BTreeMap;
use std::time::Duration;

use crate::addresses::{AddressBook, Place, Slot};
use crate::node::{Ingress, Node};
use crate::overlay::{Adjacency, LinkId, MemberId, Overlay};
use crate::time::Time;

/// The socket of every member: each has one.
const SLOT: Slot = Slot(0);

/// Where everybody is.
#[derive(Debug)]
pub(super) struct Whereabouts {
    /// Of each member.
    books: Vec<AddressBook>,
    ends: BTreeMap<(MemberId, LinkId), End>,
}

/// One end of a link.
#[derive(Debug, Clone, Copy)]
struct End {
    address: SocketAddr,
    /// Where it was before, and until when.
    before: SocketAddr,
    since: Time,
}

impl Whereabouts {
    /// Members with a data address are there, others somewhere.
    pub(super) fn new(overlay: &Overlay, now: Time) -> Whereabouts {
        let members = || (0..).map(MemberId).zip(overlay.members());
        let books = members().map(|(member, _)| AddressBook::of(overlay, member, |_| SLOT)).collect();
        let mut ends = BTreeMap::new();
        for (link, entry) in overlay.listed_links() {
            for (member, other) in [(entry.a, entry.b), (entry.b, entry.a)] {
                let somewhere =
                    SocketAddr::new(Ipv4Addr::new(10, 0, 0, 1).into(), 20_000 + link.entry() as u16);
                let address = overlay.reach(link, other).1.unwrap_or(somewhere);
                ends.insert((member, link), End { address, before: address, since: now });
            }
        }
        Whereabouts { books, ends }
    }

    /// One end of a link gets another port.
    pub(super) fn move_end(&mut self, now: Time, member: MemberId, link: LinkId) {
        if let Some(end) = self.ends.get_mut(&(member, link)) {
            let next = end.address.port().wrapping_add(1_000);
            *end = End { address: SocketAddr::new(end.address.ip(), next), before: end.address, since: now };
        }
    }

    /// Whether what `from` sends to a neighbour arrives there.
    pub(super) fn reaches(&self, from: MemberId, to: Adjacency) -> bool {
        let there = self.ends.get(&(to.peer.member, to.link)).map(|end| end.address);
        let believed = self.books[usize::from(from.0)].find(to).map(|place| place.address);
        believed.is_some() && believed == there
    }

    /// A datagram from the other end of a link, which takes `delay`, met this fate at a member. Gives the challenge
    /// that goes back to where it came from, if one does and somebody is there.
    pub(super) fn on_ingress(
        &mut self,
        now: Time,
        node: &mut Node,
        ingress: Ingress,
        delay: Duration,
    ) -> Option<(Adjacency, Vec<u8>)> {
        let (Ingress::Greeted(neighbour) | Ingress::Heard(neighbour)) = ingress else { return None };
        let end = self.ends.get(&(neighbour.peer.member, neighbour.link))?;
        let address = if now.since(end.since) < delay { end.before } else { end.address };
        let (from, book) = (Place { slot: SLOT, address }, &mut self.books[usize::from(node.member().0)]);
        book.on_ingress(now, node, ingress, from).filter(|_| end.address == address)
    }

    /// A member has heard control messages, which may answer challenges.
    pub(super) fn take_answers(&mut self, node: &mut Node) {
        self.books[usize::from(node.member().0)].take_answers(node);
    }
}
