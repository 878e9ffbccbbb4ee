//! Circuits: one route each, both directions, as two label-switched paths (design §6).
//!
//! [`Circuits`] plays all three parts: it originates circuits for this node's sessions, relays those of others, and
//! offers those that end here to the node. It knows nothing of what they carry.
//!
//! ```text
//! originator                relay                     responder
//!     │ set-up, backward hop ▶ │ set-up, its own hop ▶     │  offered
//!     │                        │                           │
//!     │ ◀ answer, its own hop  │ ◀ answer, forward hop      │  answered
//! ```
//! Labels outlive the control connection over which they were set up: a link that was down for a while carries packets
//! again as soon as it is back. They end with a tear-down, with their lifetime, or when a neighbour was restarted.

mod admission;
mod bucket;
mod calendar;
mod labels;
mod past;
mod set_up;

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

pub use labels::DatagramCounters;
pub(crate) use labels::{LabelTable, Verdict};

use zeroize::Zeroizing;

use crate::config::Config;
use crate::crypto::body_hash::BodyHash;
use crate::crypto::hop_tag::HopKey;
use crate::crypto::random::Random;
use crate::keys::Identity;
use crate::overlay::{Adjacency, LinkId, MemberId, Overlay, Route};
use crate::time::Time;
#[cfg(feature = "io")]
pub(crate) use crate::wire::PROTOCOL_VERSION;
use crate::wire::circuit::{Cause, CircuitId, CircuitMessage, Hop, Notice, SetUp, SetUpBody};
use crate::wire::hop::Label;
use admission::Quotas;
use bucket::Buckets;
use calendar::Calendar;
use past::Past;

/// The words in which a relay that is about to end tears down its circuits.
const LEAVING: &str = "I am shutting down";

/// What a node needs to send along a circuit: the neighbour, the label, and the key of its hop tags.
#[derive(Debug, Clone)]
pub(crate) struct Egress {
    pub(crate) neighbour: Adjacency,
    pub(crate) label: Label,
    pub(crate) key: HopKey,
}

/// What happened to a circuit.
#[derive(Debug)]
pub(crate) enum CircuitEvent {
    /// A circuit of ours was answered; we send with `egress`.
    Answered { circuit: CircuitId, payload: Vec<u8>, egress: Egress },
    /// A circuit of ours was refused.
    Refused { circuit: CircuitId, notice: Notice },
    /// A circuit of ours was not answered in time.
    Unanswered { circuit: CircuitId },
    /// A circuit that ends here was torn down or, without a notice, has expired.
    Ended { circuit: CircuitId, notice: Option<Notice> },
    /// Somebody set up a circuit to us; the node answers or refuses.
    Offered { circuit: CircuitId, originator: MemberId, route: Route, payload: Vec<u8>, egress: Egress },
}

/// How many circuits met which fate at this node, its own and those of others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CircuitCounters {
    /// Set-ups of others that were let in.
    pub admitted: u64,
    /// Set-ups of others that were refused.
    pub refused: u64,
    /// Circuits that were answered.
    pub answered: u64,
    /// Circuits that a notice ended, or that were ended here before their time.
    pub torn_down: u64,
    /// Circuits whose lifetime was over.
    pub expired: u64,
    /// Set-ups that nobody answered in time.
    pub unanswered: u64,
}

/// A circuit as one node knows it, for people and programs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CircuitStatus {
    /// All of its members, the originator first.
    pub route: Vec<MemberId>,
    /// The link from each of them to the next.
    pub links: Vec<LinkId>,
    /// Which part this node plays.
    pub part: CircuitPart,
    /// Whether its set-up was answered.
    pub answered: bool,
    /// When it ends unless it is replaced before.
    pub expires: Time,
}

/// Which part a node plays in a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CircuitPart {
    /// It set the circuit up.
    Originator,
    /// It passes packets on.
    Relay,
    /// The circuit ends here.
    Responder,
}

/// The circuits of a node.
#[derive(Debug)]
pub(crate) struct Circuits {
    overlay: Arc<Overlay>,
    config: Arc<Config>,
    me: MemberId,
    labels: LabelTable,
    circuits: BTreeMap<CircuitId, Circuit>,
    expiry: BTreeSet<(Time, CircuitId)>,
    quotas: Quotas,
    past: Past,
    set_ups_by_originator: Buckets<MemberId>,
    set_ups_by_neighbour: Buckets<MemberId>,
    counters: CircuitCounters,
    events: VecDeque<CircuitEvent>,
    outbox: VecDeque<(Adjacency, CircuitMessage)>,
    random: Random,
    /// Whether nothing more is relayed.
    is_draining: bool,
    calendar: Calendar,
}

