//! What a session sends next, and when it wants to be woken.

use std::cmp::Ordering;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use super::epochs::Seal;
use super::pacer;
use super::path::{Path, PathId, PathState};
use super::rate::coupling::CoupledPath;
use super::rate::news::{News, Part};
use super::sender::LivingPath;
use super::{Phase, Session};
use crate::circuit::Egress;
use crate::crypto::hop_tag;
use crate::event::CloseReason;
use crate::limits::MAX_REPORTED_PATHS;
use crate::overlay::Peer;
use crate::run::{HEADERS, Run, RunSeal, Transmit};
use crate::time::Time;
use crate::wire::IP_UDP_HEADERS;
use crate::wire::hop::{AEAD_TAG, HopHeader, PacketType};
use crate::wire::packet::{Kind, Probe, emit_close};
use crate::wire::report::{PathReport, Report};

/// On how many paths a report travels, and how many close packets are sent.
const REPORT_COPIES: usize = 2;
const CLOSE_COPIES: usize = 3;
/// A path on which something was heard so recently carries reports before others do: one that carries data and was not
/// heard for longer is probably dead, in both directions.
const HEARD_RECENTLY: Duration = Duration::from_millis(40);

/// A session that says goodbye.
#[derive(Debug)]
pub(crate) struct Closing {
    reason: String,
    paths: VecDeque<PathId>,
}

impl Closing {
    pub(crate) fn new(reason: &str, paths: &[Path]) -> Closing {
        let living = paths.iter().filter(|path| !matches!(path.state, PathState::Dead { .. }));
        Closing {
            reason: reason.to_owned(),
            paths: living.map(|path| path.id).cycle().take(CLOSE_COPIES.min(3 * paths.len())).collect(),
        }
    }
}

