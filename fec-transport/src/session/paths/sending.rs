//! What leaves on the paths of a session: packets one by one, and symbols in runs.

use std::cmp::Ordering;

use super::loss::PRIOR_LOSS;
use super::path::{Path, PathId, PathState};
use super::width::NARROW_SYMBOL;
use super::{Paths, pacer};
use crate::crypto::random::Random;
use crate::crypto::receipt::Receipts;
use crate::overlay::Adjacency;
use crate::session::epochs::{Epochs, Seal};
use crate::session::run::{HEADERS, PacketSeal, packet_size};
use crate::session::sender::Sender;
use crate::time::Time;
use crate::transmit::Transmit;
use crate::wire::IP_UDP_HEADERS;
use crate::wire::Writer as _;
use crate::wire::hop::{HopHeader, PacketType};
use crate::wire::packet::{Kind, Probe};
use crate::wire::symbol::SYMBOL_HEADER;

impl Paths {
    /// Appends one sealed packet for a path, whose body is what `body` writes; gives the neighbour that it goes to.
    pub(crate) fn seal(
        &mut self,
        now: Time,
        id: PathId,
        with: Seal<'_>,
        out: &mut Vec<u8>,
        body: impl FnOnce(&mut Vec<u8>),
    ) -> Option<Adjacency> {
        // What leaves changes nothing that the sender knows of a path.
        let path = self.paths.iter_mut().find(|path| path.id() == id)?;
        Some(seal(now, path, with, self.receipts, out, 0, body))
    }

    /// When the next probe is sent.
    pub(crate) fn probes_at(&self) -> Option<Time> {
        self.paths.iter().map(|path| path.probing().due()).min()
    }

    /// Whether the peer waits for an echo.
    pub(crate) fn owes_probe_reply(&self) -> bool {
        self.paths.iter().any(|path| path.probing().owes_reply())
    }

    /// Writes the next echo that the peer waits for.
    pub(crate) fn poll_probe_reply(
        &mut self,
        now: Time,
        with: Seal<'_>,
        out: &mut Vec<u8>,
    ) -> Option<Adjacency> {
        let path = self.paths.iter_mut().find(|path| path.probing().owes_reply())?;
        let token = path.probing_mut().take_reply()?;
        let emit = |out: &mut Vec<u8>| Probe { token }.emit(Kind::ProbeReply, out);
        Some(seal(now, path, with, self.receipts, out, 0, emit))
    }

    /// Writes the next probe that is due, those of full size first: what a path carries is best known before it is in
    /// the schedule. Paths that turn out to be dead leave the schedule.
    pub(crate) fn poll_probe(
        &mut self,
        now: Time,
        sender: &mut Sender,
        with: Seal<'_>,
        random: &mut Random,
        out: &mut Vec<u8>,
    ) -> Option<Adjacency> {
        if let Some(neighbour) = self.poll_wide_probe(now, with, random, out) {
            return Some(neighbour);
        }
        let is_hushed = self.hearing.is_hushed();
        while let Some(path) = self.paths.iter_mut().find(|path| path.probing().asks_at() <= now) {
            let was_live = path.is_live();
            let wanted = path.on_probe_timer(now, is_hushed, &self.config.liveness);
            let id = path.id();
            if was_live && !path.is_live() {
                self.changed();
                sender.on_path_death(id);
            }
            if wanted {
                let token = random.u64();
                let path = self.paths.iter_mut().find(|path| path.id() == id)?;
                path.probing_mut().sent(now, token);
                self.hearing.probe_sent();
                let emit = |out: &mut Vec<u8>| Probe { token }.emit(Kind::Probe, out);
                return Some(seal(now, path, with, self.receipts, out, 0, emit));
            }
        }
        None
    }

    /// Writes the next probe as large as a packet with a full symbol.
    fn poll_wide_probe(
        &mut self,
        now: Time,
        with: Seal<'_>,
        random: &mut Random,
        out: &mut Vec<u8>,
    ) -> Option<Adjacency> {
        let is_due = |path: &&mut Path| path.probing().width().due().is_some_and(|due| due <= now);
        let path = self.paths.iter_mut().find(is_due)?;
        let (token, interval) = (random.u64(), self.config.liveness.probe_interval);
        let full = (packet_size(self.config.coding.symbol_size) + IP_UDP_HEADERS) as u32;
        path.probing_mut().width_mut().sent(now, token, full, interval);
        let padding = SYMBOL_HEADER + self.config.coding.symbol_size - Probe::BYTES;
        let emit = |out: &mut Vec<u8>| Probe { token }.emit_padded(padding, out);
        Some(seal(now, path, with, self.receipts, out, padding, emit))
    }

    /// Chooses symbols that all paths carry, those that are not in the schedule just now included. A path that has not
    /// been heard of yet may never be.
    fn fit_symbols(&mut self) {
        let is_wide =
            |path: &Path| path.state() == PathState::Unconfirmed || path.probing().width().is_wide();
        let full = self.config.coding.symbol_size;
        let size = if self.paths.iter().all(is_wide) { full } else { full.min(NARROW_SYMBOL) };
        if size != self.symbol_size {
            tracing::info!(from = self.symbol_size, to = size, "symbols get the size that all paths carry");
            self.symbol_size = size;
        }
    }

    /// When [`poll_symbols`](Self::poll_symbols) will have something to send, if nothing arrives until then.
    pub(crate) fn symbols_at(&self, now: Time, sender: &Sender) -> Option<Time> {
        if self.hearing.is_hushed() {
            return None;
        }
        let packet = packet_size(self.symbol_size);
        let can_form = sender.can_form(now, self.rate());
        let all_trusted = self.trusts_none();
        let has_symbols = |path: &&Path| {
            let is_trusted = path.is_trusted() || all_trusted;
            is_trusted && can_form || sender.has_symbols_for(path.id(), is_trusted)
        };
        let busy = self.living().filter(has_symbols);
        if let Some(ready) = busy.map(|path| path.ready_at(now, packet)).min() {
            return Some(ready);
        }
        let ready = self.trusted().map(|path| path.ready_at(now, packet)).min()?;
        sender.forms_at().map(|forms| forms.max(ready))
    }

