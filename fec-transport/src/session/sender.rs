//! The sending side of a session: streams become blocks, blocks become symbols, and reports decide what is repaired.
//!
//! ```text
//! written ──form──▶ sending ──quotas used──▶ on the way ──report: complete──▶ gone
//!                                             │      ▲
//!                                   rank too low     │ repair symbols sent
//!                                             ▼      │
//!                                             owing ─┘
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use super::block::{FlightFate, SendBlock};
use super::delivery::Delivery;
use super::path::PathId;
use super::redundancy::{Redundancy, repair_symbols};
use super::spread::Spread;
use super::stream::SendStream;
use crate::config::Config;
use crate::time::Time;
use crate::wire::report::Report;
use crate::wire::symbol::{BlockHeader, SymbolHeader};

/// The stream of [`StreamControl`](crate::wire::stream_control::StreamControl) messages.
pub(crate) const CONTROL_STREAM: u32 = 0;
/// How far the newest block may be ahead of the oldest open one.
pub(crate) const MAX_BLOCK_SPAN: u32 = 8_192;
/// Blocks of which the first sending may be under way at once: enough that a fast path does not wait for a slow one's
/// share of an older block, few enough that the shares within a block mean something.
const MAX_SENDING: usize = 6;
/// Blocks that one turn of the tail timer asks for.
const TAIL_BLOCKS: usize = 16;
/// The longest pause of the tail timer.
const MAX_TAIL_PAUSE: Duration = Duration::from_secs(2);

/// The sending side of a session.
#[derive(Debug)]
pub(crate) struct Sender {
    symbol_size: usize,
    full_block: usize,
    block_timer: Duration,
    open_blocks: usize,
    redundancy: Redundancy,
    spread: Spread,
    streams: BTreeMap<u32, SendStream>,
    blocks: BTreeMap<u32, SendBlock>,
    next_block: u32,
    /// Blocks whose first sending is under way, oldest first.
    sending: VecDeque<u32>,
    /// Blocks that owe repair symbols.
    owing: BTreeSet<u32>,
    /// The stream that formed the last block: they take turns.
    last_served: u32,
    latest_report: Option<u32>,
    /// When the last symbol was sent or the last report brought news.
    last_activity: Time,
    tail_turns: u32,
    /// Blocks of data, not of control, that are on the way, and how they were acknowledged.
    data_blocks: usize,
    acknowledged: Delivery,
}

/// A symbol that was chosen and not yet numbered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Choice {
    pub(crate) header: SymbolHeader,
    pub(crate) is_repair: bool,
}

impl Sender {
    pub(crate) fn new(config: &Config, now: Time) -> Sender {
        let coding = &config.coding;
        Sender {
            symbol_size: coding.symbol_size,
            full_block: coding.symbol_size * coding.block_symbols,
            block_timer: coding.block_timer,
            open_blocks: config.limits.open_blocks,
            redundancy: Redundancy::new(coding),
            spread: Spread::default(),
            streams: BTreeMap::from([(CONTROL_STREAM, SendStream::new(u64::MAX))]),
            blocks: BTreeMap::new(),
            next_block: 0,
            sending: VecDeque::new(),
            owing: BTreeSet::new(),
            last_served: CONTROL_STREAM,
            latest_report: None,
            last_activity: now,
            tail_turns: 0,
            data_blocks: 0,
            acknowledged: Delivery::default(),
        }
    }

    /// What the peer has acknowledged; a pause counts only while there was data on the way.
    pub(crate) fn acknowledged(&self) -> &Delivery {
        &self.acknowledged
    }

