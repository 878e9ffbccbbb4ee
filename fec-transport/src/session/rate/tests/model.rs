//! Sessions for the controller alone, over netsim's links: packets without content, reports without blocks.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use netsim::{Link, LinkModel, Probability, Rate, random_stream};
use rand_chacha::ChaCha8Rng;

use crate::event::SessionId;
use crate::overlay::{LinkId, RouteLink};
use crate::session::paths::loss::LossEstimate;
use crate::session::paths::pacer::Pacer;
use crate::session::rate::bottlenecks::{Bottlenecks, CoupledPath};
use crate::session::rate::{Feedback, RateController};
use crate::sim::cubic::Cubic;
use crate::time::Time;

/// Bytes of a full packet with all headers.
pub(super) const PACKET: f64 = 1_496.0;

/// A link with a queue of 50 ms, through which packets go as they are.
pub(super) fn link(mbit: u64, delay_ms: f64, loss: f64) -> LinkModel {
    let model = LinkModel::new(Rate::from_mbit(mbit), Duration::from_secs_f64(delay_ms * 1e-3));
    LinkModel { header_bytes: 0, ..model.with_loss(probability(loss)) }
}

pub(super) fn probability(value: f64) -> Probability {
    Probability::new(value).expect("a probability")
}

/// netsim's link, and what packets have met there.
pub(super) struct MeteredLink {
    link: Link,
    random: ChaCha8Rng,
    /// The sum of the queueing delays that packets met in the window, in seconds, and the number of these packets.
    waited: f64,
    packets: f64,
}

impl MeteredLink {
    fn new(model: LinkModel, seed: u64, index: usize) -> MeteredLink {
        let random = random_stream(seed, &["link", &index.to_string()]);
        MeteredLink { link: Link::new(model), random, waited: 0.0, packets: 0.0 }
    }

    pub(super) fn model(&self) -> &LinkModel {
        self.link.model()
    }

    pub(super) fn set_model(&mut self, model: LinkModel) {
        self.link.set_model(model);
    }

    /// When a packet arrives at the other end, if it does.
    fn carry(&mut self, now: f64, bytes: f64) -> Option<f64> {
        let now = Duration::from_secs_f64(now);
        let waits = self.link.model().rate.time_for(self.link.queued_bytes(now));
        let passage = self.link.offer(now, bytes as usize, &mut self.random).ok()?;
        self.waited += waits.as_secs_f64();
        self.packets += 1.0;
        Some(passage.transit.arrives_at.as_secs_f64())
    }
}

/// A path of a session.
pub(super) struct Path {
    pub(super) controller: RateController,
    pub(super) links: Vec<RouteLink>,
    /// Delay of the way back, seconds.
    back: f64,
    pacer: Pacer,
    loss: LossEstimate,
    /// First unacknowledged number; departure and bytes sent before and with it.
    first: u64,
    departures: VecDeque<(Time, f64)>,
    sent_bytes: f64,
    known_bytes: f64,
    round_trip: Option<f64>,
    received: u64,
    highest: Option<(u64, f64)>,
}

/// How much a session has to send.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Load {
    Bulk,
    /// So many packets a second of so many bytes, shared equally by the paths.
    Messages(f64, f64),
}

pub(super) struct Session {
    pub(super) paths: Vec<Path>,
    bottlenecks: Bottlenecks,
    pub(super) start: f64,
    pub(super) load: Load,
    pub(super) limit: Option<f64>,
    /// Packets sent and received in each tenth of a second.
    pub(super) sent: Vec<f64>,
    pub(super) received: Vec<f64>,
    /// The longest time a message waited for the pacer.
    pub(super) longest_wait: f64,
    waiting: VecDeque<f64>,
}

