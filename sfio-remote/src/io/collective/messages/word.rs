//! What ranks say to one another by messages: the bytes.

/// Bytes in front of each word.
pub(super) const HEAD: usize = 9;
/// Bytes of a word with its head: so many travel with the envelope of a message, over every network.
pub(super) const LONGEST: usize = 16 << 10;

/// What a rank says to another one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Word {
    /// A message of the group, of so many bytes. The first of them follow the head, others come in pieces.
    Message { length: u64 },
    /// The other rank is to answer with the same number: then it has all that was said before.
    Ask(u64),
    /// The answer.
    Answer(u64),
    /// That rank is lost.
    Lost(u32),
    /// Nothing more comes. The other rank answers all the same, with [`TO_FAREWELL`].
    Farewell,
}

/// The number of the answer to a farewell.
pub(super) const TO_FAREWELL: u64 = u64::MAX;

impl Word {
    pub(super) fn to_bytes(self) -> [u8; HEAD] {
        let (kind, number) = match self {
            Word::Message { length } => (0, length),
            Word::Ask(number) => (1, number),
            Word::Answer(number) => (2, number),
            Word::Farewell => (3, 0),
            Word::Lost(rank) => (4, u64::from(rank)),
        };
        let mut bytes = [kind; HEAD];
        bytes[1..].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    /// A word, and what follows its head; none if the bytes are no word.
    pub(super) fn parse(bytes: &[u8]) -> Option<(Word, &[u8])> {
        let (head, rest) = bytes.split_first_chunk::<HEAD>()?;
        let [kind, number @ ..] = *head;
        let number = u64::from_be_bytes(number);
        let word = match (kind, number) {
            (0, length) => Word::Message { length },
            (1, _) => Word::Ask(number),
            (2, _) => Word::Answer(number),
            (3, 0) => Word::Farewell,
            (4, rank) => Word::Lost(u32::try_from(rank).ok()?),
            _ => return None,
        };
        let fits = match word {
            // A short message is whole, and of a long one the word has as much as fits.
            Word::Message { length } => rest.len() as u64 == length.min((LONGEST - HEAD) as u64),
            _ => rest.is_empty(),
        };
        fits.then_some((word, rest))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_parsed_is_what_was_said(
            kind in 0u8..6,
            number in prop_oneof![0..2 * LONGEST as u64, any::<u64>()],
            length in prop_oneof![Just(0), Just(LONGEST - HEAD), 0..LONGEST],
        ) {
            let mut bytes = vec![kind];
            bytes.extend_from_slice(&number.to_be_bytes());
            bytes.resize(bytes.len() + length, 7);
            if let Some((word, rest)) = Word::parse(&bytes) {
                prop_assert_eq!(&bytes[..HEAD], word.to_bytes());
                prop_assert_eq!(rest.len(), length);
            }
        }
    }

    #[test]
    fn each_word_is_parsed_as_it_was_said() {
        for word in [Word::Ask(7), Word::Answer(TO_FAREWELL), Word::Lost(u32::MAX), Word::Farewell] {
            assert_eq!(Word::parse(&word.to_bytes()), Some((word, &[][..])));
        }
    }

    #[test]
    fn a_message_says_how_long_it_is_and_brings_as_much_as_fits() {
        let said = |length: u64, brought: usize| {
            let bytes = [&Word::Message { length }.to_bytes()[..], &vec![1; brought]].concat();
            Word::parse(&bytes).map(|(word, rest)| (word, rest.len()))
        };
        let most = LONGEST - HEAD;
        assert_eq!(said(3, 3), Some((Word::Message { length: 3 }, 3)));
        assert_eq!(said(1 << 40, most), Some((Word::Message { length: 1 << 40 }, most)));
        assert_eq!([said(3, 2), said(3, 4), said(1 << 40, most - 1)], [None; 3]);
        assert_eq!(Word::parse(&Word::Ask(5).to_bytes()[..HEAD - 1]), None);
    }
}
