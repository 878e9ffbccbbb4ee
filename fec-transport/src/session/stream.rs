//! The two directions of a stream: bytes that wait to become blocks, and blocks that wait to be read.

mod unread;

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use super::backlog::Backlog;
use super::block::{FullBlock, Geometry, Source};
use crate::time::Time;
use crate::wire::symbol::MAX_STREAM_OFFSET;
use unread::Unread;

/// What a stream is for; each end chooses for its own direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Class {
    /// Throughput: large blocks, small redundancy, repair.
    #[default]
    Bulk,
    /// Somebody waits for each message: small blocks that hardly ever need a repair, sent before all bulk.
    Interactive,
    /// Interactive, but late data is worth nothing: a block that is not whole by then is reported lost.
    RealTime {
        /// The time from the forming of a block to its being given up.
        deadline: Duration,
    },
}

impl Class {
    /// Whether it goes before bulk.
    pub(crate) fn is_urgent(self) -> bool {
        self != Class::Bulk
    }

    /// When a block that is formed now is given up.
    pub(crate) fn deadline(self, formed: Time) -> Option<Time> {
        match self {
            Class::RealTime { deadline } => Some(formed + deadline),
            Class::Bulk | Class::Interactive => None,
        }
    }
}

/// What can be read of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Read {
    /// Bytes at `offset` in the stream: the next ones in order, or any whole block, as was asked.
    Data {
        /// Where the bytes begin in the stream.
        offset: u64,
        /// The bytes; never empty.
        bytes: Bytes,
    },
    /// Bytes of a real-time stream that did not arrive in time and never will.
    Lost {
        /// Where they begin in the stream.
        offset: u64,
        /// How many.
        length: u64,
    },
    /// Nothing now; an event will tell when there is.
    Blocked,
    /// The peer finished the stream and everything was read.
    Finished,
}

/// The sending direction.
#[derive(Debug)]
pub(crate) struct SendStream {
    class: Class,
    buffer: Backlog,
    /// Where the buffer begins in the stream: the end of the last block.
    formed: u64,
    /// Up to where the peer has granted credit.
    credit: u64,
    /// Blocks are formed up to here whatever their size.
    flush_to: u64,
    /// When the oldest byte of the buffer was written.
    waiting_since: Option<Time>,
    finish: Finish,
    /// Whether a writer was told to wait.
    writer_waits: bool,
    /// Blocks on the way.
    open_blocks: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finish {
    Open,
    /// The writer is done; the last block is yet to be formed.
    Asked,
    /// The last block has been formed.
    Formed,
}

impl SendStream {
    pub(crate) fn new(credit: u64, class: Class) -> SendStream {
        SendStream {
            class,
            buffer: Backlog::default(),
            formed: 0,
            credit,
            flush_to: 0,
            waiting_since: None,
            finish: Finish::Open,
            writer_waits: false,
            open_blocks: 0,
        }
    }

    pub(crate) fn class(&self) -> Class {
        self.class
    }

    /// Says what the stream is for, from its next block on.
    pub(crate) fn set_class(&mut self, class: Class) {
        self.class = class;
    }

    /// Whether a writer waits although the buffer is filled to no more than `level`; it waits no more.
    pub(crate) fn is_relieved(&mut self, level: usize) -> bool {
        self.buffered() <= level && std::mem::take(&mut self.writer_waits)
    }

    /// Whether its writer was told to wait.
    pub(crate) fn is_waited_for(&self) -> bool {
        self.writer_waits
    }

    /// A block of the stream has been delivered or given up.
    pub(crate) fn block_over(&mut self) {
        self.open_blocks -= 1;
    }

    /// Takes as much of `data` as fits into a buffer of `limit` bytes; gives how much.
    pub(crate) fn write(&mut self, now: Time, data: &[u8], limit: usize) -> usize {
        let taken = data.len().min(self.room(limit));
        self.buffer.push(&data[..taken]);
        self.note_written(now, taken, data.len());
        taken
    }

    /// The same without a copy.
    pub(crate) fn write_bytes(&mut self, now: Time, data: &Bytes, limit: usize) -> usize {
        let taken = data.len().min(self.room(limit));
        self.buffer.push_bytes(data.slice(..taken));
        self.note_written(now, taken, data.len());
        taken
    }

    fn room(&self, limit: usize) -> usize {
        let left_of_stream = usize::try_from(MAX_STREAM_OFFSET - self.end()).unwrap_or(usize::MAX);
        limit.saturating_sub(self.buffer.len()).min(left_of_stream)
    }

    fn note_written(&mut self, now: Time, taken: usize, offered: usize) {
        if taken > 0 {
            self.waiting_since.get_or_insert(now);
        }
        self.writer_waits = taken < offered;
    }

