//! Which rank gets which domain, so that as many bytes as possible are there already: the linear assignment problem, by
//! the Hungarian method (H. W. Kuhn, *The Hungarian method for the assignment problem*, 1955; in the form with
//! potentials and shortest augmenting paths). `[tpc §2]` names it as what locality-aware two-phase I/O solves.

use super::group::Rank;

/// The rank of each domain; `shares[rank][domain]` are the bytes that a rank has of a domain, in as many domains as
/// there are ranks. Every rank finds the same. Costs O(n³) steps.
pub(super) fn assign(shares: &[Vec<u64>]) -> Vec<Rank> {
    let size = shares.len();
    let mut search = Search::new(size);
    for rank in 1..=size {
        search.place(rank, |rank, domain| -i128::from(shares[rank - 1][domain - 1]));
    }
    search.rank_of[1..].iter().map(|rank| Rank(*rank as u32 - 1)).collect()
}

/// Ranks and domains are counted from 1 here; 0 stands for none.
struct Search {
    /// The potential of each rank, and of each domain.
    ranks: Vec<i128>,
    domains: Vec<i128>,
    rank_of: Vec<usize>,
}

impl Search {
    fn new(size: usize) -> Search {
        let zeros = vec![0; size + 1];
        Search { ranks: zeros.clone(), domains: zeros, rank_of: vec![0; size + 1] }
    }

    /// Gives `rank` a domain, and moves others to where this costs least.
    fn place(&mut self, rank: usize, cost: impl Fn(usize, usize) -> i128) {
        let size = self.rank_of.len() - 1;
        let (mut least, mut before) = (vec![i128::MAX; size + 1], vec![0; size + 1]);
        let mut is_used = vec![false; size + 1];
        self.rank_of[0] = rank;
        let mut domain = 0;
        while self.rank_of[domain] != 0 {
            is_used[domain] = true;
            let row = self.rank_of[domain];
            let (mut step, mut next) = (i128::MAX, 0);
            for other in (1..=size).filter(|other| !is_used[*other]) {
                let reduced = cost(row, other) - self.ranks[row] - self.domains[other];
                if reduced < least[other] {
                    (least[other], before[other]) = (reduced, domain);
                }
                if least[other] < step {
                    (step, next) = (least[other], other);
                }
            }
            for other in 0..=size {
                if is_used[other] {
                    self.ranks[self.rank_of[other]] += step;
                    self.domains[other] -= step;
                } else if other > 0 {
                    least[other] -= step;
                }
            }
            domain = next;
        }
        while domain != 0 {
            self.rank_of[domain] = self.rank_of[before[domain]];
            domain = before[domain];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The most bytes that any assignment leaves where they are, by trying all of them.
    fn most(shares: &[Vec<u64>], domain: usize, taken: &mut Vec<bool>) -> u64 {
        if domain == shares.len() {
            return 0;
        }
        let mut best = 0;
        for rank in 0..shares.len() {
            if !std::mem::replace(&mut taken[rank], true) {
                best = best.max(shares[rank][domain] + most(shares, domain + 1, taken));
                taken[rank] = false;
            }
        }
        best
    }

    proptest! {
        #[test]
        fn no_assignment_leaves_more_bytes_where_they_are(size in 1_usize..7, numbers in prop::collection::vec(prop_oneof![Just(0), 0_u64..20, any::<u64>()], 49)) {
            let shares: Vec<Vec<u64>> = numbers.chunks(7).take(size).map(|row| row[..size].iter().map(|n| n / 64).collect()).collect();
            let ranks = assign(&shares);
            let mut sorted: Vec<usize> = ranks.iter().map(|rank| rank.index()).collect();
            let found: u64 = sorted.iter().enumerate().map(|(domain, rank)| shares[*rank][domain]).sum();
            prop_assert_eq!(found, most(&shares, 0, &mut vec![false; size]));
            sorted.sort_unstable();
            prop_assert_eq!(sorted, (0..size).collect::<Vec<_>>());
        }
    }
}
