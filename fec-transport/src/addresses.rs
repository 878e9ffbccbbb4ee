//! Where the data plane finds each neighbour.
//!
//! A neighbour that has no fixed address is where it has answered a challenge. It is challenged where a greeting of its
//! comes from, and where a packet comes from that is newer than all before it along its circuit: so a neighbour that
//! moves, or whose translator gives it another port, is found a round trip after its first packet from there. Greetings
//! alone would find it within 15 s.
//!
//! Nobody who is not there is sent more than a challenge for each [`PAUSE`], of 24 bytes, which is less than what came
//! from there: a packet has 24 bytes before its body.

use core::net::SocketAddr;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::node::{Ingress, Node};
use crate::overlay::{Adjacency, LinkId, MemberId, Overlay};
use crate::time::Time;

/// The data addresses of the neighbours, link by link: fixed by the overlay file, or learned from a greeting.
#[derive(Debug)]
pub(crate) struct AddressBook {
    fixed: BTreeMap<LinkId, Place>,
    learned: BTreeMap<Adjacency, Learned>,
    /// Whom packets came from last, and where from, if that is where it is known to be: most packets are of this one.
    latest: Option<(Adjacency, Place)>,
}

/// A socket of ours, as whoever owns the sockets numbers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Slot(pub(crate) usize);

/// Where a neighbour is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    /// From which socket of ours.
    pub(crate) slot: Slot,
    /// At which address.
    pub(crate) address: SocketAddr,
}

/// Where a process that has greeted is.
#[derive(Debug)]
struct Learned {
    /// Where it has received a challenge.
    proven: Option<Place>,
    /// Challenges that are on their way, by their numbers, and where they went.
    challenges: VecDeque<(u64, Place)>,
    /// When it greeted last.
    at: Time,
    /// Where it was challenged last, and when.
    asked: Option<(Place, Time)>,
}

/// Twice the processes that may be connected at a time: data may still flow to one whose control connection broke.
const MAX_LEARNED: usize = 4_096;
/// Challenges of one process that are on their way: it greets five times a second until one is answered, so that a
/// round trip may take three seconds.
const MAX_CHALLENGES: usize = 16;
/// Between two challenges to one address: one may be lost.
const PAUSE: Duration = Duration::from_millis(100);

impl AddressBook {
    /// The addresses that the overlay file fixes for the neighbours of `member`; `slot` is the socket of a link.
    pub(crate) fn of(overlay: &Overlay, member: MemberId, slot: impl FnMut(LinkId) -> Slot) -> AddressBook {
        let mut book = AddressBook { fixed: BTreeMap::new(), learned: BTreeMap::new(), latest: None };
        book.reload(overlay, member, slot);
        book
    }

    /// Takes the fixed addresses from a newer overlay file, and forgets what it learned of others than neighbours.
    pub(crate) fn reload(
        &mut self,
        overlay: &Overlay,
        member: MemberId,
        mut slot: impl FnMut(LinkId) -> Slot,
    ) {
        let fixed = overlay.links_of(member).filter_map(|(link, _)| {
            let address = overlay.reach(link, member).1?;
            Some((link, Place { slot: slot(link), address }))
        });
        self.fixed = fixed.collect();
        self.latest = None;
        let Self { fixed, learned, .. } = self;
        learned.retain(|neighbour, _| {
            overlay.contains_link(neighbour.link) && !fixed.contains_key(&neighbour.link)
        });
    }

    /// Where to send what is for `neighbour`.
    pub(crate) fn find(&self, neighbour: Adjacency) -> Option<Place> {
        let learned = || self.learned.get(&neighbour).and_then(|learned| learned.proven);
        self.fixed.get(&neighbour.link).copied().or_else(learned)
    }

    /// A datagram that came from an address has met this fate. Gives the challenge that goes back there, and whom it is
    /// for, if one does.
    pub(crate) fn on_ingress(
        &mut self,
        now: Time,
        node: &mut Node,
        ingress: Ingress,
        from: Place,
    ) -> Option<(Adjacency, Vec<u8>)> {
        let (neighbour, challenge) = match ingress {
            Ingress::Consumed => return None,
            Ingress::Greeted(neighbour) => (neighbour, self.on_greeting(now, node, neighbour, from)),
            Ingress::Heard(neighbour) => (neighbour, self.on_heard(now, node, neighbour, from)),
        };
        Some((neighbour, challenge?))
    }

