//! The exchange of a write: ranks send what aggregators ask for, aggregators write the union of what came.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::super::board::Board;
use super::super::group::Rank;
use super::super::message::Body;
use super::super::payload::{Codecs, Kind, Packed};
use super::super::pieces::{Pieces, PiecesBuilder};
use super::rounds::{Planner, Round};
use super::{Buffers, Data, Fault, FileWork, Outgoing, Shares, Turn, WorkId, is_counted, whole_file};
use crate::request::{Cursor, Staging, SubfileAccess, WriteList, gather};

/// The part of one rank in the exchange of a write.
#[derive(Debug)]
pub(in super::super) struct WriteExchange {
    sender: Sender,
    collector: Option<Collector>,
}

/// Sends this rank's bytes.
#[derive(Debug)]
pub(in super::super) struct Sender {
    list: WriteList,
    access: Option<SubfileAccess>,
    staging: Staging,
    shares: Shares,
}

/// What an aggregator collects.
#[derive(Debug)]
struct Collector {
    planner: Planner,
    buffers: Buffers,
    /// Rounds that were granted and are not complete.
    filling: VecDeque<Filling>,
    /// How many rounds are being written.
    writing: usize,
    rounds: u64,
    is_failed: bool,
}

/// A round that is being collected.
#[derive(Debug)]
struct Filling {
    round: Round,
    arrived: Vec<Option<Bytes>>,
    awaited: usize,
}

impl Sender {
    /// What one rank writes; nothing of it belongs to a domain yet.
    pub(in super::super) fn new(mut list: WriteList) -> Sender {
        let (one, holders) = whole_file();
        let access = list.take_accesses(one, &holders).pop();
        Sender { list, access, staging: Staging::default(), shares: Shares::default() }
    }

    /// What the rank has, as run tables: stage 1. Where pieces of its list overlap, the later one counts.
    pub(in super::super) fn pieces(&self) -> Pieces {
        pieces_of(self.access.as_ref())
    }

    /// The list, for a rank that writes it by itself.
    pub(in super::super) fn into_list(self) -> WriteList {
        self.list
    }

    /// What of it belongs to the domain of each rank.
    fn share_out(&mut self, parts: &[Pieces]) {
        self.shares = Shares::of(parts);
    }

    /// The bytes of the domain of an aggregator that lie before `until` and were not taken before.
    fn take(&mut self, aggregator: Rank, until: u64) -> Vec<u8> {
        let Sender { list, access, staging, shares } = self;
        let (Some(access), Some(walk)) = (access, shares.walk(aggregator)) else { return Vec::new() };
        let mut taken = Vec::new();
        while let Some(piece) = walk.cut(until) {
            let mut cursor = access.cursor_at(piece.offset());
            let mut left = piece.length();
            while left > 0 {
                let bytes = gather(access, list, cursor, left, staging);
                taken.extend_from_slice(bytes);
                let length = bytes.len() as u64;
                access.advance(&mut cursor, length);
                left -= length;
            }
        }
        taken
    }
}

/// The pieces of a list that was planned for the file as a whole.
pub(super) fn pieces_of(access: Option<&SubfileAccess>) -> Pieces {
    let (mut builder, mut cursor) = (PiecesBuilder::default(), Cursor::default());
    while let Some(batch) = access.and_then(|access| access.next_batch(&mut cursor, u64::MAX)) {
        batch.runs.runs().flat_map(|run| run.extents()).for_each(|extent| builder.push(extent));
    }
    builder.finish()
}

impl WriteExchange {
    /// The exchange of a rank of which `parts` belong to the domains of each rank; an aggregator has what each rank has
    /// of its own domain.
    pub(in super::super) fn new(
        mut sender: Sender,
        parts: &[Pieces],
        collected: Option<Vec<Pieces>>,
        buffers: Buffers,
    ) -> WriteExchange {
        sender.share_out(parts);
        let collector = collected.map(|pieces| Collector {
            planner: Planner::new(pieces.into_iter(), buffers.bytes),
            buffers,
            filling: VecDeque::new(),
            writing: 0,
            rounds: 0,
            is_failed: false,
        });
        WriteExchange { sender, collector }
    }

    pub(super) fn turn(
        &mut self,
        board: &mut Board,
        out: &mut Outgoing<'_>,
        codecs: &mut Codecs<'_>,
    ) -> Result<Turn, Fault> {
        if let Some((aggregator, until)) = board.next_grant() {
            self.answer(aggregator, until, out, codecs)?;
            return Ok(Turn::Worked);
        }
        let Some(collector) = &mut self.collector else { return Ok(Turn::Waits) };
        if let Some((from, data)) = board.next_data() {
            collector.take(from, data, codecs).map_err(|fault| (from, fault))?;
            return Ok(Turn::Worked);
        }
        if let Some((until, owners)) = collector.grant() {
            for owner in owners {
                match is_counted(out, owner) {
                    true => out.send(owner, &Body::Grant { until }, &[]),
                    false => board.note(owner, Body::Grant { until }, Bytes::new()),
                }
            }
            return Ok(Turn::Worked);
        }
        let full = collector.filling.len();
        Ok(match collector.next_full() {
            Some(list) => Turn::Work(WorkId(collector.rounds), FileWork::Write(list)),
            // What was thrown away has made room for a grant.
            None if collector.filling.len() < full => Turn::Worked,
            None => Turn::Waits,
        })
    }

