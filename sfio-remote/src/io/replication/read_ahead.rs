//! Chunks in order, fetched long before they are needed.

use std::collections::VecDeque;

use bytes::Bytes;
use tokio::task::JoinHandle;

use super::error::{FailureKind, Outcome, ReplicationError, is_loss};
use super::meter::Meter;
use super::objects::Objects;
use crate::io::FileError;
use crate::replication::{ChunkRef, Opener, OpeningPlan};

/// Neighbours in an object are fetched together up to this.
const RANGE: u64 = 2 << 20;
/// Bytes under way or waiting: more than a gigabit per second holds in 200 ms.
const WINDOW: u64 = 48 << 20;
/// A range of which something is lost is read again in so many parts at once, and what is lost of these likewise: what
/// is there of it is had after three or four round trips, and not after one for each chunk.
const PARTS: usize = 16;

/// Gives chunks in the order in which they are asked for, with many requests under way.
#[derive(Debug)]
pub struct ReadAhead<I> {
    objects: Objects,
    chunks: I,
    /// The first chunk of the next range, and where it is.
    held_back: Option<Placed>,
    ranges: VecDeque<Range>,
    under_way: u64,
    plan: OpeningPlan,
    opener: Opener,
}

/// A chunk as a manifest names it, and where it is by now.
#[derive(Debug, Clone, Copy)]
struct Placed {
    chunk: ChunkRef,
    place: ChunkRef,
    /// From where on the object is read for it.
    from: u64,
}

#[derive(Debug)]
struct Range {
    chunks: VecDeque<Placed>,
    length: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Fetching(JoinHandle<Vec<Piece>>),
    Done(Vec<Piece>),
}

/// What came of a read: of a whole range, or of what a range was divided into because something of it is lost.
#[derive(Debug, Clone)]
struct Piece {
    from: u64,
    end: u64,
    bytes: Result<Bytes, FileError>,
}

impl<I: Iterator<Item = ChunkRef>> ReadAhead<I> {
    /// Of these chunks.
    pub fn new(objects: Objects, chunks: I) -> ReadAhead<I> {
        ReadAhead {
            objects,
            chunks,
            held_back: None,
            ranges: VecDeque::new(),
            under_way: 0,
            plan: OpeningPlan::default(),
            opener: Opener::default(),
        }
    }

    /// The next chunk and its bytes; none behind the last one.
    ///
    /// # Errors
    /// If it cannot be read, or is not what was stored. The one behind it may be asked for all the same.
    pub async fn next(&mut self, meter: &Meter) -> Outcome<Option<(ChunkRef, Bytes)>> {
        Ok(self.next_with_place(meter).await?.map(|(chunk, _, bytes)| (chunk, bytes)))
    }

    /// The same, and where the bytes were found, which is an earlier place if the newest one does not have them: a
    /// member that may only append may also say that it has sent again what was whole.
    ///
    /// # Errors
    /// If it cannot be read from any place, what is wrong with the newest one.
    pub(super) async fn next_with_place(
        &mut self,
        meter: &Meter,
    ) -> Outcome<Option<(ChunkRef, ChunkRef, Bytes)>> {
        self.fill();
        let Some(range) = self.ranges.front_mut() else { return Ok(None) };
        let Some(Placed { chunk, place, .. }) = range.chunks.pop_front() else { return Ok(None) };
        let piece = range.piece_with(&place).await;
        if range.chunks.is_empty() {
            self.under_way -= range.length;
            self.ranges.pop_front();
        }
        match self.open(&place, piece, meter).await {
            Err(error) if error.kind() == FailureKind::Integrity => {
                let (place, bytes) = self.read_earlier(&chunk, meter).await?.ok_or(error)?;
                Ok(Some((chunk, place, bytes)))
            }
            opened => Ok(Some((chunk, place, opened?))),
        }
    }