    pub(crate) fn open(&mut self, stream: u32, credit: u64) {
        self.streams.insert(stream, SendStream::new(credit));
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

    /// Whether there is a symbol to send now.
    pub(crate) fn has_symbols(&self, now: Time) -> bool {
        !self.owing.is_empty() || !self.sending.is_empty() || self.next_stream(now).is_some()
    }

    /// When [`has_symbols`](Self::has_symbols) may become true by itself.
    pub(crate) fn forms_at(&self) -> Option<Time> {
        if !self.may_open_block() {
            return None;
        }
        self.streams.values().filter_map(|stream| stream.forms_at(self.block_timer)).min()
    }

    /// The streams whose writers wait although their buffers are filled to less than `level`; they wait no more.
    pub(crate) fn take_relieved(&mut self, level: usize) -> Vec<u32> {
        let relieved =
            |stream: &mut SendStream| stream.buffered() <= level && std::mem::take(&mut stream.writer_waits);
        self.streams.iter_mut().filter_map(|(id, stream)| relieved(stream).then_some(*id)).collect()
    }

    /// Chooses the next symbol for `path`: what is owed first, then the path's quota of the oldest block, then a new
    /// block, and when there is none, what another path has not got round to. `weights` are those of the live paths.
    pub(crate) fn choose(&mut self, now: Time, path: PathId, weights: &[(PathId, f64)]) -> Option<Choice> {
        let block = self.take_owed().or_else(|| self.take_quota(Some(path))).or_else(|| {
            while self.sending.len() < MAX_SENDING && self.form_block(now, weights) {
                if let Some(block) = self.take_quota(Some(path)) {
                    return Some(block);
                }
            }
            self.take_quota(None)
        })?;
        let open = self.blocks.get_mut(&block)?;
        let (encoding_id, is_repair) = open.encode_next();
        Some(Choice { header: SymbolHeader { encoding_id, block: open.header }, is_repair })
    }

    /// Bytes of the packet body that [`emit`](Self::emit) writes.
    pub(crate) fn emit(&mut self, choice: &Choice, path: PathId, number: u64, now: Time, out: &mut Vec<u8>) {
        choice.header.emit(out);
        self.last_activity = now;
        if let Some(block) = self.blocks.get_mut(&choice.header.block.id) {
            block.encode(choice.header.encoding_id, out);
            block.sent(path, number, now);
        }
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
            && report.floor as usize + report.blocks.len() <= self.next_block as usize
    }

    /// The paths' shares of the first sending that a dead path has not carried go to the others.
    pub(crate) fn on_path_death(&mut self, path: PathId) {
        for id in &self.sending {
            let Some(block) = self.blocks.get_mut(id) else { continue };
            for (_, count) in block.quotas.iter_mut().filter(|(owner, count)| *owner == path && *count > 0) {
                block.owed += std::mem::take(count);
                self.owing.insert(*id);
            }
        }
        self.prune_sending();
    }

    /// When to assume that no report will come, if `pause` is the longest round trip with its deviation.
    pub(crate) fn tail_at(&self, now: Time, pause: Duration) -> Option<Time> {
        if self.blocks.is_empty() || self.has_symbols(now) {
            return None;
        }
        Some(self.last_activity + (pause * (1 << self.tail_turns.min(8))).min(MAX_TAIL_PAUSE.max(pause)))
    }

    /// The tail timer: nothing was heard of the oldest blocks, so all that flies is taken for lost.
    pub(crate) fn on_tail(&mut self, now: Time, loss: f64) {
        self.tail_turns += 1;
        self.last_activity = now;
        for (id, block) in self.blocks.iter_mut().take(TAIL_BLOCKS) {
            block.settle(|_, _| FlightFate::Over);
            let deficit = block.deficit();
            if deficit > 0 {
                owe(block, &mut self.owing, *id, deficit, loss);
            }
        }
    }

    fn take_owed(&mut self) -> Option<u32> {
        let id = *self.owing.first()?;
        let block = self.blocks.get_mut(&id)?;
        block.owed -= 1;
        if block.owed == 0 {
            self.owing.remove(&id);
        }
        Some(id)
    }

    fn take_quota(&mut self, path: Option<PathId>) -> Option<u32> {
        let blocks = &mut self.blocks;
        let id =
            *self.sending.iter().find(|id| blocks.get_mut(id).is_some_and(|block| block.take_quota(path)))?;
        self.prune_sending();
        Some(id)
    }

    fn prune_sending(&mut self) {
        let blocks = &self.blocks;
        self.sending.retain(|id| blocks.get(id).is_some_and(|block| block.unsent() > 0));
    }

    fn may_open_block(&self) -> bool {
        let oldest = self.blocks.first_key_value().map_or(self.next_block, |(id, _)| *id);
        self.blocks.len() < self.open_blocks && self.next_block - oldest < MAX_BLOCK_SPAN
    }

    /// The stream whose turn it is to form a block: control first, then one after the other.
    fn next_stream(&self, now: Time) -> Option<u32> {
        if !self.may_open_block() {
            return None;
        }
        let can_form =
            |(_, stream): &(&u32, &SendStream)| stream.can_form(now, self.full_block, self.block_timer);
        let control = self.streams.range(..=CONTROL_STREAM);
        let after = self.streams.range(self.last_served + 1..);
        let before = self.streams.range(CONTROL_STREAM + 1..=self.last_served.max(CONTROL_STREAM + 1));
        control.chain(after).chain(before).find(can_form).map(|(id, _)| *id)
    }

    fn form_block(&mut self, now: Time, weights: &[(PathId, f64)]) -> bool {
        let Some(number) = self.next_stream(now) else { return false };
        let Some(stream) = self.streams.get_mut(&number) else { return false };
        let (offset, data, last) = stream.form(now, self.full_block);
        let id = self.next_block;
        let header = BlockHeader { id, stream: number, offset, length: data.len() as u32, last };
        let mut block = SendBlock::new(header, &data, self.symbol_size);
        block.quotas = self.spread.quotas(self.redundancy.initial(block.source_symbols()), weights);
        if number != CONTROL_STREAM {
            if self.data_blocks == 0 {
                self.acknowledged.resume(now);
            }
            self.data_blocks += 1;
        }
        self.blocks.insert(id, block);
        self.sending.push_back(id);
        self.next_block += 1;
        self.last_served = number;
        true
    }

    fn completed_by(&self, report: &Report) -> Vec<u32> {
        let described = self.blocks.range(report.floor..).filter(|(id, _)| {
            report.blocks.get((**id - report.floor) as usize).is_some_and(|block| block.is_none())
        });
        self.blocks.range(..report.floor).chain(described).map(|(id, _)| *id).collect()
    }

    /// Forgets a block that the peer has; gives its stream if that is now delivered whole.
    fn complete(&mut self, now: Time, id: u32) -> Option<u32> {
        let block = self.blocks.remove(&id)?;
        if block.header.stream != CONTROL_STREAM {
            self.data_blocks -= 1;
            self.acknowledged.note(now, block.header.length);
        }
        self.owing.remove(&id);
        self.sending.retain(|other| *other != id);
        let stream = self.streams.get_mut(&block.header.stream)?;
        stream.open_blocks -= 1;
        stream.is_delivered().then_some(block.header.stream)
    }

    /// Lets every block that the report describes, and every later one, owe what it lacks.
    fn repair(&mut self, report: &Report, fate: impl Fn(PathId, Time) -> FlightFate, loss: f64) {
        let is_cut_short = report.blocks.len() == crate::wire::report::MAX_REPORTED_BLOCKS;
        for (id, block) in self.blocks.range_mut(report.floor..) {
            match report.blocks.get((*id - report.floor) as usize) {
                Some(Some(rank)) => block.reported(*rank),
                Some(None) => {}
                None if is_cut_short => break,
                None => {}
            }
            block.settle(&fate);
            let deficit = block.deficit();
            if deficit > 0 {
                owe(block, &mut self.owing, *id, deficit, loss);
            }
        }
    }
}

fn owe(block: &mut SendBlock, owing: &mut BTreeSet<u32>, id: u32, deficit: usize, loss: f64) {
    let symbols = repair_symbols(deficit, loss, block.repairs);
    block.owed = block.owed.saturating_add(u16::try_from(symbols).unwrap_or(u16::MAX));
    block.repairs = block.repairs.saturating_add(1);
    owing.insert(id);
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATH: PathId = PathId(1);
    const WEIGHTS: [(PathId, f64); 1] = [(PATH, 1.0)];

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
        while let Some(choice) = sender.choose(Time::ZERO, PATH, &WEIGHTS) {
            sender.emit(&choice, PATH, number, Time::ZERO, &mut Vec::new());
            number += 1;
        }
        number
    }

