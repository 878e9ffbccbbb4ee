//! What has arrived of a stream and was not read: pieces by their offsets, few of them however small the blocks are.
//!
//! Credit counts bytes, and a piece costs some hundred bytes beside its own. So small pieces that touch are copied
//! together: of two that touch, one has [`SMALL`] bytes at least. What is not copied together are pieces with a hole
//! between them, which the session bounds, and pieces of a real-time stream between others that were lost, of which
//! there are at most [`MOST_PIECES`].

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Read;

/// A piece from so many bytes on stays as it is: its own bytes are what it costs.
const SMALL: usize = 1_024;
/// In a stream with more pieces than that, small ones that touch a lost piece are lost, too: nobody has read them for
/// so long that they are late as well.
const MOST_PIECES: usize = 1_024;

/// The pieces of a stream.
#[derive(Debug, Default)]
pub(super) struct Unread {
    pieces: BTreeMap<u64, Piece>,
}

/// What there is to read at some offset.
#[derive(Debug)]
enum Piece {
    /// A block.
    Whole(Bytes),
    /// Small blocks that touch.
    Gathered(Vec<u8>),
    /// So many bytes were given up.
    Lost(u64),
}

impl Piece {
    fn length(&self) -> u64 {
        match self {
            Piece::Whole(bytes) => bytes.len() as u64,
            Piece::Gathered(bytes) => bytes.len() as u64,
            Piece::Lost(length) => *length,
        }
    }
}

impl Unread {
    /// A block is there.
    pub(super) fn add(&mut self, offset: u64, bytes: Vec<u8>) {
        match bytes.len() {
            0 => {}
            SMALL.. => drop(self.pieces.insert(offset, Piece::Whole(bytes.into()))),
            _ if self.is_full() && self.touches_lost(offset, bytes.len() as u64) => {
                self.lose(offset, bytes.len() as u64);
            }
            _ => self.gather(offset, bytes),
        }
    }

    /// A block was given up.
    pub(super) fn lose(&mut self, offset: u64, length: u64) {
        if length == 0 {
            return;
        }
        let (mut start, mut end) = (offset, offset + length);
        while let Some((at, piece)) = self.before(start).filter(|(_, piece)| self.goes_with_lost(piece)) {
            start -= piece.length();
            self.pieces.remove(&at);
        }
        while let Some(piece) = self.pieces.get(&end).filter(|piece| self.goes_with_lost(piece)) {
            let at = end;
            end += piece.length();
            self.pieces.remove(&at);
        }
        self.pieces.insert(start, Piece::Lost(end - start));
    }

    /// The next bytes at `offset`, at most `max`; none if there are none.
    pub(super) fn take_at(&mut self, offset: u64, max: usize) -> Option<Read> {
        let piece = self.pieces.remove(&offset)?;
        Some(self.cut(offset, piece, max))
    }

    /// Whatever has the lowest offset.
    pub(super) fn take_first(&mut self) -> Option<Read> {
        let (offset, piece) = self.pieces.pop_first()?;
        Some(self.cut(offset, piece, usize::MAX))
    }

    /// Whether there is something at `offset`.
    pub(super) fn has(&self, offset: u64) -> bool {
        self.pieces.contains_key(&offset)
    }

    /// Bytes of data.
    pub(super) fn bytes(&self) -> usize {
        let is_data = |piece: &&Piece| !matches!(piece, Piece::Lost(_));
        self.pieces.values().filter(is_data).map(|piece| piece.length() as usize).sum()
    }

    #[cfg(test)]
    pub(super) fn piece_count(&self) -> usize {
        self.pieces.len()
    }

    /// Takes up to `max` bytes of a piece; the rest goes back.
    fn cut(&mut self, offset: u64, piece: Piece, max: usize) -> Read {
        let mut bytes = match piece {
            Piece::Lost(length) => return Read::Lost { offset, length },
            Piece::Whole(bytes) => bytes,
            Piece::Gathered(bytes) => Bytes::from(bytes),
        };
        if bytes.len() > max {
            let rest = bytes.split_off(max);
            self.pieces.insert(offset + max as u64, Piece::Whole(rest));
        }
        Read::Data { offset, bytes }
    }

