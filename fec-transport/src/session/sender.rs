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
mod forming;
mod lane;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::block::{FlightFate, SendBlock};
use super::code::RepairSymbols;
use super::delivery::Delivery;
use super::job::EncodeJob;
use super::path::PathId;
use super::redundancy::{Redundancy, repair_symbols};
use super::spread::Spread;
use super::stream::{Class, SendStream};
use crate::config::{Coding, Config};
use crate::crypto::random::Random;
use crate::overlay::LinkId;
use crate::time::Time;
use crate::wire::report::Report;
use crate::wire::stream_control::StreamControl;
pub(crate) use batch::Batch;
use lane::{Lane, Take};

/// The stream of [`StreamControl`](crate::wire::stream_control::StreamControl) messages.
pub(crate) const CONTROL_STREAM: u32 = 0;
/// How far the newest block may be ahead of the oldest open one.
pub(crate) const MAX_BLOCK_SPAN: u32 = 8_192;
/// Blocks that one turn of the tail timer asks for.
const TAIL_BLOCKS: usize = 16;
/// The longest pause of the tail timer.
const MAX_TAIL_PAUSE: Duration = Duration::from_secs(2);

/// The sending side of a session.
#[derive(Debug)]
pub(crate) struct Sender {
    coding: Coding,
    open_blocks: usize,
    send_memory: usize,
    redundancy: Redundancy,
    spread: Spread,
    /// Symbols of the first sending of the latest bulk block over its source symbols.
    expansion: f64,
    /// The share of the paths' rate that the latest bulk block's quotas can use: the slowest path for its share sets the
    /// pace.
    usable: f64,
    streams: BTreeMap<u32, SendStream>,
    blocks: BTreeMap<u32, SendBlock>,
    /// Bytes of the blocks' sources.
    source_bytes: usize,
    next_block: u32,
    urgent: Lane,
    bulk: Lane,
    /// When real-time blocks are given up.
    deadlines: BTreeSet<(Time, u32)>,
    /// Blocks whose repair symbols may be prepared outside.
    to_prepare: VecDeque<u32>,
    /// The stream that formed the last block: they take turns.
    last_served: u32,
    latest_report: Option<u32>,
    /// When the last symbol was sent or the last report brought news.
    last_activity: Time,
    tail_turns: u32,
    /// Blocks of data, not of control, that are on the way, and how they were acknowledged.
    data_blocks: usize,
    acknowledged: Delivery,
    counters: SendCounters,
    /// Links that the latest masked block does not mask, of urgent blocks (true) and of bulk.
    unmaskable: BTreeMap<bool, Vec<LinkId>>,
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
    pub(crate) loss: f64,
    pub(crate) dispersion: f64,
    /// Whether nothing speaks for its being dead; all are trusted if something speaks for that of each.
    pub(crate) is_trusted: bool,
    pub(crate) links: Vec<LinkId>,
}

impl Sender {
    pub(crate) fn new(config: &Config, now: Time) -> Sender {
        Sender {
            redundancy: Redundancy::new(&config.coding),
            coding: config.coding.clone(),
            open_blocks: config.limits.open_blocks,
            send_memory: config.limits.send_memory,
            spread: Spread::default(),
            expansion: 1.0,
            usable: 1.0,
            streams: BTreeMap::from([(CONTROL_STREAM, SendStream::new(u64::MAX, Class::Interactive))]),
            blocks: BTreeMap::new(),
            source_bytes: 0,
            next_block: 0,
            urgent: Lane::new(lane::URGENT_SENDING),
            bulk: Lane::new(match config.coding.bulk.mask {
                0 => lane::BULK_SENDING,
                _ => lane::MASKED_SENDING,
            }),
            deadlines: BTreeSet::new(),
            to_prepare: VecDeque::new(),
            last_served: CONTROL_STREAM,
            latest_report: None,
            last_activity: now,
            tail_turns: 0,
            data_blocks: 0,
            acknowledged: Delivery::default(),
            counters: SendCounters::default(),
            unmaskable: BTreeMap::new(),
        }
    }

    /// What the peer has acknowledged; a pause counts only while there was data on the way.
    pub(crate) fn acknowledged(&self) -> &Delivery {
        &self.acknowledged
    }