    fn report(sequence: u32, floor: u32, blocks: Vec<Option<u8>>) -> Report {
        Report { sequence, sent_us: 0, paths: Vec::new(), floor, blocks }
    }

    #[test]
    fn a_block_is_sent_with_its_redundancy_and_then_waits() {
        let mut sender = sender_with(1408 * 32);
        let sent = send_all(&mut sender, 0);
        assert!((33..=35).contains(&sent), "{sent}");
        assert!(!sender.has_symbols(Time::ZERO));
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
        let choice = sender.choose(Time::ZERO, PATH, &WEIGHTS).expect("three symbols are owed");
        assert!(choice.is_repair && u64::from(choice.header.encoding_id) == sent);
        sender.emit(&choice, PATH, sent, Time::ZERO, &mut Vec::new());
        assert_eq!(send_all(&mut sender, sent + 1), sent + 3);
        let again = report(2, 0, vec![Some(29)]);
        sender.on_report(Time::ZERO, &again, |_, _| FlightFate::KnownUpTo(sent - 1), 0.0);
        assert!(!sender.has_symbols(Time::ZERO), "the repair is on its way");
    }

    #[test]
    fn an_older_report_changes_nothing() {
        let mut sender = sender_with(1408 * 32);
        send_all(&mut sender, 0);
        let over = |_, _| FlightFate::Over;
        sender.on_report(Time::ZERO, &report(5, 0, vec![Some(32)]), over, 0.0);
        assert!(!sender.has_symbols(Time::ZERO));
        sender.on_report(Time::ZERO, &report(4, 0, vec![Some(0)]), over, 0.0);
        assert!(!sender.has_symbols(Time::ZERO));
    }

