//! The label table: what becomes of a datagram by the label that it carries.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::Egress;
use super::bucket::Buckets;
use crate::config::Policing;
use crate::crypto::body_hash::BodyHash;
use crate::crypto::hop_tag::{self, HopKey};
use crate::crypto::random::Random;
use crate::crypto::replay::ReplayWindow;
use crate::overlay::{Adjacency, MemberId};
use crate::time::Time;
use crate::wire::IP_UDP_HEADERS;
use crate::wire::circuit::{CircuitId, Hop};
use crate::wire::hop::{HopHeader, Label, PacketType};

/// What the node does with packets of a label.
#[derive(Debug)]
enum Purpose {
    /// Passes them on, on the account of the member that set the circuit up and of the neighbour they come from.
    Relay { window: ReplayWindow, next: Egress, originator: MemberId },
    /// Takes them: the circuit ends here. The session keeps the replay window, because only what opens may count.
    Terminate(CircuitId),
    /// They greet us from a neighbour.
    Greeting { window: ReplayWindow },
}

#[derive(Debug)]
struct Entry {
    key: HopKey,
    purpose: Purpose,
    /// From whom packets with this label come.
    from: Adjacency,
    /// Epoch and number of the newest packet of a session; none before the first.
    newest: Option<(u8, u64)>,
}

impl Entry {
    /// Notes a packet whose tag is right. Says whether it is newer than all before: numbers rise within an epoch, and
    /// which of two epochs is the newer one nobody on the way knows.
    fn note(&mut self, header: &HopHeader) -> bool {
        let is_newest =
            self.newest.is_none_or(|(epoch, number)| header.epoch != epoch || header.number > number);
        if is_newest {
            self.newest = Some((header.epoch, header.number));
        }
        is_newest
    }
}

/// What becomes of a datagram.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was relabelled and goes on to this neighbour, on the account of the member that set its circuit up.
    Forward { to: Adjacency, originator: MemberId },
    /// It has arrived at the end of this circuit.
    Deliver(CircuitId, HopHeader),
    /// It is a greeting of this neighbour.
    Greeted(Adjacency),
    /// It is dropped.
    Drop(DropReason),
}

/// Why a datagram is dropped; nothing is ever answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DropReason {
    Malformed,
    UnknownLabel,
    BadTag,
    Replayed,
    Policed,
}

/// How many datagrams met which fate at this node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DatagramCounters {
    /// Datagrams that were passed on for others.
    pub forwarded: u64,
    /// Datagrams that arrived at the end of their circuit.
    pub delivered: u64,
    /// Datagrams that were too short, of an unknown type, or of a length that does not fit the type.
    pub malformed: u64,
    /// Datagrams with a label that this node has not handed out.
    pub unknown_label: u64,
    /// Datagrams with a label of ours but without the right tag.
    pub bad_tag: u64,
    /// Datagrams whose numbers were seen before, or are too old to tell.
    pub replayed: u64,
    /// Datagrams that were not passed on because their originator or the neighbour sends more than the config lets it.
    pub policed: u64,
    /// Datagrams that were not passed on because the queue to the socket was full.
    pub queue_full: u64,
}

/// All labels that this node has handed out.
#[derive(Debug)]
pub(crate) struct LabelTable {
    entries: BTreeMap<Label, Entry>,
    random: Random,
    relayed_by_originator: Buckets<MemberId>,
    relayed_by_neighbour: Buckets<MemberId>,
    counters: DatagramCounters,
    /// From whom the latest datagram came, if it was newer than all before it with its label.
    heard: Option<Adjacency>,
}

impl LabelTable {
    pub(crate) fn new(random: Random, policing: &Policing) -> LabelTable {
        LabelTable {
            entries: BTreeMap::new(),
            random,
            relayed_by_originator: Buckets::new(policing.relayed_bps_per_originator),
            relayed_by_neighbour: Buckets::new(policing.relayed_bps_per_neighbour),
            counters: DatagramCounters::default(),
            heard: None,
        }
    }

    /// A label whose packets come from a neighbour and go on to `next`, along a circuit that `originator` set up and
    /// whose bodies have this hash.
    pub(super) fn relay(
        &mut self,
        from: Adjacency,
        next: Egress,
        originator: MemberId,
        body_hash: Arc<BodyHash>,
    ) -> Hop {
        let key = HopKey::to_relay(self.random.bytes(), body_hash);
        self.hand_out(key, from, Purpose::Relay { window: ReplayWindow::new(), next, originator })
    }

    /// A label whose packets come from a neighbour and end here.
    pub(crate) fn terminate(&mut self, circuit: CircuitId, from: Adjacency) -> Hop {
        let key = HopKey::new(self.random.bytes());
        self.hand_out(key, from, Purpose::Terminate(circuit))
    }

