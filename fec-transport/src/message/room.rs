//! Memory for messages that are received.

use std::fmt;

/// Memory of the caller's own that a message is received into.
pub type Lent = Box<dyn AsMut<[u8]> + Send>;

/// Memory for a message: any number of pieces, which are filled one after the other.
///
/// ```
/// use fec_transport::message::Room;
///
/// let room = Room::of([2, 0, 5]);
/// assert_eq!((room.size(), room.pieces().count()), (7, 3));
/// ```
pub struct Room {
    pieces: Vec<Piece>,
    /// Where each piece ends in the message.
    ends: Vec<u64>,
}

enum Piece {
    Own(Vec<u8>),
    Lent(Lent),
}

impl Room {
    /// Pieces of these sizes in bytes, filled with zeros.
    pub fn of(sizes: impl IntoIterator<Item = usize>) -> Room {
        sizes.into_iter().map(|size| vec![0; size]).collect()
    }

    /// Memory that is somebody else's. It is written to until the [`Completion`](super::Completion) of the receive
    /// gives it back, or the post that was given it fails.
    pub fn lent(pieces: impl IntoIterator<Item = Lent>) -> Room {
        Room::new(pieces.into_iter().map(Piece::Lent).collect())
    }

    fn new(mut pieces: Vec<Piece>) -> Room {
        let mut end = 0;
        let ends = pieces.iter_mut().map(|piece| {
            end += piece.bytes().len() as u64;
            end
        });
        Room { ends: ends.collect(), pieces }
    }

    /// How long a message may be, in bytes.
    pub fn size(&self) -> u64 {
        self.ends.last().copied().unwrap_or(0)
    }

    /// The pieces that are not [lent](Self::lent).
    pub fn pieces(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().filter_map(|piece| match piece {
            Piece::Own(bytes) => Some(&bytes[..]),
            Piece::Lent(_) => None,
        })
    }

    /// The same, to keep.
    pub fn into_pieces(self) -> Vec<Vec<u8>> {
        let own = self.pieces.into_iter().filter_map(|piece| match piece {
            Piece::Own(bytes) => Some(bytes),
            Piece::Lent(_) => None,
        });
        own.collect()
    }

    /// Writes a part of the message that begins at `offset` in it, and is within the room.
    pub(super) fn put(&mut self, offset: u64, mut bytes: &[u8]) {
        debug_assert!(
            offset + bytes.len() as u64 <= self.size(),
            "a message is compared with its room first"
        );
        // Pieces that end where the part begins are full, or empty.
        let mut index = self.ends.partition_point(|end| *end <= offset);
        let mut at = offset - index.checked_sub(1).map_or(0, |before| self.ends[before]);
        while !bytes.is_empty() {
            let piece = &mut self.pieces[index].bytes()[at as usize..];
            let (now, later) = bytes.split_at(bytes.len().min(piece.len()));
            piece[..now.len()].copy_from_slice(now);
            (bytes, index, at) = (later, index + 1, 0);
        }
    }
}

impl Piece {
    fn bytes(&mut self) -> &mut [u8] {
        match self {
            Piece::Own(bytes) => bytes,
            Piece::Lent(lent) => (**lent).as_mut(),
        }
    }
}

impl FromIterator<Vec<u8>> for Room {
    fn from_iter<I: IntoIterator<Item = Vec<u8>>>(pieces: I) -> Room {
        Room::new(pieces.into_iter().map(Piece::Own).collect())
    }
}

impl fmt::Debug for Room {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Room").field("pieces", &self.pieces.len()).field("size", &self.size()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn parts_in_any_order_fill_the_pieces_one_after_the_other(
            sizes in proptest::collection::vec(0usize..20, 0..9),
            cuts in proptest::collection::vec(1usize..30, 1..9),
            turn in 0usize..9,
        ) {
            let size: usize = sizes.iter().sum();
            let message: Vec<u8> = (0..size).map(|at| at as u8 + 1).collect();
            let mut parts = Vec::new();
            let mut at = 0;
            for cut in cuts.into_iter().cycle() {
                if at == size {
                    break;
                }
                let end = (at + cut).min(size);
                parts.push((at, &message[at..end]));
                at = end;
            }
            if !parts.is_empty() {
                let count = parts.len();
                parts.rotate_left(turn % count);
            }
            let mut room = Room::of(sizes.clone());
            prop_assert_eq!(room.size(), size as u64);
            for (at, part) in parts {
                room.put(at as u64, part);
            }
            let lengths: Vec<usize> = room.pieces().map(<[u8]>::len).collect();
            prop_assert_eq!(lengths, sizes);
            prop_assert_eq!(room.into_pieces().concat(), message);
        }
    }

    #[test]
    fn lent_memory_is_written_where_it_is() {
        struct Twice([u8; 4]);
        impl AsMut<[u8]> for Twice {
            fn as_mut(&mut self) -> &mut [u8] {
                &mut self.0[1..3]
            }
        }
        let lent = |memory: Twice| Box::new(memory) as Lent;
        let mut room = Room::lent([lent(Twice([0; 4])), lent(Twice([0; 4]))]);
        room.put(1, &[7, 8]);
        assert_eq!((room.size(), room.pieces().count()), (4, 0));
        assert_eq!(room.pieces[0].bytes(), [0, 7]);
        assert_eq!(room.pieces[1].bytes(), [8, 0]);
    }
}
