//! How the symbols of a block are shared out among the paths.

use super::paths::PathId;
use super::redundancy::PathOutlook;
use crate::crypto::random::Random;

/// Shares out symbols by the paths' shares, to the nearest symbol within each block; what rounding leaves over goes
/// from path to path, so that the shares hold in the long run too (design §6, largest remainder).
#[derive(Debug, Clone, Default)]
pub(crate) struct Spread {
    /// What each path is owed, in symbols.
    carried: Vec<(PathId, f64)>,
}

impl Spread {
    /// Gives each path its quota of `symbols`: its share of them, rounded down or up. The quotas sum to `symbols`
    /// unless there is no path.
    ///
    /// A block with no more symbols than paths puts at most one on each: a message must not be lost with one path.
    pub(crate) fn quotas(&mut self, symbols: u16, paths: &[PathOutlook]) -> Vec<(PathId, u16)> {
        if paths.is_empty() {
            return Vec::new();
        }
        let total: f64 = paths.iter().map(|path| path.share).sum();
        let at_most_one = usize::from(symbols) <= paths.len();
        let exact = |path: &PathOutlook| f64::from(symbols) * path.share / total;
        let mut quotas: Vec<(PathId, u16)> = paths
            .iter()
            .map(|path| (path.id, if at_most_one { 0 } else { (exact(path) + 1e-9).floor() as u16 }))
            .collect();
        let mut due: Vec<(PathId, f64)> = paths
            .iter()
            .zip(&quotas)
            .map(|(path, (_, quota))| (path.id, self.carried(path.id) + exact(path) - f64::from(*quota)))
            .collect();
        // Whose share is whole gets no more than that.
        let is_whole = |index: &usize| exact(&paths[*index]) - f64::from(quotas[*index].1) < 1e-9;
        let mut order: Vec<usize> = (0..due.len()).filter(|index| !is_whole(index)).collect();
        order.sort_by(|a, b| due[*b].1.total_cmp(&due[*a].1));
        let left = symbols - quotas.iter().map(|(_, quota)| quota).sum::<u16>();
        for index in order.into_iter().take(usize::from(left)) {
            quotas[index].1 += 1;
            due[index].1 -= 1.0;
        }
        // A path that could not be served for long is not served all at once later.
        due.iter_mut().for_each(|(_, due)| *due = due.clamp(-16.0, 16.0));
        self.carried = due;
        quotas
    }

    fn carried(&self, path: PathId) -> f64 {
        self.carried.iter().find(|(id, _)| *id == path).map_or(0.0, |(_, carried)| *carried)
    }
}

/// Lets each of `symbols` draw its path by the paths' shares: the spreading that the thesis's law assumes.
pub(crate) fn random_quotas(symbols: u16, paths: &[PathOutlook], random: &mut Random) -> Vec<(PathId, u16)> {
    let total: f64 = paths.iter().map(|path| path.share).sum();
    let mut quotas: Vec<(PathId, u16)> = paths.iter().map(|path| (path.id, 0)).collect();
    for _ in 0..if paths.is_empty() { 0 } else { symbols } {
        let mut point = random.fraction() * total;
        let index = paths.iter().position(|path| {
            point -= path.share;
            point < 0.0
        });
        quotas[index.unwrap_or(paths.len() - 1)].1 += 1;
    }
    quotas
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn paths(weights: &[u32]) -> Vec<PathOutlook> {
        let total: u32 = weights.iter().sum();
        let path = |(id, weight): (usize, &u32)| PathOutlook {
            id: PathId(id as u32),
            share: f64::from(*weight) / f64::from(total),
            loss: 0.0,
            dispersion: 1.0,
            links: Vec::new(),
        };
        weights.iter().enumerate().map(path).collect()
    }

    proptest! {
        #[test]
        fn quotas_sum_to_the_block_and_follow_the_shares_in_each_block_and_in_the_long_run(
            weights in proptest::collection::vec(1u32..100, 1..9), blocks in proptest::collection::vec(1u16..60, 20..60),
        ) {
            let paths = paths(&weights);
            let (mut spread, mut sent) = (Spread::default(), vec![0u32; paths.len()]);
            let large = |symbols: &&u16| usize::from(**symbols) > paths.len();
            for symbols in blocks.iter().filter(large) {
                let quotas = spread.quotas(*symbols, &paths);
                prop_assert_eq!(quotas.iter().map(|(_, q)| q).sum::<u16>(), *symbols);
                for ((id, quota), path) in quotas.into_iter().zip(&paths) {
                    prop_assert!((f64::from(quota) - f64::from(*symbols) * path.share).abs() < 1.0);
                    sent[id.0 as usize] += u32::from(quota);
                }
            }
            let all: u32 = blocks.iter().filter(large).map(|symbols| u32::from(*symbols)).sum();
            for (path, sent) in paths.iter().zip(sent) {
                prop_assert!((f64::from(sent) - f64::from(all) * path.share).abs() < 8.0);
            }
        }

        #[test]
        fn a_small_block_never_puts_two_symbols_on_one_path(count in 2u32..9, blocks in 1usize..50) {
            let paths = paths(&(0..count).map(|i| 1 + i * i).collect::<Vec<_>>());
            let mut spread = Spread::default();
            for _ in 0..blocks {
                let quotas = spread.quotas(2, &paths);
                prop_assert!(quotas.iter().all(|(_, quota)| *quota <= 1));
                prop_assert_eq!(quotas.iter().map(|(_, quota)| quota).sum::<u16>(), 2);
            }
        }

        #[test]
        fn random_quotas_sum_to_the_block(symbols in 0u16..200, weights in proptest::collection::vec(1u32..9, 0..5)) {
            let quotas = random_quotas(symbols, &paths(&weights), &mut Random::from_seed([1; 32]));
            let wanted = if weights.is_empty() { 0 } else { symbols };
            prop_assert_eq!(quotas.iter().map(|(_, quota)| quota).sum::<u16>(), wanted);
        }
    }

    #[test]
    fn random_quotas_follow_the_shares_in_the_mean() {
        let (paths, mut random) = (paths(&[1, 3]), Random::from_seed([2; 32]));
        let first: u32 = (0..1000).map(|_| u32::from(random_quotas(20, &paths, &mut random)[0].1)).sum();
        // The mean of 20,000 draws is 5,000 with a deviation of 61.
        assert!((4700..5300).contains(&first), "{first}");
    }
}