    /// Sends an aggregator what it has asked for.
    fn answer(
        &mut self,
        aggregator: Rank,
        until: u64,
        out: &mut Outgoing<'_>,
        codecs: &mut Codecs<'_>,
    ) -> Result<(), Fault> {
        let bytes = Bytes::from(self.sender.take(aggregator, until));
        if is_counted(out, aggregator) {
            out.tally.exchanged += bytes.len() as u64;
            let Packed { format, bytes } = codecs.pack(Kind::Data, bytes);
            out.send(aggregator, &Body::Data { until, missing: Vec::new(), format }, &bytes);
            return Ok(());
        }
        let data = Data { until, missing: Vec::new(), packed: Packed::plain(bytes) };
        let taken = self.collector.as_mut().map(|collector| collector.take(aggregator, data, codecs));
        taken.unwrap_or(Ok(())).map_err(|fault| (aggregator, fault))
    }

    /// A round has been written, or could not be: then nothing more is, and the rest is collected and thrown away, so
    /// that no rank waits for a grant for ever.
    pub(in super::super) fn written(&mut self, is_failed: bool) {
        if let Some(collector) = &mut self.collector {
            collector.writing -= 1;
            collector.is_failed |= is_failed;
        }
    }

    pub(super) fn is_finished(&self) -> bool {
        let has_collected = |collector: &Collector| {
            collector.planner.is_finished() && collector.filling.is_empty() && collector.writing == 0
        };
        self.sender.shares.is_finished() && self.collector.as_ref().is_none_or(has_collected)
    }

    pub(super) fn waits_for_the_file(&self) -> bool {
        let is_writing = |collector: &Collector| collector.writing > 0 && collector.filling.is_empty();
        self.collector.as_ref().is_some_and(is_writing)
    }

    pub(super) fn rounds(&self) -> u64 {
        self.collector.as_ref().map_or(0, |collector| collector.rounds)
    }
}

impl Collector {
    /// Asks for a further round, if there is a buffer for it: up to which offset, and whom.
    fn grant(&mut self) -> Option<(u64, Vec<Rank>)> {
        if self.filling.len() + self.writing >= self.buffers.count {
            return None;
        }
        let round = self.planner.next()?;
        let shares = round.shares();
        let owners = Rank::all(shares.len()).filter(|rank| shares[rank.index()] > 0).collect::<Vec<_>>();
        let until = round.until();
        self.filling.push_back(Filling { arrived: vec![None; shares.len()], awaited: owners.len(), round });
        Some((until, owners))
    }

    fn take(&mut self, from: Rank, data: Data, codecs: &mut Codecs<'_>) -> Result<(), String> {
        let is_awaited = |filling: &&mut Filling| {
            filling.round.until() == data.until && filling.arrived[from.index()].is_none()
        };
        let filling = self.filling.iter_mut().find(is_awaited);
        let filling =
            filling.ok_or_else(|| format!("it sent data up to {}, which nobody asked for", data.until))?;
        let bytes = codecs.unpack(data.packed, filling.round.shares()[from.index()])?;
        filling.arrived[from.index()] = Some(bytes);
        filling.awaited -= 1;
        Ok(())
    }

    /// What is to be written of a round that is complete.
    fn next_full(&mut self) -> Option<WriteList> {
        while let Some(index) = self.filling.iter().position(|filling| filling.awaited == 0) {
            let filling = self.filling.remove(index)?;
            self.rounds += 1;
            if !self.is_failed {
                self.writing += 1;
                return Some(filling.union());
            }
        }
        None
    }
}

impl Filling {
    /// The union of what came. Where ranks overlap, the highest one counts.
    fn union(self) -> WriteList {
        let mut memory = BytesMut::zeroed(self.round.union_bytes());
        for (rank, arrived) in self.arrived.iter().enumerate() {
            let mut rest = arrived.as_deref().unwrap_or_default();
            self.round.places(rank, |place, piece| {
                let (bytes, behind) = rest.split_at(piece.length() as usize);
                memory[place..place + bytes.len()].copy_from_slice(bytes);
                rest = behind;
            });
        }
        let list = WriteList::packed(self.round.regions(), memory.freeze());
        list.expect("the union of possible lists is possible, and its memory has its size")
    }
}