    /// The bytes of a chunk out of the piece in which it was to be.
    async fn open(&mut self, place: &ChunkRef, piece: Piece, meter: &Meter) -> Outcome<Bytes> {
        let Piece { from, end, bytes } = piece;
        // Where what is in front of it in its frame could not be had, this is another place than was planned.
        let start = self.opener.start(place);
        let stored = match bytes {
            Ok(bytes) if from <= start => {
                Ok(bytes.slice((start - from) as usize..(place.end() - from) as usize))
            }
            Err(error) if !is_loss(&error) || (from, end) == (start, place.end()) => Err(error),
            _ => self.objects.read(place.object, start, place.end() - start).await,
        };
        if stored.as_ref().is_err_and(is_loss) {
            self.opener.lose(place);
        }
        let stored = stored?;
        Meter::add(&meter.moved, stored.len() as u64);
        let opened = self.opener.open(place, stored);
        let damaged = |error| ReplicationError::Chunk { object: place.object, offset: place.offset, error };
        opened.map_err(damaged)
    }

    /// The bytes of a chunk from a place where it was before, if they are still there.
    async fn read_earlier(&self, chunk: &ChunkRef, meter: &Meter) -> Outcome<Option<(ChunkRef, Bytes)>> {
        for place in self.objects.earlier_places_of(chunk) {
            let reach = place.reach();
            let stored = match self.objects.read(reach.object, reach.offset, reach.length).await {
                Err(error) if is_loss(&error) => continue,
                stored => stored?,
            };
            Meter::add(&meter.moved, stored.len() as u64);
            if let Ok(bytes) = Opener::default().open(&place, stored) {
                return Ok(Some((place, bytes)));
            }
        }
        Ok(None)
    }

    fn next_placed(&mut self) -> Option<Placed> {
        if self.held_back.is_some() {
            return self.held_back.take();
        }
        let chunk = self.chunks.next()?;
        let place = self.objects.place_of(&chunk);
        Some(Placed { chunk, place, from: self.plan.next(&place) })
    }

    fn fill(&mut self) {
        while self.under_way < WINDOW {
            let Some(first) = self.next_placed() else { break };
            let mut chunks = VecDeque::from([first]);
            let (object, offset, mut end) = (first.place.object, first.from, first.place.end());
            while let Some(next) = self.next_placed() {
                let Placed { place, from, .. } = next;
                if place.object != object || from != end || place.end() - offset > RANGE {
                    self.held_back = Some(next);
                    break;
                }
                end = place.end();
                chunks.push_back(next);
            }
            let length = end - offset;
            let spans = chunks.iter().map(|placed| (placed.from, placed.place.end())).collect();
            let state = State::Fetching(tokio::spawn(fetch(self.objects.clone(), object, spans)));
            self.under_way += length;
            self.ranges.push_back(Range { chunks, length, state });
        }
    }
}

impl Range {
    /// The piece in which a chunk of the range is.
    async fn piece_with(&mut self, place: &ChunkRef) -> Piece {
        if let State::Fetching(fetching) = &mut self.state {
            self.state = State::Done(fetching.await.expect("a read does not panic, and nobody aborts it"));
        }
        let State::Done(pieces) = &self.state else { unreachable!("it has just been fetched") };
        let index = pieces.partition_point(|piece| piece.end < place.end());
        pieces[index].clone()
    }
}

/// Reads the chunks of an object that lie at `spans`, which follow one another. Gives them in order, as one piece if
/// nothing is lost; what is lost is in pieces of one chunk.
async fn fetch(objects: Objects, object: u32, spans: Vec<(u64, u64)>) -> Vec<Piece> {
    let (mut pieces, mut unread) = (Vec::new(), vec![spans]);
    while !unread.is_empty() {
        let read = |spans: &Vec<(u64, u64)>| {
            let (from, end) = (spans[0].0, spans[spans.len() - 1].1);
            (from, end, tokio::spawn(objects.read(object, from, end - from)))
        };
        let reading: Vec<_> = unread.iter().map(read).collect();
        let mut divided = Vec::new();
        for (spans, (from, end, reading)) in unread.iter().zip(reading) {
            let bytes = reading.await.expect("a read does not panic, and nobody aborts it");
            if spans.len() > 1 && bytes.as_ref().is_err_and(is_loss) {
                divided.extend(spans.chunks(spans.len().div_ceil(PARTS)).map(<[_]>::to_vec));
            } else {
                pieces.push(Piece { from, end, bytes });
            }
        }
        unread = divided;
    }
    pieces.sort_by_key(|piece| piece.from);
    pieces
}