    pub(crate) fn flush(&mut self) {
        self.flush_to = self.end();
    }

    pub(crate) fn finish(&mut self) {
        self.flush();
        if self.finish == Finish::Open {
            self.finish = Finish::Asked;
        }
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.finish != Finish::Open
    }

    /// Whether all blocks, the last included, have reached the peer.
    pub(crate) fn is_delivered(&self) -> bool {
        self.finish == Finish::Formed && self.open_blocks == 0
    }

    /// Whether any of its blocks are on the way.
    pub(crate) fn has_blocks(&self) -> bool {
        self.open_blocks > 0
    }

    pub(crate) fn grant(&mut self, credit: u64) {
        self.credit = self.credit.max(credit);
    }

    /// Where the last block ended.
    pub(crate) fn formed(&self) -> u64 {
        self.formed
    }

    pub(crate) fn buffered(&self) -> usize {
        self.buffer.len()
    }

    /// Whether there is something that is to become a block: bytes, or the end.
    pub(crate) fn has_more(&self) -> bool {
        !self.buffer.is_empty() || self.finish == Finish::Asked
    }

    /// Whether a block of up to `full` bytes can be formed now.
    pub(crate) fn can_form(&self, now: Time, full: usize, timer: Duration) -> bool {
        let sendable = self.sendable();
        if sendable == 0 {
            return self.finish == Finish::Asked && self.buffer.is_empty();
        }
        let timer_is_up = self.waiting_since.is_some_and(|since| now.since(since) >= timer);
        sendable >= full || self.formed < self.flush_to || timer_is_up || sendable == self.window_left(full)
    }

    /// When [`can_form`](Self::can_form) becomes true by itself.
    pub(crate) fn forms_at(&self, timer: Duration) -> Option<Time> {
        if self.sendable() == 0 { None } else { self.waiting_since.map(|since| since + timer) }
    }

    /// Cuts the next block, a full one if there is as much, of symbols of at most `largest` bytes.
    pub(crate) fn form(&mut self, now: Time, full: FullBlock, largest: usize) -> Formed {
        let length = self.sendable().min(full.source_symbols * largest);
        let geometry = Geometry::of(length, largest, full);
        let pieces = self.buffer.take(length, geometry.symbol_size);
        let source = Source::new(geometry.symbol_size, pieces);
        let offset = self.formed;
        self.formed += length as u64;
        self.waiting_since = if self.buffer.is_empty() { None } else { Some(now) };
        let last = self.finish == Finish::Asked && self.buffer.is_empty();
        if last {
            self.finish = Finish::Formed;
        }
        self.open_blocks += 1;
        Formed { offset, length, geometry, source, last }
    }

    /// Drops what has not become a block, and ends the stream.
    pub(crate) fn abandon(&mut self) {
        self.buffer.clear();
        self.waiting_since = None;
        self.finish = Finish::Formed;
    }

    fn end(&self) -> u64 {
        self.formed + self.buffer.len() as u64
    }

    fn sendable(&self) -> usize {
        usize::try_from(self.credit.saturating_sub(self.formed)).unwrap_or(usize::MAX).min(self.buffer.len())
    }

    /// How many bytes of a block of `full` bytes the credit allows. If that is less than all of them and the buffer has
    /// as much, a sender that waited for more would wait for a reader that waits for the sender.
    fn window_left(&self, full: usize) -> usize {
        usize::try_from(self.credit.saturating_sub(self.formed)).unwrap_or(usize::MAX).min(full)
    }
}

/// What becomes a block.
#[derive(Debug)]
pub(crate) struct Formed {
    /// Where it begins in the stream.
    pub(crate) offset: u64,
    /// In bytes.
    pub(crate) length: usize,
    pub(crate) geometry: Geometry,
    /// Its bytes, followed by zeros up to K symbols.
    pub(crate) source: Source,
    /// Whether the stream ends with it.
    pub(crate) last: bool,
}

/// The receiving direction.
#[derive(Debug)]
pub(crate) struct ReceiveStream {
    /// Decoded and lost blocks.
    unread: Unread,
    /// Which parts of the stream have been announced by blocks: start to end, merged.
    claimed: BTreeMap<u64, u64>,
    /// Bytes of these, and how many of them were read.
    announced_bytes: u64,
    consumed: u64,
    /// Where reading in order goes on.
    next: u64,
    /// Up to where the peer may send.
    granted: u64,
    window: u64,
    end: Option<u64>,
    /// Whether the reader was told that there is something to read, and has not looked yet.
    announced: bool,
}

/// A block that has no place in its stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadBlock {
    #[error("a block up to offset {end} where credit ends at {granted}")]
    BeyondCredit { end: u64, granted: u64 },
    #[error("two blocks that share offset {0}")]
    Overlap(u64),
    #[error("a block at offset {0} beyond the end of its stream")]
    BeyondEnd(u64),
}

