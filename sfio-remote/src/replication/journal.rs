//! What a run has already stored: chunks that are durable, but that no generation refers to yet.
//!
//! ```text
//! frame = length of the body (u32, little-endian) · first 16 bytes of the body's BLAKE3 hash · body
//! ```
//! The first body is a [`JournalHeader`] with the signature of the member that runs, every other one a list of chunks
//! in the run's own object. A frame is appended only when its chunks are durable; a torn frame at the end is what was
//! under way.

use fec_transport::keys::{Identity, verifies_strictly};
use serde::{Deserialize, Serialize};

use super::bounded;
use super::chunk::{ChunkRef, Codec, Hash};
use super::record::{RunId, Signer, Token};

/// The most bytes of a journal that are read: they tell of some 1.5 TB.
pub const MAX_JOURNAL_BYTES: usize = 256 << 20;
/// The most chunks that a frame tells of.
pub const MAX_FRAME_CHUNKS: usize = 65_536;

const MARK: usize = 16;
const HEAD: usize = 4 + MARK;
/// More than a frame ever has: a length beyond is damage.
const MAX_BODY: usize = 16 << 20;
/// The first bytes of what the member signs of a journal; nothing else that it signs begins so.
const SIGNED: &[u8; 8] = b"SFIOJNL2";

/// The data set, the sync run and the member that a journal is of.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct JournalHeader {
    /// The token of the data set; of a new one, the token that it is going to have.
    pub token: Token,
    /// The run, whose object holds the chunks.
    pub run: RunId,
    /// The member that runs.
    pub signer: Signer,
}

/// A journal as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Journal {
    /// The data set, the sync run and the member that it is of.
    pub header: JournalHeader,
    chunks: Vec<JournalChunk>,
}

/// A chunk in the run's object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct JournalChunk {
    hash: Hash,
    length: u32,
    offset: u64,
    stored: u32,
    codec: Codec,
}

#[derive(Serialize, Deserialize)]
struct SignedHeader {
    header: JournalHeader,
    signature: ([u8; 32], [u8; 32]),
}

#[derive(Serialize, Deserialize)]
struct Frame {
    #[serde(deserialize_with = "bounded::list::<MAX_FRAME_CHUNKS, _, _>")]
    chunks: Vec<JournalChunk>,
}

impl JournalHeader {
    fn signed(&self) -> Vec<u8> {
        postcard::to_extend(self, SIGNED.to_vec()).expect("plain values in memory can be written down")
    }
}

impl Journal {
    /// The first frame of a journal; `identity` is that of the member that the header names.
    pub fn begin(header: &JournalHeader, identity: &Identity) -> Vec<u8> {
        let signature = identity.sign(&header.signed());
        let (first, second) = signature.split_at(32);
        let halves = [first, second].map(|half| half.try_into().expect("half of 64 bytes"));
        frame(&SignedHeader { header: header.clone(), signature: halves.into() })
    }

    /// A frame for chunks that are durable, at most [`MAX_FRAME_CHUNKS`].
    pub fn frame(chunks: &[ChunkRef]) -> Vec<u8> {
        let of_object = |chunk: &ChunkRef| {
            let ChunkRef { hash, length, offset, stored, codec, .. } = *chunk;
            JournalChunk { hash, length, offset, stored, codec }
        };
        frame(&Frame { chunks: chunks.iter().map(of_object).collect() })
    }

    /// Reads a journal up to the first frame that is not whole; none if not even the header is, or was not signed by
    /// whom it names.
    pub fn parse(mut bytes: &[u8]) -> Option<Journal> {
        let header = take_header(&mut bytes)?;
        let mut chunks = Vec::new();
        while let Some(more) = take::<Frame>(&mut bytes) {
            chunks.extend(more.chunks);
        }
        Some(Journal { header, chunks })
    }

    /// The header of a journal, of which this is the beginning; none as for [`Journal::parse`].
    pub fn header_of(mut beginning: &[u8]) -> Option<JournalHeader> {
        take_header(&mut beginning)
    }