impl Session {
    /// `paths`: the links of each and the delay of its way back, ms.
    pub(super) fn new(start: f64, paths: &[(&[u16], f64)]) -> Session {
        let path = |(links, back_ms): &(&[u16], f64)| {
            let now = time(start);
            Path {
                controller: RateController::new(now),
                links: links
                    .iter()
                    .map(|id| RouteLink { link: LinkId((*id).into()), capacity_bps: None })
                    .collect(),
                back: back_ms * 1e-3,
                pacer: Pacer::new(now),
                loss: LossEstimate::default(),
                first: 0,
                departures: VecDeque::new(),
                sent_bytes: 0.0,
                known_bytes: 0.0,
                round_trip: None,
                received: 0,
                highest: None,
            }
        };
        Session {
            paths: paths.iter().map(path).collect(),
            start,
            load: Load::Bulk,
            bottlenecks: Bottlenecks::default(),
            limit: None,
            sent: Vec::new(),
            received: Vec::new(),
            longest_wait: 0.0,
            waiting: VecDeque::new(),
        }
    }

    fn note(series: &mut Vec<f64>, now: f64, bytes: f64) {
        let slot = (now * 10.0) as usize;
        if series.len() <= slot {
            series.resize(slot + 1, 0.0);
        }
        series[slot] += bytes * 8.0;
    }

    /// bit/s in [from, to) of a series.
    pub(super) fn mean(series: &[f64], from: f64, to: f64) -> f64 {
        let range = (from * 10.0) as usize..((to * 10.0) as usize).min(series.len());
        series.get(range).map_or(0.0, |slots| slots.iter().sum::<f64>()) / (to - from)
    }

    pub(super) fn goodput(&self, from: f64, to: f64) -> f64 {
        Session::mean(&self.received, from, to)
    }

    pub(super) fn sent(&self, from: f64, to: f64) -> f64 {
        Session::mean(&self.sent, from, to)
    }
}

/// A flow of somebody else, as TCP with CUBIC would be: ack-clocked and not paced.
pub(super) struct Competitor {
    start: f64,
    /// From then on it sends nothing new.
    pub(super) stop: f64,
    link: usize,
    /// Delay of the way back, seconds.
    back: f64,
    cubic: Cubic,
    next: u64,
    flying: VecDeque<(u64, f64)>,
    recovered_from: u64,
    round_trip: f64,
    last_progress: f64,
    /// As in [`Session`].
    pub(super) received: Vec<f64>,
}

impl Competitor {
    pub(super) fn new(start: f64, link: usize, back_ms: f64) -> Competitor {
        Competitor {
            start,
            stop: f64::MAX,
            link,
            back: back_ms * 1e-3,
            cubic: Cubic::new(),
            next: 1,
            flying: VecDeque::new(),
            recovered_from: 0,
            round_trip: 0.1,
            last_progress: start,
            received: Vec::new(),
        }
    }

    /// Packet `number` was acknowledged: the link keeps the order, so what left well before it is lost.
    fn on_ack(&mut self, now: f64, number: u64) {
        let Some(place) = self.flying.iter().position(|(flying, _)| *flying == number) else { return };
        let (_, departed) = self.flying.remove(place).expect("it is there");
        self.round_trip += (now - departed - self.round_trip) / 8.0;
        self.last_progress = now;
        if number >= self.recovered_from {
            self.cubic.on_ack(time(now), self.round_trip);
        }
        while let Some((lost, _)) = self.flying.front().copied().filter(|(lost, _)| lost + 3 <= number) {
            self.flying.pop_front();
            if lost >= self.recovered_from {
                self.recovered_from = self.next;
                self.cubic.on_loss(time(now));
            }
        }
    }

    fn on_timer(&mut self, now: f64) {
        if !self.flying.is_empty() && now - self.last_progress > 2.0 * self.round_trip + 0.2 {
            self.flying.clear();
            self.recovered_from = self.next;
            self.last_progress = now;
            self.cubic.on_timeout(time(now));
        }
    }
}

type Arrivals = Vec<(usize, u64, f64, u64)>;

#[derive(Debug)]
enum Event {
    Send { session: usize, path: usize },
    Message { session: usize },
    Carry { session: usize, path: usize, hop: usize, number: u64, departed: f64, bytes: f64 },
    MakeReport { session: usize },
    Report { session: usize, made: f64, arrivals: Arrivals },
    Acknowledge { competitor: usize, number: u64 },
    CompetitorTimer { competitor: usize },
}

/// All links and sessions; the agenda names events by their place in `events`.
pub(super) struct World {
    pub(super) now: f64,
    pub(super) links: Vec<MeteredLink>,
    pub(super) sessions: Vec<Session>,
    pub(super) competitors: Vec<Competitor>,
    agenda: BinaryHeap<Reverse<(u64, u64, usize)>>,
    events: Vec<Option<Event>>,
    free: Vec<usize>,
    count: u64,
}