impl ReceiveStream {
    pub(crate) fn new(window: u64) -> ReceiveStream {
        ReceiveStream {
            unread: Unread::default(),
            claimed: BTreeMap::new(),
            announced_bytes: 0,
            consumed: 0,
            next: 0,
            granted: window,
            window,
            end: None,
            announced: false,
        }
    }

    /// Admits a block that was just announced, before any of its bytes is stored.
    pub(crate) fn claim(&mut self, start: u64, end: u64, last: bool) -> Result<(), BadBlock> {
        if end > self.granted {
            return Err(BadBlock::BeyondCredit { end, granted: self.granted });
        }
        let highest = self.claimed.last_key_value().map_or(0, |(_, end)| *end);
        if self.end.is_some_and(|limit| end > limit || last) || (last && highest > end) {
            return Err(BadBlock::BeyondEnd(start));
        }
        self.claim_range(start, end)?;
        if last {
            self.end = Some(end);
        }
        Ok(())
    }

    fn claim_range(&mut self, start: u64, end: u64) -> Result<(), BadBlock> {
        if start == end {
            return Ok(());
        }
        let length = end - start;
        let (mut start, mut end) = (start, end);
        if let Some((next, next_end)) = self.claimed.range(start..).next().map(|(a, b)| (*a, *b)) {
            match next.cmp(&end) {
                std::cmp::Ordering::Less => return Err(BadBlock::Overlap(next)),
                std::cmp::Ordering::Equal => {
                    self.claimed.remove(&next);
                    end = next_end;
                }
                std::cmp::Ordering::Greater => {}
            }
        }
        if let Some((before, before_end)) = self.claimed.range(..start).next_back().map(|(a, b)| (*a, *b)) {
            if before_end > start {
                return Err(BadBlock::Overlap(start));
            }
            if before_end == start {
                start = before;
            }
        }
        self.claimed.insert(start, end);
        self.announced_bytes += length;
        Ok(())
    }

    /// Stores a decoded block.
    pub(crate) fn deliver(&mut self, offset: u64, bytes: Vec<u8>) {
        self.unread.add(offset, bytes);
    }

    /// Notes that a block was given up.
    pub(crate) fn lose(&mut self, offset: u64, length: u64) {
        self.unread.lose(offset, length);
    }

    /// Notes that there is something to read; gives whether the reader must be told.
    pub(crate) fn announce(&mut self) -> bool {
        !std::mem::replace(&mut self.announced, true)
    }

    /// The next bytes in order, at most `max`.
    pub(crate) fn read(&mut self, max: usize) -> Read {
        self.announced = false;
        if max == 0 && self.unread.has(self.next) {
            return Read::Blocked;
        }
        let read = self.unread.take_at(self.next, max);
        self.was_read(read)
    }

    /// Any block that is here, the one with the lowest offset first; small ones that touch are one.
    pub(crate) fn read_block(&mut self) -> Read {
        self.announced = false;
        let read = self.unread.take_first();
        self.was_read(read)
    }

    fn was_read(&mut self, read: Option<Read>) -> Read {
        let Some(read) = read else { return self.nothing() };
        let (offset, length) = match &read {
            Read::Data { offset, bytes } => (*offset, bytes.len() as u64),
            Read::Lost { offset, length } => (*offset, *length),
            Read::Blocked | Read::Finished => return read,
        };
        if offset == self.next {
            self.next += length;
        }
        self.consumed += length;
        read
    }

    /// Bytes that wait for the reader.
    pub(crate) fn unread(&self) -> usize {
        self.unread.bytes()
    }

    /// Bytes of the blocks that were announced and that nobody has read.
    pub(crate) fn held(&self) -> u64 {
        self.announced_bytes - self.consumed
    }

    /// The gaps between the blocks that were announced, and before the first of them.
    pub(crate) fn holes(&self) -> usize {
        self.claimed.len() - usize::from(self.claimed.first_key_value().is_some_and(|(start, _)| *start == 0))
    }

    fn nothing(&self) -> Read {
        if self.is_finished() { Read::Finished } else { Read::Blocked }
    }

    /// Whether everything was read.
    pub(crate) fn is_finished(&self) -> bool {
        self.end == Some(self.consumed)
    }

    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// The credit to grant, if it is worth a message: once a quarter of the window was read. The window first grows to
    /// `grown`, which the session has reserved.
    pub(crate) fn next_credit(&mut self, grown: u64) -> Option<u64> {
        let limit = (self.consumed + self.window).min(MAX_STREAM_OFFSET);
        if self.end.is_some() || limit < self.granted + self.window / 4 {
            return None;
        }
        self.window = self.window.max(grown);
        self.granted = (self.consumed + self.window).min(MAX_STREAM_OFFSET);
        Some(self.granted)
    }

