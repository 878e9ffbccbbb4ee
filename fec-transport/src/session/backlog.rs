//! Bytes of a stream that wait to become blocks.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// What is written in small pieces is collected in chunks of at least and at most so many bytes.
const CHUNK: std::ops::RangeInclusive<usize> = 4 << 10..=256 << 10;

/// As many symbols in one chunk are worth a piece of a block of their own; fewer are copied together.
const LEAST_SYMBOLS: usize = 8;

/// A queue of bytes in chunks, so that blocks are cut out of it without a copy but where two chunks meet.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    chunks: VecDeque<Bytes>,
    /// The chunk that is being filled.
    tail: BytesMut,
    length: usize,
}

impl Backlog {
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(crate) fn clear(&mut self) {
        *self = Backlog::default();
    }

    /// Appends a copy of `data`.
    pub(crate) fn push(&mut self, mut data: &[u8]) {
        self.length += data.len();
        while !data.is_empty() {
            if self.tail.len() == self.tail.capacity() {
                self.end_chunk();
                self.tail = BytesMut::with_capacity(data.len().clamp(*CHUNK.start(), *CHUNK.end()));
            }
            let room = self.tail.capacity() - self.tail.len();
            let (now, later) = data.split_at(room.min(data.len()));
            self.tail.extend_from_slice(now);
            data = later;
        }
    }

    /// Appends `data` itself.
    pub(crate) fn push_bytes(&mut self, data: Bytes) {
        self.length += data.len();
        self.end_chunk();
        self.chunks.push_back(data);
    }

    /// Takes the first `length` bytes, which must be there, as symbols of `size` bytes, of which the last is padded
    /// with zeros: in pieces of whole symbols.
    pub(crate) fn take(&mut self, length: usize, size: usize) -> Vec<Bytes> {
        self.length -= length;
        let (mut pieces, mut copied, mut left) = (Vec::new(), Vec::new(), length);
        while left > 0 {
            if self.chunks.is_empty() {
                self.end_chunk();
            }
            let Some(front) = self.chunks.front_mut() else { break };
            let here = front.len().min(left);
            // What the symbol still lacks that began in the chunk before.
            let lacks = copied.len().next_multiple_of(size) - copied.len();
            let whole = here.saturating_sub(lacks) / size * size;
            let is_long = whole >= LEAST_SYMBOLS * size || whole > 0 && whole == left - lacks;
            if is_long && lacks == 0 {
                if !copied.is_empty() {
                    pieces.push(std::mem::take(&mut copied).into());
                }
                pieces.push(front.split_to(whole));
                left -= whole;
            } else {
                let piece = front.split_to(if is_long { lacks } else { here });
                if copied.is_empty() {
                    copied.reserve_exact((piece.len() + self.short(left, size)).next_multiple_of(size));
                }
                copied.extend_from_slice(&piece);
                left -= piece.len();
            }
            self.drop_empty_front();
        }
        if !copied.is_empty() {
            copied.resize(copied.len().next_multiple_of(size), 0);
            pieces.push(copied.into());
        }
        pieces
    }

    /// How many of the next `most` bytes lie before a chunk of which symbols of `size` bytes are worth a piece.
    fn short(&self, most: usize, size: usize) -> usize {
        let short =
            self.chunks.iter().map(Bytes::len).take_while(|length| *length < (LEAST_SYMBOLS + 1) * size);
        short.sum::<usize>().min(most)
    }

    /// What was collected so far becomes a chunk; what is left of its memory is filled later.
    fn end_chunk(&mut self) {
        if !self.tail.is_empty() {
            self.chunks.push_back(self.tail.split().freeze());
        }
    }

    fn drop_empty_front(&mut self) {
        if self.chunks.front().is_some_and(Bytes::is_empty) {
            self.chunks.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[derive(Debug, Clone)]
    enum Step {
        Push(usize),
        PushBytes(usize),
        Take(usize, usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let size = || prop_oneof![0usize..50, 1_000usize..6_000, 250_000usize..300_000];
        prop_oneof![
            size().prop_map(Step::Push),
            size().prop_map(Step::PushBytes),
            (size(), 1usize..2_000).prop_map(|(length, symbol)| Step::Take(length, symbol)),
        ]
    }

    proptest! {
        // Chunks are long, and so are the cases.
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn bytes_come_out_as_they_went_in(steps in proptest::collection::vec(step(), 0..20)) {
            let (mut backlog, mut model, mut next) = (Backlog::default(), VecDeque::new(), 0u8);
            let mut numbered = |count: usize| -> Vec<u8> {
                (0..count).map(|_| { next = next.wrapping_mul(5).wrapping_add(1); next }).collect()
            };
            for step in steps {
                match step {
                    Step::Push(count) => {
                        let data = numbered(count);
                        backlog.push(&data);
                        model.extend(data);
                    }
                    Step::PushBytes(count) => {
                        let data = numbered(count);
                        model.extend(data.iter().copied());
                        backlog.push_bytes(Bytes::from(data));
                    }
                    Step::Take(most, symbol) => {
                        let length = most.min(model.len());
                        let mut expected: Vec<u8> = model.drain(..length).collect();
                        expected.resize(length.next_multiple_of(symbol), 0);
                        let pieces = backlog.take(length, symbol);
                        prop_assert!(pieces.iter().all(|piece| piece.len().is_multiple_of(symbol)));
                        prop_assert!(pieces.iter().all(|piece| !piece.is_empty()));
                        prop_assert_eq!(pieces.concat(), expected);
                    }
                }
                prop_assert_eq!(backlog.len(), model.len());
            }
        }
    }

    #[test]
    fn only_symbols_in_which_chunks_meet_are_copied() {
        let (mut backlog, chunks) = (Backlog::default(), [7, 9].map(|byte| Bytes::from(vec![byte; 100_500])));
        chunks.iter().for_each(|chunk| backlog.push_bytes(chunk.clone()));
        let pieces = backlog.take(201_000, 1_000);
        assert_eq!(pieces.iter().map(Bytes::len).collect::<Vec<_>>(), [100_000, 1_000, 100_000]);
        assert_eq!((pieces[0].as_ptr(), pieces[2].as_ptr()), (chunks[0].as_ptr(), chunks[1][500..].as_ptr()));
    }
}
