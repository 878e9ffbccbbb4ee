//! How the symbols of a block are shared out among the paths.

use super::path::PathId;

/// Shares out symbols by the paths' weights, to the nearest symbol within each block; what rounding leaves over is
/// carried from block to block, so that the shares hold in the long run too (design §6, largest remainder).
#[derive(Debug, Clone, Default)]
pub(crate) struct Spread {
    /// What each path is owed, in symbols.
    carried: Vec<(PathId, f64)>,
}

impl Spread {
    /// Gives each path its quota of `symbols`; the quotas sum to `symbols` unless there is no path.
    ///
    /// A block with no more symbols than paths puts at most one on each: a message must not be lost with one path.
    pub(crate) fn quotas(&mut self, symbols: u16, weights: &[(PathId, f64)]) -> Vec<(PathId, u16)> {
        let total: f64 = weights.iter().map(|(_, weight)| weight).sum();
        if total <= 0.0 {
            return Vec::new();
        }
        self.carried.retain(|(path, _)| weights.iter().any(|(id, _)| id == path));
        let at_most = if usize::from(symbols) <= weights.len() { 1 } else { symbols };
        let mut due: Vec<(PathId, f64)> =
            weights.iter().map(|(id, w)| (*id, self.carried(*id) + f64::from(symbols) * w / total)).collect();
        let mut quotas: Vec<(PathId, u16)> =
            due.iter().map(|(id, due)| (*id, (due.floor().max(0.0) as u16).min(at_most))).collect();
        cap(&mut quotas, symbols);
        let mut left = symbols - quotas.iter().map(|(_, quota)| quota).sum::<u16>();
        while left > 0 {
            let remainder = |index: usize| due[index].1 - f64::from(quotas[index].1);
            let open = (0..quotas.len()).filter(|index| quotas[*index].1 < at_most);
            let Some(largest) = open.max_by(|a, b| remainder(*a).total_cmp(&remainder(*b))) else { break };
            quotas[largest].1 += 1;
            left -= 1;
        }
        for ((_, due), (_, quota)) in due.iter_mut().zip(&quotas) {
            // A path that could not be served for long is not served all at once later.
            *due = (*due - f64::from(*quota)).clamp(-4.0, 4.0);
        }
        self.carried = due;
        quotas
    }

    fn carried(&self, path: PathId) -> f64 {
        self.carried.iter().find(|(id, _)| *id == path).map_or(0.0, |(_, carried)| *carried)
    }
}

/// Takes what exceeds `symbols` in all off the last quotas.
fn cap(quotas: &mut [(PathId, u16)], symbols: u16) {
    let mut left = symbols;
    for (_, quota) in quotas {
        *quota = (*quota).min(left);
        left -= *quota;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn quotas_sum_to_the_block_and_follow_the_weights(
            weights in proptest::collection::vec(1u32..100, 1..9), blocks in proptest::collection::vec(1u16..60, 20..60),
        ) {
            let total: u32 = weights.iter().sum();
            let weights: Vec<_> =
                weights.iter().enumerate().map(|(i, w)| (PathId(i as u32), f64::from(*w))).collect();
            let (mut spread, mut sent) = (Spread::default(), vec![0u32; weights.len()]);
            let large = |symbols: &&u16| usize::from(**symbols) > weights.len();
            for symbols in blocks.iter().filter(large) {
                let quotas = spread.quotas(*symbols, &weights);
                prop_assert_eq!(quotas.iter().map(|(_, q)| q).sum::<u16>(), *symbols);
                for (path, quota) in quotas {
                    sent[path.0 as usize] += u32::from(quota);
                }
            }
            let all: u32 = blocks.iter().filter(large).map(|symbols| u32::from(*symbols)).sum();
            for (path, weight) in &weights {
                let fair = f64::from(all) * weight / f64::from(total);
                prop_assert!((f64::from(sent[path.0 as usize]) - fair).abs() < 5.0);
            }
        }

        #[test]
        fn a_small_block_never_puts_two_symbols_on_one_path(paths in 2u32..9, blocks in 1usize..50) {
            let weights: Vec<_> = (0..paths).map(|i| (PathId(i), 1.0 + f64::from(i * i))).collect();
            let mut spread = Spread::default();
            for _ in 0..blocks {
                let quotas = spread.quotas(2, &weights);
                prop_assert!(quotas.iter().all(|(_, quota)| *quota <= 1));
                prop_assert_eq!(quotas.iter().map(|(_, quota)| quota).sum::<u16>(), 2);
            }
        }
    }

    #[test]
    fn without_a_path_there_are_no_quotas() {
        assert!(Spread::default().quotas(5, &[]).is_empty());
    }
}
