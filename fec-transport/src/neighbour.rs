//! The neighbours: who is connected on the control plane, and who knows where to send us data.
//!
//! The data address of a neighbour without a fixed one is learned: the acceptor of the control connection hands the
//! dialler a label and a key, and the dialler greets the acceptor with them on the data plane until the greeting is
//! confirmed, and now and then afterwards, which also keeps address translators on the way awake. Anybody can write any
//! address above a datagram, so one that is new is challenged: the acceptor sends a greeting back to it with a number
//! that cannot be guessed, and the dialler's next greeting must have that number.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use crate::crypto::hop_tag::{self, HopKey};
use crate::overlay::{InstanceId, MemberId, Overlay, Peer};
use crate::time::Time;
use crate::wire::hop::{HopHeader, Label, PacketType};
use crate::wire::link::GreetingKey;

/// How often an unconfirmed greeting is repeated, and a confirmed one renewed.
const GREETING_RETRY: Duration = Duration::from_millis(200);
const GREETING_RENEWAL: Duration = Duration::from_secs(15);

/// Control messages that wait for their connection at most; a neighbour that is further behind misses some, and what
/// they were about times out.
const MAX_MESSAGES: usize = 4_096;

/// The neighbours' processes that are, or lately were, connected, and what is said to them.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    processes: BTreeMap<Peer, Process>,
    /// Control messages that wait for their connections.
    messages: VecDeque<(Peer, Vec<u8>)>,
    /// Whom we greet with which label.
    greeted: BTreeMap<Label, Peer>,
    /// Control messages that came and were malformed.
    malformed: u64,
}

#[derive(Debug)]
struct Process {
    /// Since when the control connection is up or down.
    state: Connection,
    /// With what it greets us, if it is the dialler.
    greets_with: Option<(Label, HopKey)>,
    /// With what we greet it, if we are the dialler.
    greeting: Option<Greeting>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Connection {
    Up { since: Time },
    Down { since: Time },
}

#[derive(Debug)]
struct Greeting {
    label: Label,
    key: HopKey,
    number: u64,
    due: Time,
    confirmed: bool,
}

/// A process that is gone for good: what went over it must be given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) peer: Peer,
    /// The label with which it greeted us, to be taken back.
    pub(crate) label: Option<Label>,
}

/// A neighbour's process, for people and programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighbourStatus {
    /// Which one.
    pub peer: Peer,
    /// Whether its control connection is up.
    pub is_up: bool,
    /// Since when it has been so.
    pub since: Time,
}