    /// `neighbour` has greeted from an address: that is confirmed if the address is known, else it is asked whether it
    /// is there, by the challenge that this gives, and until it answers nothing else is sent there. It is forgotten
    /// when too many others have greeted since.
    fn on_greeting(
        &mut self,
        now: Time,
        node: &mut Node,
        neighbour: Adjacency,
        from: Place,
    ) -> Option<Vec<u8>> {
        if self.fixed.contains_key(&neighbour.link) {
            node.confirm_greeting(neighbour);
            return None;
        }
        let new = Learned { proven: None, challenges: VecDeque::new(), at: now, asked: None };
        let learned = self.learned.entry(neighbour).or_insert(new);
        learned.at = now;
        if learned.proven == Some(from) {
            node.confirm_greeting(neighbour);
            return None;
        }
        let challenge = learned.ask(now, node, neighbour, from);
        if self.learned.len() > MAX_LEARNED {
            let stalest = self.learned.iter().min_by_key(|(_, learned)| learned.at).map(|(who, _)| *who);
            stalest.and_then(|who| self.learned.remove(&who));
        }
        challenge
    }

    /// A packet of `neighbour` has come, newer than all before it. If that is from another address than the one that is
    /// known, this gives the challenge that asks whether it is there now.
    fn on_heard(&mut self, now: Time, node: &mut Node, neighbour: Adjacency, from: Place) -> Option<Vec<u8>> {
        if self.latest == Some((neighbour, from)) || self.fixed.contains_key(&neighbour.link) {
            return None;
        }
        // Who has never greeted knows no key with which to tell a challenge.
        let learned = self.learned.get_mut(&neighbour)?;
        if learned.proven == Some(from) {
            self.latest = Some((neighbour, from));
            return None;
        }
        learned.ask(now, node, neighbour, from)
    }

    /// Neighbours are where the challenges went that they have answered.
    pub(crate) fn take_answers(&mut self, node: &mut Node) {
        while let Some((neighbour, number)) = node.poll_challenge_answer() {
            let Some(learned) = self.learned.get_mut(&neighbour) else { continue };
            let Some(place) = learned.challenges.iter().position(|(sent, _)| *sent == number) else {
                continue;
            };
            let there = Some(learned.challenges[place].1);
            let was_there = std::mem::replace(&mut learned.proven, there) == there;
            self.latest = None;
            // Those from before may come from where it was, and must not lead back there.
            learned.challenges.drain(..=place);
            node.confirm_greeting(neighbour);
            if !was_there {
                node.neighbour_found(neighbour);
            }
        }
    }
}

