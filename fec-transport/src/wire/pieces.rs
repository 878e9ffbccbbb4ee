//! A row of bytes in pieces.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};

use super::Writer;

/// Pieces of this length stay where they are. Shorter ones are copied together, which costs less than a piece of their
/// own, and keeps no more memory than they have.
const LEAST_SHARED: usize = 4 << 10;

/// A row of bytes that is filled at one end and taken from at the other, of which long pieces are not copied.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    pieces: VecDeque<Bytes>,
    /// What was copied behind the last piece.
    tail: BytesMut,
    length: usize,
}

impl Pieces {
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }

    pub(crate) fn clear(&mut self) {
        *self = Pieces::default();
    }

    /// Copies the first bytes into `into`, as many as there are and it has room for; gives these.
    pub(crate) fn peek<'a>(&self, into: &'a mut [u8]) -> &'a [u8] {
        let mut filled = 0;
        for piece in self.pieces.iter().map(|piece| &piece[..]).chain([&self.tail[..]]) {
            let here = piece.len().min(into.len() - filled);
            into[filled..filled + here].copy_from_slice(&piece[..here]);
            filled += here;
        }
        &into[..filled]
    }

    /// The first piece.
    pub(crate) fn front(&mut self) -> Option<&Bytes> {
        self.front_mut().map(|front| &*front)
    }

    /// Drops the first `count` bytes, which must be there.
    pub(crate) fn advance(&mut self, count: usize) {
        self.pass(count, drop);
    }

    /// Takes the first `count` bytes, which must be there, in pieces.
    pub(crate) fn take(&mut self, count: usize) -> Vec<Bytes> {
        let mut taken = Vec::new();
        self.pass(count, |piece| taken.push(piece));
        taken
    }

    /// Passes the first `count` bytes, which must be there, to `to`, piece by piece.
    fn pass(&mut self, count: usize, mut to: impl FnMut(Bytes)) {
        let mut left = count;
        while left > 0 {
            let Some(front) = self.front_mut() else { break };
            let piece = front.split_to(left.min(front.len()));
            if front.is_empty() {
                self.pieces.pop_front();
            }
            left -= piece.len();
            to(piece);
        }
        self.length -= count - left;
    }

    fn front_mut(&mut self) -> Option<&mut Bytes> {
        if self.pieces.is_empty() {
            self.end_piece();
        }
        self.pieces.front_mut()
    }

    /// What was copied so far becomes a piece; what is left of its memory is filled later.
    fn end_piece(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push_back(self.tail.split().freeze());
        }
    }
}

impl FromIterator<Bytes> for Pieces {
    /// None of them is copied.
    fn from_iter<I: IntoIterator<Item = Bytes>>(pieces: I) -> Pieces {
        let pieces: VecDeque<Bytes> = pieces.into_iter().filter(|piece| !piece.is_empty()).collect();
        Pieces { length: pieces.iter().map(Bytes::len).sum(), pieces, tail: BytesMut::new() }
    }
}

impl Writer for Pieces {
    fn put_bytes(&mut self, bytes: &[u8]) {
        self.length += bytes.len();
        self.tail.extend_from_slice(bytes);
    }

    fn put_shared(&mut self, bytes: &Bytes) {
        if bytes.len() < LEAST_SHARED {
            return self.put_bytes(bytes);
        }
        self.length += bytes.len();
        self.end_piece();
        self.pieces.push_back(bytes.clone());
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[derive(Debug, Clone)]
    enum Step {
        Copy(usize),
        Share(usize),
        Take(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        let length = || prop_oneof![0..30_usize, LEAST_SHARED - 2..LEAST_SHARED + 30];
        prop_oneof![
            length().prop_map(Step::Copy),
            length().prop_map(Step::Share),
            length().prop_map(Step::Take),
        ]
    }

    proptest! {
        #[test]
        fn what_is_taken_is_what_was_put_in(steps in proptest::collection::vec(step(), 0..40)) {
            let (mut pieces, mut model) = (Pieces::default(), VecDeque::new());
            let mut next = 0_u8;
            for step in steps {
                let mut bytes = |length: usize| (0..length).map(|_| { next = next.wrapping_add(7); next }).collect();
                match step {
                    Step::Copy(length) => {
                        let bytes: Vec<u8> = bytes(length);
                        pieces.put_bytes(&bytes);
                        model.extend(bytes);
                    }
                    Step::Share(length) => {
                        let bytes: Vec<u8> = bytes(length);
                        pieces.put_shared(&Bytes::from(bytes.clone()));
                        model.extend(bytes);
                    }
                    Step::Take(length) => {
                        let length = length.min(model.len());
                        let taken = pieces.take(length).concat();
                        prop_assert_eq!(taken, model.drain(..length).collect::<Vec<u8>>());
                    }
                }
                let mut room = [0; 9];
                let begin: Vec<u8> = model.iter().take(room.len()).copied().collect();
                prop_assert_eq!(pieces.peek(&mut room), begin);
                prop_assert_eq!((pieces.len(), pieces.is_empty()), (model.len(), model.is_empty()));
                prop_assert_eq!(pieces.front().is_none(), model.is_empty());
            }
        }
    }

    #[test]
    fn long_pieces_are_shared_and_short_ones_keep_no_memory_but_theirs() {
        let (long, short) = (Bytes::from(vec![1; LEAST_SHARED]), Bytes::from(vec![2; LEAST_SHARED]));
        let mut pieces = Pieces::default();
        pieces.put_shared(&long);
        pieces.put_shared(&short.slice(..9));
        assert_eq!((long.is_unique(), short.is_unique()), (false, true));
        pieces.advance(LEAST_SHARED);
        assert_eq!((long.is_unique(), pieces.len()), (true, 9));
    }
}
