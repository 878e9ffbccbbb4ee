//! Which process has which part of a file, so that the rows of the sharing tables come out.

use super::card::Card;
use super::deck::Chance;
use crate::record::Spread;

/// The block of the file system that was traced.
pub(super) const BLOCK: u64 = 30_208;

/// Parts of a file for processes: part i begins at i times `unit` and has `length` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parts {
    pub(super) count: u64,
    pub(super) unit: u64,
    pub(super) length: u64,
}

/// The shared share of the bytes, and of the blocks, that is aimed at.
fn aims(card: &Card, chance: &mut Chance) -> (f64, f64) {
    let within = |low: f64, high: f64, chance: &mut Chance| low + (high - low) * chance.share();
    let block = match card.block_row {
        0 => 0.0,
        1 => within(0.003, 0.008, chance),
        2 => within(0.1, 0.4, chance),
        3 => within(0.6, 0.9, chance),
        _ => 1.0,
    };
    let byte = match card.byte_row {
        0 => 0.0,
        1 => (block / 3.0).min(0.005),
        2 => (block * within(0.3, 0.5, chance)).min(0.4),
        3 => (block * 0.75).clamp(0.55, 0.9),
        4 => 0.995,
        _ => 1.0,
    };
    (byte, block)
}

/// How a job as a whole deals out the bytes of a file of about `size` bytes.
pub(super) fn spread(card: &Card, size: u64, chance: &mut Chance) -> Spread {
    let (byte, block) = aims(card, chance);
    let dealt = |unit: f64, share: f64| {
        let unit = (unit as u64).max(1);
        // What is not 0 has at least one byte, what is not all leaves at least one out.
        let overlap = ((unit as f64 * share).round() as u64).clamp(u64::from(share > 0.0), unit);
        Spread::Dealt { unit, overlap: if share < 1.0 { overlap.min(unit - 1) } else { overlap } }
    };
    match (card.byte_row, card.block_row) {
        (5, _) => Spread::Whole,
        (_, 0) => Spread::Dealt { unit: 1 << 50, overlap: 0 },
        // Pieces a little longer than blocks: each block but the first has one boundary.
        (_, 4) => dealt((BLOCK + (BLOCK / 2 / size.div_ceil(BLOCK)).max(1)) as f64, byte),
        (1, 5) => dealt(chance.between(200, 400) as f64, byte),
        (_, 5) => dealt(chance.between(24, 48) as f64, byte),
        _ => dealt(BLOCK as f64 / (block - byte).max(1e-6), byte),
    }
}

/// How processes share a file of about `size` bytes.
pub(super) fn parts(card: &Card, size: u64, chance: &mut Chance) -> Parts {
    let (byte, block) = aims(card, chance);
    let blocks = size as f64 / BLOCK as f64;
    let one = Parts { count: 1, unit: size, length: size };
    match (card.byte_row, card.block_row) {
        (5, _) => Parts { count: 2, unit: 0, length: size },
        (_, 0) => one,
        (0, 1) => Parts { count: 2, unit: size / 2, length: size / 2 },
        (_, 1) => overlapped(2, size, byte),
        // Parts of one and a half blocks that reach nine tenths of a block further: of an even number of them only the
        // first block and the last one are touched by one process.
        (3, 4) => Parts { count: (blocks / 1.5) as u64 & !1, unit: BLOCK * 3 / 2, length: BLOCK * 24 / 10 },
        (_, 4) => {
            // Parts a little shorter than blocks: each block but the last one has a boundary.
            let unit = BLOCK - (BLOCK / 2 / (blocks as u64).max(1)).max(1);
            let overlap = (unit as f64 * byte) as u64;
            Parts { count: size / unit, unit, length: unit + overlap }
        }
        (_, 5) => overlapped(2, size, byte),
        _ => {
            let boundaries = ((block - byte).max(0.0) * blocks).round().max(1.0) as u64;
            overlapped(boundaries + 1, size, byte)
        }
    }
}

/// So many parts, with so much of the file in two of them.
fn overlapped(count: u64, size: u64, share: f64) -> Parts {
    let overlap = (size as f64 * share / (count - 1) as f64) as u64;
    // Behind the last part's unit comes its overlap: together they end at the size.
    let unit = (size - overlap.min(size - 1)) / count;
    Parts { count, unit: unit.max(1), length: unit.max(1) + overlap }
}