    /// Writes a run of symbols for the path whose turn it is.
    pub(crate) fn poll_symbols(
        &mut self,
        now: Time,
        sender: &mut Sender,
        epochs: &mut Epochs,
        random: &mut Random,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        if !sender.has_symbols(now, self.rate()) || self.is_hushed(now) {
            return None;
        }
        self.look_at_living(now);
        sender.set_symbol_size(self.symbol_size);
        let packet = packet_size(self.symbol_size);
        for step in 0..self.paths.len() {
            let place = (self.turn + step) % self.paths.len();
            let path = &mut self.paths[place];
            if !path.is_live() || !path.may_send(now, packet) {
                continue;
            }
            // What is left may belong to other paths.
            let Some(transmit) = self.run(now, place, sender, epochs, random, out) else { continue };
            self.turn = place + 1;
            return Some(transmit);
        }
        None
    }

    /// Writes symbols of equal size for one path, as long as the pacer allows: 1 to 3 ms of them (design §6).
    fn run(
        &mut self,
        now: Time,
        place: usize,
        sender: &mut Sender,
        epochs: &mut Epochs,
        random: &mut Random,
        out: &mut Vec<u8>,
    ) -> Option<Transmit> {
        let Paths { paths, living, receipts, hearing, .. } = self;
        let path = &mut paths[place];
        path.note_idle_spells(sender.idle_spells());
        let (tokens, rate) = (path.tokens(now), path.mean_rate());
        let (mut segment_size, mut packets) = (0, 0);
        loop {
            let room = |symbol_size| room(packet_size(symbol_size), segment_size, packets, tokens, rate);
            let Some(mut batch) = sender.choose(now, path.id(), living, &room, random) else { break };
            let packet = packet_size(batch.symbol_size());
            segment_size = segment_size.max(packet);
            let mut headers = Vec::with_capacity(batch.count() * HEADERS);
            for _ in 0..batch.count() {
                let number = begin(now, path, epochs.seal(), *receipts, &mut headers);
                let is_repair = batch.emit(&mut headers);
                batch.sent(path.id(), number, now);
                path.weigh(packet);
                path.count_symbol(is_repair);
            }
            packet_seal(path, epochs.seal()).append(&headers, &batch.symbols(), out);
            packets += batch.count();
            if batch.is_urgent() || packet < segment_size {
                break;
            }
        }
        if packets == 0 {
            return None;
        }
        let log_loss = path.loss_share().max(PRIOR_LOSS).ln() * packets as f64;
        hearing.symbols_sent(now, path.longest_round_trip(), log_loss);
        path.charge_run(now, packets, out.len());
        epochs.count_sealed(packets as u64);
        Some(Transmit::unmarked(path.egress().neighbour, segment_size))
    }

    /// Whether nothing but probes is to be sent. When that begins, each path is asked at once.
    fn is_hushed(&mut self, now: Time) -> bool {
        if self.hearing.falls_silent(now, &self.config.liveness) {
            self.paths.iter_mut().filter(|path| path.is_live()).for_each(|path| path.doubt(now));
        }
        self.hearing.is_hushed()
    }

    /// Brings up to date what the sender knows of the paths.
    fn look_at_living(&mut self, now: Time) {
        if self.living_at == Some(now) {
            return;
        }
        self.living_at = Some(now);
        self.fit_symbols();
        let all_trusted = self.trusts_none();
        let living = self.paths.iter().filter(|path| path.carries_on() || path.is_live() && all_trusted);
        self.living.clear();
        self.living.extend(living.map(|path| path.living(all_trusted)));
    }
}

/// How many more packets of `packet` bytes fit into a run that has `packets` of `segment_size` bytes: as many as the
/// pacer has `tokens` for, none that are larger than the others, and a smaller one only at its end.
fn room(packet: usize, segment_size: usize, packets: usize, tokens: f64, rate: f64) -> usize {
    let first = if packets == 0 { packet } else { segment_size };
    let in_run = pacer::run_packets(tokens, rate, first);
    match packet.cmp(&first) {
        Ordering::Equal => in_run.saturating_sub(packets),
        Ordering::Less => in_run.saturating_sub(packets).min(1),
        Ordering::Greater => 0,
    }
}

/// Appends what every packet begins with; gives the packet's number.
fn begin(now: Time, path: &mut Path, seal: Seal<'_>, receipts: Receipts, out: &mut Vec<u8>) -> u64 {
    let (number, label) = (path.take_number(now), path.egress().label);
    HopHeader { packet_type: PacketType::Sealed, epoch: seal.epoch, number, label }.emit(out);
    out.put_u32(path.receipt(number, &receipts));
    number
}

fn packet_seal<'a>(path: &'a Path, seal: Seal<'a>) -> PacketSeal<'a> {
    PacketSeal { path: path.id(), seal, hop_key: &path.egress().key }
}

fn seal(
    now: Time,
    path: &mut Path,
    seal: Seal<'_>,
    receipts: Receipts,
    out: &mut Vec<u8>,
    padding: usize,
    body: impl FnOnce(&mut Vec<u8>),
) -> Adjacency {
    let start = out.len();
    let number = begin(now, path, seal, receipts, out);
    body(out);
    packet_seal(path, seal).close(number, out, start);
    path.charge_unpaced(now, out.len() - start, padding);
    path.egress().neighbour
}