    /// A label with which a neighbour greets us.
    pub(crate) fn greeting(&mut self, neighbour: Adjacency) -> Hop {
        let key = HopKey::new(self.random.bytes());
        self.hand_out(key, neighbour, Purpose::Greeting { window: ReplayWindow::new() })
    }

    /// Appends a challenge to a neighbour that greets us with `label`, and gives its number.
    pub(crate) fn challenge(&mut self, label: Label, out: &mut Vec<u8>) -> Option<u64> {
        let entry = self.entries.get(&label)?;
        // 48 bits, which nobody guesses who does not see the packet.
        let number = self.random.u64() >> 16;
        HopHeader { packet_type: PacketType::Challenge, epoch: 0, number, label }.emit(out);
        hop_tag::sign(out, &entry.key);
        Some(number)
    }

    /// From whom the datagram came on which was decided last, if its tag was right and it is newer than all before it
    /// with its label: where it came from is where that neighbour is, unless somebody has put it there.
    pub(crate) fn heard(&self) -> Option<Adjacency> {
        self.heard
    }

    pub(crate) fn counters(&self) -> DatagramCounters {
        self.counters
    }

    /// So many datagrams were not passed on because the queue to the socket was full.
    pub(crate) fn note_full_queue(&mut self, datagrams: u64) {
        self.counters.queue_full += datagrams;
    }

