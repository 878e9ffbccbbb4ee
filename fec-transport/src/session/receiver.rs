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
    streams: BTreeMap<u32, Box<ReceiveStream>>,
    blocks: BTreeMap<u32, Box<ReceiveBlock>>,
    /// All blocks below are complete.
    floor: u32,
    /// Blocks from `floor` on that are complete.
    complete: BTreeSet<u32>,
    /// One past the highest block of which a symbol has arrived.
    end: u32,
    /// Blocks that are being decoded elsewhere, and those that wait for somebody to take them.
    decoding: BTreeMap<u32, Decoding>,
    to_decode: VecDeque<Box<ReceiveBlock>>,
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
    /// Bytes of memory beyond its length.
    excess: u64,
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
    #[error("block {block} leaves a gap in stream {stream} that no block on its way can fill")]
    Hole { block: u32, stream: u32 },
}

impl Receiver {
    /// The receiving side of a session with a process of `peer`.
    pub(crate) fn new(limits: &Limits, shared: SharedPool, peer: MemberId) -> Receiver {
        Receiver {
            streams: BTreeMap::from([(CONTROL_STREAM, Box::new(ReceiveStream::new(CONTROL_WINDOW)))]),
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
        self.streams.insert(stream, Box::new(ReceiveStream::new(self.windows.initial())));
    }

    pub(crate) fn close(&mut self, stream: u32) {
        if let Some(closed) = self.streams.remove(&stream) {
            self.windows.release(closed.window());
            self.windows.was_read(closed.held());
            self.holes -= closed.holes();
        }
        self.forget_blocks_of(stream);
    }

    /// Nobody will read these blocks: they are complete, and their symbols take no more memory.
    fn forget_blocks_of(&mut self, stream: u32) {
        let open = self.blocks.values().map(|block| block.header());
        let all = open.chain(self.decoding.values().map(|decoding| decoding.header));
        let ids: Vec<u32> = all.filter(|header| header.stream == stream).map(|header| header.id).collect();
        self.to_decode.retain(|block| block.header().stream != stream);
        for id in ids {
            if let Some(decoding) = self.decoding.remove(&id) {
                self.windows.was_read(decoding.excess);
            }
            self.mark_complete(id);
        }
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
        let before = block.excess();
        if !block.insert(&header.block, header.encoding_id, symbol)? {
            return Ok(Progress::Redundant);
        }
        self.windows.arrived(block.excess() - before);
        if !block.may_decode() {
            return Ok(Progress::Closer);
        }
        Ok(self.finish(now, id))
    }

    /// A block has enough symbols: it is delivered, or decoded first, a large one elsewhere.
    fn finish(&mut self, now: Time, id: u32) -> Progress {
        let Some(block) = self.blocks.remove(&id) else { return Progress::Redundant };
        let (header, excess) = (block.header(), block.excess());
        if !block.is_whole() {
            self.counters.decoded_blocks += 1;
        }
        if !block.is_whole() && block.header().codec == Codec::RaptorQ {
            self.decoding.insert(id, Decoding { header, excess, is_abandoned: false });
            self.to_decode.push_back(block);
            return Progress::Closer;
        }
        match block.decode() {
            Ok(bytes) => {
                self.windows.was_read(excess);
                self.deliver(now, &header, bytes)
            }
            Err(block) => {
                self.blocks.insert(id, block);
                Progress::Closer
            }
        }
    }

    /// Whether a block is to be decoded elsewhere.
    pub(crate) fn has_jobs(&self) -> bool {
        !self.to_decode.is_empty()
    }

    /// The next block to be decoded elsewhere; [`on_decoded`](Self::on_decoded) must follow.
    pub(crate) fn poll_job(&mut self) -> Option<Box<ReceiveBlock>> {
        self.to_decode.pop_front()
    }

    /// A block comes back from decoding.
    ///
    /// # Errors
    /// [`BadData`] if the peer has sent symbols that it chose so that they do not determine it.
    pub(crate) fn on_decoded(
        &mut self,
        now: Time,
        id: u32,
        bytes: Result<Vec<u8>, Box<ReceiveBlock>>,
    ) -> Result<Progress, BadData> {
        let Some(Decoding { header, excess, is_abandoned }) = self.decoding.remove(&id) else {
            return Ok(Progress::Redundant);
        };
        self.windows.was_read(excess);
        match bytes {
            Ok(bytes) => Ok(self.deliver(now, &header, bytes)),
            Err(_) if is_abandoned => Ok(self.lose(&header)),
            Err(block) if block.is_hopeless() => Err(BadSymbol::Undetermined(id).into()),
            Err(block) => {
                self.windows.arrived(block.excess());
                self.blocks.insert(id, block);
                Ok(Progress::Closer)
            }
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
            match self.blocks.get(&id).map(|block| block.header()) {
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
        let is_news = self.streams.get_mut(&stream).is_some_and(|stream| stream.announce());
        if is_news || stream == CONTROL_STREAM { Progress::Complete(stream) } else { Progress::Closer }
    }

    pub(crate) fn counters(&self) -> ReceiveCounters {
        self.counters
    }

    /// Bytes of memory for what has arrived and was not read.
    pub(crate) fn memory(&self) -> usize {
        let blocks: usize = self.blocks.values().chain(&self.to_decode).map(|block| block.memory()).sum();
        blocks + self.streams.values().map(|stream| stream.unread()).sum::<usize>()
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

    /// The block part of a report on so many paths: the floor, and what arrived of the blocks from there on.
    pub(crate) fn report(&self, paths: usize) -> (u32, BlockReport) {
        let rank = |id: u32| {
            // What is being decoded has K symbols, whatever K is.
            let being_decoded = self.decoding.get(&id).map(|_| usize::MAX);
            let rank = being_decoded.or_else(|| self.blocks.get(&id).map(|block| block.rank())).unwrap_or(0);
            rank.min(MAX_RAPTORQ) as u16
        };
        let describe = |id: u32| if self.complete.contains(&id) { None } else { Some(rank(id)) };
        (self.floor, BlockReport::fit(paths, (self.floor..self.end.max(self.floor)).map(describe)))
    }

    /// Whether a block lacks symbols.
    pub(crate) fn is_waiting(&self) -> bool {
        self.end > self.floor
    }

    /// A first symbol of a block has come.
    fn begin(&mut self, header: &BlockHeader, symbol_size: usize) -> Result<(), BadData> {
        let block = ReceiveBlock::new(*header, symbol_size)?;
        self.claim(header)?;
        self.windows.arrived(block.excess());
        self.blocks.insert(header.id, Box::new(block));
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
        if let Some(block) = self.blocks.remove(&id) {
            self.windows.was_read(block.excess());
        }
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
    use crate::session::code::code;

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
        assert_eq!(receiver.report(1), (0, blocks(&[Some(0), Some(0), None])));
        assert_eq!(receiver.read(STREAM, 100), Some(Read::Blocked));
        take(&mut receiver, &single(0, 0, 10)).expect("right");
        take(&mut receiver, &single(1, 10, 10)).expect("right");
        assert_eq!(receiver.report(1), (3, blocks(&[])));
        assert_eq!(take(&mut receiver, &single(1, 10, 10)), Ok(Progress::Redundant));
        assert!(matches!(receiver.read(STREAM, 100), Some(Read::Data { offset: 0, .. })));
    }

    #[test]
    fn blocks_of_a_closed_stream_are_completed_and_forgotten() {
        let mut receiver = receiver();
        receiver.close(STREAM);
        assert_eq!(take(&mut receiver, &single(0, 0, 10)), Ok(Progress::Redundant));
        assert_eq!(receiver.report(1), (1, blocks(&[])));
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
        let undecodable = Err(block);
        assert_eq!(receiver.on_decoded(Time::ZERO, 0, undecodable), Ok(Progress::Complete(STREAM)));
        let lost = Read::Lost { offset: 0, length: u64::from(length) };
        assert_eq!(receiver.read(STREAM, usize::MAX), Some(lost));
        assert!(!receiver.is_waiting(), "no hole stays in the numbering");
    }

    #[test]
    fn what_an_honest_peer_would_not_send_is_refused() {
        let mut receiver = receiver();
        let window = u64::from(Limits::default().initial_window);
        assert!(matches!(take(&mut receiver, &single(0, window, 10)), Err(BadData::Block(_))));
        assert!(matches!(take(&mut receiver, &single(MAX_BLOCK_SPAN, 0, 10)), Err(BadData::BeyondSpan(_))));
        assert_eq!(receiver.report(1), (0, blocks(&[])), "nothing of it was stored");
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
        assert_eq!(hog.report(1), (2, blocks(&[])));
    }

    /// Encoding ids of repair symbols to which the first of `source_symbols` contributes nothing.
    fn ids_that_say_nothing_of_the_first(source_symbols: usize) -> Vec<u16> {
        let mut source = vec![0; source_symbols * 8];
        source[0] = 1;
        let repairs = code(Codec::RaptorQ, source_symbols).prepare(&source);
        let says_nothing = |id: &u16| {
            let mut symbol = Vec::new();
            repairs.append(usize::from(*id), 1, &source, &mut symbol);
            symbol[0] == 0
        };
        (source_symbols as u16..u16::MAX).filter(says_nothing).take(60).collect()
    }

    /// A sender that left one source symbol out and chose its repair symbols so that they say nothing of it had each of
    /// them stored, and the block decoded anew: 60 symbols of 1,408 bytes, and 60 attempts.
    #[test]
    fn symbols_that_never_determine_a_block_cost_five_decodings_and_eight_symbols_and_end_the_session() {
        const SYMBOLS: u16 = 64;
        let (mut receiver, shared) = (receiver(), SharedPool::new(1 << 30));
        receiver.windows = Windows::new(&Limits::default(), shared.clone(), MemberId(0));
        let length = u32::from(SYMBOLS) * 1408;
        let block =
            BlockHeader { id: 0, stream: STREAM, offset: 0, length, last: false, codec: Codec::RaptorQ };
        let hostile = ids_that_say_nothing_of_the_first(usize::from(SYMBOLS));
        assert_eq!(hostile.len(), 60);
        let (mut attempts, mut most) = (0, 0);
        let mut end = Ok(Progress::Closer);
        for encoding_id in (1..SYMBOLS).chain(hostile) {
            let header = SymbolHeader { encoding_id, block };
            receiver.on_symbol(Time::ZERO, &header, &[0; 1408]).expect("each symbol for itself is right");
            most = most.max(shared.unread());
            if let Some(block) = receiver.poll_job() {
                attempts += 1;
                end = receiver.on_decoded(Time::ZERO, 0, block.decode());
            }
            if end.is_err() {
                break;
            }
        }
        assert_eq!((attempts, end), (5, Err(BadSymbol::Undetermined(0).into())));
        // The block, nine symbols in a vector that doubles, and what is kept of each symbol.
        let bound = u64::from(length) + 16 * 1408 + 1_000;
        assert!((u64::from(length)..bound).contains(&most), "{most} bytes, where {bound} are enough");
        assert_eq!(shared.unread(), u64::from(length), "what was announced, until the session is gone");
    }

    /// Blocks of streams that were reset kept their symbols: 8,192 blocks a session, whatever credit allows.
    #[test]
    fn blocks_of_a_stream_that_is_closed_take_no_memory_and_leave_no_hole() {
        let (mut receiver, shared) = (receiver(), SharedPool::new(1 << 30));
        receiver.windows = Windows::new(&Limits::default(), shared.clone(), MemberId(0));
        let length = 64 * 1408;
        for id in 0..100 {
            let stream = STREAM + 2 * id;
            receiver.open(stream);
            let block = BlockHeader { id, stream, offset: 0, length, last: false, codec: Codec::RaptorQ };
            // Of each second block there are enough symbols, and it waits to be decoded.
            for encoding_id in 1..64 + (id % 2) as u16 {
                let header = SymbolHeader { encoding_id, block };
                receiver.on_symbol(Time::ZERO, &header, &[1; 1408]).expect("right");
            }
            receiver.close(stream);
        }
        assert_eq!((receiver.memory(), shared.unread()), (0, 0));
        assert_eq!((receiver.report(1), receiver.poll_job().is_none()), ((100, blocks(&[])), true));
    }

    #[test]
    fn repair_symbols_count_against_what_a_node_has_until_their_block_is_whole() {
        let (mut receiver, shared) = (receiver(), SharedPool::new(1 << 30));
        receiver.windows = Windows::new(&Limits::default(), shared.clone(), MemberId(0));
        let length = 64 * 1408;
        let block =
            BlockHeader { id: 0, stream: STREAM, offset: 0, length, last: false, codec: Codec::RaptorQ };
        for encoding_id in 64..127 {
            receiver.on_symbol(Time::ZERO, &SymbolHeader { encoding_id, block }, &[0; 1408]).expect("right");
        }
        assert_eq!(shared.unread(), receiver.memory() as u64);
        assert!(shared.unread() > u64::from(length) * 19 / 10, "{}", shared.unread());
        for encoding_id in 0..64 {
            receiver.on_symbol(Time::ZERO, &SymbolHeader { encoding_id, block }, &[0; 1408]).expect("right");
            if let Some(block) = receiver.poll_job() {
                receiver.on_decoded(Time::ZERO, 0, block.decode()).expect("it may need some more");
            }
        }
        assert_eq!(shared.unread(), u64::from(length), "the block is whole, and nobody has read it");
    }
}
