//! The neighbours: who is connected on the control plane over which link, and who knows where to send us data.
//!
//! The data address of a neighbour without a fixed one is learned: the acceptor of the control connection hands the
//! dialler a label and a key, and the dialler greets the acceptor with them on the data plane until the greeting is
//! confirmed, and now and then afterwards, which also keeps address translators on the way awake. Nothing is sent to an
//! address that a greeting came from, but one challenge for each greeting, before the dialler has answered one on the
//! control plane: a greeting's source address may be anybody's.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use crate::crypto::hop_tag::{self, HopKey};
use crate::overlay::{Adjacency, InstanceId, LinkId, MemberId, Overlay, Peer};
use crate::time::Time;
use crate::wire::hop::{HOP_HEADER, HopHeader, Label, PacketType};
use crate::wire::link::{ChallengeAnswer, GreetingKey};

/// How often an unconfirmed greeting is repeated, and a confirmed one renewed.
const GREETING_RETRY: Duration = Duration::from_millis(200);
const GREETING_RENEWAL: Duration = Duration::from_secs(15);

/// Control messages that wait for their connection at most; a neighbour that is further behind misses some, and what
/// they were about times out.
const MAX_MESSAGES: usize = 4_096;

/// The neighbours' processes that are, or lately were, connected, and what is said to them. A process to which several
/// links lead is one for each of them: each link has its control connection and its greetings.
#[derive(Debug, Default)]
pub(crate) struct Neighbours {
    processes: BTreeMap<Adjacency, Process>,
    /// Which neighbour could not be reached over a link at the last attempt, and why.
    unreached: BTreeMap<LinkId, Unreached>,
    timers: Timers,
    /// Control messages that wait for their connections.
    messages: VecDeque<(Adjacency, Vec<u8>)>,
    /// Control messages that came and were malformed.
    malformed: u64,
    /// Whom we greet with which label: these may challenge us.
    greeted_with: BTreeMap<Label, Adjacency>,
    /// Challenges that were answered, by whom.
    answers: VecDeque<(Adjacency, u64)>,
}

/// Why no control connection could be made over a link.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreached {
    /// Names the neighbour, its address and the reason.
    pub why: String,
    /// Whether one of the two sides does not take the other one's key: that stays so until somebody changes a file.
    pub is_for_the_key: bool,
}

#[derive(Debug)]
struct Process {
    /// Since when the control connection is up or down.
    state: Connection,
    /// The label with which it greets us, if it is the dialler.
    greets_with: Option<Label>,
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
    /// The number of the last challenge that was answered.
    answered: Option<u64>,
}

/// A process that is gone for good: what went over it must be given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone {
    pub(crate) neighbour: Adjacency,
    /// The label with which it greeted us, to be taken back.
    pub(crate) label: Option<Label>,
}

/// A neighbour's process over a link, for people and programs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NeighbourStatus {
    /// Which one.
    pub peer: Peer,
    /// Over which link.
    pub link: LinkId,
    /// Whether its control connection is up.
    pub is_up: bool,
    /// Since when it has been so.
    pub since: Time,
}

/// What the processes wait for, in the order of time: it is asked for with every packet, and there may be thousands.
#[derive(Debug, Default)]
struct Timers {
    /// When each of them is to be greeted.
    greetings: BTreeSet<(Time, Adjacency)>,
    /// Since when those that are down have been so.
    down: BTreeSet<(Time, Adjacency)>,
}

impl Timers {
    fn set(&mut self, neighbour: Adjacency, process: &Process) {
        self.greetings.extend(process.greeting_due().map(|due| (due, neighbour)));
        self.down.extend(process.down_since().map(|since| (since, neighbour)));
    }

    /// Takes back what was set for a process as it is now.
    fn unset(&mut self, neighbour: Adjacency, process: &Process) {
        if let Some(due) = process.greeting_due() {
            self.greetings.remove(&(due, neighbour));
        }
        if let Some(since) = process.down_since() {
            self.down.remove(&(since, neighbour));
        }
    }
}

impl Process {
    /// When it is to be greeted, if it is.
    fn greeting_due(&self) -> Option<Time> {
        self.greeting.as_ref().map(|greeting| greeting.due)
    }

    /// Since when its control connection is down, if it is.
    fn down_since(&self) -> Option<Time> {
        match self.state {
            Connection::Up { .. } => None,
            Connection::Down { since } => Some(since),
        }
    }
}

