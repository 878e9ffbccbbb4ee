//! What a session makes of the packets that arrive for it, and what it sends.

use super::Session;
use super::misbehaviour::Misbehaviour;
use super::paths::{NARROW_SYMBOL, PathId};
use super::rate::bottlenecks::Bottlenecks;
use super::receiver::Progress;
use super::run::packet_size;
use crate::event::CloseReason;
use crate::overlay::Adjacency;
use crate::time::Time;
use crate::transmit::Transmit;
use crate::wire::hop::HopHeader;
use crate::wire::packet::{Kind, Probe, Renewal, emit_close, parse_close, split_receipt};
use crate::wire::report::Report;
use crate::wire::stream_control::CONTROL_STREAM;
use crate::wire::symbol::SymbolHeader;

/// For how many round trips of the slowest path the keys of the epoch before are kept (design §6).
const KEPT_ROUND_TRIPS: u32 = 3;

impl Session {
    // --- what arrives -------------------------------------------------------------------------------------------

    /// Takes a datagram whose hop tag was right and whose label leads to `path` of this session.
    ///
    /// What does not open is dropped and counted: anybody on the way can damage a packet. What opens and breaks the
    /// rules ends the session: only the peer can have made it.
    ///
    /// `bottlenecks` is the node's book of links.
    pub(crate) fn on_datagram(
        &mut self,
        now: Time,
        path: PathId,
        header: &HopHeader,
        datagram: &mut [u8],
        bottlenecks: &mut Bottlenecks,
    ) {
        // A run may have more packets behind the one that has ended the session.
        if self.lifecycle.is_over() {
            return;
        }
        let is_fresh = self.paths.is_fresh(path, header.number);
        let retention = || KEPT_ROUND_TRIPS * self.paths.slowest_round_trip();
        let opened = if is_fresh { self.epochs.open(now, path, header, datagram, retention) } else { None };
        let Some(body) = opened else {
            self.dropped += 1;
            return;
        };
        let body = &*body;
        let opened = self.lifecycle.heard(now);
        self.events.extend(opened);
        let done = split_receipt(body).map_err(Misbehaviour::from).and_then(|(receipt, body)| {
            self.paths.note_arrival(now, path, header.number, receipt);
            self.on_body(now, path, body, bottlenecks)
        });
        if let Err(misbehaviour) = done {
            let ended = self.lifecycle.end_misbehaved(&misbehaviour.to_string(), &self.paths);
            self.events.extend(ended);
        }
    }

    fn on_body(
        &mut self,
        now: Time,
        path: PathId,
        body: &[u8],
        bottlenecks: &mut Bottlenecks,
    ) -> Result<(), Misbehaviour> {
        if !self.is_open() {
            return Ok(());
        }
        match Kind::of(body)? {
            Kind::Symbol => {
                self.reporting.on_data(now, body.len(), self.paths.round_trip(path));
                self.on_symbol(now, body)?;
            }
            Kind::Report => self.on_report(now, &Report::parse(body)?, bottlenecks)?,
            Kind::Probe => {
                let Probe { token } = Probe::parse(body)?;
                self.paths.owe_probe_reply(now, path, token);
            }
            Kind::ProbeReply => {
                let Probe { token } = Probe::parse(body)?;
                self.paths.on_probe_reply(now, path, token, bottlenecks);
                // Sessions that are idle, too, learn that others have given memory back.
                self.streams().offer_room();
            }
            Kind::Renewal => self.epochs.on_question(path, &Renewal::parse(body)?)?,
            Kind::RenewalAnswer => self.epochs.on_answer(now, &Renewal::parse(body)?)?,
            Kind::Close => {
                let reason = parse_close(body)?.to_owned();
                self.events.extend(self.lifecycle.end(CloseReason::ByPeer(reason)));
            }
        }
        Ok(())
    }

    fn on_symbol(&mut self, now: Time, body: &[u8]) -> Result<(), Misbehaviour> {
        let (header, symbol) = SymbolHeader::parse(body)?;
        let number = header.block.stream;
        if number != CONTROL_STREAM {
            self.streams().on_peer_stream(number)?;
        }
        let progress = self.receiver.on_symbol(now, &header, symbol)?;
        if progress == Progress::Complete(CONTROL_STREAM) {
            return self.streams().read_control(now);
        }
        self.streams().tell_reader(progress);
        Ok(())
    }

