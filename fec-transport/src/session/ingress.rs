//! What a session makes of the packets that arrive for it.

use super::block::FlightFate;
use super::path::{Path, PathId};
use super::receiver::Progress;
use super::sender::CONTROL_STREAM;
use super::stream::Read;
use super::suspicion::{Evidence, Suspicion, judge};
use super::{Phase, Session};
use crate::event::{CloseReason, Event};
use crate::time::Time;
use crate::wire::Malformed;
use crate::wire::hop::HopHeader;
use crate::wire::packet::{Kind, Probe, Renewal, parse_close};
use crate::wire::report::Report;
use crate::wire::stream_control::StreamControl;
use crate::wire::symbol::{BlockHeader, Codec, SymbolHeader};

/// The part of the silence that makes a path suspect (docs/decisions/failure.md).
const SUSPICION: u32 = 4;
/// For how many round trips of the slowest path the keys of the epoch before are kept (design §6).
const KEPT_ROUND_TRIPS: u32 = 3;

/// Why a session must end: the peer owns the session's key and yet breaks its rules.
#[derive(Debug, thiserror::Error)]
enum Misbehaviour {
    #[error(transparent)]
    Malformed(#[from] Malformed),
    #[error(transparent)]
    Data(#[from] super::receiver::BadData),
    #[error(transparent)]
    Streams(#[from] super::streams::TooManyStreams),
    #[error(transparent)]
    FalseClaim(#[from] super::path::FalseClaim),
    #[error(transparent)]
    Renewal(#[from] super::epochs::BadRenewal),
    #[error("it reported blocks that were never sent")]
    FalseReport,
}

impl Session {
    /// Takes a datagram whose hop tag was right and whose label leads to `path` of this session.
    ///
    /// What does not open is dropped and counted: anybody on the way can damage a packet. What opens and breaks the
    /// rules ends the session: only the peer can have made it.
    pub(crate) fn on_datagram(&mut self, now: Time, path: PathId, header: &HopHeader, datagram: &mut [u8]) {
        let Some(index) = self.paths.iter().position(|candidate| candidate.id == path) else {
            self.dropped += 1;
            return;
        };
        let fresh = self.paths[index].received.window.is_fresh(header.number);
        let slowest = || self.paths.iter().map(|path| path.round_trip.smoothed()).max();
        let retention = || KEPT_ROUND_TRIPS * slowest().unwrap_or_default();
        let opened = if fresh { self.epochs.open(now, path, header, datagram, retention) } else { None };
        let Some(body) = opened else {
            self.dropped += 1;
            return;
        };
        let size = body.len();
        let body = &*body;
        note_arrival(now, &mut self.paths[index], header.number);
        self.living_at = None;
        self.last_heard = now;
        self.confirm();
        if let Err(misbehaviour) = self.on_body(now, index, body, size) {
            self.end_misbehaved(misbehaviour.to_string());
        }
    }

    /// The first packet that opens shows that the handshake was no replay.
    fn confirm(&mut self) {
        if matches!(self.phase, Phase::Unconfirmed { .. }) {
            self.phase = Phase::Open;
            tracing::info!(parent: &self.span, "the session is open");
            let incoming = !self.is_initiator();
            self.events.push_back(Event::SessionOpened { session: self.id, peer: self.peer, incoming });
        }
    }

    fn on_body(&mut self, now: Time, path: usize, body: &[u8], size: usize) -> Result<(), Misbehaviour> {
        if !self.is_open() {
            return Ok(());
        }
        match Kind::of(body)? {
            Kind::Symbol => {
                let round_trip = self.paths[path].round_trip.smoothed();
                self.reporting.on_data(now, size, round_trip);
                self.on_symbol(now, body)?;
            }
            Kind::Report => self.on_report(now, &Report::parse(body)?)?,
            Kind::Probe => self.paths[path].probe.owe_reply(Probe::parse(body)?.token),
            Kind::ProbeReply => {
                let token = Probe::parse(body)?.token;
                if self.paths[path].on_probe_reply(now, token, &self.config.liveness) {
                    self.admit(now, path);
                }
            }
            Kind::Renewal => self.on_renewal(self.paths[path].id, &Renewal::parse(body)?)?,
            Kind::RenewalAnswer => self.on_renewal_answer(now, &Renewal::parse(body)?)?,
            Kind::Close => {
                let reason = parse_close(body)?.to_owned();
                self.end(CloseReason::ByPeer(reason));
            }
        }
        Ok(())
    }

    fn on_symbol(&mut self, now: Time, body: &[u8]) -> Result<(), Misbehaviour> {
        let (header, symbol) = SymbolHeader::parse(body)?;
        let number = header.block.stream;
        if number != CONTROL_STREAM {
            self.on_peer_stream(number)?;
        }
        let progress = self.receiver.on_symbol(now, &header, symbol)?;
        self.on_progress(now, progress)
    }

    fn on_progress(&mut self, now: Time, progress: Progress) -> Result<(), Misbehaviour> {
        if progress == Progress::Complete(CONTROL_STREAM) {
            return self.read_control(now);
        }
        self.tell_reader(progress);
        Ok(())
    }

    fn on_peer_stream(&mut self, number: u32) -> Result<(), Misbehaviour> {
        for number in self.streams.on_peer_stream(number)? {
            self.begin_stream(number);
            let stream = self.stream_id(number);
            self.events.push_back(Event::StreamOpened { stream });
        }
        Ok(())
    }

    fn on_report(&mut self, now: Time, report: &Report) -> Result<(), Misbehaviour> {
        if !self.sender.is_plausible(report) {
            return Err(Misbehaviour::FalseReport);
        }
        // Each report comes twice, and the second copy tells nothing.
        if !self.sender.is_news(report) {
            return Ok(());
        }
        for entry in &report.paths {
            if let Some(path) = self.paths.iter_mut().find(|path| path.id.0 == entry.path) {
                path.on_report(now, entry, report.sent_us)?;
            }
        }
        self.couple_rates(now);
        self.judge_paths(now, report.sent_us);
        let loss = self.mean_loss();
        let paths = &self.paths;
        let fate = |id, sent| {
            paths.iter().find(|path| path.id == id).map_or(FlightFate::Over, |path| fate(now, path, sent))
        };
        for number in self.sender.on_report(now, report, fate, loss) {
            self.sending_over(now, number);
        }
        self.write_control(now);
        Ok(())
    }

    /// Takes silent paths out of the schedule, now that the peer has sent a report at `sent_us` of its clock.
    ///
    /// A quarter of the silence is enough for suspicion: a path under suspicion gets no repair and no new bulk blocks, and
    /// what flies on it counts as lost if it is itself silent.
    fn judge_paths(&mut self, now: Time, sent_us: u64) {
        let liveness = &self.config.liveness;
        let verdicts = |paths: &[Path], silence, with_bursts| {
            let evidence = paths.iter().map(|path| path.evidence(now, sent_us, silence, with_bursts));
            judge(&evidence.collect::<Vec<Evidence<'_>>>(), liveness.doubt)
        };
        let dead = verdicts(&self.paths, liveness.silence, true);
        let suspected = verdicts(&self.paths, liveness.silence / SUSPICION, false);
        for ((path, dead), suspicion) in self.paths.iter_mut().zip(dead).zip(suspected) {
            if !path.is_live() {
                continue;
            }
            if dead == Suspicion::Silent {
                path.found_dead(now, liveness);
            } else if liveness.removal {
                path.suspect(now, suspicion);
            }
            if !path.is_live() {
                self.sender.on_path_death(path.id);
            }
        }
    }

    fn read_control(&mut self, now: Time) -> Result<(), Misbehaviour> {
        while let Some(Read::Data { bytes, .. }) = self.receiver.read(CONTROL_STREAM, usize::MAX) {
            self.control_input.extend_from_slice(&bytes);
        }
        self.receiver.next_credit(CONTROL_STREAM);
        let mut taken = 0;
        while let Some((message, length)) = StreamControl::take(&self.control_input[taken..])? {
            taken += length;
            self.on_control(now, message)?;
        }
        self.control_input.drain(..taken);
        Ok(())
    }

    fn on_control(&mut self, now: Time, message: StreamControl) -> Result<(), Misbehaviour> {
        match message {
            StreamControl::Credit { stream, limit } => {
                if let Some(stream) = self.sender.stream(stream) {
                    stream.grant(limit);
                }
            }
            StreamControl::Reset { stream: number, code } => {
                self.on_peer_stream(number)?;
                if self.streams.is_open(number) {
                    let stream = self.stream_id(number);
                    self.events.push_back(Event::StreamReset { stream, code });
                    self.drop_stream(now, number);
                }
            }
            StreamControl::Abandon { block: id, stream, offset, length, last } => {
                self.on_peer_stream(stream)?;
                // The codec does not matter any more.
                let header = BlockHeader { id, stream, offset, length, last, codec: Codec::ReedSolomon };
                let progress = self.receiver.abandon(&header)?;
                self.tell_reader(progress);
            }
            StreamControl::StreamLimit { count } => {
                self.streams.allow(count);
                if std::mem::take(&mut self.opener_waits) {
                    self.events.push_back(Event::StreamsAvailable { session: self.id });
                }
            }
        }
        Ok(())
    }
}

fn note_arrival(now: Time, path: &mut Path, number: u64) {
    let received = &mut path.received;
    received.window.mark(number);
    received.count += 1;
    received.last_heard = now;
    if received.highest.is_none_or(|highest| number > highest) {
        (received.highest, received.highest_at) = (Some(number), now);
    }
    path.counters.packets_received += 1;
}

/// What is known of packets that left on `path` at `sent`.
fn fate(now: Time, path: &Path, sent: Time) -> FlightFate {
    if !path.is_live() || path.suspicion == Suspicion::Silent || now.since(sent) > path.loss_timeout() {
        return FlightFate::Over;
    }
    path.known_up_to().map_or(FlightFate::Flying, FlightFate::KnownUpTo)
}
