//! A flow of somebody else on the same links, as TCP with CUBIC would be: ack-clocked, window by [`Cubic`], fast
//! recovery when three later packets have arrived, a timeout otherwise. Nothing of ours is in it.
//!
//! ```text
//! sender ── access link ── member ══ links of the overlay ══ member ── access link ── receiver
//! ```
//!
//! Its two ends are nodes of the simulator beside the members; members on its way pass its packets on.

use std::collections::VecDeque;
use std::time::Duration;

use netsim::{Event, LinkId, LinkModel, NodeId, Rate, Simulator};

use super::cubic::Cubic;
use crate::time::Time;

/// What each packet begins with; no packet of ours has this type.
const MAGIC: [u8; 8] = *b"\xfeCUBIC\xfe\xfe";
/// The payload of a full packet: 1,500 bytes with IP and UDP headers.
const SEGMENT: usize = 1_472;
/// The payload of an acknowledgement: magic, address, number, the packets before it.
const ACKNOWLEDGEMENT: usize = MAGIC.len() + 3 + 8 + 8;
/// Later packets after which one that has not arrived is lost.
const REORDERING: u64 = 3;
/// The shortest retransmission timeout, as Linux has it.
const LEAST_TIMEOUT: Duration = Duration::from_millis(200);
/// The rate of the access links, which are never the bottleneck.
const ACCESS_RATE: Rate = Rate::from_mbit(100_000);

/// Where a competing flow runs and when.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CompetitorSpec {
    /// The nodes of the members that it crosses, in order; at least two.
    pub(super) over: Vec<NodeId>,
    /// The links between them.
    pub(super) links: Vec<LinkId>,
    /// Its round trip without queues; at least that of the links.
    pub(super) round_trip: Duration,
    pub(super) start: Time,
    pub(super) stop: Option<Time>,
}

/// All competing flows of a world.
#[derive(Debug, Default)]
pub(super) struct Competitors {
    all: Vec<Competitor>,
}

#[derive(Debug)]
struct Competitor {
    /// All nodes from the sender to the receiver, and the links between them.
    nodes: Vec<NodeId>,
    links: Vec<LinkId>,
    stop: Option<Time>,
    sender: Sender,
    receiver: Receiver,
}

#[derive(Debug)]
struct Sender {
    cubic: Cubic,
    next: u64,
    /// Unacknowledged packets, the oldest first: number and departure.
    flying: VecDeque<(u64, Time)>,
    largest_acknowledged: u64,
    /// Losses of packets before this one belong to a reduction that was made already.
    recovered_from: u64,
    /// Smoothed round trip and its deviation, in seconds.
    round_trip: Option<(f64, f64)>,
    last_progress: Time,
}

#[derive(Debug, Default)]
struct Receiver {
    largest: u64,
    /// Bit n: the packet n before the largest has arrived.
    window: u64,
    bytes: u64,
}

impl Competitors {
    pub(super) fn add(&mut self, simulator: &mut Simulator, spec: CompetitorSpec) {
        let number = self.all.len();
        let sender = simulator.add_node(format!("competitor {number} sender"));
        let receiver = simulator.add_node(format!("competitor {number} receiver"));
        let one_way: Duration =
            spec.over.iter().zip(&spec.links).map(|(from, link)| simulator.model(*link, *from).delay).sum();
        let access = (spec.round_trip / 2).saturating_sub(one_way) / 2;
        let model = LinkModel::new(ACCESS_RATE, access).with_queue_bytes(u64::MAX);
        let (first, last) = (spec.over[0], spec.over[spec.over.len() - 1]);
        let near = simulator.add_link(sender, first, model.clone(), model.clone());
        let far = simulator.add_link(last, receiver, model.clone(), model);
        let nodes = [vec![sender], spec.over, vec![receiver]].concat();
        let links = [vec![near], spec.links, vec![far]].concat();
        simulator.wake_at(sender, spec.start.since_epoch());
        self.all.push(Competitor {
            nodes,
            links,
            stop: spec.stop,
            sender: Sender::new(spec.start),
            receiver: Receiver::default(),
        });
    }