pub(super) fn time(seconds: f64) -> Time {
    Time::ZERO + Duration::from_secs_f64(seconds)
}

impl World {
    pub(super) fn new(seed: u64, links: Vec<LinkModel>, sessions: Vec<Session>) -> World {
        let links = links.into_iter().enumerate();
        let links = links.map(|(index, model)| MeteredLink::new(model, seed, index)).collect();
        let mut world = World {
            now: 0.0,
            links,
            sessions,
            competitors: Vec::new(),
            agenda: BinaryHeap::new(),
            events: Vec::new(),
            free: Vec::new(),
            count: 0,
        };
        for session in 0..world.sessions.len() {
            let start = world.sessions[session].start;
            for path in 0..world.sessions[session].paths.len() {
                world.at(start, Event::Send { session, path });
            }
            if world.sessions[session].load != Load::Bulk {
                world.at(start, Event::Message { session });
            }
            world.at(start, Event::MakeReport { session });
        }
        world
    }

    /// Adds a flow of somebody else.
    pub(super) fn compete(&mut self, flow: Competitor) {
        self.at(flow.start, Event::CompetitorTimer { competitor: self.competitors.len() });
        self.competitors.push(flow);
    }

    fn at(&mut self, when: f64, event: Event) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.events.push(None);
            self.events.len() - 1
        });
        self.events[slot] = Some(event);
        self.count += 1;
        self.agenda.push(Reverse(((when * 1e9) as u64, self.count, slot)));
    }

    pub(super) fn run_until(&mut self, end: f64) {
        while let Some(Reverse((at, _, slot))) = self.agenda.peek().copied() {
            if at as f64 * 1e-9 >= end {
                break;
            }
            self.agenda.pop();
            self.now = at as f64 * 1e-9;
            let event = self.events[slot].take().expect("each slot on the agenda is filled");
            self.free.push(slot);
            self.handle(event);
        }
        self.now = end;
    }

    /// Forgets the queues that were met so far.
    pub(super) fn forget_queues(&mut self) {
        self.links.iter_mut().for_each(|link| (link.waited, link.packets) = (0.0, 0.0));
    }

    /// The mean queue that packets met, ms.
    pub(super) fn mean_queue_ms(&self, link: usize) -> f64 {
        let link = &self.links[link];
        1e3 * link.waited / link.packets.max(1.0)
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Send { session, path } => self.send(session, path),
            Event::Message { session } => self.message(session),
            Event::Carry { session, path, hop, number, departed, bytes } => {
                self.carry(session, path, hop, number, departed, bytes);
            }
            Event::MakeReport { session } => self.make_report(session),
            Event::Report { session, made, arrivals } => self.take_report(session, made, &arrivals),
            Event::Acknowledge { competitor, number } => {
                self.competitors[competitor].on_ack(self.now, number);
                self.send_competitor(competitor);
            }
            Event::CompetitorTimer { competitor } => {
                self.competitors[competitor].on_timer(self.now);
                self.send_competitor(competitor);
                self.at(self.now + 0.1, Event::CompetitorTimer { competitor });
            }
        }
    }

    fn send(&mut self, session: usize, path: usize) {
        let now = time(self.now);
        loop {
            let this = &mut self.sessions[session];
            let sender = &mut this.paths[path];
            let rate = sender.controller.rate(now);
            if !sender.pacer.may_send(now, rate, PACKET as usize) {
                let ready = sender.pacer.ready_at(rate, PACKET as usize);
                let when = ready.since(Time::ZERO).as_secs_f64().max(self.now + 1e-6);
                return self.at(when, Event::Send { session, path });
            }
            let bytes = match this.load {
                Load::Bulk => PACKET,
                Load::Messages(_, bytes) => {
                    let Some(since) = this.waiting.pop_front() else {
                        return self.at(self.now + 2e-4, Event::Send { session, path });
                    };
                    this.longest_wait = this.longest_wait.max(self.now - since);
                    bytes
                }
            };
            sender.pacer.charge(now, rate, bytes);
            sender.sent_bytes += bytes;
            sender.departures.push_back((now, sender.sent_bytes));
            let number = sender.first + sender.departures.len() as u64 - 1;
            Session::note(&mut this.sent, self.now, bytes);
            self.carry(session, path, 0, number, self.now, bytes);
        }
    }

    fn message(&mut self, session: usize) {
        let Load::Messages(per_second, _) = self.sessions[session].load else { return };
        self.sessions[session].waiting.push_back(self.now);
        self.at(self.now + 1.0 / per_second, Event::Message { session });
    }

    fn carry(&mut self, session: usize, path: usize, hop: usize, number: u64, departed: f64, bytes: f64) {
        let route = &self.sessions[session].paths[path].links;
        if let Some(link) = route.get(hop) {
            let link = &mut self.links[link.link.entry()];
            if let Some(arrives) = link.carry(self.now, bytes) {
                self.at(arrives, Event::Carry { session, path, hop: hop + 1, number, departed, bytes });
            }
            return;
        }
        let this = &mut self.sessions[session];
        let receiver = &mut this.paths[path];
        receiver.received += 1;
        if receiver.highest.is_none_or(|(highest, _)| number > highest) {
            receiver.highest = Some((number, self.now));
        }
        Session::note(&mut this.received, self.now, bytes);
    }

    fn send_competitor(&mut self, competitor: usize) {
        loop {
            let flow = &mut self.competitors[competitor];
            if self.now >= flow.stop || flow.flying.len() as f64 >= flow.cubic.segments().floor() {
                return;
            }
            let number = flow.next;
            flow.next += 1;
            flow.flying.push_back((number, self.now));
            let link = &mut self.links[flow.link];
            let Some(arrives) = link.carry(self.now, PACKET) else { continue };
            Session::note(&mut flow.received, arrives, PACKET);
            let (when, event) = (arrives + flow.back, Event::Acknowledge { competitor, number });
            self.at(when, event);
        }
    }

    fn make_report(&mut self, session: usize) {
        let this = &self.sessions[session];
        let arrivals: Arrivals = (this.paths.iter().enumerate())
            .filter_map(|(index, path)| path.highest.map(|(highest, at)| (index, highest, at, path.received)))
            .collect();
        let round_trip = this.paths[0].round_trip.unwrap_or(0.1);
        let back = this.paths.iter().map(|path| path.back).fold(f64::MAX, f64::min);
        let made = self.now;
        self.at(made + back, Event::Report { session, made, arrivals });
        self.at(made + (round_trip / 16.0).clamp(0.002, 0.01), Event::MakeReport { session });
    }

    fn take_report(&mut self, session: usize, made: f64, arrivals: &Arrivals) {
        let now = time(self.now);
        let this = &mut self.sessions[session];
        for (index, highest, arrived, received) in arrivals {
            let path = &mut this.paths[*index];
            if *highest < path.first {
                continue;
            }
            let packets = highest - path.first + 1;
            let (departed, bytes) =
                path.departures.drain(..packets as usize).next_back().expect("it was sent");
            path.first = highest + 1;
            let sample = now.since(departed).as_secs_f64() - (made - arrived);
            path.round_trip = Some(path.round_trip.map_or(sample, |old| old + (sample - old) / 8.0));
            let lost_before = path.loss.lost() as f64;
            path.loss.observe(now, packets, *received, path.controller.is_crowded());
            let feedback = Feedback {
                departed,
                size: PACKET as u32,
                arrived_us: (arrived * 1e6) as u64,
                packets,
                lost: path.loss.lost() as f64 - lost_before,
                bytes: bytes - path.known_bytes,
                dispersion: path.loss.dispersion(),
                round_trip: Duration::from_secs_f64(path.round_trip.unwrap_or(0.1)),
                is_after_idleness: false,
            };
            path.known_bytes = bytes;
            path.controller.on_feedback(now, &feedback);
        }
        let mut coupled: Vec<CoupledPath<'_>> = (this.paths.iter_mut())
            .map(|path| CoupledPath { controller: &mut path.controller, links: &path.links })
            .collect();
        this.bottlenecks.couple(now, SessionId(0), &mut coupled, this.limit);
    }
}
