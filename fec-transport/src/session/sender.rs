//! The sending side of a session: streams become blocks, blocks become symbols, and reports decide what is repaired.
//!
//! ```text
//! written ──form──▶ sending ──quotas used──▶ on the way ──report: complete──▶ gone
//!                                             │      ▲          deadline ──▶ abandoned
//!                                   rank too low     │ repair symbols sent
//!                                             ▼      │
//!                                             owing ─┘
//! ```
//! Urgent blocks (interactive, real-time, control) and bulk blocks wait in a lane each; urgent ones always go first.

mod batch;
mod choice;
mod demand;
mod forming;
mod lane;
mod repair;
mod streams;
mod turns;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::block::{SendBlock, Stock};
use super::delivery::{Delivery, DeliveryRecord};
use super::job::EncodeJob;
use super::paths::PathId;
use super::stream::{Class, SendStream};
use crate::config::Config;
use crate::crypto::random::Random;
use crate::limits::MAX_BLOCK_SPAN;
use crate::overlay::LinkId;
use crate::time::Time;
use crate::wire::report::Report;
use crate::wire::stream_control::{CONTROL_STREAM, StreamControl};
use crate::wire::symbol::{BlockHeader, Codec};
pub(crate) use batch::Batch;
use forming::Forming;
use lane::{Lane, Take};
use streams::SendStreams;

/// The sending side of a session.
#[derive(Debug)]
pub(crate) struct Sender {
    forming: Forming,
    /// How many blocks, and bytes of them, may be on the way at once.
    open_blocks: usize,
    send_memory: usize,
    streams: SendStreams,
    blocks: BTreeMap<u32, Box<SendBlock>>,
    /// Bytes of the blocks' sources.
    source_bytes: usize,
    next_block: u32,
    urgent: Lane,
    bulk: Lane,
    /// When real-time blocks are given up.
    deadlines: BTreeSet<(Time, u32)>,
    /// Blocks whose repair symbols may be made outside.
    to_encode: VecDeque<u32>,
    latest_report: Option<u32>,
    /// When the last symbol was sent or the last report brought news.
    last_activity: Time,
    tail_turns: u32,
    /// How often bulk was written when there was nothing left to send.
    idle_spells: u32,
    /// Blocks of control messages that are on the way.
    control_blocks: BTreeSet<u32>,
    /// How the blocks of data were acknowledged.
    acknowledged: DeliveryRecord,
    counters: SendCounters,
}

/// What became of the blocks and symbols that a session sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SendCounters {
    /// Source symbols.
    pub source_symbols: u64,
    /// Repair symbols of first sendings.
    pub redundancy_symbols: u64,
    /// Symbols that were sent because a block lacked some.
    pub repair_symbols: u64,
    /// Blocks formed.
    pub blocks: u64,
    /// Blocks that were repaired at least once.
    pub repaired_blocks: u64,
    /// Rounds of repair over all blocks.
    pub repair_rounds: u64,
    /// Real-time blocks that were given up.
    pub abandoned_blocks: u64,
}

/// What the sender knows of a path in the schedule.
#[derive(Debug, Clone)]
pub(crate) struct LivingPath {
    pub(crate) id: PathId,
    /// The share of the flow that the plan gives it.
    pub(crate) planned_share: f64,
    /// In bit/s.
    pub(crate) rate: f64,
    /// When no queue stands.
    pub(crate) round_trip: Duration,
    pub(crate) loss: f64,
    pub(crate) dispersion: f64,
    /// Whether nothing speaks for its being dead; all are trusted if something speaks for that of each.
    pub(crate) is_trusted: bool,
    pub(crate) links: Vec<LinkId>,
}

impl Sender {
    pub(crate) fn new(config: &Config, now: Time) -> Sender {
        Sender {
            forming: Forming::new(&config.coding),
            open_blocks: config.limits.open_blocks,
            send_memory: config.limits.send_memory,
            streams: SendStreams::new(SendStream::new(u64::MAX, Class::Interactive)),
            blocks: BTreeMap::new(),
            source_bytes: 0,
            next_block: 0,
            urgent: Lane::new(lane::URGENT_SENDING),
            bulk: Lane::new(match config.coding.bulk.mask {
                0 => lane::BULK_SENDING,
                _ => lane::MASKED_SENDING,
            }),
            deadlines: BTreeSet::new(),
            to_encode: VecDeque::new(),
            latest_report: None,
            last_activity: now,
            tail_turns: 0,
            idle_spells: 0,
            control_blocks: BTreeSet::new(),
            acknowledged: DeliveryRecord::default(),
            counters: SendCounters::default(),
        }
    }

    /// What the peer has acknowledged; a pause counts only while there was data on the way.
    pub(crate) fn acknowledged(&self) -> &Delivery {
        self.acknowledged.so_far()
    }

