//! Block lengths that have been asked before: a sweep asks for millions, of which few differ.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock};

use crate::block::{BlockError, BlockLaw};

/// The steps that a table remembers at most, some 48 bytes each. Blocks of thousands of source packets have more
/// steps than that; losses on steps beyond it are asked anew each time.
const MOST_STEPS: usize = 1 << 20;

/// Anything that knows how long blocks must be: the law itself, or a table of what it said.
pub trait BlockLengths {
    /// FEC(M, p), see [`BlockLaw::block_length`].
    fn block_length(&self, loss: f64) -> Result<u32, BlockError>;
}

impl BlockLengths for BlockLaw {
    fn block_length(&self, loss: f64) -> Result<u32, BlockError> {
        Self::block_length(self, loss)
    }
}

/// What a [`BlockLaw`] has said so far. No loss is asked twice (except by two threads at one moment), and most losses
/// are never asked.
///
/// FEC(M, p) rises in steps with p, so a loss between two that gave the same length gives it, too. The table keeps the
/// two ends of what it knows of each step. It grows with the number of steps, not with that of the questions, and may
/// be asked from several threads.
///
/// ```
/// use ror::{BlockLaw, BlockLengths, CostTable};
///
/// let table = CostTable::new(BlockLaw::new(20, 1e-5)?);
/// for loss in [0.2, 0.19, 0.195, 0.2] {
///     assert_eq!(table.block_length(loss)?, table.law().block_length(loss)?);
/// }
/// assert!(table.asked() < 4);
/// # Ok::<(), ror::BlockError>(())
/// ```
#[derive(Debug)]
pub struct CostTable {
    law: BlockLaw,
    known: RwLock<Steps>,
}

#[derive(Debug, Default)]
struct Steps {
    /// For each step, keyed by the bits of the smallest loss that is known of it (the bits of positive numbers are in
    /// the order of the numbers): the largest loss that is known of it, and the length.
    by_least: BTreeMap<u64, (f64, u32)>,
    asked: u64,
}

impl CostTable {
    /// A table that knows nothing yet.
    pub fn new(law: BlockLaw) -> Self {
        Self { law, known: RwLock::default() }
    }

    /// The law that the table asks.
    pub fn law(&self) -> &BlockLaw {
        &self.law
    }

    /// How often the law was asked.
    pub fn asked(&self) -> u64 {
        self.known.read().unwrap_or_else(PoisonError::into_inner).asked
    }
}

impl BlockLengths for CostTable {
    fn block_length(&self, loss: f64) -> Result<u32, BlockError> {
        // Minus zero is a loss of zero, but its bits are not in order.
        let loss = if loss == 0.0 { 0.0 } else { loss };
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner).length(loss);
        if let Some(length) = known {
            return Ok(length);
        }
        let length = self.law.block_length(loss)?;
        self.known.write().unwrap_or_else(PoisonError::into_inner).learn(loss, length);
        Ok(length)
    }
}

impl Steps {
    fn length(&self, loss: f64) -> Option<u32> {
        let (_, &(most, length)) = self.by_least.range(..=loss.to_bits()).next_back()?;
        (loss <= most).then_some(length)
    }

    fn learn(&mut self, loss: f64, length: u32) {
        self.asked += 1;
        let bits = loss.to_bits();
        if let Some((_, (most, known))) = self.by_least.range_mut(..=bits).next_back()
            && *known == length
        {
            *most = most.max(loss);
            return;
        }
        let above = self.by_least.range(bits..).next().map(|(&least, &step)| (least, step));
        match above {
            Some((least, (most, known))) if known == length => {
                self.by_least.remove(&least);
                self.by_least.insert(bits, (most, length));
            }
            _ if self.by_least.len() < MOST_STEPS => {
                self.by_least.insert(bits, (loss, length));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_what_the_law_says_and_asks_it_at_most_once_for_each_loss() {
        let law = BlockLaw::new(20, 1e-5).unwrap();
        let table = CostTable::new(law);
        // A fixed walk over (0, 0.9) that comes back to each loss.
        let losses: Vec<f64> = (0..5_000_u64).map(|k| (k * 7_919 % 5_000) as f64 * 0.9 / 5_000.0).collect();
        for _ in 0..2 {
            for &loss in &losses {
                assert_eq!(table.block_length(loss), law.block_length(loss), "{loss}");
            }
        }
        let steps = law.block_length(0.9).unwrap() - 20;
        let asked = table.asked();
        // At least once for each step; both ends of a step move outwards a few times only.
        assert!(asked >= u64::from(steps) / 2 && asked < losses.len() as u64, "{asked} of {}", losses.len());
        let known = table.known.read().unwrap().by_least.len();
        assert!(known <= steps as usize + 1, "{known} entries for {steps} steps");
    }

    #[test]
    fn what_the_law_refuses_is_refused() {
        let table = CostTable::new(BlockLaw::new(1, 0.1).unwrap());
        assert!(matches!(table.block_length(1.0), Err(BlockError::BadLoss { .. })));
        assert!(matches!(table.block_length(f64::NAN), Err(BlockError::BadLoss { .. })));
        assert_eq!(table.block_length(-0.0), Ok(1));
        assert_eq!(table.block_length(0.0), Ok(1));
    }
}
