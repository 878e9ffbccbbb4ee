//! What an interrupted run has already stored: chunks that are durable, but that no generation refers to yet.
//!
//! ```text
//! frame = length of the body (u32, little-endian) · first 16 bytes of the body's BLAKE3 hash · body
//! ```
//! The first body is a [`JournalHeader`], every other one a list of [`ChunkRef`]s. A frame is appended only when its
//! chunks are durable; a torn frame at the end is what was under way.

use serde::{Deserialize, Serialize};

use super::chunk::{ChunkRef, Hash};
use super::record::Token;

const MARK: usize = 16;
const HEAD: usize = 4 + MARK;
/// More than a journal's frame ever has: a length beyond is damage.
const MAX_BODY: usize = 16 << 20;

/// Whose journal it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalHeader {
    /// Of the data set.
    pub token: Token,
    /// The member that runs.
    pub member: String,
    /// The object that the run appends to.
    pub object: u32,
}

/// A journal as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// Whose it is.
    pub header: JournalHeader,
    /// The chunks that are durable.
    pub chunks: Vec<ChunkRef>,
    /// Where the next frame goes: behind the last whole one.
    pub end: u64,
}

impl Journal {
    /// The first frame of a journal.
    pub fn begin(header: &JournalHeader) -> Vec<u8> {
        frame(header)
    }

    /// A frame for chunks that are durable.
    pub fn frame(chunks: &[ChunkRef]) -> Vec<u8> {
        frame(&chunks)
    }

    /// Reads a journal up to the first frame that is not whole; none if not even the header is.
    pub fn parse(mut bytes: &[u8]) -> Option<Journal> {
        let length = bytes.len();
        let header = take(&mut bytes)?;
        let mut chunks = Vec::new();
        while let Some(more) = take::<Vec<ChunkRef>>(&mut bytes) {
            chunks.extend(more);
        }
        Some(Journal { header, chunks, end: (length - bytes.len()) as u64 })
    }

    /// Bytes of its chunks, as they are stored.
    pub fn stored_bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| u64::from(chunk.stored)).sum()
    }

    /// Where the run's object ends, as far as anybody knows.
    pub fn object_end(&self) -> u64 {
        let ours = self.chunks.iter().filter(|chunk| chunk.object == self.header.object);
        ours.map(ChunkRef::end).max().unwrap_or(0)
    }
}

fn frame(value: &impl Serialize) -> Vec<u8> {
    let body = postcard::to_stdvec(value).expect("plain values in memory can be written down");
    let mut frame = (body.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(&Hash::of(&body).as_bytes()[..MARK]);
    frame.extend(body);
    frame
}

/// Takes a whole frame off the front; what is not whole stays.
fn take<T: for<'a> Deserialize<'a>>(bytes: &mut &[u8]) -> Option<T> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let (length, mark) = head.split_at(4);
    let length = u32::from_le_bytes(length.try_into().ok()?) as usize;
    let (body, rest) = rest.split_at_checked(length).filter(|_| length <= MAX_BODY)?;
    if Hash::of(body).as_bytes()[..MARK] != *mark {
        return None;
    }
    let value = postcard::from_bytes(body).ok()?;
    *bytes = rest;
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::replication::Codec;

    fn chunk(number: u32) -> ChunkRef {
        ChunkRef {
            hash: Hash::of(&number.to_le_bytes()),
            length: 4,
            object: 7,
            offset: u64::from(number) * 4,
            stored: 4,
            codec: Codec::Plain,
        }
    }

    #[test]
    fn wherever_a_journal_is_cut_off_its_whole_frames_count() {
        let header = JournalHeader { token: Token([1; 16]), member: "client".to_owned(), object: 7 };
        let frames =
            [Journal::begin(&header), Journal::frame(&[chunk(0), chunk(1)]), Journal::frame(&[chunk(2)])];
        let whole = frames.concat();
        let ends = [frames[0].len(), frames[0].len() + frames[1].len(), whole.len()];
        for cut in 0..=whole.len() {
            let expected = ends.iter().rposition(|end| cut >= *end);
            let found = Journal::parse(&whole[..cut]);
            assert_eq!(found.as_ref().map(|journal| journal.end), expected.map(|last| ends[last] as u64));
            let chunks = found.map_or(0, |journal| journal.chunks.len());
            assert_eq!(chunks, expected.map_or(0, |last| [0, 2, 3][last]));
        }
    }

    #[test]
    fn a_damaged_frame_ends_the_journal() {
        let header = JournalHeader { token: Token([1; 16]), member: "client".to_owned(), object: 7 };
        let mut bytes = Journal::begin(&header);
        let end = bytes.len();
        bytes.extend(Journal::frame(&[chunk(0)]));
        for position in end..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 1;
            let journal = Journal::parse(&damaged).expect("the header is whole");
            assert_eq!((journal.end, journal.chunks.len()), (end as u64, 0), "byte {position}");
        }
    }
}
