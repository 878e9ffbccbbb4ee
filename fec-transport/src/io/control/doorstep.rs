//! Who waits at the door: handshakes under way, before anybody has shown a key.
//!
//! Their number is bounded, and whoever asks last is let in all the same: one of the others goes. It is the oldest of
//! the host that has most, in the network that has most, so that somebody who opens handshakes and lets them hang
//! displaces none but his own. Hosts at which the overlay file says that a neighbour is go last.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv6Addr};

/// Handshakes under way at a time.
pub(super) const MAX_HANDSHAKES: usize = 64;

/// The handshakes under way, the oldest first; each with what its owner knows it by.
#[derive(Debug)]
pub(super) struct Doorstep<T> {
    waiting: Vec<(IpAddr, T)>,
}

impl<T> Default for Doorstep<T> {
    fn default() -> Doorstep<T> {
        Doorstep { waiting: Vec::new() }
    }
}

impl<T> Doorstep<T> {
    /// One more; gives the one that has to go for it, if all places are taken.
    pub(super) fn come(&mut self, from: IpAddr, handshake: T, neighbours: &BTreeSet<IpAddr>) -> Option<T> {
        self.waiting.push((from, handshake));
        let is_full = self.waiting.len() > MAX_HANDSHAKES;
        is_full.then(|| self.waiting.remove(self.most_expendable(neighbours)).1)
    }

    /// Those that `has_ended` are forgotten.
    pub(super) fn leave(&mut self, has_ended: impl Fn(&T) -> bool) {
        self.waiting.retain(|(_, handshake)| !has_ended(handshake));
    }

    fn most_expendable(&self, neighbours: &BTreeSet<IpAddr>) -> usize {
        let hosts: BTreeMap<IpAddr, usize> = count(self.waiting.iter().map(|(from, _)| *from));
        let networks: BTreeMap<IpAddr, usize> = count(self.waiting.iter().map(|(from, _)| network(*from)));
        let weight = |from: &IpAddr| (!neighbours.contains(from), networks[&network(*from)], hosts[from]);
        // Of several that weigh the same, the first one is the oldest.
        let oldest_first = self.waiting.iter().enumerate().rev();
        oldest_first.max_by_key(|(_, (from, _))| weight(from)).map_or(0, |(place, _)| place)
    }
}

fn count(items: impl Iterator<Item = IpAddr>) -> BTreeMap<IpAddr, usize> {
    let mut counts = BTreeMap::new();
    items.for_each(|item| *counts.entry(item).or_default() += 1);
    counts
}

/// What one customer of a provider has: with IPv4 mostly less than 2⁸ addresses, with IPv6 a prefix of 56 bits.
fn network(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(address) => {
            let [a, b, c, _] = address.octets();
            [a, b, c, 0].into()
        }
        IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & (u128::MAX << 72)).into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn whoever_lets_handshakes_hang_displaces_his_own() {
        let (mut doorstep, neighbours) = (Doorstep::default(), BTreeSet::new());
        let honest = [address("192.0.2.1"), address("203.0.113.9"), address("2001:db8::1")];
        for from in honest {
            assert_eq!(doorstep.come(from, from, &neighbours), None);
        }
        for number in 0..1_000_u32 {
            let attacker = address(&format!("198.51.100.{}", number % 256));
            let displaced = doorstep.come(attacker, attacker, &neighbours);
            assert_eq!(displaced.is_some(), number as usize >= MAX_HANDSHAKES - honest.len());
            assert!(displaced.is_none_or(|gone| network(gone) == network(attacker)));
        }
        // Another one of the attacker's network is let in, too, and stays as long as he has most.
        let beside = address("198.51.100.7");
        assert!(doorstep.come(beside, beside, &neighbours).is_some());
        let waits = |from: &IpAddr| doorstep.waiting.iter().any(|(waiting, _)| waiting == from);
        assert!(honest.iter().chain([&beside]).all(waits));
    }

    #[test]
    fn neighbours_whose_hosts_are_known_go_last() {
        let mut doorstep = Doorstep::default();
        let known = BTreeSet::from([address("192.0.2.1")]);
        for number in 0..MAX_HANDSHAKES {
            assert_eq!(doorstep.come(address("192.0.2.1"), number, &known), None);
        }
        assert_eq!(doorstep.come(address("198.51.100.1"), 99, &known), Some(99));
        assert_eq!(doorstep.come(address("192.0.2.1"), 100, &known), Some(0));
    }

    #[test]
    fn a_network_is_what_one_customer_has() {
        assert_eq!(network(address("192.0.2.77")), address("192.0.2.0"));
        assert_eq!(network(address("::ffff:192.0.2.77")), address("192.0.2.0"));
        assert_eq!(network(address("2001:db8:0:12ff::1")), address("2001:db8:0:1200::"));
    }
}
