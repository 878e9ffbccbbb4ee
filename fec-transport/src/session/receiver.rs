//! The receiving side of a session: symbols become blocks, blocks become streams, and credit bounds what may come.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::block::{BadSymbol, ReceiveBlock};
use super::delivery::{Delivery, DeliveryRecord};
use super::stream::{BadBlock, Read, ReceiveStream};
use super::windows::{SharedPool, Windows};
use crate::config::Limits;
use crate::limits::{MAX_BLOCK_SPAN, MAX_RAPTORQ};
use crate::overlay::MemberId;
use crate::time::Time;
use crate::wire::report::BlockReport;
use crate::wire::stream_control::CONTROL_STREAM;
use crate::wire::symbol::{BlockHeader, Codec, SymbolHeader};

/// Unread bytes of the control stream; a sender keeps far below.
const CONTROL_WINDOW: u64 = 256 << 10;

/// The receiving side of a session.
#[derive(Debug)]
pub(crate) struct Receiver {
    streams: BTreeMap<u32, ReceiveStream>,
    blocks: BTreeMap<u32, ReceiveBlock>,
    /// All blocks below are complete.
    floor: u32,
    /// Blocks from `floor` on that are complete.
    complete: BTreeSet<u32>,
    /// One past the highest block of which a symbol has arrived.
    end: u32,
    /// Blocks that are being decoded elsewhere, and those that wait for somebody to take them.
    decoding: BTreeMap<u32, Decoding>,
    to_decode: VecDeque<ReceiveBlock>,
    windows: Windows,
    /// Gaps between the blocks of streams, over all streams.
    holes: usize,
    delivery: DeliveryRecord,
    counters: ReceiveCounters,
}

/// A block that is being decoded elsewhere.
#[derive(Debug)]
struct Decoding {
    header: BlockHeader,
    /// Whether the sender has given it up meanwhile: no more symbols will come if these do not suffice.
    is_abandoned: bool,
}

/// What became of the symbols that a session received.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ReceiveCounters {
    /// Symbols that brought their block closer to completion.
    pub used_symbols: u64,
    /// Symbols of blocks that were complete already, and copies.
    pub wasted_symbols: u64,
    /// Blocks that lacked source symbols and were decoded.
    pub decoded_blocks: u64,
    /// Real-time blocks that the peer gave up before they were whole.
    pub lost_blocks: u64,
}

/// What a symbol brought about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    /// Nothing new: its block was complete, or it was a copy.
    Redundant,
    /// Its block came closer to completion.
    Closer,
    /// Its block is complete: there is more to read on this stream, and the reader does not know yet.
    Complete(u32),
}