#[derive(Debug)]
struct Circuit {
    /// The originator is its first member.
    route: Route,
    originator: MemberId,
    /// What hop tags cover of the bodies on their way to relays.
    body_hash: CircuitHash,
    /// The neighbour towards the originator, and the one towards the responder.
    previous: Option<Adjacency>,
    next: Option<Adjacency>,
    /// The labels that we handed out for it.
    labels: Vec<Label>,
    lifetime: Duration,
    expires: Time,
    answered: bool,
}

/// The hash of a circuit's bodies, which takes 1.5 KiB: it is made when a relay on the way asks for it.
#[derive(Debug)]
struct CircuitHash {
    body_key: Zeroizing<[u8; 16]>,
    made: OnceCell<Arc<BodyHash>>,
}

impl CircuitHash {
    fn new(body_key: [u8; 16]) -> CircuitHash {
        CircuitHash { body_key: Zeroizing::new(body_key), made: OnceCell::new() }
    }

    fn get(&self) -> Arc<BodyHash> {
        Arc::clone(self.made.get_or_init(|| Arc::new(BodyHash::new(&self.body_key))))
    }
}

impl Circuit {
    fn part(&self) -> CircuitPart {
        match (self.previous, self.next) {
            (None, _) => CircuitPart::Originator,
            (Some(_), Some(_)) => CircuitPart::Relay,
            (Some(_), None) => CircuitPart::Responder,
        }
    }

    /// What is needed to send to `neighbour`, who handed out `hop`: tags cover whole bodies if it is a relay.
    fn egress(&self, neighbour: Adjacency, hop: &Hop) -> Egress {
        let members = self.route.members();
        let is_end = [members.first(), members.last()].contains(&Some(&neighbour.peer.member));
        let key = if is_end { HopKey::new(hop.key) } else { HopKey::to_relay(hop.key, self.body_hash.get()) };
        Egress { neighbour, label: hop.label, key }
    }
}

impl Circuits {
    pub(crate) fn new(
        overlay: Arc<Overlay>,
        config: Arc<Config>,
        me: MemberId,
        mut random: Random,
    ) -> Circuits {
        let policing = &config.policing;
        Circuits {
            set_ups_by_originator: Buckets::new(policing.set_ups_per_originator),
            set_ups_by_neighbour: Buckets::new(policing.set_ups_per_neighbour),
            counters: CircuitCounters::default(),
            labels: LabelTable::new(random.fork(), policing),
            overlay,
            config,
            me,
            circuits: BTreeMap::new(),
            expiry: BTreeSet::new(),
            quotas: Quotas::default(),
            past: Past::default(),
            events: VecDeque::new(),
            outbox: VecDeque::new(),
            random,
            is_draining: false,
            calendar: Calendar::default(),
        }
    }

    /// At `now` the system's clock shows so much since the UNIX epoch.
    pub(crate) fn set_calendar(&mut self, now: Time, since_epoch: Duration) {
        self.calendar.set(now, since_epoch);
    }

    pub(crate) fn poll_event(&mut self) -> Option<CircuitEvent> {
        self.events.pop_front()
    }

    pub(crate) fn poll_message(&mut self) -> Option<(Adjacency, CircuitMessage)> {
        self.outbox.pop_front()
    }

    pub(crate) fn len(&self) -> usize {
        self.circuits.len()
    }