impl Neighbours {
    pub(crate) fn statuses(&self) -> impl Iterator<Item = NeighbourStatus> + '_ {
        self.processes.iter().map(|(peer, process)| match process.state {
            Connection::Up { since } => NeighbourStatus { peer: *peer, is_up: true, since },
            Connection::Down { since } => NeighbourStatus { peer: *peer, is_up: false, since },
        })
    }

    /// A control connection came up. Of a member with an address of its own only one process can be there, so older
    /// ones are gone; gives them.
    pub(crate) fn up(&mut self, now: Time, overlay: &Overlay, peer: Peer) -> Vec<Gone> {
        let listens = overlay.member(peer.member).control.is_some();
        let older: Vec<Peer> =
            self.of_member(peer.member).filter(|other| listens && *other != peer).collect();
        let older = self.remove(older);
        let state = Connection::Up { since: now };
        let process =
            self.processes.entry(peer).or_insert(Process { state, greets_with: None, greeting: None });
        process.state = state;
        older
    }

    /// A control connection broke.
    pub(crate) fn down(&mut self, now: Time, peer: Peer) {
        if let Some(process) = self.processes.get_mut(&peer) {
            process.state = Connection::Down { since: now };
            process.greeting.take().map(|greeting| self.greeted.remove(&greeting.label));
        }
    }

    /// Forgets the processes that have been down for `patience`; gives them.
    pub(crate) fn forget(&mut self, now: Time, patience: Duration) -> Vec<Gone> {
        let is_over = |process: &Process| matches!(process.state, Connection::Down { since } if now.since(since) >= patience);
        let gone =
            self.processes.iter().filter(|(_, process)| is_over(process)).map(|(peer, _)| *peer).collect();
        self.remove(gone)
    }

    /// Forgets the processes of members that are no neighbours any more; gives them.
    pub(crate) fn revoke(&mut self, is_neighbour: impl Fn(MemberId) -> bool) -> Vec<Gone> {
        let revoked = self.processes.keys().filter(|peer| !is_neighbour(peer.member)).copied().collect();
        self.remove(revoked)
    }

    fn remove(&mut self, peers: Vec<Peer>) -> Vec<Gone> {
        let gone = |peer: Peer| {
            let process = self.processes.remove(&peer)?;
            process.greeting.map(|greeting| self.greeted.remove(&greeting.label));
            Some(Gone { peer, label: process.greets_with.map(|(label, _)| label) })
        };
        peers.into_iter().filter_map(gone).collect()
    }

    pub(crate) fn is_up(&self, peer: Peer) -> bool {
        self.processes.get(&peer).is_some_and(|process| matches!(process.state, Connection::Up { .. }))
    }

    /// The connected process of a member; the latest, if there are several.
    pub(crate) fn process_of(&self, member: MemberId) -> Option<Peer> {
        let since = |peer: &Peer| match self.processes[peer].state {
            Connection::Up { since } => Some(since),
            Connection::Down { .. } => None,
        };
        self.of_member(member).filter_map(|peer| Some((since(&peer)?, peer))).max().map(|(_, peer)| peer)
    }

    pub(crate) fn count(&self) -> usize {
        self.processes.len()
    }

    /// How many processes of a member there are.
    pub(crate) fn count_of(&self, member: MemberId) -> usize {
        self.of_member(member).count()
    }

    /// A control message for a process, if its connection is up.
    pub(crate) fn send(&mut self, to: Peer, message: Vec<u8>) {
        if self.is_up(to) && self.messages.len() < MAX_MESSAGES {
            self.messages.push_back((to, message));
        }
    }

    /// The next control message to send, and to whom.
    pub(crate) fn poll_message(&mut self) -> Option<(Peer, Vec<u8>)> {
        self.messages.pop_front()
    }

    /// A malformed control message came. Gives how many there were, if that should be said: of the first ones, and of
    /// ever fewer of those that follow, because a neighbour must not fill the log.
    pub(crate) fn note_malformed(&mut self) -> Option<u64> {
        self.malformed += 1;
        self.malformed.is_power_of_two().then_some(self.malformed)
    }

    pub(crate) fn malformed(&self) -> u64 {
        self.malformed
    }

    /// The label with which `peer` greets us, if it has one.
    pub(crate) fn greets_with(&self, peer: Peer) -> Option<Label> {
        Some(self.processes.get(&peer)?.greets_with.as_ref()?.0)
    }

    pub(crate) fn set_greets_with(&mut self, peer: Peer, label: Label, key: HopKey) {
        if let Some(process) = self.processes.get_mut(&peer) {
            process.greets_with = Some((label, key));
        }
    }

    /// Writes a challenge with that number into `out`, which is empty, for an address from which `peer` greets.
    pub(crate) fn emit_challenge(&self, peer: Peer, number: u64, out: &mut Vec<u8>) {
        let greets_with = self.processes.get(&peer).and_then(|process| process.greets_with.as_ref());
        if let Some((label, key)) = greets_with {
            HopHeader { packet_type: PacketType::Greeting, epoch: 0, number, label: *label }.emit(out);
            hop_tag::sign(out, key);
        }
    }

    /// Takes a challenge to the address from which we greet; false if it is none. An old one, or a greeting of our own
    /// that somebody sends back, has a number that was used.
    pub(crate) fn on_challenge(&mut self, now: Time, datagram: &[u8]) -> bool {
        let Ok(header) = HopHeader::parse(datagram) else { return false };
        let Some(peer) = self.greeted.get(&header.label) else { return false };
        let greeting = self.processes.get_mut(peer).and_then(|process| process.greeting.as_mut());
        if let Some(greeting) = greeting
            && header.number >= greeting.number
            && hop_tag::is_signed(datagram, &greeting.key)
        {
            (greeting.number, greeting.due, greeting.confirmed) = (header.number, now, false);
        }
        true
    }

    /// The acceptor told us with what to greet it.
    pub(crate) fn on_greeting_key(&mut self, now: Time, peer: Peer, key: &GreetingKey) {
        if let Some(process) = self.processes.get_mut(&peer) {
            let (label, key) = (key.label, HopKey::new(key.hop_key));
            let greeting = Greeting { label, key, number: 0, due: now, confirmed: false };
            process.greeting.replace(greeting).map(|old| self.greeted.remove(&old.label));
            self.greeted.insert(label, peer);
        }
    }

    /// The acceptor knows where we are.
    pub(crate) fn on_greeted(&mut self, now: Time, peer: Peer) {
        if let Some(greeting) = self.processes.get_mut(&peer).and_then(|process| process.greeting.as_mut()) {
            greeting.confirmed = true;
            greeting.due = now + GREETING_RENEWAL;
        }
    }

    /// Writes the next greeting into `out`, which is empty, and tells to whom it goes.
    pub(crate) fn poll_greeting(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Peer> {
        for (peer, process) in &mut self.processes {
            let Some(greeting) = process.greeting.as_mut().filter(|greeting| greeting.due <= now) else {
                continue;
            };
            let (number, label) = (greeting.number, greeting.label);
            HopHeader { packet_type: PacketType::Greeting, epoch: 0, number, label }.emit(out);
            hop_tag::sign(out, &greeting.key);
            greeting.number += 1;
            greeting.due = now + if greeting.confirmed { GREETING_RENEWAL } else { GREETING_RETRY };
            return Some(*peer);
        }
        None
    }

    /// When to poll for a greeting, or to [`forget`](Self::forget).
    pub(crate) fn next_timeout(&self, patience: Duration) -> Option<Time> {
        let timers = self.processes.values().map(|process| match process.state {
            Connection::Up { .. } => process.greeting.as_ref().map(|greeting| greeting.due),
            Connection::Down { since } => Some(since + patience),
        });
        timers.flatten().min()
    }

    fn of_member(&self, member: MemberId) -> impl Iterator<Item = Peer> + '_ {
        let process = move |instance| Peer { member, instance: InstanceId(instance) };
        self.processes.range(process(0)..=process(u64::MAX)).map(|(peer, _)| *peer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn peer(number: u16) -> Peer {
        Peer { member: MemberId(number), instance: InstanceId(1) }
    }

    fn process() -> Process {
        Process { state: Connection::Up { since: Time::ZERO }, greets_with: None, greeting: None }
    }

    #[test]
    fn a_challenge_is_answered_once_and_by_nobody_who_has_not_seen_it() {
        let (mut acceptor, mut dialler) = (Neighbours::default(), Neighbours::default());
        let key = GreetingKey { label: Label(5), hop_key: [7; 16] };
        acceptor.processes.insert(peer(1), process());
        acceptor.set_greets_with(peer(1), key.label, HopKey::new(key.hop_key));
        dialler.processes.insert(peer(2), process());
        dialler.on_greeting_key(Time::ZERO, peer(2), &key);
        let greet = |dialler: &mut Neighbours| {
            let mut out = Vec::new();
            dialler.poll_greeting(Time::ZERO, &mut out).map(|_| out)
        };
        let number = |greeting: &[u8]| HopHeader::parse(greeting).expect("a greeting").number;
        let first = greet(&mut dialler).expect("a greeting");
        assert_eq!((number(&first), greet(&mut dialler)), (0, None));
        // Its own greeting, sent back, and a challenge under another key are none.
        let mut challenge = Vec::new();
        acceptor.emit_challenge(peer(1), 1 << 40, &mut challenge);
        let mut forged = challenge.clone();
        forged[23] ^= 1;
        assert!(dialler.on_challenge(Time::ZERO, &first) && dialler.on_challenge(Time::ZERO, &forged));
        assert_eq!(greet(&mut dialler), None);
        for answered in [true, false] {
            assert!(dialler.on_challenge(Time::ZERO, &challenge));
            assert_eq!(greet(&mut dialler).map(|greeting| number(&greeting)), answered.then_some(1 << 40));
        }
        dialler.down(Time::ZERO, peer(2));
        assert!(!dialler.on_challenge(Time::ZERO, &challenge));
    }
}
