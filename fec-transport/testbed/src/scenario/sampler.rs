//! Looks at a running scenario again and again: queues, counters, paths.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::ledger::Ledger;
use super::limit::{Hop, Paths, largest_equal_rate};
use super::load::Load;
use fec_transport::Time;
use fec_transport::overlay::{LinkId, MemberId};
use fec_transport::plan::PlannedRoute;
use fec_transport::sim::World;
use fec_transport::{PathId, PathState};

/// How often queues are looked at.
pub(super) const TICK: Duration = Duration::from_millis(5);
/// How often everything else is looked at.
pub(super) const STRIDE: Duration = Duration::from_millis(100);

/// What a scenario was like over time, one row every 100 ms.
#[derive(Debug, Clone, Default)]
pub struct Series {
    /// The rows.
    pub rows: Vec<SeriesRow>,
    /// The routes of all paths that there were, in the order of [`SeriesRow::paths`].
    pub routes: Vec<String>,
    /// The links that each of them crosses.
    crossed: Vec<Vec<LinkId>>,
}

/// A path with a smaller share of the packets carries probes and reports, not data.
const LEAST_SHARE: f64 = 0.01;

impl Series {
    /// How many seconds after `at_s` a path over a link carries data; infinite if none does.
    pub(super) fn carries_again(&self, at_s: f64, link: LinkId) -> f64 {
        let columns = self.crossed.iter().enumerate().filter(|(_, links)| links.contains(&link));
        let columns: Vec<usize> = columns.map(|(column, _)| column).collect();
        let carries = |row: &&SeriesRow| {
            let samples = columns.iter().filter_map(|column| row.paths.get(*column));
            row.at_s > at_s && samples.into_iter().any(|path| path.is_live && path.share > LEAST_SHARE)
        };
        self.rows.iter().find(carries).map_or(f64::INFINITY, |row| row.at_s - at_s)
    }
}

/// 100 ms of a scenario.
#[derive(Debug, Clone, Default)]
pub struct SeriesRow {
    /// Its end, in seconds since the start of the simulation.
    pub at_s: f64,
    /// Delivered to the applications, Mbit/s.
    pub goodput_mbit: f64,
    /// What the network could have carried, Mbit/s.
    pub limit_mbit: f64,
    /// Repair symbols for each source symbol sent.
    pub overhead: f64,
    /// The longest queue of a link on average, as time at its rate.
    pub queue_ms: f64,
    /// Delivered by the competing flows, Mbit/s.
    pub competitors_mbit: f64,
    /// One for each of [`Series::routes`]; a path that is not there is zero.
    pub paths: Vec<PathSample>,
}

/// One path in 100 ms.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct PathSample {
    /// The rate at which it is paced, Mbit/s.
    pub rate_mbit: f64,
    /// Its share of the session's packets.
    pub share: f64,
    /// The loss that the session has measured.
    pub loss: f64,
    /// Whether it is in the schedule.
    pub is_live: bool,
}

/// What had happened at a time.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    pub(super) source_symbols: u64,
    pub(super) repair_symbols: u64,
    pub(super) deaths: u64,
    /// Rounds of repair over all blocks of the sessions that are open, and links that their masks do not cover.
    pub(super) repair_rounds: u64,
    pub(super) unmaskable: usize,
    /// Wire bytes that the senders put onto their links.
    pub(super) sent_bytes: u64,
    /// Packets that reached the members at which flows end.
    pub(super) arrived_packets: u64,
    /// Wire bytes of the competing flows that arrived.
    pub(super) competitors_bytes: u64,
    /// Packets that a queue or a policer dropped and that would have survived their link's loss.
    pub(super) overflowed_packets: f64,
}

/// One direction of a link as the sampler follows it.
struct Direction {
    link: netsim::LinkId,
    from: netsim::NodeId,
    /// Summed queueing time: in this stride, and in the window, in ms.
    stride_ms: f64,
    window_ms: f64,
}

pub(super) struct Sampler {
    directions: Vec<Direction>,
    /// For each flow its planned paths, as indices of directions.
    plans: Vec<Vec<Vec<usize>>>,
    /// Payload bytes of a full packet over its wire bytes.
    payload_share: f64,
    window: (Time, Time),
    ticks_in_window: u64,
    ticks_in_stride: u64,
    /// The latest counters of each path that was ever seen: packets, source symbols, repair symbols, deaths.
    counters: BTreeMap<(MemberId, u64, PathId), [u64; 4]>,
    columns: BTreeMap<String, usize>,
    /// Bits that the limit allows in the window, and the limit as it was last.
    pub(super) limit_bits: f64,
    pub(super) limit_bps: f64,
    pub(super) totals: Vec<(Time, Totals)>,
    pub(super) series: Series,
}