    pub(crate) fn statuses(&self) -> impl Iterator<Item = CircuitStatus> + '_ {
        self.circuits.values().map(|circuit| CircuitStatus {
            route: circuit.route.members().to_vec(),
            links: circuit.route.links().to_vec(),
            part: circuit.part(),
            answered: circuit.answered,
            expires: circuit.expires,
        })
    }

    /// What becomes of datagrams by their labels.
    pub(crate) fn labels(&self) -> &LabelTable {
        &self.labels
    }

    pub(crate) fn labels_mut(&mut self) -> &mut LabelTable {
        &mut self.labels
    }

    pub(crate) fn counters(&self) -> CircuitCounters {
        self.counters
    }

    /// A number for a new circuit of ours.
    pub(crate) fn draw_id(&mut self) -> CircuitId {
        CircuitId(self.random.bytes())
    }

    /// Sends the set-up of a circuit of ours along `route`, which begins with `first_hop`.
    pub(crate) fn originate(
        &mut self,
        now: Time,
        identity: &Identity,
        circuit: CircuitId,
        route: &Route,
        first_hop: Adjacency,
        payload: Vec<u8>,
    ) {
        let lifetime = self.config.routing.circuit_lifetime;
        let body_key = self.random.bytes();
        let body = SetUpBody {
            circuit,
            body_key,
            time_s: self.calendar.seconds(now),
            lifetime_s: u32::try_from(lifetime.as_secs()).unwrap_or(u32::MAX),
            route: route.members().iter().map(|member| self.overlay.name(*member)).collect(),
            links: route.links().iter().map(|link| self.overlay.link_name(*link)).collect(),
            payload,
        };
        let signed = body.emit();
        let signature = identity.sign(&signed);
        let backward = self.labels.terminate(circuit, first_hop);
        let entry = Circuit {
            route: route.clone(),
            originator: self.me,
            body_hash: CircuitHash::new(body_key),
            previous: None,
            next: Some(first_hop),
            labels: vec![backward.label],
            lifetime,
            expires: now + self.config.routing.set_up_timeout,
            answered: false,
        };
        self.insert(circuit, entry);
        self.outbox.push_back((first_hop, CircuitMessage::SetUp(SetUp { signed, signature, backward })));
    }

    /// Accepts a circuit that was offered.
    pub(crate) fn answer(&mut self, now: Time, id: CircuitId, payload: Vec<u8>) {
        let Some(previous) = self.circuits.get(&id).and_then(|circuit| circuit.previous) else { return };
        let forward = self.labels.terminate(id, previous);
        self.extend(now, id, forward.label);
        self.outbox.push_back((previous, CircuitMessage::Answer { circuit: id, payload, forward }));
    }

    /// Declines a circuit that was offered.
    pub(crate) fn refuse(&mut self, id: CircuitId, cause: Cause, reason: &str) {
        if let Some(circuit) = self.remove(id) {
            self.send_refusal(circuit.previous, id, self.notice(cause, reason));
        }
    }

    /// Ends a circuit here and tells its neighbours; no event follows.
    pub(crate) fn tear_down(&mut self, id: CircuitId, reason: &str) {
        if let Some(circuit) = self.remove(id) {
            self.counters.torn_down += 1;
            let notice = self.notice(Cause::Other, reason);
            self.send_tear_down(circuit.previous, id, &notice);
            self.send_tear_down(circuit.next, id, &notice);
        }
    }

    /// Takes a message from the neighbour `from`. `next_hop` tells which process is connected over a link.
    pub(crate) fn handle(
        &mut self,
        now: Time,
        from: Adjacency,
        message: CircuitMessage,
        next_hop: impl Fn(LinkId) -> Option<Adjacency>,
    ) {
        match message {
            CircuitMessage::SetUp(set_up) => self.on_set_up(now, from, set_up, next_hop),
            CircuitMessage::Answer { circuit, payload, forward } => {
                self.on_answer(now, from, circuit, payload, forward);
            }
            CircuitMessage::Refusal { circuit, notice } => self.on_refusal(from, circuit, notice),
            CircuitMessage::TearDown { circuit, notice } => {
                if self.is_neighbour_of(circuit, from, |circuit| circuit.next) {
                    self.end_from(circuit, |circuit| circuit.previous, notice);
                } else if self.is_neighbour_of(circuit, from, |circuit| circuit.previous) {
                    self.end_from(circuit, |circuit| circuit.next, notice);
                }
            }
        }
    }

    /// A neighbour's process is gone for good, or its link is: everything that went over it is torn down.
    pub(crate) fn on_neighbour_gone(&mut self, gone: Adjacency) {
        let touches = |circuit: &Circuit| circuit.previous == Some(gone) || circuit.next == Some(gone);
        let affected: Vec<CircuitId> =
            self.circuits.iter().filter(|(_, circuit)| touches(circuit)).map(|(id, _)| *id).collect();
        let notice =
            self.notice(Cause::LinkDown, &format!("{} is gone", self.overlay.name(gone.peer.member)));
        for id in affected {
            let other_side = |circuit: &Circuit| {
                if circuit.next == Some(gone) { circuit.previous } else { circuit.next }
            };
            self.end_from(id, other_side, notice.clone());
        }
    }

    /// A newer overlay file: what it does not allow any more is torn down, on both sides.
    pub(crate) fn succeed(&mut self, overlay: Arc<Overlay>) {
        self.overlay = overlay;
        let revoked = self.circuits.iter().filter(|(_, circuit)| !self.overlay.allows_route(&circuit.route));
        let revoked: Vec<CircuitId> = revoked.map(|(id, _)| *id).collect();
        let reason = format!("my overlay file of serial {} does not allow it any more", self.overlay.serial);
        let notice = self.notice(Cause::Other, &reason);
        for id in revoked {
            let previous = self.circuits.get(&id).and_then(|circuit| circuit.previous);
            self.send_tear_down(previous, id, &notice);
            self.end_from(id, |circuit| circuit.next, notice.clone());
        }
    }

    /// Relays nothing from now on, and says so in words on which originators go around this node.
    pub(crate) fn drain(&mut self) {
        self.is_draining = true;
        let relayed = self.circuits.iter().filter(|(_, circuit)| circuit.part() == CircuitPart::Relay);
        let relayed: Vec<CircuitId> = relayed.map(|(id, _)| *id).collect();
        let notice = self.notice(Cause::LinkDown, LEAVING);
        for id in relayed {
            let previous = self.circuits.get(&id).and_then(|circuit| circuit.previous);
            self.send_tear_down(previous, id, &notice);
            self.end_from(id, |circuit| circuit.next, notice.clone());
        }
    }

    pub(crate) fn next_timeout(&self) -> Option<Time> {
        self.expiry.first().map(|(at, _)| *at)
    }

    /// Ends the circuits whose time is up.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        while let Some((at, id)) = self.expiry.first().copied() {
            if at > now {
                break;
            }
            self.expire(id);
        }
    }

    /// Each node forgets a circuit whose lifetime is over by itself. One that was not answered may be known further on.
    fn expire(&mut self, id: CircuitId) {
        let Some(circuit) = self.remove(id) else { return };
        let is_ours = circuit.previous.is_none();
        if circuit.answered {
            self.counters.expired += 1;
            if is_ours || circuit.next.is_none() {
                self.events.push_back(CircuitEvent::Ended { circuit: id, notice: None });
            }
            return;
        }
        self.counters.unanswered += 1;
        self.send_tear_down(circuit.next, id, &self.notice(Cause::Other, "no answer came in time"));
        if is_ours {
            self.events.push_back(CircuitEvent::Unanswered { circuit: id });
        }
    }

    fn on_refusal(&mut self, from: Adjacency, id: CircuitId, notice: Notice) {
        if !self.is_neighbour_of(id, from, |circuit| circuit.next) {
            return;
        }
        let Some(circuit) = self.remove(id) else { return };
        match circuit.previous {
            Some(_) => self.send_refusal(circuit.previous, id, notice),
            None => self.events.push_back(CircuitEvent::Refused { circuit: id, notice }),
        }
    }

    fn own_label(&mut self, id: CircuitId, label: Label) {
        if let Some(circuit) = self.circuits.get_mut(&id) {
            circuit.labels.push(label);
        }
    }

    fn prolong(&mut self, now: Time, id: CircuitId) {
        if let Some(circuit) = self.circuits.get_mut(&id) {
            self.expiry.remove(&(circuit.expires, id));
            circuit.answered = true;
            self.counters.answered += 1;
            circuit.expires = now + circuit.lifetime;
            self.expiry.insert((circuit.expires, id));
        }
    }

    fn insert(&mut self, id: CircuitId, circuit: Circuit) {
        self.expiry.insert((circuit.expires, id));
        self.circuits.insert(id, circuit);
    }

    fn remove(&mut self, id: CircuitId) -> Option<Circuit> {
        let circuit = self.circuits.remove(&id)?;
        self.expiry.remove(&(circuit.expires, id));
        circuit.labels.iter().for_each(|label| self.labels.remove(*label));
        if let Some(previous) = circuit.previous {
            self.quotas.release(circuit.originator, previous.peer.member);
        }
        Some(circuit)
    }

    /// Removes a circuit, tells the neighbour that `onward` names, and the node if the circuit ends here.
    fn end_from(&mut self, id: CircuitId, onward: impl Fn(&Circuit) -> Option<Adjacency>, notice: Notice) {
        let Some(circuit) = self.remove(id) else { return };
        self.counters.torn_down += 1;
        self.send_tear_down(onward(&circuit), id, &notice);
        if circuit.previous.is_none() && !circuit.answered {
            self.events.push_back(CircuitEvent::Refused { circuit: id, notice });
        } else if circuit.previous.is_none() || circuit.next.is_none() {
            self.events.push_back(CircuitEvent::Ended { circuit: id, notice: Some(notice) });
        }
    }

    fn is_neighbour_of(
        &self,
        id: CircuitId,
        neighbour: Adjacency,
        side: impl Fn(&Circuit) -> Option<Adjacency>,
    ) -> bool {
        self.circuits.get(&id).is_some_and(|circuit| side(circuit) == Some(neighbour))
    }

    fn notice(&self, cause: Cause, reason: &str) -> Notice {
        Notice { cause, by: self.overlay.name(self.me), reason: reason.to_owned() }
    }

    fn send_refusal(&mut self, to: Option<Adjacency>, circuit: CircuitId, notice: Notice) {
        if let Some(to) = to {
            self.outbox.push_back((to, CircuitMessage::Refusal { circuit, notice }));
        }
    }

    fn send_tear_down(&mut self, to: Option<Adjacency>, circuit: CircuitId, notice: &Notice) {
        if let Some(to) = to {
            self.outbox.push_back((to, CircuitMessage::TearDown { circuit, notice: notice.clone() }));
        }
    }
}

#[cfg(test)]
mod tests;
