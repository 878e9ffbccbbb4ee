//! Bytes of a stream that wait to become blocks.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

/// What is written in small pieces is collected in chunks of at least and at most so many bytes.
const CHUNK: std::ops::RangeInclusive<usize> = 4 << 10..=256 << 10;

/// A queue of bytes in chunks, so that a block is cut out of it without a copy where it lies within one chunk.
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

    /// Takes the first `length` bytes, which must be there, followed by zeros up to `padded`.
    pub(crate) fn take(&mut self, length: usize, padded: usize) -> Bytes {
        self.length -= length;
        if self.chunks.is_empty() {
            self.end_chunk();
        }
        if let Some(front) = self.chunks.front_mut().filter(|front| front.len() >= length)
            && length == padded
        {
            let taken = front.split_to(length);
            self.drop_empty_front();
            return taken;
        }
        let mut taken = Vec::with_capacity(padded);
        while taken.len() < length {
            if self.chunks.is_empty() {
                self.end_chunk();
            }
            let Some(front) = self.chunks.front_mut() else { break };
            let piece = front.split_to(front.len().min(length - taken.len()));
            taken.extend_from_slice(&piece);
            self.drop_empty_front();
        }
        taken.resize(padded, 0);
        Bytes::from(taken)
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
            (size(), 0usize..3).prop_map(|(length, padding)| Step::Take(length, 8 * padding)),
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
                    Step::Take(most, padding) => {
                        let length = most.min(model.len());
                        let mut expected: Vec<u8> = model.drain(..length).collect();
                        expected.resize(length + padding, 0);
                        prop_assert_eq!(backlog.take(length, length + padding), expected);
                    }
                }
                prop_assert_eq!(backlog.len(), model.len());
            }
        }
    }

    #[test]
    fn a_block_within_a_chunk_is_not_copied() {
        let (mut backlog, data) = (Backlog::default(), Bytes::from(vec![7; 3_000]));
        backlog.push_bytes(data.clone());
        assert_eq!(backlog.take(1_000, 1_000).as_ptr(), data.as_ptr());
        assert_eq!(backlog.take(1_000, 1_000).as_ptr(), data[1_000..].as_ptr());
        assert_ne!(backlog.take(1_000, 1_008).as_ptr(), data[2_000..].as_ptr());
    }
}