impl Sampler {
    pub(super) fn new(world: &World<Load>, ledger: &Ledger, symbol_size: usize) -> Sampler {
        let simulator = world.simulator();
        let both_ways = |link: &netsim::LinkId| {
            let direction = |from| Direction { link: *link, from, stride_ms: 0.0, window_ms: 0.0 };
            simulator.ends(*link).map(direction)
        };
        let directions: Vec<Direction> = world.simulator_links().iter().flat_map(both_ways).collect();
        let mut sampler = Sampler {
            directions,
            plans: Vec::new(),
            payload_share: fec_transport::payload_share(symbol_size),
            window: ledger.window,
            ticks_in_window: 0,
            ticks_in_stride: 0,
            counters: BTreeMap::new(),
            columns: BTreeMap::new(),
            limit_bits: 0.0,
            limit_bps: 0.0,
            totals: Vec::new(),
            series: Series::default(),
        };
        sampler.plans = ledger.flows.iter().map(|flow| sampler.plan(world, flow.from, flow.to)).collect();
        sampler
    }

    fn plan(&self, world: &World<Load>, from: MemberId, to: MemberId) -> Vec<Vec<usize>> {
        let routes = fec_transport::plan::plan(world.overlay(), from, to, world.config()).unwrap_or_default();
        let direction = |(from, link): (&MemberId, &LinkId)| {
            let (link, node) = (world.simulator_links()[link.entry()], world.simulator_node(*from));
            let is_it = |direction: &Direction| (direction.link, direction.from) == (link, node);
            self.directions.iter().position(is_it).expect("both directions of all links are there")
        };
        let directions = |planned: &PlannedRoute| {
            planned.route.members().iter().zip(planned.route.links()).map(direction).collect()
        };
        routes.iter().map(directions).collect()
    }

    /// Looks at the queues.
    pub(super) fn tick(&mut self, world: &mut World<Load>) {
        let in_window = world.now() > self.window.0 && world.now() <= self.window.1;
        self.ticks_in_window += u64::from(in_window);
        self.ticks_in_stride += 1;
        for direction in &mut self.directions {
            let bytes = world.queued_bytes(direction.link, direction.from);
            let model = world.simulator().model(direction.link, direction.from);
            let ms = bytes as f64 * 8e3 / model.rate.bits_per_second() as f64;
            direction.stride_ms += ms;
            direction.window_ms += if in_window { ms } else { 0.0 };
        }
    }

    /// Looks at everything else, once every [`STRIDE`].
    pub(super) fn stride(&mut self, world: &World<Load>, ledger: &Ledger) {
        let now = world.now();
        let before = self.totals.last().map_or_else(Totals::default, |(_, totals)| *totals);
        self.limit_bps = self.limit(world, ledger);
        if now > self.window.0 && now <= self.window.1 {
            self.limit_bits += self.limit_bps * STRIDE.as_secs_f64();
        }
        let paths = self.look_at_paths(world, ledger);
        let totals = self.total(world, ledger);
        self.totals.push((now, totals));
        let bytes: u64 = ledger.records.iter().map(|record| record.bytes_between(now - STRIDE, now)).sum();
        let source = (totals.source_symbols - before.source_symbols) as f64;
        let repair = (totals.repair_symbols - before.repair_symbols) as f64;
        let ticks = self.ticks_in_stride.max(1) as f64;
        let queue_ms =
            self.directions.iter().map(|direction| direction.stride_ms / ticks).fold(0.0, f64::max);
        self.directions.iter_mut().for_each(|direction| direction.stride_ms = 0.0);
        self.ticks_in_stride = 0;
        self.series.rows.push(SeriesRow {
            at_s: now.since_epoch().as_secs_f64(),
            goodput_mbit: bytes as f64 * 8e-6 / STRIDE.as_secs_f64(),
            limit_mbit: self.limit_bps / 1e6,
            overhead: if source > 0.0 { repair / source } else { 0.0 },
            queue_ms,
            competitors_mbit: (totals.competitors_bytes - before.competitors_bytes) as f64 * 8e-6
                / STRIDE.as_secs_f64(),
            paths,
        });
    }

    /// What all flows together could get now, in bit/s of payload.
    fn limit(&self, world: &World<Load>, ledger: &Ledger) -> f64 {
        let now = world.now();
        let is_active = |index: &usize| {
            let flow = &ledger.flows[*index];
            let has_ended =
                flow.stop.is_some_and(|stop| now > stop) || ledger.records[*index].completed.is_some();
            now > flow.start && !has_ended
        };
        let active: Vec<usize> = (0..ledger.flows.len()).filter(is_active).collect();
        let flows: Vec<Paths> = active.iter().map(|flow| self.living_paths(world, *flow)).collect();
        if flows.is_empty() {
            0.0
        } else {
            flows.len() as f64 * largest_equal_rate(&flows) * self.payload_share
        }
    }

    fn living_paths(&self, world: &World<Load>, flow: usize) -> Paths {
        let simulator = world.simulator();
        let lives = |path: &&Vec<usize>| {
            path.iter().all(|index| {
                let Direction { link, .. } = self.directions[*index];
                let ends = simulator.ends(link);
                simulator.link_is_up(link) && ends.iter().all(|end| simulator.node_is_up(*end))
            })
        };
        let hop = |index: &usize| {
            let Direction { link, from, .. } = self.directions[*index];
            let model = simulator.model(link, from);
            let policed = model.policer.map_or(u64::MAX, |policer| policer.rate.bits_per_second());
            Hop {
                direction: *index,
                rate: model.rate.bits_per_second().min(policed) as f64,
                loss: model.loss.mean_loss().get(),
            }
        };
        self.plans[flow].iter().filter(lives).map(|path| path.iter().map(hop).collect()).collect()
    }

