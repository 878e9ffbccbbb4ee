//! Chunks in order, fetched long before they are needed.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::meter::Meter;
use super::store::{Objects, Outcome, ReplicationError, Store};
use crate::replication::ChunkRef;

/// Neighbours in an object are fetched together up to this.
const RANGE: u64 = 2 << 20;
/// Bytes under way or waiting: more than a gigabit per second holds in 200 ms.
const WINDOW: u64 = 48 << 20;

/// Gives chunks in the order in which they are asked for, with many requests under way.
pub struct ReadAhead<S: Store, I> {
    objects: S::Objects,
    chunks: I,
    /// The first chunk of the next range.
    held_back: Option<ChunkRef>,
    ranges: VecDeque<Range<<S::Objects as Objects>::Error>>,
    under_way: u64,
}

struct Range<E> {
    chunks: VecDeque<ChunkRef>,
    from: u64,
    length: u64,
    state: State<E>,
}

enum State<E> {
    Fetching(JoinHandle<Result<Bytes, E>>),
    Done(Result<Bytes, E>),
}

impl<S: Store, I: Iterator<Item = ChunkRef>> ReadAhead<S, I> {
    /// Of these chunks.
    pub fn new(objects: S::Objects, chunks: I) -> ReadAhead<S, I> {
        ReadAhead { objects, chunks, held_back: None, ranges: VecDeque::new(), under_way: 0 }
    }

    /// The next chunk and its bytes; none behind the last one.
    ///
    /// # Errors
    /// If it cannot be read, or is not what was stored. The one behind it may be asked for all the same.
    pub async fn next(&mut self, meter: &Meter) -> Outcome<Option<(ChunkRef, Bytes)>, S> {
        self.fill();
        let Some(range) = self.ranges.front_mut() else { return Ok(None) };
        let Some(chunk) = range.chunks.pop_front() else { return Ok(None) };
        let bytes = range.bytes().await;
        let from = range.from;
        if range.chunks.is_empty() {
            self.under_way -= range.length;
            self.ranges.pop_front();
        }
        let bytes = bytes.map_err(|error| ReplicationError::Store(error.into()))?;
        let start = (chunk.offset - from) as usize;
        let stored = bytes.slice(start..start + chunk.stored as usize);
        Meter::add(&meter.moved, stored.len() as u64);
        let opened = chunk.open(stored).map_err(|error| ReplicationError::Chunk {
            object: chunk.object,
            offset: chunk.offset,
            error,
        })?;
        Ok(Some((chunk, opened)))
    }

    fn fill(&mut self) {
        while self.under_way < WINDOW {
            let Some(first) = self.held_back.take().or_else(|| self.chunks.next()) else { break };
            let mut chunks = VecDeque::from([first]);
            let mut end = first.end();
            for next in self.chunks.by_ref() {
                if next.object != first.object || next.offset != end || next.end() - first.offset > RANGE {
                    self.held_back = Some(next);
                    break;
                }
                end = next.end();
                chunks.push_back(next);
            }
            let length = end - first.offset;
            let fetching = tokio::spawn(self.objects.read(first.object, first.offset, length));
            self.under_way += length;
            self.ranges.push_back(Range {
                chunks,
                from: first.offset,
                length,
                state: State::Fetching(fetching),
            });
        }
    }
}

impl<E: Clone> Range<E> {
    async fn bytes(&mut self) -> Result<Bytes, E> {
        let done = match &mut self.state {
            State::Done(done) => return done.clone(),
            State::Fetching(fetching) => fetching.await.expect("a read does not panic, and nobody aborts it"),
        };
        self.state = State::Done(done.clone());
        done
    }
}