    fn on_report(
        &mut self,
        now: Time,
        report: &Report,
        bottlenecks: &mut Bottlenecks,
    ) -> Result<(), Misbehaviour> {
        if !self.sender.is_plausible(report) {
            return Err(Misbehaviour::FalseReport);
        }
        // Each report comes twice, and the second copy tells nothing.
        if !self.sender.is_news(report) {
            return Ok(());
        }
        self.paths.on_report(now, report, &mut self.sender, bottlenecks)?;
        let (paths, loss) = (&self.paths, self.paths.mean_loss());
        let delivered = self.sender.on_report(now, report, |id, sent| paths.fate(now, id, sent), loss);
        for number in delivered {
            self.streams().sending_over(now, number);
        }
        if self.sender.is_all_acknowledged() {
            self.paths.all_answered();
        }
        self.streams().write_control(now);
        self.streams().offer_room();
        Ok(())
    }

    // --- what is sent -------------------------------------------------------------------------------------------

    /// Writes the next datagrams into `out`, which is empty, and tells to whom they go.
    pub(crate) fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        if self.epochs.is_used_up() || self.sender.is_used_up() || self.reporting.is_used_up() {
            self.events.extend(self.lifecycle.end(CloseReason::UsedUp));
        }
        if let Some(to) = self.poll_packet(now, out) {
            self.epochs.count_sealed(1);
            return Some(Transmit::unmarked(to, out.len()));
        }
        if !self.is_open() {
            return None;
        }
        let Session { paths, sender, epochs, random, .. } = self;
        let transmit = paths.poll_symbols(now, sender, epochs, random, out)?;
        self.streams().offer_room();
        Some(transmit)
    }

    /// Writes the next packet that travels alone.
    fn poll_packet(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Adjacency> {
        self.end_if_too_narrow();
        if self.lifecycle.is_closing() {
            return self.poll_close(now, out);
        }
        if self.lifecycle.is_over() {
            return None;
        }
        let Session { paths, sender, epochs, random, .. } = self;
        let probes = paths
            .poll_probe_reply(now, epochs.seal(), out)
            .or_else(|| paths.poll_probe(now, sender, epochs.seal(), random, out));
        if probes.is_some() || !self.is_open() {
            return probes;
        }
        self.poll_renewal(now, out).or_else(|| self.poll_report(now, out))
    }

    /// What is on its way in full packets does not arrive any more, if no path carries them: a new session begins with
    /// smaller ones.
    fn end_if_too_narrow(&mut self) {
        if self.is_open() && self.paths.are_too_narrow() && self.sender.has_blocks_of_more_than(NARROW_SYMBOL)
        {
            let reason = CloseReason::TooNarrow(packet_size(self.config.coding.symbol_size));
            let words = reason.to_string();
            self.events.extend(self.lifecycle.end_telling(reason, &words, &self.paths));
        }
    }

    fn poll_close(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Adjacency> {
        while let Some((path, reason)) = self.lifecycle.next_goodbye(now) {
            let to = self.paths.seal(now, path, self.epochs.seal(), out, |out| emit_close(reason, out));
            // The path may be gone.
            if to.is_some() {
                return to;
            }
        }
        None
    }

    /// Writes the next message of a handshake for a later epoch, if one is due.
    fn poll_renewal(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Adjacency> {
        let path = match self.epochs.take_owed() {
            Some(path) => path,
            None => self.ask_for_keys(now)?,
        };
        self.paths.seal(now, path, self.epochs.seal(), out, |out| self.epochs.emit(out))
    }

    /// Asks for new keys if it is time; gives the path for the question.
    fn ask_for_keys(&mut self, now: Time) -> Option<PathId> {
        self.epochs.asks_at().filter(|at| *at <= now)?;
        let (path, patience) = self.paths.living_after(self.epochs.tries())?;
        self.epochs.ask(now, patience);
        Some(path)
    }

    fn poll_report(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Adjacency> {
        if self.reporting.is_due(now) {
            let (floor, blocks) = self.receiver.report(self.paths.reported());
            let sequence = self.reporting.next(now, self.receiver.is_waiting());
            let paths = self.paths.report_arrivals(|paths| blocks.room_for_words(paths));
            let (sent_us, intake) = (now.as_micros(), self.reporting.intake(now));
            let report = Report { sequence, sent_us, intake, paths, floor, blocks };
            self.reporting.send(report, self.paths.for_report(now).collect());
        }
        let (path, report) = self.reporting.next_copy()?;
        let to =
            path.and_then(|path| self.paths.seal(now, path, self.epochs.seal(), out, |out| report.emit(out)));
        self.reporting.copy_sent();
        to
    }
}