impl Learned {
    /// A challenge that asks the neighbour whether it is there, unless it was asked there a moment ago.
    fn ask(&mut self, now: Time, node: &mut Node, neighbour: Adjacency, there: Place) -> Option<Vec<u8>> {
        if self.asked.is_some_and(|(place, at)| place == there && now.since(at) < PAUSE) {
            return None;
        }
        let mut challenge = Vec::new();
        let number = node.challenge(neighbour, &mut challenge)?;
        self.asked = Some((there, now));
        self.challenges.push_back((number, there));
        if self.challenges.len() > MAX_CHALLENGES {
            self.challenges.pop_front();
        }
        Some(challenge)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::Config;
    use crate::crypto::random::Randomness;
    use crate::keys::{Identity, encode_key};
    use crate::overlay::{InstanceId, Peer};

    /// A client without addresses and a relay with some.
    struct Scene {
        overlay: Arc<Overlay>,
    }

    impl Scene {
        fn new() -> Scene {
            let mut text = String::new();
            for (name, rest) in
                [("client", ""), ("relay", "control = \"127.0.0.1:1\"\ndata = \"127.0.0.1:2\"\n")]
            {
                let keys = identity(name).public();
                let (ed25519, x25519) = (encode_key(&keys.ed25519), encode_key(&keys.x25519));
                text += &format!(
                    "[[member]]\nname = \"{name}\"\ned25519 = \"{ed25519}\"\nx25519 = \"{x25519}\"\n{rest}"
                );
            }
            text += "[[link]]\na = \"client\"\nb = \"relay\"\n";
            Scene { overlay: Arc::new(Overlay::parse(&text).expect("a right overlay")) }
        }

        fn member(&self, name: &str) -> MemberId {
            self.overlay.find(name).expect("listed")
        }
    }

    fn identity(name: &str) -> Identity {
        Identity::from_seed(*blake3::hash(name.as_bytes()).as_bytes())
    }

    /// Two nodes whose control messages and datagrams a test hands on, and the relay's address book.
    struct Pair {
        scene: Scene,
        now: Time,
        relay: Node,
        clients: Vec<(Node, Adjacency)>,
        book: AddressBook,
    }

    fn node(scene: &Scene, name: &str, instance: InstanceId) -> Node {
        let (overlay, member) = (Arc::clone(&scene.overlay), scene.member(name));
        let randomness = Randomness::Seed([instance.0 as u8; 32]);
        Node::new(overlay, identity(name), member, instance, Config::default(), randomness, Time::ZERO)
            .expect("a right config")
    }

    fn address(text: &str) -> SocketAddr {
        text.parse().expect("an address")
    }

    fn place(text: &str) -> Place {
        Place { slot: Slot(0), address: address(text) }
    }

    fn only_slot(_: LinkId) -> Slot {
        Slot(0)
    }

    /// A process of a member as the other one sees it over the only link.
    fn over_link(member: MemberId, instance: u64) -> Adjacency {
        Adjacency { peer: Peer { member, instance: InstanceId(instance) }, link: LinkId(0) }
    }

    impl Pair {
        fn new() -> Pair {
            let scene = Scene::new();
            let relay = node(&scene, "relay", InstanceId(100));
            let book = AddressBook::of(&scene.overlay, scene.member("relay"), only_slot);
            Pair { scene, now: Time::ZERO, relay, clients: Vec::new(), book }
        }

        /// A further process of the client connects.
        fn connect(&mut self) -> Adjacency {
            let instance = InstanceId(self.clients.len() as u64);
            let peer = over_link(self.scene.member("client"), instance.0);
            self.clients.push((node(&self.scene, "client", instance), peer));
            let relay = over_link(self.scene.member("relay"), 100);
            self.relay.neighbour_up(self.now, peer);
            self.clients[instance.0 as usize].0.neighbour_up(self.now, relay);
            self.talk();
            peer
        }

        /// Hands on what is said on the control plane.
        fn talk(&mut self) {
            let relay = over_link(self.scene.member("relay"), 100);
            while let Some((to, message)) = self.relay.poll_control() {
                self.clients[to.peer.instance.0 as usize].0.handle_control(self.now, relay, &message);
            }
            for (client, peer) in &mut self.clients {
                while let Some((_, message)) = client.poll_control() {
                    self.relay.handle_control(self.now, *peer, &message);
                }
            }
            self.book.take_answers(&mut self.relay);
        }

        /// The client's next greeting, if it is due.
        fn greeting(&mut self, peer: Adjacency) -> Option<Vec<u8>> {
            let mut datagram = Vec::new();
            self.clients[peer.peer.instance.0 as usize].0.poll_transmit(self.now, &mut datagram)?;
            Some(datagram)
        }

        /// The relay takes a greeting that comes from an address; gives what it sends there.
        fn hear(&mut self, mut greeting: Vec<u8>, from: Place) -> Option<Vec<u8>> {
            let Ingress::Greeted(peer) = self.relay.handle_datagram(self.now, &mut greeting) else {
                panic!("it is a greeting")
            };
            self.book.on_greeting(self.now, &mut self.relay, peer, from)
        }

        /// The client greets from an address, and receives what is sent there.
        fn settle_at(&mut self, peer: Adjacency, from: Place) {
            let greeting = self.greeting(peer).expect("a greeting is due");
            let mut challenge = self.hear(greeting, from).expect("the address is new");
            self.clients[peer.peer.instance.0 as usize].0.handle_datagram(self.now, &mut challenge);
            self.talk();
        }
    }

    #[test]
    fn a_fixed_address_holds_for_all_processes_and_a_learned_one_for_one() {
        let mut pair = Pair::new();
        let [first, second] = [(); 2].map(|()| pair.connect());
        let somewhere = place("192.0.2.1:9");
        assert_eq!(pair.book.find(first), None);
        pair.settle_at(first, somewhere);
        assert_eq!((pair.book.find(first), pair.book.find(second)), (Some(somewhere), None));
        pair.talk();
        assert_eq!(pair.greeting(first), None, "it is confirmed");
        let scene = &pair.scene;
        let at_client = AddressBook::of(&scene.overlay, scene.member("client"), only_slot);
        let any = over_link(scene.member("relay"), 9);
        let data = scene.overlay.member(any.peer.member).data;
        assert_eq!(at_client.find(any).map(|place| place.address), data);
    }

    /// A member once had its relays send all that was for it to any address: the source of its greeting was believed.
    #[test]
    fn an_address_that_does_not_answer_gets_no_more_than_it_seemed_to_send() {
        let mut pair = Pair::new();
        let peer = pair.connect();
        let (home, victim) = (place("192.0.2.1:9"), place("203.0.113.7:53"));
        pair.settle_at(peer, home);
        let (mut sent, mut got, mut seen) = (0, 0, 0);
        // The member greets from there for an hour of virtual time, and answers what it may guess.
        for _ in 0..3_600 {
            pair.now += Duration::from_secs(1);
            let Some(greeting) = pair.greeting(peer) else { continue };
            sent += greeting.len();
            got += pair.hear(greeting, victim).map_or(0, |challenge| challenge.len());
            pair.relay.handle_control(pair.now, peer, &[7, 0, 0, 0, 0, 0, 1]);
            pair.talk();
            assert_eq!(pair.book.find(peer), Some(home), "what is for the member goes where it was seen");
            seen += 1;
        }
        assert!(seen >= 240, "it greeted {seen} times");
        assert!(got <= sent, "{got} bytes for {sent}");
        assert!(pair.book.learned[&peer].challenges.len() <= MAX_CHALLENGES);
    }

    #[test]
    fn a_neighbour_that_moves_is_found_and_an_answer_from_before_does_not_lead_back() {
        let mut pair = Pair::new();
        let peer = pair.connect();
        let (old, new) = (place("192.0.2.1:9"), place("192.0.2.2:9"));
        let greeting = pair.greeting(peer).expect("it is due");
        let mut late = pair.hear(greeting, old).expect("the address is new");
        pair.now += Duration::from_secs(1);
        pair.settle_at(peer, new);
        assert_eq!(pair.book.find(peer), Some(new));
        pair.clients[0].0.handle_datagram(pair.now, &mut late);
        pair.talk();
        assert_eq!(pair.book.find(peer), Some(new));
    }

    #[test]
    fn a_challenge_counts_under_its_own_key_only_and_is_answered_once() {
        let mut pair = Pair::new();
        let peer = pair.connect();
        let greeting = pair.greeting(peer).expect("it is due");
        let challenge = pair.hear(greeting, place("192.0.2.1:9")).expect("the address is new");
        let client = &mut pair.clients[0].0;
        let mut forged = challenge.clone();
        forged[7] ^= 1;
        client.handle_datagram(pair.now, &mut forged);
        assert_eq!(client.poll_control(), None);
        for _ in 0..5 {
            client.handle_datagram(pair.now, &mut challenge.clone());
        }
        assert_eq!(std::iter::from_fn(|| client.poll_control()).count(), 1);
    }

    #[test]
    fn the_stalest_address_makes_room_for_a_new_one() {
        let mut pair = Pair::new();
        let peer = pair.connect();
        let old =
            |at| Learned { proven: Some(place("192.0.2.1:9")), challenges: VecDeque::new(), at, asked: None };
        for number in 1..=MAX_LEARNED as u64 {
            let other = over_link(peer.peer.member, 1_000 + number);
            pair.book.learned.insert(other, old(Time::ZERO + Duration::from_secs(number)));
        }
        pair.now += Duration::from_secs(1 << 20);
        let greeting = pair.greeting(peer).expect("it is due");
        pair.hear(greeting, place("192.0.2.3:9")).expect("the address is new");
        let known =
            [1, 2].map(|number| pair.book.learned.contains_key(&over_link(peer.peer.member, 1_000 + number)));
        assert_eq!((known, pair.book.learned.len()), ([false, true], MAX_LEARNED));
    }

    #[test]
    fn a_neighbour_that_is_heard_from_elsewhere_is_asked_there_and_found_when_it_answers() {
        let mut pair = Pair::new();
        let peer = pair.connect();
        let (old, new) = (place("192.0.2.1:9"), place("192.0.2.1:10"));
        pair.settle_at(peer, old);
        assert_eq!(pair.book.on_heard(pair.now, &mut pair.relay, peer, old), None);
        let mut challenge =
            pair.book.on_heard(pair.now, &mut pair.relay, peer, new).expect("it is elsewhere");
        assert_eq!(pair.book.find(peer), Some(old), "it has not answered");
        let again = |pair: &mut Pair| pair.book.on_heard(pair.now, &mut pair.relay, peer, new);
        assert_eq!(again(&mut pair), None, "it is asked once in a while");
        pair.now += PAUSE;
        assert!(again(&mut pair).is_some(), "the first challenge may be lost");
        pair.clients[0].0.handle_datagram(pair.now, &mut challenge);
        pair.talk();
        assert_eq!(pair.book.find(peer), Some(new));
        assert_eq!(again(&mut pair), None);
    }

    #[test]
    fn an_address_from_which_copies_come_gets_less_than_it_seems_to_send() {
        let mut pair = Pair::new();
        let peer = pair.connect();
        let (home, victim) = (place("192.0.2.1:9"), place("203.0.113.7:53"));
        pair.settle_at(peer, home);
        let (mut sent, mut got) = (0, 0);
        for step in 0..10_000 {
            pair.now += Duration::from_millis(1);
            let from = if step % 2 == 0 { victim } else { home };
            let challenge = pair.book.on_heard(pair.now, &mut pair.relay, peer, from);
            sent += 24;
            got += challenge.map_or(0, |challenge| challenge.len());
        }
        assert!(got > 0 && got <= sent / 50, "{got} bytes for {sent}");
        assert_eq!(pair.book.find(peer), Some(home));
    }
}
