//! The exchange of a read: aggregators read the union of what the ranks want, and hand it out.

use std::collections::VecDeque;

use bytes::Bytes;

use super::super::board::Board;
use super::super::group::Rank;
use super::super::message::Body;
use super::super::payload::{Codecs, Kind, Packed};
use super::super::pieces::Pieces;
use super::rounds::{Planner, Round};
use super::write::pieces_of;
use super::{Buffers, Data, Fault, FileWork, Outgoing, Shares, Turn, WorkId, is_counted, whole_file};
use crate::distribution::{Extent, Region};
use crate::request::{ListError, ReadBuffer, ReadList, RegionsRead, SubfileAccess};

/// The part of one rank in the exchange of a read.
#[derive(Debug)]
pub(in super::super) struct ReadExchange {
    receiver: Receiver,
    distributor: Option<Distributor>,
}

/// Takes what this rank wants.
#[derive(Debug)]
pub(in super::super) struct Receiver {
    buffer: ReadBuffer,
    access: Option<SubfileAccess>,
    shares: Shares,
    /// Ranges that the file does not have.
    missing: Vec<(u64, u64)>,
}

/// What an aggregator hands out.
#[derive(Debug)]
struct Distributor {
    planner: Planner,
    buffers: Buffers,
    /// Rounds that are being read, in their order; each with what was read, if it has come.
    reading: VecDeque<(WorkId, Round, Option<RegionsRead>)>,
    rounds: u64,
    is_failed: bool,
}

impl Receiver {
    /// What one rank wants to read, with memory of at most `limit` bytes for it.
    pub(in super::super) fn new(mut list: ReadList, limit: u64) -> Result<Receiver, ListError> {
        let (one, holders) = whole_file();
        let access = list.take_accesses(one, &holders).pop();
        let buffer = ReadBuffer::new(list, limit)?;
        Ok(Receiver { buffer, access, shares: Shares::default(), missing: Vec::new() })
    }

    /// What the rank wants, as run tables: stage 1.
    pub(in super::super) fn pieces(&self) -> Pieces {
        pieces_of(self.access.as_ref())
    }

    /// The list, for a rank that reads it by itself.
    pub(in super::super) fn into_list(self) -> ReadList {
        self.buffer.into_list()
    }

    fn share_out(&mut self, parts: &[Pieces]) {
        self.shares = Shares::of(parts);
    }

    /// Takes what an aggregator has read of its domain, up to an offset.
    fn take(&mut self, aggregator: Rank, data: Data, codecs: &mut Codecs<'_>) -> Result<(), String> {
        let Receiver { buffer, access, shares, missing } = self;
        let (Some(access), Some(walk)) = (access, shares.walk(aggregator)) else {
            return Err("it sent data that nobody wanted".to_owned());
        };
        let expected = walk.clone().skip(data.until);
        let bytes = codecs.unpack(data.packed, expected)?;
        let mut rest = &bytes[..];
        while let Some(piece) = walk.cut(data.until) {
            let (of_piece, behind) = rest.split_at(piece.length() as usize);
            access.scatter(buffer, &mut access.cursor_at(piece.offset()), of_piece);
            rest = behind;
        }
        missing.extend(data.missing);
        Ok(())
    }

    /// The regions as they were read; each is cut at the first byte that the file does not have.
    pub(in super::super) fn finish(mut self) -> RegionsRead {
        if let Some(access) = &self.access {
            access.fill_overlaps(&mut self.buffer);
        }
        let missing = self.missing;
        self.buffer.finish(|region| present_length(region, &missing))
    }
}

/// How much of a region lies before its first byte that is missing.
fn present_length(region: Region, missing: &[(u64, u64)]) -> u64 {
    let within = missing.iter().filter(|(start, end)| *start < region.end() && *end > region.offset());
    let first = within.map(|(start, _)| (*start).max(region.offset())).min();
    first.unwrap_or(region.end()) - region.offset()
}

impl ReadExchange {
    /// The exchange of a rank that wants `parts` of the domains of each rank; an aggregator has what each rank wants of
    /// its own domain.
    pub(in super::super) fn new(
        mut receiver: Receiver,
        parts: &[Pieces],
        wanted: Option<Vec<Pieces>>,
        buffers: Buffers,
    ) -> ReadExchange {
        receiver.share_out(parts);
        let distributor = wanted.map(|pieces| Distributor {
            planner: Planner::new(pieces.into_iter(), buffers.bytes),
            buffers,
            reading: VecDeque::new(),
            rounds: 0,
            is_failed: false,
        });
        ReadExchange { receiver, distributor }
    }