    pub(crate) fn counters(&self) -> SendCounters {
        self.counters
    }

    /// The links that carry too large a share of the latest masked blocks to be masked.
    pub(crate) fn unmaskable(&self) -> BTreeSet<LinkId> {
        self.forming.unmaskable()
    }

    /// Bytes of memory for what was written and is not acknowledged.
    pub(crate) fn memory(&self) -> usize {
        self.buffered() + self.blocks.values().map(|block| block.memory()).sum::<usize>()
    }

    /// Bytes of all streams that wait to become blocks.
    pub(crate) fn buffered(&self) -> usize {
        self.streams.buffered()
    }

    /// The same and those that became blocks and are on their way: what was written and is not acknowledged.
    pub(crate) fn held(&self) -> usize {
        self.buffered() + self.source_bytes
    }

    pub(crate) fn open(&mut self, stream: u32, credit: u64) {
        self.streams.open(stream, SendStream::new(credit, Class::Bulk));
    }

    pub(crate) fn stream(&self, stream: u32) -> Option<&SendStream> {
        self.streams.get(stream)
    }

    /// Changes a stream; gives what `change` does, or nothing if there is no such stream.
    pub(crate) fn change<T>(&mut self, stream: u32, change: impl FnOnce(&mut SendStream) -> T) -> Option<T> {
        let was_idle = self.is_idle();
        let result = self.streams.change(stream, change);
        if was_idle && self.buffers_bulk() {
            self.idle_spells = self.idle_spells.wrapping_add(1);
        }
        result
    }

    /// Whether there is nothing to send, and no writer waits to write more.
    fn is_idle(&self) -> bool {
        !self.has_unsent_blocks() && self.buffered() == 0 && !self.has_waiting_writers()
    }

    /// Whether any bulk waits to become blocks.
    fn buffers_bulk(&self) -> bool {
        self.streams.filled().any(|stream| !stream.class().is_urgent())
    }

    /// How often bulk was written when there was nothing left to send. The pause before it is the writer's, and tells
    /// nothing of what a path carries. Messages do not count: rates that double on their account leave room for more
    /// copies than the links carry.
    pub(crate) fn idle_spells(&self) -> u32 {
        self.idle_spells
    }

    pub(crate) fn close(&mut self, stream: u32) {
        self.streams.close(stream);
    }

    /// The blocks of a stream that are on their way keep nothing of its writer's memory.
    pub(crate) fn detach(&mut self, stream: u32) {
        // Of most streams that are reset nothing is: they have only received.
        if self.streams.get(stream).is_some_and(|stream| stream.has_blocks()) {
            let its = self.blocks.values_mut().filter(|block| block.header().stream == stream);
            its.for_each(|block| block.detach());
        }
    }

    /// Bytes of the control stream that wait or are on the way.
    pub(crate) fn control_backlog(&self) -> u64 {
        let Some(control) = self.streams.get(CONTROL_STREAM) else { return 0 };
        let oldest = self.control_blocks.first().and_then(|id| self.blocks.get(id));
        let flying = oldest.map_or(0, |oldest| control.formed() - oldest.header().offset);
        flying + control.buffered() as u64
    }

    /// Whether there is a symbol to send now, if the session's paths have `rate` bit/s together.
    pub(crate) fn has_symbols(&self, now: Time, rate: f64) -> bool {
        self.has_unsent_blocks() || self.can_form(now, rate)
    }

    /// Whether a block that there is has symbols to send.
    fn has_unsent_blocks(&self) -> bool {
        self.urgent.is_busy() || self.bulk.is_busy()
    }

    /// Whether a block can be formed now, if the session's paths have `rate` bit/s together.
    pub(crate) fn can_form(&self, now: Time, rate: f64) -> bool {
        self.next_stream(now, rate, true).is_some() || self.next_stream(now, rate, false).is_some()
    }

    /// Whether one of the blocks that there are has a symbol for `path`; one that is not trusted gets its quotas only.
    pub(crate) fn has_symbols_for(&self, path: PathId, is_trusted: bool) -> bool {
        let takes_over = is_trusted && self.forming.may_take_over() && self.bulk.is_busy();
        let has = |lane: &Lane| lane.has(&self.blocks, path) || is_trusted && lane.owes_any();
        takes_over || has(&self.urgent) || has(&self.bulk)
    }

    /// When [`can_form`](Self::can_form) may become true by itself.
    pub(crate) fn forms_at(&self) -> Option<Time> {
        if !self.may_open_block() {
            return None;
        }
        let timer = |stream: &SendStream| self.forming.protection(stream.class()).block_timer;
        self.streams.filled().filter_map(|stream| stream.forms_at(timer(stream))).min()
    }

    /// Whether any writer was told to wait.
    pub(crate) fn has_waiting_writers(&self) -> bool {
        self.streams.are_awaited()
    }