    /// Deals with the event if it concerns a competing flow; gives it back if not.
    pub(super) fn take(&mut self, simulator: &mut Simulator, event: Event) -> Option<Event> {
        let now = Time::from_epoch(simulator.now());
        match &event {
            Event::Packet { node, packet, .. } if packet.starts_with(&MAGIC) => {
                let [index, way, hop] = [packet[8], packet[9], packet[10]].map(usize::from);
                let competitor = self.all.get_mut(index)?;
                competitor.packet_arrives(simulator, now, *node, (index, way, hop), packet);
                None
            }
            Event::Wake { node } => match self.all.iter_mut().position(|one| one.nodes[0] == *node) {
                Some(index) => {
                    self.all[index].wake(simulator, now, index);
                    None
                }
                None => Some(event),
            },
            Event::ControlUp { link, .. } | Event::ControlDown { link, .. } if self.owns(*link) => None,
            _ => Some(event),
        }
    }

    fn owns(&self, link: LinkId) -> bool {
        self.all.iter().any(|one| one.links[0] == link || one.links[one.links.len() - 1] == link)
    }

    /// Bytes that have arrived of all competing flows, headers counted.
    pub(super) fn delivered_bytes(&self) -> u64 {
        self.all.iter().map(|one| one.receiver.bytes).sum()
    }
}

impl Competitor {
    fn packet_arrives(
        &mut self,
        simulator: &mut Simulator,
        now: Time,
        node: NodeId,
        (index, way, hop): (usize, usize, usize),
        packet: &[u8],
    ) {
        let hop = hop + 1;
        let last = self.nodes.len() - 1;
        if hop < last {
            let mut packet = packet.to_vec();
            packet[10] = hop as u8;
            let link = if way == 0 { self.links[hop] } else { self.links[last - 1 - hop] };
            simulator.send(node, link, packet);
        } else if way == 0 {
            let number = number_at(packet, 11);
            self.receiver.bytes += packet.len() as u64 + u64::from(netsim::IPV4_UDP_HEADER_BYTES);
            let window = self.receiver.note(number);
            let mut answer = header(index, 1, ACKNOWLEDGEMENT);
            answer[11..19].copy_from_slice(&self.receiver.largest.to_be_bytes());
            answer[19..27].copy_from_slice(&window.to_be_bytes());
            simulator.send(node, self.links[last - 1], answer);
        } else {
            self.sender.on_acknowledgement(now, number_at(packet, 11), number_at(packet, 19));
            self.send(simulator, now, index);
        }
    }

    fn wake(&mut self, simulator: &mut Simulator, now: Time, index: usize) {
        self.sender.on_timer(now);
        self.send(simulator, now, index);
    }

    /// Sends what the window allows, and sets the timer.
    fn send(&mut self, simulator: &mut Simulator, now: Time, index: usize) {
        if self.stop.is_none_or(|stop| now < stop) {
            while (self.sender.flying.len() as f64) < self.sender.cubic.segments().floor() {
                let mut packet = header(index, 0, SEGMENT);
                packet[11..19].copy_from_slice(&self.sender.depart(now).to_be_bytes());
                simulator.send(self.nodes[0], self.links[0], packet);
            }
        }
        match self.sender.timer() {
            Some(at) => simulator.wake_at(self.nodes[0], at.since_epoch()),
            None => simulator.cancel_wake(self.nodes[0]),
        }
    }
}

impl Sender {
    fn new(start: Time) -> Sender {
        Sender {
            cubic: Cubic::new(),
            next: 1,
            flying: VecDeque::new(),
            largest_acknowledged: 0,
            recovered_from: 0,
            round_trip: None,
            last_progress: start,
        }
    }

    fn depart(&mut self, now: Time) -> u64 {
        let number = self.next;
        self.next += 1;
        if self.flying.is_empty() {
            self.last_progress = now;
        }
        self.flying.push_back((number, now));
        number
    }

    fn on_acknowledgement(&mut self, now: Time, largest: u64, window: u64) {
        let has_arrived = |number: u64| {
            largest.checked_sub(number).is_some_and(|before| before < 64 && window >> before & 1 == 1)
        };
        if let Some((_, departure)) = self.flying.iter().find(|(number, _)| *number == largest) {
            self.measure(now.since(*departure));
        }
        let round_trip_s = self.round_trip.map_or(0.1, |(smoothed, _)| smoothed);
        let before = self.flying.len();
        self.flying.retain(|(number, _)| !has_arrived(*number));
        let arrived = before - self.flying.len();
        if arrived > 0 {
            self.last_progress = now;
        }
        self.largest_acknowledged = self.largest_acknowledged.max(largest);
        let is_recovering = self.recovered_from > self.largest_acknowledged;
        for _ in 0..if is_recovering { 0 } else { arrived } {
            self.cubic.on_ack(now, round_trip_s);
        }
        self.detect_losses(now);
    }