    fn look_at_paths(&mut self, world: &World<Load>, ledger: &Ledger) -> Vec<PathSample> {
        let mut senders: Vec<MemberId> = ledger.flows.iter().map(|flow| flow.from).collect();
        senders.sort_unstable();
        senders.dedup();
        let mut samples = vec![(PathSample::default(), 0); self.columns.len()];
        for member in senders {
            let node = world.node(member);
            let statuses = node.sessions().filter_map(|id| Some((id, node.session_status(id)?)));
            for (session, status) in statuses.collect::<Vec<_>>() {
                for path in &status.paths {
                    let counters = &path.counters;
                    let latest = [
                        counters.packets_sent,
                        counters.source_symbols,
                        counters.repair_symbols,
                        counters.deaths,
                    ];
                    let known = self.counters.entry((member, session.0, path.id)).or_default();
                    let sent = latest[0] - known[0];
                    *known = latest;
                    let route = world.overlay().route_title(&path.route, &path.links);
                    let column = self.column(route, &path.links);
                    samples.resize(samples.len().max(column + 1), Default::default());
                    let (sample, packets) = &mut samples[column];
                    *packets += sent;
                    *sample = PathSample {
                        rate_mbit: path.rate_bps / 1e6,
                        share: 0.0,
                        loss: path.loss,
                        is_live: sample.is_live || path.state == PathState::Live,
                    };
                }
            }
        }
        let all: u64 = samples.iter().map(|(_, packets)| packets).sum();
        let share = |packets: u64| packets as f64 / all.max(1) as f64;
        samples.into_iter().map(|(sample, packets)| PathSample { share: share(packets), ..sample }).collect()
    }

    fn column(&mut self, route: String, links: &[LinkId]) -> usize {
        let next = self.columns.len();
        *self.columns.entry(route).or_insert_with_key(|route| {
            self.series.routes.push(route.clone());
            self.series.crossed.push(links.to_vec());
            next
        })
    }

    fn total(&self, world: &World<Load>, ledger: &Ledger) -> Totals {
        let sum = |index: usize| self.counters.values().map(|counters| counters[index]).sum();
        let mut totals =
            Totals { source_symbols: sum(1), repair_symbols: sum(2), deaths: sum(3), ..Totals::default() };
        totals.competitors_bytes = world.competitors_delivered_bytes();
        for member in ledger.flows.iter().map(|flow| flow.from).collect::<BTreeSet<_>>() {
            let node = world.node(member);
            for status in node.sessions().filter_map(|session| node.session_status(session)) {
                totals.repair_rounds += status.sent.repair_rounds;
                totals.unmaskable += status.unmaskable.len();
            }
        }
        let simulator = world.simulator();
        let node = |member: MemberId| world.simulator_node(member);
        for Direction { link, from, .. } in &self.directions {
            let counters = simulator.counters(*link, *from);
            let to = simulator.neighbour(*link, *from);
            if ledger.flows.iter().any(|flow| node(flow.from) == *from) {
                totals.sent_bytes += counters.offered_bytes;
            }
            if ledger.flows.iter().any(|flow| node(flow.to) == to) {
                totals.arrived_packets += counters.delivered;
            }
            let survival = 1.0 - simulator.model(*link, *from).loss.mean_loss().get();
            totals.overflowed_packets += (counters.queue_dropped + counters.policed) as f64 * survival;
        }
        totals
    }

    /// Rounds of repair of the sessions that are open, as of the last stride.
    pub(super) fn repair_rounds(&self) -> u64 {
        self.totals.last().map_or(0, |(_, totals)| totals.repair_rounds)
    }

    /// The longest queue of a link, averaged over the window.
    pub(super) fn queue_ms(&self) -> f64 {
        let ticks = self.ticks_in_window.max(1) as f64;
        self.directions.iter().map(|direction| direction.window_ms / ticks).fold(0.0, f64::max)
    }

    /// The longest queue of a link in the window, averaged over a stride.
    pub(super) fn queue_peak_ms(&self) -> f64 {
        let (from, to) =
            (self.window.0.since_epoch().as_secs_f64(), self.window.1.since_epoch().as_secs_f64());
        let in_window = self.series.rows.iter().filter(|row| row.at_s > from && row.at_s <= to);
        in_window.map(|row| row.queue_ms).fold(0.0, f64::max)
    }

    /// The totals at a time, to the length of a stride.
    pub(super) fn totals_at(&self, at: Time) -> Totals {
        let until = self.totals.iter().take_while(|(time, _)| *time <= at);
        until.last().map_or_else(Totals::default, |(_, totals)| *totals)
    }
}