    pub(crate) fn counters(&self) -> SendCounters {
        self.counters
    }

    /// The links that carry too large a share of the latest masked blocks to be masked.
    pub(crate) fn unmaskable(&self) -> BTreeSet<LinkId> {
        self.unmaskable.values().flatten().copied().collect()
    }

    /// Bytes of memory for what was written and is not acknowledged.
    pub(crate) fn memory(&self) -> usize {
        let waiting: usize = self.streams.values().map(SendStream::buffered).sum();
        waiting + self.blocks.values().map(SendBlock::memory).sum::<usize>()
    }

    pub(crate) fn open(&mut self, stream: u32, credit: u64) {
        self.streams.insert(stream, SendStream::new(credit, Class::Bulk));
    }

    pub(crate) fn stream(&mut self, stream: u32) -> Option<&mut SendStream> {
        self.streams.get_mut(&stream)
    }

    pub(crate) fn close(&mut self, stream: u32) {
        self.streams.remove(&stream);
    }

    /// Bytes of the control stream that wait or are on the way.
    pub(crate) fn control_backlog(&self) -> u64 {
        let control = &self.streams[&CONTROL_STREAM];
        let oldest = self.blocks.values().find(|block| block.header.stream == CONTROL_STREAM);
        let flying = oldest.map_or(0, |oldest| control.formed() - oldest.header.offset);
        flying + control.buffered() as u64
    }

    /// Whether there is a symbol to send now, if the session's paths have `rate` bit/s together.
    pub(crate) fn has_symbols(&self, now: Time, rate: f64) -> bool {
        self.urgent.is_busy() || self.bulk.is_busy() || self.can_form(now, rate)
    }

    /// Whether a block can be formed now, if the session's paths have `rate` bit/s together.
    pub(crate) fn can_form(&self, now: Time, rate: f64) -> bool {
        self.next_stream(now, rate, true).is_some() || self.next_stream(now, rate, false).is_some()
    }

    /// Whether one of the blocks that there are has a symbol for `path`; one that is not trusted gets its quotas only.
    pub(crate) fn has_symbols_for(&self, path: PathId, is_trusted: bool) -> bool {
        let takes_over = is_trusted && self.may_take_over() && self.bulk.is_busy();
        let has = |lane: &Lane| lane.has(&self.blocks, path) || is_trusted && lane.owes_any();
        takes_over || has(&self.urgent) || has(&self.bulk)
    }

    /// When [`can_form`](Self::can_form) may become true by itself.
    pub(crate) fn forms_at(&self) -> Option<Time> {
        if !self.may_open_block() {
            return None;
        }
        let timer = |stream: &SendStream| self.protection(stream.class).block_timer;
        self.streams.values().filter_map(|stream| stream.forms_at(timer(stream))).min()
    }

    /// The streams whose writers wait although their buffers are filled to less than `level`; they wait no more.
    pub(crate) fn take_relieved(&mut self, level: usize) -> Vec<u32> {
        let relieved =
            |stream: &mut SendStream| stream.buffered() <= level && std::mem::take(&mut stream.writer_waits);
        self.streams.iter_mut().filter_map(|(id, stream)| relieved(stream).then_some(*id)).collect()
    }