    /// Takes a label back.
    pub(crate) fn remove(&mut self, label: Label) {
        self.entries.remove(&label);
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Decides on a datagram; one that goes on has been relabelled in place. Nothing is counted or forwarded before its
    /// hop tag was found right and its number fresh (design §6).
    pub(crate) fn decide(&mut self, now: Time, datagram: &mut [u8]) -> Verdict {
        let verdict = self.judge(now, datagram);
        let counters = &mut self.counters;
        match &verdict {
            Verdict::Forward { .. } => counters.forwarded += 1,
            Verdict::Deliver(..) => counters.delivered += 1,
            Verdict::Greeted(_) => {}
            Verdict::Drop(DropReason::Malformed) => counters.malformed += 1,
            Verdict::Drop(DropReason::UnknownLabel) => counters.unknown_label += 1,
            Verdict::Drop(DropReason::BadTag) => counters.bad_tag += 1,
            Verdict::Drop(DropReason::Replayed) => counters.replayed += 1,
            Verdict::Drop(DropReason::Policed) => counters.policed += 1,
        }
        verdict
    }

    fn judge(&mut self, now: Time, datagram: &mut [u8]) -> Verdict {
        self.heard = None;
        let Ok(header) = HopHeader::parse(datagram) else { return Verdict::Drop(DropReason::Malformed) };
        let Some(entry) = self.entries.get_mut(&header.label) else {
            return Verdict::Drop(DropReason::UnknownLabel);
        };
        let Some(verified) = hop_tag::verify(datagram, &entry.key) else {
            return Verdict::Drop(DropReason::BadTag);
        };
        if header.packet_type == PacketType::Sealed && entry.note(&header) {
            self.heard = Some(entry.from);
        }
        let from = entry.from;
        match (&mut entry.purpose, header.packet_type) {
            (Purpose::Relay { window, next, originator }, PacketType::Sealed) => {
                if !window.mark(header.number) {
                    return Verdict::Drop(DropReason::Replayed);
                }
                let bits = ((datagram.len() + IP_UDP_HEADERS) * 8) as f64;
                if !self.relayed_by_neighbour.take(now, from.peer.member, bits)
                    || !self.relayed_by_originator.take(now, *originator, bits)
                {
                    return Verdict::Drop(DropReason::Policed);
                }
                hop_tag::relabel(datagram, next.label, &next.key, verified);
                Verdict::Forward { to: next.neighbour, originator: *originator }
            }
            (Purpose::Terminate(circuit), PacketType::Sealed) => Verdict::Deliver(*circuit, header),
            (Purpose::Greeting { window }, PacketType::Greeting) => {
                if window.mark(header.number) {
                    Verdict::Greeted(from)
                } else {
                    Verdict::Drop(DropReason::Replayed)
                }
            }
            _ => Verdict::Drop(DropReason::Malformed),
        }
    }

    fn hand_out(&mut self, key: HopKey, from: Adjacency, purpose: Purpose) -> Hop {
        let label = loop {
            let label = Label(self.random.u64());
            if !self.entries.contains_key(&label) {
                break label;
            }
        };
        let hop = Hop { label, key: key.to_bytes() };
        self.entries.insert(label, Entry { key, purpose, from, newest: None });
        hop
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::overlay::{InstanceId, LinkId, Peer};

    const NEXT: Adjacency =
        Adjacency { peer: Peer { member: MemberId(9), instance: InstanceId(1) }, link: LinkId(3) };

    const FROM: Adjacency =
        Adjacency { peer: Peer { member: MemberId(2), instance: InstanceId(1) }, link: LinkId(1) };

    const ORIGINATOR: MemberId = MemberId(1);

    fn table() -> LabelTable {
        LabelTable::new(Random::from_seed([1; 32]), &Policing::default())
    }

    fn packet(hop: &Hop, number: u64, body: u8) -> Vec<u8> {
        signed(hop.label, &HopKey::to_relay(hop.key, body_hash()), number, body)
    }

    fn signed(label: Label, key: &HopKey, number: u64, body: u8) -> Vec<u8> {
        let header = HopHeader { packet_type: PacketType::Sealed, epoch: 0, number, label };
        let mut out = Vec::new();
        header.emit(&mut out);
        out.extend_from_slice(&[body; 60]);
        hop_tag::sign(&mut out, key);
        out
    }

    fn body_hash() -> Arc<BodyHash> {
        Arc::new(BodyHash::new(&[3; 16]))
    }

    fn egress() -> Egress {
        Egress { neighbour: NEXT, label: Label(5), key: HopKey::new([5; 16]) }
    }

    #[test]
    fn a_relay_exchanges_label_and_tag_once_for_each_number() {
        let mut table = table();
        let hop = table.relay(FROM, egress(), ORIGINATOR, body_hash());
        let mut original = packet(&hop, 7, 1);
        let mut datagram = original.clone();
        let forward = Verdict::Forward { to: NEXT, originator: ORIGINATOR };
        assert_eq!(table.decide(Time::ZERO, &mut datagram), forward);
        assert_eq!(HopHeader::parse(&datagram).expect("whole").label, Label(5));
        assert!(hop_tag::verify(&datagram, &HopKey::new([5; 16])).is_some());
        assert_eq!(table.decide(Time::ZERO, &mut original), Verdict::Drop(DropReason::Replayed));
    }

    #[test]
    fn a_packet_is_heard_from_its_neighbour_once_and_only_if_it_is_newer_than_all_before() {
        let mut table = table();
        let relayed = table.relay(FROM, egress(), ORIGINATOR, body_hash());
        let ending = table.terminate(CircuitId([1; 16]), FROM);
        let mut heard = |mut datagram: Vec<u8>| {
            table.decide(Time::ZERO, &mut datagram);
            table.heard()
        };
        let ends_here = |number| signed(ending.label, &HopKey::new(ending.key), number, 1);
        for (number, expected) in [(7, Some(FROM)), (5, None), (7, None), (8, Some(FROM))] {
            assert_eq!(heard(packet(&relayed, number, 1)), expected, "relayed, {number}");
            assert_eq!(heard(ends_here(number)), expected, "at its end, {number}");
        }
        let mut forged = packet(&relayed, 9, 1);
        forged[3] ^= 1;
        assert_eq!(heard(forged), None);
    }

    #[test]
    fn a_captured_label_with_another_body_is_not_forwarded() {
        let mut table = table();
        let hop = table.relay(FROM, egress(), ORIGINATOR, body_hash());
        let mut captured = packet(&hop, 7, 1);
        let end = captured.len();
        captured[end - 30..].fill(2);
        assert_eq!(table.decide(Time::ZERO, &mut captured), Verdict::Drop(DropReason::BadTag));
        let mut garbage = vec![0; 100];
        assert_eq!(table.decide(Time::ZERO, &mut garbage), Verdict::Drop(DropReason::Malformed));
        let mut unknown = packet(&Hop { label: Label(1), key: hop.key }, 1, 1);
        assert_eq!(table.decide(Time::ZERO, &mut unknown), Verdict::Drop(DropReason::UnknownLabel));
        assert_eq!(table.counters.forwarded, 0);
    }

    #[test]
    fn what_exceeds_the_rate_of_an_originator_or_a_neighbour_is_dropped_and_counted() {
        let packet_bits = f64::from(8 * (24 + 60 + 28));
        let per_originator =
            Policing { relayed_bps_per_originator: Some(10.0 * packet_bits), ..Policing::default() };
        let per_neighbour =
            Policing { relayed_bps_per_neighbour: Some(10.0 * packet_bits), ..Policing::default() };
        for policing in [per_originator, per_neighbour] {
            let mut table = LabelTable::new(Random::from_seed([1; 32]), &policing);
            let hop = table.relay(FROM, egress(), ORIGINATOR, body_hash());
            for number in 0..30 {
                table.decide(Time::ZERO, &mut packet(&hop, number, 1));
            }
            assert_eq!((table.counters.forwarded, table.counters.policed), (10, 20));
        }
    }

    #[test]
    fn a_label_that_was_taken_back_is_unknown() {
        let mut table = table();
        let hop = table.terminate(CircuitId([1; 16]), FROM);
        let packet = |number| signed(hop.label, &HopKey::new(hop.key), number, 1);
        assert!(matches!(table.decide(Time::ZERO, &mut packet(1)), Verdict::Deliver(..)));
        table.remove(hop.label);
        assert_eq!(table.decide(Time::ZERO, &mut packet(2)), Verdict::Drop(DropReason::UnknownLabel));
    }
}