    #[test]
    fn the_tail_timer_asks_again_with_growing_pauses() {
        let mut sender = sender_with(100);
        send_all(&mut sender, 0);
        let pause = Duration::from_millis(100);
        let first = sender.tail_at(Time::ZERO, pause).expect("a block is open");
        sender.on_tail(first, 0.0);
        assert!(sender.has_symbols(first));
        send_all(&mut sender, 10);
        assert_eq!(sender.tail_at(first, pause), Some(Time::ZERO + 2 * pause));
    }

    #[test]
    fn the_share_of_a_dead_path_goes_to_the_others() {
        let mut sender = sender_with(1408 * 32);
        let weights = [(PATH, 1.0), (PathId(2), 1.0)];
        assert!(sender.choose(Time::ZERO, PATH, &weights).is_some());
        sender.on_path_death(PathId(2));
        let all = u64::from(sender.redundancy.initial(32));
        assert_eq!(send_all(&mut sender, 1), all);
    }

    #[test]
    fn a_path_that_dies_after_it_has_carried_its_share_owes_nothing() {
        // Such a block was once entered as owing with no symbol owed, which underflowed at the next choice.
        let mut sender = sender_with(1408 * 32);
        let weights = [(PATH, 1.0), (PathId(2), 1.0)];
        while sender.blocks.values().next().is_none_or(|block| block.quotas[0].1 > 0) {
            assert!(sender.choose(Time::ZERO, PATH, &weights).is_some());
        }
        sender.on_path_death(PATH);
        assert!(sender.owing.is_empty());
    }
}
