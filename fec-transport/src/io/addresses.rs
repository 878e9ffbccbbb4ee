//! Where the data plane finds each neighbour.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

use crate::overlay::{MemberId, Overlay, Peer};
use crate::time::Time;

/// The data addresses of the neighbours: fixed by the overlay file, or learned from a greeting.
#[derive(Debug)]
pub(super) struct AddressBook {
    fixed: BTreeMap<MemberId, SocketAddr>,
    learned: BTreeMap<Peer, Greeting>,
    /// Addresses that have been challenged and have not answered yet.
    challenged: BTreeMap<Peer, Challenge>,
}

/// What follows from a greeting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Greeted {
    /// Its address is the neighbour's.
    Confirmed,
    /// A challenge with this number is to be sent to its address.
    Challenged(u64),
    /// It has no consequence.
    Ignored,
}

#[derive(Debug, Clone, Copy)]
struct Challenge {
    from: SocketAddr,
    number: u64,
    /// Greetings that came from there meanwhile.
    tries: u32,
}

#[derive(Debug, Clone, Copy)]
struct Greeting {
    from: SocketAddr,
    at: Time,
}

/// Greetings from an address that may answer one challenge. They come each 200 ms, and round trips may be longer; but
/// nobody is to try numbers for long.
const MAX_TRIES: u32 = 64;

/// Twice the processes that may be connected at a time: data may still flow to one whose control connection broke.
const MAX_LEARNED: usize = 4_096;

impl AddressBook {
    /// The addresses that the overlay file fixes for the neighbours of `member`.
    pub(super) fn of(overlay: &Overlay, member: MemberId) -> AddressBook {
        let (fixed, learned, challenged) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let mut book = AddressBook { fixed, learned, challenged };
        book.reload(overlay, member);
        book
    }

    /// Takes the fixed addresses from a newer overlay file, and forgets what it learned of others than neighbours.
    pub(super) fn reload(&mut self, overlay: &Overlay, member: MemberId) {
        let fixed = overlay
            .links_of(member)
            .filter_map(|(link, neighbour)| Some((neighbour, overlay.reach(link, member).1?)));
        self.fixed = fixed.collect();
        let Self { fixed, learned, challenged } = self;
        challenged.clear();
        learned.retain(|peer, _| {
            overlay.link_between(member, peer.member).is_some() && !fixed.contains_key(&peer.member)
        });
    }

    /// Where to send what is for `peer`.
    pub(super) fn find(&self, peer: Peer) -> Option<SocketAddr> {
        let learned = || self.learned.get(&peer).map(|greeting| greeting.from);
        self.fixed.get(&peer.member).copied().or_else(learned)
    }

    /// `peer` has greeted with that number, by a datagram that bears the address `from`. Before data goes to a new
    /// address it must answer a challenge, whose number `draw` makes to follow a given one: whoever reads it is there.
    /// So a member draws no flood upon somebody else, and a forged address gets no more bytes than were sent in its name.
    pub(super) fn greeted(
        &mut self,
        now: Time,
        (peer, from): (Peer, SocketAddr),
        number: u64,
        draw: impl FnOnce(u64) -> Option<u64>,
    ) -> Greeted {
        let is_known = self.fixed.contains_key(&peer.member) || self.find(peer) == Some(from);
        let pending = self.challenged.get_mut(&peer).filter(|challenge| challenge.from == from);
        if is_known || pending.as_ref().is_some_and(|challenge| challenge.number == number) {
            self.challenged.remove(&peer);
            self.learn(now, peer, from);
            return Greeted::Confirmed;
        }
        if let Some(challenge) = pending.filter(|open| open.number > number && open.tries < MAX_TRIES) {
            challenge.tries += 1;
            return Greeted::Challenged(challenge.number);
        }
        let Some(number) = draw(number) else { return Greeted::Ignored };
        self.challenged.insert(peer, Challenge { from, number, tries: 0 });
        if self.challenged.len() > MAX_LEARNED {
            self.challenged.pop_first();
        }
        Greeted::Challenged(number)
    }

    /// The address of `peer` is known. It is forgotten when too many others have greeted since.
    fn learn(&mut self, now: Time, peer: Peer, from: SocketAddr) {
        if self.fixed.contains_key(&peer.member) {
            return;
        }
        self.learned.insert(peer, Greeting { from, at: now });
        if self.learned.len() > MAX_LEARNED {
            let stalest = self.learned.iter().min_by_key(|(_, greeting)| greeting.at).map(|(peer, _)| *peer);
            stalest.and_then(|peer| self.learned.remove(&peer));
        }
    }
}

