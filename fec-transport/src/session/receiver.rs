//! The receiving side of a session: symbols become blocks, blocks become streams, and credit bounds what may come.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use super::block::{BadSymbol, ReceiveBlock};
use super::delivery::Delivery;
use super::sender::{CONTROL_STREAM, MAX_BLOCK_SPAN};
use super::stream::{BadBlock, Read, ReceiveStream};
use crate::config::Limits;
use crate::time::Time;
use crate::wire::report::MAX_REPORTED_BLOCKS;
use crate::wire::symbol::{BlockHeader, SymbolHeader};

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
    windows: Windows,
    delivery: Delivery,
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
}

impl Receiver {
    pub(crate) fn new(limits: &Limits) -> Receiver {
        Receiver {
            streams: BTreeMap::from([(CONTROL_STREAM, ReceiveStream::new(CONTROL_WINDOW))]),
            blocks: BTreeMap::new(),
            floor: 0,
            complete: BTreeSet::new(),
            end: 0,
            windows: Windows::new(limits),
            delivery: Delivery::default(),
        }
    }

    pub(crate) fn open(&mut self, stream: u32) {
        self.streams.insert(stream, ReceiveStream::new(self.windows.initial));
    }

    pub(crate) fn close(&mut self, stream: u32) {
        if let Some(stream) = self.streams.remove(&stream) {
            self.windows.release(stream.window());
        }
    }

    pub(crate) fn delivery(&self) -> &Delivery {
        &self.delivery
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
        let id = header.block.id;
        if id < self.floor || self.complete.contains(&id) {
            return Ok(Progress::Redundant);
        }
        if id - self.floor >= MAX_BLOCK_SPAN {
            return Err(BadData::BeyondSpan(id));
        }
        if !self.streams.contains_key(&header.block.stream) {
            self.mark_complete(id);
            return Ok(Progress::Redundant);
        }
        let block = self.block(&header.block, symbol.len())?;
        if !block.insert(&header.block, header.encoding_id, symbol)? {
            return Ok(Progress::Redundant);
        }
        if !block.is_complete() {
            return Ok(Progress::Closer);
        }
        self.deliver(now, id);
        let stream = self.streams.get_mut(&header.block.stream);
        let is_news = stream.is_some_and(ReceiveStream::announce) || header.block.stream == CONTROL_STREAM;
        Ok(if is_news { Progress::Complete(header.block.stream) } else { Progress::Closer })
    }

    /// The next bytes of a stream; see [`ReceiveStream`].
    pub(crate) fn read(&mut self, stream: u32, max: usize) -> Option<Read> {
        self.streams.get_mut(&stream).map(|stream| stream.read(max))
    }

    /// Any complete block of a stream.
    pub(crate) fn read_block(&mut self, stream: u32) -> Option<Read> {
        self.streams.get_mut(&stream).map(ReceiveStream::read_block)
    }

    /// The credit to grant on a stream, if it is worth a message; its memory is reserved.
    pub(crate) fn next_credit(&mut self, stream: u32) -> Option<u64> {
        let open = self.streams.get_mut(&stream)?;
        if !open.wants_credit() {
            return None;
        }
        open.next_credit(self.windows.grow(open.window()))
    }

    /// The block part of a report: the floor, and for the blocks from there on `None` if complete, else the rank.
    pub(crate) fn report(&self) -> (u32, Vec<Option<u8>>) {
        let end = self.end.min(self.floor + MAX_REPORTED_BLOCKS as u32);
        let rank = |id: u32| self.blocks.get(&id).map_or(0, |block| block.rank() as u8);
        let describe = |id: u32| if self.complete.contains(&id) { None } else { Some(rank(id)) };
        (self.floor, (self.floor..end.max(self.floor)).map(describe).collect())
    }

    /// Whether a block lacks symbols.
    pub(crate) fn is_waiting(&self) -> bool {
        self.end > self.floor
    }

    fn block(&mut self, header: &BlockHeader, symbol_size: usize) -> Result<&mut ReceiveBlock, BadData> {
        if !self.blocks.contains_key(&header.id) {
            let block = ReceiveBlock::new(*header, symbol_size)?;
            if let Some(stream) = self.streams.get_mut(&header.stream) {
                stream.claim(header.offset, header.end(), header.last)?;
            }
            self.end = self.end.max(header.id + 1);
            self.blocks.insert(header.id, block);
        }
        Ok(self.blocks.get_mut(&header.id).expect("it was there or was just inserted"))
    }

