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
}

#[derive(Debug, Clone, Copy)]
struct Greeting {
    from: SocketAddr,
    at: Time,
}

/// Twice the processes that may be connected at a time: data may still flow to one whose control connection broke.
const MAX_LEARNED: usize = 4_096;

impl AddressBook {
    /// The addresses that the overlay file fixes for the neighbours of `member`.
    pub(super) fn of(overlay: &Overlay, member: MemberId) -> AddressBook {
        let mut book = AddressBook { fixed: BTreeMap::new(), learned: BTreeMap::new() };
        book.reload(overlay, member);
        book
    }

    /// Takes the fixed addresses from a newer overlay file, and forgets what it learned of others than neighbours.
    pub(super) fn reload(&mut self, overlay: &Overlay, member: MemberId) {
        let fixed = overlay
            .links_of(member)
            .filter_map(|(link, neighbour)| Some((neighbour, overlay.reach(link, member).1?)));
        self.fixed = fixed.collect();
        let Self { fixed, learned } = self;
        learned.retain(|peer, _| {
            overlay.link_between(member, peer.member).is_some() && !fixed.contains_key(&peer.member)
        });
    }

    /// Where to send what is for `peer`.
    pub(super) fn find(&self, peer: Peer) -> Option<SocketAddr> {
        let learned = || self.learned.get(&peer).map(|greeting| greeting.from);
        self.fixed.get(&peer.member).copied().or_else(learned)
    }

    /// `peer` has greeted from an address. It is forgotten when too many others have greeted since.
    pub(super) fn learn(&mut self, now: Time, peer: Peer, from: SocketAddr) {
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
