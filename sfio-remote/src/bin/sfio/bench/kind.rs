//! What a bench writes: bytes that shrink more or less.

use bytes::Bytes;
use sfio_remote::sim::Dice;

use super::pattern::bytes_that_do_not_shrink;

/// What the bytes are like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub(super) enum Kind {
    /// Bytes that do not shrink
    #[default]
    Random,
    /// 32-bit integers that go up in small steps
    Integers,
    /// 64-bit floats of a smooth field
    Floats,
    /// Words
    Text,
    /// Zeros
    Zeros,
}

/// Of which text is made.
const WORDS: [&str; 24] = [
    "the", "of", "and", "to", "a", "in", "that", "file", "was", "his", "network", "with", "stripe", "for",
    "as", "had", "you", "not", "be", "path", "on", "at", "session", "which",
];

impl Kind {
    /// So many bytes.
    pub(super) fn bytes(self, size: u64) -> Bytes {
        let length = size as usize;
        match self {
            Kind::Random => bytes_that_do_not_shrink(size),
            Kind::Zeros => vec![0; length].into(),
            Kind::Integers => {
                let mut value = 0_u32;
                fill(length, |dice| {
                    value = value.wrapping_add(dice.below(200) as u32);
                    value.to_le_bytes().to_vec()
                })
            }
            Kind::Floats => {
                let mut place = 0.0_f64;
                fill(length, |dice| {
                    place += 1e-3;
                    // Measured to one part in ten million.
                    let field = place.sin() * 300.0 + dice.below(1_000) as f64 * 1e-5;
                    ((field * 1e5).round() / 1e5).to_le_bytes().to_vec()
                })
            }
            Kind::Text => fill(length, |dice| {
                // The lower of two draws: some words are more usual than others.
                let word = WORDS[dice.below(WORDS.len()).min(dice.below(WORDS.len()))];
                let end = if dice.one_in(97) { ".\n" } else { " " };
                [word.as_bytes(), end.as_bytes()].concat()
            }),
        }
    }
}

/// Pieces one behind the other.
fn fill(length: usize, mut piece: impl FnMut(&mut Dice) -> Vec<u8>) -> Bytes {
    let (mut bytes, mut dice) = (Vec::with_capacity(length + 16), Dice::new(1));
    while bytes.len() < length {
        bytes.extend(piece(&mut dice));
    }
    bytes.truncate(length);
    bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_so_many_bytes_and_they_shrink_as_it_says() {
        let packed = |kind: Kind| {
            let bytes = kind.bytes(200_001);
            assert_eq!(bytes.len(), 200_001);
            zstd::bulk::compress(&bytes, 1).expect("in memory").len() as f64 / bytes.len() as f64
        };
        assert!(packed(Kind::Random) > 0.99);
        assert!(packed(Kind::Zeros) < 0.001);
        for kind in [Kind::Integers, Kind::Floats, Kind::Text] {
            assert!((0.1..0.9).contains(&packed(kind)), "{kind:?}: {}", packed(kind));
        }
    }
}