    /// Chooses the next symbols for `path`, all of one block. Urgent blocks come before bulk; within a lane the oldest
    /// block comes first, of it what is owed and then the path's quota, then a new block, and when there is none, and the
    /// policy allows it, what another path has not got round to. A path that is not trusted gets the quotas that it has
    /// and nothing else.
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
        Some(Batch { block, counters: &mut self.counters, count, first: None })
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
        if !urgent && self.may_take_over() {
            return self.bulk.take(&mut self.blocks, None, room, true);
        }
        Take::Nothing
    }

    /// Takes the block part of a report: `fate` tells what became of packets, `loss` is the paths' mean. Gives the
    /// streams that have been delivered whole.
    pub(crate) fn on_report(
        &mut self,
        now: Time,
        report: &Report,
        fate: impl Fn(PathId, Time) -> FlightFate,
        loss: f64,
    ) -> Vec<u32> {
        if self.latest_report.is_some_and(|latest| report.sequence <= latest) {
            return Vec::new();
        }
        self.latest_report = Some(report.sequence);
        let complete = self.completed_by(report);
        if !complete.is_empty() {
            (self.last_activity, self.tail_turns) = (now, 0);
        }
        let delivered = complete.into_iter().filter_map(|id| self.complete(now, id)).collect();
        self.repair(report, fate, loss);
        delivered
    }

    /// Whether the report speaks of blocks that were never sent.
    pub(crate) fn is_plausible(&self, report: &Report) -> bool {
        report.floor <= self.next_block
            && report.floor as usize + report.blocks.ranks.len() <= self.next_block as usize
    }

    /// The paths' shares of the first sending that a dead path has not carried go to the others.
    pub(crate) fn on_path_death(&mut self, path: PathId) {
        self.urgent.on_path_death(&mut self.blocks, path);
        self.bulk.on_path_death(&mut self.blocks, path);
    }

    /// When to assume that no report will come, if `pause` is the longest round trip with its deviation.
    pub(crate) fn tail_at(&self, now: Time, pause: Duration, rate: f64) -> Option<Time> {
        if self.blocks.is_empty() || self.has_symbols(now, rate) {
            return None;
        }
        Some(self.last_activity + (pause * (1 << self.tail_turns.min(8))).min(MAX_TAIL_PAUSE.max(pause)))
    }

    /// The tail timer: nothing was heard of the oldest blocks, so all that flies is taken for lost.
    pub(crate) fn on_tail(&mut self, now: Time, loss: f64) {
        self.tail_turns += 1;
        self.last_activity = now;
        let oldest: Vec<u32> = self.blocks.keys().take(TAIL_BLOCKS).copied().collect();
        for id in oldest {
            if let Some(block) = self.blocks.get_mut(&id) {
                block.settle(|_, _| FlightFate::Over);
                self.owe_deficit(id, loss);
            }
        }
    }

    /// When the next real-time block is given up.
    pub(crate) fn expires_at(&self) -> Option<Time> {
        self.deadlines.first().map(|(at, _)| *at)
    }

    /// Gives up the next real-time block whose deadline has passed: what to tell the peer, and its stream if everything
    /// else of it has been delivered.
    pub(crate) fn abandon_next(&mut self, now: Time) -> Option<(StreamControl, Option<u32>)> {
        let (_, id) = *self.deadlines.first().filter(|(at, _)| *at <= now)?;
        let header = self.blocks.get(&id)?.header;
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

    /// The next block whose repair symbols may be prepared outside.
    pub(crate) fn poll_job(&mut self) -> Option<EncodeJob> {
        loop {
            let id = self.to_prepare.pop_front()?;
            if let Some(block) = self.blocks.get(&id) {
                return Some(EncodeJob { block: id, geometry: block.geometry(), source: block.source() });
            }
        }
    }

    /// The repair symbols of a block were prepared.
    pub(crate) fn on_prepared(&mut self, block: u32, repair: Box<dyn RepairSymbols>) {
        if let Some(block) = self.blocks.get_mut(&block).filter(|block| block.has_symbols()) {
            block.prepared(repair);
        }
    }

    fn completed_by(&self, report: &Report) -> Vec<u32> {
        let ranks = &report.blocks.ranks;
        let described = self
            .blocks
            .range(report.floor..)
            .filter(|(id, _)| ranks.get((**id - report.floor) as usize).is_some_and(|rank| rank.is_none()));
        self.blocks.range(..report.floor).chain(described).map(|(id, _)| *id).collect()
    }

    /// Forgets a block that the peer has; gives its stream if that is now delivered whole.
    fn complete(&mut self, now: Time, id: u32) -> Option<u32> {
        let header = self.blocks.get(&id)?.header;
        if header.stream != CONTROL_STREAM {
            self.acknowledged.note(now, header.length);
        }
        self.forget(id)
    }

    fn forget(&mut self, id: u32) -> Option<u32> {
        let block = self.blocks.remove(&id)?;
        self.source_bytes -= block.source_bytes();
        if block.header.stream != CONTROL_STREAM {
            self.data_blocks -= 1;
        }
        self.lane(block.class).forget(id);
        if let Some(at) = block.class.deadline(block.formed) {
            self.deadlines.remove(&(at, id));
        }
        let stream = self.streams.get_mut(&block.header.stream)?;
        stream.open_blocks -= 1;
        stream.is_delivered().then_some(block.header.stream)
    }

    /// Lets every block that the report describes, and every later one, owe what it lacks.
    fn repair(&mut self, report: &Report, fate: impl Fn(PathId, Time) -> FlightFate, loss: f64) {
        let ranks = &report.blocks.ranks;
        let mut lacking = Vec::new();
        for (id, block) in self.blocks.range_mut(report.floor..) {
            match ranks.get((*id - report.floor) as usize) {
                Some(Some(rank)) => block.reported(*rank),
                Some(None) => {}
                None if report.blocks.cut => break,
                None => {}
            }
            block.settle(&fate);
            if block.deficit() > 0 {
                lacking.push(*id);
            }
        }
        lacking.into_iter().for_each(|id| self.owe_deficit(id, loss));
    }

    fn owe_deficit(&mut self, id: u32, loss: f64) {
        let Some(block) = self.blocks.get_mut(&id) else { return };
        let deficit = block.deficit();
        if deficit == 0 {
            return;
        }
        let symbols = repair_symbols(deficit, loss, block.repairs);
        block.owed = block.owed.saturating_add(u16::try_from(symbols).unwrap_or(u16::MAX));
        self.counters.repair_rounds += 1;
        self.counters.repaired_blocks += u64::from(block.repairs == 0);
        block.repairs = block.repairs.saturating_add(1);
        let class = block.class;
        self.lane(class).owes(id);
    }

    fn lane(&mut self, class: Class) -> &mut Lane {
        if class.is_urgent() { &mut self.urgent } else { &mut self.bulk }
    }
}