    /// The streams whose writers wait although their buffers are filled to less than `level`; they wait no more.
    pub(crate) fn take_relieved(&mut self, level: usize) -> Vec<u32> {
        self.streams.take_relieved(level)
    }

    /// Chooses the next symbols for `path`, all of one block. Urgent blocks come before bulk; within a lane the oldest
    /// block comes first, of it what is owed and then the path's quota, then a new block, and when there is none, and
    /// the policy allows it, what another path has not got round to. A path that is not trusted gets the quotas that it
    /// has and nothing else.
    ///
    /// `room` says how many symbols of a size there is room for. Where there is none, no others are chosen instead.
    pub(crate) fn choose(
        &mut self,
        now: Time,
        path: PathId,
        paths: &[LivingPath],
        room: &dyn Fn(usize) -> usize,
        random: &mut Random,
    ) -> Option<Batch<'_>> {
        let mut taken = self.take(now, true, path, paths, room, random);
        if taken == Take::Nothing {
            taken = self.take(now, false, path, paths, room, random);
        }
        let Take::Symbols(id, count) = taken else { return None };
        self.last_activity = now;
        let block = self.blocks.get_mut(&id)?;
        Some(Batch::new(block, &mut self.counters, count))
    }

    fn take(
        &mut self,
        now: Time,
        urgent: bool,
        path: PathId,
        paths: &[LivingPath],
        room: &dyn Fn(usize) -> usize,
        random: &mut Random,
    ) -> Take {
        let is_trusted = paths.iter().any(|living| living.id == path && living.is_trusted);
        loop {
            let lane = if urgent { &mut self.urgent } else { &mut self.bulk };
            let taken = lane.take(&mut self.blocks, Some(path), room, is_trusted);
            if taken != Take::Nothing || !is_trusted {
                return taken;
            }
            if !self.form_block(now, urgent, paths, random) {
                break;
            }
        }
        if !urgent && self.forming.may_take_over() {
            return self.bulk.take(&mut self.blocks, None, room, true);
        }
        Take::Nothing
    }

    /// Whether blocks are on the way whose symbols have more bytes than that.
    pub(crate) fn has_blocks_of_more_than(&self, bytes: usize) -> bool {
        self.blocks.values().any(|block| block.geometry().symbol_size > bytes)
    }

    /// Blocks have symbols of at most so many bytes from now on.
    pub(crate) fn set_symbol_size(&mut self, bytes: usize) {
        self.forming.set_symbol_size(bytes);
    }

    /// The stream of that urgency whose turn it is to form a block: control first, then the one that has waited
    /// longest.
    fn next_stream(&self, now: Time, rate: f64, urgent: bool) -> Option<u32> {
        let has_room = if urgent { self.urgent.has_room() } else { self.bulk.has_room() };
        if !has_room || !self.may_open_block() {
            return None;
        }
        // All streams of one urgency have the same blocks.
        let class = if urgent { Class::Interactive } else { Class::Bulk };
        let full = self.forming.full_block(class, rate).source_symbols * self.forming.symbol_size();
        let timer = self.forming.protection(class).block_timer;
        self.streams.next(urgent, |stream| stream.can_form(now, full, timer))
    }

    /// Forms the next block of that urgency; false if there is none to form.
    fn form_block(&mut self, now: Time, urgent: bool, paths: &[LivingPath], random: &mut Random) -> bool {
        let rate = forming::total_rate(paths);
        let Some(number) = self.next_stream(now, rate, urgent) else { return false };
        let Some(class) = self.streams.get(number).map(|stream| stream.class()) else { return false };
        let (full, largest) = (self.forming.full_block(class, rate), self.forming.symbol_size());
        let form = |stream: &mut SendStream| (stream.form(now, full, largest), stream.buffered() == 0);
        let Some((formed, is_message)) = self.streams.change(number, form) else { return false };
        let header = BlockHeader {
            id: self.next_block,
            stream: number,
            offset: formed.offset,
            length: formed.length as u32,
            last: formed.last,
            codec: formed.geometry.codec,
        };
        let mut block = SendBlock::new(header, formed.geometry, formed.source, class, now);
        if urgent {
            self.forming.note_demand(now, formed.geometry);
        }
        let backlog = |path| self.bulk.backlog(&self.blocks, path);
        block.share_out(self.forming.quotas(&block, paths, is_message, backlog, random));
        self.enter(now, block);
        self.streams.note_served(number);
        true
    }

    /// Puts a block on its way.
    fn enter(&mut self, now: Time, block: SendBlock) {
        let id = block.header().id;
        if block.header().stream == CONTROL_STREAM {
            self.control_blocks.insert(id);
        } else if !self.has_data_under_way() {
            self.acknowledged.resume(now);
        }
        if let Some(at) = block.class().deadline(now) {
            self.deadlines.insert((at, id));
        }
        let repairs = block.unsent() > block.source_symbols();
        if repairs && block.geometry().codec == Codec::RaptorQ {
            self.to_encode.push_back(id);
        }
        if block.class() == Class::Bulk {
            self.forming.note_expansion(&block);
        }
        self.source_bytes += block.source_bytes();
        self.counters.blocks += 1;
        self.lane(block.class()).begin(id);
        self.blocks.insert(id, Box::new(block));
        self.next_block += 1;
    }

    /// Whether a block of data, not of control, is on the way.
    fn has_data_under_way(&self) -> bool {
        self.blocks.len() > self.control_blocks.len()
    }

    /// Whether nothing that was sent waits for its acknowledgement.
    pub(crate) fn is_all_acknowledged(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Whether all block numbers were given: after 43 hours of Reed–Solomon blocks at 10 Gbit/s.
    pub(crate) fn is_used_up(&self) -> bool {
        self.next_block == u32::MAX
    }

    #[cfg(test)]
    pub(in crate::session) fn use_up(&mut self) {
        self.next_block = u32::MAX;
    }

    fn may_open_block(&self) -> bool {
        let oldest = self.blocks.first_key_value().map_or(self.next_block, |(id, _)| *id);
        !self.is_used_up()
            && self.blocks.len() < self.open_blocks
            && self.next_block - oldest < MAX_BLOCK_SPAN
            && self.source_bytes < self.send_memory
    }

    /// Whether no later report has been taken; what a report says includes what earlier ones said.
    pub(crate) fn is_news(&self, report: &Report) -> bool {
        self.latest_report.is_none_or(|latest| report.sequence > latest)
    }

    /// Whether the report speaks of blocks that were sent.
    pub(crate) fn is_plausible(&self, report: &Report) -> bool {
        report.floor <= self.next_block
            && report.floor as usize + report.blocks.ranks.len() <= self.next_block as usize
    }

    /// The paths' shares of the first sending that a dead path has not carried go to the others.
    pub(crate) fn on_path_death(&mut self, path: PathId) {
        self.urgent.on_path_death(&mut self.blocks, path);
        self.bulk.on_path_death(&mut self.blocks, path);
    }

    /// When the next real-time block is given up.
    pub(crate) fn expires_at(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Gives up the next real-time block whose deadline has passed: what to tell the peer, and its stream if everything
    /// else of it has been delivered.
    pub(crate) fn abandon_next(&mut self, now: Time) -> Option<(StreamControl, Option<u32>)> {
        let (_, id) = *self.deadlines.first().filter(|(at, _)| *at <= now)?;
        let header = self.blocks.get(&id)?.header();
        self.counters.abandoned_blocks += 1;
        let finished = self.forget(id);
        let message = StreamControl::Abandon {
            block: id,
            stream: header.stream,
            offset: header.offset,
            length: header.length,
            last: header.last,
        };
        Some((message, finished))
    }

    /// Whether there may be a block whose repair symbols are to be made outside.
    pub(crate) fn has_jobs(&self) -> bool {
        !self.to_encode.is_empty()
    }

    /// The next block whose repair symbols may be made outside.
    pub(crate) fn poll_job(&mut self) -> Option<EncodeJob> {
        loop {
            let id = self.to_encode.pop_front()?;
            if let Some(block) = self.blocks.get(&id) {
                let (first, count) = block.unsent_repairs();
                let (geometry, source) = (block.geometry(), block.source());
                return Some(EncodeJob { block: id, geometry, source, first, count });
            }
        }
    }

    /// The repair symbols of a block were made.
    pub(crate) fn on_encoded(&mut self, block: u32, stock: Stock) {
        if let Some(block) = self.blocks.get_mut(&block) {
            block.supplied(stock);
        }
    }

    /// Forgets a block that the peer has; gives its stream if that is now delivered whole.
    fn complete(&mut self, now: Time, id: u32) -> Option<u32> {
        let header = self.blocks.get(&id)?.header();
        if header.stream != CONTROL_STREAM {
            self.acknowledged.note(now, header.length);
        }
        self.forget(id)
    }

    fn forget(&mut self, id: u32) -> Option<u32> {
        let block = self.blocks.remove(&id)?;
        self.source_bytes -= block.source_bytes();
        self.control_blocks.remove(&id);
        self.lane(block.class()).forget(id);
        if let Some(at) = block.class().deadline(block.formed()) {
            self.deadlines.remove(&(at, id));
        }
        let number = block.header().stream;
        let is_delivered = self.streams.change(number, |stream| {
            stream.block_over();
            stream.is_delivered()
        })?;
        is_delivered.then_some(number)
    }

    fn lane(&mut self, class: Class) -> &mut Lane {
        if class.is_urgent() { &mut self.urgent } else { &mut self.bulk }
    }
}

#[cfg(test)]
mod tests;