/// The form of `address` that a socket takes which is bound to IPv6: IPv4 addresses are mapped (RFC 4291 §2.5.5.2).
pub(super) fn mapped(address: SocketAddr, socket_is_ipv6: bool) -> SocketAddr {
    match address.ip() {
        IpAddr::V4(ip) if socket_is_ipv6 => SocketAddr::new(ip.to_ipv6_mapped().into(), address.port()),
        _ => address,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::io::testing::Scene;
    use crate::overlay::InstanceId;

    #[test]
    fn a_fixed_address_holds_for_all_processes_and_a_learned_one_for_one() {
        let scene = Scene::new(&["relay"], &["client"], &[("client", "relay")]);
        let (relay, client) = (scene.member("relay"), scene.member("client"));
        let [first, second] = [1, 2].map(|instance| Peer { member: client, instance: InstanceId(instance) });
        let somewhere = "192.0.2.1:9".parse().expect("an address");

        let mut at_relay = AddressBook::of(&scene.overlay, relay);
        assert_eq!(at_relay.find(first), None);
        at_relay.learn(Time::ZERO, first, somewhere);
        assert_eq!((at_relay.find(first), at_relay.find(second)), (Some(somewhere), None));

        let mut at_client = AddressBook::of(&scene.overlay, client);
        let any = Peer { member: relay, instance: InstanceId(9) };
        at_client.learn(Time::ZERO, any, somewhere);
        assert_eq!(at_client.find(any), scene.overlay.member(relay).data);
    }

    /// A member once drew all that was sent to it, at any rate, upon whatever address it wrote above one greeting.
    #[test]
    fn an_address_gets_no_more_bytes_than_were_sent_in_its_name_before_it_has_answered() {
        const GREETING: usize = crate::wire::hop::HOP_HEADER;
        let scene = Scene::new(&["relay"], &["client"], &[("client", "relay")]);
        let mut book = AddressBook::of(&scene.overlay, scene.member("relay"));
        let client = Peer { member: scene.member("client"), instance: InstanceId(1) };
        let [own, victim] =
            ["192.0.2.1:9", "198.51.100.1:53"].map(|text| text.parse::<SocketAddr>().expect("an address"));
        let mut drawn = 0;
        let mut draw = |after: u64| {
            drawn += 1;
            Some(after + 1_000 * drawn)
        };
        let Greeted::Challenged(number) = book.greeted(Time::ZERO, (client, own), 0, &mut draw) else {
            panic!("nobody has been there")
        };
        assert_eq!(book.find(client), None);
        // A later greeting that crosses the challenge does not make it void.
        assert_eq!(book.greeted(Time::ZERO, (client, own), 1, &mut draw), Greeted::Challenged(number));
        assert_eq!(book.greeted(Time::ZERO, (client, victim), number - 1, |_| None), Greeted::Ignored);
        assert_eq!(book.greeted(Time::ZERO, (client, own), number, &mut draw), Greeted::Confirmed);
        assert_eq!(book.greeted(Time::ZERO, (client, own), number + 1, &mut draw), Greeted::Confirmed);
        let (mut in_its_name, mut to_it) = (0, 0);
        for number in number + 2..number + 10_000 {
            in_its_name += GREETING;
            match book.greeted(Time::ZERO, (client, victim), number, |after| Some(after + (1 << 40))) {
                Greeted::Challenged(_) => to_it += GREETING,
                Greeted::Ignored => {}
                Greeted::Confirmed => panic!("nobody has answered from there"),
            }
            assert_eq!(book.find(client), Some(own), "what is for the member goes where it is");
        }
        assert!(to_it <= 3 * in_its_name, "{to_it} bytes for {in_its_name}");
    }

    #[test]
    fn the_stalest_address_makes_room_for_a_new_one() {
        let scene = Scene::new(&["relay"], &["client"], &[("client", "relay")]);
        let process = |number| Peer { member: scene.member("client"), instance: InstanceId(number) };
        let mut book = AddressBook::of(&scene.overlay, scene.member("relay"));
        let mut now = Time::ZERO;
        for number in (0..MAX_LEARNED as u64).chain([0, MAX_LEARNED as u64]) {
            now += Duration::from_secs(1);
            book.learn(now, process(number), "192.0.2.1:9".parse().expect("an address"));
        }
        let known = [0, 1, 2, MAX_LEARNED as u64].map(|number| book.find(process(number)).is_some());
        assert_eq!(known, [true, false, true, true]);
    }

    #[test]
    fn only_ipv4_addresses_on_an_ipv6_socket_are_mapped() {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        assert_eq!(mapped(address("192.0.2.1:9"), true), address("[::ffff:192.0.2.1]:9"));
        assert_eq!(mapped(address("192.0.2.1:9"), false), address("192.0.2.1:9"));
        assert_eq!(mapped(address("[2001:db8::1]:9"), true), address("[2001:db8::1]:9"));
    }
}
