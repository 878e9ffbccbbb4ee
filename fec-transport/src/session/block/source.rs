//! The source symbols of a block, where they were written.

use bytes::Bytes;

/// The K source symbols of a block, the last padded with zeros: pieces of what was written, each of whole symbols. So
/// nothing is copied but symbols in which two pieces of what was written meet.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    symbol_size: usize,
    /// Each with the number of its first symbol.
    pieces: Vec<(usize, Bytes)>,
    length: usize,
}

impl Source {
    /// The source symbols that lie one behind the other in `pieces`, of which none is empty.
    pub(crate) fn new(symbol_size: usize, pieces: Vec<Bytes>) -> Source {
        debug_assert!(
            pieces.iter().all(|piece| !piece.is_empty() && piece.len().is_multiple_of(symbol_size))
        );
        let mut length = 0;
        let numbered = |piece: Bytes| {
            let first = length / symbol_size;
            length += piece.len();
            (first, piece)
        };
        let pieces = pieces.into_iter().map(numbered).collect();
        Source { symbol_size, pieces, length }
    }

    /// The symbols lie in memory of their own from now on.
    pub(crate) fn detach(&mut self) {
        self.pieces.iter_mut().for_each(|(_, piece)| *piece = Bytes::copy_from_slice(piece));
    }

    /// Bytes of all symbols.
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    /// The symbols from number `first` on, `most` of them or as many as lie in one piece, and how many these are.
    pub(crate) fn run(&self, first: usize, most: usize) -> (usize, Bytes) {
        let behind = self.pieces.partition_point(|(number, _)| *number <= first);
        // The one symbol of an empty block lies nowhere.
        let Some((number, piece)) = behind.checked_sub(1).map(|place| &self.pieces[place]) else {
            return (most, Bytes::new());
        };
        let start = (first - number) * self.symbol_size;
        let bytes = (most * self.symbol_size).min(piece.len() - start);
        (bytes / self.symbol_size, piece.slice(start..start + bytes))
    }

    /// All symbols, one by one.
    pub(crate) fn symbols(&self) -> Vec<&[u8]> {
        self.pieces.iter().flat_map(|(_, piece)| piece.chunks_exact(self.symbol_size)).collect()
    }

    /// All symbols, one behind the other.
    pub(crate) fn contiguous(&self) -> Bytes {
        match self.pieces.as_slice() {
            [(_, piece)] => piece.clone(),
            _ => self.symbols().concat().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn symbols_are_the_same_in_whatever_pieces_they_lie(
            size in 1usize..20, counts in proptest::collection::vec(1usize..5, 1..6), most in 1usize..30,
        ) {
            let all: Vec<u8> = (0..counts.iter().sum::<usize>() * size).map(|at| at as u8).collect();
            let mut rest = Bytes::from(all.clone());
            let source = Source::new(size, counts.iter().map(|count| rest.split_to(count * size)).collect());
            prop_assert_eq!(source.len(), all.len());
            prop_assert_eq!(source.symbols(), all.chunks(size).collect::<Vec<_>>());
            prop_assert_eq!(&source.contiguous()[..], &all[..]);
            let (mut number, mut met) = (0, Vec::new());
            while number * size < all.len() {
                let (count, bytes) = source.run(number, most);
                prop_assert!((1..=most).contains(&count) && bytes.len() == count * size);
                met.extend_from_slice(&bytes);
                number += count;
            }
            prop_assert_eq!(met, all);
        }
    }
}