    fn deliver(&mut self, now: Time, id: u32) {
        let Some(block) = self.blocks.remove(&id) else { return };
        let header = block.header;
        self.mark_complete(id);
        if let Some(stream) = self.streams.get_mut(&header.stream) {
            stream.deliver(header.offset, Bytes::from(block.decode()));
        }
        if header.stream != CONTROL_STREAM {
            self.delivery.note(now, header.length);
        }
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

/// The memory that credit may promise: windows grow out of one pool, and return to it.
#[derive(Debug)]
struct Windows {
    initial: u64,
    largest: u64,
    /// What is left for growth, after the initial windows of all streams that may be open at once.
    pool: u64,
}

impl Windows {
    fn new(limits: &Limits) -> Windows {
        let initial = u64::from(limits.initial_window);
        // Both sides may have that many streams open.
        let set_aside = initial * u64::from(limits.streams) * 2;
        let pool = (limits.receive_memory as u64).saturating_sub(set_aside);
        Windows { initial, largest: u64::from(limits.max_window), pool }
    }

    /// What a window may grow to: twice its size, within its own limit and what the pool has left.
    fn grow(&mut self, window: u64) -> u64 {
        let growth = window.min(self.largest.saturating_sub(window)).min(self.pool);
        self.pool -= growth;
        window + growth
    }

    fn release(&mut self, window: u64) {
        self.pool += window.saturating_sub(self.initial);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: u32 = 2;

    fn receiver() -> Receiver {
        let mut receiver = Receiver::new(&Limits::default());
        receiver.open(STREAM);
        receiver
    }

    fn single(id: u32, offset: u64, length: usize) -> (SymbolHeader, Vec<u8>) {
        let block = BlockHeader { id, stream: STREAM, offset, length: length as u32, last: false };
        (SymbolHeader { encoding_id: 0, block }, vec![id as u8; length])
    }

    fn take(receiver: &mut Receiver, symbol: &(SymbolHeader, Vec<u8>)) -> Result<Progress, BadData> {
        receiver.on_symbol(Time::ZERO, &symbol.0, &symbol.1)
    }

    #[test]
    fn blocks_are_reported_and_delivered_in_any_order() {
        let mut receiver = receiver();
        assert_eq!(take(&mut receiver, &single(2, 20, 10)), Ok(Progress::Complete(STREAM)));
        assert_eq!(receiver.report(), (0, vec![Some(0), Some(0), None]));
        assert_eq!(receiver.read(STREAM, 100), Some(Read::Blocked));
        take(&mut receiver, &single(0, 0, 10)).expect("right");
        take(&mut receiver, &single(1, 10, 10)).expect("right");
        assert_eq!(receiver.report(), (3, vec![]));
        assert_eq!(take(&mut receiver, &single(1, 10, 10)), Ok(Progress::Redundant));
        assert!(matches!(receiver.read(STREAM, 100), Some(Read::Data { offset: 0, .. })));
    }

    #[test]
    fn blocks_of_a_closed_stream_are_completed_and_forgotten() {
        let mut receiver = receiver();
        receiver.close(STREAM);
        assert_eq!(take(&mut receiver, &single(0, 0, 10)), Ok(Progress::Redundant));
        assert_eq!(receiver.report(), (1, vec![]));
    }

    #[test]
    fn what_an_honest_peer_would_not_send_is_refused() {
        let mut receiver = receiver();
        let window = u64::from(Limits::default().initial_window);
        assert!(matches!(take(&mut receiver, &single(0, window, 10)), Err(BadData::Block(_))));
        assert!(matches!(take(&mut receiver, &single(MAX_BLOCK_SPAN, 0, 10)), Err(BadData::BeyondSpan(_))));
        assert_eq!(receiver.report(), (0, vec![]), "nothing of it was stored");
    }

    #[test]
    fn windows_grow_out_of_a_bounded_pool() {
        let limits =
            Limits { receive_memory: 4 << 20, initial_window: 1 << 20, streams: 1, ..Limits::default() };
        let mut windows = Windows::new(&limits);
        assert_eq!(windows.grow(1 << 20), 2 << 20);
        assert_eq!(windows.grow(1 << 20), 2 << 20);
        assert_eq!(windows.grow(1 << 20), 1 << 20);
        windows.release(2 << 20);
        assert_eq!(windows.grow(1 << 20), 2 << 20);
    }
}