    pub(super) fn turn(
        &mut self,
        board: &mut Board,
        out: &mut Outgoing<'_>,
        codecs: &mut Codecs<'_>,
    ) -> Result<Turn, Fault> {
        if let Some((from, data)) = board.next_data() {
            self.receiver.take(from, data, codecs).map_err(|fault| (from, fault))?;
            return Ok(Turn::Worked);
        }
        let Some(distributor) = &mut self.distributor else { return Ok(Turn::Waits) };
        if let Some((work, list)) = distributor.next_read() {
            return Ok(Turn::Work(work, FileWork::Read(list)));
        }
        let Some((round, read)) = distributor.next_done() else { return Ok(Turn::Waits) };
        self.hand_out(&round, &read, out, codecs).map_err(|fault| (out.me(), fault))?;
        Ok(Turn::Worked)
    }

    /// Sends each rank what it wants of a round.
    fn hand_out(
        &mut self,
        round: &Round,
        read: &RegionsRead,
        out: &mut Outgoing<'_>,
        codecs: &mut Codecs<'_>,
    ) -> Result<(), String> {
        let (memory, missing) = union_of(round, read);
        let until = round.until();
        for to in Rank::all(round.shares().len()).filter(|rank| round.shares()[rank.index()] > 0) {
            let mut bytes = Vec::with_capacity(round.shares()[to.index()] as usize);
            let copy = |place: usize, piece: Extent| {
                bytes.extend_from_slice(&memory[place..place + piece.length() as usize]);
            };
            round.places(to.index(), copy);
            let (bytes, missing) = (Bytes::from(bytes), missing.clone());
            if is_counted(out, to) {
                out.tally.exchanged += bytes.len() as u64;
                let Packed { format, bytes } = codecs.pack(Kind::Data, bytes);
                out.send(to, &Body::Data { until, missing, format }, &bytes);
            } else {
                let data = Data { until, missing, packed: Packed::plain(bytes) };
                self.receiver.take(to, data, codecs)?;
            }
        }
        Ok(())
    }

    /// A round has been read, or could not be: then zeros are handed out, so that no rank waits for ever, and the call
    /// fails on all of them.
    pub(in super::super) fn read(&mut self, work: WorkId, read: Option<RegionsRead>) {
        let Some(distributor) = &mut self.distributor else { return };
        distributor.is_failed |= read.is_none();
        if let Some((_, _, place)) = distributor.reading.iter_mut().find(|(id, ..)| *id == work) {
            *place = Some(read.unwrap_or_default());
        }
    }

    pub(in super::super) fn into_receiver(self) -> Receiver {
        self.receiver
    }

    pub(super) fn is_finished(&self) -> bool {
        let has_read = |of: &Distributor| of.planner.is_finished() && of.reading.is_empty();
        self.receiver.shares.is_finished() && self.distributor.as_ref().is_none_or(has_read)
    }

    pub(super) fn waits_for_the_file(&self) -> bool {
        self.distributor.as_ref().is_some_and(|distributor| !distributor.reading.is_empty())
    }

    pub(super) fn rounds(&self) -> u64 {
        self.distributor.as_ref().map_or(0, |distributor| distributor.rounds)
    }
}

impl Distributor {
    /// What is to be read next, if there is a buffer for it.
    fn next_read(&mut self) -> Option<(WorkId, ReadList)> {
        if self.reading.len() >= self.buffers.count {
            return None;
        }
        let round = self.planner.next()?;
        self.rounds += 1;
        let work = WorkId(self.rounds);
        if self.is_failed {
            self.reading.push_back((work, round, Some(RegionsRead::default())));
            return self.next_read();
        }
        let list = ReadList::new(round.regions()).expect("the union of possible lists is possible");
        self.reading.push_back((work, round, None));
        Some((work, list))
    }

    /// The first round, if it was read: they are handed out in their order.
    fn next_done(&mut self) -> Option<(Round, RegionsRead)> {
        let (_, _, read) = self.reading.front()?;
        read.as_ref()?;
        let (_, round, read) = self.reading.pop_front()?;
        Some((round, read?))
    }
}

/// The union of a round as one memory, and the ranges of the file that are missing there.
fn union_of(round: &Round, read: &RegionsRead) -> (Vec<u8>, Vec<(u64, u64)>) {
    let (mut memory, mut missing) = (Vec::with_capacity(round.union_bytes()), Vec::new());
    let mut regions = read.iter();
    for (offset, length) in round.regions() {
        let bytes = regions.next().unwrap_or_default();
        memory.extend_from_slice(bytes);
        if (bytes.len() as u64) < length {
            memory.resize(memory.len() + length as usize - bytes.len(), 0);
            missing.push((offset + bytes.len() as u64, offset + length));
        }
    }
    (memory, missing)
}