impl SendCounters {
    fn count(&mut self, encoding_id: u16, block: &SendBlock) {
        if block.repairs > 0 {
            self.repair_symbols += 1;
        } else if usize::from(encoding_id) < block.source_symbols() {
            self.source_symbols += 1;
        } else {
            self.redundancy_symbols += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::report::BlockReport;
    use crate::wire::symbol::SymbolHeader;

    const PATH: PathId = PathId(1);
    const RATE: f64 = 4e6;
    fn paths(count: u32) -> Vec<LivingPath> {
        let path = |id| LivingPath {
            id: PathId(id),
            planned_share: 1.0 / f64::from(count),
            rate: 4e6,
            loss: 0.02,
            dispersion: 1.0,
            is_trusted: true,
            links: Vec::new(),
        };
        (1..=count).map(path).collect()
    }

    fn choose<'a>(sender: &'a mut Sender, paths: &[LivingPath]) -> Option<Batch<'a>> {
        sender.choose(Time::ZERO, PATH, paths, &|_| 1, &mut Random::from_seed([1; 32]))
    }

    /// Sends one symbol; gives its encoding id and whether it repairs.
    fn send(sender: &mut Sender, paths: &[LivingPath], number: u64) -> Option<(u16, bool)> {
        let mut batch = choose(sender, paths)?;
        let mut out = Vec::new();
        let is_repair = batch.emit(&mut out);
        batch.sent(PATH, number, Time::ZERO);
        let (header, _) = SymbolHeader::parse(&out).expect("a symbol");
        Some((header.encoding_id, is_repair))
    }

    fn sender_with(bytes: usize) -> Sender {
        let mut sender = Sender::new(&Config::default(), Time::ZERO);
        sender.open(2, u64::MAX);
        let stream = sender.stream(2).expect("just opened");
        assert_eq!(stream.write(Time::ZERO, &vec![7; bytes], usize::MAX), bytes);
        stream.finish();
        sender
    }

    fn send_all(sender: &mut Sender, from: u64) -> u64 {
        let mut number = from;
        while send(sender, &paths(1), number).is_some() {
            number += 1;
        }
        number
    }

    fn report(sequence: u32, floor: u32, ranks: Vec<Option<u16>>) -> Report {
        let blocks = BlockReport { ranks, cut: false };
        Report { sequence, sent_us: 0, paths: Vec::new(), floor, blocks }
    }

    #[test]
    fn a_block_is_sent_with_its_redundancy_and_then_waits() {
        let mut sender = sender_with(1408 * 32);
        let sent = send_all(&mut sender, 0);
        assert!((33..=35).contains(&sent), "{sent}");
        assert!(!sender.has_symbols(Time::ZERO, RATE));
        assert_eq!(sender.blocks.len(), 1);
    }