impl Session {
    /// Writes the next datagrams into `out`, which is empty, and tells to whom they go and what finishes them.
    pub(crate) fn poll_run(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Run> {
        if self.epochs.is_used_up() || self.sender.is_used_up() || self.reporting.is_used_up() {
            self.end(CloseReason::UsedUp);
        }
        let single = match self.phase {
            Phase::Over => None,
            Phase::Closing(_) => self.poll_close(now, out),
            Phase::Unconfirmed { .. } => {
                self.poll_probe_reply(now, out).or_else(|| self.poll_probe(now, out))
            }
            Phase::Open => self
                .poll_probe_reply(now, out)
                .or_else(|| self.poll_probe(now, out))
                .or_else(|| self.poll_renewal(now, out))
                .or_else(|| self.poll_report(now, out)),
        };
        if let Some(to) = single {
            self.epochs.count_sealed(1);
            return Some(Run { transmit: Transmit::unmarked(to, out.len()), seal: None });
        }
        if self.is_open() { self.poll_symbols(now, out) } else { None }
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) and [`poll_transmit`](Self::poll_transmit) next.
    pub(crate) fn next_timeout(&self, now: Time) -> Option<Time> {
        let liveness = &self.config.liveness;
        match &self.phase {
            Phase::Over => return None,
            Phase::Closing(_) => return Some(now),
            Phase::Unconfirmed { .. } | Phase::Open => {}
        }
        let silence = match self.phase {
            Phase::Unconfirmed { since } => since + liveness.connect,
            _ => self.last_heard + liveness.session_silence,
        };
        let probes = self.paths.iter().filter_map(|path| path.probe.due).min();
        let replies = self.paths.iter().any(|path| !path.probe.replies.is_empty()).then_some(now);
        let mut timers = [None; 9];
        timers[..4].copy_from_slice(&[Some(silence), probes, replies, self.epochs.forgets_at()]);
        if self.is_open() {
            timers[4] = self.reporting.due();
            timers[5] = self.symbols_at(now);
            timers[6] = self.sender.tail_at(now, self.tail_pause(), self.rate());
            timers[7] = self.sender.expires_at();
            timers[8] = self.renewal_at(now);
        }
        timers.into_iter().flatten().min()
    }

    /// Acts on the timers that have run out.
    pub(crate) fn handle_timeout(&mut self, now: Time) {
        self.living_at = None;
        self.epochs.handle_timeout(now);
        let liveness = &self.config.liveness;
        match self.phase {
            Phase::Unconfirmed { since } if now.since(since) >= liveness.connect => {
                self.end(CloseReason::NoPath(liveness.connect));
            }
            Phase::Open if now.since(self.last_heard) >= liveness.session_silence => {
                self.end(CloseReason::Silent(liveness.session_silence));
            }
            Phase::Open => {
                self.abandon_expired(now);
                let tail = self.sender.tail_at(now, self.tail_pause(), self.rate());
                if tail.is_some_and(|at| at <= now) {
                    self.sender.on_tail(now, self.mean_loss());
                }
            }
            _ => {}
        }
    }

    /// Gives up the real-time blocks whose deadline has passed.
    fn abandon_expired(&mut self, now: Time) {
        while let Some((message, finished)) = self.sender.abandon_next(now) {
            self.control.abandoned.push_back(message);
            if let Some(number) = finished {
                self.sending_over(now, number);
            }
        }
        self.write_control(now);
    }

    /// The rate of the trusted paths together, in bit/s.
    fn rate(&self) -> f64 {
        let some_trusted = self.trusts_some();
        let trusted = self.paths.iter().filter(|path| path.is_live() && (path.is_trusted() || !some_trusted));
        trusted.map(|path| path.rate.mean_rate()).sum()
    }

    /// Whether any path is beyond suspicion. If none is, there is nothing to be gained by telling them apart.
    fn trusts_some(&self) -> bool {
        self.paths.iter().any(Path::is_trusted)
    }

    /// The loss of the living paths, weighted by their rates.
    pub(super) fn mean_loss(&self) -> f64 {
        let living = || self.paths.iter().filter(|path| path.is_live());
        let rate: f64 = living().map(|path| path.rate.mean_rate()).sum();
        living().map(|path| path.rate.mean_rate() * path.loss_share()).sum::<f64>() / rate.max(1.0)
    }

    /// Makes room for a path that has just come into the schedule beside those that share links with it.
    pub(super) fn admit(&mut self, now: Time, path: usize) {
        if !self.paths[path].carries_on() {
            return;
        }
        let newcomer = self.paths[..path].iter().filter(|path| path.carries_on()).count();
        self.coupling.admit(now, &mut coupled(&mut self.paths), newcomer);
    }

    /// Lets the rates of the living paths agree on what they share: links, their capacities, the session's limit.
    pub(super) fn couple_rates(&mut self, now: Time) {
        let limit = self.config.pace.limit.map(|limit| limit as f64 * 8.0);
        self.coupling.couple(now, &mut coupled(&mut self.paths), limit);
    }

    /// Whether [`poll_news`](Self::poll_news) would give any.
    pub(crate) fn has_news(&self) -> bool {
        self.coupling.has_news()
    }

    /// What has happened on the paths that concerns other sessions of the node over the same links.
    pub(crate) fn poll_news(&mut self) -> Option<News> {
        self.coupling.poll_news()
    }

    /// What the paths that some news concern send together.
    pub(crate) fn part(&mut self, now: Time, news: &News) -> Option<Part> {
        news.part(now, &mut coupled(&mut self.paths))
    }

    /// Lets them follow the news, or go on with this share of their rates.
    pub(crate) fn follow(&mut self, now: Time, news: &News, share: f64) {
        self.living_at = None;
        news.follow(now, &mut coupled(&mut self.paths), share);
    }

    /// They have found a limit that is their own.
    pub(crate) fn keep_limit(&mut self, now: Time, news: &News) {
        news.keep(now, &mut coupled(&mut self.paths));
    }

    fn symbols_at(&self, now: Time) -> Option<Time> {
        let packet = packet_size(self.config.coding.symbol_size);
        let living = || self.paths.iter().filter(|path| path.is_live());
        let can_form = self.sender.can_form(now, self.rate());
        let some_trusted = self.trusts_some();
        let has_symbols = |path: &&Path| {
            let is_trusted = path.is_trusted() || !some_trusted;
            is_trusted && can_form || self.sender.has_symbols_for(path.id, is_trusted)
        };
        let busy = living().filter(has_symbols);
        if let Some(ready) = busy.map(|path| path.ready_at(now, packet)).min() {
            return Some(ready);
        }
        let trusted = living().filter(|path| path.is_trusted() || !some_trusted);
        let ready = trusted.map(|path| path.ready_at(now, packet)).min()?;
        self.sender.forms_at().map(|forms| forms.max(ready))
    }

    /// The pause after which the tail timer assumes that nothing will come.
    fn tail_pause(&self) -> Duration {
        let living = self.paths.iter().filter(|path| path.is_live());
        living.map(Path::loss_timeout).max().unwrap_or(Duration::from_millis(500))
    }

    fn poll_close(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Peer> {
        let Phase::Closing(closing) = &mut self.phase else { return None };
        let next = closing.paths.pop_front();
        let Some(path) = next.and_then(|id| self.paths.iter_mut().find(|path| path.id == id)) else {
            self.phase = Phase::Over;
            return None;
        };
        Some(seal(now, path, self.epochs.seal(), false, out, |_, out| emit_close(&closing.reason, out)))
    }

    fn poll_probe_reply(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Peer> {
        let path = self.paths.iter_mut().find(|path| !path.probe.replies.is_empty())?;
        let token = path.probe.replies.pop_front()?;
        let body = |_, out: &mut Vec<u8>| Probe { token }.emit(Kind::ProbeReply, out);
        Some(seal(now, path, self.epochs.seal(), false, out, body))
    }

    fn poll_probe(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Peer> {
        while let Some(index) =
            self.paths.iter().position(|path| path.probe.due.is_some_and(|due| due <= now))
        {
            let path = &mut self.paths[index];
            let was_live = path.is_live();
            let wanted = path.on_probe_timer(now, &self.config.liveness);
            if was_live && !path.is_live() {
                self.living_at = None;
                self.sender.on_path_death(path.id);
            }
            if wanted {
                let token = self.random.u64();
                path.probed(now, token);
                let body = |_, out: &mut Vec<u8>| Probe { token }.emit(Kind::Probe, out);
                return Some(seal(now, path, self.epochs.seal(), false, out, body));
            }
        }
        None
    }

    fn poll_report(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Peer> {
        if self.pending_report.is_none() && self.reporting.due().is_some_and(|due| due <= now) {
            let report = self.report(now);
            self.pending_report = Some((report, self.report_paths(now)));
        }
        let (report, paths) = self.pending_report.as_mut()?;
        let id = paths.pop_front();
        let path = id.and_then(|id| self.paths.iter_mut().find(|path| path.id == id));
        let to = path.map(|path| seal(now, path, self.epochs.seal(), false, out, |_, out| report.emit(out)));
        if paths.is_empty() {
            self.pending_report = None;
        }
        to
    }

    fn report(&mut self, now: Time) -> Report {
        let (floor, blocks) = self.receiver.report();
        let arrivals = self.paths.iter().filter_map(|path| {
            Some(PathReport {
                path: path.id.0,
                highest: path.received.highest?,
                arrival_us: path.received.highest_at.as_micros(),
                received: path.received.count,
            })
        });
        let paths = arrivals.take(MAX_REPORTED_PATHS).collect();
        let sequence = self.reporting.next(now, self.receiver.is_waiting());
        Report { sequence, sent_us: now.as_micros(), paths, floor, blocks }
    }

    /// The two best paths for a report: those heard lately, the faster first, and the second one over other links than
    /// the first, because a link that dies must not take the news of it along.
    fn report_paths(&self, now: Time) -> VecDeque<PathId> {
        let mut chosen: Vec<&Path> = Vec::new();
        for _ in 0..REPORT_COPIES {
            let left = self.paths.iter().filter(|path| chosen.iter().all(|other| other.id != path.id));
            chosen.extend(left.min_by_key(|path| {
                let is_silent = now.since(path.received.last_heard) > HEARD_RECENTLY;
                let shared = chosen.iter().map(|other| path.links_shared_with(other)).sum::<usize>();
                (!path.carries_on(), is_silent, shared, path.round_trip.smoothed())
            }));
        }
        chosen.into_iter().map(|path| path.id).collect()
    }

    /// Writes a run of symbols for the path whose turn it is.
    fn poll_symbols(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Run> {
        if !self.sender.has_symbols(now, self.rate()) {
            return None;
        }
        self.look_at_paths(now);
        let packet = packet_size(self.config.coding.symbol_size);
        for step in 0..self.paths.len() {
            let index = (self.turn + step) % self.paths.len();
            let path = &mut self.paths[index];
            if !path.is_live() || !path.may_send(now, packet) {
                continue;
            }
            // What is left may belong to other paths.
            let Some(run) = self.run(now, index, out) else { continue };
            self.turn = index + 1;
            self.offer_room();
            return Some(run);
        }
        None
    }

    /// Writes the headers of symbols of equal size for one path, as long as the pacer allows: about 1 ms of them (design §6).
    fn run(&mut self, now: Time, index: usize, out: &mut Vec<u8>) -> Option<Run> {
        let Session { sender, paths, epochs, random, living, .. } = self;
        let path = &mut paths[index];
        let (tokens, rate) = (path.tokens(now), path.rate.mean_rate());
        let (mut segment_size, mut packets, mut symbols) = (0, 0, Vec::new());
        loop {
            let room = |symbol_size| room(packet_size(symbol_size), segment_size, packets, tokens, rate);
            let Some(mut batch) = sender.choose(now, path.id, living, &room, random) else { break };
            let packet = packet_size(batch.symbol_size());
            segment_size = segment_size.max(packet);
            for _ in 0..batch.count {
                let number = path.take_symbol_number(now, random);
                header(path, epochs.seal(), number).emit(out);
                let is_repair = batch.emit(out);
                batch.sent(path.id, number, now);
                path.weigh(packet);
                path.counters.repair_symbols += u64::from(is_repair);
                path.counters.source_symbols += u64::from(!is_repair);
            }
            batch.symbols(&mut symbols);
            packets += batch.count;
            if batch.is_urgent() || packet < segment_size {
                break;
            }
        }
        if packets == 0 {
            return None;
        }
        let Egress { neighbour, key: hop_key, .. } = &path.egress;
        let seal = RunSeal::new(Arc::clone(epochs.seal().key), hop_key.clone(), path.id.0, symbols);
        let (neighbour, length) = (*neighbour, seal.length());
        path.charge_run(now, packets, length);
        epochs.count_sealed(packets as u64);
        Some(Run { transmit: Transmit::unmarked(neighbour, segment_size), seal: Some(seal) })
    }

    /// Brings up to date what the sender knows of the paths.
    fn look_at_paths(&mut self, now: Time) {
        if self.living_at == Some(now) {
            return;
        }
        self.living_at = Some(now);
        let some_trusted = self.trusts_some();
        let living = self.paths.iter().filter(|path| path.carries_on() || path.is_live() && !some_trusted);
        let look = |path: &Path| LivingPath {
            id: path.id,
            planned_share: path.planned_share,
            rate: path.rate.mean_rate(),
            loss: path.loss_share(),
            dispersion: path.dispersion(),
            is_trusted: path.is_trusted() || !some_trusted,
            links: path.links.iter().map(|link| link.link).collect(),
        };
        self.living.clear();
        self.living.extend(living.map(look));
    }

    /// Tells waiting writers that there is room, once half of their buffer is free.
    fn offer_room(&mut self) {
        let half = self.config.limits.send_buffer / 2;
        for number in self.sender.take_relieved(half) {
            let stream = self.stream_id(number);
            self.events.push_back(crate::event::Event::Writable { stream });
        }
    }
}

/// The living paths as the coupling sees them.
fn coupled(paths: &mut [Path]) -> Vec<CoupledPath<'_>> {
    let living = paths.iter_mut().filter(|path| path.carries_on());
    living.map(|path| CoupledPath { controller: &mut path.rate, links: &path.links }).collect()
}

/// How many more packets of `packet` bytes fit into a run that has `packets` of `segment_size` bytes: as many as the
/// pacer has `tokens` for, none that are larger than the others, and a smaller one only at its end.
fn room(packet: usize, segment_size: usize, packets: usize, tokens: f64, rate: f64) -> usize {
    let first = if packets == 0 { packet } else { segment_size };
    let affordable = (tokens.max(0.0) / (first + IP_UDP_HEADERS) as f64) as usize + 1;
    let in_run = (pacer::run_bytes(rate, first) / first).max(1);
    match packet.cmp(&first) {
        Ordering::Equal => in_run.min(affordable).saturating_sub(packets),
        Ordering::Less => in_run.min(affordable).saturating_sub(packets).min(1),
        Ordering::Greater => 0,
    }
}

/// Bytes of the datagram that carries a symbol.
fn packet_size(symbol_size: usize) -> usize {
    HEADERS + symbol_size + AEAD_TAG
}

fn header(path: &Path, seal: Seal<'_>, number: u64) -> HopHeader {
    HopHeader { packet_type: PacketType::Sealed, epoch: seal.epoch, number, label: path.egress.label }
}

/// Appends one sealed packet for `path`; `body` gets its number.
pub(super) fn seal(
    now: Time,
    path: &mut Path,
    seal: Seal<'_>,
    skip: bool,
    out: &mut Vec<u8>,
    body: impl FnOnce(u64, &mut Vec<u8>),
) -> Peer {
    let start = out.len();
    let number = path.take_number(now, skip);
    header(path, seal, number).emit(out);
    body(number, out);
    seal.key.seal(path.id.0, number, out, start);
    hop_tag::sign(&mut out[start..], &path.egress.key);
    path.charge(now, out.len() - start);
    path.egress.neighbour
}
