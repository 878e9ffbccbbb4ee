//! File domains: which rank, the **aggregator**, collects which bytes of the file. Stages 3 and 4.

use super::group::Rank;
use super::pieces::{Pieces, PiecesBuilder};
use super::shape::FileShape;
use crate::distribution::{Distribution, Extent};

/// How a file is shared out among aggregators.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Domains {
    /// All subfiles of an I/O node are one domain: a job has one session to each I/O node, however many ranks it has.
    #[default]
    BySubfile,
    /// The range from the first to the last byte of the call in as many equal parts as there are ranks, in their order.
    /// `[tpc §3]`
    ByRange,
    /// The same parts, each given to a rank such that as many bytes as possible need not travel.
    ByOwner,
}

/// The domains of one call.
#[derive(Debug, Clone)]
pub(super) struct FileDomains {
    cut: Cut,
    /// The aggregator of each subfile, or of each range.
    aggregators: Vec<Rank>,
}

#[derive(Debug, Clone)]
enum Cut {
    Subfiles(Distribution),
    Ranges { start: u64, width: u64 },
}

impl FileDomains {
    pub(super) fn by_subfile(shape: &FileShape, size: usize) -> FileDomains {
        let distribution = *shape.distribution();
        let aggregators = distribution.subfiles().map(|subfile| shape.keeper(subfile, size)).collect();
        FileDomains { cut: Cut::Subfiles(distribution), aggregators }
    }

    /// The bytes from `start` to `end` in one part for each rank; the last ones are shorter where it does not come out
    /// even.
    pub(super) fn by_range(start: u64, end: u64, size: usize) -> FileDomains {
        // What other ranks announce is not to be relied on.
        let width = end.saturating_sub(start).div_ceil(size as u64).max(1);
        FileDomains { cut: Cut::Ranges { start, width }, aggregators: Rank::all(size).collect() }
    }

    /// The same domains with other aggregators.
    pub(super) fn with_aggregators(self, aggregators: Vec<Rank>) -> FileDomains {
        debug_assert_eq!(aggregators.len(), self.aggregators.len(), "one for each domain");
        FileDomains { aggregators, ..self }
    }

    pub(super) fn aggregators(&self) -> Vec<Rank> {
        let mut ranks = self.aggregators.clone();
        ranks.sort_unstable();
        ranks.dedup();
        ranks
    }

    /// What of `pieces` belongs to each rank of a group of `size`: stage 4. Costs a step for each piece and each border
    /// between domains that one crosses.
    pub(super) fn split(&self, pieces: &Pieces, size: usize) -> Vec<Pieces> {
        let mut parts: Vec<PiecesBuilder> = Rank::all(size).map(|_| PiecesBuilder::default()).collect();
        self.each(pieces, |domain, extent| parts[self.aggregators[domain].index()].push(extent));
        parts.into_iter().map(PiecesBuilder::finish).collect()
    }

    /// The bytes of `pieces` in each domain.
    pub(super) fn shares(&self, pieces: &Pieces) -> Vec<u64> {
        let mut shares = vec![0; self.aggregators.len()];
        self.each(pieces, |domain, extent| shares[domain] += extent.length());
        shares
    }

    fn each(&self, pieces: &Pieces, mut part: impl FnMut(usize, Extent)) {
        // With one aggregator there is no border that counts.
        let is_one = self.aggregators.iter().all(|rank| *rank == self.aggregators[0]);
        let mut walk = pieces.walk();
        while let Some(piece) = walk.cut(u64::MAX) {
            let mut at = piece.offset();
            while at < piece.end() {
                let (domain, border) = self.domain(at);
                let end = if is_one { piece.end() } else { border.min(piece.end()) };
                part(domain, Extent::between(at, end));
                at = end;
            }
        }
    }

    /// The domain of a byte, and where the next domain begins behind it.
    #[inline]
    fn domain(&self, offset: u64) -> (usize, u64) {
        match &self.cut {
            Cut::Subfiles(distribution) => {
                let unit = distribution.stripe_unit().bytes();
                let stripe = offset / unit;
                let subfile = (stripe % distribution.subfile_count() as u64) as usize;
                (subfile, (stripe + 1).saturating_mul(unit))
            }
            Cut::Ranges { start, width } => {
                let range = (offset - start) / width;
                (range as usize, (range + 1).saturating_mul(*width).saturating_add(*start))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::pieces::pieces;
    use super::*;
    use crate::distribution::StripeUnit;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_byte_belongs_to_the_aggregator_of_its_subfile(unit in 1_u64..30, subfiles in 1_usize..7, size in 1_usize..9, list in prop::collection::vec((1_u64..40, 1_u64..60), 1..20)) {
            let name: String = (0..subfiles).map(|i| format!("io{},f{i};", i % 3)).collect();
            let shape = FileShape::new(&name.parse().expect("a right name"), StripeUnit::new(unit)?)?;
            let mut at = 0;
            let list: Vec<(u64, u64)> = list.into_iter().map(|(gap, length)| {
                let start = at + gap;
                at = start + length;
                (start, at)
            }).collect();
            let all = pieces(&list);
            let by_subfile = FileDomains::by_subfile(&shape, size);
            let by_range = FileDomains::by_range(list[0].0, at, size);
            let width = (at - list[0].0).div_ceil(size as u64);
            for (domains, is_by_subfile) in [(by_subfile, true), (by_range, false)] {
                let parts = domains.split(&all, size);
                prop_assert_eq!(parts.iter().map(Pieces::bytes).sum::<u64>(), all.bytes());
                for (rank, part) in parts.iter().enumerate() {
                    let mut walk = part.walk();
                    let bytes = std::iter::from_fn(|| walk.cut(u64::MAX)).flat_map(|piece| piece.offset()..piece.end());
                    for offset in bytes {
                        let expected = match is_by_subfile {
                            true => shape.keeper(shape.distribution().locate(offset).subfile, size),
                            false => Rank(((offset - list[0].0) / width) as u32),
                        };
                        prop_assert_eq!(Rank(rank as u32), expected);
                    }
                }
            }
        }
    }

    #[test]
    fn equal_parts_of_the_papers_mesh_end_with_its_nodes() {
        // 47,200 nodes of 4 bytes times the load are cut into whole nodes for 4, 8, 16 and 32 processes.
        for (size, load) in [(4, 100), (8, 200), (16, 500), (32, 1_000)] {
            let node = 4 * load;
            let domains = FileDomains::by_range(0, 47_200 * node, size);
            let all = pieces(&[(0, 47_200 * node)]);
            assert!(
                domains
                    .shares(&all)
                    .iter()
                    .all(|share| share % node == 0 && *share == 47_200 * node / size as u64)
            );
        }
    }
}