impl Neighbours {
    pub(crate) fn statuses(&self) -> impl Iterator<Item = NeighbourStatus> + '_ {
        self.processes.iter().map(|(Adjacency { peer, link }, process)| {
            let (is_up, since) = match process.state {
                Connection::Up { since } => (true, since),
                Connection::Down { since } => (false, since),
            };
            NeighbourStatus { peer: *peer, link: *link, is_up, since }
        })
    }

    /// A control connection came up. Of a member with an address of its own only one process can be there, so older
    /// ones are gone; gives them.
    pub(crate) fn up(&mut self, now: Time, overlay: &Overlay, adjacency: Adjacency) -> Vec<Gone> {
        self.unreached.remove(&adjacency.link);
        let member = adjacency.peer.member;
        let listens = overlay.member(member).control.is_some();
        let older: Vec<Adjacency> =
            self.of_member(member).filter(|other| listens && other.peer != adjacency.peer).collect();
        let older = self.remove(older);
        let state = Connection::Up { since: now };
        self.processes.entry(adjacency).or_insert(Process { state, greets_with: None, greeting: None });
        self.change(adjacency, |process| process.state = state);
        older
    }

    /// A control connection broke.
    pub(crate) fn down(&mut self, now: Time, neighbour: Adjacency) {
        let greeting = self.change(neighbour, |process| {
            process.state = Connection::Down { since: now };
            process.greeting.take()
        });
        if let Some(greeting) = greeting.flatten() {
            self.greeted_with.remove(&greeting.label);
        }
    }

    /// Forgets the processes that have been down for `patience`; gives them.
    pub(crate) fn forget(&mut self, now: Time, patience: Duration) -> Vec<Gone> {
        let is_over = |since: Time| now.since(since) >= patience;
        let gone = self.timers.down.iter().take_while(|(since, _)| is_over(*since));
        let gone = gone.map(|(_, neighbour)| *neighbour).collect();
        self.remove(gone)
    }

    /// The neighbour over a link cannot be reached: who, where, and why.
    pub(crate) fn note_unreached(&mut self, link: LinkId, unreached: Unreached) {
        self.unreached.insert(link, unreached);
    }

    /// The neighbours that could not be reached, and why.
    pub(crate) fn unreached(&self) -> Vec<String> {
        self.unreached.values().map(|unreached| unreached.why.clone()).collect()
    }

    /// Whether over all of these links a key was refused at the last attempt, so that nobody is there to ask.
    pub(crate) fn all_refuse(&self, links: impl IntoIterator<Item = LinkId>) -> bool {
        let refuses = |link| self.unreached.get(&link).is_some_and(|unreached| unreached.is_for_the_key);
        let is_up = |process: &Process| matches!(process.state, Connection::Up { .. });
        !self.unreached.is_empty() && !self.processes.values().any(is_up) && links.into_iter().all(refuses)
    }

    /// Forgets the processes over links that are not there any more; gives them.
    pub(crate) fn revoke(&mut self, is_listed: impl Fn(LinkId) -> bool) -> Vec<Gone> {
        self.unreached.retain(|link, _| is_listed(*link));
        let revoked = self.processes.keys().filter(|adjacency| !is_listed(adjacency.link)).copied().collect();
        self.remove(revoked)
    }

    fn remove(&mut self, neighbours: Vec<Adjacency>) -> Vec<Gone> {
        let gone = |neighbour: Adjacency| {
            let process = self.processes.remove(&neighbour)?;
            self.timers.unset(neighbour, &process);
            if let Some(greeting) = &process.greeting {
                self.greeted_with.remove(&greeting.label);
            }
            Some(Gone { neighbour, label: process.greets_with })
        };
        neighbours.into_iter().filter_map(gone).collect()
    }

    /// Changes a process, if it is known, and keeps its timers.
    fn change<T>(&mut self, neighbour: Adjacency, change: impl FnOnce(&mut Process) -> T) -> Option<T> {
        let process = self.processes.get_mut(&neighbour)?;
        self.timers.unset(neighbour, process);
        let result = change(process);
        self.timers.set(neighbour, process);
        Some(result)
    }

    pub(crate) fn is_up(&self, neighbour: Adjacency) -> bool {
        self.processes.get(&neighbour).is_some_and(|process| matches!(process.state, Connection::Up { .. }))
    }

    /// The process that is connected over a link between this member and `member`; the latest, if there are several.
    pub(crate) fn process_over(&self, link: LinkId, member: MemberId) -> Option<Adjacency> {
        let since = |adjacency: &Adjacency| match self.processes[adjacency].state {
            Connection::Up { since } => Some(since),
            Connection::Down { .. } => None,
        };
        let over_link = self.of_member(member).filter(|adjacency| adjacency.link == link);
        over_link.filter_map(|it| Some((since(&it)?, it))).max().map(|(_, it)| it)
    }

    pub(crate) fn count(&self) -> usize {
        self.processes.len()
    }

    /// How many processes of a member there are, counted over each link.
    pub(crate) fn count_of(&self, member: MemberId) -> usize {
        self.of_member(member).count()
    }

    /// A control message for a process, if its connection is up.
    pub(crate) fn send(&mut self, to: Adjacency, message: Vec<u8>) {
        if self.is_up(to) && self.messages.len() < MAX_MESSAGES {
            self.messages.push_back((to, message));
        }
    }

    /// The next control message to send, and to whom.
    pub(crate) fn poll_message(&mut self) -> Option<(Adjacency, Vec<u8>)> {
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

    /// The label with which `neighbour` greets us, if it has one.
    pub(crate) fn greets_with(&self, neighbour: Adjacency) -> Option<Label> {
        self.processes.get(&neighbour)?.greets_with
    }

    pub(crate) fn set_greets_with(&mut self, neighbour: Adjacency, label: Label) {
        if let Some(process) = self.processes.get_mut(&neighbour) {
            process.greets_with = Some(label);
        }
    }

    /// The acceptor told us with what to greet it.
    pub(crate) fn on_greeting_key(&mut self, now: Time, neighbour: Adjacency, key: &GreetingKey) {
        let (label, key) = (key.label, HopKey::new(key.hop_key));
        let greeting = Greeting { label, key, number: 0, due: now, confirmed: false, answered: None };
        if let Some(old) = self.change(neighbour, |process| process.greeting.replace(greeting)) {
            if let Some(old) = old {
                self.greeted_with.remove(&old.label);
            }
            self.greeted_with.insert(label, neighbour);
        }
    }

    /// Takes a datagram that may be a challenge: then the neighbour is told on the control plane what it says. Gives
    /// whose it was, if it was one.
    pub(crate) fn on_challenge(&mut self, datagram: &[u8]) -> Option<Adjacency> {
        // It has no body, so that packets of sessions, which have one, need not be looked at twice.
        if datagram.len() != HOP_HEADER {
            return None;
        }
        let Ok(HopHeader { packet_type: PacketType::Challenge, number, label, .. }) =
            HopHeader::parse(datagram)
        else {
            return None;
        };
        let neighbour = self.greeted_with.get(&label).copied()?;
        let greeting = self.processes.get_mut(&neighbour)?.greeting.as_mut()?;
        hop_tag::verify(datagram, &greeting.key)?;
        if greeting.answered.replace(number) != Some(number) {
            self.send(neighbour, ChallengeAnswer { number }.emit());
        }
        Some(neighbour)
    }

    /// A neighbour has answered a challenge.
    pub(crate) fn on_challenge_answer(&mut self, neighbour: Adjacency, answer: ChallengeAnswer) {
        if self.answers.len() < MAX_MESSAGES {
            self.answers.push_back((neighbour, answer.number));
        }
    }

    /// The next challenge that was answered.
    pub(crate) fn poll_answer(&mut self) -> Option<(Adjacency, u64)> {
        self.answers.pop_front()
    }

    /// The acceptor knows where we are. Gives whether that is news.
    pub(crate) fn on_greeted(&mut self, now: Time, neighbour: Adjacency) -> bool {
        let is_news = self.change(neighbour, |process| {
            let greeting = process.greeting.as_mut()?;
            greeting.due = now + GREETING_RENEWAL;
            Some(!std::mem::replace(&mut greeting.confirmed, true))
        });
        is_news.flatten().unwrap_or(false)
    }

    /// Writes the next greeting into `out`, which is empty, and tells to whom it goes.
    pub(crate) fn poll_greeting(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Adjacency> {
        let (_, neighbour) = self.timers.greetings.first().copied().filter(|(due, _)| *due <= now)?;
        self.change(neighbour, |process| {
            let greeting = process.greeting.as_mut()?;
            let (number, label) = (greeting.number, greeting.label);
            HopHeader { packet_type: PacketType::Greeting, epoch: 0, number, label }.emit(out);
            hop_tag::sign(out, &greeting.key);
            greeting.number += 1;
            greeting.due = now + if greeting.confirmed { GREETING_RENEWAL } else { GREETING_RETRY };
            Some(neighbour)
        })?
    }

    /// When to poll for a greeting, or to [`forget`](Self::forget).
    pub(crate) fn next_timeout(&self, patience: Duration) -> Option<Time> {
        let greeting = self.timers.greetings.first().map(|(due, _)| *due);
        let forgotten = self.timers.down.first().map(|(since, _)| *since + patience);
        greeting.into_iter().chain(forgotten).min()
    }

    fn of_member(&self, member: MemberId) -> impl Iterator<Item = Adjacency> + '_ {
        let process =
            move |instance, link| Adjacency { peer: Peer { member, instance: InstanceId(instance) }, link };
        self.processes
            .range(process(0, LinkId(0))..=process(u64::MAX, LinkId(u32::MAX)))
            .map(|(adjacency, _)| *adjacency)
    }
}