    /// Whether [`next_credit`](Self::next_credit) would grant more.
    pub(crate) fn wants_credit(&self) -> bool {
        self.end.is_none()
            && (self.consumed + self.window).min(MAX_STREAM_OFFSET) >= self.granted + self.window / 4
            && self.granted < MAX_STREAM_OFFSET
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FULL: FullBlock = FullBlock { codec: crate::wire::symbol::Codec::ReedSolomon, source_symbols: 1 };
    const TIMER: Duration = Duration::from_millis(2);

    #[test]
    fn a_block_forms_when_full_flushed_or_late() {
        let mut stream = SendStream::new(1000, Class::Bulk);
        assert_eq!(stream.write(Time::ZERO, &[1; 60], 500), 60);
        assert!(!stream.can_form(Time::ZERO, 100, TIMER));
        assert!(stream.can_form(Time::ZERO + TIMER, 100, TIMER));
        assert!(stream.can_form(Time::ZERO, 60, TIMER));
        stream.flush();
        assert!(stream.can_form(Time::ZERO, 100, TIMER));
        let formed = stream.form(Time::ZERO, FULL, 100);
        assert_eq!(
            (formed.offset, formed.source.contiguous(), formed.last),
            (0, Bytes::from(vec![1; 60]), false)
        );
        stream.finish();
        let formed = stream.form(Time::ZERO, FULL, 100);
        assert_eq!((formed.offset, formed.source.contiguous(), formed.last), (60, Bytes::new(), true));
        assert!(!stream.can_form(Time::ZERO, 100, TIMER));
    }

    #[test]
    fn credit_bounds_what_is_formed_and_the_buffer_what_is_written() {
        let mut stream = SendStream::new(30, Class::Bulk);
        assert_eq!(stream.write(Time::ZERO, &[1; 600], 500), 500);
        assert!(stream.writer_waits);
        assert!(stream.can_form(Time::ZERO, 100, TIMER), "all that credit allows is here");
        assert_eq!(stream.form(Time::ZERO, FULL, 100).length, 30);
        assert!(!stream.can_form(Time::ZERO + TIMER, 100, TIMER));
        stream.grant(40);
        assert_eq!(stream.form(Time::ZERO, FULL, 100).length, 10);
    }

    #[test]
    fn blocks_that_overlap_or_exceed_credit_or_the_end_are_refused() {
        let mut stream = ReceiveStream::new(100);
        assert_eq!(stream.claim(0, 101, false), Err(BadBlock::BeyondCredit { end: 101, granted: 100 }));
        stream.claim(10, 20, false).expect("free");
        stream.claim(0, 10, false).expect("free");
        assert_eq!(stream.claim(15, 30, false), Err(BadBlock::Overlap(15)));
        assert_eq!(stream.claim(0, 1, false), Err(BadBlock::Overlap(0)));
        stream.claim(20, 40, true).expect("free");
        assert_eq!(stream.claim(40, 41, false), Err(BadBlock::BeyondEnd(40)));
        assert_eq!(stream.claim(40, 40, true), Err(BadBlock::BeyondEnd(40)));
    }

    proptest! {
        #[test]
        fn reading_in_order_gives_the_stream_back(
            sizes in proptest::collection::vec(1usize..50, 1..30), max in 1usize..70, seed: u64,
        ) {
            let total: usize = sizes.iter().sum();
            let data: Vec<u8> = (0..total).map(|i| i as u8).collect();
            let mut stream = ReceiveStream::new(total as u64);
            let mut blocks = Vec::new();
            let mut start = 0;
            for size in sizes {
                blocks.push((start, start + size));
                start += size;
            }
            let count = blocks.len();
            blocks.rotate_left(seed as usize % count);
            for (start, end) in blocks {
                stream.claim(start as u64, end as u64, end == total).expect("blocks are disjoint");
                stream.deliver(start as u64, data[start..end].to_vec());
            }
            let mut read = Vec::new();
            while let Read::Data { offset, bytes } = stream.read(max) {
                prop_assert_eq!(offset as usize, read.len());
                read.extend_from_slice(&bytes);
            }
            prop_assert_eq!(read, data);
            prop_assert_eq!(stream.read(max), Read::Finished);
        }
    }

    #[test]
    fn credit_follows_the_reader() {
        let mut stream = ReceiveStream::new(100);
        stream.claim(0, 40, false).expect("free");
        stream.deliver(0, vec![0; 40]);
        assert!(!stream.wants_credit());
        stream.read(24);
        assert_eq!(stream.next_credit(100), None);
        stream.read(1);
        assert!(stream.wants_credit());
        assert_eq!(stream.next_credit(200), Some(225));
    }
}