    fn detect_losses(&mut self, now: Time) {
        let largest = self.largest_acknowledged;
        let mut is_new = false;
        while let Some((number, _)) = self.flying.front().filter(|(number, _)| number + REORDERING <= largest)
        {
            is_new |= *number >= self.recovered_from;
            self.flying.pop_front();
        }
        // One reduction for all losses of a window.
        if is_new {
            self.recovered_from = self.next;
            self.cubic.on_loss(now);
        }
    }

    /// [RFC 6298]
    fn measure(&mut self, sample: Duration) {
        let sample = sample.as_secs_f64();
        self.round_trip = Some(match self.round_trip {
            None => (sample, sample / 2.0),
            Some((smoothed, deviation)) => (
                smoothed + (sample - smoothed) / 8.0,
                deviation + ((sample - smoothed).abs() - deviation) / 4.0,
            ),
        });
    }

    fn timer(&self) -> Option<Time> {
        let timeout = self.round_trip.map_or(Duration::from_secs(1), |(smoothed, deviation)| {
            Duration::from_secs_f64(smoothed + 4.0 * deviation).max(LEAST_TIMEOUT)
        });
        (!self.flying.is_empty()).then(|| self.last_progress + timeout)
    }

    fn on_timer(&mut self, now: Time) {
        if self.timer().is_some_and(|at| at <= now) {
            self.flying.clear();
            self.recovered_from = self.next;
            self.cubic.on_timeout(now);
        }
    }
}

impl Receiver {
    /// Notes an arrival; gives the arrivals before the largest one as bits.
    fn note(&mut self, number: u64) -> u64 {
        if number > self.largest {
            let shift = number - self.largest;
            self.window = if shift < 64 { self.window << shift } else { 0 } | 1;
            self.largest = number;
        } else if self.largest - number < 64 {
            self.window |= 1 << (self.largest - number);
        }
        self.window
    }
}

fn header(index: usize, way: u8, length: usize) -> Vec<u8> {
    let mut packet = vec![0; length];
    packet[..8].copy_from_slice(&MAGIC);
    packet[8] = index as u8;
    packet[9] = way;
    packet
}

fn number_at(packet: &[u8], at: usize) -> u64 {
    let bytes = packet.get(at..at + 8).and_then(|bytes| bytes.try_into().ok());
    bytes.map_or(0, u64::from_be_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that one flow moves in `seconds` over a link of 20 Mbit/s with 20 ms each way.
    fn moved(queue_bytes: u64, loss: f64, seconds: u64) -> f64 {
        let mut simulator = Simulator::new(1);
        let (a, b) = (simulator.add_node("a"), simulator.add_node("b"));
        let model = LinkModel::new(Rate::from_mbit(20), Duration::from_millis(20))
            .with_queue_bytes(queue_bytes)
            .with_loss(netsim::Probability::new(loss).expect("a probability"));
        let link = simulator.add_link(a, b, model.clone(), model);
        let mut competitors = Competitors::default();
        let spec = CompetitorSpec {
            over: vec![a, b],
            links: vec![link],
            round_trip: Duration::from_millis(50),
            start: Time::ZERO,
            stop: None,
        };
        competitors.add(&mut simulator, spec);
        while let Some(event) = simulator.step_until(Duration::from_secs(seconds)) {
            competitors.take(&mut simulator, event);
        }
        competitors.delivered_bytes() as f64 * 8e-6 / seconds as f64
    }

    #[test]
    fn it_fills_a_link_with_a_buffer_of_one_bandwidth_delay_product() {
        let rate = moved(125_000, 0.0, 30);
        assert!(rate > 0.95 * 20.0, "{rate} Mbit/s");
    }

    #[test]
    fn it_takes_loss_for_congestion() {
        // theory §5: CUBIC at 1 % random loss.
        let rate = moved(125_000, 0.01, 30);
        assert!((1.0..5.0).contains(&rate), "{rate} Mbit/s");
    }
}