/// What an honest peer would not send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadData {
    #[error(transparent)]
    Symbol(#[from] BadSymbol),
    #[error(transparent)]
    Block(#[from] BadBlock),
    #[error("block {0} is too far ahead of the oldest open one")]
    BeyondSpan(u32),
    #[error("block {0} is not determined by more symbols than an honest sender ever needs")]
    Undetermined(u32),
    #[error("block {block} leaves a gap in stream {stream} that no block on its way can fill")]
    Hole { block: u32, stream: u32 },
}

impl Receiver {
    /// The receiving side of a session with a process of `peer`.
    pub(crate) fn new(limits: &Limits, shared: SharedPool, peer: MemberId) -> Receiver {
        Receiver {
            streams: BTreeMap::from([(CONTROL_STREAM, ReceiveStream::new(CONTROL_WINDOW))]),
            blocks: BTreeMap::new(),
            floor: 0,
            complete: BTreeSet::new(),
            end: 0,
            decoding: BTreeMap::new(),
            to_decode: VecDeque::new(),
            windows: Windows::new(limits, shared, peer),
            holes: 0,
            delivery: DeliveryRecord::default(),
            counters: ReceiveCounters::default(),
        }
    }

    pub(crate) fn open(&mut self, stream: u32) {
        self.streams.insert(stream, ReceiveStream::new(self.windows.initial()));
    }

    pub(crate) fn close(&mut self, stream: u32) {
        let Some(closed) = self.streams.remove(&stream) else { return };
        self.windows.release(closed.window());
        self.windows.was_read(closed.held());
        self.holes -= closed.holes();
        // What is left of its blocks is memory that nobody has promised any more.
        let blocks = self.blocks.iter().filter(|(_, block)| block.header().stream == stream);
        let blocks: Vec<u32> = blocks.map(|(id, _)| *id).collect();
        blocks.into_iter().for_each(|id| self.mark_complete(id));
    }

    pub(crate) fn delivery(&self) -> &Delivery {
        self.delivery.so_far()
    }

    /// Takes a symbol. Its stream is either open or was closed on this side; of a closed one the blocks are completed
    /// at once and forgotten, so that the sender need not know.
    ///
    /// # Errors
    /// [`BadData`] if it contradicts the protocol; nothing is stored then.
    pub(crate) fn on_symbol(
        &mut self,
        now: Time,
        header: &SymbolHeader,
        symbol: &[u8],
    ) -> Result<Progress, BadData> {
        let progress = self.take_symbol(now, header, symbol)?;
        match progress {
            Progress::Redundant => self.counters.wasted_symbols += 1,
            Progress::Closer | Progress::Complete(_) => self.counters.used_symbols += 1,
        }
        Ok(progress)
    }

    fn take_symbol(&mut self, now: Time, header: &SymbolHeader, symbol: &[u8]) -> Result<Progress, BadData> {
        let id = header.block.id;
        if id < self.floor || self.complete.contains(&id) || self.decoding.contains_key(&id) {
            return Ok(Progress::Redundant);
        }
        if id - self.floor >= MAX_BLOCK_SPAN {
            return Err(BadData::BeyondSpan(id));
        }
        if !self.streams.contains_key(&header.block.stream) {
            self.mark_complete(id);
            return Ok(Progress::Redundant);
        }
        if !self.blocks.contains_key(&id) {
            // What is not stored is as good as lost: it comes again, when there may be memory for it.
            if !self.windows.have_room() && header.block.stream != CONTROL_STREAM {
                return Ok(Progress::Redundant);
            }
            self.begin(&header.block, symbol.len())?;
        }
        let Some(block) = self.blocks.get_mut(&id) else { return Ok(Progress::Redundant) };
        if !block.insert(&header.block, header.encoding_id, symbol)? {
            return Ok(Progress::Redundant);
        }
        if !block.may_decode() {
            return Ok(Progress::Closer);
        }
        self.finish(now, id)
    }

    /// A block has enough symbols: it is delivered, or decoded first, a large one elsewhere.
    fn finish(&mut self, now: Time, id: u32) -> Result<Progress, BadData> {
        let Some(block) = self.blocks.remove(&id) else { return Ok(Progress::Redundant) };
        let header = block.header();
        if !block.is_whole() {
            self.counters.decoded_blocks += 1;
        }
        if !block.is_whole() && block.header().codec == Codec::RaptorQ {
            self.decoding.insert(id, Decoding { header, is_abandoned: false });
            self.to_decode.push_back(block);
            return Ok(Progress::Closer);
        }
        match block.decode() {
            Ok(bytes) => Ok(self.deliver(now, &header, bytes)),
            Err(block) => self.wait_for_more(*block),
        }
    }

    /// The symbols of a block do not determine it yet.
    fn wait_for_more(&mut self, block: ReceiveBlock) -> Result<Progress, BadData> {
        let BlockHeader { id, stream, .. } = block.header();
        if block.is_hopeless() {
            return Err(BadData::Undetermined(id));
        }
        match self.streams.contains_key(&stream) {
            true => drop(self.blocks.insert(id, block)),
            false => self.mark_complete(id),
        }
        Ok(Progress::Closer)
    }

    /// The next block to be decoded elsewhere; [`on_decoded`](Self::on_decoded) must follow.
    pub(crate) fn poll_job(&mut self) -> Option<ReceiveBlock> {
        self.to_decode.pop_front()
    }

    /// A block comes back from decoding.
    ///
    /// # Errors
    /// [`BadData`] if its sender has chosen symbols that do not determine it.
    pub(crate) fn on_decoded(
        &mut self,
        now: Time,
        id: u32,
        bytes: Result<Vec<u8>, Box<ReceiveBlock>>,
    ) -> Result<Progress, BadData> {
        let Some(Decoding { header, is_abandoned }) = self.decoding.remove(&id) else {
            return Ok(Progress::Redundant);
        };
        match bytes {
            Ok(bytes) => Ok(self.deliver(now, &header, bytes)),
            Err(_) if is_abandoned => Ok(self.lose(&header)),
            Err(block) => self.wait_for_more(*block),
        }
    }

    /// The sender has given up a block.
    ///
    /// # Errors
    /// [`BadData`] if there can be no such block.
    pub(crate) fn abandon(&mut self, header: &BlockHeader) -> Result<Progress, BadData> {
        let id = header.id;
        if id < self.floor || self.complete.contains(&id) {
            return Ok(Progress::Redundant);
        }
        if let Some(decoding) = self.decoding.get_mut(&id) {
            decoding.is_abandoned = true;
            return Ok(Progress::Redundant);
        }
        if id - self.floor >= MAX_BLOCK_SPAN {
            return Err(BadData::BeyondSpan(id));
        }
        if self.streams.contains_key(&header.stream) {
            let place = |known: BlockHeader| (known.offset, known.length);
            match self.blocks.get(&id).map(ReceiveBlock::header) {
                Some(known) if place(known) != place(*header) => {
                    return Err(BadData::Symbol(BadSymbol::Contradiction(id)));
                }
                Some(_) => {}
                None => self.claim(header)?,
            }
        }
        Ok(self.lose(header))
    }

    /// A block that has its place in its stream will never be whole.
    fn lose(&mut self, header: &BlockHeader) -> Progress {
        if let Some(stream) = self.streams.get_mut(&header.stream) {
            stream.lose(header.offset, u64::from(header.length));
            self.counters.lost_blocks += 1;
        }
        self.mark_complete(header.id);
        self.news(header.stream)
    }

    /// Whether the reader of a stream must be told that there is more.
    fn news(&mut self, stream: u32) -> Progress {
        let is_news = self.streams.get_mut(&stream).is_some_and(ReceiveStream::announce);
        if is_news || stream == CONTROL_STREAM { Progress::Complete(stream) } else { Progress::Closer }
    }

    pub(crate) fn counters(&self) -> ReceiveCounters {
        self.counters
    }

    /// Bytes of memory for what has arrived and was not read.
    pub(crate) fn memory(&self) -> usize {
        let blocks: usize = self.blocks.values().chain(&self.to_decode).map(ReceiveBlock::memory).sum();
        blocks + self.streams.values().map(ReceiveStream::unread).sum::<usize>()
    }

    /// The next bytes of a stream; see [`ReceiveStream`].
    pub(crate) fn read(&mut self, stream: u32, max: usize) -> Option<Read> {
        self.read_with(stream, |stream| stream.read(max))
    }

    /// Any complete block of a stream.
    pub(crate) fn read_block(&mut self, stream: u32) -> Option<Read> {
        self.read_with(stream, ReceiveStream::read_block)
    }

    fn read_with(&mut self, stream: u32, read: impl FnOnce(&mut ReceiveStream) -> Read) -> Option<Read> {
        let open = self.streams.get_mut(&stream)?;
        let before = open.held();
        let read = read(open);
        self.windows.was_read(before - open.held());
        Some(read)
    }

    /// The credit to grant on a stream, if it is worth a message; its memory is reserved.
    pub(crate) fn next_credit(&mut self, stream: u32) -> Option<u64> {
        let open = self.streams.get_mut(&stream)?;
        if !open.wants_credit() {
            return None;
        }
        open.next_credit(self.windows.grow(open.window()))
    }

    /// The block part of a report: the floor, and what arrived of the blocks from there on.
    pub(crate) fn report(&self) -> (u32, BlockReport) {
        let rank = |id: u32| {
            // What is being decoded has K symbols, whatever K is.
            let being_decoded = self.decoding.get(&id).map(|_| usize::MAX);
            let rank = being_decoded.or_else(|| self.blocks.get(&id).map(ReceiveBlock::rank)).unwrap_or(0);
            rank.min(MAX_RAPTORQ) as u16
        };
        let describe = |id: u32| if self.complete.contains(&id) { None } else { Some(rank(id)) };
        (self.floor, BlockReport::fit((self.floor..self.end.max(self.floor)).map(describe)))
    }

    /// Whether a block lacks symbols.
    pub(crate) fn is_waiting(&self) -> bool {
        self.end > self.floor
    }

    /// A first symbol of a block has come.
    fn begin(&mut self, header: &BlockHeader, symbol_size: usize) -> Result<(), BadData> {
        let block = ReceiveBlock::new(*header, symbol_size)?;
        self.claim(header)?;
        self.blocks.insert(header.id, block);
        Ok(())
    }

    /// Gives a block that was just announced its place in its stream.
    ///
    /// A sender forms the blocks of a stream one behind the other and numbers them as it forms them, so what lies in a
    /// gap are blocks that are on their way: numbers that have not been seen, each in one gap at most.
    fn claim(&mut self, header: &BlockHeader) -> Result<(), BadData> {
        let Some(stream) = self.streams.get_mut(&header.stream) else { return Ok(()) };
        let (before, held) = (stream.holes(), stream.held());
        stream.claim(header.offset, header.end(), header.last)?;
        self.windows.arrived(stream.held() - held);
        self.holes = self.holes - before + stream.holes();
        self.end = self.end.max(header.id + 1);
        let seen = self.complete.len() + self.blocks.len() + self.decoding.len() + 1;
        if self.holes + seen > (self.end - self.floor) as usize {
            return Err(BadData::Hole { block: header.id, stream: header.stream });
        }
        Ok(())
    }

    fn deliver(&mut self, now: Time, header: &BlockHeader, bytes: Vec<u8>) -> Progress {
        self.mark_complete(header.id);
        if header.stream != CONTROL_STREAM {
            self.delivery.note(now, header.length);
        }
        if let Some(stream) = self.streams.get_mut(&header.stream) {
            stream.deliver(header.offset, bytes);
        }
        self.news(header.stream)
    }

    fn mark_complete(&mut self, id: u32) {
        self.blocks.remove(&id);
        self.complete.insert(id);
        self.end = self.end.max(id + 1);
        while self.complete.remove(&self.floor) {
            self.floor += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: u32 = 2;

    fn receiver() -> Receiver {
        let mut receiver = Receiver::new(&Limits::default(), SharedPool::new(1 << 30), MemberId(0));
        receiver.open(STREAM);
        receiver
    }

    fn single(id: u32, offset: u64, length: usize) -> (SymbolHeader, Vec<u8>) {
        let block = BlockHeader {
            id,
            stream: STREAM,
            offset,
            length: length as u32,
            last: false,
            codec: Codec::ReedSolomon,
        };
        (SymbolHeader { encoding_id: 0, block }, vec![id as u8; length])
    }

    fn blocks(ranks: &[Option<u16>]) -> BlockReport {
        BlockReport { ranks: ranks.to_vec(), cut: false }
    }

    fn take(receiver: &mut Receiver, symbol: &(SymbolHeader, Vec<u8>)) -> Result<Progress, BadData> {
        receiver.on_symbol(Time::ZERO, &symbol.0, &symbol.1)
    }

    #[test]
    fn blocks_are_reported_and_delivered_in_any_order() {
        let mut receiver = receiver();
        assert_eq!(take(&mut receiver, &single(2, 20, 10)), Ok(Progress::Complete(STREAM)));
        assert_eq!(receiver.report(), (0, blocks(&[Some(0), Some(0), None])));
        assert_eq!(receiver.read(STREAM, 100), Some(Read::Blocked));
        take(&mut receiver, &single(0, 0, 10)).expect("right");
        take(&mut receiver, &single(1, 10, 10)).expect("right");
        assert_eq!(receiver.report(), (3, blocks(&[])));
        assert_eq!(take(&mut receiver, &single(1, 10, 10)), Ok(Progress::Redundant));
        assert!(matches!(receiver.read(STREAM, 100), Some(Read::Data { offset: 0, .. })));
    }

    #[test]
    fn blocks_of_a_closed_stream_are_completed_and_forgotten() {
        let mut receiver = receiver();
        receiver.close(STREAM);
        assert_eq!(take(&mut receiver, &single(0, 0, 10)), Ok(Progress::Redundant));
        assert_eq!(receiver.report(), (1, blocks(&[])));
    }

    #[test]
    fn a_block_that_is_given_up_while_it_is_decoded_in_vain_is_lost() {
        let mut receiver = receiver();
        let length = 1408 * 80;
        let header =
            BlockHeader { id: 0, stream: STREAM, offset: 0, length, last: false, codec: Codec::RaptorQ };
        for encoding_id in 1..=80 {
            let header = SymbolHeader { encoding_id, block: header };
            receiver.on_symbol(Time::ZERO, &header, &[1; 1408]).expect("right");
        }
        let block = receiver.poll_job().expect("there are as many symbols as source symbols");
        assert_eq!(receiver.abandon(&header), Ok(Progress::Redundant));
        let undecodable = Err(Box::new(block));
        assert_eq!(receiver.on_decoded(Time::ZERO, 0, undecodable), Ok(Progress::Complete(STREAM)));
        let lost = Read::Lost { offset: 0, length: u64::from(length) };
        assert_eq!(receiver.read(STREAM, usize::MAX), Some(lost));
        assert!(!receiver.is_waiting(), "no hole stays in the numbering");
    }

    /// Encoding ids of a RaptorQ block whose repair symbols are all orthogonal to one block: they never determine any.
    fn ids_that_never_suffice(source_symbols: usize) -> Vec<u16> {
        let code = crate::session::code::code(Codec::RaptorQ, source_symbols);
        let one_block: Vec<u8> = (0..source_symbols * 8).map(|at| (at * at % 251) as u8 + 1).collect();
        let prepared = code.prepare(&one_block);
        let is_orthogonal = |id: &u16| {
            let mut symbol = Vec::new();
            prepared.append(*id, &one_block, &mut symbol);
            symbol[0] == 0
        };
        (source_symbols as u16..=u16::MAX).filter(is_orthogonal).collect()
    }

    /// A decoding for each further symbol, and memory for all of them, was what such a block once cost.
    #[test]
    fn symbols_that_never_determine_their_block_cost_few_decodings_and_end_the_session() {
        let (mut receiver, source_symbols, size) = (receiver(), 64, 1_408);
        let ids = ids_that_never_suffice(source_symbols);
        assert!(ids.len() > 3 * source_symbols, "{}", ids.len());
        let length = (source_symbols * size) as u32;
        let block =
            BlockHeader { id: 0, stream: STREAM, offset: 0, length, last: false, codec: Codec::RaptorQ };
        let (mut decodings, mut most_memory, mut outcome) = (0, 0, Ok(Progress::Closer));
        for (sent, encoding_id) in ids.into_iter().enumerate() {
            outcome = receiver.on_symbol(Time::ZERO, &SymbolHeader { encoding_id, block }, &[0; 1_408]);
            if let Some(job) = receiver.poll_job() {
                decodings += 1;
                outcome = receiver.on_decoded(Time::ZERO, 0, job.decode());
            }
            most_memory = most_memory.max(receiver.memory());
            if outcome.is_err() {
                assert_eq!(sent + 1, source_symbols + 7);
                break;
            }
        }
        assert_eq!(outcome, Err(BadData::Undetermined(0)));
        assert_eq!(decodings, super::super::block::MAX_FAILURES);
        let credit = Limits::default().initial_window as usize;
        assert!(most_memory <= 2 * credit, "{most_memory} bytes where {credit} were granted");
    }

    /// Blocks of closed streams once stayed until another symbol of them came, up to 8,192 in a session.
    #[test]
    fn a_stream_that_is_closed_leaves_no_piece_of_a_block_behind() {
        let mut receiver = receiver();
        let block = |id| BlockHeader {
            id,
            stream: STREAM,
            offset: 0,
            length: 64 * 1_408,
            last: true,
            codec: Codec::RaptorQ,
        };
        for id in 0..100 {
            receiver.open(STREAM);
            for encoding_id in 0..63 {
                let header = SymbolHeader { encoding_id, block: block(id) };
                receiver.on_symbol(Time::ZERO, &header, &[1; 1_408]).expect("right");
            }
            assert!(receiver.memory() > 0);
            receiver.close(STREAM);
            assert_eq!(receiver.memory(), 0);
        }
        assert_eq!(receiver.report(), (100, blocks(&[])));
    }

    #[test]
    fn what_an_honest_peer_would_not_send_is_refused() {
        let mut receiver = receiver();
        let window = u64::from(Limits::default().initial_window);
        assert!(matches!(take(&mut receiver, &single(0, window, 10)), Err(BadData::Block(_))));
        assert!(matches!(take(&mut receiver, &single(MAX_BLOCK_SPAN, 0, 10)), Err(BadData::BeyondSpan(_))));
        assert_eq!(receiver.report(), (0, blocks(&[])), "nothing of it was stored");
    }

    /// One byte at each second offset once kept 121 bytes, of which credit counted one: 965 MiB for a session's 16 MiB.
    #[test]
    fn gaps_that_no_block_on_its_way_can_fill_are_refused() {
        let mut receiver = receiver();
        assert_eq!(
            take(&mut receiver, &single(0, 1, 1)),
            Err(BadData::Hole { block: 0, stream: STREAM }),
            "what lies before it would have a lower number"
        );
        let mut receiver = self::receiver();
        // Ten numbers that are not seen may lie in ten gaps.
        for id in 0..10 {
            take(&mut receiver, &single(10 + id, u64::from(id) * 2 + 1, 1))
                .expect("an honest peer may have done it");
        }
        let refused = take(&mut receiver, &single(20, 21, 1));
        assert_eq!(refused, Err(BadData::Hole { block: 20, stream: STREAM }));
    }

    #[test]
    fn a_stream_that_is_closed_takes_its_gaps_along() {
        let mut receiver = receiver();
        receiver.open(4);
        take(&mut receiver, &single(1, 10, 10)).expect("block 0 is on its way");
        let (mut header, symbol) = single(2, 10, 10);
        header.block.stream = 4;
        assert_eq!(
            take(&mut receiver, &(header, symbol.clone())),
            Err(BadData::Hole { block: 2, stream: 4 })
        );
        let mut receiver = self::receiver();
        receiver.open(4);
        take(&mut receiver, &single(1, 10, 10)).expect("block 0 is on its way");
        receiver.close(STREAM);
        assert_eq!(take(&mut receiver, &(header, symbol)), Ok(Progress::Complete(4)));
    }

    #[test]
    fn what_a_node_has_no_memory_for_is_as_good_as_lost_and_comes_again() {
        let pool = SharedPool::new(1_000);
        let [mut hog, mut other] = [1, 2].map(|member| {
            let mut receiver = Receiver::new(&Limits::default(), pool.clone(), MemberId(member));
            receiver.open(STREAM);
            receiver
        });
        take(&mut hog, &single(0, 0, 1_200)).expect("within its credit");
        assert_eq!(take(&mut hog, &single(1, 1_200, 10)), Ok(Progress::Redundant));
        assert_eq!(take(&mut other, &single(0, 0, 400)), Ok(Progress::Complete(STREAM)));
        hog.read(STREAM, 300);
        assert_eq!(take(&mut hog, &single(1, 1_200, 10)), Ok(Progress::Redundant));
        hog.read(STREAM, 900);
        assert_eq!(take(&mut hog, &single(1, 1_200, 10)), Ok(Progress::Complete(STREAM)));
        assert_eq!(hog.report(), (2, blocks(&[])));
    }
}