    /// Adds a small block to the pieces that it touches, if they are small as well.
    fn gather(&mut self, offset: u64, bytes: Vec<u8>) {
        let before = self.before(offset).filter(|(_, piece)| is_small(piece)).map(|(at, _)| at);
        let (start, mut gathered) = match before.and_then(|at| Some((at, self.pieces.remove(&at)?))) {
            Some((at, Piece::Gathered(mut gathered))) => {
                gathered.extend_from_slice(&bytes);
                (at, gathered)
            }
            _ => (offset, bytes),
        };
        let end = start + gathered.len() as u64;
        let may_grow = gathered.len() < SMALL && self.pieces.get(&end).is_some_and(is_small);
        if may_grow && let Some(Piece::Gathered(after)) = self.pieces.remove(&end) {
            gathered.extend_from_slice(&after);
        }
        self.pieces.insert(start, Piece::Gathered(gathered));
    }

    /// The piece that ends at `offset`.
    fn before(&self, offset: u64) -> Option<(u64, &Piece)> {
        let (at, piece) = self.pieces.range(..offset).next_back()?;
        (at + piece.length() == offset).then_some((*at, piece))
    }

    fn touches_lost(&self, offset: u64, length: u64) -> bool {
        let before = self.before(offset).map(|(_, piece)| piece);
        let after = self.pieces.get(&(offset + length));
        before.into_iter().chain(after).any(|piece| matches!(piece, Piece::Lost(_)))
    }

    fn goes_with_lost(&self, piece: &Piece) -> bool {
        matches!(piece, Piece::Lost(_)) || self.is_full() && is_small(piece)
    }

    fn is_full(&self) -> bool {
        self.pieces.len() > MOST_PIECES
    }
}

fn is_small(piece: &Piece) -> bool {
    matches!(piece, Piece::Gathered(bytes) if bytes.len() < SMALL)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(unread: &mut Unread) -> Vec<u8> {
        let mut all = Vec::new();
        while let Some(Read::Data { bytes, .. }) = unread.take_at(all.len() as u64, usize::MAX) {
            all.extend_from_slice(&bytes);
        }
        all
    }

    /// One-byte blocks once kept 121 bytes each, of which credit counted one.
    #[test]
    fn small_blocks_are_few_pieces_in_whatever_order_they_come() {
        let count = 50_000_u64;
        let orders: [fn(u64, u64) -> u64; 4] = [
            |index, _| index,
            |index, count| count - 1 - index,
            // All of even number, then all of odd number; and both halves in turn.
            |index, count| (index * 2) % count + (index * 2) / count,
            |index, count| index / 2 + (index % 2) * (count / 2),
        ];
        for order in orders {
            let mut unread = Unread::default();
            for index in 0..count {
                let offset = order(index, count);
                unread.add(offset, vec![offset as u8]);
            }
            assert!(unread.piece_count() <= 2 * count as usize / SMALL + 1, "{}", unread.piece_count());
            let expected: Vec<u8> = (0..count).map(|offset| offset as u8).collect();
            assert!(read(&mut unread) == expected, "the bytes are what they were");
        }
    }

    #[test]
    fn lost_and_small_blocks_in_turn_are_few_pieces_in_whatever_order_they_come() {
        let count = 50_000_u64;
        let (mut in_turn, mut data_behind) = (Unread::default(), Unread::default());
        for offset in 0..count {
            match offset % 2 {
                0 => in_turn.add(offset, vec![1]),
                _ => in_turn.lose(offset, 1),
            }
        }
        for window in 0..count / 1_000 {
            let offsets = || window * 1_000..(window + 1) * 1_000;
            offsets().filter(|offset| offset % 2 == 0).for_each(|offset| data_behind.lose(offset, 1));
            offsets().filter(|offset| offset % 2 == 1).for_each(|offset| data_behind.add(offset, vec![1]));
        }
        for unread in [in_turn, data_behind] {
            assert!(unread.piece_count() <= MOST_PIECES + 1_002, "{}", unread.piece_count());
            assert_eq!(unread.pieces.values().map(Piece::length).sum::<u64>(), count, "no byte is forgotten");
        }
    }
}
