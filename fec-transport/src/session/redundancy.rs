//! How many symbols of a block are sent at once, and how many to repair it with.

use std::sync::Arc;

use ror::BlockLaw;

use super::code::{ENCODING_IDS, MAX_SOURCE_SYMBOLS};
use crate::config::Coding;

/// Blocks below so many symbols are messages that somebody waits for.
const SMALL_BLOCK: usize = 8;

/// A table of how many symbols to send of a block with K source symbols.
#[derive(Debug, Clone)]
pub(crate) struct Redundancy {
    initial: Arc<[u16]>,
}

impl Redundancy {
    /// Static redundancy: the block-length law [theory §2] for the configured tolerance and residual.
    pub(crate) fn new(coding: &Coding) -> Redundancy {
        let initial = (1..=MAX_SOURCE_SYMBOLS).map(|k| initial_symbols(k, coding)).collect();
        Redundancy { initial }
    }

    /// How many symbols of a block with `source_symbols` are sent before anything is known of it.
    pub(crate) fn initial(&self, source_symbols: usize) -> u16 {
        self.initial[source_symbols - 1]
    }
}

/// How many further symbols to send for a block that lacks `deficit`, if packets are lost with probability `loss`.
///
/// The first repair allows for the expected loss; each later `round` adds one more symbol, because by then waiting
/// costs more than bytes.
pub(crate) fn repair_symbols(deficit: usize, loss: f64, round: u8) -> usize {
    let expected = (deficit as f64 / (1.0 - loss.min(0.9))).ceil() as usize;
    expected + usize::from(round)
}

fn initial_symbols(source_symbols: usize, coding: &Coding) -> u16 {
    let residual = if source_symbols < SMALL_BLOCK { coding.small_residual } else { coding.residual };
    let symbols = BlockLaw::new(source_symbols as u32, residual)
        .and_then(|law| law.block_length(coding.tolerance))
        .expect("the configured tolerance is below 1 and the residual above 0");
    u16::try_from(symbols).unwrap_or(u16::MAX).min(ENCODING_IDS as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_block_is_protected_more_than_a_full_one() {
        let redundancy = Redundancy::new(&Coding::default());
        assert_eq!(redundancy.initial(1), 2);
        let full = redundancy.initial(32);
        assert!((33..=35).contains(&full), "{full}");
    }

    #[test]
    fn repair_allows_for_loss_and_grows_with_the_rounds() {
        assert_eq!(repair_symbols(4, 0.0, 0), 4);
        assert_eq!(repair_symbols(4, 0.2, 0), 5);
        assert_eq!(repair_symbols(4, 0.2, 3), 8);
    }
}