    #[test]
    fn a_report_of_all_blocks_delivers_the_stream() {
        let mut sender = sender_with(1408 * 40);
        send_all(&mut sender, 0);
        let over = |_, _| FlightFate::Over;
        assert_eq!(
            sender.on_report(Time::ZERO, &report(1, 0, vec![Some(31), None]), over, 0.0),
            Vec::<u32>::new()
        );
        assert_eq!(sender.on_report(Time::ZERO, &report(2, 2, vec![]), over, 0.0), [2]);
        assert!(sender.blocks.is_empty());
    }

    #[test]
    fn a_block_that_lacks_symbols_owes_new_ones_once() {
        let mut sender = sender_with(1408 * 32);
        let sent = send_all(&mut sender, 0);
        let lost = report(1, 0, vec![Some(29)]);
        sender.on_report(Time::ZERO, &lost, |_, _| FlightFate::KnownUpTo(sent - 1), 0.0);
        let first = send(&mut sender, &paths(1), sent).expect("three symbols are owed");
        assert_eq!(first, (sent as u16, true));
        assert_eq!(send_all(&mut sender, sent + 1), sent + 3);
        let again = report(2, 0, vec![Some(29)]);
        sender.on_report(Time::ZERO, &again, |_, _| FlightFate::KnownUpTo(sent - 1), 0.0);
        assert!(!sender.has_symbols(Time::ZERO, RATE), "the repair is on its way");
    }

    /// RaptorQ now and then needs one symbol more than K. The sender once held on to the K that it was told during the
    /// decoding, and the block, its stream and the transfer waited for ever.
    #[test]
    fn a_block_that_was_decoded_in_vain_owes_another_symbol() {
        let mut sender = sender_with(1408 * 32);
        send_all(&mut sender, 0);
        let over = |_, _| FlightFate::Over;
        sender.on_report(Time::ZERO, &report(1, 0, vec![Some(32)]), over, 0.0);
        assert!(!sender.has_symbols(Time::ZERO, RATE), "it is being decoded");
        sender.on_report(Time::ZERO, &report(2, 0, vec![Some(31)]), over, 0.0);
        assert!(sender.has_symbols(Time::ZERO, RATE));
    }

    #[test]
    fn an_older_report_changes_nothing() {
        let mut sender = sender_with(1408 * 32);
        send_all(&mut sender, 0);
        let over = |_, _| FlightFate::Over;
        sender.on_report(Time::ZERO, &report(5, 0, vec![Some(32)]), over, 0.0);
        assert!(!sender.has_symbols(Time::ZERO, RATE));
        sender.on_report(Time::ZERO, &report(4, 0, vec![Some(0)]), over, 0.0);
        assert!(!sender.has_symbols(Time::ZERO, RATE));
    }

    #[test]
    fn the_tail_timer_asks_again_with_growing_pauses() {
        let mut sender = sender_with(100);
        send_all(&mut sender, 0);
        let pause = Duration::from_millis(100);
        let first = sender.tail_at(Time::ZERO, pause, RATE).expect("a block is open");
        sender.on_tail(first, 0.0);
        assert!(sender.has_symbols(first, RATE));
        send_all(&mut sender, 10);
        assert_eq!(sender.tail_at(first, pause, RATE), Some(Time::ZERO + 2 * pause));
    }

    #[test]
    fn the_share_of_a_dead_path_goes_to_the_others() {
        let mut sender = sender_with(1408 * 32);
        let weights = paths(2);
        assert!(choose(&mut sender, &weights).is_some());
        sender.on_path_death(PathId(2));
        assert_eq!(send_all(&mut sender, 1), 33, "32 more: the first was chosen and never sent");
    }

    #[test]
    fn a_path_that_dies_after_it_has_carried_its_share_owes_nothing() {
        // Such a block was once entered as owing with no symbol owed, which underflowed at the next choice.
        let mut sender = sender_with(1408 * 32);
        let weights = paths(2);
        while sender.blocks.values().next().is_none_or(|block| block.quotas[0].1 > 0) {
            assert!(choose(&mut sender, &weights).is_some());
        }
        sender.on_path_death(PATH);
        assert!(sender.blocks.values().all(|block| block.owed == 0));
    }
}