    /// Its chunks, if the run's object has that number.
    pub fn chunks_in(&self, object: u32) -> impl Iterator<Item = ChunkRef> + '_ {
        let place = move |chunk: &JournalChunk| {
            let JournalChunk { hash, length, offset, stored, codec } = *chunk;
            ChunkRef { hash, length, object, offset, stored, codec }
        };
        self.chunks.iter().map(place).filter(ChunkRef::is_sound)
    }

    /// Bytes of its chunks, as they are stored.
    pub fn stored_bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| u64::from(chunk.stored)).sum()
    }
}

fn frame(value: &impl Serialize) -> Vec<u8> {
    let body = postcard::to_stdvec(value).expect("plain values in memory can be written down");
    let mut frame = (body.len() as u32).to_le_bytes().to_vec();
    frame.extend_from_slice(&Hash::of(&body).as_bytes()[..MARK]);
    frame.extend(body);
    frame
}

/// Takes the header off the front, if whom it names has signed it.
fn take_header(bytes: &mut &[u8]) -> Option<JournalHeader> {
    let SignedHeader { header, signature } = take(bytes)?;
    let signature: Vec<u8> = [signature.0, signature.1].concat();
    let signature = signature.as_slice().try_into().ok()?;
    verifies_strictly(&header.signer.key, &header.signed(), signature).then_some(header)
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
    use proptest::prelude::*;

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

    fn begin(signer: u8) -> Vec<u8> {
        let key = Identity::from_seed([1; 32]).public().ed25519;
        let signer_of_record = Signer { member: "client".to_owned(), key };
        let header = JournalHeader { token: Token([1; 16]), run: RunId([3; 16]), signer: signer_of_record };
        Journal::begin(&header, &Identity::from_seed([signer; 32]))
    }

    #[test]
    fn wherever_a_journal_is_cut_off_its_whole_frames_count() {
        let frames = [begin(1), Journal::frame(&[chunk(0), chunk(1)]), Journal::frame(&[chunk(2)])];
        let whole = frames.concat();
        let ends = [frames[0].len(), frames[0].len() + frames[1].len(), whole.len()];
        for cut in 0..=whole.len() {
            let last = ends.iter().rposition(|end| cut >= *end);
            let found = Journal::parse(&whole[..cut]);
            assert_eq!(found.is_some(), last.is_some());
            let chunks: Vec<ChunkRef> = found.iter().flat_map(|journal| journal.chunks_in(7)).collect();
            let expected = last.map_or(0, |last| [0, 2, 3][last]);
            assert_eq!(chunks, (0..expected).map(chunk).collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_damaged_frame_ends_the_journal() {
        let mut bytes = begin(1);
        let end = bytes.len();
        bytes.extend(Journal::frame(&[chunk(0)]));
        for position in end..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[position] ^= 1;
            let journal = Journal::parse(&damaged).expect("the header is whole");
            assert_eq!(journal.chunks, [], "byte {position}");
        }
    }

    #[test]
    fn a_journal_is_that_of_whoever_signed_it() {
        assert!(Journal::parse(&begin(1)).is_some() && Journal::header_of(&begin(1)).is_some());
        assert_eq!((Journal::parse(&begin(2)), Journal::header_of(&begin(2))), (None, None));
    }

    #[test]
    fn chunks_that_cannot_be_are_left_out() {
        let huge = ChunkRef { length: u32::MAX, stored: u32::MAX, ..chunk(0) };
        let bytes = [begin(1), Journal::frame(&[huge, chunk(1)])].concat();
        let journal = Journal::parse(&bytes).expect("whole");
        assert_eq!(journal.chunks_in(7).collect::<Vec<_>>(), [chunk(1)]);
    }

    proptest! {
        #[test]
        fn garbage_is_no_journal(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            prop_assert_eq!(Journal::parse(&bytes), None);
        }
    }
}
